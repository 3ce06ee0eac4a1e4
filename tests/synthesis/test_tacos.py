"""Link-chunk matching: known optima, the acceptance numbers of the public TACOS, and properties of all schedules."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import NoSchedule, SourceError
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.tacos import events, synthesizer, tacos
from collc.synthesis.tacos.events import EventMatching, EventRule, cost_levels_of
from collc.synthesis.tacos.problem import copy_problem
from collc.synthesis.task import Effort, WorkMeter
from collc.ten.demand import Op
from collc.ten.schedule import LinkModel, StepSchedule, Transfers
from tests.support import (
    GiB,
    MiB,
    all_gather,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    dragonfly,
    fully_connected,
    grid,
    hypercube,
    network,
    ring,
    switched,
)
from tests.synthesis.cases import kind, ring_fc_switch, task_of, unequal_mesh
from tests.synthesis.checker import check

HALF, ONE = Fraction(1, 2), Fraction(1)
STEP = 20_031_250

OPTIMA = [
    (ring(4), 2, 3),
    (ring(8), 1, 4),
    (grid(2, 2), 2, 3),
    (grid(3, 3), 1, 4),
    (grid(4, 4), 1, 8),
    (grid(3, 3, wrap=True), 1, 2),
    (hypercube(3), 3, 7),
    (dgx1(), 2, 3),
    (dgx1(), 6, 7),
    (fully_connected(4), 1, 1),
    (ring(4, one_way=True), 1, 3),
    (network(3, [(0, 1), (0, 2), (1, 2), (2, 0)]), 1, 2),
]


@pytest.mark.parametrize(("net", "chunks", "steps"), OPTIMA)
def test_optimum_by_smt_is_reached(net, chunks, steps):
    demand = all_gather(net.npus.tolist(), chunks=chunks)
    schedule = tacos(task_of(net, demand), Effort())
    assert isinstance(schedule, StepSchedule)
    assert len(schedule.chunk) == steps
    assert check(net, demand, schedule) == steps * schedule.step


PUBLIC = [
    (grid(5, 5, kind=kind(50, HALF)), 1, 1, 9606.00),
    (grid(10, 10, kind=kind(100, ONE)), 2, 1, 5049.00),
    (grid(7, 12, kind=kind(100, ONE)), 3, 4, 19966.27),
    (grid(3, 3, 3, kind=kind(50, HALF)), 1, 1, 6671.17),
    (grid(3, 4, 5, kind=kind(50, HALF)), 2, 2, 13353.33),
    (grid(3, 3, 3, kind=kind(50, HALF), wrap=True), 1, 1, 3706.20),
    (unequal_mesh(5, 5, kind(50, HALF), kind(75, HALF)), 1, 1, 8005.00),
    (unequal_mesh(8, 5, kind(80, ONE), kind(35, ONE)), 2, 1, 8595.43),
    (unequal_mesh(5, 8, kind(80, ONE), kind(35, ONE)), 2, 1, 8595.43),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("net", "chunks", "gib", "microseconds"), PUBLIC)
def test_acceptance_numbers_of_public_tacos(net, chunks, gib, microseconds):
    size = math.ceil(Fraction(gib * GiB, len(net.npus) * chunks))
    demand = all_gather(net.npus.tolist(), size, chunks)
    schedule = tacos(task_of(net, demand), Effort())
    time = check(net, demand, schedule)
    assert time == pytest.approx(microseconds * 1e6, rel=1e-5)
    assert time == lower_bound(net, demand, LinkModel.STORE).time


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("pods", "ratio"), [(4, 1.26), (8, 1.13), (16, 1.06)])
def test_component_rule_on_ring_fc_switch(pods, ratio):
    """Against the cut bound: all slow links always busy, and one fast hop for what comes last."""
    net = ring_fc_switch(pods, [kind(200, HALF), kind(100, HALF), kind(50, HALF)])
    demand = all_gather(net.npus.tolist())
    cut = (pods - 1) * STEP + 5_382_813
    bound = lower_bound(net, demand, LinkModel.STORE)
    time = check(net, demand, tacos(task_of(net, demand), Effort()))
    assert bound.time >= cut
    assert bound.time <= time <= ratio * cut


@pytest.mark.parametrize(("groups", "size"), [(5, 4), (9, 8)])
def test_dragonfly_meets_the_cut_bound(groups, size):
    net = dragonfly(groups, size, kind(400, HALF), kind(200, HALF))
    demand = all_gather(net.npus.tolist())
    bound = lower_bound(net, demand, LinkModel.STORE)
    assert bound.name.startswith("the links into npu[")
    assert check(net, demand, tacos(task_of(net, demand), Effort())) == bound.time


def test_same_seed_same_bytes():
    net = dgx1()
    task = task_of(net, all_gather(net.npus.tolist(), chunks=5))
    first, second = (tacos(task, Effort(seed=3, trials=4, bound=lambda: 1)).transfers for _ in range(2))
    assert np.array_equal(first.chunk, second.chunk)
    assert np.array_equal(first.link, second.link)


def test_group_uses_links_of_others():
    net = grid(3, 3)
    demand = all_gather([0, 8, 2])
    check(net, demand, tacos(task_of(net, demand), Effort()))


def test_reserved_links_are_left_alone_and_releases_kept():
    net = ring(4)
    demand = all_gather([0, 1, 2, 3])
    taken = Transfers.of(np.array([0, 2]), np.array([0, 0]), np.array([5, 60_000_000]))
    release = np.array([0, 30_000_000, 0, 0])
    schedule = tacos(replace(task_of(net, demand), reserved=taken, release=release), Effort())
    check(net, demand, schedule)
    rows = schedule.transfers
    for start in rows.start[rows.link == 0].tolist():
        assert all(start + STEP <= low or start >= low + STEP for low in (5, 60_000_000))
    assert rows.start[rows.chunk == 1].min() >= 30_000_000


def test_pipelined_is_never_longer_than_stored():
    net = ring_fc_switch(4, [kind(200, HALF), kind(100, HALF), kind(50, HALF)])
    demand = all_gather(net.npus.tolist())
    times = [check(net, demand, tacos(task_of(net, demand, model), Effort())) for model in LinkModel]
    assert times[1] <= times[0]


def test_small_chunks_pipeline():
    """8x8 mesh, 1 KiB: latency dominates, and the path bound is met."""
    net = grid(8, 8)
    demand = all_gather(net.npus.tolist(), 1024)
    task = task_of(net, demand, LinkModel.PIPELINED)
    assert check(net, demand, tacos(task, Effort())) == task_bound(task).time


def test_unreachable_chunk_is_named():
    net = network(3, [(0, 1), (1, 0)])
    with pytest.raises(SourceError, match=r"npu\[2\]"):
        tacos(task_of(net, all_gather([0, 1, 2])), Effort())


def test_switches_are_refused():
    with pytest.raises(SourceError, match="switches"):
        tacos(task_of(switched(4), all_gather([0, 1, 2, 3])), Effort())


def test_stop_before_anything():
    net = ring(4)
    with pytest.raises(NoSchedule):
        tacos(task_of(net, all_gather([0, 1, 2, 3])), Effort(stop=lambda: True))


def polled(times: int):
    """A `stop` that returns True after `times` calls."""
    left = iter(range(times))
    return lambda: next(left, None) is None


def test_stop_within_the_first_attempt_of_a_large_problem():
    net = grid(12, 12)
    with pytest.raises(NoSchedule):
        tacos(task_of(net, all_gather(net.npus.tolist())), Effort(stop=polled(3)))


@pytest.mark.slow
def test_stop_within_a_later_attempt_keeps_the_best_so_far():
    """A bound of 1 is never met, so all attempts are made: the first asks at its start and at each of its 36 steps."""
    net = grid(12, 12, wrap=True)
    task = task_of(net, all_gather(net.npus.tolist()))
    first = tacos(task, Effort(stop=polled(39), bound=lambda: 1))
    best = tacos(task, Effort(bound=lambda: 1))
    assert isinstance(first, StepSchedule)
    assert isinstance(best, StepSchedule)
    assert len(best.chunk) <= len(first.chunk) <= 37
    check(net, all_gather(net.npus.tolist()), first)


@st.composite
def problems(draw):
    """A strongly connected network with links of several kinds, and copies of several sizes."""
    count = draw(st.integers(2, 6))
    kinds = [kind(50, HALF), kind(10, ONE), kind(200, HALF)]
    extra = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.sampled_from(kinds)), max_size=8)
    )
    links = [(a, (a + 1) % count, draw(st.sampled_from(kinds))) for a in range(count)]
    net = network(count, links + [(a, b, k) for a, b, k in extra if a != b])
    holders = st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True)
    rows = [
        (draw(st.sampled_from([1, MiB, 3 * MiB])), draw(holders), draw(holders), Op.COPY)
        for _ in range(draw(st.integers(1, 5)))
    ]
    return net, demand_of(rows)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(LinkModel))
def test_any_copies_are_right_and_no_better_than_the_bound(problem, model):
    net, demand = problem
    time = check(net, demand, tacos(task_of(net, demand, model), Effort()))
    assert lower_bound(net, demand, model).time <= time


@pytest.mark.parametrize("make", [all_to_all, broadcast])
def test_sparse_demands_work_too(make):
    net = grid(3, 3)
    demand = make(net.npus.tolist())
    check(net, demand, tacos(task_of(net, demand), Effort()))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    problems(),
    st.sampled_from(LinkModel),
    st.booleans(),
    st.sampled_from([0, 10**8, 10**10]),
    st.sampled_from([None, 1, 2]),
    st.booleans(),
    st.sampled_from([0, 1, 1 << 17]),
)
def test_same_kernels_compiled_match_the_same(problem, model, fifo, deadline, seed, busy, some):
    net, demand = problem
    task = task_of(net, demand, model)
    if busy:
        taken = Transfers.of(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.array([0, 10**7]))
        release = np.arange(len(demand.chunks)) * 10**7
        task = replace(task, reserved=taken, release=release)
    problem = copy_problem(task)
    rule = EventRule(fifo, deadline, seed)
    on_lists, on_arrays = (EventMatching(problem, cost_levels_of(problem), compile_it) for compile_it in (False, True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "BATCH", some)
        plain, compiled = on_lists.transfers(rule), on_arrays.transfers(rule)
    assert plain is not None
    assert compiled is not None
    assert plain.end == compiled.end
    for a, b in ((plain.chunk, compiled.chunk), (plain.link, compiled.link), (plain.start, compiled.start)):
        assert np.array_equal(a, b)
    if plain.end:
        assert on_lists.transfers(rule, plain.end - 1) is None
        assert on_arrays.transfers(rule, plain.end - 1) is None


@pytest.mark.slow
def test_stop_within_an_attempt_where_times_differ(monkeypatch):
    monkeypatch.setattr(events, "BATCH", 100)
    net = ring_fc_switch(17, [kind(200, HALF), kind(100, HALF), kind(50, HALF)])
    task = task_of(net, all_gather(net.npus.tolist()))
    shares = []
    with pytest.raises(NoSchedule):
        tacos(task, Effort(stop=polled(6), progress=lambda share, _words: shares.append(share)))
    assert len(shares) == 6  # one question is before the attempt, one in it after the last yes
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 0.5


@pytest.mark.slow
def test_large_networks_take_the_compiled_events():
    """1.01 x the cut bound needs 128 pods (benchmarks/synthesis.py); 24 need one slow step more than the cut."""
    net = ring_fc_switch(24, [kind(200, HALF), kind(100, HALF), kind(50, HALF)])
    demand = all_gather(net.npus.tolist())
    time = check(net, demand, tacos(task_of(net, demand), Effort()))
    assert lower_bound(net, demand, LinkModel.STORE).time <= time <= 1.05 * (23 * STEP + 5_382_813)


@pytest.mark.slow
@pytest.mark.parametrize("net", [unequal_mesh(3, 4, kind(50, HALF), kind(75, ONE)), ring(6)], ids=["unlike", "alike"])
def test_many_transfers_are_matched_by_compiled_kernels_to_the_same_bytes(monkeypatch, net):
    """On small networks too: 516,000 transfers on 64 NPUs take 20 s in plain Python, and 1.5 s compiled."""
    asked: list[bool] = []

    def watched(problem, levels, compile_it):
        asked.append(compile_it)
        return EventMatching(problem, levels, compile_it)

    monkeypatch.setattr(synthesizer, "EventMatching", watched)
    task = task_of(net, all_gather(net.npus.tolist(), chunks=3))
    plain = tacos(task, Effort()).transfers
    assert not any(asked)
    asked.clear()
    monkeypatch.setattr(synthesizer, "is_long", lambda _work: True)
    compiled = tacos(task, Effort()).transfers
    assert asked
    assert all(asked)
    for column in ("chunk", "link", "start"):
        assert np.array_equal(getattr(plain, column), getattr(compiled, column))


def test_work_counts_the_links_that_are_looked_at() -> None:
    """In a clique with equal links each NPU is looked at once, with its 39 links, each of which brings a chunk."""
    net = fully_connected(40)
    task = task_of(net, all_gather(list(range(40))))
    seen: list[tuple[float, int]] = []

    def note(share: float, looks: int) -> bool:
        seen.append((share, looks))
        return True

    problem = copy_problem(task)
    matching = EventMatching(problem, cost_levels_of(problem), compile_it=False)
    assert matching.transfers(EventRule(fifo=True, deadline=0), None, note) is not None
    assert seen == [(1.0, 40 * 39)]
    meter = WorkMeter(1)
    tacos(task, Effort(work=meter))
    assert meter.spent - meter.setup <= 40 * 39 * 6  # half of all links for each chunk would be four times as much
