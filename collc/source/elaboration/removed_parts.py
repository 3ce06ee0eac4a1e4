"""Topologies without some of their parts: `t without { npu 5, switch spine, link gpu[0, *] <-> leaf[3] lanes 1 }`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Note
from collc.base.wording import did_you_mean, listed, nearest, plural
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
from collc.source.elaboration.topology_values import Topology, TopologyPart
from collc.source.elaboration.values import ListArray, Value
from collc.source.parsing.expressions import Expr, Index, Member, Name, RemovedDevice, RemovedLink, Without
from collc.source.problems import fail
from collc.source.types import INT
from collc.ten import transform
from collc.ten.arrays import BoolArray, Int64Array
from collc.ten.network import Network


def without_parts(node: Without, base: Topology, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology `t without { ... }`. Raises SourceError."""
    network = base.network
    removed: list[int] = []
    gone = np.zeros(network.link_count, np.bool_)
    for part in node.parts:
        if isinstance(part, RemovedDevice):
            removed += _removed_devices(part, base, frame, evaluator)
        else:
            gone[_removed_links(part, base, frame, evaluator, gone)] = True
    if {*network.npus.tolist()} <= {*removed}:
        raise fail("E0312", "no NPU is left", node.span)
    return replace(base, network=transform.without(network, removed, np.flatnonzero(gone)), factors=())


def _removed_devices(part: RemovedDevice, base: Topology, frame: Frame, evaluator: Evaluator) -> list[int]:
    network = base.network
    found = _devices(part.device, base, frame, evaluator)
    for device in found:
        if network.is_switch(device) != part.switch:
            name = network.device_name(device)
            if part.switch:
                raise fail("E0324", f"{name} is an NPU, not a switch", part.device.span, hint=f"write 'npu {name}'")
            raise fail("E0322", f"{name} is a switch, not an NPU", part.device.span, hint=f"write 'switch {name}'")
    return found


def _removed_links(
    part: RemovedLink, base: Topology, frame: Frame, evaluator: Evaluator, gone: BoolArray
) -> Int64Array:
    """int64: the numbers of the links between the devices of both ends; of parallel ones, the last `lanes`.

    gone: bool[links], those that earlier parts remove; `lanes` counts those that are left.
    """
    network = base.network
    sources = _devices(part.source, base, frame, evaluator)
    targets = _devices(part.target, base, frame, evaluator)
    lanes = None if part.lanes is None else int(evaluator.wanted(part.lanes, frame, INT, "the number of lanes").data)
    if lanes is not None and lanes < 1:
        raise fail("E0325", f"{lanes} lanes cannot be removed", part.span, hint="without 'lanes', all of them are")
    found: list[Int64Array] = []
    for ends in ((sources, targets), (targets, sources)) if part.both else ((sources, targets),):
        links = np.flatnonzero(np.isin(network.source, ends[0]) & np.isin(network.target, ends[1]))
        if not len(links):
            raise _no_link(part, base, ends)
        found.append(links if lanes is None else _last_lanes(part, network, links, gone, lanes))
    return np.concatenate(found)


def _no_link(part: RemovedLink, base: Topology, ends: tuple[list[int], list[int]]) -> Exception:
    network = base.network
    if len(ends[0]) == len(ends[1]) == 1:
        names = " -> ".join(network.device_name(one[0]) for one in ends)
        return fail("E0323", f"'{base.name}' has no link {names}", part.span, hint=_links_from(network, ends[0][0]))
    first, second = (network.device_name(one[0]) if one else "none" for one in ends)
    message = f"'{base.name}' has no link from any of {plural(len(ends[0]), 'device')} ({first} ...) to"
    return fail("E0323", f"{message} any of {len(ends[1])} ({second} ...)", part.span)


def _last_lanes(part: RemovedLink, network: Network, links: Int64Array, gone: BoolArray, lanes: int) -> Int64Array:
    """Of the links between each pair of devices that are left, the last ones. Raises SourceError for too few."""
    pairs: dict[tuple[int, int], list[int]] = {}
    for link in links.tolist():
        parallel = pairs.setdefault((int(network.source[link]), int(network.target[link])), [])
        if not gone[link]:
            parallel.append(link)
    for (a, b), parallel in pairs.items():
        if len(parallel) < lanes:
            names = f"{network.device_name(a)} -> {network.device_name(b)}"
            message = f"{names} has {plural(len(parallel), 'lane')}, fewer than {lanes}"
            raise fail("E0325", message, part.span)
    return np.array(sorted(link for parallel in pairs.values() for link in parallel[-lanes:]), np.int64)


def _links_from(network: Network, device: int) -> str:
    """The hint for a link that is not there: where links from a device lead, MAX_NAMES at most."""
    targets = [network.device_name(int(d)) for d in np.unique(network.target[network.source == device])]
    name = network.device_name(device)
    return f"links from {name} lead to {listed(targets[:MAX_NAMES])}" if targets else f"no link leaves {name}"


def _devices(node: Expr, base: Topology, frame: Frame, evaluator: Evaluator) -> list[int]:
    """The numbers of devices, given by a name of the topology, a slice, or the number of an NPU. Raises SourceError."""
    found = _part(node, base, frame, evaluator)
    if found is None:
        _check_known(node, base, frame, evaluator)
        value = evaluator.value(node, frame)
        if value.home is not None and value.home is not base:
            raise fail("E0403", f"this is an NPU of '{value.home.name}', not of '{base.name}'", node.span)
        if isinstance(value.data, ListArray) or not isinstance(value.data, int) or isinstance(value.data, bool):
            raise fail("E0211", f"a removed part is an NPU or its number, not {value.type}", node.span)
        numbers = [value.data]
    else:
        value = devices_of(found, node.span) if isinstance(found, TopologyPart) else found
        data = value.data.only() if isinstance(value.data, ListArray) else value.data
        numbers = [int(number) for number in np.atleast_1d(np.asarray(data, np.int64))]
    return [_checked(number, node, base, named=found is not None) for number in numbers]


def _checked(number: int, node: Expr, base: Topology, *, named: bool) -> int:
    """The number of a device in the network, of its number among NPUs, or -1 - s of switch s."""
    count = base.network.npu_count
    if not named and not 0 <= number < count:
        raise fail("E0318", f"'{base.name}' has no NPU {number}: the NPUs are 0 .. {count - 1}", node.span)
    if not is_present(base, number):
        note = Note("each part can be removed once")
        raise fail("E0319", f"{device_label(base, number)} was removed before", node.span, note)
    return number if number >= 0 else count - 1 - number


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
