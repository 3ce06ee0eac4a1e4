"""Optimality: known optima, longer schedules are refuted with a shortest one, and brute force finds none shorter."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.smt.problem import problem_of
from collc.ten.demand import Demand, Op
from collc.ten.module import Bound, Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.optimal import prove_optimal
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    all_to_all,
    demand_of,
    dgx1,
    grid,
    network,
    reduce_scatter,
    ring,
    switched,
)
from tests.verification.deadlines import find_within, find_within_steps
from tests.verification.interpreter import interpret
from tests.verification.random_modules import random_module, transfers
from tests.verification.shortest import TooMany, shortest


def groups() -> Demand:
    """All-to-Allv in the top row (NPU 0 sends two chunks to each), All-Gather of two chunks in the bottom row."""
    pairs = [(0, 1), (0, 1), (0, 2), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    top = demand_of([(MiB, [i], [j], Op.COPY) for i, j in pairs])
    return Demand((*top.runs, *all_gather([6, 7, 8], chunks=2).runs))


OPTIMA = [
    ("mesh 3x3 All-Gather", Module("m", grid(3, 3), all_gather(list(range(9)))), 4),
    ("mesh 2x3 All-to-All", Module("m", grid(2, 3), all_to_all(list(range(6)))), 4),
    ("torus 3x3 All-Gather", Module("m", grid(3, 3, wrap=True), all_gather(list(range(9)))), 2),
    ("DGX-1 All-Gather", Module("m", dgx1(), all_gather(list(range(8)))), 2),
    ("ring 4, 2 chunks", Module("m", ring(4), all_gather([0, 1, 2, 3], chunks=2)), 3),
    ("Send on mesh 3x3", Module("m", grid(3, 3), demand_of([(MiB, [0], [8], Op.COPY)])), 4),
    ("two groups on mesh 3x3", Module("m", grid(3, 3), groups()), 3),
    ("mesh 3x3 Reduce-Scatter", Module("m", grid(3, 3), reduce_scatter(list(range(9)))), 4),
]


@pytest.mark.parametrize(("module", "steps"), [case[1:] for case in OPTIMA], ids=[case[0] for case in OPTIMA])
def test_known_optima(module: Module, steps: int) -> None:
    found = find_within_steps(module, steps)
    assert found is not None
    assert verify_schedule(found).ok
    assert all(interpret(found).values())
    assert find_within_steps(module, steps - 1) is None
    result = prove_optimal(found)
    assert (result.answer, result.steps) == ("proved", steps)
    (certificate,) = result.certificates
    assert certificate.answer == "unsat"
    assert str(certificate).startswith("; answer: unsat\n; solver: Z3 ")


SLOW = LinkKind(900_000, Fraction(20 * 2**30))
MIXED = network(4, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3, SLOW), (3, 2, SLOW), (3, 0, SLOW), (0, 3, SLOW)])
IN_NETWORK = replace(switched(4, multicast=True), reduces=np.array([True]))
STEP = 20_031_250
ALL = [0, 1, 2, 3]
BEYOND_STEPS = [
    ("unlike links, All-Gather", Module("m", MIXED, all_gather(ALL)), 99_456_250),
    ("unlike links, All-to-All", Module("m", MIXED, all_to_all(ALL)), 99_456_250),
    ("unlike links, Reduce-Scatter", Module("m", MIXED, reduce_scatter(ALL)), 99_456_250),
    ("ring 4, All-Reduce", Module("m", ring(4), all_reduce(ALL)), 3 * STEP),
    ("ring 5 one way, All-Reduce", Module("m", ring(5, one_way=True), all_reduce(list(range(5)))), 8 * STEP),
    ("mesh 2x2, sum of one chunk", Module("m", grid(2, 2), demand_of([(MiB, ALL, ALL, Op.SUM)])), 2 * STEP),
    ("pipelined ring 4", Module("m", ring(4), all_gather(ALL, 4096), LinkModel.PIPELINED), 1_152_588),
    ("switch, All-Gather", Module("m", switched(4), all_gather(ALL)), 4 * STEP),
    ("switch, Reduce-Scatter", Module("m", switched(4), reduce_scatter(ALL)), 4 * STEP),
    ("switch, All-Reduce", Module("m", switched(3), all_reduce([0, 1, 2])), 5 * STEP),
    ("switch with a buffer of one", Module("m", switched(3, buffer=1), all_gather([0, 1, 2])), 7 * STEP),
    ("switch that reduces and copies", Module("m", IN_NETWORK, demand_of([(MiB, ALL, ALL, Op.SUM)])), 2 * STEP),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("_name", "module", "time"), BEYOND_STEPS, ids=[case[0] for case in BEYOND_STEPS])
def test_optima_beyond_equal_steps(_name: str, module: Module, time: int) -> None:
    """Unequal links, `pipelined`, All-Reduce and switches: each optimum is found, and nothing shorter."""
    found = find_within(module, time)
    assert found is not None
    assert all(interpret(found).values())
    result = prove_optimal(found)
    assert (result.answer, len(result.certificates)) == ("proved", 1)
    assert find_within(module, time - 1) is None
    rows = found.schedule.transfers
    longer = replace(found, schedule=RowSchedule(module.model, replace(rows, start=rows.start + 1)))
    again = prove_optimal(longer)
    assert (again.answer, again.least) == ("refuted", True)
    assert again.shorter.schedule.collective_time(module.network, module.demand) == time


def test_an_undecided_question_has_a_reason() -> None:
    many = [LinkKind(1_000_003 * k, Fraction(10**9 + 7 * k)) for k in range(1, 5)]
    unlike = network(4, [(i, (i + 1) % 4, many[i]) for i in range(4)])
    rows = RowSchedule(LinkModel.STORE, transfers([(10**12, 0, 0, False)]))
    result = prove_optimal(Module("m", unlike, all_gather(ALL), schedule=rows))
    assert (result.answer, result.reason) == (
        "undecided",
        "there are more than 2000 times at which a transfer could start",
    )
    late = RowSchedule(LinkModel.STORE, transfers([(40 * STEP, 0, 0, False)]))
    large = Module("m", grid(8, 8), all_to_all(list(range(64))), schedule=late)
    assert prove_optimal(large).reason == "the question would be larger than 30 MB"


def test_a_longer_schedule_is_refuted_with_a_shorter_one() -> None:
    module = Module("m", ring(5), all_gather(list(range(5))))
    found = find_within_steps(module, 4)
    assert found is not None
    kept = found.schedule.transfers
    step = int(kept.start[kept.start > 0].min())
    long = replace(found, schedule=RowSchedule(LinkModel.STORE, replace(kept, start=kept.start + 2 * step)))
    said: list[str] = []
    result = prove_optimal(long, progress=lambda _share, words: said.append(words))
    assert result.answer == "refuted"
    assert result.shorter is not None
    assert verify_schedule(result.shorter).ok
    before, after = (m.schedule.collective_time(m.network, m.demand) for m in (long, result.shorter))
    assert (before, after) == (6 * step, 2 * step)
    assert (result.least, result.reason) == (True, "there is a schedule of 2 steps, and none is shorter")
    assert [certificate.answer for certificate in result.certificates] == ["sat", "sat", "sat", "sat", "unsat"]
    assert said[0] == "asking Z3 for a schedule of 5 steps"


def test_a_met_bound_needs_no_solver() -> None:
    found = find_within_steps(Module("m", ring(4), all_gather([0, 1, 2, 3])), 2)
    assert found is not None
    time = found.schedule.collective_time(found.network, found.demand)
    result = prove_optimal(found, bound=Bound(time, "the links into npu[0]"))
    assert result.answer == "proved"
    assert result.certificates == ()
    assert "the links into npu[0]" in result.reason


def test_no_schedule_is_undecided() -> None:
    result = prove_optimal(Module("m", ring(3), all_gather([0, 1, 2])))
    assert (result.answer, result.reason) == ("undecided", "there is no schedule")


def test_without_time_the_answer_is_undecided() -> None:
    module = Module("m", grid(3, 4), all_to_all(list(range(12))))
    long = replace(module, schedule=RowSchedule(LinkModel.STORE, transfers([(10**8 * 3, 0, 0, False)])))
    assert prove_optimal(long, timeout=0.001).answer == "undecided"


def tiny(seed: int) -> Module:
    """Two or three NPUs on a ring or a switch, links and chunks of one or two picoseconds, copies and sums."""
    rng = random.Random(seed)
    kinds = [LinkKind(rng.choice([0, 1, 2]), Fraction(10**12, rng.choice([1, 2]))) for _ in range(2)]
    n = rng.choice([2, 3])
    if rng.random() < 0.5:
        links = [(i, (i + 1) % n, rng.choice(kinds)) for i in range(n)]
        net = network(n, [*links, (1, 0, rng.choice(kinds))] if rng.random() < 0.5 else links)
    else:
        links = [(i, n, rng.choice(kinds)) for i in range(n)]
        net = network(n, [pair for a, b, kind in links for pair in ((a, b, kind), (b, a, kind))], switches=1)
        net = replace(net, multicast=np.array([rng.random() < 0.4]), reduces=np.array([rng.random() < 0.4]))
    rows = []
    for _ in range(rng.choice([1, 1, 2])):
        op = rng.choice([Op.COPY, Op.SUM])
        pre = rng.sample(range(n), 1 if op == Op.COPY else rng.randint(1, n))
        rows.append((rng.choice([1, 1, 2]), pre, rng.sample(range(n), rng.randint(1, n)), op))
    return Module("m", net, demand_of(rows), rng.choice(list(LinkModel)))


def agrees_with_brute_force(seed: int) -> str:
    """Of a schedule of at most 7 ps: "none", "least", "open" (of reductions) or "unknown" (by brute force)."""
    module = tiny(seed)
    try:
        least = shortest(module, 7)
    except TooMany:
        return "unknown"
    if least is None:
        assert find_within(module, 7) is None, seed
        return "none"
    if least == 0:
        return "unknown"
    long = replace(module, schedule=RowSchedule(module.model, transfers([(least, 0, 0, False)])))
    result = prove_optimal(long)
    found = result.shorter
    if found is None:
        assert (module.demand.chunks.op != Op.COPY).any(), (seed, result.reason)
        return "open"
    assert result.answer == "refuted", seed
    assert verify_schedule(found).ok
    assert all(interpret(found).values())
    time = found.schedule.collective_time(found.network, found.demand)
    if result.least:
        assert time == least, seed
        return "least"
    assert time >= least, seed
    assert (module.demand.chunks.op != Op.COPY).any(), seed
    return "open"


def test_brute_force_finds_nothing_shorter() -> None:
    seen = Counter(agrees_with_brute_force(seed) for seed in range(60))
    assert seen["least"] > 20


@pytest.mark.slow
def test_brute_force_finds_nothing_shorter_in_many_worlds() -> None:
    seen = Counter(agrees_with_brute_force(seed) for seed in range(1000, 1300))
    assert seen["least"] > 100
    assert seen["none"] > 0
    assert 0 < seen["open"] < 20


def few_times(module: Module) -> bool:
    """Whether a schedule is right, takes time, and there are few times at which a transfer could start."""
    if module.planned is not None or not verify_schedule(module).ok:
        return False
    time = module.schedule.collective_time(module.network, module.demand)
    return (
        time > 0
        and len(problem_of(module.network, module.demand, module.schedule.model, module.relays).times(time)) <= 40
    )


@pytest.mark.slow
def test_an_existing_schedule_is_never_impossible() -> None:
    """Z3 is asked for schedules as long as random ones that are right: it may not say that there are none."""
    seen: Counter[str] = Counter()
    for seed in range(200):
        module = random_module(seed)
        if not few_times(module):
            continue
        rows, time = module.schedule.transfers, module.schedule.collective_time(module.network, module.demand)
        late = RowSchedule(module.schedule.model, replace(rows, start=rows.start + 1))
        long = replace(module, schedule=late)
        result = prove_optimal(long, timeout=10)
        assert result.answer != "proved", seed
        seen[result.answer] += 1
        if result.shorter is not None:
            assert result.shorter.schedule.collective_time(module.network, module.demand) <= time
            assert all(interpret(result.shorter).values()), seed
        else:
            assert "larger" in result.reason or "left out" in result.reason or "no answer" in result.reason
    assert seen["refuted"] > 100
    assert seen["undecided"] < 5
