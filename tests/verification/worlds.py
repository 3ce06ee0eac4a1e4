"""Random small networks, demands and (mostly right) schedules, and everything that can be done to break them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from collc.ten.demand import ChunkTable, Demand, HolderSets, Op, Run
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
        """At the earliest; when it is there."""
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
        """Reduce to the root along a tree in which nobody sends before all have come; when the root has it all."""
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
        """Recursive doubling where links allow it."""
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
    planned = frozenset(rng.sample(range(len(demand.runs)), 1)) if rng.random() < 0.1 else None
    rows = Greedy(rng, net, demand, model).plan()
    return Module("m", net, demand, model, RowSchedule(model, rows), planned=planned)


# What can be done to a schedule: each takes a module and a source of randomness; None where it does not apply.

Mutation = Callable[[Module, random.Random], Module | None]
MUTATIONS: dict[str, Mutation] = {}


def mutation(function: Mutation) -> Mutation:
    MUTATIONS[function.__name__] = function
    return function


def changed(module: Module, rng: random.Random, change: Callable[[Row], Row]) -> Module | None:
    rows = rows_of(module)
    if not rows:
        return None
    place = rng.randrange(len(rows))
    rows[place] = change(rows[place])
    return with_rows(module, rows)


def reductions(module: Module) -> list[Row]:
    return [row for row in rows_of(module) if row[3]]


def end_of(module: Module) -> int:
    return module.schedule.collective_time(module.network, module.demand)


@mutation
def dropped(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    del rows[rng.randrange(len(rows))]
    return with_rows(m, rows)


@mutation
def truncated(m, rng):
    rows = rows_of(m)
    return with_rows(m, rows[: rng.randrange(len(rows))]) if rows else None


@mutation
def emptied(m, rng):
    return with_rows(m, [])


@mutation
def headless(m, rng):
    rows = rows_of(m)
    return with_rows(m, rows[rng.randint(1, len(rows)) :]) if rows else None


@mutation
def duplicated_at_once(m, rng):
    rows = rows_of(m)
    return with_rows(m, [*rows, rng.choice(rows)]) if rows else None


@mutation
def duplicated_at_the_end(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    _, link, chunk, reduce = rng.choice(rows)
    return with_rows(m, [*rows, (end_of(m), link, chunk, reduce)])


@mutation
def chunks_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (a[0], a[1], b[2], a[3]), (b[0], b[1], a[2], b[3])
    return with_rows(m, rows)


@mutation
def starts_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (b[0], *a[1:]), (a[0], *b[1:])
    return with_rows(m, rows)


@mutation
def links_swapped(m, rng):
    rows = rows_of(m)
    if len(rows) < 2:
        return None
    i, j = rng.sample(range(len(rows)), 2)
    a, b = rows[i], rows[j]
    rows[i], rows[j] = (a[0], b[1], *a[2:]), (b[0], a[1], *b[2:])
    return with_rows(m, rows)


@mutation
def at_zero(m, rng):
    return changed(m, rng, lambda r: (0, *r[1:]))


@mutation
def early(m, rng):
    return changed(m, rng, lambda r: (r[0] // 2, *r[1:]))


@mutation
def early_by_1ps(m, rng):
    return changed(m, rng, lambda r: (max(0, r[0] - 1), *r[1:]))


@mutation
def late_by_1ps(m, rng):
    return changed(m, rng, lambda r: (r[0] + 1, *r[1:]))


@mutation
def late(m, rng):
    return changed(m, rng, lambda r: (r[0] + rng.randint(2, 60), *r[1:]))


@mutation
def negative_time(m, rng):
    return changed(m, rng, lambda r: (-rng.randint(1, 9), *r[1:]))


@mutation
def wrong_link(m, rng):
    return changed(m, rng, lambda r: (r[0], rng.randrange(m.network.link_count), *r[2:]))


@mutation
def link_of_the_same_source(m, rng):
    source = m.network.source

    def change(r):
        others = np.flatnonzero(source == source[r[1]]).tolist()
        return (r[0], rng.choice(others), *r[2:])

    return changed(m, rng, change)


@mutation
def link_turned_round(m, rng):
    net = m.network

    def change(r):
        back = np.flatnonzero((net.source == net.target[r[1]]) & (net.target == net.source[r[1]])).tolist()
        return (r[0], rng.choice(back or [r[1]]), *r[2:])

    return changed(m, rng, change)


@mutation
def link_that_is_not_there(m, rng):
    return changed(m, rng, lambda r: (r[0], rng.choice([-1, m.network.link_count, 10**6]), *r[2:]))


@mutation
def wrong_chunk(m, rng):
    return changed(m, rng, lambda r: (*r[:2], rng.randrange(len(m.demand.chunks)), r[3]))


@mutation
def chunk_that_is_not_there(m, rng):
    return changed(m, rng, lambda r: (*r[:2], rng.choice([-1, len(m.demand.chunks), 10**6]), r[3]))


@mutation
def flag_flipped(m, rng):
    return changed(m, rng, lambda r: (*r[:3], not r[3]))


@mutation
def chunk_only_copied(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    chunk = rng.choice(rows)[2]
    return with_rows(m, [(*r[:3], r[3] and r[2] != chunk) for r in rows_of(m)])


@mutation
def chunk_only_reduced(m, rng):
    rows = rows_of(m)
    if not rows:
        return None
    chunk = rng.choice(rows)[2]
    return with_rows(m, [(*r[:3], r[3] or r[2] == chunk) for r in rows])


@mutation
def contribution_lost(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    lost = rng.choice(rows)
    return with_rows(m, [row for row in rows_of(m) if row != lost])


@mutation
def contribution_doubled(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    _, link, chunk, _ = rng.choice(rows)
    out = np.flatnonzero(m.network.source == m.network.source[link]).tolist()
    return with_rows(m, [*rows_of(m), (rng.randint(0, end_of(m) * 2), rng.choice(out), chunk, True)])


@mutation
def partial_copied(m, rng):
    rows = reductions(m)
    if not rows:
        return None
    start, link, chunk, _ = rng.choice(rows)
    out = np.flatnonzero(m.network.source == m.network.source[link]).tolist()
    return with_rows(m, [*rows_of(m), (start + rng.randint(0, 40), rng.choice(out), chunk, False)])


@mutation
def transfer_added(m, rng):
    net = m.network
    row = (rng.randint(0, end_of(m) + 9), rng.randrange(net.link_count), rng.randrange(len(m.demand.chunks)))
    return with_rows(m, [*rows_of(m), (*row, rng.random() < 0.5)])


@mutation
def on_two_links_of_a_switch(m, rng):
    net = m.network
    rows = [row for row in rows_of(m) if net.source[row[1]] >= net.npu_count]
    if not rows:
        return None
    start, link, chunk, reduce = rng.choice(rows)
    others = np.flatnonzero((net.source == net.source[link]) & (np.arange(net.link_count) != link)).tolist()
    return with_rows(m, [*rows_of(m), (start + rng.randint(0, 3), rng.choice(others or [link]), chunk, reduce)])


@mutation
def buffer_smaller(m, rng):
    if not m.network.switch_count:
        return None
    return replace(m, network=replace(m.network, buffers=np.full(m.network.switch_count, rng.randint(0, 2))))


@mutation
def multicast_gone(m, rng):
    if not m.network.multicast.any():
        return None
    return replace(m, network=replace(m.network, multicast=np.zeros(m.network.switch_count, np.bool_)))


@mutation
def switch_reduction_gone(m, rng):
    if not m.network.reduces.any():
        return None
    return replace(m, network=replace(m.network, reduces=np.zeros(m.network.switch_count, np.bool_)))


@mutation
def device_removed(m, rng):
    present = m.network.present.copy()
    present[rng.randrange(len(present))] = False
    return replace(m, network=replace(m.network, present=present))


@mutation
def link_to_itself(m, rng):
    target = m.network.target.copy()
    link = rng.randrange(len(target))
    target[link] = m.network.source[link]
    return replace(m, network=replace(m.network, target=target))


@mutation
def links_slower(m, rng):
    kinds = tuple(LinkKind(k.latency, k.bandwidth / 2) for k in m.network.kinds)
    return replace(m, network=replace(m.network, kinds=kinds))


@mutation
def latency_longer(m, rng):
    kinds = tuple(LinkKind(k.latency + 1, k.bandwidth) for k in m.network.kinds)
    return replace(m, network=replace(m.network, kinds=kinds))


@mutation
def other_link_model(m, rng):
    other = LinkModel.STORE if m.schedule.model is LinkModel.PIPELINED else LinkModel.PIPELINED
    return replace(m, schedule=RowSchedule(other, m.schedule.transfers))


@mutation
def squeezed(m, rng):
    return with_rows(m, [(r[0] * 2 // 3, *r[1:]) for r in rows_of(m)])


@mutation
def backwards(m, rng):
    end = end_of(m)
    return with_rows(m, [(end - r[0], *r[1:]) for r in rows_of(m)])


def with_table(m: Module, **fields) -> Module:
    """The demand as one run with some columns changed."""
    table = m.demand.chunks
    table = ChunkTable(**{name: fields.get(name, getattr(table, name)) for name in table.__dataclass_fields__})
    return replace(m, demand=Demand((Run("changed", np.empty(0, np.int32), table),)), planned=None)


@mutation
def chunk_larger(m, rng):
    return with_table(m, size=m.demand.chunks.size + rng.randint(1, 9))


@mutation
def more_wanted(m, rng):
    table = m.demand.chunks
    sets = [table.sets[k].tolist() for k in range(len(table.sets))]
    post = table.post.copy()
    post[rng.randrange(len(post))] = len(sets)
    return with_table(m, sets=HolderSets.of([*sets, list(range(m.network.npu_count))]), post=post)


@mutation
def holder_gone(m, rng):
    table = m.demand.chunks
    sets = [table.sets[k].tolist() for k in range(len(table.sets))]
    chunk = rng.randrange(len(table))
    pre = table.pre.copy()
    held = sets[int(pre[chunk])]
    pre[chunk] = len(sets)
    left = [npu for npu in held if npu != rng.choice(held)] if held else []
    return with_table(m, sets=HolderSets.of([*sets, left]), pre=pre)


@mutation
def copy_becomes_sum(m, rng):
    op = m.demand.chunks.op.copy()
    op[rng.randrange(len(op))] ^= 1
    return with_table(m, op=op)
