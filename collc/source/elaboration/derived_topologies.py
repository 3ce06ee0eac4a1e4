"""Topologies derived from others: products, unwound switches, reversed links, and those with or without some parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from collc.base.diagnostics import SourceError, Span
from collc.base.wording import SHOWN, did_you_mean, nearest, phrase, plural
from collc.source import limits
from collc.source.elaboration.attributes import endpoint_with, given_attributes, labels_of
from collc.source.elaboration.evaluate import Evaluator, row_by_row
from collc.source.elaboration.named_parts import parts_of
from collc.source.elaboration.topologies import TopologyBuilder
from collc.source.elaboration.topology_parts import (
    device_label,
    devices_of,
    index_part,
    is_present,
    part_named,
)
from collc.source.elaboration.topology_values import DeclaredParts, Topology, TopologyPart
from collc.source.elaboration.values import Frame, npu_numbers
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.problems import fail
from collc.source.types import INT
from collc.ten import transform
from collc.ten.limited import with_endpoints
from collc.ten.network import DeviceFamily, Network
from collc.ten.parts import devices_and_links

Pair = tuple[int, int]
"""A source and a target."""

_NEW_RATES: Final = "give its rates, as in: link a <-> b (bandwidth: 12.5GB/s, latency: 1us)"
_NEW_VALUES: Final = "give what changes, as in: npu gpu[2] (inject: 100GB/s); new devices have a new name"


def without_parts(node: ex.Without, base: Topology, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology `t without { ... }`. Raises SourceError."""
    network = base.network
    names, links = _DeviceNames(base, base, evaluator, "a removed part"), _ParallelLinks(network)
    removed: list[int] = []
    for part in node.parts:
        if isinstance(part, ex.RemovedDevice):
            if part.kind == "part":
                devices, own = devices_and_links(network, parts_of(part.device, base, evaluator, frame))
                removed += devices.tolist()
                links.taken.update(own.tolist())
            else:
                removed += names.devices_of_kind(part, frame)
            continue
        lanes = _lanes(part, frame, evaluator)
        chosen: list[int] = []
        for sources, targets in names.ends_of_links(part, frame):
            pairs = links.pairs(sources, targets)
            if not pairs:
                raise _no_link(part.span, base, sources, targets, _links_from(network, sources))
            chosen += links.choose_links(pairs, lanes, part.span)
        links.taken.update(chosen)
    if {*network.npus.tolist()} <= {*removed}:
        raise fail("E0312", "no NPU is left", node.span)
    gone = np.array(sorted(links.taken), np.int64)
    return replace(base, network=transform.remove_parts(network, removed, gone), factors=())


def with_parts(node: s.With, base: Topology, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology `t with { ... }`: parts that are there change, others are added. Raises SourceError."""
    builder = TopologyBuilder(evaluator)
    old_links = builder.go_on_from(base)
    there = _declare_new_devices(node, base, builder, frame)
    old, network = base.network, builder.network(base.network.name, old_links)
    n = old.npu_count
    network.present[:n] = old.present[:n]
    network.present[network.npu_count : network.npu_count + old.switch_count] = old.present[n:]
    if old.axes and network.npu_count == n:
        network = replace(network, axes=old.axes, link_axis=old.link_axis)
    network = replace(network, unwound=old.unwound and not network.switch_count)
    grown = replace(base, network=network, members=builder.entries, factors=())
    for part in there:
        grown = replace(grown, network=_with_changed_devices(part, grown, base, evaluator, frame))
    changes = _LinkChanges(grown, base, builder)
    for part in node.parts:
        if isinstance(part, s.ChangedLink):
            if part.loop is None:
                changes.apply(part, frame)
            else:
                row_by_row(evaluator.loop((part.loop,), None, frame), partial(changes.apply, part))
    return changes.finish()


# Links


class _ParallelLinks:
    """The links of a network by their ends. taken: links that were chosen before, which `lanes` does not count."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.taken: set[int] = set()
        self.there: dict[Pair, list[int]] = {}
        for link, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
            self.there.setdefault(pair, []).append(link)

    def pairs(self, sources: list[int], targets: list[int]) -> list[Pair]:
        """The pairs of a source and a target that links join, in the order of sources, then of targets."""
        if len(sources) * len(targets) <= len(self.there):
            return [(a, b) for a in sources for b in targets if (a, b) in self.there]
        first, second = ({device: place for place, device in enumerate(ends)} for ends in (sources, targets))
        joined = [pair for pair in self.there if pair[0] in first and pair[1] in second]
        return sorted(joined, key=lambda pair: (first[pair[0]], second[pair[1]]))

    def choose_links(self, pairs: list[Pair], lanes: int | None, span: Span) -> list[int]:
        """Of the links of each pair, all, or the last ones that are left. Raises SourceError if too few are left."""
        links: list[int] = []
        for pair in pairs:
            left = [link for link in self.there[pair] if lanes is None or link not in self.taken]
            if lanes is not None and len(left) < lanes:
                message = f"{_shown_pair(self.network, pair)} has {plural(len(left), 'lane')}, fewer than {lanes}"
                raise fail("E0325", message, span)
            links += left if lanes is None else left[-lanes:]
        return links


def _shown_pair(network: Network, pair: Pair) -> str:
    return " -> ".join(map(network.shown_name, pair))


def _lanes(part: ex.RemovedLink | s.ChangedLink, frame: Frame, evaluator: Evaluator) -> int | None:
    """How many of parallel links a part means; None for all."""
    lanes = None if part.lanes is None else int(evaluator.coerce(part.lanes, frame, INT, "the number of lanes").data)
    if lanes is not None and lanes < 1:
        raise fail("E0325", f"{lanes} lanes are no links", part.span, hint="without 'lanes', a part means all of them")
    return lanes


def _no_link(span: Span, base: Topology, sources: list[int], targets: list[int], hint: str) -> SourceError:
    names = [base.network.shown_name(ends[0]) if ends else "none" for ends in (sources, targets)]
    if len(sources) == len(targets) == 1:
        return fail("E0323", f"'{base.name}' has no link {' -> '.join(names)}", span, hint=hint)
    message = f"'{base.name}' has no link from any of {plural(len(sources), 'device')} ({names[0]} ...) to"
    return fail("E0323", f"{message} any of {len(targets)} ({names[1]} ...)", span, hint=hint)


def _links_from(network: Network, sources: list[int]) -> str:
    """The hint for a link that is not there: where links from its device lead, SHOWN at most."""
    if len(sources) != 1:
        return ""
    targets = [network.device_name(int(d)) for d in np.unique(network.target[network.source == sources[0]])]
    name = network.device_name(sources[0])
    return f"links from {name} lead to {phrase(targets[:SHOWN])}" if targets else f"no link leaves {name}"


class _LinkChanges:
    """The links of a topology while parts of `with` change them and add some.

    before: the topology before `with`. kind: of each of its links. added: source, target and kind of the new links.
    """

    def __init__(self, topology: Topology, before: Topology, builder: TopologyBuilder) -> None:
        self.topology = topology
        self.before = before
        self.builder = builder
        self.names = _DeviceNames(topology, before, builder.evaluator, "an end of a link")
        self.links = _ParallelLinks(topology.network)
        self.kind: list[int] = topology.network.kind.tolist()
        self.added: list[tuple[int, int, int]] = []

    def apply(self, part: s.ChangedLink, frame: Frame) -> None:
        """Change or add the links of one part."""
        lanes = _lanes(part, frame, self.builder.evaluator)
        for sources, targets in self.names.ends_of_links(part, frame):
            pairs = self.links.pairs(sources, targets)
            if not pairs and len(sources) == len(targets) == 1:
                self._add(part, (sources[0], targets[0]), lanes or 1, frame)
            elif not pairs:
                hint = "new links are added one by one: link a[i] <-> b[i] (...) for i in 0..8"
                raise _no_link(part.span, self.before, sources, targets, hint)
            elif not given_attributes(part, frame, self.builder.evaluator):
                message = f"{_shown_pair(self.topology.network, pairs[0])} is there already"
                raise fail("E0328", message, part.span, hint=_NEW_RATES)
            chosen = self.links.choose_links(pairs, lanes, part.span)
            kinds = list(self.builder.kinds)
            new = {old: self.builder.link_kind(part, frame, kinds[old]) for old in {self.kind[link] for link in chosen}}
            for link in chosen:
                self.kind[link] = new[self.kind[link]]
            self.links.taken.update(chosen)

    def _add(self, part: s.ChangedLink, pair: Pair, lanes: int, frame: Frame) -> None:
        if pair[0] == pair[1]:
            raise fail("E0308", "this is a link from a device to itself", part.span)
        limits.check_count("links", self.builder.links + lanes, part.span)
        self.builder.links += lanes
        kind = int(self.builder.link_kind(part, frame))
        new, network = list(self.builder.kinds)[kind], self.topology.network
        missing = "latency" if new.latency is None else "bandwidth" if new.bandwidth is None else ""
        if missing and any(k.latency is not None or k.bandwidth is not None for k in network.kinds):
            message = f"there is no link {_shown_pair(network, pair)}, and a new one needs a {missing}"
            raise fail("E0327", message, part.span, hint=_NEW_RATES)
        self.added += [(*pair, kind)] * lanes

    def finish(self) -> Topology:
        """The topology with all changes; kinds of links that no link has are left out."""
        network = self.topology.network
        new = np.array(self.added, np.int64).reshape(-1, 3)
        kind = np.concatenate([np.array(self.kind, np.int64), new[:, 2]])
        used, kinds = np.unique(kind), list(self.builder.kinds)
        axis = np.concatenate([network.link_axis, np.full(len(new), -1, np.int8)])
        changed = replace(
            network,
            source=np.concatenate([network.source, new[:, 0]]).astype(np.int32),
            target=np.concatenate([network.target, new[:, 1]]).astype(np.int32),
            kind=np.searchsorted(used, kind).astype(np.int32),
            kinds=tuple(kinds[int(number)] for number in used),
            link_axis=axis if network.axes else network.link_axis,
        )
        return replace(self.topology, network=changed)


# Devices


def _declare_new_devices(node: s.With, base: Topology, builder: TopologyBuilder, frame: Frame) -> list[s.ChangedDevice]:
    """Declare the devices whose names the topology does not have; returns the other parts that are devices.

    Raises SourceError for a name like one that is there, unless a link of the same braces leads to it.
    """
    links = [part for part in node.parts if isinstance(part, s.ChangedLink)]
    linked = {_first_name(end) for link in links for end in (link.source, link.target)}
    there: list[s.ChangedDevice] = []
    for part in node.parts:
        if not isinstance(part, s.ChangedDevice):
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


def _first_name(node: ex.Expr) -> str:
    """The first name of a device as `node[2].gpu[0]`; "" for a number."""
    root = ex.root_of(node)
    return root.name if isinstance(root, ex.Name) else ""


def _with_changed_devices(
    part: s.ChangedDevice, topology: Topology, before: Topology, evaluator: Evaluator, frame: Frame
) -> Network:
    """The network whose devices have the attributes and labels that a part gives them. Raises SourceError."""
    network = topology.network
    devices = _DeviceNames(topology, before, evaluator, "a changed part").devices_of_kind(part, frame)
    if not part.attributes and part.labels is None:
        name = network.shown_name(devices[0]) if devices else "none"
        raise fail("E0328", f"{name} is there already", part.span, hint=_NEW_VALUES)
    given = given_attributes(part, frame, evaluator)
    if part.kind == "switch":
        columns = {"buffer": "buffers", "multicast": "multicast", "reduce": "reduces"}
        changed = {columns[key]: getattr(network, columns[key]).copy() for key in given}
        for key, value in given.items():
            changed[columns[key]][np.array(devices, np.int64) - network.npu_count] = value
        network = replace(network, **changed)
    elif given:
        endpoints = [network.endpoint_of(npu) for npu in range(network.npu_count)]
        for npu in devices:
            endpoints[npu] = endpoint_with(endpoints[npu], given, part.attributes, part.span)
        network = with_endpoints(network, endpoints)
    if part.labels is None:
        return network
    label_of = dict(zip(devices, labels_of(part.labels, len(devices), frame, evaluator), strict=True))
    return replace(network, families=tuple(_relabel_family(family, label_of) for family in network.families))


def _relabel_family(family: DeviceFamily, label_of: Mapping[int, str]) -> DeviceFamily:
    """An array of devices of which some are called otherwise in the machine."""
    own = [device for device in range(family.first, family.first + family.count) if device in label_of]
    names = list(family.labels or [""] * family.count)
    for device in own:
        place = int(np.ravel_multi_index(family.index(device), family.shape)) if family.shape else 0
        names[place] = label_of[device]
    return replace(family, labels=tuple(names)) if own else family


@dataclass(frozen=True, slots=True, eq=False)
class _DeviceNames:
    """Finds devices by their names in parts of `with` or `without`.

    topology: the one whose devices are named. before: the one from which `with` makes it; NPUs of that are NPUs of
    `topology` too. what: what a part stands for, in messages.
    """

    topology: Topology
    before: Topology
    evaluator: Evaluator
    what: str

    def ends_of_links(
        self, part: ex.RemovedLink | s.ChangedLink, frame: Frame
    ) -> tuple[tuple[list[int], list[int]], ...]:
        """The sources and targets of the links of a part, for each direction. Raises SourceError."""
        sources, targets = (self.devices(end, frame) for end in (part.source, part.target))
        return ((sources, targets), (targets, sources)) if part.both else ((sources, targets),)

    def devices_of_kind(self, part: ex.RemovedDevice | s.ChangedDevice, frame: Frame) -> list[int]:
        """The devices of a part. Raises SourceError if it says `npu` of a switch, or `switch` of an NPU."""
        network = self.topology.network
        devices = self.devices(part.device, frame)
        for device in devices:
            if network.is_switch(device) != (part.kind == "switch"):
                name, span = network.device_name(device), part.device.span
                if part.kind == "switch":
                    raise fail("E0324", f"{name} is an NPU, not a switch", span, hint=f"write 'npu {name}'")
                raise fail("E0322", f"{name} is a switch, not an NPU", span, hint=f"write 'switch {name}'")
        return devices

    def devices(self, node: ex.Expr, frame: Frame) -> list[int]:
        """The numbers of devices, given by a name of the topology, a slice, or the number of an NPU.

        Raises SourceError.
        """
        base, evaluator = self.topology, self.evaluator
        part = part_named(
            node, base.members, base, lambda part, i: index_part(part, evaluator.part_indices(i, frame), i.span)
        )
        if part is None:
            self._check_known(node, frame)
            value = evaluator.value(node, frame)
            if value.home not in (None, base, self.before):
                other = "the topology that changes here" if value.home.name == base.name else f"'{base.name}'"
                raise fail("E0403", f"this is an NPU of '{value.home.name}', not of {other}", node.span)
            if not isinstance(value.data, int) or isinstance(value.data, bool):
                raise fail("E0211", f"{self.what} is an NPU or its number, not {value.type}", node.span)
        else:
            value = devices_of(part, node.span) if isinstance(part, TopologyPart) else part
        numbers = npu_numbers(value).tolist()
        count = base.network.npu_count
        for number in numbers:
            if part is None and value.home is None and not 0 <= number < count:
                raise fail("E0318", f"'{base.name}' has no NPU {number}: the NPUs are 0 .. {count - 1}", node.span)
            if not is_present(base, number):
                raise fail("E0319", f"{device_label(base, number)} was removed before", node.span)
        return [number if number >= 0 else count - 1 - number for number in numbers]

    def _check_known(self, node: ex.Expr, frame: Frame) -> None:
        """Raise SourceError if a part begins with a name that neither the topology nor the program has."""
        base, node = self.topology, ex.root_of(node)
        if not isinstance(node, ex.Name) or frame.find(node.name) or self.evaluator.topology_named(node.name):
            return
        devices = {name: e for name, e in base.members.items() if not isinstance(e, DeclaredParts)}
        shapes = {name: f"[{', '.join(map(str, e.shape))}]" if e.shape else "" for name, e in devices.items()}
        close = did_you_mean(node.name, shapes)
        known = phrase([name + shapes[name] for name in nearest(node.name, shapes, SHOWN)])
        hint = f"{close} '{base.name}' has {known}".strip()
        raise fail("E0201", f"'{base.name}' has no part called '{node.name}'", node.span, hint=hint)
