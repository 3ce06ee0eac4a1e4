"""Measured values in imported programs, and errors of small machine files."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.command.cli import main
from collc.source.elaboration.elaborate import load_topology

CONF = "SwitchName=leaf1 Nodes=gpu[01-04]\nSwitchName=leaf2 Nodes=gpu[05-08]\nSwitchName=root Switches=leaf[1-2]\n"
ARGUMENTS = ["--gpus-per-node", "2", "-D", "nvlink=450GB/s", "-D", "nic=400Gb/s", "-D", "uplink=1600Gb/s"]


def imported(folder: Path, measured: str) -> int:
    (folder / "topology.conf").write_text(CONF)
    (folder / "measured.coll").write_text(measured)
    (folder / "out").mkdir()
    files = [str(folder / "topology.conf"), "--measured", str(folder / "measured.coll")]
    return main(["import", "slurm", *files, *ARGUMENTS, "-o", str(folder / "out" / "pod.coll")])


def test_programs_import_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "let nic_bandwidth = 39GB/s\nlet nic_latency = 0.9us\nlet nvlink_bandwidth = 440GB/s\n"
    assert imported(tmp_path, text) == 0
    remarks = capsys.readouterr().err
    assert "nic_bandwidth: measured 39GB/s, nominal 50GB/s (22% less)" in remarks
    assert "nvlink_bandwidth" not in remarks  # 2 % only
    assert "nic_latency" not in remarks
    program = (tmp_path / "out" / "pod.coll").read_text()
    assert 'import "../measured.coll"' in program
    assert "param nic_latency" not in program
    assert "param nvlink_latency" in program
    network = load_topology(tmp_path / "out" / "pod.coll", "pod")
    rates = {(kind.bandwidth, kind.latency) for kind in network.kinds}
    assert (39 * 10**9, 900_000) in rates
    assert (440 * 10**9, 350_000) in rates


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ("let nci_bandwidth = 39GB/s\n", "'nci_bandwidth' is measured, but no link of this machine has that name"),
        ("let nic_bandwidth = 2us\n", "'nic_bandwidth' is not a rate"),
        ("let nic_latency = 2GB/s\n", "'nic_latency' is not a time"),
        ("param nic_latency: time = 2us\n", "has more than lets of times and rates"),
        ("let nic_latency = 2us\nlet nic_latency = 2us\n", "'nic_latency' occurs twice"),
    ],
)
def test_files_that_are_no_measurements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: str, message: str
) -> None:
    assert imported(tmp_path, measured) != 0
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("slurm", "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "switch a is below itself"),
        ("slurm", "SwitchName=b Switches=a Nodes=n[1-2]\n", "switch b has both Nodes= and Switches="),
        ("slurm", "SwitchName=b\n", "switch b has neither Nodes= nor Switches="),
        ("astra", "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\n", "has no 'latency'"),
        (
            "astra",
            "topology: [ Ring ]\nnpus_count: [ 100000000000 ]\nbandwidth: [ 50 ]\nlatency: [ 5 ]\n",
            "'npus_count' is a whole number from 2 to 10000000, not '100000000000'",
        ),
    ],
)
def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, text: str, message: str) -> None:
    path = tmp_path / "machine.txt"
    path.write_text(text)
    assert main(["import", kind, str(path), *(ARGUMENTS if kind == "slurm" else [])]) != 0
    assert message in capsys.readouterr().err


def test_a_rate_of_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(CONF)
    assert main(["import", "slurm", str(path), "--gpus-per-node", "2", "-D", "nvlink=0GB/s"]) == 2
    assert "-D nvlink=0GB/s is not above 0" in capsys.readouterr().err


def test_512_nodes_alike_are_one_statement(tmp_path: Path) -> None:
    leaves = [f"SwitchName=leaf{k} Nodes=gpu[{16 * k + 1:03d}-{16 * k + 16:03d}]" for k in range(32)]
    (tmp_path / "topology.conf").write_text("\n".join([*leaves, "SwitchName=root Switches=leaf[0-31]"]) + "\n")
    arguments = ["import", str(tmp_path / "topology.conf"), *ARGUMENTS, "-o", str(tmp_path / "pod.coll")]
    assert main(arguments) == 0
    program = (tmp_path / "pod.coll").read_text()
    assert 'use pod_node as node[512] labels "gpu[001-512]"' in program
    assert program.count("\n") < 50
    network = load_topology(tmp_path / "pod.coll", None)
    assert network.npu_count == 1024
    assert network.real_name(1023) == "gpu512/GPU1"
