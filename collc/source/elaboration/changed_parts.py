"""Topologies with other and with new parts: `t with { npu spare, link a <-> b (bandwidth: 12.5GB/s) lanes 1 }`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import SourceError
from collc.base.wording import plural
from collc.source import limits
from collc.source.elaboration.changed_devices import declare_new, with_changed_devices
from collc.source.elaboration.evaluate import Evaluator, with_note
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.named_devices import named_devices
from collc.source.elaboration.topologies import LINK_ATTRIBUTES, UNKNOWN_RATES, TopologyBuilder
from collc.source.elaboration.topology_values import Topology
from collc.source.parsing.syntax import ChangedLink, With
from collc.source.problems import fail
from collc.source.types import INT
from collc.ten.arrays import Int64Array
from collc.ten.network import LinkKind, Network

Pair = tuple[int, int]


def with_parts(node: With, base: Topology, frame: Frame, evaluator: Evaluator) -> Topology:
    """The topology `t with { ... }`: parts that are there change, others are added. Raises SourceError."""
    builder = TopologyBuilder(evaluator)
    links = builder.go_on_from(base)
    there = declare_new(node, base, builder, frame)
    grown = with_changed_devices(_grown(base, builder, links), base, there, builder, frame)
    changes = _LinkChanges(grown, base, builder)
    for part in node.parts:
        if isinstance(part, ChangedLink):
            changes.apply(part, frame)
    return changes.finished()


def _grown(base: Topology, builder: TopologyBuilder, links: Int64Array) -> Topology:
    """The topology with all new devices and the links that were there."""
    old = base.network
    network = builder.network(old.name, links)
    n = old.npu_count
    network.present[:n] = old.present[:n]
    network.present[network.npu_count : network.npu_count + old.switch_count] = old.present[n:]
    if old.axes and network.npu_count == n:
        network = replace(network, axes=old.axes, link_axis=old.link_axis)
    return replace(base, network=replace(network, unwound=old.unwound), members=builder.entries, factors=())


class _LinkChanges:
    """The links of a topology while parts of `with` change them and add some.

    before: the topology before `with`. there: the links of each pair of devices. kind: of each of these links.
    changed: whether a part has changed it. added: source, target and kind of the new links.
    """

    def __init__(self, topology: Topology, before: Topology, builder: TopologyBuilder) -> None:
        self.topology = topology
        self.before = before
        self.builder = builder
        self.evaluator = builder.evaluator
        network = topology.network
        self.kind: list[int] = network.kind.tolist()
        self.changed = [False] * before.network.link_count
        self.added: list[tuple[int, int, int]] = []
        self.there: dict[Pair, list[int]] = {}
        for link, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
            self.there.setdefault(pair, []).append(link)

    def apply(self, part: ChangedLink, frame: Frame) -> None:
        """Change or add the links of one part, in all iterations of its loop."""
        if part.loop is None:
            return self._apply(part, frame)
        inner = self.evaluator.loop((part.loop,), None, frame)
        for row in range(inner.rows or 0):
            try:
                self._apply(part, inner.row(row))
            except SourceError as error:
                raise with_note(error, inner.note(row)) from None
        return None

    def _apply(self, part: ChangedLink, frame: Frame) -> None:
        ends = [
            named_devices(end, self.topology, frame, self.evaluator, "an end of a link", self.before)
            for end in (part.source, part.target)
        ]
        lanes = self._lanes(part, frame)
        given = self.builder.attributes(part.attributes, LINK_ATTRIBUTES, frame)
        for sources, targets in (ends, ends[::-1]) if part.both else (ends,):
            pairs = self._linked(sources, targets)
            if not pairs and len(sources) == len(targets) == 1:
                self._add(part, (sources[0], targets[0]), lanes or 1, frame)
            elif not pairs:
                names = [self.topology.network.shown_name(one[0]) if one else "none" for one in (sources, targets)]
                message = f"no link leads from any of {plural(len(sources), 'device')} ({names[0]} ...)"
                message += f" to any of {len(targets)} ({names[1]} ...)"
                hint = "new links are added one by one: link a[i] <-> b[i] (...) for i in 0..8"
                raise fail("E0323", message, part.span, hint=hint)
            elif not given:
                raise fail("E0328", f"{self._names(pairs[0])} is there already", part.span, hint=_HOW)
            chosen = [link for pair in pairs for link in self._chosen(part, pair, lanes)]
            new = {old: self._kind(part, self.kinds()[old], frame) for old in {self.kind[link] for link in chosen}}
            for link in chosen:
                self.kind[link] = new[self.kind[link]]
                self.changed[link] = True

    def _linked(self, sources: list[int], targets: list[int]) -> list[Pair]:
        """The pairs of a source and a target that links join, in the order of sources, then of targets."""
        if len(sources) * len(targets) <= len(self.there):
            return [(a, b) for a in sources for b in targets if (a, b) in self.there]
        first = {device: place for place, device in enumerate(sources)}
        second = {device: place for place, device in enumerate(targets)}
        found = [pair for pair in self.there if pair[0] in first and pair[1] in second]
        return sorted(found, key=lambda pair: (first[pair[0]], second[pair[1]]))

    def _lanes(self, part: ChangedLink, frame: Frame) -> int | None:
        if part.lanes is None:
            return None
        lanes = int(self.evaluator.wanted(part.lanes, frame, INT, "the number of lanes").data)
        if lanes < 1:
            raise fail("E0325", f"{lanes} lanes are no links", part.span, hint="without 'lanes', all of them change")
        return lanes

    def _names(self, pair: Pair) -> str:
        return " -> ".join(map(self.topology.network.shown_name, pair))

    def _chosen(self, part: ChangedLink, pair: Pair, lanes: int | None) -> list[int]:
        """Of the links of a pair, all, or the last ones that no part has changed."""
        links = self.there[pair]
        if lanes is None:
            return links
        left = [link for link in links if not self.changed[link]]
        if len(left) < lanes:
            raise fail("E0325", f"{self._names(pair)} has {plural(len(left), 'lane')}, fewer than {lanes}", part.span)
        return left[-lanes:]

    def kinds(self) -> list[LinkKind]:
        """The kinds of links so far, by number."""
        return list(self.builder.kinds)

    def _add(self, part: ChangedLink, pair: Pair, lanes: int, frame: Frame) -> None:
        if pair[0] == pair[1]:
            raise fail("E0308", "this is a link from a device to itself", part.span)
        limits.check_count("links", self.builder.links + lanes, part.span)
        self.builder.links += lanes
        kind = self._kind(part, UNKNOWN_RATES, frame)
        new = self.kinds()[kind]
        missing = "latency" if new.latency is None else "bandwidth" if new.bandwidth is None else ""
        rates = self.topology.network.kinds
        if missing and any(k.latency is not None or k.bandwidth is not None for k in rates):
            message = f"there is no link {self._names(pair)}, and a new one needs a {missing}"
            raise fail("E0327", message, part.span, hint=_HOW)
        self.added += [(*pair, kind)] * lanes

    def _kind(self, part: ChangedLink, old: LinkKind, frame: Frame) -> int:
        """The number of the kind with the attributes of a part, and those of a link where the part has none."""
        return int(self.builder.link_kind(part.attributes, frame, old))

    def finished(self) -> Topology:
        """The topology with all changes; kinds of links that no link has are left out."""
        network = self.topology.network
        new = np.array(self.added, np.int64).reshape(-1, 3)
        kind = np.concatenate([np.array(self.kind, np.int64), new[:, 2]])
        used: Int64Array = np.unique(kind)
        kinds: list[LinkKind] = self.kinds()
        axis = np.concatenate([network.link_axis, np.full(len(new), -1, np.int8)])
        changed: Network = replace(
            network,
            source=np.concatenate([network.source, new[:, 0]]).astype(np.int32),
            target=np.concatenate([network.target, new[:, 1]]).astype(np.int32),
            kind=np.searchsorted(used, kind).astype(np.int32),
            kinds=tuple(kinds[int(number)] for number in used),
            link_axis=axis if network.axes else network.link_axis,
        )
        return replace(self.topology, network=changed)


_HOW = "give its rates, as in: link a <-> b (bandwidth: 12.5GB/s, latency: 1us)"
