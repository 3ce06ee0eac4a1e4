"""Random small problems for the bounds: networks, demands, schedules of all synthesizers, exhaustive search."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from collc.base.diagnostics import CollcError
from collc.passes.registry import Fixed, HandwrittenRun, Invert, PassContext, Unwind, make_pass
from collc.passes.synthesizers import searching_synthesizers
from collc.synthesis.exact import exact
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.ten.transform import product, remove_parts
from tests import support

KIB = 1024
MAKERS = [
    support.all_gather,
    support.reduce_scatter,
    support.all_reduce,
    support.all_to_all,
    support.broadcast,
    support.reduce,
    support.scatter,
    support.gather,
]


def random_kind(rng: random.Random) -> LinkKind:
    return LinkKind(rng.choice([0, 1000, 20_000, 500_000]), Fraction(rng.choice([10**9, 5 * 10**9, 10**10])))


def random_network(rng: random.Random) -> Network:
    kinds = [random_kind(rng) for _ in range(rng.randrange(1, 4))]

    def any_kind() -> LinkKind:
        return rng.choice(kinds)

    shape = rng.randrange(6)
    if shape == 0:
        net = support.ring(rng.randrange(2, 8), kinds[0], one_way=rng.random() < 0.3)
    elif shape == 1:
        net = support.grid(rng.randrange(2, 4), rng.randrange(2, 4), kind=kinds[0], wrap=rng.random() < 0.4)
    elif shape == 2:
        line = support.ring if rng.random() < 0.5 else support.switched
        left, right = line(rng.randrange(2, 4), any_kind()), support.switched(rng.randrange(2, 4), any_kind())
        net = product(left, right, "product", (left.name, right.name))
    elif shape == 3:
        net = pods(rng, any_kind(), any_kind())
    else:
        net = scattered(rng, kinds)
    switches = net.switch_count
    net = replace(
        net,
        buffers=np.array([rng.choice([-1, -1, 1, 2, 5]) for _ in range(switches)], np.int64),
        multicast=np.array([rng.random() < 0.4 for _ in range(switches)], np.bool_),
        reduces=np.array([rng.random() < 0.3 for _ in range(switches)], np.bool_),
    )
    if rng.random() < 0.25:
        gone = [rng.randrange(net.npu_count)] if net.npu_count > 3 and rng.random() < 0.4 else []
        net = remove_parts(net, gone, np.array([rng.randrange(net.link_count)], np.int64))
    return net


def pods(rng: random.Random, fast: LinkKind, slow: LinkKind) -> Network:
    """Nodes with a switch each, and one switch that joins all NPUs."""
    nodes, per_node = rng.randrange(2, 4), rng.randrange(2, 4)
    count = nodes * per_node
    links = [
        (a, b, kind)
        for npu in range(count)
        for switch, kind in ((count + npu // per_node, fast), (count + nodes, slow))
        for a, b in ((npu, switch), (switch, npu))
    ]
    return support.network(count, links, switches=nodes + 1, shape=(nodes, per_node))


def scattered(rng: random.Random, kinds: list[LinkKind]) -> Network:
    """A one-way cycle, so that all NPUs reach all, with chords, parallel links and perhaps a switch."""
    count = rng.randrange(2, 8)
    links = [(i, (i + 1) % count, rng.choice(kinds)) for i in range(count)]
    for _ in range(rng.randrange(0, 3 * count)):
        a, b = rng.sample(range(count), 2)
        links.append((a, b, rng.choice(kinds)))
    switches = rng.randrange(2)
    if switches:
        members = rng.sample(range(count), rng.randrange(2, count + 1))
        links += [(a, b, rng.choice(kinds)) for m in members for a, b in ((m, count), (count, m))]
    return support.network(count, links, switches)


def random_demand(rng: random.Random, net: Network) -> Demand:
    """Standard collectives over all NPUs, over several groups at once, or custom conditions of mixed sizes."""
    npus = net.npus.tolist()
    pick = rng.random()
    if pick < 0.45:
        return standard(rng, npus)
    if pick < 0.7 and len(npus) > 3:
        shuffled = rng.sample(npus, len(npus))
        cut = rng.randrange(2, len(npus) - 1)
        parts = [standard(rng, shuffled[:cut]), standard(rng, shuffled[cut:])]
        if rng.random() < 0.5:
            parts.append(custom(rng, npus))
        return Demand(tuple(part.runs[0] for part in parts))
    return custom(rng, npus)


def standard(rng: random.Random, group: list[int]) -> Demand:
    size = rng.choice([KIB, 64 * KIB, 3_000_001])
    return rng.choice(MAKERS)(group, size, rng.randrange(1, 4))


def custom(rng: random.Random, npus: list[int]) -> Demand:
    def some(most: int) -> list[int]:
        return rng.sample(npus, rng.randrange(1, most + 1))

    rows = [
        (
            rng.choice([1, KIB, 64 * KIB, 3_000_001]),
            some(len(npus)),
            some(len(npus)),
            rng.choice([Op.COPY, Op.COPY, Op.SUM, Op.MAX]),
        )
        for _ in range(rng.randrange(1, 8))
    ]
    return support.demand_of(rows)


def random_module(rng: random.Random) -> Module:
    net = random_network(rng)
    model = rng.choice(list(LinkModel))
    return Module("m", net, random_demand(rng, net), model, relays=rng.random() < 0.3)


def planned(module: Module, rng: random.Random) -> Iterator[tuple[str, Module]]:
    """(synthesizer, module with a schedule) for each synthesizer that accepts the module, with and without switches."""
    effort = Effort(seed=rng.randrange(1000), trials=2)
    context = PassContext(effort=effort)
    nets = [("", module)]
    if module.network.switch_count:
        with suppress(CollcError):
            nets.append((" unwound", Unwind(rng.randrange(1, 3)).run(module, context)))
    for words, start in nets:
        for synthesizer in searching_synthesizers():
            try:
                if synthesizer == "exact":
                    result = join(solve(start, lambda task: exact(task, effort, most=6)))
                else:
                    result = Invert().run(make_pass(synthesizer, {}).run(start, context), context)
            except CollcError:
                continue
            yield synthesizer + words, result
    hand = textbook_ring(module)
    if hand is not None:
        yield "fixed", hand


def textbook_ring(module: Module) -> Module | None:
    """The textbook schedule of All-Gather and Reduce-Scatter on a ring; None for other problems."""
    run = module.demand.runs[0]
    if run.standard is None or len(module.demand.runs) > 1 or run.standard.kind not in ("all_gather", "reduce_scatter"):
        return None
    n, chunks, group = len(run.group), run.standard.chunks, run.group.tolist()
    gather = run.standard.kind == "all_gather"
    rows = [
        (((i - s - (not gather)) % n) * chunks + c, group[i], group[(i + 1) % n])
        for s in range(n - 1)
        for i in range(n)
        for c in range(chunks)
    ]
    columns = [np.array(column, np.int32) for column in zip(*rows, strict=True)]
    sends = AlgorithmSends(*columns, np.full(len(rows), -1, np.int32), np.full(len(rows), not gather))
    try:
        return Fixed().run(module, PassContext(handwritten={0: HandwrittenRun("ring", sends, None)}))
    except CollcError:
        return None


# Optima by exhaustive search


def least_time(
    devices: int, links: list[tuple[int, int, int, int]], pre: list[list[int]], post: list[list[int]], most: int = 12
) -> int | None:
    """The least time of copies, by breadth-first search over all states of chunks in flight.

    links: (source, target, busy, total) in whole units of time. A switch is a device that keeps what it got: that is
    at least as good as any switch.
    """
    everything = [frozenset(c for c in range(len(pre)) if d in pre[c]) for d in range(devices)]
    goal = [(n, c) for c in range(len(post)) for n in post[c]]
    states = {(tuple(everything), tuple((0, ()) for _ in links))}
    for now in range(most + 1):
        if any(all(c in held[n] for n, c in goal) for held, _ in states):
            return now
        grown = set()
        for held, flying in states:
            options = []
            for (a, b, _, _), (busy, under_way) in zip(links, flying, strict=True):
                coming = {c for c, _ in under_way}
                options.append([None, *(c for c in held[a] - held[b] - coming if busy == 0)])
            for choice in itertools.product(*options):
                grown.add(_later(held, flying, links, choice))
        states = grown
        if len(states) > 200_000:
            return None
    return None


def _later(held, flying, links, choice):
    after, air = list(held), []
    for (_, b, long, total), (busy, under_way), chunk in zip(links, flying, choice, strict=True):
        coming = under_way if chunk is None else (*under_way, (chunk, total))
        after[b] = after[b] | {c for c, left in coming if left == 1}
        taken = busy if chunk is None else long
        air.append((max(0, taken - 1), tuple((c, left - 1) for c, left in coming if left > 1)))
    return tuple(after), tuple(air)


def least_steps_of_sums(
    npus: int, links: list[tuple[int, int]], pre: list[list[int]], post: list[list[int]], most: int = 7
) -> int | None:
    """The fewest unit steps of reductions: each chunk's value at an NPU is the set of contributions in it.

    A transfer adds what is disjoint, or replaces what was there.
    """
    start = tuple(tuple(frozenset([n]) if n in holders else frozenset() for n in range(npus)) for holders in pre)
    whole = [frozenset(holders) for holders in pre]
    states = {start}
    for steps in range(most + 1):
        if any(all(s[c][n] == whole[c] for c in range(len(post)) for n in post[c]) for s in states):
            return steps
        grown = set()
        for state in states:
            for choice in itertools.product(*[_sums(state, a, b) for a, b in links]):
                after = _merged(state, links, choice)
                if after is not None:
                    grown.add(after)
        states = grown
        if len(states) > 60_000:
            return None
    return None


def _sums(state, a, b):
    found = [None]
    for chunk, values in enumerate(state):
        if values[a] and values[a] != values[b]:
            found += [(chunk, False)] if not values[a] & values[b] else []
            found += [(chunk, True)] if values[b] and values[a] > values[b] else []
    return found


def _merged(state, links, choice):
    after = [list(values) for values in state]
    for copies in (True, False):
        for (a, b), move in zip(links, choice, strict=True):
            if move is not None and move[1] == copies:
                chunk = move[0]
                value = state[chunk][a]
                if copies:
                    after[chunk][b] = value
                elif after[chunk][b] & value:
                    return None
                else:
                    after[chunk][b] = after[chunk][b] | value
    return tuple(tuple(values) for values in after)
