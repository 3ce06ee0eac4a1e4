"""The traffic of schedules on products, and `emit libra` for schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import collc
from collc.design.training_time import bandwidths, link_bytes, links_per_npu, schedule_traffic, traffic

TWO = """
import std.topologies
import std.collectives
topology net = ring(4, bandwidth: 50GB/s, latency: 1us) * FACTOR
schedule s on net {
    run RUN(net.npus, size: 36MiB, chunks: 4)
    synthesize hierarchical
}
"""
FACTORS = {
    "switched(8, bandwidth: 25GB/s, latency: 1us)": (2, 1),
    "fully_connected(3, bandwidth: 25GB/s, latency: 1us)": (2, 2),
    "ring(2, bandwidth: 25GB/s, latency: 1us)": (2, 1),
}


def compiled(text: str, folder: Path) -> collc.ScheduleReport:
    report = collc.compile_text(text, output=folder)
    report.raise_if_failed()
    return report["s"]


@pytest.mark.parametrize("factor", FACTORS)
def test_links_and_bandwidths_of_npus(factor: str, tmp_path: Path) -> None:
    module = compiled(TWO.replace("FACTOR", factor).replace("RUN", "all_gather"), tmp_path).kept_module()
    links = FACTORS[factor]
    assert links_per_npu(module.network) == links
    assert bandwidths(module.network) == (links[0] * 50 * 10**9, links[1] * 25 * 10**9)


@pytest.mark.parametrize("factor", FACTORS)
def test_traffic_is_that_of_the_links_with_most(factor: str, tmp_path: Path) -> None:
    module = compiled(TWO.replace("FACTOR", factor).replace("RUN", "all_gather"), tmp_path).kept_module()
    schedule = module.schedule
    assert schedule is not None
    found = schedule_traffic(module.network, module.demand, schedule)
    rows = module.transfers()
    by_hand = [0] * module.network.link_count
    for chunk, link in zip(rows["chunk"].tolist(), rows["link"].tolist(), strict=True):
        by_hand[link] += int(module.demand.chunks.size[chunk])
    assert link_bytes(module.network, module.demand, schedule).tolist() == by_hand
    most = [max(b for b, a in zip(by_hand, module.network.link_axis, strict=True) if a == k) for k in (0, 1)]
    assert found == tuple(links * b for links, b in zip(FACTORS[factor], most, strict=True))


def test_a_ring_is_charged_what_the_formula_says(tmp_path: Path) -> None:
    """A balanced schedule on one line: the multi-rail formula, exactly."""
    text = TWO.replace("FACTOR", "ring(1, bandwidth: 25GB/s, latency: 1us)").replace("RUN", "all_reduce")
    module = compiled(text.replace("hierarchical", "auto"), tmp_path).kept_module()
    assert module.schedule is not None
    (first, _) = schedule_traffic(module.network, module.demand, module.schedule)
    assert first == traffic("all_reduce", 36 * 2**20, (4,), (False,))[0]


def test_emit_libra_of_a_schedule(tmp_path: Path) -> None:
    text = TWO.replace("FACTOR", "switched(8, bandwidth: 25GB/s, latency: 1us)").replace("RUN", "all_reduce")
    report = compiled(text.replace("hierarchical", 'hierarchical emit libra("lib/")'), tmp_path)
    module = report.kept_module()
    assert module.schedule is not None
    rows = schedule_traffic(module.network, module.demand, module.schedule)
    found = json.loads((tmp_path / "lib" / "s.libra.json").read_text())
    assert found["time"] == {"max": [{"bytes": int(size), "dimension": k} for k, size in enumerate(rows)]}
    assert found["constraints"] == [{"coefficients": [1, 1], "operator": "==", "limit": 125}]
    total = sum(rows)
    assert found["optimum"]["bandwidth_GBps"] == pytest.approx([float(125 * size / total) for size in rows], rel=1e-8)
    names = {path.name for path in (tmp_path / "lib").iterdir()}
    assert names == {"s.libra.json", "s.lp", "s_deadline.mps", "s.smt2"}
    assert {path.name for path in report.files} == names
    again = compiled(text.replace("hierarchical", 'hierarchical emit libra("lib")'), tmp_path)
    assert len(again.files) == 4


def test_a_schedule_on_a_torus(tmp_path: Path) -> None:
    """The files are those of the schedule on the same network as a product."""
    texts: list[str] = []
    for name, network in (("t", "torus2d(4, 3, LINK)"), ("p", "ring(4, LINK) * ring(3, LINK)")):
        net = network.replace("LINK", "bandwidth: 25GB/s, latency: 1us")
        text = TWO.replace("ring(4, bandwidth: 50GB/s, latency: 1us) * FACTOR", net).replace("RUN", "all_gather")
        compiled(text.replace("hierarchical", f'hierarchical emit libra("{name}")'), tmp_path)
        texts.append((tmp_path / name / "s.libra.json").read_text())
    first, second = map(json.loads, texts)
    assert [d["npus"] for d in first["dimensions"]] == [4, 3]
    assert first["constraints"] == second["constraints"]
    assert first["dimensions"] == second["dimensions"]


def test_without_dimensions_no_schedule_is_made(tmp_path: Path) -> None:
    """1,024 NPUs: the synthesis would take minutes."""
    network = "dragonfly(32, 32, local: 50GB/s, global: 50GB/s, latency: 1us)"
    text = TWO.replace("ring(4, bandwidth: 50GB/s, latency: 1us) * FACTOR", network).replace("RUN", "all_to_all")
    with pytest.raises(collc.SourceError) as caught:
        collc.compile_text(text.replace("hierarchical", "auto emit libra"), output=tmp_path)
    assert [d.code for d in caught.value.diagnostics] == ["E0921"]
