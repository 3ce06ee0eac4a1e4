"""All-Reduce by Z3, both phases at once; checked by collc.verification and against brute force."""

import pytest
from hypothesis import given, settings

from collc.base.diagnostics import NoSchedule
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact import exact_sums
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel
from collc.verification import verify_schedule
from tests.support import MiB, all_reduce, demand_of, dgx1, grid, network, ring
from tests.synthesis.random_problems import least_steps_of_sums
from tests.synthesis.test_bounds_property import small_sums

STEP = 20_031_250
CHORD = network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


def steps_of(net: Network, demand: Demand, most: int) -> int | None:
    """The steps of the schedule found; None if Z3 shows that none exists."""
    module = Module("m", net, demand)
    try:
        schedule = exact_sums(module, Effort(), most)
    except NoSchedule as error:
        return None if "there is none" in error.diagnostics[0].message else -1
    verdict = verify_schedule(module.with_schedule(schedule, "exact"))
    assert verdict.ok, verdict.diagnostics
    return schedule.collective_time(net, demand) // STEP


@pytest.mark.parametrize(
    ("net", "chunks", "least"),
    [(CHORD, 1, 6), (CHORD, 2, 10), (grid(3, 2), 1, 5), (ring(4), 1, 3), (ring(3, one_way=True), 1, 4)],
)
def test_least_steps(net: Network, chunks: int, least: int) -> None:
    """Along trees, the mesh of 3 x 2 and the ring of 4 take one step more."""
    demand = all_reduce(net.npus.tolist(), chunks=chunks)
    assert steps_of(net, demand, least + 1) == least
    assert steps_of(net, demand, least - 1) is None


def test_one_search_is_shorter_than_two_phases() -> None:
    module = Module("m", CHORD, all_reduce([0, 1, 2, 3], chunks=2))
    result = Invert().run(Synthesize("exact").run(module, PassContext()), PassContext())
    assert verify_schedule(result).ok
    assert result.schedule is not None
    assert result.schedule.collective_time(CHORD, result.demand) == 10 * STEP
    assert "exact: both phases at once take 10 steps, one after the other 12" in result.notes


@pytest.mark.parametrize(
    ("net", "chunks", "steps"),
    [
        *((grid(3, 2), 2, 3), (grid(4, 2), 2, 4), (dgx1(), 1, 2)),
        *((ring(4, one_way=True), 1, 3), (ring(8, one_way=True), 1, 7), (ring(8, one_way=True), 2, 8)),
    ],
)
def test_few_chunks_with_swapped_and_relayed_partials(net: Network, chunks: int, steps: int) -> None:
    """The least steps of any schedule, as a SAT solver found apart from collc; the bound says so too."""
    npus = net.npus.tolist()
    demand = demand_of([(MiB, npus, npus, Op.SUM)] * chunks)
    module = Module("m", net, demand)
    schedule = exact_sums(module, Effort(), steps)
    assert verify_schedule(module.with_schedule(schedule, "exact")).ok
    step = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    assert schedule.collective_time(net, demand) == steps * step == lower_bound(net, demand, LinkModel.STORE).time


def test_the_phases_are_kept_if_nothing_is_shorter() -> None:
    net = ring(3, one_way=True)
    result = Invert().run(
        Synthesize("exact").run(Module("m", net, all_reduce([0, 1, 2])), PassContext()), PassContext()
    )
    assert result.schedule is not None
    assert result.schedule.collective_time(net, result.demand) == 4 * STEP
    assert any("no schedule of 3 steps" in note for note in result.notes)


def test_parallel_links_carry_a_chunk_each() -> None:
    assert steps_of(dgx1(), demand_of([(MiB, [0, 1], [0, 1], Op.SUM)] * 2), 4) is not None


@settings(max_examples=20, deadline=None)
@given(small_sums())
def test_never_below_the_optimum_and_right(problem: tuple[int, list[tuple[int, int]], list, list]) -> None:
    count, links, pre, post = problem
    best = least_steps_of_sums(count, links, pre, post)
    demand = demand_of([(MiB, a, b, Op.SUM) for a, b in zip(pre, post, strict=True)])
    module = Module("m", network(count, links), demand)
    try:
        schedule = exact_sums(module, Effort(), 8)
    except NoSchedule:
        return
    assert verify_schedule(module.with_schedule(schedule, "exact")).ok
    relays = schedule.transfers.relayed is not None  # brute force does not know partials that are kept apart
    if best is not None and best > 0 and not relays:
        assert schedule.collective_time(module.network, demand) >= best * STEP
