"""Devices in `t with { ... }`: new ones, and other attributes of those that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from collc.base.diagnostics import SourceError
from collc.base.wording import did_you_mean
from collc.source.elaboration.endpoints import NPU_ATTRIBUTES, endpoint_with
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.labels import labels_of
from collc.source.elaboration.named_devices import named_devices
from collc.source.elaboration.topologies import SWITCH_ATTRIBUTES, TopologyBuilder, check_buffer
from collc.source.elaboration.topology_values import Topology
from collc.source.parsing.expressions import Expr, Name, root_of
from collc.source.parsing.syntax import ChangedDevice, ChangedLink, With
from collc.source.problems import fail
from collc.ten.limited import with_endpoints
from collc.ten.network import Network

_HOW = "give what changes, as in: npu gpu[2] (inject: 100GB/s); new devices have a new name"


def declare_new(node: With, base: Topology, builder: TopologyBuilder, frame: Frame) -> list[ChangedDevice]:
    """Declare the devices whose names the topology does not have; returns the other parts that are devices.

    Raises SourceError for a name like one that is there, unless a link of the same braces leads to it.
    """
    links = [part for part in node.parts if isinstance(part, ChangedLink)]
    linked = {_first_name(end) for link in links for end in (link.source, link.target)}
    there: list[ChangedDevice] = []
    for part in node.parts:
        if not isinstance(part, ChangedDevice):
            continue
        name, new = _first_name(part.device), part.declaration
        if new is None or name in base.members:
            there.append(part)
            continue
        like = did_you_mean(new.name.name, base.members)
        if like and name not in linked:
            message = f"'{base.name}' has no part called '{name}', and no link of these braces leads to new devices"
            raise fail("E0201", message, new.name.span, hint=f"{like} New devices need links: link {name} <-> ...")
        builder.declare(new, [new.name.name], frame)
    return there


def _first_name(node: Expr) -> str:
    """The first name of a device as `node[2].gpu[0]`; "" for a number."""
    root = root_of(node)
    return root.name if isinstance(root, Name) else ""


def with_changed_devices(
    topology: Topology, before: Topology, parts: Sequence[ChangedDevice], builder: TopologyBuilder, frame: Frame
) -> Topology:
    """The topology whose devices have the attributes and labels that the parts give them. Raises SourceError.

    before: the topology before `with`.
    """
    evaluator = builder.evaluator
    network = topology.network
    for part in parts:
        devices = named_devices(part.device, topology, frame, evaluator, "a changed part", before)
        switches = part.kind == "switch"
        for device in devices:
            if network.is_switch(device) != switches:
                raise _other_kind(part, network.device_name(device), switches=switches)
        if not part.attributes and part.labels is None:
            name = network.shown_name(devices[0]) if devices else "none"
            raise fail("E0328", f"{name} is there already", part.span, hint=_HOW)
        known = SWITCH_ATTRIBUTES if switches else NPU_ATTRIBUTES
        given = {key: value.data for key, value in builder.attributes(part.attributes, known, frame).items()}
        change = _changed_switches if switches else _changed_npus
        network = change(network, devices, given, part)
        if part.labels is not None:
            network = _relabelled(network, devices, labels_of(part.labels, len(devices), frame, evaluator))
    return replace(topology, network=network)


def _other_kind(part: ChangedDevice, name: str, *, switches: bool) -> SourceError:
    if switches:
        return fail("E0324", f"{name} is an NPU, not a switch", part.device.span, hint=f"write 'npu {name}'")
    return fail("E0322", f"{name} is a switch, not an NPU", part.device.span, hint=f"write 'switch {name}'")


def _changed_npus(network: Network, devices: Sequence[int], given: dict[str, Any], part: ChangedDevice) -> Network:
    if not given:
        return network
    found = [network.endpoint_of(npu) for npu in range(network.npu_count)]
    for npu in devices:
        found[npu] = endpoint_with(found[npu], given, part.attributes, part.span)
    return with_endpoints(network, found)


def _changed_switches(network: Network, devices: Sequence[int], given: dict[str, Any], part: ChangedDevice) -> Network:
    rows = np.array(devices, np.int64) - network.npu_count
    if "buffer" in given:
        check_buffer(given["buffer"], part.span)
    columns = {"buffer": "buffers", "multicast": "multicast", "reduce": "reduces"}
    changed: dict[str, Any] = {}
    for name, value in given.items():
        column = getattr(network, columns[name]).copy()
        column[rows] = value
        changed[columns[name]] = column
    return replace(network, **changed)


def _relabelled(network: Network, devices: Sequence[int], labels: Sequence[str]) -> Network:
    """The network in which some devices are called otherwise in the machine."""
    label_of = dict(zip(devices, labels, strict=True))
    families = list(network.families)
    for at, family in enumerate(families):
        own = [device for device in range(family.first, family.first + family.count) if device in label_of]
        names = list(family.labels or [""] * family.count)
        for device in own:
            place = int(np.ravel_multi_index(family.index(device), family.shape)) if family.shape else 0
            names[place] = label_of[device]
        families[at] = replace(family, labels=tuple(names)) if own else family
    return replace(network, families=tuple(families))
