"""Reads the demand of a module in text form."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import numpy as np

from collc.base.diagnostics import Span
from collc.base.units import UNITS, Dimension
from collc.base.wording import listed
from collc.ten.declared import Part, contradiction
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.network import Network
from collc.ten.text.cursor import LARGEST, Cursor
from collc.ten.text.limits import MOST_CHUNKS, MOST_MEMBERS
from collc.ten.text.names import unique, word

MOST_INDICES: Final = 64
"""Indices of a chunk family."""

_INT32: Final = 2**31 - 1
_OPS: Final = ("sum", "max", "min", "prod", "avg")
_LINE: Final = re.compile(
    r"\n *chunk ([^\n\[]+?|%[0-9]+)(?:\[([0-9]{1,9}(?:, [0-9]{1,9})*)\])? ([0-9]{1,18})([A-Za-z]+)"
    r" pre @([0-9]{1,9}) post (?:(sum|max|min|prod|avg) )?@([0-9]{1,9})(?=\n)"
)
"""The line of a chunk as `format_module` writes it."""


def read_demand(cursor: Cursor, network: Network) -> Demand:
    """Read `demand { run ... }`. Raises SourceError at the first mistake."""
    cursor.expect("demand")
    cursor.expect("{")
    runs: list[Run] = []
    room = MOST_CHUNKS
    while not cursor.accept("}"):
        runs.append(_run(cursor, network, room))
        room -= len(runs[-1].pattern)
    return Demand(tuple(runs))


def _run(cursor: Cursor, network: Network, room: int) -> Run:
    """Read one run. room: how many chunks it may have."""
    cursor.expect("run")
    name = cursor.word()
    cursor.expect("group")
    cursor.expect("[")
    group = np.array(cursor.items("]", 0, network.npu_count - 1, "NPU", network.npu_count), np.int32)
    places: dict[Part, Span] = {}
    standard = _standard(cursor, places) if cursor.accept("standard") else None
    cursor.expect("{")
    table = _table(cursor, network, room)
    cursor.expect("}")
    run = Run(name, group, table, standard)
    if wrong := contradiction(run):
        cursor.fail("T0107", wrong.message, places[wrong.part])
    return run


def _standard(cursor: Cursor, places: dict[Part, Span]) -> Standard:
    """Read what follows `standard`. places: gets the position of each part, of the name for those that are missing."""
    places |= dict.fromkeys(("kind", "root", "op"), cursor.span)
    kind = cursor.word()
    places["size"] = cursor.span
    size = cursor.whole(Dimension.BYTES, 0, "a size")
    cursor.expect("chunks")
    places["chunks"] = cursor.span
    chunks = cursor.integer(0, _INT32, "number of chunks")
    root, op = -1, Op.COPY
    if cursor.accept("root"):
        places["root"] = cursor.span
        root = cursor.integer(0, _INT32, "root")
    if cursor.accept("op"):
        places["op"] = cursor.span
        op = _reduction(cursor) or cursor.expected(listed(_OPS, "or"))
    return Standard(kind, size, chunks, root, op)


def _reduction(cursor: Cursor) -> Op | None:
    """Read the operation of a reduction if the next token is one; `avg` is a name elsewhere."""
    name = next((name for name in _OPS if cursor.accept(name) or cursor.accept_word(name)), None)
    return Op[name.upper()] if name else None


def _sets(cursor: Cursor, npus: int) -> HolderSets:
    """Read the holder sets of a run: `set @0 = {0..4}`."""
    offsets, members = [0], list[int]()
    while cursor.accept("set"):
        span = cursor.span
        if cursor.reference(0, _INT32, "set") != len(offsets) - 1:
            cursor.fail("T0107", f"this is set @{len(offsets) - 1}: sets are numbered in order", span)
        cursor.expect("=")
        cursor.expect("{")
        span = cursor.span
        found = cursor.items("}", 0, npus - 1, "NPU", npus)
        if any(b <= a for a, b in pairwise(found)):
            cursor.fail("T0107", "the NPUs of a set must be in ascending order, each once", span)
        if len(members) + len(found) > MOST_MEMBERS:
            cursor.fail("T0108", f"the sets have more than {MOST_MEMBERS} members", span)
        members.extend(found)
        offsets.append(len(members))
    return HolderSets(np.array(offsets, np.int64), np.array(members, np.int32))


class _ChunkReader:
    """Reads the chunks of a run into the columns of a chunk table.

    sets: number of holder sets of the run. room: how many chunks it may have.
    """

    def __init__(self, families: list[ChunkFamily], sets: int, room: int) -> None:
        labels = unique([f"{word(family.name)} {family.rank}" for family in families])
        self.family_of: dict[tuple[str, int], int] = {}
        for number, family in enumerate(families):
            self.family_of[word(family.name) if not labels[number].startswith("%") else f"%{number}", family.rank] = (
                number
            )
        self.families, self.sets, self.room = families, sets, room
        self.width = max((family.rank for family in families), default=0)
        self.size: list[int] = []
        self.pre: list[int] = []
        self.post: list[int] = []
        self.op: list[int] = []
        self.family: list[int] = []
        self.index: list[list[int]] = []

    def read_printed_lines(self, cursor: Cursor) -> None:
        """Read lines by one regular expression, up to the first that is not as `format_module` writes it."""
        position, text = cursor.before, cursor.file.text
        while len(self.size) < self.room and (found := _LINE.match(text, position)):
            name, indices, amount, unit, pre, op, post = found.groups()
            index = [int(k) for k in indices.split(", ")] if indices else []
            family = self.family_of.get((name, len(index)))
            scale = UNITS.get(unit)
            sets = int(pre), int(post)
            if family is None or scale is None or scale[0] is not Dimension.BYTES or max(sets) >= self.sets:
                break
            size = int(amount) * scale[1]
            if size.denominator != 1 or size > LARGEST:
                break
            self._add(family, index, int(size), sets, Op[op.upper()] if op else Op.COPY)
            position = found.end()
        if position != cursor.before:
            cursor.skip_to(position)

    def read_tokens(self, cursor: Cursor) -> None:
        """Read one chunk, token by token."""
        if len(self.size) >= self.room:
            cursor.fail("T0108", f"more than {MOST_CHUNKS} chunks")
        cursor.expect("chunk")
        span = cursor.span
        if cursor.kind == "number":
            name = f"%{cursor.reference(0, len(self.families) - 1, 'family')}"
        else:
            name = cursor.label()
        index = list(cursor.shape("index"))
        family = self.family_of.get((name, len(index)))
        if family is None and name.startswith("%") and self.families[int(name[1:])].rank == len(index):
            family = int(name[1:])
        if family is None:
            cursor.fail("T0106", f"there is no single family {name} with {len(index)} indices", span)
        size = cursor.whole(Dimension.BYTES, 0, "a size")
        cursor.expect("pre")
        pre = cursor.reference(0, self.sets - 1, "set")
        cursor.expect("post")
        op = _reduction(cursor)
        if cursor.kind != "set":
            cursor.expected("a set like @0" if op else f"a set like @0, or {listed(_OPS, 'or')} and a set")
        post = cursor.reference(0, self.sets - 1, "set")
        self._add(family, index, size, (pre, post), op or Op.COPY)

    def _add(self, family: int, index: list[int], size: int, sets: tuple[int, int], op: Op) -> None:
        self.family.append(family)
        self.index.append(index + [0] * (self.width - len(index)))
        self.size.append(size)
        self.pre.append(sets[0])
        self.post.append(sets[1])
        self.op.append(int(op))


def _table(cursor: Cursor, network: Network, room: int) -> ChunkTable:
    sets = _sets(cursor, network.npu_count)
    families: list[ChunkFamily] = []
    while cursor.accept("family"):
        families.append(ChunkFamily(cursor.word(), cursor.integer(0, MOST_INDICES, "number of indices")))
    chunks = _ChunkReader(families, len(sets), room)
    chunks.read_printed_lines(cursor)
    while cursor.at("chunk"):
        chunks.read_tokens(cursor)
        chunks.read_printed_lines(cursor)
    return ChunkTable(
        size=np.array(chunks.size, np.int64),
        pre=np.array(chunks.pre, np.int32),
        post=np.array(chunks.post, np.int32),
        op=np.array(chunks.op, np.int8),
        family=np.array(chunks.family, np.int32),
        index=np.array(chunks.index, np.int32).reshape(len(chunks.size), chunks.width),
        families=tuple(families),
        sets=sets,
    )
