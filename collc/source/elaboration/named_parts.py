"""The parts of topologies that fail as one: what `part` declares, devices, copies, links."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Final

import numpy as np

from collc.base.diagnostics import SourceFile, Span
from collc.base.units import decimal
from collc.base.wording import did_you_mean, phrase
from collc.source import limits
from collc.source.elaboration.arithmetic import text_of
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.topology_parts import IndexSlice
from collc.source.elaboration.topology_values import (
    DeclaredParts,
    DeviceArray,
    Topology,
    TopologyCopies,
    TopologyMember,
)
from collc.source.elaboration.values import Frame
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse_let
from collc.source.problems import fail
from collc.source.types import NUMBERS, RATE
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.parts import Part, rates_of, share_left

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A member of a topology or of its copies, and one index of it; None for all of them.

    name: in the program, with the index. npu, switch: offsets of its devices.
    """

    name: str
    entry: TopologyMember
    npu: int
    switch: int
    index: Index | None = None


class PartNames:
    """Finds the parts of a topology by name."""

    def __init__(self, topology: Topology, evaluator: Evaluator) -> None:
        self._topology, self._network, self._evaluator = topology, topology.network, evaluator
        network = topology.network
        self._pairs = {*zip(network.source.tolist(), network.target.tolist(), strict=True)}
        self._declared: dict[tuple[int, int, int], dict[Index, Part]] = {}

    def find_named(self, node: ex.Expr, frame: Frame) -> list[Part]:
        """The parts that an expression as `nic[0, *]`, `node[3]` or `node[*].nic[5]` names. Raises SourceError."""
        return self._there([part for chosen in self._choose_members(node, frame) for part in self._parts_of(chosen)])

    def find_text(self, text: str, frame: Frame) -> list[Part]:
        """The parts that a text names, as `find_named` does; also the links of two devices, as
        `gpu[0, 1] <-> leaf[1]`. Raises SourceError.
        """
        for arrow in ("<->", "->"):
            ends = text.split(arrow)
            if len(ends) == 2:
                source, target = (self._find_end(end, frame) for end in ends)
                pairs = ((source, target), (target, source)) if arrow == "<->" else ((source, target),)
                links = self._there([Part(text, (), tuple(sorted(pairs)))])
                if not links:
                    names = f" {arrow} ".join(map(self._network.shown_name, (source, target)))
                    raise fail("E0331", f"'{self._topology.name}' has no link {names}", _place(text))
                return links
        expression = parse_let(SourceFile("<part>", f"let part = {text.strip()}"))
        if expression is None:
            raise fail("E0331", f"'{text}' is not the name of a part", None, hint="as in: nic[3, 5]")
        return self.find_named(expression, frame)

    def _find_end(self, text: str, frame: Frame) -> int:
        """The device that a text names. Raises SourceError."""
        devices = [device for part in self.find_text(text, frame) for device in part.devices]
        if len(devices) != 1:
            message = f"each end of a link is one device, not {len(devices)}"
            raise fail("E0331", message, _place(text), hint="as in: gpu[0, 1] <-> leaf[1]")
        return devices[0]

    def family(self, name: ex.Identifier) -> list[Part]:
        """All parts of a name, which may be in the plural: of the topology, else of its copies, else `npu`, `switch`,
        `link` or `cable`. Raises SourceError.
        """
        members = self._topology.members
        for word in _singular(name.name):
            chosen = [_Chosen(word, members[word], 0, 0)] if word in members else [*self._members_of_copies(word)]
            if chosen:
                return self._there([part for each in chosen for part in self._parts_of(each)])
            if word in _ALL:
                return _ALL[word](self._network)
        known = [*members, *_ALL]
        hint = did_you_mean(name.name, known, f"it has {phrase(known)}")
        raise fail("E0331", f"'{self._topology.name}' has no parts called '{name.name}'", name.span, hint=hint)

    def _there(self, parts: list[Part]) -> list[Part]:
        """The parts without what was removed before, and no part of which nothing is left."""
        network, kept = self._network, list[Part]()
        for part in parts:
            devices = tuple(d for d in part.devices if d < network.device_count and network.present[d])
            links = tuple(pair for pair in part.links if pair in self._pairs)
            if devices or links:
                kept.append(replace(part, devices=devices, links=links))
        return kept

    def _members_of_copies(self, name: str) -> Iterator[_Chosen]:
        """The members of a name of all copies, at any depth."""
        waiting = [_Chosen(word, entry, 0, 0) for word, entry in self._topology.members.items()]
        for chosen in waiting:
            if not isinstance(chosen.entry, TopologyCopies):
                continue
            for copy in self._elements_of(chosen):
                for word, entry in chosen.entry.members.items():
                    if isinstance(entry, TopologyCopies):
                        waiting.append(self._member(copy, word))
                    if word == name:
                        yield self._member(copy, word)

    # From an expression to members with an index

    def _choose_members(self, node: ex.Expr, frame: Frame) -> list[_Chosen]:
        members = self._topology.members
        match node:
            case ex.Name():
                if node.name not in members:
                    hint = did_you_mean(node.name, members, f"it has {phrase(members)}")
                    raise fail(
                        "E0331", f"'{self._topology.name}' has no part called '{node.name}'", node.span, hint=hint
                    )
                return [_Chosen(node.name, members[node.name], 0, 0)]
            case ex.Index():
                ranges = [self._evaluator.part_index(index, frame) for index in node.indices]
                return [
                    part
                    for base in self._choose_members(node.base, frame)
                    for part in self._select(base, ranges, node.span)
                ]
            case ex.Member():
                chosen: list[_Chosen] = []
                for base in self._choose_members(node.base, frame):
                    if not isinstance(base.entry, TopologyCopies) or node.member.name not in base.entry.members:
                        message = f"'{base.name}' has no part called '{node.member.name}'"
                        raise fail("E0331", message, node.member.span)
                    chosen += [self._member(copy, node.member.name) for copy in self._elements_of(base)]
                return chosen
            case _:
                raise fail("E0331", "the name of a part is expected, as in: nic[0, *]", node.span)

    def _select(self, base: _Chosen, ranges: Sequence[object], span: Span) -> list[_Chosen]:
        """The elements of a member with some indices. Raises SourceError if it has none of them."""
        if base.index is not None:
            raise fail("E0317", f"'{base.name}' takes no index", span)
        wanted = [
            None if each is None else {*each.numbers.tolist()} if isinstance(each, IndexSlice) else {each}
            for each in ranges
        ]
        every = self._elements_of(base)
        chosen = [
            part
            for part in every
            if len(part.index or ()) == len(wanted)
            and all(own is None or number in own for number, own in zip(part.index or (), wanted, strict=True))
        ]
        if not chosen:
            hint = f"there are {every[0].name} .. {every[-1].name}" if every else ""
            raise fail("E0331", f"'{base.name}' has no parts with these indices", span, hint=hint)
        return chosen

    def _elements_of(self, chosen: _Chosen) -> list[_Chosen]:
        """All elements of a member, or the one that is chosen."""
        if chosen.index is not None:
            return [chosen]
        if isinstance(chosen.entry, DeclaredParts):
            indices: Sequence[Index] = [*self._rows(chosen)]
        else:
            indices = [*product(*map(range, chosen.entry.shape))]
        return [replace(chosen, name=chosen.name + _brackets(index), index=index) for index in indices]

    def _member(self, copy: _Chosen, name: str) -> _Chosen:
        entry = copy.entry
        assert isinstance(entry, TopologyCopies)
        number = _offset(entry, copy.index or ())
        npu = copy.npu + entry.first_npu + number * entry.npus
        switch = copy.switch + entry.first_switch + number * entry.switches
        return _Chosen(f"{copy.name}.{name}", entry.members[name], npu, switch)

    # From members with an index to parts

    def _parts_of(self, chosen: _Chosen) -> list[Part]:
        return [self._part(each) for each in self._elements_of(chosen)]

    def _part(self, chosen: _Chosen) -> Part:
        network, entry, index = self._network, chosen.entry, chosen.index or ()
        first_switch = network.npu_count + chosen.switch
        match entry:
            case DeviceArray():
                number = entry.first + _offset(entry, index)
                device = first_switch + number if entry.switch else chosen.npu + number
                return Part(chosen.name, (device,), label=network.real_name(device))
            case TopologyCopies():
                number = _offset(entry, index)
                npu = chosen.npu + entry.first_npu + number * entry.npus
                switch = first_switch + entry.first_switch + number * entry.switches
                devices = (*range(npu, npu + entry.npus), *range(switch, switch + entry.switches))
                names = {network.real_name(device).rpartition("/")[0] for device in devices}
                return Part(chosen.name, devices, label=names.pop() if len(names) == 1 else "")
            case DeclaredParts():
                part = self._rows(chosen)[index]
                return replace(part, name=chosen.name, label=self._on_host(part))

    def _on_host(self, part: Part) -> str:
        """The label of a part with the host of its NPUs, if labels say it, as that of a device in a copy."""
        ends = (*part.devices, *(device for pair in part.links for device in pair))
        npus = (device for device in ends if device < self._network.npu_count)
        hosts = {self._network.real_name(npu).rpartition("/")[0] for npu in npus} - {""}
        return f"{hosts.pop()}/{part.label}" if len(hosts) == 1 and part.label and "/" not in part.label else part.label

    def _rows(self, chosen: _Chosen) -> dict[Index, Part]:
        """The parts that a statement declares, by index, in the numbers of the network."""
        entry = chosen.entry
        assert isinstance(entry, DeclaredParts)
        key = id(entry), chosen.npu, chosen.switch
        if key not in self._declared:
            first = self._network.npu_count + chosen.switch

            def network_number(device: int) -> int:
                return device + chosen.npu if device >= 0 else first - 1 - device

            self._declared[key] = {
                index: Part(
                    "",
                    tuple(sorted({*map(network_number, devices)})),
                    tuple(sorted({(network_number(a), network_number(b)) for a, b in links})),
                    label,
                )
                for index, (devices, links, label) in entry.rows.items()
            }
        return self._declared[key]


def _place(text: str) -> Span:
    """The whole of the name of a part that was typed."""
    return Span(SourceFile("<part>", text), 0, len(text))


def _brackets(index: Index) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _offset(entry: DeviceArray | TopologyCopies, index: Index) -> int:
    return sum(number * stride for number, stride in zip(index, entry.strides, strict=True))


def _singular(name: str) -> list[str]:
    """What a name in the plural may be the plural of: itself, `nic` of `nics`, `switch` of `switches`."""
    return [name, *(name.removesuffix(end) for end in ("s", "es") if name.endswith(end))]


def _each_link(network: Network) -> list[Part]:
    pairs = sorted({*zip(network.source.tolist(), network.target.tolist(), strict=True)})
    return [Part(f"{network.device_name(a)} -> {network.device_name(b)}", (), ((a, b),)) for a, b in pairs]


def _each_cable(network: Network) -> list[Part]:
    """The links between two devices, in both directions."""
    ends = {*zip(network.source.tolist(), network.target.tolist(), strict=True)}
    pairs = sorted({(min(pair), max(pair)) for pair in ends})
    return [
        Part(
            f"{network.device_name(a)} <-> {network.device_name(b)}",
            (),
            tuple(pair for pair in ((a, b), (b, a)) if pair in ends),
            " <-> ".join(names) if all(names := [network.real_name(a), network.real_name(b)]) else "",
        )
        for a, b in pairs
    ]


def _each_device(network: Network, first: int, after: int) -> list[Part]:
    return [
        Part(network.device_name(device), (device,), label=network.real_name(device))
        for device in range(first, after)
        if network.present[device]
    ]


_ALL: Final[dict[str, Callable[[Network], list[Part]]]] = {
    "npu": lambda network: _each_device(network, 0, network.npu_count),
    "switch": lambda network: _each_device(network, network.npu_count, network.device_count),
    "link": _each_link,
    "cable": _each_cable,
}
"""The parts that every network has."""


class _Failures:
    """Collects failures. number: of each part by its devices, links and the share that is left. rows: the failures of
    each number of parts.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.names: dict[str, int] = {}
        self.rows: dict[int, dict[Index, None]] = {}
        self._number: dict[tuple[object, ...], int] = {}
        self._first: dict[tuple[object, ...], str] = {}

    def number(self, part: Part) -> int:
        """The number of a part; the first name of several that mean one part is its name, dead or slow."""
        own = part.devices, part.links
        number = self._number.setdefault((*own, part.left), len(self.parts))
        if number == len(self.parts):
            self.parts.append(replace(part, name=self._first.setdefault(own, part.name)))
        self.names.setdefault(part.name, number)
        return number

    def add(self, parts: Sequence[Part], size: int) -> None:
        """Add all failures of `size` of some parts at once."""
        numbers = sorted({*map(self.number, parts)})
        self.rows.setdefault(size, {}).update(dict.fromkeys(combinations(numbers, size)))


def _slowness(statement: s.Failing, network: Network, evaluator: Evaluator, frame: Frame) -> Callable[[Part], Part]:
    """What makes a part one with the share of its bandwidth that a statement leaves. Raises SourceError."""
    if not statement.attributes:
        return lambda part: part
    node = statement.attributes[0].value
    given = evaluator.value(node, frame)
    if given.type != RATE and given.type.kind not in NUMBERS:
        raise fail("E0211", f"the bandwidth that is left is a rate or a share, not {given.type}", node.span)

    share = Fraction(given.data)

    def slow(part: Part) -> Part:
        left = share_left(network, part, share, is_rate=given.type == RATE)
        if left is None:
            message = f"a share of {decimal(share)} is not between 0 and 1"
            if given.type == RATE:
                rates = [text_of(rate, RATE) for rate in rates_of(network, part)]
                message = f"{part.name} has {f'links of {phrase(rates)}' if rates else 'no links'}"
            hint = "give less, or the share that is left, as in (bandwidth: 1/2)"
            raise fail("E0617", message, node.span, hint=hint)
        return replace(part, left=left)

    return slow


def failing_parts(
    statements: Sequence[tuple[s.Failing, Frame]], topology: Topology, evaluator: Evaluator
) -> tuple[tuple[Part, ...], dict[str, int], tuple[Int64Array, ...]]:
    """The parts, names and members of `failures` statements (see FailureSets). Raises SourceError."""
    names, failures = PartNames(topology, evaluator), _Failures()
    for statement, frame in statements:
        node = statement.parts

        after_failure = _slowness(statement, topology.network, evaluator, frame)
        if not isinstance(node, s.AnyParts):
            failures.add([after_failure(part) for part in names.find_named(node, frame)], 1)
            continue
        size = 1 if node.count is None else node.count.value
        parts = [*dict.fromkeys(part for name in node.names for part in names.family(name))]
        pools = [parts] if node.within is None else _divide(parts, names.family(node.within))
        count = sum(comb(len(pool), size) for pool in pools) + sum(map(len, failures.rows.values()))
        limits.check_count("failures of a schedule", count, node.span)
        if size < 1 or not any(len(pool) >= size for pool in pools):
            what, where = phrase([name.name for name in node.names], "or"), node.within
            message = f"there are no {size} of {what}{f' within {where.name}' if where else ''}"
            raise fail("E0614", message, node.span)
        for pool in pools:
            failures.add([after_failure(part) for part in pool], size)
    rows = [np.array(sorted(failures.rows[size]), np.int64).reshape(-1, size) for size in sorted(failures.rows)]
    return tuple(failures.parts), failures.names, tuple(rows)


def _divide(parts: Sequence[Part], containers: Sequence[Part]) -> list[list[Part]]:
    """The parts within each container: devices are in it, links begin or end in it. Containers may overlap."""
    within: dict[int, set[int]] = {}
    for number, container in enumerate(containers):
        for device in container.devices:
            within.setdefault(device, set()).add(number)
    nowhere = set[int]()
    pools: list[list[Part]] = [[] for _ in containers]
    for part in parts:
        own = [within.get(device, nowhere) for device in part.devices]
        own += [within.get(a, nowhere) | within.get(b, nowhere) for a, b in part.links]
        for number in set[int].intersection(*own):
            pools[number].append(part)
    return pools


def parts_of(node: ex.Expr, topology: Topology, evaluator: Evaluator, frame: Frame) -> list[Part]:
    """The parts that `part nic[0, *]` in `without` names. Raises SourceError."""
    return PartNames(topology, evaluator).find_named(node, frame)
