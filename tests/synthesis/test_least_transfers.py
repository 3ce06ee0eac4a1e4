"""The least number of transfers by hops, against the shortest paths that NetworkX finds."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Settings
from collc.base.diagnostics import SourceFile
from collc.graph.digraph import Digraph
from collc.source.elaboration.elaborate import load_program
from collc.synthesis.least_transfers import _hops_to, least_transfers
from tests.support import grid

MESH = "topology t = mesh2d(5, 4, bandwidth: 1GB/s, latency: 1us)"
PAIR = "collective pair(g) { chunk x: 1B pre x at g[3] post x at g[7] }"


@pytest.mark.parametrize(
    ("run", "pairs"),
    [
        ("all_to_all(t.npus, size: 40B, chunks: 2)", {(a, b): 2 for a in range(20) for b in range(20)}),
        ("all_to_all([t[0], t[19], t[7]], size: 3B)", {(a, b): 1 for a in (0, 7, 19) for b in (0, 7, 19)}),
        ("gather(t.npus, size: 20B, root: 6)", {(a, 6): 1 for a in range(20)}),
        ("scatter(t.npus, size: 20B, root: 6)", {(6, b): 1 for b in range(20)}),
        ("pair(t.npus)", {(3, 7): 1}),
    ],
)
def test_chunks_for_one_npu_cross_each_link_of_a_shortest_path(run: str, pairs: dict[tuple[int, int], int]) -> None:
    text = f"import std.topologies import std.collectives {MESH} {PAIR} schedule s on t {{ run {run} }}"
    (schedule,) = load_program(SourceFile("p.coll", text)).schedules
    graph = nx.grid_2d_graph(4, 5)
    hops = {pair: nx.shortest_path_length(graph, *(divmod(end, 5) for end in pair)) for pair in pairs}
    total = sum(hops[pair] * count for pair, count in pairs.items())
    assert least_transfers(schedule.network, schedule.demand, total - 1) == total


def test_hops_to_few_roots_and_to_many() -> None:
    graph = Digraph.of(grid(8, 9))
    few, many = np.array([40], np.int32), np.arange(72, dtype=np.int32)
    assert np.array_equal(_hops_to(graph, few), _hops_to(graph, many)[few])
    one_way = Digraph(3, np.array([0], np.int32), np.array([1], np.int32))
    assert _hops_to(one_way, many[:2]).tolist() == [[0, -1, -1], [1, 0, -1]]


@pytest.mark.parametrize("run", ["all_to_all(t.npus, size: 36864B)", "all_reduce(t.npus, size: 442368B, chunks: 12)"])
def test_what_no_search_lists_is_refused_at_once(tmp_path: Path, run: str) -> None:
    text = "import std.topologies import std.collectives topology t = mesh2d(48, 48, bandwidth: 1GB/s, latency: 1us)"
    source = SourceFile("p.coll", f"{text} schedule s on t {{ run {run} synthesize auto() }}")
    (report,) = compile_program(source, Settings(output=tmp_path)).schedules
    (message,) = report.diagnostics
    assert (report.exit, message.code, message.span is None) == (1, "S0203", False)
    assert "more than the limit of 96,000,000" in message.message
