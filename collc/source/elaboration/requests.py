"""Elaboration of what a schedule requests: options, names of files, and the checks of `verify`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceError
from collc.base.options import Option, Options, OptionValue, check_value, options_in_words, unknown_option
from collc.base.wording import did_you_mean, phrase
from collc.emit.kinds import EMIT_KINDS
from collc.source.elaboration.containers import coerce
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.values import Frame, Interval, Value
from collc.source.parsing.expressions import Argument, Binary, Call, Comparison, Expr, FloatLiteral, IntLiteral, Name
from collc.source.parsing.syntax import Emit, Parameter
from collc.source.problems import fail, unknown_name_error
from collc.source.program import CheckRequest, EmitRequest
from collc.source.types import BOOL, BYTES, FLOAT, INT, NUMBER, NUMBERS, RANGE, STRING, TIME, Kind, Type

AUTO: Final = "auto"
CHUNKS: Final = "chunks"
MODULE: Final = "std.collectives"
"""The module of the standard library with the collectives."""

TYPES: Final = {"int": INT, "bool": BOOL, "string": STRING, "time": TIME, "range": RANGE}
"""The types of options by name."""


def checked_options(
    arguments: Sequence[Argument], known: Options, what: str, evaluator: Evaluator, frame: Frame
) -> dict[str, OptionValue]:
    """The values of options by name, each of its type and within its limits. Raises SourceError."""
    checked: dict[str, OptionValue] = {}
    for argument in arguments:
        if argument.name is None:
            raise fail("E0603", f"an option of {what} needs a name", argument.span, hint=options_in_words(known))
        name = argument.name.name
        if name not in known:
            raise unknown_option(name, known, what, argument.name.span)
        if name in checked:
            raise fail("E0212", f"'{name}' is given twice", argument.span)
        checked[name] = _option(argument, name, known[name], evaluator, frame)
    return checked


def _option(argument: Argument, name: str, option: Option, evaluator: Evaluator, frame: Frame) -> OptionValue:
    span = argument.value.span
    if option.type == "range":
        if stands_for_range(option, argument, lambda name: frame.find(name) is not None):
            return OptionValue("string", AUTO, span)
        data = _sizes(evaluator.value(argument.value, frame), argument)
    else:
        value = coerce(evaluator.value(argument.value, frame), TYPES[option.type], span, f"'{name}'")
        data = Fraction(value.data) if option.type == "time" else value.data
    checked = OptionValue(option.type, data, span)
    check_value(name, checked, option)
    return checked


def stands_for_range(option: Option, argument: Argument, is_declared: Callable[[str], bool]) -> bool:
    """Whether an argument is the name that may stand for a range, such as `auto`, and no value of the program."""
    value = argument.value
    return isinstance(value, Name) and value.name in option.choices and not is_declared(value.name)


def _sizes(value: Value, argument: Argument) -> tuple[int, int]:
    """The ends of `64MiB .. 4GiB`, a range of bytes that includes both. Raises SourceError."""
    data = value.data
    if not isinstance(data, Interval) or value.type != Type(Kind.RANGE, BYTES):
        hint = "write sizes: 64MiB .. 4GiB, or sizes: auto"
        raise fail("E0605", f"a range of bytes is required, not {value.type}", argument.value.span, hint=hint)
    return int(data.low), int(data.high)


def with_one_chunk(
    call: Call, parameters: Sequence[Parameter], module: str | None, is_value: bool
) -> tuple[Call, bool]:
    """The call of a run with `chunks: 1` in place of `chunks: auto`, and whether that was there.

    parameters, module: of the collective; module: of the standard library, or None. is_value: whether the program
    declares a value `auto`, which is then meant. Raises SourceError E0417 if the collective is not in the standard
    library.
    """
    names = [parameter.name.name for parameter in parameters]
    for place, argument in enumerate(call.arguments):
        name = argument.key or (names[place] if place < len(names) else "")
        value = argument.value
        if name != CHUNKS or not isinstance(value, Name) or value.name != AUTO or is_value:
            continue
        if module != MODULE:
            message = f"'{call.function.name}' is not a collective of {MODULE}, so 'chunks' must be a number"
            hint = f"write chunks: 4, or run a collective of {MODULE}"
            raise fail("E0417", message, value.span, hint=hint)
        single = replace(argument, value=IntLiteral(value.span, 1))
        return replace(call, arguments=tuple(single if a is argument else a for a in call.arguments)), True
    return call, False


_DEVICES: Final = {"CON", "PRN", "AUX", "NUL", *(f"{port}{number}" for port in ("COM", "LPT") for number in range(10))}
"""Names that are devices on Windows, with any suffix."""


def file_name(argument: Argument, frame: Frame, context: FileContext) -> str:
    """The name of a file, relative to the output folder.

    Raises SourceError E0611 if it leads out of that folder, or if no file on Windows can have it: a program is
    for all systems.
    """
    value = context.coerce(argument.value, frame, STRING, "a file name").data
    parts = value.replace("\\", "/").split("/")
    bad = not value or value.startswith(("/", "\\", "~")) or ".." in parts or ":" in parts[0] or "\0" in value
    if bad:
        hint = 'names are relative to the output folder (-o) and must stay in it, as in "out/gather.xml"'
        raise fail("E0611", f'"{value}" is not the name of a file in the output folder', argument.value.span, hint=hint)
    for part in parts:
        if part.split(".")[0].rstrip().upper() in _DEVICES:
            message = f'"{part}" is a device on Windows: no file there can have that name'
            raise fail("E0611", message, argument.value.span, hint="choose another name")
    return value


CHECKS: Final = (
    "causality",
    "congestion_free",
    "delivered",
    "reductions",
    "switches",
    "optimal",
    "proved",
)
MEASURES: Final = ("time", "steps")
_MIRRORED: Final = {"<": ">", "<=": ">=", "==": "==", ">=": "<=", ">": "<"}


def check_request(node: Expr, frame: Frame, evaluator: Evaluator) -> CheckRequest:
    """The request of one check: a name, or a comparison of `time` or `steps` with a limit. Raises SourceError."""
    if isinstance(node, Name):
        if node.name not in CHECKS:
            hint = did_you_mean(node.name, (*CHECKS, *MEASURES), f"there are {phrase(CHECKS)}")
            if node.name in MEASURES:
                hint = f"compare it: {node.name} <= ..."
            raise fail("E0612", f"unknown check '{node.name}'", node.span, hint=hint)
        return CheckRequest(node.name, node.span)
    if not isinstance(node, Comparison) or len(node.operators) != 1 or node.operators[0] not in _MIRRORED:
        raise fail(
            "E0613", "a check must be a name, or compare time or steps with a limit", node.span, hint="time <= 2ms"
        )
    left, right = node.operands
    operator = node.operators[0]
    if not _is_measure(left):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(left, Name) or left.name not in MEASURES:
        raise fail(
            "E0613", "a check must compare time or steps with a limit", node.span, hint="time <= 2ms, steps <= 4"
        )
    factor = _of_bound(right, frame, evaluator)
    if factor is not None:
        if left.name == "steps":
            raise fail("E0210", "'steps' is a number, but 'bound' is a time", node.span, hint="time <= 1.05 * bound")
        return CheckRequest(left.name, node.span, operator, factor, of_bound=True)
    wanted = TIME if left.name == "time" else NUMBER
    value = evaluator.value(right, frame)
    if value.type.kind is not wanted.kind and not (wanted is NUMBER and value.type.kind in NUMBERS):
        raise _wrong_unit(left.name, operator, value.type, right, node)
    return CheckRequest(left.name, node.span, operator, Fraction(value.data))


def _is_measure(node: Expr) -> bool:
    return isinstance(node, Name) and node.name in MEASURES


def _wrong_unit(measure: str, operator: str, given: Type, limit: Expr, node: Expr) -> SourceError:
    """The error for a limit of `time` that is no time, or one of `steps` that is no number."""
    if measure == "steps":
        return fail("E0210", f"'steps' is a number, this limit is {given}", node.span, hint="steps <= 4")
    if given.kind not in NUMBERS:
        return fail("E0210", f"'time' is a time, this limit is {given}", node.span, hint="time <= 2ms")
    number = limit.span.text
    limit_with_unit = f"{number}us" if isinstance(limit, IntLiteral | FloatLiteral) else f"({number}) * 1us"
    hint = f"write time {operator} {limit_with_unit}, or another unit"
    return fail("E0210", f"a time needs a unit, this is {given}", limit.span, hint=hint)


def _of_bound(node: Expr, frame: Frame, evaluator: Evaluator) -> Fraction | None:
    """The factor of `1.05 * bound`, None if an expression is not a multiple of the bound."""
    if isinstance(node, Name) and node.name == "bound" and frame.find("bound") is None:
        return Fraction(1)
    if isinstance(node, Binary) and node.operator in ("*", "/"):
        for inner, other in ((node.left, node.right), (node.right, node.left)):
            factor = _of_bound(inner, frame, evaluator) if isinstance(inner, Name | Binary) else None
            if factor is None or (node.operator == "/" and inner is node.right):
                continue
            value = evaluator.coerce(other, frame, FLOAT, "a multiple of the bound")
            number = Fraction(value.data)
            if node.operator == "/" and number == 0:
                raise fail("E0217", "division by zero", node.span)
            return factor * number if node.operator == "*" else factor / number
    return None


def emit_request(node: Emit, frame: Frame, context: FileContext) -> EmitRequest:
    """The request of `emit msccl("f.xml", instances: 2)`. Raises SourceError."""
    kind = node.kind.name
    if kind not in EMIT_KINDS:
        raise unknown_name_error("E0602", "kind of file", kind, EMIT_KINDS, node.kind.span)
    arguments = list(node.arguments)
    path = None
    if arguments and arguments[0].name is None:
        path = file_name(arguments.pop(0), frame, context)
    options = checked_options(arguments, EMIT_KINDS[kind].options, f"emit {kind}", context, frame)
    return EmitRequest(kind, path, options, node.span)
