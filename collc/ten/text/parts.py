"""Reads the networks and demands of modules in text form."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.diagnostics import Span
from collc.base.units import UNITS, Dimension
from collc.base.wording import phrase
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.declared import Part, contradiction
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.endpoint import DEFAULT_MODE, MEMORY_TRAFFIC, Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.network import MOST_DEVICES, MOST_LINKS, Axis, DeviceFamily, LinkKind, Network
from collc.ten.text.cursor import (
    ANY_DEVICES,
    LARGEST,
    MOST_CHUNKS,
    MOST_INDICES,
    MOST_MEMBERS,
    Cursor,
)
from collc.ten.text.names import device_labels, unique, with_index, word
from collc.ten.text.write import row_major

_INT32: Final = 2**31 - 1
_LINK_LINE: Final = re.compile(
    r"\n *link ([^\n]+?) -> ([^\n]+?) kind ([0-9]{1,9})(?: axis ([0-9]{1,3}))?(?=\n *(?:link |\}))"
)
"""The line of a link as `format_module` writes it, if the next line does not continue it (`axis`)."""


def device_label(cursor: Cursor) -> str:
    """Read a device and return its label: `npu[0, 1]`, `%3`."""
    if cursor.kind == "number":
        return f"%{cursor.reference(0, _INT32, 'device')}"
    return with_index(cursor.word(), cursor.shape("index"))


def _links(cursor: Cursor, labels: list[str], kinds: int, axes: int) -> Int64Array:
    """Read all links and the closing brace: int64[links, 4], rows of source, target, kind and axis.

    labels: of all devices. kinds, axes: how many there are.
    """
    number_of = {label: number for number, label in enumerate(labels)}
    columns = array("q")

    def add(line: re.Match[str]) -> bool:
        source, target = number_of.get(line[1]), number_of.get(line[2])
        kind, axis = int(line[3]), int(line[4] or -1)
        if source is None or target is None or kind >= kinds or axis >= axes or len(columns) >= 4 * MOST_LINKS:
            return False
        columns.extend((source, target, kind, axis))
        return True

    def device() -> int:
        span = cursor.span
        label = device_label(cursor)
        number = number_of.get(label)
        if number is None and label.startswith("%") and int(label[1:]) < len(labels):
            number = int(label[1:])
        if number is None:
            place = Span(span.file, span.start, cursor.before)
            cursor.fail("T0106", f"there is no single device {label}", place, note=f"there are {len(labels)} devices")
        return number

    cursor.read_printed_lines(_LINK_LINE, add)
    while not cursor.accept("}"):
        if len(columns) >= 4 * MOST_LINKS:
            cursor.fail("T0108", f"more than {MOST_LINKS} links")
        cursor.expect("link")
        source = device()
        cursor.expect("->")
        target = device()
        cursor.expect("kind")
        kind = cursor.integer(0, kinds - 1, "kind of link")
        axis = cursor.integer(0, axes - 1, "axis") if cursor.accept("axis") else -1
        columns.extend((source, target, kind, axis))
        cursor.read_printed_lines(_LINK_LINE, add)
    return np.array(columns, np.int64).reshape(-1, 4)


def read_network(cursor: Cursor) -> Network:
    """Read `network "mesh" { ... }`. Raises SourceError at the first mistake."""
    cursor.expect("network")
    name = cursor.string()
    unwound = cursor.accept("unwound")
    cursor.expect("{")
    cursor.expect("npus")
    npus = _devices(cursor, MOST_DEVICES, "NPUs")
    cursor.expect("switches")
    span = cursor.span
    count = npus + _devices(cursor, MOST_DEVICES - npus, "switches")
    if unwound and count > npus:
        cursor.fail("T0107", f"a network that is 'unwound' has no switches, and this one has {count - npus}", span)
    families = _families(cursor, count)
    present = np.ones(count, np.bool_)
    if cursor.accept("removed"):
        cursor.expect("{")
        present[cursor.items("}", 0, count - 1, "device", count)] = False
    buffers, multicast, reduces = _options(cursor, npus, count)
    endpoints = _limits(cursor, npus)
    axes: list[Axis] = []
    while cursor.accept("axis"):
        axes.append(Axis(cursor.word(), cursor.integer(0, _INT32, "size of an axis")))
        if len(axes) > 127:
            cursor.fail("T0108", "more than 127 axes")
    kinds = _kinds(cursor)
    links = _links(cursor, device_labels(families, count), len(kinds), len(axes))
    network = Network(
        name=name,
        npu_count=npus,
        families=families,
        present=present,
        buffers=buffers,
        multicast=multicast,
        reduces=reduces,
        source=links[:, 0].astype(np.int32),
        target=links[:, 1].astype(np.int32),
        kind=links[:, 2].astype(np.int32),
        kinds=kinds,
        axes=tuple(axes),
        link_axis=links[:, 3].astype(np.int8) if axes else np.empty(0, np.int8),
        unwound=unwound,
    )
    return network if endpoints is None else fed_links(with_endpoints(network, endpoints))


def _devices(cursor: Cursor, most: int, what: str) -> int:
    """Read a number of devices. Useful devices have links, each with its own line, so a short file cannot have many."""
    span = cursor.span
    count = cursor.integer(0, most, f"number of {what}")
    if count > max(ANY_DEVICES, len(cursor.file.text)):
        cursor.fail("T0108", f"{count} {what} are more than the links of a file of this length can join", span)
    return count


def _families(cursor: Cursor, devices: int) -> tuple[DeviceFamily, ...]:
    families: list[DeviceFamily] = []
    named = 0
    while cursor.accept("names"):
        span = cursor.span
        name, shape = cursor.word(), cursor.shape("size")
        cursor.expect("from")
        first = cursor.integer(0, devices, "device")
        strides = row_major(shape)
        if cursor.accept("strides"):
            strides = cursor.shape("stride")
        if len(strides) != len(shape) or len(shape) > 64 or 0 in strides:
            cursor.fail("T0107", f"{len(shape)} indices need as many strides, 64 at most, none of them 0", span)
        named += math.prod(shape)
        if named > devices:
            cursor.fail("T0107", f"more names than the {devices} devices", span)
        families.append(DeviceFamily(name, shape, first, strides, _labels(cursor, math.prod(shape))))
    return tuple(families)


def _labels(cursor: Cursor, count: int) -> tuple[str, ...]:
    """The labels of `count` devices, () if there are none."""
    if not cursor.accept_word("labels"):
        return ()
    span = cursor.span
    cursor.expect("[")
    labels: list[str] = []
    while not cursor.accept("]"):
        labels.append(cursor.string())
        if not cursor.at("]"):
            cursor.expect(",")
    if len(labels) != count:
        cursor.fail("T0107", f"{len(labels)} labels of {count} devices", span)
    return tuple(labels)


def _new_members(cursor: Cursor, given: BoolArray, low: int, what: str, given_what: str) -> Int32Array:
    """Read `{0..4, 7}`: devices from `low` on. Raises T0107 for one that `given` has, bool[devices], and notes them.

    what, given_what: in messages: "switch", "options".
    """
    span = cursor.span
    cursor.expect("{")
    members = cursor.items("}", low, len(given) - 1, what, len(given) - low)
    numbers, counts = np.unique(members, return_counts=True)
    again = numbers[(counts > 1) | given[numbers]]
    if len(again):
        cursor.fail("T0107", f"{what} {again[0]} has {given_what} twice", span)
    given[members] = True
    return members


def _options(cursor: Cursor, npus: int, devices: int) -> tuple[Int64Array, BoolArray, BoolArray]:
    """Read the options of switches: `buffers`, `multicast` and `reduces` of the network."""
    buffers = np.full(devices - npus, -1, np.int64)
    multicast = np.zeros(devices - npus, np.bool_)
    reduces = np.zeros(devices - npus, np.bool_)
    given = np.zeros(devices, np.bool_)
    while cursor.accept("options"):
        rows = _new_members(cursor, given, npus, "switch", "options") - npus
        if cursor.accept("buffer"):
            buffers[rows] = cursor.integer(0, 2**62, "buffer")
        multicast[rows] = cursor.accept("multicast")
        reduces[rows] = cursor.accept("reduces")
    return buffers, multicast, reduces


def _limits(cursor: Cursor, npus: int) -> list[Endpoint] | None:
    """The limits of all NPUs; None if there are none."""
    limits: list[Endpoint] | None = None
    given = np.zeros(npus, np.bool_)
    while cursor.accept_word("limits"):
        first = cursor.span
        rows = _new_members(cursor, given, 0, "NPU", "limits").tolist()
        rates = [
            _rate(cursor, "a rate") if cursor.accept_word(name) else None for name in ("inject", "eject", "memory")
        ]
        mode, span = DEFAULT_MODE, cursor.span
        if cursor.accept_word("endpoint"):
            span = cursor.span
            mode = cursor.word()
        if mode not in MEMORY_TRAFFIC:
            cursor.fail("T0102", f"expected {' or '.join(MEMORY_TRAFFIC)}, found '{mode[:40]}'", span)
        limits = limits or [Endpoint()] * npus
        traffic, overhead, launch = _traffic(cursor), _time(cursor, "overhead"), _time(cursor, "launch")
        endpoint = Endpoint(*rates, mode=mode, traffic=traffic, overhead=overhead, launch=launch)
        if endpoint in (Endpoint(), Endpoint(mode=mode, traffic=traffic)) or not rows:
            what = "no rate" if rows else "no NPU"
            cursor.fail("T0107", f"limits with {what}", first, hint="as in: limits {0..4} inject 100GB/s")
        for row in rows:
            limits[row] = endpoint
    return limits


def _traffic(cursor: Cursor) -> Fraction | None:
    """The bytes read for bytes sent, as `traffic 4 for 9`; None if they are not given."""
    if not cursor.accept_word("traffic"):
        return None
    read = cursor.integer(1, LARGEST, "number of bytes")
    if not cursor.accept_word("for"):
        cursor.fail_expecting("'for'")
    return Fraction(read, cursor.integer(1, LARGEST, "number of bytes"))


def _time(cursor: Cursor, name: str) -> int:
    """The picoseconds after a word; 0 if it is not there."""
    return cursor.whole_number(Dimension.TIME, 0, f"a time '{name}'") if cursor.accept_word(name) else 0


def _kinds(cursor: Cursor) -> tuple[LinkKind, ...]:
    kinds: list[LinkKind] = []
    while cursor.accept("kind"):
        span = cursor.span
        if cursor.integer(0, _INT32, "kind of link") != len(kinds):
            cursor.fail("T0107", f"this is kind {len(kinds)}: kinds are numbered in order", span)
        cursor.expect("latency")
        latency = None if cursor.accept("unknown") else cursor.whole_number(Dimension.TIME, 0, "a latency")
        cursor.expect("bandwidth")
        bandwidth = None if cursor.accept("unknown") else _rate(cursor, "a bandwidth")
        kinds.append(LinkKind(latency, bandwidth, _time(cursor, "overhead")))
    return tuple(kinds)


def _rate(cursor: Cursor, what: str) -> Fraction:
    span = cursor.span
    rate = cursor.quantity(Dimension.RATE)
    if rate <= 0:
        cursor.fail("T0104", f"{what} must be more than 0", span)
    return rate


_OPS: Final = ("sum", "max", "min", "prod", "avg")
_CHUNK_LINE: Final = re.compile(
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
        op = _reduction(cursor) or cursor.fail_expecting(phrase(_OPS, "or"))
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

    cursor.read_printed_lines(_CHUNK_LINE, add_line)
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
            cursor.fail_expecting("a set like @0" if op else f"a set like @0, or {phrase(_OPS, 'or')} and a set")
        add(family, index, size, pre, cursor.reference(0, sets - 1, "set"), op or Op.COPY)
        cursor.read_printed_lines(_CHUNK_LINE, add_line)
    return np.array(columns, np.int64).reshape(-1, width)
