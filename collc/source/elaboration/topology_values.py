"""Topologies as values of the language, with the names of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from collc.base.diagnostics import Span
from collc.ten.network import Network


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


TopologyMember = DeviceArray | TopologyCopies
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
    set, one for each element of a slice. home: the topology, None while it is being built.
    """

    home: Topology | None
    entry: TopologyMember
    npu: Any = 0
    switch: Any = 0
    many: bool = False
