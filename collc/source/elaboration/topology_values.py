"""Topologies as values, and parts of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from collc.base.diagnostics import Span
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """NPUs or switches declared together; first: counted among its kind."""

    name: str
    switch: bool
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int


@dataclass(frozen=True, eq=False)
class TopologyCopies:
    """Copies of a topology inside another; npus, switches: in one copy."""

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
    """A topology: its network and names. kind: the template that made it. factors: of a product."""

    name: str
    kind: str
    network: Network
    members: TopologyMembers
    span: Span
    factors: tuple[Topology, ...] = field(default=())


@dataclass(frozen=True, slots=True, eq=False)
class TopologyPart:
    """A part of a topology on its way to an NPU or a group.

    npu, switch: what to add to the numbers of the entry: int, a row an iteration, or, with many, one an
    element of a slice. home: None while the topology is being built.
    """

    home: Topology | None
    entry: TopologyMember
    npu: Any = 0
    switch: Any = 0
    many: bool = False
