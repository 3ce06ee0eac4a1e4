"""`collc compare`: a schedule, textbook algorithms and the ideal on one network."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from collc.application.compare.comparing import Comparison, compare_file
from collc.application.simulate.module_simulation import SYNTHESIZED, TEXTBOOK
from collc.command.cli import main

PROGRAM = """
import std.topologies
import std.collectives
topology net = {network}
schedule s on net {{ run {run} {more} }}
"""
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
STEP = 20_031_250
"""Picoseconds for 1 MiB on such a link."""


def written(network: str, run: str, more: str = "") -> Path:
    path = Path("p.coll")
    path.write_text(PROGRAM.format(network=network, run=run, more=more))
    return path


def compared(network: str, run: str, more: str = "") -> Comparison:
    return compare_file(written(network, run, more), None, {}, lambda _share, _phase: None)


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_reduce_on_a_torus() -> None:
    """Rings follow links: 2 (n - 1) steps of a sixteenth, in both directions half the blocks."""
    found = compared(f"torus2d(4, 4, {LINK})", "all_reduce(net.npus, size: 16MiB)", "synthesize symmetric")
    times = {one.name: one.time_ps for one in found.alternatives}
    assert list(times) == ["symmetric", *TEXTBOOK, *SYNTHESIZED, "nccl_ring", "nccl_tree"]
    thirds = 10 * STEP + 20 * 500_000  # three rings, whose blocks are a third as large
    assert times["nccl_ring"] == pytest.approx(thirds, rel=1e-5)
    assert times["ring"] == 30 * STEP
    assert times["bidirectional_ring"] == 16 * STEP
    assert all(time is not None and time >= found.ideal_ps for time in times.values())
    assert found.own_ps == times["symmetric"]
    direct = times["direct"]
    assert direct is not None
    assert direct >= 2 * 8 * STEP  # 15 blocks over 2.13 links on average, on 64 links, in each phase


def test_a_file_without_runs_has_nothing_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compile", str(written(f"ring(4, {LINK})", "all_gather(net.npus, size: 4MiB)", 'emit ten("m.ten")'))])
        == 0
    )
    text = Path("m.ten").read_text()
    Path("m.ten").write_text(text[: text.index("demand {")] + "demand {}\nschedule store rows {}\n")
    assert main(["compare", "m.ten"]) == 4
    assert "m.ten has no run: there is nothing to compare" in capsys.readouterr().err


def test_what_does_not_run_has_a_reason() -> None:
    found = compared(f"ring(4, {LINK})", "all_gather(net.npus, size: 4MiB)")
    reasons = {one.name: one.reason for one in found.alternatives if one.time_ps is None}
    assert set(reasons) == {"double_binary_tree", "hierarchical", "themis", "nccl_tree"}
    assert reasons["double_binary_tree"] == "there is none for all_gather"
    assert reasons["hierarchical"] == "the group has no two to four dimensions"


def test_groups_share_the_network() -> None:
    """Two columns of a mesh, each with its own All-to-All: direct messages meet nowhere."""
    mesh = f"mesh2d(2, 2, {LINK})"
    run = "all_to_all(net.npu[*, 0], size: 2MiB) run all_to_all(net.npu[*, 1], size: 2MiB)"
    found = compared(mesh, run)
    assert {one.time_ps for one in found.alternatives if one.name == "direct"} == {STEP}
    assert (found.collective, found.size, found.ranks) == ("all_to_all", 2 * 2**20, 2)


def test_table_json_and_picture(capsys: pytest.CaptureFixture[str]) -> None:
    written(f"ring(4, {LINK})", "all_gather(net.npus, size: 4MiB)", 'emit ten("s.ten")')
    assert main(["compare", "p.coll", "--svg", "s.svg", "--quiet"]) == 0
    table = capsys.readouterr().out
    assert "s: all_gather, 4MiB, on net" in table
    assert "(this schedule)" in table
    assert "there is none for all_gather" in table
    assert ET.parse("s.svg").getroot().tag.endswith("svg")
    assert "ideal bound" in Path("s.svg").read_text()
    assert not Path("s.ten").exists()
    assert main(["compile", "p.coll", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["compare", "s.ten", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    ring = next(row for row in found["algorithms"] if row["name"] == "ring")
    assert (ring["time_ps"], ring["of_ideal"]) == (3 * STEP, found["ideal_ps"] / (3 * STEP))
    assert ring["bus_bandwidth"] == pytest.approx(0.75 * 2**22 / (3 * STEP * 1e-12))


def test_custom_collectives_have_no_textbook_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    collective = """
        collective hand_over(g: group) { chunk x: 1MiB pre x at g[0] post x at g[1] }
    """
    path = written(f"ring(4, {LINK})", "hand_over(net.npus)")
    path.write_text(path.read_text() + collective)
    assert main(["compare", "p.coll", "--quiet"]) != 0
    errors = capsys.readouterr().err
    assert "error[C0209]" in errors, errors


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", ["eject", "inject"])
def test_all_algorithms_run_where_npus_have_limits(limit: str) -> None:
    """Messages that meet at an NPU that receives one after another wait there, and none is faster than the ideal."""
    mesh = f"mesh2d(2, 3, {LINK})"
    free = {one.name: one.time_ps for one in compared(mesh, "all_reduce(net.npus, size: 6MiB)").alternatives[1:]}
    found = compared(f"limited({mesh}, {limit}: 60GiB/s)", "all_reduce(net.npus, size: 6MiB)")
    times = {one.name: one.time_ps for one in found.alternatives[1:]}
    assert [one.reason for one in found.alternatives if one.time_ps is None] == []
    assert all(time is not None and time >= found.ideal_ps for time in times.values())
    direct, without = times["direct"], free["direct"]
    assert direct is not None
    assert without is not None
    assert direct > without
