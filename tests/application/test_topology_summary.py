"""`collc topology`: numbers that a person can check by hand."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import networkx as nx
import pytest

import collc
from collc.application.topology.topology_summary import _cut_between, _halves, summarize, summary_of
from collc.base.diagnostics import SourceError
from collc.command.cli import main
from tests.cpu_time import at_most
from tests.synthesis.random_problems import random_network

PROGRAM = """
import std.topologies
import std.clusters
topology pod = dgx_h100(4)
topology mesh = mesh2d(4, 4, bandwidth: 50GB/s, latency: 0.5us)
topology hurt = dgx_h100(2) without { npu 3 }
topology apart { npu p[2] switch s link p[0] <-> s (bandwidth: 1GB/s, latency: 1us) }
topology shape = ring(4)
topology fed = limited(mesh, memory: 90GB/s, eject: 180GB/s)
"""


@pytest.fixture
def summary(tmp_path):
    (tmp_path / "p.coll").write_text(PROGRAM)
    return lambda name: summarize(f"{tmp_path / 'p.coll'}:{name}", {})


def test_limits_of_npus(summary):
    """A corner sends over 2 links of 50 GB/s, an NPU in the middle over 4; memory of 90 GB/s feeds 60."""
    found = summary("fed")
    assert list(found.tables()[0].rows) == [
        ("npu[*]", "16", "NPU", "2 .. 4", "60GB/s", "100GB/s .. 180GB/s"),
    ]
    assert dict(found.facts)["limits of NPUs"] == "eject 180GB/s, memory 90GB/s (baseline): 16 of 16"


def test_one_hop_is_not_said_as_several(tmp_path):
    text = "import std.topologies\ntopology t = fully_connected(3, bandwidth: 50GB/s, latency: 1us)\n"
    (tmp_path / "p.coll").write_text(text)
    assert dict(summarize(f"{tmp_path / 'p.coll'}:t", {}).facts)["diameter"] == "1 hop, 1us of latency"


def test_four_nodes_of_h100(summary):
    found = summary("pod")
    assert list(found.tables()[0].rows) == [
        ("gpu[*]", "32", "NPU", "2", "500GB/s", "500GB/s"),
        ("nvswitch[*]", "4", "switch", "8", "3.6TB/s", "3.6TB/s"),
        ("leaf[*]", "8", "switch", "5", "400GB/s", "400GB/s"),
        ("spine", "1", "switch", "8", "1.6TB/s", "1.6TB/s"),
    ]
    assert list(found.tables()[1].rows) == [
        ("gpu[*] <-> nvswitch[*]", "32", "450GB/s", "350ns"),
        ("gpu[*] <-> leaf[*]", "32", "50GB/s", "850ns"),
        ("leaf[*] <-> spine", "8", "200GB/s", "300ns"),
    ]
    facts = dict(found.facts)
    assert facts["symmetry"] == "32 translations (4 x 8); all NPUs are alike"
    assert facts["diameter"] == "4 hops, 2.3us of latency"
    assert facts["bisection"] == "at most 800GB/s from half of the NPUs to the others"
    assert [row.limit for row in found.limits] == [
        "the links into gpu[0, 0]",
        "the links between all NPUs",
        "the NICs of node 0",
    ]
    assert found.as_json()["diameter_ps"] == 2_300_000


def test_a_mesh_and_a_damaged_cluster(summary):
    found = summary("mesh")
    assert dict(found.facts)["bisection"] == "at most 200GB/s from half of the NPUs to the others"
    assert found.tables()[0].rows[0] == ("npu[*]", "16", "NPU", "2 .. 4", "100GB/s .. 200GB/s", "100GB/s .. 200GB/s")
    hurt = summary("hurt")
    assert hurt.devices[0].count == 15
    assert dict(hurt.facts)["symmetry"] == "none found"
    assert len(hurt.limits) == 3


def test_what_has_no_path_or_no_rates(summary):
    found = summary("apart")
    assert "no path" in dict(found.facts)["diameter"]
    assert not found.limits
    found = summary("shape")
    assert found.tables()[1].rows[0][2:] == ("-", "-")
    assert not found.limits


def test_errors(summary, tmp_path):
    with pytest.raises(SourceError) as caught:
        summarize(str(tmp_path / "p.coll"), {})
    assert caught.value.diagnostics[0].code == "U0151"
    assert "5 topologies (pod, hurt, apart, shape and fed)" in caught.value.diagnostics[0].message
    with pytest.raises(SourceError) as missing:
        summary("pdo")
    assert missing.value.diagnostics[0].code == "U0133"


@pytest.mark.parametrize("seed", range(8))
def test_diameter_and_bisection_of_random_networks(seed):
    """Against NetworkX: all pairs by breadth-first search, and the least of all halves, which is not above."""
    network = random_network(random.Random(seed))
    graph = nx.DiGraph(zip(network.source.tolist(), network.target.tolist(), strict=True))
    graph.add_nodes_from(range(network.device_count))
    npus = network.npus.tolist()
    hops = {(a, b): length for a in npus for b, length in nx.single_source_shortest_path_length(graph, a).items()}
    wanted = (
        None if any((a, b) not in hops for a in npus for b in npus) else max(hops[a, b] for a in npus for b in npus)
    )
    found = summary_of(network, "t")
    if len(npus) > 1:
        assert found.values["diameter_hops"] == wanted
        halves = [set(half) for half in itertools.combinations(npus, len(npus) // 2)]
        assert all(half in halves for half in _halves(network) if len(half) == len(npus) // 2)
        least = min(_cut_between(network, half) for half in halves)
        assert least <= Fraction(found.values["bisection_at_most"])


def test_the_report_of_an_unwound_network_says_so(tmp_path):
    path = tmp_path / "p.coll"
    path.write_text(
        "import std.topologies\nimport std.collectives\n"
        "topology u = unwound(fat_tree(4, bandwidth: 48GB/s, latency: 0.5us))\n"
        "schedule s on u { run all_gather(u.npus, size: 16MiB) }\n"
    )
    (report,) = collc.compile(path, output=tmp_path).schedules
    assert report.links == 240
    assert report.bound.endswith("with direct links in place of switches")
    found = summarize(f"{path}:u", {})
    # each of 15 pairs that pass a link of 48 GB/s has its part
    assert {row[2] for row in found.tables()[1].rows} == {"3.2GB/s"}
    assert sum(2 * row.count for row in found.links) == 240


def test_a_file_about_one_topology_needs_no_name(tmp_path, capsys):
    path = tmp_path / "p.coll"
    path.write_text(
        "topology node { npu g[2] link g[0] <-> g[1] (bandwidth: 1GB/s, latency: 1us) }\n"
        "topology pair { use node as n[3] link n[0].g[0] <-> n[1].g[0] (bandwidth: 1GB/s, latency: 1us)\n"
        "link n[1].g[0] -> n[2].g[0] (bandwidth: 1GB/s, latency: 1us)\n"
        "link n[2].g[0] -> n[0].g[0] (bandwidth: 1GB/s, latency: 1us) }\n"
        "topology spare(n: int) { npu g[n] }\n"
    )
    found = summarize(str(path), {})
    assert found.name == "pair"
    assert [row[:2] for row in found.tables()[1].rows] == [("n[*].g[*] -> n[*].g[*]", "10")]
    assert all(row.size % 2**20 == 0 for row in found.limits)  # 6 does not divide 1 GiB
    assert main(["topology", str(path), "--svg", str(tmp_path / "p.svg")]) == 0
    assert "<svg" in (tmp_path / "p.svg").read_text()


def test_a_long_line_is_summarized_in_linear_time(tmp_path):
    """Found by a fuzzer: the rounds of a search and the flows of a bound took minutes."""
    (tmp_path / "p.coll").write_text(
        "import std.topologies\ntopology t = line(30000, bandwidth: 50GB/s, latency: 1us)\n"
    )
    with at_most(3):
        found = summarize(str(tmp_path / "p.coll"), {})
    assert found.values["diameter_hops"] == 29_999
    assert dict(found.facts)["collectives"] == "not bounded: more than 10,000 NPUs"
    assert found.limits == ()
