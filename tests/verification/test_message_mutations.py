"""Random changes of schedules with queues: the checks find exactly what a plain replay of whole messages finds."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from collc.application.simulate.module_simulation import simulated_module
from collc.simulation.timing import ExactTiming
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.fixed.queued import lay_out_queued
from collc.ten.demand import ChunkTable, Op, Standard
from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, QueuedMessages, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests.support import MiB, demand_of, grid, ring

NPUS = 6

Event = tuple[int, int, int, list[int]]
"""Time, whether a message leaves (else it arrives), whether it is added, and its hops."""


def queued(algorithm: str, seed: int, inject: Fraction | None = None, eject: Fraction | None = None) -> Module:
    """An All-Reduce of one chunk for each NPU, on a ring or a mesh. inject, eject: what each NPU can send, receive."""
    net = ring(NPUS) if seed % 2 else grid(2, 3)
    if inject is not None or eject is not None:
        net = fed_links(with_endpoints(net, [Endpoint(inject, eject)] * NPUS))
    everyone = list(range(NPUS))
    demand = demand_of([(MiB, everyone, everyone, Op.SUM)] * NPUS)
    sends = StandardAlgorithms.sends(Standard("all_reduce", NPUS * MiB, 1, -1, Op.SUM), NPUS, algorithm)
    model = LinkModel.PIPELINED
    rows = lay_out_queued(net, demand, {0: (sends, None)}, model)
    return Module("m", net, demand, model, RowSchedule(model, rows))


def is_right(module: Module) -> bool:
    """A replay of messages, one chunk after another, with sets of contributions."""
    assert module.schedule is not None
    rows, network, table = module.schedule.transfers, module.network, module.demand.chunks
    clock = Clock.of(network, module.demand, module.model)
    over = (rows.start + clock.total[clock.kind[rows.link], clock.size_of[rows.chunk]]).tolist()
    ends, received = over, [-1] * len(rows)
    if rows.messages is not None and rows.messages.received is not None:
        received = np.where(rows.messages.number >= 0, rows.messages.received, -1).tolist()
        ends = [one if one >= 0 else other for one, other in zip(received, over, strict=True)]
    frees = (rows.start + clock.busy_of(rows)).tolist()
    numbers = [-1] * len(rows) if rows.messages is None else rows.messages.number.tolist()
    readies = rows.start.tolist() if rows.messages is None else rows.messages.ready.tolist()
    injected = rows.start.tolist()
    if rows.messages is not None:
        injected = np.where(rows.messages.number >= 0, rows.messages.injected, rows.start).tolist()
    if not _npus_keep_up(module, injected, ends):
        return False
    for link in range(network.link_count):
        of_link = np.flatnonzero(rows.link == link).tolist()
        if any(rows.start[b] < frees[a] for a, b in pairwise(of_link)):
            return False
    messages: dict[int, list[int]] = {}
    for row in range(len(rows)):
        messages.setdefault(numbers[row] if numbers[row] >= 0 else -2 - row, []).append(row)
    events: list[Event] = []
    for number, hops in messages.items():
        first = hops[0]
        ready = readies[first] if number >= 0 else int(rows.start[first])
        for a, b in pairwise(hops):
            joined = network.target[rows.link[a]] == network.source[rows.link[b]]
            if (
                not joined
                or ends[a] > (readies[b] if number >= 0 else rows.start[b])
                or rows.chunk[a] != rows.chunk[b]
                or rows.reduce[a] != rows.reduce[b]
            ):
                return False
        if number >= 0 and any(not 0 <= readies[row] <= injected[row] <= rows.start[row] for row in hops):
            return False
        if any(received[row] != -1 and received[row] < over[row] for row in hops):
            return False
        times = [(row, int(rows.start[row]), injected[row], received[row]) for row in hops]
        if number >= 0 and any(_waits_without_limit(module, *one) for one in times):
            return False
        events += [(ends[hops[-1]], 0, int(rows.reduce[first]), hops), (ready, 1, 0, hops)]
    return all(_chunk_is_right(module, table, chunk, events) for chunk in range(len(table)))


def _npus_keep_up(module: Module, injected: list[int], ends: list[int]) -> bool:
    """No NPU sends, or receives, two transfers at once where its rate is below that of its links together."""
    assert module.schedule is not None
    rows, net = module.schedule.transfers, module.network
    spans: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for row, link in enumerate(rows.link.tolist()):
        source, target = int(net.source[link]), int(net.target[link])
        size = int(module.demand.chunks.size[rows.chunk[row]])
        for npu, ends_of, rate, sends in (
            (source, net.source, net.endpoint_of(source).send, True),
            (target, net.target, net.endpoint_of(target).receive, False),
        ):
            if _is_below(rate, net, ends_of == npu):
                taken = -(-size * 10**12 // rate)
                begin = injected[row] if sends else ends[row] - taken
                spans.setdefault((npu, sends), []).append((begin, begin + taken))
    return all(a[1] <= b[0] for found in spans.values() for a, b in pairwise(sorted(found)))


def _is_below(rate: Fraction | None, net: Network, links: np.ndarray) -> bool:
    """Whether an NPU cannot use all its links at once."""
    return rate is not None and rate < sum(net.kinds[int(net.kind[k])].bandwidth for k in np.flatnonzero(links))


def _waits_without_limit(module: Module, row: int, start: int, injected: int, received: int) -> bool:
    """Whether a hop is sent, or received, at a time of its own at an NPU that has no limit."""
    net, link = module.network, int(module.schedule.transfers.link[row])
    source, target = int(net.source[link]), int(net.target[link])
    late = injected != start and not _is_below(net.endpoint_of(source).send, net, net.source == source)
    return late or (received >= 0 and not _is_below(net.endpoint_of(target).receive, net, net.target == target))


def _rate(gib: int | None) -> Fraction | None:
    return None if gib is None else Fraction(gib * 2**30)


def _chunk_is_right(module: Module, table: ChunkTable, chunk: int, events: list[Event]) -> bool:
    assert module.schedule is not None
    rows, network = module.schedule.transfers, module.network
    pre = table.sets[int(table.pre[chunk])].tolist()
    held: dict[int, frozenset[int]] = {npu: frozenset([npu]) for npu in pre}
    carried: dict[int, frozenset[int]] = {}
    for _, leaves, adds, hops in sorted(events):
        if rows.chunk[hops[0]] != chunk:
            continue
        source, target = int(network.source[rows.link[hops[0]]]), int(network.target[rows.link[hops[-1]]])
        if leaves:
            carried[hops[0]] = held.get(source, frozenset())
            if not carried[hops[0]] or (not rows.reduce[hops[0]] and len(carried[hops[0]]) < len(pre)):
                return False
            continue
        before = held.get(target, frozenset()) if adds else frozenset[int]()
        if before & carried[hops[0]]:
            return False
        held[target] = before | carried[hops[0]]
    return all(len(held.get(npu, ())) == len(pre) for npu in table.sets[int(table.post[chunk])].tolist())


def mutated(rows: Transfers, rng: random.Random) -> Transfers:
    """One transfer is left out, or moved in time, or another link, chunk, message or ready time, or copied or added."""
    k = rng.randrange(len(rows))
    if rng.random() < 0.15:
        return rows.select(np.arange(len(rows)) != k)
    chunk, link, start, reduce = rows.chunk.copy(), rows.link.copy(), rows.start.copy(), rows.reduce.copy()
    messages = rows.messages or QueuedMessages(np.full(len(rows), -1, np.int32), rows.start, rows.start)
    number, ready, injected = messages.number.copy(), messages.ready.copy(), messages.injected.copy()
    received = messages.last_received.copy()
    other = rng.randrange(len(rows))
    shift = rng.choice([-1, 1, -500_000, 19_531_250, -19_531_250, 40_000_000])
    kind = rng.randrange(9)
    if kind == 0:
        start[k] = max(0, start[k] + shift)
        injected[k] = start[k] if number[k] < 0 else injected[k]
    elif kind == 1:
        ready[k] = ready[k] + shift
    elif kind == 2:
        number[k] = rng.choice([-1, int(number[other]), int(number.max()) + 1])
    elif kind == 3:
        chunk[k] = chunk[other]
    elif kind == 4:
        link[k] = link[other]
    elif kind == 5:
        reduce[k] = not reduce[k]
    elif kind == 6 and number[k] >= 0:
        injected[k] = rng.choice([int(ready[k]), int(start[k]), int(injected[other]), int(injected[k]) + shift])
    elif kind == 7:
        received[k] = rng.choice([-1, int(received[other]), int(max(received[k], start[k] + 20_031_250)) + shift])
    else:
        start[k], start[other] = start[other], start[k]
    return Transfers.of(chunk, link, start, reduce, None, QueuedMessages(number, ready, injected, received))


@pytest.mark.parametrize("algorithm", ["direct", "recursive_halving_doubling"])
@pytest.mark.parametrize("large", [0, 10**6])
@pytest.mark.parametrize(("inject", "eject"), [(None, None), (60, None), (70, 60)])
def test_the_checks_agree_with_a_plain_replay(
    algorithm: str, large: int, inject: int | None, eject: int | None
) -> None:
    rng = random.Random(7)
    outcomes = {True: 0, False: 0}
    for seed in range(2):
        module = queued(algorithm, seed, _rate(inject), _rate(eject))
        assert module.schedule is not None
        assert is_right(module)
        assert verify_schedule(module, large).ok
        for _ in range(40):
            changed = replace(module, schedule=RowSchedule(module.model, mutated(module.schedule.transfers, rng)))
            expected = is_right(changed)
            outcomes[expected] += 1
            assert verify_schedule(changed, large).ok == expected
    assert min(outcomes.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_many_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    algorithm = rng.choice(["direct", "recursive_halving_doubling", "ring", "double_binary_tree"])
    rates = [_rate(rng.choice([None, rng.randint(51, 140)])) for _ in range(2)]
    module = queued(algorithm, seed, *rates)
    assert module.schedule is not None
    again = simulated_module(module, ExactTiming(module.model))
    assert again.time_ps == module.collective_time()
    for _ in range(100):
        rows = module.schedule.transfers
        for _ in range(rng.randint(1, 3)):
            rows = mutated(rows, rng)
        changed = replace(module, schedule=RowSchedule(module.model, rows))
        assert verify_schedule(changed).ok == is_right(changed)
