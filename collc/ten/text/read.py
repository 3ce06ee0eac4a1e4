"""Reads modules and their schedules in text form (networks and demands: collc/ten/text/parts.py, demand.py).

The reader is written by hand because one generated from the grammar is 50 times slower on a large schedule; tests
compare it with grammar/ten.lark. Lines as `format_module` writes them are matched by one regular expression each.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import SourceFile, Span
from collc.base.units import Dimension
from collc.ten.arrays import Int64Array
from collc.ten.declared import wrong_steps
from collc.ten.demand import Demand
from collc.ten.module import Bound, Module, Phase
from collc.ten.network import MOST_LINKS, Network
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Schedule, StepSchedule, Transfers
from collc.ten.text.cursor import (
    ANY_DEVICES,
    LARGEST,
    MOST_CELLS,
    MOST_CHUNKS,
    MOST_PHASES,
    MOST_TRANSFERS,
    Cursor,
)
from collc.ten.text.names import chunk_labels, network_link_labels, with_index
from collc.ten.text.parts import device_label, read_demand, read_network
from collc.ten.text.write import VERSION

_BINARY: Final = "write it in the binary form: emit ten(binary: true)"
_INT32: Final = 2**31 - 1
_LINE: Final = re.compile(
    r"\n *(send|reduce|keep) (?>([^\n]+?) over )([^\n]++)(?=\n *+(?:send |reduce |keep |at |step |\}))"
)
"""The line of a transfer as `format_module` writes it, if the next line does not continue it (`[0]`, `lane`)."""


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
        cursor.fail_expecting("the end of the file")
    return module


def _model(cursor: Cursor) -> LinkModel:
    return LinkModel(cursor.expect(*LinkModel))


def _module(cursor: Cursor, depth: int) -> Module:
    cursor.expect("module")
    name = cursor.string()
    cursor.expect("model")
    model = _model(cursor)
    algorithm = cursor.string() if cursor.accept("algorithm") else ""
    seed = cursor.integer(-LARGEST, 2 * LARGEST, "seed") if cursor.accept("seed") else None
    bound = None
    if cursor.accept("bound"):
        bound = Bound(cursor.whole_number(Dimension.TIME, 0, "a bound"), cursor.string())
    notes: list[str] = []
    while cursor.accept("note"):
        notes.append(cursor.string())
    planned = None
    if cursor.accept("planned"):
        cursor.expect("{")
        planned = frozenset(cursor.items("}", 0, MOST_CHUNKS, "run", MOST_CHUNKS).tolist())
    network = read_network(cursor)
    demand = read_demand(cursor, network)
    schedule = _schedule(cursor, network, demand, model) if cursor.accept("schedule") else None
    phases: list[Phase] = []
    while cursor.at("phase"):
        if depth == MOST_PHASES:
            cursor.fail("T0108", f"phases are nested deeper than {MOST_PHASES}")
        cursor.expect("phase")
        inverted = cursor.accept("inverted")
        start = cursor.whole_number(Dimension.TIME, 0, "a start") if cursor.accept("at") else 0
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


_VERBS: Final = ("send", "reduce", "keep")


@dataclass(slots=True)
class _Hop:
    """What follows a transfer with `from` or `message`; None and -1: not said."""

    relayed: int = -1
    message: int = -1
    ready: int | None = None
    injected: int | None = None
    received: int = -1


class _TransferReader:
    """Reads transfers; chunks and links are found by the labels that `format_module` writes.

    columns: three numbers a transfer: chunk, link, and place of its verb in _VERBS. hops: by number of the transfer.
    """

    def __init__(self, cursor: Cursor, network: Network, demand: Demand) -> None:
        self.cursor = cursor
        self.chunk_of = {label: number for number, label in enumerate(chunk_labels(demand))}
        self.link_of = {label: number for number, label in enumerate(network_link_labels(network))}
        self.columns = array("q")
        self.hops: dict[int, _Hop] = {}

    def __len__(self) -> int:
        return len(self.columns) // 3

    def read(self) -> int:
        """Read all transfers up to the next `at`, `step` or brace, and return their number."""
        before, cursor = len(self), self.cursor
        while True:
            cursor.read_printed_lines(_LINE, self._add_line)
            if not any(map(cursor.at, _VERBS)):
                return len(self) - before
            verb = cursor.expect(*_VERBS)
            chunk = self._chunk()
            cursor.expect("over")
            self._add(chunk, self._link(), verb)
            hop = _Hop()
            if cursor.accept("from"):
                hop.relayed = self._link()
            if cursor.accept("message"):
                hop.message = cursor.integer(0, _INT32, "message")
                if cursor.accept("ready"):
                    hop.ready = cursor.whole_number(Dimension.TIME, -LARGEST, "a time")
                if cursor.accept("injected"):
                    hop.injected = cursor.whole_number(Dimension.TIME, -LARGEST, "a time")
                if cursor.accept("received"):
                    hop.received = cursor.whole_number(Dimension.TIME, 0, "a time")
            if hop != _Hop():
                self.hops[len(self) - 1] = hop

    def _add(self, chunk: int, link: int, verb: str) -> None:
        if len(self) >= MOST_TRANSFERS:
            self.cursor.fail("T0108", f"more than {MOST_TRANSFERS} transfers", hint=_BINARY)
        self.columns.extend((chunk, link, _VERBS.index(verb)))

    def _add_line(self, line: re.Match[str]) -> bool:
        chunk, link = self.chunk_of.get(line[2]), self.link_of.get(line[3])
        if chunk is None or link is None:
            return False
        self._add(chunk, link, line[1])
        return True

    def transfers(self, start: Int64Array) -> Transfers:
        """All transfers. start: int64, when each enters its link, which is also the default of times of messages."""
        columns = np.array(self.columns, np.int64).reshape(-1, 3)
        relayed, number, received = (np.full(len(start), -1, np.int64) for _ in range(3))
        ready, injected = start.copy(), start.copy()
        for row, hop in self.hops.items():
            relayed[row], number[row], received[row] = hop.relayed, hop.message, hop.received
            ready[row] = start[row] if hop.ready is None else hop.ready
            injected[row] = start[row] if hop.injected is None else hop.injected
        waits = received if received.max(initial=-1) >= 0 else None
        messages = QueuedMessages(number.astype(np.int32), ready, injected, waits)
        return Transfers.of(
            columns[:, 0].astype(np.int32),
            columns[:, 1].astype(np.int32),
            start,
            columns[:, 2] > 0,
            relayed.astype(np.int32),
            messages if number.max(initial=-1) >= 0 else None,
            columns[:, 2] == _VERBS.index("keep"),
        )

    def _chunk(self) -> int:
        cursor, span = self.cursor, self.cursor.span
        if cursor.kind == "number":
            return cursor.reference(-_INT32, _INT32, "chunk")
        run = cursor.integer(0, _INT32, "run")
        cursor.expect(":")
        name = cursor.word()
        label = f"{run}:{with_index(name, cursor.shape('index'))}"
        number = self.chunk_of.get(label)
        if number is None:
            place = Span(span.file, span.start, cursor.before)
            cursor.fail("T0106", f"there is no single chunk {label}", place)
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
            cursor.fail("T0106", f"there is no link {label}", Span(span.file, span.start, cursor.before))
        return number


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
    starts, counts = array("q"), array("q")
    while not cursor.accept("}"):
        cursor.expect("at")
        starts.append(cursor.whole_number(Dimension.TIME, -LARGEST, "a time"))
        counts.append(reader.read())
    return RowSchedule(model, reader.transfers(np.repeat(np.array(starts, np.int64), np.array(counts, np.int64))))


def _steps(cursor: Cursor, network: Network, demand: Demand, model: LinkModel) -> StepSchedule:
    head = cursor.span
    steps = cursor.integer(0, _INT32, "number of steps")
    # Steps of a useful schedule have transfers, each with its own line, so a short file cannot have many.
    if steps * max(1, network.link_count) > MOST_CELLS or steps > max(ANY_DEVICES, len(cursor.file.text)):
        message = f"{steps} steps of {network.link_count} links are too many for a text of this length"
        cursor.fail("T0108", message, head, _BINARY)
    cursor.expect("of")
    step = cursor.whole_number(Dimension.TIME, 1, "a step")
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
    schedule = StepSchedule(model, table, step, reduce_steps)
    if wrong := wrong_steps(schedule):
        cursor.fail("T0109", wrong, head)
    return schedule


def _fill_row(reader: _TransferReader, row: NDArray[np.uint16] | NDArray[np.uint32], reduce: bool, span: Span) -> None:
    """Move all transfers read so far into a row of a step-by-link table.

    reduce: whether the transfers of this step must reduce. span: of the step, for messages. Raises T0109.
    """
    none = int(np.iinfo(row.dtype).max)
    cursor, columns = reader.cursor, reader.columns
    if reader.hops or _VERBS.index("keep") in columns[2::3]:
        what = "a step-by-link table has no transfers with 'keep', 'from' or 'message'"
        cursor.fail("T0109", what, span, "write 'rows' instead")
    for chunk, link, verb in zip(columns[::3], columns[1::3], columns[2::3], strict=True):
        if not (0 <= link < len(row) and 0 <= chunk < none):
            message = f"chunk {chunk} on link {link} does not fit into a step-by-link table of {row.dtype}"
            cursor.fail("T0109", message, span)
        if row[link] != none:
            names = [next(islice(reader.chunk_of, k, None), f"chunk {k}") for k in (int(row[link]), chunk)]
            hint = "a link carries one chunk in a step: move one to another step"
            message = f"{names[0]} and {names[1]} are both on {list(reader.link_of)[link]} in this step"
            cursor.fail("T0109", message, span, hint)
        if bool(verb) is not reduce:
            kind = "reduce" if reduce else "send"
            message = f"all transfers of this step must be '{kind}', as the first line of the schedule says"
            cursor.fail("T0109", message, span)
        row[link] = chunk
    del columns[:]
