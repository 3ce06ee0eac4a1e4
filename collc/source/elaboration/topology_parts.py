"""Resolves the names of parts of topologies, such as `pod.node[2].gpu[0, *]`, to numbers of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Span
from collc.base.wording import SHOWN, did_you_mean, nearest, phrase, plural
from collc.source import limits
from collc.source.elaboration.topology_values import (
    DeclaredParts,
    Topology,
    TopologyCopies,
    TopologyMembers,
    TopologyPart,
)
from collc.source.elaboration.values import Data, ListArray, Value, is_column
from collc.source.parsing.expressions import Expr, Index, Member, Name
from collc.source.problems import fail
from collc.source.types import GROUP, NPU
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, slots=True, eq=False)
class IndexSlice:
    """Several indices at once. star: it is `*`, all devices that are present."""

    numbers: Int64Array
    star: bool


PartIndex = int | Int64Array | IndexSlice | None
"""One index of a part: a number, one number an iteration, a slice, or None for `*`."""


def member_of(part: TopologyPart, name: str, span: Span) -> TopologyPart:
    """The member of a topology or of a copy with a name. Raises SourceError if there is none."""
    entry = part.entry
    if not isinstance(entry, TopologyCopies):
        raise fail("E0314", f"'{entry.name}' is an array of devices and has no member '{name}'", span)
    if entry.shape:
        hint = f"choose one, {entry.name}[0].{name}, or all, {entry.name}[*].{name}"
        raise fail("E0315", f"'{entry.name}' is an array of copies", span, hint=hint)
    if name not in entry.members:
        known = [*entry.members, "npus"]
        hint = did_you_mean(name, known, f"it has {phrase(nearest(name, known, SHOWN))}")
        raise fail("E0316", f"'{entry.name}' has no member '{name}'", span, hint=hint)
    npu, switch = part.npu + entry.first_npu, part.switch + entry.first_switch
    return TopologyPart(part.home, entry.members[name], npu, switch, part.many)


def part_named(
    node: Expr,
    members: TopologyMembers,
    home: Topology | None,
    index: Callable[[TopologyPart, Index], TopologyPart | Value],
) -> TopologyPart | Value | None:
    """The part or device that a name means; None if it begins with no member. index: applies indices to a part."""
    match node:
        case Name():
            entry = members.get(node.name)
            return None if entry is None else TopologyPart(home, entry)
        case Member() | Index():
            base = part_named(node.base, members, home, index)
            if not isinstance(base, TopologyPart):
                return None
            if isinstance(node, Member):
                return member_of(base, node.member.name, node.member.span)
            return index(base, node)
        case _:
            return None


def index_part(part: TopologyPart, indices: Sequence[PartIndex], span: Span) -> TopologyPart | Value:
    """The part with indices: a copy of a topology, an NPU or a group. Raises SourceError."""
    entry = part.entry
    if isinstance(entry, DeclaredParts):
        hint = "parts are for 'failures', and for 'without { part ... }'"
        raise fail("E0331", f"'{entry.name}' is no device but a part", span, hint=hint)
    if len(indices) != len(entry.shape):
        takes = plural(len(entry.shape), "index").replace("indexs", "indices") if entry.shape else "no index"
        raise fail("E0317", f"'{entry.name}' takes {takes}, not {len(indices)}", span)
    slices = [i for i in indices if i is None or isinstance(i, IndexSlice)]
    many = part.many or bool(slices)
    offsets: Data = np.zeros((1, 1), np.int64) if many else 0
    for index, size, stride in zip(indices, entry.shape, entry.strides, strict=True):
        numbers = index.numbers if isinstance(index, IndexSlice) else index
        numbers = np.arange(size, dtype=np.int64) if numbers is None else numbers
        low, high = (numbers.min(), numbers.max()) if is_column(numbers) and numbers.size else (numbers, numbers)
        if not is_column(low) and not (low >= 0 and high < size):
            wrong = int(low if low < 0 else high)
            raise fail("E0318", f"'{entry.name}' has no index {wrong} here: its indices are 0 .. {size - 1}", span)
        if many:
            is_slice = index is None or isinstance(index, IndexSlice)
            offsets = _sums(offsets, np.reshape(numbers, (1, -1) if is_slice else (-1, 1)) * stride, span)
        else:
            offsets = offsets + numbers * stride
    if isinstance(entry, TopologyCopies):
        npu, switch = (
            _sums(_table(base, part), offsets * count, span) if many else base + offsets * count
            for base, count in ((part.npu, entry.npus), (part.switch, entry.switches))
        )
        return TopologyPart(part.home, replace(entry, shape=(), strides=()), npu, switch, many)
    base = part.switch if entry.switch else part.npu
    numbers = (_sums(_table(base, part), offsets, span) if many else base + offsets) + entry.first
    star = any(i is None or i.star for i in slices)
    return _devices(part, -1 - numbers if entry.switch else numbers, many, star, span)


def _table(base: Data, part: TopologyPart) -> Int64Array:
    """int64[iterations or 1, elements]: the offsets of a part."""
    return base if part.many else np.asarray(base, np.int64).reshape(-1, 1)


def _sums(base: Int64Array, offsets: Int64Array, span: Span) -> Int64Array:
    """int64[iterations or 1, elements]: in each iteration, the sum of each pair of a base and an offset.

    Raises SourceError if there are too many.
    """
    rows = 0 if 0 in (len(base), len(offsets)) else max(len(base), len(offsets))
    elements = base.shape[1] * offsets.shape[1]
    limits.check_count("items of a list", rows * elements, span)
    return (base[:, :, None] + offsets[:, None, :]).reshape(rows, elements)


def _devices(part: TopologyPart, numbers: Data, many: bool, star: bool, span: Span) -> Value:
    """A device, or a group; numbers: int64[iterations or 1, members] if `many`."""
    if not many:
        return Value(NPU, int(numbers) if not is_column(numbers) else numbers, part.home)
    if part.home is None:
        raise fail("E0301", "the end of a link must be one device, not several", span)
    kept = is_present(part.home, numbers) if star else np.ones(numbers.shape, np.bool_)
    stop = np.cumsum(np.count_nonzero(kept, axis=1), dtype=np.int64)
    start = np.concatenate([np.zeros(1, np.int64), stop])[:-1]
    return Value(GROUP, ListArray(start, stop, numbers[kept], uniform=len(numbers) == 1), part.home)


def devices_of(part: TopologyPart, span: Span) -> Value:
    """The devices of a part without further indices: an NPU, or all NPUs of an array or of copies."""
    entry = part.entry
    if not isinstance(entry, TopologyCopies):
        result = index_part(part, [None] * len(entry.shape), span)
        assert isinstance(result, Value)
        return result
    count = int(np.prod(entry.shape, dtype=np.int64)) * entry.npus  # the copies have consecutive numbers
    numbers = _sums(_table(part.npu, part), np.arange(count, dtype=np.int64)[None, :], span) + entry.first_npu
    return _devices(part, numbers, True, True, span)


def is_present(topology: Topology, numbers: Data) -> Data:
    """bool, or bool an item: whether devices are present, not removed. Switch s has the number -1 - s."""
    network = topology.network
    index = np.where(np.asarray(numbers) < 0, network.npu_count - 1 - np.asarray(numbers), numbers)
    return network.present[index]


def device_label(topology: Topology, number: int) -> str:
    """The name of a device. Switch s has the number -1 - s."""
    network = topology.network
    return network.shown_name(number if number >= 0 else network.npu_count - 1 - number)


def check_npus(numbers: Int64Array, home: Topology | None, span: Span) -> None:
    """Raise SourceError if one of some devices is a switch."""
    switches = numbers[numbers < 0]
    if len(switches) and home is not None:
        message = f"{device_label(home, int(switches[0]))} is a switch, not an NPU"
        raise fail("E0322", message, span, hint="a switch only forwards chunks: no program places a chunk at a switch")
