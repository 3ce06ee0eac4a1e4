"""The compiled matching in steps, against plain Python; and the sweeps that it goes through a network in."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.synthesis.tacos import sweeps as matching_sweeps
from collc.synthesis.tacos.grid import Grid, grid_steps
from collc.synthesis.tacos.problem import CopyProblem, copy_problem
from collc.synthesis.tacos.steps import fifo_steps
from collc.synthesis.tacos.sweeps import sweep_of
from collc.synthesis.task import Task
from collc.ten.demand import Op
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, StepSchedule
from tests.support import (
    DEFAULT,
    all_gather,
    demand_of,
    dgx1,
    dragonfly,
    fully_connected,
    grid,
    hypercube,
    network,
    ring,
)
from tests.synthesis.cases import task_of
from tests.synthesis.checker import check

NETS = [
    grid(4, 4),
    grid(9, 5),
    grid(3, 3, wrap=True),
    grid(3, 3, 3),
    dgx1(),
    dragonfly(4, 3, DEFAULT, DEFAULT),
    ring(20),
    hypercube(4),
]
WAYS = [(2000, 128), (1, 20), (1, 4), (1, 1)]
"""SMALL and TILE of matching_sweeps: all devices in one tile, or several tiles even in small networks."""


def planned(problem: CopyProblem, window: int = 0, limit: int = 1000, threads: int = 1) -> Grid | None:
    return grid_steps(problem, limit, 1, window, threads, lambda _share: True)


def as_grid(rows: list[list[int]] | None, like: Grid) -> Grid:
    """What fifo_steps gives, -1 for none, as grid_steps gives it."""
    found = np.array(rows)
    return np.where(found < 0, np.iinfo(like.dtype).max, found)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    monkeypatch.setattr(matching_sweeps, "SMALL", request.param[0])
    monkeypatch.setattr(matching_sweeps, "TILE", request.param[1])


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.npu_count}")
def test_fifo_kernel_does_what_plain_python_does(net, way):
    demand = all_gather(net.npus.tolist(), chunks=2)
    problem = copy_problem(task_of(net, demand))
    rows = fifo_steps(problem, 1000)
    for threads in (1, 2, 3):
        steps = planned(problem, threads=threads)
        assert steps is not None
        assert np.array_equal(as_grid(rows, steps), steps)
    check(net, demand, StepSchedule(LinkModel.STORE, steps, problem.step))


def rule_of_fewest(problem: CopyProblem, window: int) -> list[list[int]]:
    """The rule in words: of the first `window` open chunks of its source a link takes what the fewest could bring."""
    starts, ends = problem.network.source.tolist(), problem.network.target.tolist()
    have, need = problem.bits()
    queues = [[c for c in range(problem.count) if bits >> c & 1] for bits in have]
    rows = []
    while any(need):
        row, news = [-1] * len(starts), []
        for link, (source, target) in enumerate(zip(starts, ends, strict=True)):
            wanted = [c for c in queues[source] if need[target] >> c & 1][:window]
            sources = [starts[k] for k, end in enumerate(ends) if end == target]
            alternatives = [sum(have[u] >> c & 1 for u in sources) for c in wanted]
            if wanted:
                row[link] = wanted[alternatives.index(min(alternatives))]
                need[target] ^= 1 << row[link]
                news.append((target, row[link]))
        for target, chunk in news:
            have[target] |= 1 << chunk
            queues[target].append(chunk)
        rows.append(row)
    return rows


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.npu_count}")
@pytest.mark.parametrize("window", [1, 4, 100])
def test_kernel_of_fewest_alternatives_does_what_the_rule_says(net, window):
    problem = copy_problem(task_of(net, all_gather(net.npus.tolist())))
    steps = planned(problem, window)
    assert steps is not None
    assert np.array_equal(as_grid(rule_of_fewest(problem, window), steps), steps)


@st.composite
def problems(draw):
    """Copies with several holders, wanted by some, on a connected network."""
    count = draw(st.integers(2, 9))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=12))
    net = network(count, [(a, (a + 1) % count) for a in range(count)] + [(a, b) for a, b in pairs if a != b])
    holders = st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True)
    rows = [(1, draw(holders), draw(holders), Op.COPY) for _ in range(draw(st.integers(1, 8)))]
    return copy_problem(task_of(net, demand_of(rows)))


@settings(max_examples=100, deadline=None)
@given(problems(), st.sampled_from(WAYS), st.integers(1, 3))
def test_kernels_do_what_plain_python_does_for_any_copies(problem, sizes, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching_sweeps, "SMALL", sizes[0])
        patch.setattr(matching_sweeps, "TILE", sizes[1])
        steps, fewest = planned(problem, threads=threads), planned(problem, 4)
    rows = fifo_steps(problem, 1000)
    assert rows is not None
    assert steps is not None
    assert fewest is not None
    assert len(rows) == len(steps)
    if rows:
        assert np.array_equal(as_grid(rows, steps), steps)
        assert np.array_equal(as_grid(rule_of_fewest(problem, 4), fewest), fewest)


@pytest.mark.parametrize("window", [0, 4])
def test_limit_is_kept_to_the_step(window):
    problem = copy_problem(task_of(grid(5, 5), all_gather(list(range(25)))))
    steps = planned(problem, window)
    assert steps is not None
    assert np.array_equal(planned(problem, window, len(steps)), steps)
    assert planned(problem, window, len(steps) - 1) is None


@pytest.mark.parametrize("window", [0, 4])
def test_asks_all_the_time_whether_to_go_on(window, way):
    net = grid(12, 12)
    problem = copy_problem(task_of(net, all_gather(net.npus.tolist())))
    shares = []

    def go_on(share: float) -> bool:
        shares.append(share)
        return len(shares) < 3

    assert grid_steps(problem, 1000, 1, window, 1, go_on) is None
    assert len(shares) == 3
    assert 0 == shares[0] < shares[1] < shares[2] < 1
    assert sweep_of(net, 1).depth <= 32


def test_numbers_beyond_16_bits():
    """Only the last chunks of a large demand are planned; the grid names them as the demand does."""
    count = 65_540
    demand = demand_of([(1, [0], [1, 2], Op.COPY) for _ in range(count)])
    task = Task(ring(3), demand, LinkModel.STORE, np.arange(count - 3, count, dtype=np.int32))
    problem = copy_problem(task)
    steps = planned(problem)
    assert steps is not None
    assert steps.dtype == np.uint32
    rows = np.array(fifo_steps(problem, 10))
    assert np.array_equal(np.where(rows < 0, np.iinfo(np.uint32).max, rows + count - 3), steps)


def order_of(net: Network, threads: int) -> dict[tuple[int, int], tuple[int, int]]:
    """When each (device, step) is done: (wave, tile); asserts that none is done twice."""
    sweep = sweep_of(net, threads)
    wave_of = {tile: wave for wave, parts in enumerate(sweep.waves) for low, high in parts for tile in range(low, high)}
    assert sorted(wave_of) == list(range((len(sweep.begin) - 1) // sweep.depth))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for tile, step in product(sorted(wave_of), range(sweep.depth)):
        part = tile * sweep.depth + step
        for device in sweep.device[sweep.begin[part] : sweep.begin[part + 1]].tolist():
            assert (device, step) not in found
            found[device, step] = wave_of[tile], tile
    assert len(found) == sweep.depth * net.device_count
    return found


LONELY = network(40, [pair for a in range(1, 39) for pair in ((a, a + 1), (a + 1, a))])
"""A line, and device 0 without links."""


@pytest.mark.parametrize(
    "net", [*NETS, LONELY, fully_connected(9), grid(30, 40), grid(24, 24, wrap=True), grid(8, 9, 10)]
)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_sweep_does_what_a_step_needs_before_it(net, threads, way):
    """In an earlier wave, or in the same tile, where lower steps come first."""
    done = order_of(net, threads)
    before = [[] for _ in range(net.device_count)]
    for source, target in zip(net.source.tolist(), net.target.tolist(), strict=True):
        before[target].append(source)
    for (device, step), (wave, tile) in done.items():
        for source in [*before[device], device] if step else ():
            earlier, there = done[source, step - 1]
            assert earlier < wave or there == tile


def test_large_mesh_is_cut_into_tiles_for_both_threads():
    sweep = sweep_of(grid(64, 64), 2)
    assert sweep.depth == 32
    assert max(map(len, sweep.waves)) == 2
    assert len(sweep.begin) // sweep.depth > 10


@pytest.mark.slow
def test_threads_give_the_same_bytes():
    net = grid(46, 46)
    problem = copy_problem(task_of(net, all_gather(net.npus.tolist())))
    one, two = (grid_steps(problem, 5000, 1058, 0, threads, lambda _share: True) for threads in (1, 2))
    assert one is not None
    assert two is not None
    assert np.array_equal(one, two)
    assert len(one) == 1058
