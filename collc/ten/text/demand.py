"""Reads the demand of a module in text form."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from collc.base.diagnostics import Span
from collc.base.units import UNITS, Dimension
from collc.base.wording import listed
from collc.ten.arrays import Int32Array, Int64Array
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
    room, members = MOST_CHUNKS, MOST_MEMBERS
    while not cursor.accept("}"):
        runs.append(_run(cursor, network, room, members))
        room -= len(runs[-1].pattern)
        members -= len(runs[-1].group)
    return Demand(tuple(runs))


def _run(cursor: Cursor, network: Network, room: int, members: int) -> Run:
    """Read one run. room: how many chunks it may have. members: how many NPUs its group may have."""
    cursor.expect("run")
    name = cursor.word()
    cursor.expect("group")
    span = cursor.span
    cursor.expect("[")
    group = cursor.items("]", 0, network.npu_count - 1, "NPU", network.npu_count)
    if len(group) > members:
        cursor.fail("T0108", f"the groups of all runs have more than {MOST_MEMBERS} members", span)
    places: dict[Part, Span] = {}
    standard = _standard(cursor, places) if cursor.accept("standard") else None
    cursor.expect("{")
    table = _table(cursor, network, room)
    cursor.expect("}")
    if wrong := _wrong_members(network, group, table, standard):
        cursor.fail("T0107", wrong, span)
    run = Run(name, group, table, standard)
    if wrong := contradiction(run):
        cursor.fail("T0107", wrong.message, places[wrong.part])
    return run


def _wrong_members(network: Network, group: Int32Array, table: ChunkTable, standard: Standard | None) -> str:
    """Why the members of a group, or the holders of its chunks, are not those of any run; "" if they may be."""
    if len(group) and int(np.bincount(group).max()) > 1:
        return "the members of a group must be different NPUs"
    for members in (group, table.sets.members):
        removed = members[~network.present[members]]
        if len(removed):
            return f"{network.device_name(int(removed.min()))} was removed, so it takes part in no run"
    return "a run with chunks needs members" if not len(group) and (len(table) or standard is not None) else ""


def _standard(cursor: Cursor, places: dict[Part, Span]) -> Standard:
    """Read what follows `standard`. places: gets the position of each part, of the name for those that are missing."""
    places |= dict.fromkeys(("kind", "root", "op"), cursor.span)
    kind = cursor.word()
    places["size"] = cursor.span
    size = cursor.whole_number(Dimension.BYTES, 0, "a size")
    cursor.expect("chunks")
    places["chunks"] = cursor.span
    chunks = cursor.integer(0, _INT32, "number of chunks")
    root, op = -1, Op.COPY
    if cursor.accept("root"):
        places["root"] = cursor.span
        root = cursor.integer(0, _INT32, "root")
    if cursor.accept("op"):
        places["op"] = cursor.span
        op = _reduction(cursor) or cursor.fail_expecting(listed(_OPS, "or"))
    return Standard(kind, size, chunks, root, op)


def _reduction(cursor: Cursor) -> Op | None:
    """Read the operation of a reduction if the next token is one; `avg` is a name elsewhere."""
    name = next((name for name in _OPS if cursor.accept(name) or cursor.accept_word(name)), None)
    return Op[name.upper()] if name else None


def _sets(cursor: Cursor, npus: int) -> HolderSets:
    """Read the holder sets of a run: `set @0 = {0..4}`."""
    offsets, members = [0], list[Int32Array]()
    while cursor.accept("set"):
        span = cursor.span
        if cursor.reference(0, _INT32, "set") != len(offsets) - 1:
            cursor.fail("T0107", f"this is set @{len(offsets) - 1}: sets are numbered in order", span)
        cursor.expect("=")
        cursor.expect("{")
        span = cursor.span
        npus_of_set = cursor.items("}", 0, npus - 1, "NPU", npus)
        if (np.diff(npus_of_set) <= 0).any():
            cursor.fail("T0107", "the NPUs of a set must be in ascending order, each once", span)
        if offsets[-1] + len(npus_of_set) > MOST_MEMBERS:
            cursor.fail("T0108", f"the sets have more than {MOST_MEMBERS} members", span)
        members.append(npus_of_set)
        offsets.append(offsets[-1] + len(npus_of_set))
    return HolderSets(np.array(offsets, np.int64), np.concatenate([np.empty(0, np.int32), *members]))


def _table(cursor: Cursor, network: Network, room: int) -> ChunkTable:
    """Read the sets, families and chunks of a run. room: how many chunks it may have."""
    sets = _sets(cursor, network.npu_count)
    families: list[ChunkFamily] = []
    while cursor.accept("family"):
        families.append(ChunkFamily(cursor.word(), cursor.integer(0, MOST_INDICES, "number of indices")))
    rank = max((family.rank for family in families), default=0)
    chunks = _chunks(cursor, families, len(sets), room, rank)
    return ChunkTable(
        size=chunks[:, 0].copy(),
        pre=chunks[:, 1].astype(np.int32),
        post=chunks[:, 2].astype(np.int32),
        op=chunks[:, 3].astype(np.int8),
        family=chunks[:, 4].astype(np.int32),
        index=chunks[:, 5:].astype(np.int32),
        families=tuple(families),
        sets=sets,
    )


def _chunks(cursor: Cursor, families: list[ChunkFamily], sets: int, room: int, rank: int) -> Int64Array:
    """Read all chunks: int64[chunks, 5 + rank], rows of size, pre, post, op, family and indices.

    sets: how many there are. rank: the largest number of indices.
    """
    labels = unique([f"{word(family.name)} {family.rank}" for family in families])
    family_of = {
        (f"%{number}" if label.startswith("%") else word(families[number].name), families[number].rank): number
        for number, label in enumerate(labels)
    }
    columns, width = array("q"), 5 + rank

    def add(family: int, index: Sequence[int], size: int, pre: int, post: int, op: Op) -> None:
        columns.extend((size, pre, post, int(op), family, *index, *[0] * (rank - len(index))))

    def add_line(line: re.Match[str]) -> bool:
        name, indices, amount, unit, pre, op, post = line.groups()
        index = [int(k) for k in indices.split(", ")] if indices else []
        family, scale = family_of.get((name, len(index))), UNITS.get(unit)
        if family is None or scale is None or scale[0] is not Dimension.BYTES or max(int(pre), int(post)) >= sets:
            return False
        size = int(amount) * scale[1]
        if size.denominator != 1 or size > LARGEST or len(columns) >= width * room:
            return False
        add(family, index, int(size), int(pre), int(post), Op[op.upper()] if op else Op.COPY)
        return True

    cursor.read_printed_lines(_LINE, add_line)
    while cursor.at("chunk"):
        if len(columns) >= width * room:
            cursor.fail("T0108", f"more than {MOST_CHUNKS} chunks")
        cursor.expect("chunk")
        span = cursor.span
        numbered = cursor.kind == "number"
        name = f"%{cursor.reference(0, len(families) - 1, 'family')}" if numbered else cursor.label()
        index = cursor.shape("index")
        family = family_of.get((name, len(index)))
        if family is None and numbered and families[int(name[1:])].rank == len(index):
            family = int(name[1:])
        if family is None:
            cursor.fail("T0106", f"there is no single family {name} with {len(index)} indices", span)
        size = cursor.whole_number(Dimension.BYTES, 0, "a size")
        cursor.expect("pre")
        pre = cursor.reference(0, sets - 1, "set")
        cursor.expect("post")
        op = _reduction(cursor)
        if cursor.kind != "set":
            cursor.fail_expecting("a set like @0" if op else f"a set like @0, or {listed(_OPS, 'or')} and a set")
        add(family, index, size, pre, cursor.reference(0, sets - 1, "set"), op or Op.COPY)
        cursor.read_printed_lines(_LINE, add_line)
    return np.array(columns, np.int64).reshape(-1, width)
