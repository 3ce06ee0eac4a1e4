"""Topologies without some of their parts: `t without { npu 5, switch spine, link gpu[0, *] <-> leaf[3] lanes 1 }`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.wording import listed, plural
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.named_devices import named_devices
from collc.source.elaboration.topology_parts import MAX_NAMES
from collc.source.elaboration.topology_values import Topology
from collc.source.parsing.expressions import RemovedDevice, RemovedLink, Without
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
    found = named_devices(part.device, base, frame, evaluator, "a removed part")
    for device in found:
        if network.is_switch(device) != (part.kind == "switch"):
            name = network.device_name(device)
            if part.kind == "switch":
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
    sources = named_devices(part.source, base, frame, evaluator, "a removed part")
    targets = named_devices(part.target, base, frame, evaluator, "a removed part")
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
        names = " -> ".join(network.shown_name(one[0]) for one in ends)
        return fail("E0323", f"'{base.name}' has no link {names}", part.span, hint=_links_from(network, ends[0][0]))
    first, second = (network.shown_name(one[0]) if one else "none" for one in ends)
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
            names = f"{network.shown_name(a)} -> {network.shown_name(b)}"
            message = f"{names} has {plural(len(parallel), 'lane')}, fewer than {lanes}"
            raise fail("E0325", message, part.span)
    return np.array(sorted(link for parallel in pairs.values() for link in parallel[-lanes:]), np.int64)


def _links_from(network: Network, device: int) -> str:
    """The hint for a link that is not there: where links from a device lead, MAX_NAMES at most."""
    targets = [network.device_name(int(d)) for d in np.unique(network.target[network.source == device])]
    name = network.device_name(device)
    return f"links from {name} lead to {listed(targets[:MAX_NAMES])}" if targets else f"no link leaves {name}"
