"""All-Reduce by Z3, both phases at once; checked by collc.verification and against brute force."""

import pytest
from hypothesis import given, settings

from collc.base.diagnostics import NoSchedule
from collc.passes.context import PassContext
from collc.passes.registry import Invert
from collc.passes.synthesize import Synthesize
from collc.synthesis.exact import exact_sums
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.verification import verify_schedule
from tests.support import MiB, all_reduce, demand_of, dgx1, grid, network, ring
from tests.synthesis.random_problems import least_steps_of_sums
from tests.synthesis.test_bounds_property import small_sums

STEP = 20_031_250
CHORD = network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


def steps_of(net: Network, demand: Demand, most: int) -> int | None:
    """The steps of the schedule found; None if Z3 shows that no schedule along trees exists."""
    module = Module("m", net, demand)
    try:
        schedule = exact_sums(module, Effort(), most)
    except NoSchedule as error:
        return None if "none along trees" in error.diagnostics[0].message else -1
    verdict = verify_schedule(module.with_schedule(schedule, "exact"))
    assert verdict.ok, verdict.diagnostics
    return schedule.collective_time(net, demand) // STEP


@pytest.mark.parametrize(
    ("net", "chunks", "least"),
    [(CHORD, 1, 6), (CHORD, 2, 10), (grid(3, 2), 1, 6), (ring(4), 1, 4), (ring(3, one_way=True), 1, 4)],
)
def test_least_steps_along_trees(net: Network, chunks: int, least: int) -> None:
    """The mesh of 3 x 2 has a bound of 5, but no schedule of 5 steps along trees."""
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


def test_the_phases_are_kept_if_nothing_is_shorter() -> None:
    result = Invert().run(
        Synthesize("exact").run(Module("m", ring(4), all_reduce([0, 1, 2, 3])), PassContext()), PassContext()
    )
    assert result.schedule is not None
    assert result.schedule.collective_time(ring(4), result.demand) == 4 * STEP
    assert any("none along trees" in note for note in result.notes)


def test_parallel_links_carry_a_chunk_each() -> None:
    assert steps_of(dgx1(), demand_of([(MiB, [0, 1], [0, 1], Op.SUM)] * 2), 4) is not None


@settings(max_examples=40, deadline=None)
@given(small_sums())
def test_never_below_the_optimum_and_right(problem: tuple[int, list[tuple[int, int]], list, list]) -> None:
    count, links, pre, post = problem
    best = least_steps_of_sums(count, links, pre, post)
    demand = demand_of([(MiB, a, b, Op.SUM) for a, b in zip(pre, post, strict=True)])
    found = steps_of(network(count, links), demand, 8)
    if best is not None and found is not None and best > 0:
        assert found >= best
