"""Topologies derived from others: products, removed parts, unwound switches, reversed links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Note, Span
from collc.base.wording import did_you_mean, listed, nearest
from collc.source import limits
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.topology_parts import (
    MAX_NAMES,
    device_label,
    devices_of,
    index_part,
    is_present,
    member_of,
)
from collc.source.elaboration.topology_values import DeviceArray, Topology, TopologyMembers, TopologyPart
from collc.source.elaboration.values import ListArray, Value
from collc.source.parsing.expressions import Expr, Identifier, Index, Member, Name, RemovedNpu, Without
from collc.source.problems import fail
from collc.ten import transform
from collc.ten.network import Network


def renamed(topology: Topology, name: Identifier) -> Topology:
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
    return replace(base, network=base.network.reversed())


def unwound(base: Topology, degree: int, span: Span) -> Topology:
    """The topology with switches replaced by direct links (see transform.unwound). Raises SourceError."""
    try:
        network = transform.unwound(base.network, degree)
    except ValueError as error:
        raise fail("E0321", f"'{base.name}' cannot be unwound: {error}", span) from None
    return replace(base, network=network, members=_npus_only(base.members))


def _npus_only(members: TopologyMembers) -> TopologyMembers:
    return {name: e for name, e in members.items() if not (isinstance(e, DeviceArray) and e.switch)}


def without_parts(node: Without, base: Topology, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology `t without { ... }`. Raises SourceError."""
    network = base.network
    npus: list[int] = []
    links: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = [np.empty(0, np.int64)]
    for part in node.parts:
        if isinstance(part, RemovedNpu):
            number = _device(part.npu, base, frame, evaluator)
            if number >= network.npu_count:
                raise fail("E0322", f"{network.device_name(number)} is a switch, not an NPU", part.npu.span)
            npus.append(number)
            continue
        a = _device(part.source, base, frame, evaluator)
        b = _device(part.target, base, frame, evaluator)
        found = np.flatnonzero((network.source == a) & (network.target == b))
        back = np.flatnonzero((network.source == b) & (network.target == a))
        if len(found) == 0 or (part.both and len(back) == 0):
            ends = (a, b) if len(found) == 0 else (b, a)
            names = " -> ".join(network.device_name(d) for d in ends)
            hint = _links_from(network, ends[0])
            raise fail("E0323", f"'{base.name}' has no link {names}", part.span, hint=hint)
        links += [found, back] if part.both else [found]
    if len(set(npus)) == int(network.present[: network.npu_count].sum()):
        raise fail("E0312", "no NPU is left", node.span)
    return replace(base, network=transform.without(network, npus, np.concatenate(links)), factors=())


def _links_from(network: Network, device: int) -> str:
    """The hint for a link that is not there: where links from a device lead, MAX_NAMES at most."""
    targets = [network.device_name(int(d)) for d in np.unique(network.target[network.source == device])]
    name = network.device_name(device)
    return f"links from {name} lead to {listed(targets[:MAX_NAMES])}" if targets else f"no link leaves {name}"


def _device(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> int:
    """The number of a device, given by a name of the topology or as the number of an NPU. Raises SourceError."""
    found = _part(node, base, frame, evaluator)
    if found is None:
        _check_known(node, base, frame, evaluator)
        value = evaluator.value(node, frame)
        if value.home is not None and value.home is not base:
            raise fail("E0403", f"this is an NPU of '{value.home.name}', not of '{base.name}'", node.span)
        if isinstance(value.data, ListArray) or not isinstance(value.data, int) or isinstance(value.data, bool):
            raise fail("E0211", f"a removed part is an NPU or its number, not {value.type}", node.span)
        number = value.data
    else:
        value = devices_of(found, node.span) if isinstance(found, TopologyPart) else found
        if isinstance(value.data, ListArray):
            raise fail("E0301", "this names several devices, but only one is allowed", node.span)
        number = int(value.data)
    count = base.network.npu_count
    if number < 0 and found is not None:
        return count - 1 - number
    if not 0 <= number < count:
        raise fail("E0318", f"'{base.name}' has no NPU {number}: the NPUs are 0 .. {count - 1}", node.span)
    if not is_present(base, number):
        raise fail(
            "E0319",
            f"{device_label(base, number)} was removed before",
            node.span,
            Note("each part can be removed once"),
        )
    return number


def _check_known(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> None:
    """Raise SourceError where a part begins with a name that neither the topology nor the program has."""
    while isinstance(node, Member | Index):
        node = node.base
    if not isinstance(node, Name) or frame.find(node.name) or evaluator.topologies.topology_named(node.name):
        return
    shapes = {name: f"[{', '.join(map(str, e.shape))}]" if e.shape else "" for name, e in base.members.items()}
    close = did_you_mean(node.name, shapes)
    known = listed([name + shapes[name] for name in nearest(node.name, shapes, MAX_NAMES)])
    hint = f"{close} '{base.name}' has {known}".strip()
    raise fail("E0201", f"'{base.name}' has no part called '{node.name}'", node.span, hint=hint)


def _part(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> TopologyPart | Value | None:
    """The part or device with a name of the topology, None where the topology does not have the name."""
    match node:
        case Name():
            entry = base.members.get(node.name)
            return None if entry is None else TopologyPart(base, entry)
        case Member():
            inner = _part(node.base, base, frame, evaluator)
            return member_of(inner, node.member.name, node.member.span) if isinstance(inner, TopologyPart) else None
        case Index():
            inner = _part(node.base, base, frame, evaluator)
            if isinstance(inner, TopologyPart):
                return index_part(inner, evaluator.part_indices(node, frame), node.span)
            return None
        case _:
            return None
