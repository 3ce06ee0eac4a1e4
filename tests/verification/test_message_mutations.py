"""Random changes of schedules with queues: the checks find exactly what the judge of their texts finds."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.application.simulate.module_simulation import simulated_module
from collc.simulation.timing import ExactTiming
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.fixed.queued import lay_out_queued
from collc.ten.demand import Op, Standard
from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, QueuedMessages, RowSchedule, Transfers
from collc.ten.text import format_module
from collc.verification import verify_schedule
from tests.support import MiB, demand_of, grid, ring
from tests.verification.judge import faults

NPUS = 6


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


def _rate(gib: int | None) -> Fraction | None:
    return None if gib is None else Fraction(gib * 2**30)


def is_right(module: Module) -> bool:
    """What the judge of texts says of the text of a module."""
    return not faults(format_module(module))


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


@pytest.mark.sampled(3)
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
