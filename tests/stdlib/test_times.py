"""Collective times of the algorithms of the library, against formulas and against measurements with ASTRA-sim."""

from __future__ import annotations

import numpy as np
import pytest

from collc.synthesis.fixed.layout import lay_out
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Op
from collc.ten.network import LinkKind
from collc.ten.schedule import Clock, LinkModel
from tests import support
from tests.reference.evaluator import evaluate

HEAD = "import std.topologies import std.collectives import std.algorithms import std.clusters "
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
RAILS = "rail_only(3, 4, local: 300GB/s, rail: 25GB/s, local_latency: 0.35us, rail_latency: 0.85us)"
STEP = 20_031_250
"""Picoseconds of 1 MiB at 50 GiB/s with 0.5 us."""


def laid_out(topology: str, run: str) -> tuple[int, int]:
    """Collective time in picoseconds, and how often two chunks meet on a link."""
    schedule = evaluate(HEAD + f"topology t = {topology} schedule s on t {{ run {run} }}").schedules()[0]
    t, wanted = schedule.topology, schedule.runs[0]
    links = [(k.source.number, k.target.number, LinkKind(k.latency, k.bandwidth)) for k in t.links]
    network = support.network(len(t.npus), links, switches=len(t.switches))
    rows = [(c.size, c.pre, c.post, Op[c.op.upper()]) for c in wanted.chunks]
    demand = support.demand_of(rows, [c.indices for c in wanted.chunks], wanted.group)
    moves = wanted.moves or []
    columns = [np.array([getattr(m, name) for m in moves], np.int32) for name in ("chunk", "source", "target", "step")]
    table = AlgorithmSends(*columns, np.array([m.reduce for m in moves], np.bool_))
    transfers = lay_out(network, demand, 0, table, LinkModel.STORE)
    clock = Clock.of(network, demand, LinkModel.STORE)
    column, kind = clock.size_of[transfers.chunk], network.kind[transfers.link]
    end = transfers.start + clock.total[kind, column]
    free = transfers.start + clock.busy[kind, column]
    order = np.lexsort((transfers.start, transfers.link))
    link, start, until = transfers.link[order], transfers.start[order], free[order]
    met = (link[1:] == link[:-1]) & (start[1:] < until[:-1])
    return int(end.max()), int(met.sum())


@pytest.mark.parametrize(
    ("topology", "run", "steps"),
    [
        (f"ring(8, {LINK})", "all_gather(t.npus, size: 8MiB) using ring", 7),
        (f"ring(8, {LINK})", "all_gather(t.npus, size: 8MiB) using bidirectional_ring", 4),
        (f"ring(8, {LINK}, one_way: true)", "reduce_scatter(t.npus, size: 8MiB) using ring", 7),
        (f"ring(7, {LINK})", "all_reduce(t.npus, size: 7MiB) using bidirectional_ring", 6),
        (f"mesh2d(4, 2, {LINK})", "all_gather(t.npus, size: 8MiB) using ring", 28),
        (f"switched(8, {LINK})", "all_to_all(t.npus, size: 8MiB) using pairwise", 14),
        (f"switched(8, {LINK})", "all_reduce(t.npus, size: 8MiB) using recursive_halving_doubling", 28),
        (f"hypercube(3, {LINK})", "all_reduce(t.npus, size: 8MiB) using recursive_halving_doubling", 14),
        (f"fully_connected(8, {LINK})", "all_reduce(t.npus, size: 8MiB) using direct", 2),
        (f"fully_connected(8, {LINK})", "all_reduce(t.npus, size: 8MiB) using double_binary_tree", 12),
        (f"fully_connected(9, {LINK})", "broadcast(t.npus, size: 1MiB) using binomial_tree", 4),
    ],
)
def test_steps_on_networks_with_the_links_of_the_algorithm(topology: str, run: str, steps: int) -> None:
    assert laid_out(topology, run) == (steps * STEP, 0)


@pytest.mark.parametrize(
    ("topology", "run", "cycles", "steps"),
    [
        (f"ring(4, {LINK})", "all_gather(t.npus, size: 4MiB) using ring", 60_093, 3),
        (f"ring(8, {LINK})", "all_gather(t.npus, size: 8MiB) using ring", 140_217, 7),
        (f"ring(8, {LINK})", "all_gather(t.npus, size: 8MiB, chunks: 2) using bidirectional_ring", 71_855, 7),
        (f"ring(8, {LINK})", "all_reduce(t.npus, size: 1MiB) using ring", 41_174, 14),
        (f"fully_connected(8, {LINK})", "all_gather(t.npus, size: 8MiB) using direct", 20_031, 1),
    ],
)
def test_times_agree_with_astra_sim(topology: str, run: str, cycles: int, steps: int) -> None:
    """The congestion-aware backend of ASTRA-sim truncates the time of each step to whole nanoseconds."""
    time, met = laid_out(topology, run)
    assert met == 0
    assert cycles <= time / 1000 < cycles + steps


def test_multi_rail_time_is_the_sum_over_dimensions() -> None:
    """Per phase 9 blocks of 1 MiB over two links of 300 GB/s each, then 2 over two links of 25 GB/s."""
    block = 2**20
    inside = 2 * (350_000 + -(-block * 10**12 // (300 * 10**9)))
    across = 2 * (850_000 + -(-block * 10**12 // (25 * 10**9)))
    found = laid_out(RAILS, "all_reduce(t.npus, size: 12MiB) using hierarchical(shape: [4, 3])")
    assert found == (2 * (9 * inside + 2 * across), 0)


def test_two_trees_congest_on_one_switch() -> None:
    """The comment in the library states this."""
    assert laid_out(f"switched(8, {LINK})", "all_reduce(t.npus, size: 8MiB) using double_binary_tree")[1] > 0
