"""Labels: the names of a machine beside those of the program, from the declaration to files and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import collc
from collc.application.topology.topology_summary import summarize
from collc.command.cli import main
from collc.source.elaboration.elaborate import load_topology
from collc.source.host_lists import compressed_hosts, expanded_hosts

POD = """
import std.collectives
topology box {
    npu gpu[2] labels ["0000:11:00.0", "0000:21:00.0"]
    switch nv labels "NVSwitch"
    npu extra
    for i in 0..2 { link gpu[i] <-> nv (bandwidth: 100GB/s, latency: 1us) }
    link extra <-> nv (bandwidth: 100GB/s, latency: 1us)
}
topology pod {
    use box as node[4] labels ["gpu[09-11]", "odd-one"]
    switch leaf[2] labels ["leaf 1", "leaf 2"]
    for i in 0..4, k in 0..2 { link node[i].gpu[k] <-> leaf[k] (bandwidth: 10GB/s, latency: 2us) }
}
"""


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    path = tmp_path / "pod.coll"
    path.write_text(POD)
    return path


def test_devices_have_the_labels_of_their_copies_and_their_own(pod: Path) -> None:
    network = load_topology(pod, None)
    assert network.shown_name(0) == "node[0].gpu[0] (gpu09/0000:11:00.0)"
    assert [network.real_name(npu) for npu in (4, 5, 10)] == [
        "gpu10/0000:21:00.0",
        "gpu10/extra",
        "odd-one/0000:21:00.0",
    ]
    assert [network.real_name(12 + switch) for switch in (0, 3, 4, 5)] == [
        "gpu09/NVSwitch",
        "odd-one/NVSwitch",
        "leaf 1",
        "leaf 2",
    ]
    assert network.shown_link(0).startswith("node[0].gpu[0] (gpu09/0000:11:00.0) -> node[0].nv (gpu09/NVSwitch)")


def test_labels_of_arrays_count_the_last_index_fastest(tmp_path: Path) -> None:
    path = tmp_path / "a.coll"
    path.write_text('topology a { npu n[2, 3] labels "x[1-6]" link n[0, 0] <-> n[1, 2] }')
    network = load_topology(path, "a")
    assert [network.real_name(npu) for npu in range(6)] == [f"x{k}" for k in range(1, 7)]


def test_files_and_messages_show_them(pod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "s.coll"
    program.write_text(
        'import "pod.coll"\nimport std.collectives\ngroup g = [pod.node[3].gpu[0], pod.node[0].gpu[0]]\n'
        'schedule s on pod { run all_gather(g, size: 1MiB) emit ten emit msccl("s.xml") emit report emit trace }'
    )
    (report,) = collc.compile(program, output=tmp_path).schedules
    assert report.exit == 0
    assert "rank 0 is node[3].gpu[0] (odd-one/0000:11:00.0), 1 is node[0].gpu[0] (gpu09/0000:11:00.0)" in report.notes
    ranks = json.loads((tmp_path / "s.ranks.json").read_text())["runs"][0]
    assert ranks["ranks"] == ["node[3].gpu[0]", "node[0].gpu[0]"]
    assert ranks["labels"] == ["odd-one/0000:11:00.0", "gpu09/0000:11:00.0"]
    assert ranks["hosts"] == ["odd-one", "gpu09"]
    assert "odd-one/0000:11:00.0" in (tmp_path / "s.html").read_text()
    assert main(["inspect", str(tmp_path / "s.xml")]) == 0
    assert "odd-one/0000:11:00.0" in capsys.readouterr().out
    module = collc.load(tmp_path / "s.ten")
    assert module.network.real_name(10) == "odd-one/0000:21:00.0"
    assert module.network.families == load_topology(pod, "pod").families
    text = (tmp_path / "s.ten").read_text()
    start = text.index("    send ")
    row = text[start : text.index("\n", start) + 1]
    (tmp_path / "wrong.ten").write_text(text.replace(row, row + row))
    assert main(["verify", str(tmp_path / "wrong.ten")]) == 4
    assert "leaf[0] (leaf 1)" in capsys.readouterr().err


def test_the_ranks_of_a_labelled_network_are_always_written(pod: Path, tmp_path: Path) -> None:
    pod.write_text(POD + 'schedule s on pod { run all_gather(pod.npus, size: 12MiB) emit msccl("s.xml") }')
    assert collc.compile(pod, output=tmp_path).schedules[0].exit == 0
    runs = json.loads((tmp_path / "s.ranks.json").read_text())["runs"]
    assert [host for host in runs[0]["hosts"] if host == "gpu10"] == ["gpu10"] * 3


def test_topology_shows_them(pod: Path) -> None:
    rows = summarize(str(pod), {}).devices
    assert [row.real_names for row in rows][:2] == [
        "gpu[09-11], odd-one/0000:11:00.0, 000...",
        "gpu[09-11], odd-one/extra",
    ]
    assert rows[-1].labels == ("leaf 1", "leaf 2")


def test_errors_show_them(pod: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = "topology t = pod without { npu node[3].gpu[0] }\ngroup g = [t[9]]\n"
    pod.write_text(f"{POD}{rest}schedule s on t {{ run all_gather(g, size: 1B) }}")
    assert main(["check", str(pod)]) != 0
    assert "node[3].gpu[0] (odd-one/0000:11:00.0) was removed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a1", "a2", "a3"], ["a[1-3]"]),
        (["a1", "a2"], ["a1", "a2"]),
        (["a08", "a09", "a10", "b"], ["a[08-10]", "b"]),
        (["a8", "a9", "a10"], ["a[8-10]"]),
        (["a98", "a99", "a100"], ["a[98-100]"]),
        (["a8", "a09", "a10"], ["a8", "a09", "a10"]),
        (["a7", "a08", "a09", "a10", "a011"], ["a7", "a[08-10]", "a011"]),
        (["a1-x", "a2-x", "a3-x", "a4-y"], ["a[1-3]-x", "a4-y"]),
        (["r1n1", "r1n2", "r1n3", "r2n1"], ["r1n[1-3]", "r2n1"]),
    ],
)
def test_host_lists(names: list[str], short: list[str]) -> None:
    assert compressed_hosts(names) == short
    assert [name for text in short for name in expanded_hosts(text, 100)] == names
