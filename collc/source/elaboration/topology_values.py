"""Topologies as values of the language, with the names of their parts, and functions of whole topologies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from collc.base.diagnostics import Span
from collc.source import limits
from collc.source.parsing.expressions import Identifier
from collc.source.problems import fail
from collc.ten import transform
from collc.ten.endpoint import Endpoint
from collc.ten.limited import with_endpoints
from collc.ten.network import Network
from collc.ten.transform import joined_switches


class DeviceArray(NamedTuple):
    """An array of NPUs or switches. first: the number of its first device, counted among NPUs or among switches."""

    name: str
    switch: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int


@dataclass(frozen=True, eq=False)
class TopologyCopies:
    """An array of copies of a topology inside another. npus, switches: their numbers in one copy."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first_npu: int
    first_switch: int
    npus: int
    switches: int
    members: TopologyMembers


PartRow = tuple[list[int], list[tuple[int, int]], str]
"""The devices and links of a part (switch s has the number -1 - s), and its label."""


@dataclass(eq=False)
class DeclaredParts:
    """The parts that the `part` statements of a name declare.

    evaluate: for each statement its place, and the parts by index, in the numbers of the topology that declares them;
    called if they are used, since most are not. home: that topology, once it is complete.
    """

    name: str
    evaluate: list[tuple[Span, Callable[[Topology], dict[tuple[int, ...], PartRow]]]]
    home: Topology | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    @cached_property
    def rows(self) -> dict[tuple[int, ...], PartRow]:
        """The parts by index. Raises SourceError."""
        assert self.home is not None
        rows: dict[tuple[int, ...], PartRow] = {}
        for span, evaluate in self.evaluate:
            new = evaluate(self.home)
            if twice := [index for index in new if index in rows]:
                name = f"{self.name}[{', '.join(map(str, twice[0]))}]" if twice[0] else self.name
                raise fail("E0205", f"'{name}' is declared twice", span)
            rows |= new
        return rows


TopologyMember = DeviceArray | TopologyCopies | DeclaredParts
TopologyMembers = Mapping[str, TopologyMember]


@dataclass(frozen=True, eq=False)
class Topology:
    """A topology: its network and the names of its members.

    kind: the name of the template that it was made from. factors: of a product.
    """

    name: str
    kind: str
    network: Network
    members: TopologyMembers
    span: Span
    factors: tuple[Topology, ...] = ()

    @property
    def as_part(self) -> TopologyPart:
        """The topology as a part of itself."""
        n, switches = self.network.npu_count, self.network.switch_count
        return TopologyPart(self, TopologyCopies(self.name, (), (), 0, 0, n, switches, self.members))


@dataclass(frozen=True, slots=True, eq=False)
class TopologyPart:
    """A part of a topology, to which indices and members can be applied until it is an NPU or a group.

    npu, switch: offsets of the numbers of NPUs and switches of the entry: an int, one an iteration or, where `many` is
    set, int64[iterations or 1, elements of a slice]. home: the topology, None while it is being built.
    """

    home: Topology | None
    entry: TopologyMember
    npu: Any = 0
    switch: Any = 0
    many: bool = False


def rename_topology(topology: Topology, name: Identifier) -> Topology:
    """A topology under the name of a declaration."""
    network = replace(topology.network, name=name.name)
    return replace(topology, name=name.name, network=network, span=name.span)


def product(left: Topology, right: Topology, span: Span) -> Topology:
    """The Cartesian product. Raises SourceError."""
    for factor in (left, right):
        if not factor.network.present.all():
            hint = "remove the parts from the product: (a * b) without { ... }"
            raise fail(
                "E0320", f"'{factor.name}' has removed parts and cannot be a factor of a product", span, hint=hint
            )
    a, b = left.network, right.network
    n, m = a.npu_count, b.npu_count
    limits.check_count("NPUs and switches", n * m + m * a.switch_count + n * b.switch_count, span)
    limits.check_count("links", m * a.link_count + n * b.link_count, span)
    name = f"{left.name} * {right.name}"
    network = transform.product(a, b, name, (left.kind, right.kind))
    grid = network.families[0]
    members: TopologyMembers = {"npu": DeviceArray("npu", False, grid.shape, grid.strides, 0)}
    return Topology(name, "product", network, members, span, (left, right))


def reversed_links(base: Topology) -> Topology:
    """The topology with the direction of every link reversed."""
    return replace(base, network=base.network.reverse())


def limited_npus(base: Topology, endpoint: Endpoint, has_mode: bool) -> Topology:
    """The topology whose NPUs have limits; an NPU that had some has the tighter ones.

    has_mode: whether the mode of the endpoint was given; else the mode of an NPU which has a rate of memory stays.
    """
    tighter: list[Endpoint] = []
    for npu in range(base.network.npu_count):
        before = base.network.endpoint_of(npu)
        kept = before.memory is not None and not has_mode
        tighter.append(before.tighter(replace(endpoint, mode=before.mode) if kept else endpoint))
    return replace(base, network=with_endpoints(base.network, tighter))


def unwound(base: Topology, degree: int, span: Span) -> Topology:
    """The topology with switches replaced by direct links (see transform.unwound). Raises SourceError."""
    alone = [switches[0] for switches in joined_switches(base.network) if len(switches) == 1]
    ports = int(np.isin(base.network.target, alone).sum())
    limits.check_count("links", ports * min(degree, base.network.npu_count), span)
    try:
        network = transform.unwound(base.network, degree, joined=True)
    except ValueError as error:
        raise fail("E0321", f"'{base.name}' cannot be unwound: {error}", span) from None
    members = {name: e for name, e in base.members.items() if not (isinstance(e, DeviceArray) and e.switch)}
    return replace(base, network=network, members=members)
