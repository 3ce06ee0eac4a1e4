"""Resolves the names of parts of topologies, such as `pod.node[2].gpu[0, *]`, to numbers of devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from collc.base.diagnostics import Span
from collc.base.wording import did_you_mean, listed, nearest, plural
from collc.source.elaboration.topology_values import (
    DeviceArray,
    Topology,
    TopologyCopies,
    TopologyMember,
    TopologyMembers,
    TopologyPart,
)
from collc.source.elaboration.values import Data, Value, is_column, npus
from collc.source.parsing.expressions import Expr, Index, Member, Name
from collc.source.problems import fail
from collc.source.types import NPU
from collc.ten.arrays import Int64Array

MAX_NAMES = 8
"""Names of parts that a hint lists."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexSlice:
    """Several indices at once. star: it is `*`, all devices that are present."""

    numbers: Int64Array
    star: bool


PartIndex = int | Int64Array | IndexSlice | None
"""One index of a part: a number, one number an iteration, a slice, or None for `*`."""


def member_of(part: TopologyPart | Topology, name: str, span: Span) -> TopologyPart:
    """The member of a topology or of a copy with a name. Raises SourceError if there is none."""
    if isinstance(part, Topology):
        members, what = part.members, f"topology '{part.name}'"
        npu = switch = 0
        many, home = False, part
    else:
        if not isinstance(part.entry, TopologyCopies):
            raise fail("E0314", f"'{part.entry.name}' is an array of devices and has no member '{name}'", span)
        if part.entry.shape:
            hint = f"choose one, {part.entry.name}[0].{name}, or all, {part.entry.name}[*].{name}"
            raise fail("E0315", f"'{part.entry.name}' is an array of copies", span, hint=hint)
        members, what = part.entry.members, f"'{part.entry.name}'"
        npu, switch, many, home = (
            part.npu + part.entry.first_npu,
            part.switch + part.entry.first_switch,
            part.many,
            part.home,
        )
    entry = members.get(name)
    if entry is None:
        known = [*members, "npus"]
        hint = did_you_mean(name, known, f"it has {listed(nearest(name, known, MAX_NAMES))}")
        raise fail("E0316", f"{what} has no member '{name}'", span, hint=hint)
    return TopologyPart(home, entry, npu, switch, many)


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


def _offsets(entry: TopologyMember, indices: Sequence[PartIndex], span: Span) -> tuple[Any, bool, bool]:
    """The offset of the indexed device or copy in its array: the sum of index * stride.

    Also whether there are several offsets, and whether one of the indices is `*`.
    """
    if len(indices) != len(entry.shape):
        has = (
            f"takes {plural(len(entry.shape), 'index').replace('indexs', 'indices')}"
            if entry.shape
            else "takes no index"
        )
        raise fail("E0317", f"'{entry.name}' {has}, not {len(indices)}", span)
    several = any(i is None or isinstance(i, IndexSlice) for i in indices)
    star = any(i is None or (isinstance(i, IndexSlice) and i.star) for i in indices)
    total: Data = 0
    for index, size, stride in zip(indices, entry.shape, entry.strides, strict=True):
        numbers = (
            np.arange(size, dtype=np.int64)
            if index is None
            else index.numbers
            if isinstance(index, IndexSlice)
            else index
        )
        low, high = (numbers.min(), numbers.max()) if is_column(numbers) and numbers.size else (numbers, numbers)
        if not is_column(low) and not (low >= 0 and high < size):
            wrong = int(low if low < 0 else high)
            raise fail("E0318", f"'{entry.name}' has no index {wrong} here: its indices are 0 .. {size - 1}", span)
        if several:
            column = np.atleast_1d(np.asarray(numbers, np.int64)) * stride
            total = np.add.outer(np.atleast_1d(np.asarray(total, np.int64)), column).ravel()
        else:
            total = total + numbers * stride
    return total, several, star


def index_part(part: TopologyPart, indices: Sequence[PartIndex], span: Span) -> TopologyPart | Value:
    """The part with indices: a copy of a topology, an NPU or a group. Raises SourceError."""
    offsets, several, star = _offsets(part.entry, indices, span)
    many = several or part.many
    if isinstance(part.entry, TopologyCopies):
        entry = part.entry
        inside = TopologyCopies(
            entry.name, (), (), entry.first_npu, entry.first_switch, entry.npus, entry.switches, entry.members
        )
        return TopologyPart(
            part.home,
            inside,
            _add_offsets(part.npu, offsets * entry.npus, many),
            _add_offsets(part.switch, offsets * entry.switches, many),
            many,
        )
    numbers = _numbers(part, _add_offsets(part.switch if part.entry.switch else part.npu, offsets, many))
    return _devices(part, numbers, many, star, span)


def _add_offsets(base: Data, offsets: Data, many: bool) -> Data:
    if many:
        return np.add.outer(np.atleast_1d(np.asarray(base, np.int64)), np.atleast_1d(np.asarray(offsets))).ravel()
    return base + offsets


def _numbers(part: TopologyPart, offsets: Data) -> Data:
    entry = part.entry
    if isinstance(entry, DeviceArray) and entry.switch:
        return -1 - (offsets + entry.first)
    return offsets + (entry.first if isinstance(entry, DeviceArray) else entry.first_npu)


def _devices(part: TopologyPart, numbers: Data, many: bool, star: bool, span: Span) -> Value:
    if not many:
        return Value(NPU, int(numbers) if not is_column(numbers) else numbers, part.home)
    if part.home is None:
        raise fail("E0301", "the end of a link must be one device, not several", span)
    if star:
        numbers = numbers[is_present(part.home, numbers)]
    return npus(numbers, part.home)


def devices_of(part: TopologyPart, span: Span) -> Value:
    """The devices of a part without further indices: an NPU, or all NPUs of an array or of copies."""
    entry = part.entry
    if isinstance(entry, DeviceArray):
        result = index_part(part, [None] * len(entry.shape), span)
        if isinstance(result, Value):
            return result
    copies = np.arange(int(np.prod(entry.shape, dtype=np.int64)), dtype=np.int64)
    each = np.arange(entry.npus if isinstance(entry, TopologyCopies) else 0, dtype=np.int64)
    offsets = np.add.outer(copies * len(each), each).ravel()
    numbers = _numbers(part, _add_offsets(part.npu, offsets, many=True))
    return _devices(part, numbers, True, True, span)


def is_present(topology: Topology, numbers: Data) -> Data:
    """bool, or bool an item: whether devices are present, not removed. Switch s has the number -1 - s."""
    network = topology.network
    at = np.where(np.asarray(numbers) < 0, network.npu_count - 1 - np.asarray(numbers), numbers)
    return network.present[at]


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
