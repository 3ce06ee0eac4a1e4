"""Functions of whole topologies: products, unwound switches, reversed links, and limits of NPUs."""

from __future__ import annotations

from dataclasses import replace

from collc.base.diagnostics import Span
from collc.source import limits
from collc.source.elaboration.topology_values import DeviceArray, Topology, TopologyMembers
from collc.source.parsing.expressions import Identifier
from collc.source.problems import fail
from collc.ten import transform
from collc.ten.endpoint import Endpoint
from collc.ten.limited import with_endpoints


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
    try:
        network = transform.unwound(base.network, degree, joined=True)
    except ValueError as error:
        raise fail("E0321", f"'{base.name}' cannot be unwound: {error}", span) from None
    return replace(base, network=network, members=_npus_only(base.members))


def _npus_only(members: TopologyMembers) -> TopologyMembers:
    return {name: e for name, e in members.items() if not (isinstance(e, DeviceArray) and e.switch)}
