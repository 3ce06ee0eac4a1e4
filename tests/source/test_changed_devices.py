"""`t with { npu gpu[0, 3] (inject: 25GB/s), switch s (buffer: 4) }`: attributes of devices that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError
from collc.source.elaboration.elaborate import load_topology
from collc.ten.network import Network


def network(tmp_path: Path, expression: str) -> Network:
    (tmp_path / "t.coll").write_text(
        """
topology box {
    npu gpu[4] (inject: 50GB/s, memory: 300GB/s, endpoint: "offload")
    npu last
    switch s[2] (buffer: 8)
    for i in 0..4 { link gpu[i] <-> s[0] (bandwidth: 100GB/s, latency: 1us) }
    link last <-> s[1] (bandwidth: 100GB/s, latency: 1us)
    link s[0] <-> s[1] (bandwidth: 100GB/s, latency: 1us)
}
topology t = """
        + expression
    )
    return load_topology(tmp_path / "t.coll", "t")


def test_what_is_not_said_stays(tmp_path: Path) -> None:
    found = network(tmp_path, "box with { npu gpu[1..3] (inject: 25GB/s, eject: 9GB/s), npu last (memory: 30GB/s) }")
    before = network(tmp_path, "box")
    assert [found.endpoint_of(npu) == before.endpoint_of(npu) for npu in range(5)] == [True, False, False, True, False]
    changed = found.endpoint_of(1)
    assert (changed.inject, changed.eject, changed.memory) == (25 * 10**9, 9 * 10**9, 300 * 10**9)
    assert changed.mode == "offload"
    assert found.endpoint_of(4).memory == 30 * 10**9
    assert found.endpoint_of(4).mode == "baseline"
    assert found.source.tolist() == before.source.tolist()


def test_later_parts_go_on_from_earlier_ones(tmp_path: Path) -> None:
    found = network(tmp_path, 'box with { npu 0 (inject: 1GB/s), npu gpu[0] (memory: 2GB/s, endpoint: "baseline") }')
    assert (found.endpoint_of(0).inject, found.endpoint_of(0).memory) == (10**9, 2 * 10**9)
    assert found.endpoint_of(0).mode == "baseline"


def test_switches(tmp_path: Path) -> None:
    found = network(tmp_path, "box with { switch s[0] (multicast: true), switch s[*] (reduce: true) }")
    assert found.buffers.tolist() == [8, 8]
    assert found.multicast.tolist() == [True, False]
    assert found.reduces.tolist() == [True, True]
    assert network(tmp_path, "box with { switch s[1] (buffer: 2) }").buffers.tolist() == [8, 2]


def test_labels(tmp_path: Path) -> None:
    found = network(tmp_path, 'box with { npu gpu[1..3] labels "n[07-08]", switch s[1] labels "leaf" }')
    assert [found.real_name(device) for device in range(7)] == ["", "n07", "n08", "", "", "", "leaf"]
    assert "n07" in found.shown_name(1)


def test_new_devices_beside_changed_ones(tmp_path: Path) -> None:
    rates = "(bandwidth: 1GB/s, latency: 1us)"
    found = network(
        tmp_path, f"box with {{ npu gpu[0] (inject: 3GB/s), npu gpu2 (inject: 7GB/s), link gpu2 <-> s[1] {rates} }}"
    )
    assert found.npu_count == 6
    assert [found.endpoint_of(npu).inject for npu in (0, 1, 5)] == [3 * 10**9, 50 * 10**9, 7 * 10**9]


@pytest.mark.parametrize("limit", ["inject", "eject"])
def test_a_schedule_takes_the_changed_limit_into_account(tmp_path: Path, limit: str) -> None:
    from collc.api.compiling import compile_text

    text = """
import std.topologies
import std.collectives
topology t = ring(4, bandwidth: 50GB/s, latency: 1us) {}
schedule s on t {{ run all_gather(t.npus, size: 16MiB) }}
"""
    full = compile_text(text.format("")).schedules[0].time_ps
    slow = compile_text(text.format(f"with {{ npu 2 ({limit}: 10GB/s) }}")).schedules[0].time_ps
    assert full is not None
    assert slow is not None
    moved = 4 * 2**20 * (3 if limit == "eject" else 1)
    assert slow >= moved / 10e9 * 1e12
    assert slow > full


RING = """
import std.topologies
topology d = ring(4, bandwidth: 50GB/s, latency: 1us)
topology t = """


def ring_topology(tmp_path: Path, expression: str) -> Network:
    (tmp_path / "t.coll").write_text(RING + expression)
    return load_topology(tmp_path / "t.coll", "t")


def test_npus_of_the_topology_before_with(tmp_path: Path) -> None:
    attributes = "(bandwidth: 50GB/s, latency: 1us)"
    named = ring_topology(
        tmp_path, f"d with {{ link d.npu[0] <-> d.npu[2] {attributes}, npu d.npu[1] (inject: 9GB/s) }}"
    )
    numbered = ring_topology(tmp_path, f"d with {{ link 0 <-> 2 {attributes}, npu 1 (inject: 9GB/s) }}")
    assert named.source.tolist() == numbered.source.tolist()
    assert named.target.tolist() == numbered.target.tolist()
    assert named.endpoint_of(1) == numbered.endpoint_of(1)
    with pytest.raises(SourceError, match="an NPU of 'd', not of the topology that changes here"):
        ring_topology(tmp_path, f"reversed(d) with {{ link d.npu[0] <-> d.npu[2] {attributes} }}")


def test_without_lanes_removes_the_last_ones(tmp_path: Path) -> None:
    body = """topology d {
    npu a
    npu b
    link a -> b (bandwidth: 10GB/s, latency: 1us)
    link a -> b (bandwidth: 20GB/s, latency: 1us)
    link a -> b (bandwidth: 30GB/s, latency: 1us)
}
topology t = d without { link a -> b lanes 1 }"""
    (tmp_path / "t.coll").write_text(body)
    network = load_topology(tmp_path / "t.coll", "t")
    rates = [network.kinds[int(kind)].bandwidth for kind in network.kind]
    assert rates == [10 * 10**9, 20 * 10**9]


def test_parts_may_be_named_with_their_topology(tmp_path: Path) -> None:
    """`box.s[0]` is the switch `s[0]` of the box, as `box.gpu[2]` is an NPU."""
    parts = "npu gpu[0], link gpu[2] <-> s[0], switch s[1]"
    short = network(tmp_path, f"box without {{ {parts} }}")
    long = network(tmp_path, "box without { npu box.gpu[0], link box.gpu[2] <-> box.s[0], switch box.s[1] }")
    assert long.present.tolist() == short.present.tolist()
    assert (long.source.tolist(), long.target.tolist()) == (short.source.tolist(), short.target.tolist())
    with pytest.raises(SourceError, match="'box' has no NPU 9"):
        network(tmp_path, "box without { npu 9 }")
