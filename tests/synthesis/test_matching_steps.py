"""The step kernel against its rule in words, and the time-skewed tiles."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.synthesis.tacos import tiles
from collc.synthesis.tacos.problem import CopyProblem, copy_problem
from collc.synthesis.tacos.step_table import matched_steps
from collc.synthesis.tacos.tiles import skewed_tiles
from collc.synthesis.task import Task
from collc.ten.arrays import StepTable
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
TILE_SIZES = [256, 20, 4, 1]
"""TILE of tiles.py: all devices in one tile, or several tiles even in small networks."""


def planned(problem: CopyProblem, limit: int = 1000, least: int = 1, threads: int = 1) -> StepTable | None:
    return matched_steps(problem, limit, least, threads)


def as_table(rows: list[list[int]], like: StepTable) -> StepTable:
    """Rows with -1 for none as `matched_steps` gives them."""
    found = np.array(rows).reshape(-1, like.shape[1])
    return np.where(found < 0, np.iinfo(like.dtype).max, found)


@pytest.fixture(params=TILE_SIZES)
def tile_sizes(request, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", request.param)


@pytest.mark.parametrize("net", NETS, ids=lambda net: f"{net.name}-{net.npu_count}")
def test_fifo_kernel_does_what_the_rule_says(net, tile_sizes):
    demand = all_gather(net.npus.tolist(), chunks=2)
    problem = copy_problem(task_of(net, demand))
    rows = rule_of_fifo(problem)
    for least, threads in ((1, 1), (7, 2), (100, 3)):
        steps = planned(problem, least=least, threads=threads)
        assert steps is not None
        assert np.array_equal(as_table(rows, steps), steps)
    check(net, demand, StepSchedule(LinkModel.STORE, steps, problem.step))


def rule_of_fifo(problem: CopyProblem) -> list[list[int]]:
    """The rule: a link carries the chunk that its source received first among those that its target lacks."""
    ends = list(zip(problem.network.source.tolist(), problem.network.target.tolist(), strict=True))
    queues: list[list[int]] = [[] for _ in range(problem.devices)]
    for device, chunk in zip(*(column.tolist() for column in problem.initial_copies), strict=True):
        queues[device].append(chunk)
    need: list[set[int]] = [set() for _ in queues]
    for chunk, wanting in enumerate(problem.want.tolist()):
        for device in problem.sets[wanting].tolist():
            need[device].add(chunk)
    need = [wanted - set(queue) for wanted, queue in zip(need, queues, strict=True)]
    rows: list[list[int]] = []
    while any(need):
        row = [-1] * len(ends)
        for link, (source, target) in enumerate(ends):
            row[link] = next((chunk for chunk in queues[source] if chunk in need[target]), -1)
            need[target].discard(row[link])
        for (_, target), chunk in zip(ends, row, strict=True):
            if chunk >= 0:
                queues[target].append(chunk)
        rows.append(row)
    return rows


@st.composite
def problems(draw):
    """Copies with several holders, wanted by some, on a connected network."""
    count = draw(st.integers(2, 9))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=12))
    net = network(count, [(a, (a + 1) % count) for a in range(count)] + [(a, b) for a, b in pairs if a != b])
    holders = st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True)
    rows = [(1, draw(holders), draw(holders), Op.COPY) for _ in range(draw(st.integers(1, 8)))]
    return copy_problem(task_of(net, demand_of(rows)))


@settings(max_examples=40, deadline=None)
@given(problems(), st.sampled_from(TILE_SIZES), st.integers(1, 3))
def test_kernel_does_what_the_rule_says_for_any_copies(problem, size, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE", size)
        steps = planned(problem, threads=threads)
    assert steps is not None
    assert np.array_equal(as_table(rule_of_fifo(problem), steps), steps)


def test_limit_is_kept_to_the_step():
    problem = copy_problem(task_of(grid(5, 5), all_gather(list(range(25)))))
    steps = planned(problem)
    assert steps is not None
    assert np.array_equal(planned(problem, len(steps)), steps)
    assert planned(problem, len(steps) - 1) is None


def test_asks_all_the_time_whether_to_go_on(tile_sizes):
    net = grid(12, 12)
    problem = copy_problem(task_of(net, all_gather(net.npus.tolist())))
    shares = []

    def go_on(share: float) -> bool:
        shares.append(share)
        return len(shares) < 3

    assert matched_steps(problem, 1000, 1, go_on=go_on) is None
    assert len(shares) == 3
    assert 0 == shares[0] < shares[1] < shares[2] < 1
    assert skewed_tiles(net, 1).depth <= 32


def test_numbers_beyond_16_bits():
    """Only the last chunks of a large demand are planned; the table names them as the demand does."""
    count = 65_540
    demand = demand_of([(1, [0], [1, 2], Op.COPY) for _ in range(count)])
    task = Task(ring(3), demand, LinkModel.STORE, np.arange(count - 3, count, dtype=np.int32))
    problem = copy_problem(task)
    steps = planned(problem)
    assert steps is not None
    assert steps.dtype == np.uint32
    rows = np.array(rule_of_fifo(problem))
    assert np.array_equal(np.where(rows < 0, np.iinfo(np.uint32).max, rows + count - 3), steps)


def order_of(net: Network, threads: int) -> dict[tuple[int, int], tuple[int, int]]:
    """When each (device, step) is done: (wave, tile); asserts that none is done twice."""
    skewed = skewed_tiles(net, threads)
    wave_of = {
        tile: wave for wave, parts in enumerate(skewed.waves) for low, high in parts for tile in range(low, high)
    }
    assert sorted(wave_of) == list(range((len(skewed.begin) - 1) // skewed.depth))
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for tile, step in product(sorted(wave_of), range(skewed.depth)):
        part = tile * skewed.depth + step
        for device in skewed.device[skewed.begin[part] : skewed.begin[part + 1]].tolist():
            assert (device, step) not in found
            found[device, step] = wave_of[tile], tile
    assert len(found) == skewed.depth * net.device_count
    return found


LONELY = network(40, [pair for a in range(1, 39) for pair in ((a, a + 1), (a + 1, a))])
"""A line, and device 0 without links."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "net", [*NETS, LONELY, fully_connected(9), grid(30, 40), grid(24, 24, wrap=True), grid(8, 9, 10)]
)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_tiles_do_what_a_step_needs_before_it(net, threads, tile_sizes):
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
    skewed = skewed_tiles(grid(64, 64), 2)
    assert skewed.depth == 32
    assert max(map(len, skewed.waves)) == 2
    assert len(skewed.begin) // skewed.depth > 10


@pytest.mark.slow
def test_threads_give_the_same_bytes():
    net = grid(46, 46)
    problem = copy_problem(task_of(net, all_gather(net.npus.tolist())))
    one, two = (matched_steps(problem, 5000, 1058, threads=n) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert np.array_equal(one, two)
    assert len(one) == 1058
