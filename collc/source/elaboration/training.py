"""Elaboration of workloads, written in the language or in the text format of ASTRA-sim 1.0."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Final

from collc.base.diagnostics import SourceError, Span
from collc.base.reading import read_text
from collc.base.wording import did_you_mean, phrase
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.values import Frame
from collc.source.limits import MAX_BYTES, check_count
from collc.source.parsing.expressions import Binary, Call, Expr, Identifier, Name
from collc.source.parsing.syntax import Layer, LayerCollective, Loop, Repeat, Statement, Workload
from collc.source.problems import fail, unknown_name_error
from collc.source.types import BYTES, NUMBERS, TIME
from collc.ten import training
from collc.ten.training import LOOP_TIMES, LOOPS, LoopNode

COLUMNS: Final = 3 + 3 * len(training.PHASES)
_KINDS: Final = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
}


class WorkloadBuilder:
    """Elaborates one workload."""

    def __init__(self, node: Workload, context: FileContext) -> None:
        self.node = node
        self.context = context
        self.layers: list[training.TrainingLayer] = []
        self.loop: LoopNode | None = None

    def build(self) -> training.Workload:
        """The workload. Raises SourceError, or AlreadyReported for errors of its statements."""
        node, name, context = self.node, self.node.name, self.context
        given = {argument.key: argument.value for argument in node.arguments}
        sizes: list[int] = []
        for group in training.GROUPS:
            if group not in given:
                hint = f"write workload {name.name} (tensor: 16, data: 256)"
                message = f"the size of the '{group}' group of the workload is missing"
                raise fail("E0902", message, name.span, hint=hint)
            sizes.append(context.whole_number(given[group], context.root, f"'{group}'"))
            if sizes[-1] < 1:
                raise fail("E0902", f"'{group}' must be at least 1", given[group].span)
        for argument in node.arguments:
            if argument.key not in training.GROUPS:
                hint = did_you_mean(argument.key, training.GROUPS, "write (tensor: 16, data: 256)")
                raise fail("E0902", "the arguments of a workload are 'tensor' and 'data'", argument.span, hint=hint)
        if node.path is not None:
            path = node.path.value
            self.layers = read_layers(Path(context.file.folder) / path, path, node.path.span)
        context.run_body(node.body, self.statement)
        if not self.layers:
            raise fail("E0903", f"workload '{name.name}' has no layers", name.span)
        tensor, data = sizes
        return training.Workload(name.name, tensor, data, self.loop or LOOPS["no_overlap"], tuple(self.layers))

    def statement(self, node: Statement, frame: Frame) -> None:
        """Execute a `layer`, `repeat` or `loop` statement. Raises SourceError."""
        match node:
            case Repeat():
                count = self.context.whole_number(node.count, frame, "a repetition")
                if count < 0:
                    raise fail("E0904", f"{count} repetitions are not possible", node.count.span)
                before = len(self.layers)
                self.context.run_statements(node.body, frame.inner(), self.statement)
                added = self.layers[before:]
                check_count("statements of a schedule", before + count * len(added), node.span)
                self.layers = self.layers[:before] + added * count
            case Layer():
                self.layers.append(self.layer(node, frame))
            case Loop():
                if self.loop is not None:
                    raise fail("E0905", "a workload takes one 'loop' statement", node.span)
                self.loop = loop_node(node.time, frame, self.context)
            case _:
                raise AssertionError(node)  # the grammar has no other

    def layer(self, node: Layer, frame: Frame) -> training.TrainingLayer:
        """`layer (forward: 1.5ms) { forward tensor all_reduce 64MiB }`."""
        times = {name: Fraction(0) for name in training.PHASES}
        for argument in node.times:
            name = argument.key
            if name not in times:
                hint = did_you_mean(name, times, f"there are {phrase(times)}")
                message = f"a layer has no time '{name}'" if name else "the time of a layer needs a name"
                raise fail("E0904", message, argument.span, hint=hint)
            times[name] = Fraction(self.context.coerce(argument.value, frame, TIME, f"'{name}'").data)
            if times[name] < 0:
                raise fail("E0904", "a time must not be negative", argument.value.span)
        traffic: list[training.LayerTraffic] = []
        for collective in node.collectives:
            with self.context.program.problems.collect():
                traffic.append(self.collective(collective, frame))
        forward, inputs, weights = times.values()
        return training.TrainingLayer(f"layer{len(self.layers)}", (forward, inputs, weights), tuple(traffic))

    def collective(self, node: LayerCollective, frame: Frame) -> training.LayerTraffic:
        """`forward tensor all_reduce 64MiB`."""
        for name, known, what in (
            (node.phase, training.PHASES, "phase"),
            (node.group, training.GROUPS, "group"),
            (node.collective, training.KINDS, "collective of a layer"),
        ):
            if name.name not in known:
                raise unknown_name_error("E0904", what, name.name, known, name.span)
        size = int(self.context.coerce(node.size, frame, BYTES, "a size").data)
        if size <= 0:
            raise fail("E0904", "the size of a collective must be more than 0", node.size.span)
        return training.LayerTraffic(node.phase.name, node.group.name, node.collective.name, size)


def read_layers(path: Path, name: str, at: Span) -> list[training.TrainingLayer]:
    """The layers of a workload file with 12 columns a line and no header. Raises SourceError with the line and column.

    at: the place of the name of the file in the program.
    """
    source = read_text(path, name, limit=MAX_BYTES, at=at)
    _check_is_workload(source.text, name, at)
    layers: list[training.TrainingLayer] = []
    start = 0
    for line in source.text.splitlines(keepends=True):
        words = [Span(source, start + m.start(), start + m.end()) for m in re.finditer(r"\S+", line)]
        if words:
            if len(words) != COLUMNS:
                raise _wrong_count(words)
            layers.append(_row(words))
        start += len(line)
    if not layers:
        raise fail("E0903", f"{name} has no layers", at)
    return layers


def _check_is_workload(text: str, name: str, at: Span) -> None:
    """Raise SourceError E0930 if the first line is that of no workload: a program may name any file of the machine
    on which it is compiled, and nothing of another file is shown.
    """
    first = next((words for line in text.splitlines() if (words := line.split())), None)
    if first is None:
        return
    if len(first) == COLUMNS:
        is_layer = any(_is_kind(word) for word in first[3::3][: len(training.PHASES)])
    else:
        # With a column too few or too many: numbers and collectives only, which are no secrets.
        is_layer = any(map(_is_kind, first[1:])) and all(_is_kind(word) or _is_decimal(word) for word in first[1:])
    if not is_layer:
        hint = f"a workload file has a layer in each line, in {COLUMNS} columns, and no header"
        raise fail("E0930", f"{name} is not a workload file", at, hint=hint)


def _is_kind(word: str) -> bool:
    return word.upper() == "NONE" or word.upper() in _KINDS


def _is_decimal(word: str) -> bool:
    return word.isascii() and word.removeprefix("-").replace(".", "", 1).isdigit()


def _wrong_count(words: list[Span]) -> SourceError:
    """Error E0907 at the first column that is a collective in place of a number or a number in place of a collective;
    if there is none, at the columns that are too many, or the last one.
    """
    hint = "name, dependency, then compute, collective, bytes of three phases, then the update delay"
    message = f"a layer has {COLUMNS} columns, but this line has {len(words)}"
    wanted = [k in (3, 6, 9) for k in range(COLUMNS)]
    misfits = [word for word, kind in zip(words, wanted, strict=False) if _is_kind(word.text) != kind]
    start = misfits[0] if misfits else words[min(COLUMNS, len(words) - 1)]
    end = start if misfits or len(words) < COLUMNS else words[-1]
    return fail("E0907", message, start.to(end), hint=hint)


def _row(words: list[Span]) -> training.TrainingLayer:
    """The layer of one line. Compute times are in nanoseconds; the update delay must be a number, and is not used."""
    if words[1].text != "-1":
        hint = "write -1: layers run in the order of their lines"
        raise fail("E0907", f"the dependency of a layer is -1, not '{words[1].text}'", words[1], hint=hint)
    _number(words[-1])
    times: list[Fraction] = []
    traffic: list[training.LayerTraffic] = []
    for k, phase in enumerate(training.PHASES):
        compute, kind, size = words[2 + 3 * k : 5 + 3 * k]
        times.append(1000 * _number(compute))
        amount = _number(size)
        if amount.denominator != 1:
            raise fail("E0907", f"'{size.text}' is not a whole number of bytes", size)
        if kind.text.upper() == "NONE":
            if amount:
                hint = "write NONE 0, or the collective"
                raise fail("E0907", f"'NONE' of {size.text} bytes", size, hint=hint)
            continue
        if kind.text.upper() not in _KINDS:
            hint = did_you_mean(kind.text.upper(), ["NONE", *_KINDS], f"there are NONE, {phrase(_KINDS)}")
            raise fail("E0907", f"unknown collective '{kind.text}'", kind, hint=hint)
        if not amount:
            raise fail("E0907", f"{kind.text} of 0 bytes", size, hint="write NONE if there is no collective")
        group = "data" if phase == "weight_gradient" else "tensor"
        traffic.append(training.LayerTraffic(phase, group, _KINDS[kind.text.upper()], int(amount)))
    forward, inputs, weights = times
    return training.TrainingLayer(words[0].text, (forward, inputs, weights), tuple(traffic))


def _number(word: Span) -> Fraction:
    text = word.text
    plain = text.isascii() and len(text) <= 40 and text.replace(".", "", 1).isdigit()
    if not plain and re.fullmatch(r"[0-9.]+[eE][+-]?[0-9]+", text):
        hint = "write all digits: 1500000 for 1.5e6"
        raise fail("E0907", f"numbers of workload files have no exponent, unlike '{text}'", word, hint=hint)
    if not plain:
        raise fail("E0907", f"'{text}' is not a number of 0 or more", word)
    return Fraction(text)


def loop_node(node: Expr, frame: Frame, evaluator: Evaluator) -> LoopNode:
    """The training loop of an expression. Raises SourceError E0905 for anything but sums, maxima and multiples."""
    match node:
        case Name(name=name) if name in LOOPS:
            return LOOPS[name]
        case Name(name=name) if name in LOOP_TIMES:
            return LoopNode("time", name=name)
        case Name(name=name):
            known = (*LOOPS, *LOOP_TIMES)
            hint = did_you_mean(name, known, f"there are {phrase(known)}")
            raise fail("E0905", f"a training loop has no time '{name}'", node.span, hint=hint)
        case Binary(operator="+"):
            return LoopNode("add", tuple(loop_node(operand, frame, evaluator) for operand in (node.left, node.right)))
        case Binary(operator="*", left=left):
            value = evaluator.value(left, frame)
            if value.type.kind not in NUMBERS or Fraction(value.data) < 0:
                raise fail("E0905", "a time is multiplied by a number of 0 or more", left.span)
            return LoopNode("scale", (loop_node(node.right, frame, evaluator),), factor=Fraction(value.data))
        case Call(function=Identifier(name="max" | "sum")):
            return _function_node(node, frame, evaluator)
        case _:
            hint = "write sums, max(...), sum(...) over all layers, and multiples: 2 * forward_compute"
            raise fail("E0905", "a training loop cannot contain this", node.span, hint=hint)


def _function_node(node: Call, frame: Frame, evaluator: Evaluator) -> LoopNode:
    """`max(a, b, ...)` or `sum(a)`."""
    name = node.function.name
    parts = [loop_node(a.value, frame, evaluator) for a in node.arguments if a.name is None]
    if len(parts) != len(node.arguments) or not parts or (name == "sum" and len(parts) > 1):
        wanted = "one time" if name == "sum" else "times"
        raise fail("E0905", f"'{name}' takes {wanted} without names", node.span)
    if name == "sum" and _has_sum(parts[0]):
        raise fail("E0905", "a 'sum' over all layers cannot contain another one", node.span)
    return LoopNode(name, tuple(parts)) if name == "sum" or len(parts) > 1 else parts[0]


def _has_sum(node: LoopNode) -> bool:
    return node.operation == "sum" or any(_has_sum(operand) for operand in node.parts)
