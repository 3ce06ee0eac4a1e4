"""Elaboration of topology templates: builds networks of devices, links and copies of other networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Note, Span
from collc.base.wording import did_you_mean
from collc.source import limits
from collc.source.elaboration.arithmetic import first_row, item, text_of
from collc.source.elaboration.attributes import (
    Attributed,
    endpoint_of,
    given_attributes,
    labels_inside,
    labels_of,
    whole_time,
)
from collc.source.elaboration.declared_parts import declared_rows
from collc.source.elaboration.evaluate import BodyRows, Evaluator
from collc.source.elaboration.topology_parts import index_part, part_named
from collc.source.elaboration.topology_values import (
    DeclaredParts,
    DeviceArray,
    Topology,
    TopologyCopies,
    TopologyMember,
    TopologyPart,
)
from collc.source.elaboration.values import Data, Frame, ListArray, Value, is_column
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Expr, Name, root_of
from collc.source.problems import fail
from collc.source.types import DEVICES, INT, RATE, TOPOLOGY
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.endpoint import Endpoint
from collc.ten.network import DeviceFamily, LinkKind, Network

Scalar = TypeVar("Scalar", bound=np.generic)

UNKNOWN_RATES: Final = LinkKind(None, None)


def build_topology(template: s.TopologyTemplate, use: Span, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology of a template whose parameters are in a frame. use: where it is used. Raises SourceError."""
    builder = TopologyBuilder(evaluator)
    try:
        table = evaluator.execute_body(template.body, frame.inner(), builder.handle, 3).table
    except RecursionError:
        raise limits.too_deep("the expansion of templates", use) from None
    return builder.finish_topology(template, table)


class TopologyBuilder:
    """Collects the devices and links of one topology. Switch s has the number -1 - s until all NPUs are known."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.entries: dict[str, TopologyMember] = {}
        self.places: dict[str, Span] = {}
        self.families: list[DeviceFamily] = []
        self.switch_families: list[DeviceFamily] = []
        self.npus = 0
        self.links = 0
        self.buffers: list[Int64Array] = []
        self.multicast: list[BoolArray] = []
        self.reduces: list[BoolArray] = []
        self.switches = 0
        self.endpoints: dict[Endpoint, int] = {Endpoint(): 0}
        self.endpoint_of: list[Int32Array] = []
        self.kinds: dict[LinkKind, int] = {}

    def go_on_from(self, base: Topology) -> Int64Array:
        """Take over the devices of a topology; returns its links, int64[links, 3], as `link` returns them."""
        network = base.network
        self.entries = dict(base.members)
        self.places = dict.fromkeys((*base.members, *(f.name for f in network.families)), base.span)
        n = self.npus = network.npu_count
        self.switches = network.switch_count
        self.links = network.link_count
        self.families = [f for f in network.families if f.first < n]
        self.switch_families = [replace(f, first=f.first - n) for f in network.families if f.first >= n]
        self.buffers, self.multicast, self.reduces = [network.buffers], [network.multicast], [network.reduces]
        self.endpoint_of = [self._endpoint_numbers(network)]
        return self.copied_links(network, np.zeros((1, 2), np.int64))

    def handle(self, statement: s.Statement, frame: Frame) -> BodyRows | None:
        """Execute a statement in all iterations of a frame; returns the links that it declares."""
        match statement:
            case s.DeviceDeclaration():
                self.declare(statement, [statement.name.name], frame)
                return None
            case s.DeviceTable():
                self.declare(statement.device, statement.names, frame)
                return None
            case s.LinkDeclaration():
                return self.link(statement, frame)
            case s.LinkMatrix():
                return self.matrix(statement, frame)
            case s.LinkTable():
                return self.table(statement, frame)
            case s.Use():
                return self.use(statement, frame)
            case s.PartDeclaration(name=name):
                rows = name.span, partial(declared_rows, statement, self.evaluator, frame)
                known = self.entries.get(name.name)
                if isinstance(known, DeclaredParts) and frame.rows is None:
                    known.evaluate.append(rows)
                    return None
                self.once([name.name], name.span, "part", frame)
                self.entries[name.name] = DeclaredParts(name.name, [rows])
                return None
            case _:
                raise AssertionError(statement)  # the grammar has no other

    # Devices

    def once(self, names: Sequence[str], span: Span, what: str, frame: Frame) -> None:
        """Raise SourceError if a name is declared in a loop or again."""
        if frame.rows is not None:
            hint = f"declare an array: {what} {names[0]}[n]"
            raise fail("E0303", f"{what} '{names[0]}' is declared inside a loop", span, hint=hint)
        if not self.places.keys().isdisjoint(names):
            name = next(name for name in names if name in self.places)
            raise fail("E0205", f"'{name}' is declared twice", span, Note("first here", self.places[name]))
        self.places |= dict.fromkeys(names, span)

    def shape(self, sizes: Sequence[Expr], frame: Frame) -> tuple[int, ...]:
        """The sizes of an array."""
        shape = tuple(self.evaluator.whole_number(size, frame, "a size") for size in sizes)
        for count, size in zip(shape, sizes, strict=True):
            if count < 0:
                raise fail("E0304", f"an array cannot have {count} devices", size.span)
        return shape

    def declare(self, node: s.DeviceDeclaration, names: Sequence[str], frame: Frame) -> None:
        """`npu gpu[2, 8]`, `switch s (multicast: true)`; names: of all that are declared so."""
        self.once(names, node.name.span, node.kind, frame)
        shape = self.shape(node.shape, frame)
        size = prod(shape)
        count = size * len(names)
        limits.check_count("NPUs and switches", self.npus + self.switches + count, node.span)
        given = given_attributes(node, frame, self.evaluator)
        switch = node.kind == "switch"
        first = self.switches if switch else self.npus
        strides = row_major(shape)
        families = self.switch_families if switch else self.families
        labels = labels_of(node.labels, size, frame, self.evaluator)
        for name in names:
            self.entries[name] = DeviceArray(name, switch, shape, strides, first)
            families.append(DeviceFamily(name, shape, first, strides, labels))
            first += size
        if not switch:
            kind = self.endpoints.setdefault(endpoint_of(given, node.attributes, node.span), len(self.endpoints))
            self.endpoint_of.append(np.full(count, kind, np.int32))
            self.npus += count
            return
        self.buffers.append(np.full(count, given.get("buffer", -1), np.int64))
        self.multicast.append(np.full(count, given.get("multicast", False), np.bool_))
        self.reduces.append(np.full(count, given.get("reduce", False), np.bool_))
        self.switches += count

    def use(self, node: s.Use, frame: Frame) -> BodyRows | None:
        """`use dgx(8) as node[4]`."""
        self.once([node.name.name], node.name.span, "use", frame)
        shape = self.shape(node.shape, frame)
        copies = prod(shape)
        topology: Topology = self.evaluator.coerce(node.topology, frame, TOPOLOGY, "the topology of 'use'").data
        inner = topology.network
        limits.check_count("NPUs and switches", self.npus + self.switches + copies * inner.device_count, node.span)
        limits.check_count("links", self.links + copies * inner.link_count, node.span)
        families = len(self.families) + len(self.switch_families) + copies * len(inner.families)
        limits.check_count("arrays of devices", families, node.span)
        if not inner.present.all():
            raise fail("E0307", f"'{topology.name}' has removed parts and cannot be copied", node.topology.span)
        name = node.name.name
        self.entries[name] = TopologyCopies(
            name,
            shape,
            row_major(shape),
            self.npus,
            self.switches,
            inner.npu_count,
            inner.switch_count,
            topology.members,
        )
        first = np.arange(copies, dtype=np.int64)
        base = np.stack([self.npus + first * inner.npu_count, self.switches + first * inner.switch_count], axis=1)
        labels = labels_of(node.labels, copies, frame, self.evaluator) or [""] * copies
        for index, (npu, switch), host in zip(np.ndindex(shape), base.tolist(), labels, strict=True):
            prefix = name + (f"[{', '.join(map(str, index))}]" if shape else "")
            for family in inner.families:
                below = family.first < inner.npu_count
                device = npu + family.first if below else switch + family.first - inner.npu_count
                copy = DeviceFamily(
                    f"{prefix}.{family.name}", family.shape, device, family.strides, labels_inside(host, family)
                )  # `replace` takes five times as long
                (self.families if below else self.switch_families).append(copy)
        self.copy_attributes(inner, copies)
        table = self.copied_links(inner, base)
        self.links += len(table)
        return BodyRows(np.zeros(len(table), np.int64), table)

    def copy_attributes(self, inner: Network, copies: int) -> None:
        """Add the attributes of the devices of copies."""
        self.buffers.append(np.tile(inner.buffers, copies))
        self.multicast.append(np.tile(inner.multicast, copies))
        self.reduces.append(np.tile(inner.reduces, copies))
        self.endpoint_of.append(np.tile(self._endpoint_numbers(inner), copies))
        self.npus += copies * inner.npu_count
        self.switches += copies * inner.switch_count

    def _endpoint_numbers(self, network: Network) -> Int32Array:
        """int32[NPUs]: the number of the limits of each NPU of a network among those of this topology."""
        kinds = network.endpoint_kinds or (Endpoint(),)
        rows = np.array([self.endpoints.setdefault(k, len(self.endpoints)) for k in kinds], np.int32)
        return rows[network.endpoint] if len(network.endpoint) else np.repeat(rows[:1], network.npu_count)

    def copied_links(self, inner: Network, base: Int64Array) -> Int64Array:
        """int64[copies * links, 3]: the links of copies; base: int64[copies, 2], first NPU and switch of each."""
        kinds = np.array([self.kinds.setdefault(k, len(self.kinds)) for k in inner.kinds], np.int64)
        ends: list[Any] = []
        for end in (inner.source.astype(np.int64), inner.target.astype(np.int64)):
            npu = end < inner.npu_count
            moved = np.where(npu, end + base[:, :1], -1 - (end - inner.npu_count + base[:, 1:]))
            ends.append(moved.reshape(-1))
        kind = kinds[inner.kind] if len(kinds) else np.empty(0, np.int64)
        return np.stack([*ends, np.tile(kind, len(base))], axis=1)

    # Links

    def link(self, node: s.LinkDeclaration, frame: Frame) -> BodyRows:
        """The links of `link a -> b (...)`; the columns are source, target and kind."""
        directions = 2 if node.both else 1
        count = 1 if frame.rows is None else frame.rows
        limits.check_count("links", self.links + directions * count, node.span)
        self.links += directions * count
        a, b = self.end(node.source, frame), self.end(node.target, frame)
        row = first_row(a == b)
        if row >= 0:
            raise fail("E0308", "this is a link from a device to itself", node.span, frame.note(row))
        kind = self.link_kind(node, frame)
        table = np.empty((count, directions, 3), np.int64)
        table[:, 0, 0], table[:, 0, 1] = a, b
        if node.both:
            table[:, 1, 0], table[:, 1, 1] = b, a
        table[:, :, 2] = np.asarray(kind).reshape(-1, 1)
        return BodyRows(np.repeat(np.arange(count, dtype=np.int64), directions), table.reshape(-1, 3))

    def table(self, node: s.LinkTable, frame: Frame) -> BodyRows:
        """The links of a table, line by line in each iteration."""
        around = 1 if frame.rows is None else frame.rows
        limits.check_count("links", self.links + node.lines * around, node.span)
        rows: list[Int64Array] = []
        tables: list[Int64Array] = []
        for form in node.forms:
            count = len(form.line)
            take = None if frame.rows is None else np.repeat(np.arange(around, dtype=np.int64), count)
            names = {name: Value(INT, np.tile(numbers, around)) for name, numbers in form.numbers.items()}
            for name, devices in form.names.items():
                names[name] = Value(DEVICES, np.tile(self.numbers_of(devices, node.span), around))
            made = self.link(form.link, Frame(count * around, frame, take, names, depth=frame.depth + 1))
            rows.append((made.row // count) * node.lines + form.line[made.row % count])
            tables.append(made.table)
        line = np.concatenate(rows)
        order = np.argsort(line, kind="stable")
        return BodyRows(line[order] // node.lines, np.concatenate(tables)[order])

    def numbers_of(self, devices: Sequence[str], span: Span) -> Int64Array:
        """int64: the numbers of single devices. Raises SourceError if one is none."""
        known: dict[str, int] = {}
        for name in set(devices):
            entry = self.entries.get(name)
            if not isinstance(entry, DeviceArray) or entry.shape:
                raise fail("E0309", f"unknown device '{name}'", span)
            known[name] = -1 - entry.first if entry.switch else entry.first
        return np.array([known[name] for name in devices], np.int64)

    def end(self, node: Expr, frame: Frame) -> Data:
        """The number of a device at the end of a link, or one an iteration."""
        if isinstance(node, Name) and node.name.startswith(s.COLUMN):
            return frame.names[node.name].data
        part = self.part(node, frame)
        if isinstance(part, TopologyPart):
            part = self.at(part, [], node, frame)
        if isinstance(part, TopologyPart):
            raise fail("E0301", f"'{part.entry.name}' is a copy of a topology, not a device", node.span)
        return part.data

    def part(self, node: Expr, frame: Frame) -> TopologyPart | Value:
        """A device or part by its name in the body. Raises SourceError."""
        part = part_named(node, self.entries, None, lambda base, index: self.at(base, index.indices, index, frame))
        if part is not None:
            return part
        root = root_of(node)
        if isinstance(root, Name) and root.name not in self.entries:
            hint = did_you_mean(root.name, self.entries)
            raise fail("E0309", f"unknown device or copy '{root.name}'", root.span, hint=hint)
        raise fail("E0301", "the end of a link must be a device", node.span)

    def at(self, part: TopologyPart, indices: Sequence[Expr], node: Expr, frame: Frame) -> TopologyPart | Value:
        """A part with indices. Raises SourceError, with the values of the loop variables."""
        numbers = [self.evaluator.device_index(i, frame) for i in indices]
        for index, size in zip(numbers, part.entry.shape, strict=False):
            row = first_row((index < 0) | (index >= size)) if is_column(index) else -1
            if row >= 0:
                message = f"'{part.entry.name}' has no index {item(index, row)} here: its indices are 0 .. {size - 1}"
                raise fail("E0318", message, node.span, frame.note(row))
        return index_part(part, numbers, node.span)

    def link_kind(self, node: Attributed, frame: Frame, old: LinkKind = UNKNOWN_RATES) -> Data:
        """The number of the kind of a link, or one an iteration. old: what it has if its attributes say nothing."""
        given = given_attributes(node, frame, self.evaluator)
        kept = {"latency": old.latency, "bandwidth": old.bandwidth, "overhead": old.overhead}
        places = dict.fromkeys(kept, node.span) | {argument.key: argument.span for argument in node.attributes}
        columns = [given.get(name, value) for name, value in kept.items()]
        varies = any(is_column(c) for c in columns)
        rows = (frame.rows or 0) if varies else 1
        kinds: list[tuple[Any, Any, Any]] = list(
            zip(*(c.tolist() if is_column(c) else [c] * rows for c in columns), strict=True)
        )
        known: dict[tuple[Any, Any, Any], int] = {}
        for row, kind in enumerate(kinds):
            if kind not in known:
                known[kind] = self._kind_number(*kind, places, frame.note(row))
        return np.array([known[kind] for kind in kinds], np.int64) if varies else known[kinds[0]]

    def _kind_number(
        self, latency: Data, bandwidth: Data, overhead: Data, places: dict[str, Span], note: Note | None
    ) -> int:
        """The number of a kind. Raises SourceError if its values are not valid."""
        if latency is not None:
            latency = whole_time(latency, "latency", places["latency"], note)
        overhead = whole_time(overhead, "overhead", places["overhead"], note)
        if bandwidth is not None and bandwidth <= 0:
            message = f"a bandwidth of {text_of(bandwidth, RATE)} is not more than 0"
            raise fail("E0306", message, places["bandwidth"], note)
        kind = LinkKind(latency, None if bandwidth is None else Fraction(bandwidth), overhead)
        return self.kinds.setdefault(kind, len(self.kinds))

    def matrix(self, node: s.LinkMatrix, frame: Frame) -> BodyRows:
        """`links [[0, 2], [1, 0]] (...)`: the matrix is over the NPUs declared so far."""
        if frame.rows is not None:
            raise fail("E0303", "a matrix of links is not allowed inside a loop", node.span)
        value, span = self.evaluator.value(node.matrix, frame), node.matrix.span
        lists = value.data.uniform_items() if isinstance(value.data, ListArray) else None
        if not isinstance(lists, ListArray) or isinstance(lists.content, ListArray):
            raise fail("E0311", f"a matrix of links must be a list of lists of int, not {value.type}", span)
        n = len(lists.start)
        row = first_row(lists.lengths != n)
        if row >= 0:
            raise fail("E0311", f"the matrix has {n} rows, but row {row} has {lists.lengths[row]} entries", span)
        if n != self.npus:
            raise fail("E0311", f"the matrix is {n} x {n}, but {self.npus} NPUs are declared before it", span)
        counts = np.array([lists.content[a:b] for a, b in zip(lists.start, lists.stop, strict=True)])
        if counts.dtype != np.int64 or (counts < 0).any():
            raise fail("E0311", "an entry of the matrix must be a number of links, 0 or more", span)
        row = first_row(counts.diagonal() != 0)
        if row >= 0:
            raise fail("E0308", f"the matrix links NPU {row} to itself", span)
        limits.check_count("links", self.links + int(counts.astype(object).sum()), node.span)
        kind = self.link_kind(node, frame)
        source, target = np.nonzero(counts)
        lanes = counts[source, target]
        table = np.stack([source, target, np.full(len(source), kind)], axis=1).astype(np.int64)
        table = np.repeat(table, lanes, axis=0)
        self.links += len(table)
        return BodyRows(np.zeros(len(table), np.int64), table)

    # The result

    def finish_topology(self, template: s.TopologyTemplate, table: Int64Array) -> Topology:
        """The topology, its switches numbered after all NPUs."""
        name = template.name.name
        if self.npus == 0:
            raise fail("E0312", f"topology '{name}' has no NPU", template.name.span)
        topology = Topology(name, name, self.network(name, table), self.entries, template.name.span)
        for entry in self.entries.values():
            if isinstance(entry, DeclaredParts):
                entry.home = topology
        return topology

    def network(self, name: str, table: Int64Array) -> Network:
        """The network of the devices with some links (int64[links, 3]), as `link` returns them."""
        ends = np.where(table[:, :2] < 0, self.npus - 1 - table[:, :2], table[:, :2]).astype(np.int32)
        switch_families = [replace(family, first=family.first + self.npus) for family in self.switch_families]
        plain = len(self.endpoints) == 1
        return Network(
            name=name,
            npu_count=self.npus,
            families=tuple(f for f in (*self.families, *switch_families) if not f.shape or f.count),
            present=np.ones(self.npus + self.switches, np.bool_),
            buffers=_join_columns(self.buffers, np.int64),
            multicast=_join_columns(self.multicast, np.bool_),
            reduces=_join_columns(self.reduces, np.bool_),
            source=np.ascontiguousarray(ends[:, 0]),
            target=np.ascontiguousarray(ends[:, 1]),
            kind=table[:, 2].astype(np.int32),
            kinds=tuple(self.kinds),
            endpoint=np.empty(0, np.int32) if plain else _join_columns(self.endpoint_of, np.int32),
            endpoint_kinds=() if plain else tuple(self.endpoints),
        )


def _join_columns(parts: list[Any], dtype: type[Scalar]) -> NDArray[Scalar]:
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array in row-major order: the last index varies fastest."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
