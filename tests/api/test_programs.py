"""Programs that are built in Python: their text is `.coll`, and means what the arguments say."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import collc
from collc.base.diagnostics import SourceError

LINK = {"bandwidth": "50GiB/s", "latency": "0.5us"}


def test_a_program_equals_its_text() -> None:
    program = collc.all_gather(collc.Network.mesh(3, 3, **LINK), size="9MiB")
    built = program.compile(seed=7, synthesizer="tacos")["schedule"]
    text = collc.compile_text(str(program), seed=7, synthesizer="tacos")["schedule"]
    assert built.time_ps == text.time_ps == 80_125_000
    assert np.array_equal(built.transfers(), text.transfers())


def test_numbers_and_text_give_equal_networks() -> None:
    text = collc.Network.of("ring", 4, bandwidth="50GB/s", latency="0.5us").elaborate()
    numbers = collc.Network.of("ring", 4, bandwidth=50e9, latency=np.float64(5e-7)).elaborate()
    assert [text.link_name(n) for n in range(8)] == [numbers.link_name(n) for n in range(8)]
    assert text.kinds == numbers.kinds
    assert (text.kinds[0].latency, text.kinds[0].bandwidth) == (500_000, 50 * 10**9)


def test_a_graph_keeps_its_edges() -> None:
    graph = nx.Graph()
    graph.add_nodes_from([1, "1", "hub"])
    graph.nodes["hub"]["switch"] = True
    graph.add_edge(1, "hub", bandwidth="25GB/s")
    graph.add_edge("1", "hub", latency="2us")
    network = collc.Network.from_networkx(graph, bandwidth="50GB/s", latency="1us").elaborate()
    assert (len(network.npus), network.device_count, network.link_count) == (2, 3, 4)
    assert {(int(s), int(t)) for s, t in zip(network.source, network.target, strict=True)} == {
        (0, 2), (2, 0), (1, 2), (2, 1),
    }  # fmt: skip


def test_a_directed_multigraph_keeps_parallel_edges() -> None:
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    assert collc.Network.from_networkx(graph, **LINK).elaborate().link_count == 3


def test_wrong_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="node 2 has an edge to itself"):
        collc.Network.from_networkx(nx.Graph([(2, 2)]), **LINK)
    with pytest.raises(ValueError, match="edge 0 - 1 has no latency"):
        collc.Network.from_networkx(nx.Graph([(0, 1)]), bandwidth="1GB/s")
    with pytest.raises(ValueError, match="link 0 -> 5"):
        collc.Network.from_links([(0, 5)], 3, **LINK)
    with pytest.raises(ValueError, match="latency has 1 values for 2 links"):
        collc.Network.from_links([(0, 1), (1, 0)], 2, bandwidth="1GB/s", latency=["1us"])


def test_products_and_failures() -> None:
    ring = collc.Network.from_links([(0, 1), (1, 2), (2, 0)], 3, **LINK)
    product = ring * collc.Network.of("fully_connected", 2, **LINK)
    assert product.elaborate().link_count == 2 * 3 + 3 * 2
    assert product.without_parts("npu 5").elaborate().present.sum() == 5


def test_a_demand_of_ones_own() -> None:
    demand = collc.Demand().chunk("1MiB", pre=0, post=[1, 2]).chunk(100, pre=[0, 1], post=2, reduce="max")
    program = collc.Program(collc.Network.mesh(2, 2, **LINK)).run(demand, npus=[3, 1, 0]).run(demand)
    assert str(program).count("collective demand0") == 1
    report = program.compile()
    assert report.ok
    runs = report["schedule"].module.demand.runs
    assert [len(run.pattern) for run in runs] == [2, 2]


def test_statements_and_files(tmp_path: Path) -> None:
    program = collc.broadcast(collc.Network.torus(2, 2, **LINK), size="1MiB", root=2, using=None)
    program = program.with_statement('emit ten("b.ten")')
    program.save(tmp_path / "b.coll")
    assert collc.compile(tmp_path / "b.coll", output=tmp_path).ok
    assert (tmp_path / "b.ten").exists()


def test_string_options_are_quoted() -> None:
    program = collc.all_reduce(collc.Network.of("ring", 3, **LINK), size="3KiB", op="max")
    assert 'op: "max"' in str(program)
    assert program.compile().ok


def test_unknown_names_are_errors_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'dgx_h100'"):
        collc.Network.of("dgx_h10")
    with pytest.raises(TypeError, match="did you mean 'bandwidth'"):
        collc.Network.of("ring", 3, bandwith="1GB/s")
    with pytest.raises(TypeError, match="at most 4 arguments"):
        collc.Network.of("ring", 3, "1GB/s", "1us", True, 5)
    mesh = collc.Network.mesh(2, 2, **LINK)
    with pytest.raises(TypeError, match="did you mean 'size'"):
        collc.all_gather(mesh, siez="1MiB")
    with pytest.raises(ValueError, match="did you mean 'all_gather'"):
        collc.Program(mesh).run("all_gahter")
    with pytest.raises(ValueError, match="not the name of an algorithm"):
        collc.all_gather(mesh, size="1MiB", using="ring }")
    with pytest.raises(TypeError, match="an int, float, bool or str"):
        collc.all_gather(mesh, size=object())
    with pytest.raises(SourceError):
        collc.Network.of("ring", 3, bandwidth="1 banana", latency="1us").elaborate()
