"""Random small networks, demands and (mostly right) schedules."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np

from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Transfers
from tests import support

Row = tuple[int, int, int, bool]
"""start, link, chunk, reduce"""


def random_network(rng: random.Random) -> Network:
    kinds = [
        LinkKind(rng.choice([0, 3, 10]), Fraction(rng.choice([10**12, 5 * 10**11, 10**13 // 7]))) for _ in range(2)
    ]
    shape = rng.randrange(7)
    if shape == 0:
        return support.ring(rng.randint(2, 6), kinds[0], rng.random() < 0.5)
    if shape == 1:
        return support.grid(rng.randint(1, 3), rng.randint(2, 3), kind=kinds[0], wrap=rng.random() < 0.3)
    if shape == 2:
        return support.fully_connected(rng.randint(2, 5), kinds[0])
    if shape == 3:
        return support.hypercube(rng.randint(1, 3), kinds[0])
    npus, switches = rng.randint(2, 5), rng.randint(1, 2)
    links = []
    for npu in range(npus):
        for switch in range(switches):
            if rng.random() < 0.8 or switch == 0:
                kind = rng.choice(kinds)
                links += [(npu, npus + switch, kind), (npus + switch, npu, kind)]
    for _ in range(rng.randint(0, 4)):
        a, b = rng.sample(range(npus + switches), 2)
        links.append((a, b, rng.choice(kinds)))
    net = support.network(npus, links, switches, [rng.choice([-1, -1, 1, 2, 4]) for _ in range(switches)])
    flags = np.array([rng.random() < 0.4 for _ in range(switches)])
    return replace(net, multicast=flags, reduces=np.array([rng.random() < 0.3 for _ in range(switches)]))


def random_demand(rng: random.Random, net: Network) -> Demand:
    everyone = list(range(net.npu_count))
    group = rng.sample(everyone, rng.randint(2, net.npu_count))
    size = rng.choice([1, 7, 20])
    pick = rng.randrange(8)
    if pick < 5:
        makers = (support.all_gather, support.all_to_all, support.reduce_scatter, support.all_reduce, support.reduce)
        return makers[pick](group, size)
    rows = []
    for _ in range(rng.randint(1, 5)):
        op = rng.choice([Op.COPY, Op.COPY, Op.SUM, Op.MAX])
        pre = rng.sample(everyone, rng.randint(1, net.npu_count))
        post = rng.sample(everyone, rng.randint(1, net.npu_count))
        rows.append((rng.choice([1, 7, 20]), pre, post, op))
    first = support.demand_of(rows)
    if pick == 7:
        return Demand((*first.runs, *support.all_gather(group, size).runs))
    return first


class Greedy:
    """Lays out copies along shortest paths and reductions along trees, each at the earliest time."""

    def __init__(self, rng: random.Random, net: Network, demand: Demand, model: LinkModel) -> None:
        self.rng, self.net, self.demand = rng, net, demand
        self.clock = Clock.of(net, demand, model)
        self.free = [0] * net.link_count
        self.rows: list[Row] = []
        self.out: dict[int, list[int]] = {d: [] for d in range(net.device_count)}
        for link, (source, _) in enumerate(zip(net.source.tolist(), net.target.tolist(), strict=True)):
            self.out[source].append(link)

    def send(self, chunk: int, link: int, ready: int, reduce: bool) -> int:
        """Send at the earliest time; returns the time of arrival."""
        kind, size = int(self.net.kind[link]), int(self.clock.size_of[chunk])
        start = max(ready, self.free[link])
        self.free[link] = start + int(self.clock.busy[kind, size])
        self.rows.append((start, link, chunk, reduce))
        return start + int(self.clock.total[kind, size])

    def paths(self, roots: list[int]) -> dict[int, int]:
        """Device -> the link by which it is reached first from the roots."""
        found = dict.fromkeys(roots, -1)
        line = list(roots)
        for device in line:
            links = self.out[device][:]
            self.rng.shuffle(links)
            for link in links:
                target = int(self.net.target[link])
                if target not in found:
                    found[target] = link
                    line.append(target)
        return found

    def copy(self, chunk: int, holders: dict[int, int], targets: list[int]) -> None:
        """Bring a chunk from holders (device: since when) to targets, one path after another."""
        for target in targets:
            if target in holders:
                continue
            npus = self.net.npu_count
            reach = self.paths([d for d in holders if d < npus or self.net.multicast[d - npus]])
            if target not in reach:
                continue
            path, device = [], target
            while reach[device] >= 0:
                path.append(reach[device])
                device = int(self.net.source[path[-1]])
            ready = holders[device]
            for link in reversed(path):
                ready = self.send(chunk, link, ready, False)
                holders.setdefault(int(self.net.target[link]), ready)

    def combine(self, chunk: int, pre: list[int], root: int) -> int:
        """Reduce to the root along a tree in which an NPU sends after its children; the time of the last arrival."""
        back: dict[int, int] = {root: -1}
        line = [root]
        for device in line:
            links = [k for k in range(self.net.link_count) if int(self.net.target[k]) == device]
            self.rng.shuffle(links)
            for link in links:
                source = int(self.net.source[link])
                if source not in back:
                    back[source] = link
                    line.append(source)
        ready = dict.fromkeys(pre, 0)
        for device in reversed(line):
            if device != root and device in ready:
                target = int(self.net.target[back[device]])
                ready[target] = max(ready.get(target, 0), self.send(chunk, back[device], ready[device], True))
        return ready.get(root, 0)

    def double(self, chunk: int, group: list[int]) -> None:
        """Recursive doubling if links allow it."""
        ready = dict.fromkeys(group, 0)
        link_of = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(self.net.source, self.net.target, strict=True))}
        distance = 1
        while distance < len(group):
            after = dict(ready)
            for rank, npu in enumerate(group):
                peer = group[(rank ^ distance) % len(group)]
                if (npu, peer) in link_of:
                    after[peer] = max(after[peer], self.send(chunk, link_of[npu, peer], ready[npu], True))
            ready = dict.fromkeys(group, max(after.values()))
            distance *= 2

    def plan(self) -> Transfers:
        table = self.demand.chunks
        order = list(range(len(table)))
        self.rng.shuffle(order)
        for chunk in order:
            pre, post = table.sets[int(table.pre[chunk])].tolist(), table.sets[int(table.post[chunk])].tolist()
            targets = self.rng.sample(post, len(post))
            if table.op[chunk] == Op.COPY:
                self.copy(chunk, dict.fromkeys(pre, 0), targets)
            elif len(post) > 1 and self.rng.random() < 0.3:
                self.double(chunk, pre)
            else:
                root = self.rng.choice([d for d in pre if d in post] or post)
                self.copy(chunk, {root: self.combine(chunk, pre, root)}, targets)
        return transfers(self.rows)


def transfers(rows: list[Row]) -> Transfers:
    columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
    start, link, chunk, reduce = (np.array(c, kind) for c, kind in zip(columns, "qii?", strict=True))
    return Transfers.of(chunk, link, start, reduce)


def rows_of(module: Module) -> list[Row]:
    t = module.schedule.transfers
    return list(zip(t.start.tolist(), t.link.tolist(), t.chunk.tolist(), t.reduce.tolist(), strict=True))


def with_rows(module: Module, rows: list[Row]) -> Module:
    return replace(module, schedule=RowSchedule(module.schedule.model, transfers(rows)))


def random_module(seed: int) -> Module:
    rng = random.Random(seed)
    net = random_network(rng)
    demand = random_demand(rng, net)
    model = rng.choice(list(LinkModel))
    rows = Greedy(rng, net, demand, model).plan()
    return Module("m", net, demand, model, RowSchedule(model, rows))
