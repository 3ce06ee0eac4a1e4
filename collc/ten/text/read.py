"""Reads modules and their schedules in text form (networks and demands: collc/ten/text/network.py, demand.py).

The reader is written by hand because one generated from the grammar is 50 times slower on a large schedule; tests
compare it with grammar/ten.lark. Lines as `format_module` writes them are matched by one regular expression each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import SourceFile, Span
from collc.base.units import Dimension
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.module import Bound, Module, Phase
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Schedule, StepSchedule, Transfers
from collc.ten.text.cursor import LARGEST, Cursor
from collc.ten.text.demand import read_demand
from collc.ten.text.limits import MOST_CELLS, MOST_CHUNKS, MOST_LINKS, MOST_TRANSFERS
from collc.ten.text.names import chunk_labels, indexed, network_link_labels
from collc.ten.text.network import device_label, read_network
from collc.ten.text.write import VERSION

MOST_PHASES: Final = 8
"""The greatest depth to which phases may be nested."""

_BINARY: Final = "write it in the binary form: emit ten(binary: true)"
_INT32: Final = 2**31 - 1
_LINE: Final = re.compile(
    r"\n *(send|reduce|keep) (?>([^\n]+?) over )([^\n]++)(?=\n *+(?:send |reduce |keep |at |step |\}))"
)
"""The line of a transfer as `format_module` writes it, where the next line does not continue it (`[0]`, `lane`)."""


def parse_module(source: SourceFile) -> Module:
    """Read the text form of a module.

    Raises SourceError with the position of the first mistake (T0101 .. T0109), and no other exception.
    """
    cursor = Cursor(source)
    cursor.expect("ten")
    version = cursor.integer(0, _INT32, "version")
    if version != VERSION:
        cursor.fail("T0103", f"this is version {version} of the format; this collc reads version {VERSION}")
    module = _module(cursor, 0)
    if cursor.kind != "end":
        cursor.expected("the end of the file")
    return module


def _model(cursor: Cursor) -> LinkModel:
    return LinkModel(cursor.expect("store", "pipelined"))


def _module(cursor: Cursor, depth: int) -> Module:
    cursor.expect("module")
    name = cursor.string()
    cursor.expect("model")
    model = _model(cursor)
    algorithm = cursor.string() if cursor.accept("algorithm") else ""
    seed = cursor.integer(-LARGEST, 2 * LARGEST, "seed") if cursor.accept("seed") else None
    bound = None
    if cursor.accept("bound"):
        bound = Bound(cursor.whole(Dimension.TIME, 0, "a bound"), cursor.string())
    notes: list[str] = []
    while cursor.accept("note"):
        notes.append(cursor.string())
    planned = None
    if cursor.accept("planned"):
        cursor.expect("{")
        planned = frozenset(cursor.items("}", 0, _INT32, "run", MOST_CHUNKS))
    network = read_network(cursor)
    demand = read_demand(cursor, network)
    schedule = _schedule(cursor, network, demand, model) if cursor.accept("schedule") else None
    phases: list[Phase] = []
    while cursor.at("phase"):
        if depth == MOST_PHASES:
            cursor.fail("T0108", f"phases are nested deeper than {MOST_PHASES}")
        cursor.expect("phase")
        inverted = cursor.accept("inverted")
        start = cursor.whole(Dimension.TIME, 0, "a start") if cursor.accept("at") else 0
        cursor.expect("{")
        phases.append(Phase(_module(cursor, depth + 1), inverted, start))
        cursor.expect("}")
    return Module(
        name=name,
        network=network,
        demand=demand,
        model=model,
        schedule=schedule,
        algorithm=algorithm,
        seed=seed,
        bound=bound,
        notes=tuple(notes),
        planned=planned,
        phases=tuple(phases),
    )


class _TransferReader:
    """Reads transfers into columns; chunks and links are found by the labels that `format_module` writes."""

    def __init__(self, cursor: Cursor, network: Network, demand: Demand) -> None:
        self.cursor = cursor
        self.devices = network.device_count
        self.chunk_of = {label: number for number, label in enumerate(chunk_labels(demand))}
        self.link_of = {label: number for number, label in enumerate(network_link_labels(network))}
        self.chunk: list[int] = []
        self.link: list[int] = []
        self.reduce: list[bool] = []
        self.relayed: list[int] = []
        self.kept: list[bool] = []
        self.message: list[int] = []
        self.ready: list[int | None] = []
        self.injected: list[int | None] = []
        self.received: list[int] = []

    def read(self) -> int:
        """Read all transfers up to the next `at`, `step` or brace, and return their number."""
        before = len(self.chunk)
        while True:
            self._read_printed_lines()
            if not any(self.cursor.at(word) for word in ("send", "reduce", "keep")):
                return len(self.chunk) - before
            kind = self.cursor.expect("send", "reduce", "keep")
            chunk = self._chunk()
            self.cursor.expect("over")
            link = self._link()
            self._add(chunk, link, kind, self._link() if self.cursor.accept("from") else -1)
            if self.cursor.accept("message"):
                self.message[-1] = self.cursor.integer(0, _INT32, "message")
                if self.cursor.accept("ready"):
                    self.ready[-1] = self.cursor.whole(Dimension.TIME, -LARGEST, "a time")
                if self.cursor.accept("injected"):
                    self.injected[-1] = self.cursor.whole(Dimension.TIME, -LARGEST, "a time")
                if self.cursor.accept("received"):
                    self.received[-1] = self.cursor.whole(Dimension.TIME, 0, "a time")

    def _add(self, chunk: int, link: int, kind: str, relayed: int = -1) -> None:
        if len(self.chunk) >= MOST_TRANSFERS:
            self.cursor.fail("T0108", f"more than {MOST_TRANSFERS} transfers", hint=_BINARY)
        self.chunk.append(chunk)
        self.link.append(link)
        self.reduce.append(kind != "send")
        self.relayed.append(relayed)
        self.kept.append(kind == "keep")
        self.message.append(-1)
        self.ready.append(None)
        self.injected.append(None)
        self.received.append(-1)

    def messages(self, starts: Int64Array) -> QueuedMessages | None:
        """The messages of all transfers. starts: int64, when each enters its link: what is not said happens then."""
        if max(self.message, default=-1) < 0:
            return None
        ready, injected = (
            np.array([start if at is None else at for at, start in zip(column, starts.tolist(), strict=True)], np.int64)
            for column in (self.ready, self.injected)
        )
        received = np.array(self.received, np.int64) if max(self.received) >= 0 else None
        return QueuedMessages(np.array(self.message, np.int32), ready, injected, received)

    def _read_printed_lines(self) -> None:
        """Read lines by one regular expression, up to the first that is not as `format_module` writes it."""
        position, text = self.cursor.before, self.cursor.file.text
        match: Callable[[str, int], re.Match[str] | None] = _LINE.match
        chunk_of, link_of = self.chunk_of.get, self.link_of.get
        while found := match(text, position):
            kind, chunk_name, link_name = found.groups()
            chunk, link = chunk_of(chunk_name), link_of(link_name)
            if chunk is None or link is None:
                break
            self._add(chunk, link, kind)
            position = found.end()
        if position != self.cursor.before:
            self.cursor.skip_to(position)

    def _chunk(self) -> int:
        cursor, span = self.cursor, self.cursor.span
        if cursor.kind == "number":
            return cursor.reference(-_INT32, _INT32, "chunk")
        run = cursor.integer(0, _INT32, "run")
        cursor.expect(":")
        name = cursor.word()
        label = f"{run}:{indexed(name, cursor.shape('index'))}"
        number = self.chunk_of.get(label)
        if number is None:
            cursor.fail("T0106", f"there is no single chunk {label}", self._since(span))
        return number

    def _link(self) -> int:
        cursor, span = self.cursor, self.cursor.span
        if cursor.kind == "number":
            number = cursor.reference(-_INT32, _INT32, "link or device")
            if not cursor.at("->"):
                return number
            source = f"%{number}"
        else:
            source = device_label(cursor)
        cursor.expect("->")
        target = device_label(cursor)
        lane = cursor.integer(0, MOST_LINKS, "lane") if cursor.accept("lane") else 0
        label = f"{source} -> {target}" + (f" lane {lane}" if lane else "")
        number = self.link_of.get(label)
        if number is None:
            cursor.fail("T0106", f"there is no link {label}", self._since(span))
        return number

    def chunk_name(self, number: int) -> str:
        """The name of a chunk in messages."""
        return next((name for name, chunk in self.chunk_of.items() if chunk == number), f"chunk {number}")

    def link_name(self, number: int) -> str:
        """The name of a link in messages."""
        return next((name for name, link in self.link_of.items() if link == number), f"link {number}")

    def _since(self, span: Span) -> Span:
        return Span(span.file, span.start, self.cursor.before)


def _schedule(cursor: Cursor, network: Network, demand: Demand, declared: LinkModel) -> Schedule:
    span, model = cursor.span, _model(cursor)
    if model is not declared:
        text = f"a schedule for the link model {model.value} in a module for {declared.value}"
        cursor.fail("T0107", text, span)
    if cursor.expect("rows", "steps") == "rows":
        return _rows(cursor, network, demand, model)
    return _steps(cursor, network, demand, model)


def _rows(cursor: Cursor, network: Network, demand: Demand, model: LinkModel) -> RowSchedule:
    cursor.expect("{")
    reader = _TransferReader(cursor, network, demand)
    starts: list[int] = []
    counts: list[int] = []
    while not cursor.accept("}"):
        cursor.expect("at")
        starts.append(cursor.whole(Dimension.TIME, -LARGEST, "a time"))
        counts.append(reader.read())
    start = np.repeat(np.array(starts, np.int64), np.array(counts, np.int64))
    rows = Transfers.of(
        np.array(reader.chunk, np.int32),
        np.array(reader.link, np.int32),
        start,
        np.array(reader.reduce, np.bool_),
        np.array(reader.relayed, np.int32),
        reader.messages(start),
        np.array(reader.kept, np.bool_),
    )
    return RowSchedule(model, rows)


def _steps(cursor: Cursor, network: Network, demand: Demand, model: LinkModel) -> StepSchedule:
    span = cursor.span
    steps = cursor.integer(0, _INT32, "number of steps")
    if steps * max(1, network.link_count) > MOST_CELLS:
        message = f"{steps} steps of {network.link_count} links are too many for the text form"
        cursor.fail("T0108", message, span, _BINARY)
    cursor.expect("of")
    step = cursor.whole(Dimension.TIME, 1, "a step")
    cursor.expect("as")
    dtype = np.dtype(cursor.expect("uint16", "uint32"))
    reduce_steps = cursor.integer(0, steps, "number of steps") if cursor.accept("reduce") else 0
    cursor.expect("{")
    table = np.full((steps, network.link_count), np.iinfo(dtype).max, dtype)
    reader = _TransferReader(cursor, network, demand)
    while not cursor.accept("}"):
        cursor.expect("step")
        span = cursor.span
        number = cursor.integer(0, steps - 1, "step")
        reader.read()
        _fill_row(reader, table[number], number < reduce_steps, span)
    return StepSchedule(model, table, step, reduce_steps)


def _fill_row(reader: _TransferReader, row: NDArray[np.uint16] | NDArray[np.uint32], reduce: bool, span: Span) -> None:
    """Move all transfers read so far into a row of a step-by-link table.

    reduce: whether the transfers of this step must reduce. span: of the step, for messages. Raises T0109.
    """
    none = int(np.iinfo(row.dtype).max)
    cursor = reader.cursor
    if any(reader.kept) or any(link >= 0 for link in reader.relayed) or any(number >= 0 for number in reader.message):
        what = "a step-by-link table has no transfers with 'keep', 'from' or 'message'"
        cursor.fail("T0109", what, span, "write 'rows' instead")
    for chunk, link, flag in zip(reader.chunk, reader.link, reader.reduce, strict=True):
        if not (0 <= link < len(row) and 0 <= chunk < none):
            message = f"chunk {chunk} on link {link} does not fit into a step-by-link table of {row.dtype}"
            cursor.fail("T0109", message, span)
        if row[link] != none:
            first, second, where = reader.chunk_name(int(row[link])), reader.chunk_name(chunk), reader.link_name(link)
            hint = "a link carries one chunk in a step: move one to another step"
            cursor.fail("T0109", f"{first} and {second} are both on {where} in this step", span, hint)
        if flag is not reduce:
            kind = "reduce" if reduce else "send"
            message = f"all transfers of this step must be '{kind}', as the first line of the schedule says"
            cursor.fail("T0109", message, span)
        row[link] = chunk
    reader.chunk.clear()
    reader.link.clear()
    reader.reduce.clear()
    reader.relayed.clear()
    reader.kept.clear()
    reader.message.clear()
    reader.ready.clear()
    reader.injected.clear()
    reader.received.clear()
