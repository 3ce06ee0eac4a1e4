"""Which NPU a process is: found by host and GPU, or given; and files that are for other NPUs than a group."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import collc
from collc.runtime.placement import Names, Placement, names_of_process
from collc.runtime.run_program import RunProgram
from collc.runtime.schedules import Schedules

TEXT = """
import std.topologies
import std.collectives
topology server { npu gpu[2] LABELS  link gpu[0] <-> gpu[1] (bandwidth: 50GB/s, latency: 1us) }
topology t {
    use server as node[2] labels "host[1-2]"
    for k in 0..2 { link node[0].gpu[k] <-> node[1].gpu[k] (bandwidth: 50GB/s, latency: 1us) }
}
schedule sum on t { run all_reduce(t.npus, size: 1MiB) emit run }
"""
LABELS = 'labels ["GPU0", "0000:2f:00.0"]'
INDICES = [(host, gpu) for host in (1, 2) for gpu in (0, 1)]


def compiled(folder: Path, labels: str = LABELS) -> RunProgram:
    collc.compile_text(TEXT.replace("LABELS", labels), output=folder)
    return RunProgram.from_bytes((folder / "sum.run").read_bytes())


def found(host: int, gpu: int) -> Names:
    return Names("", (f"host{host}/GPU{gpu}", f"host{host}/gpu[{gpu}]", f"host{host}/0000:{'12'[gpu]}F:00.0"))


def given(host: int, gpu: int) -> Names:
    return Names(f"node[{host - 1}].gpu[{gpu}]", ())


@pytest.mark.parametrize("names", [found, given])
@pytest.mark.parametrize("labels", ["", LABELS])
def test_the_ranks_of_a_file_are_those_of_the_group(tmp_path, names, labels):
    program = compiled(tmp_path, labels)
    of_group = [names(*index) for index in INDICES]
    assert Placement(of_group).serves(program)
    assert Schedules.read(tmp_path, 1, 4, of_group).peers == {0, 3}
    for changed, text in (
        (of_group[:1] + of_group[2:] + of_group[1:2], r"sum.run is for other NPUs .*: rank 1 .*\[?2, 3\]? differ too"),
        ([*of_group[:3], names(3, 0)], "rank 3 of the group is .*, and rank 3 of the file is"),
    ):
        with pytest.raises(ValueError, match=text):
            Schedules.read(tmp_path, 1, 4, changed)


def test_a_file_for_another_group_is_no_mismatch(tmp_path):
    compiled(tmp_path)
    schedules = Schedules.read(tmp_path, 1, 4, [found(host, 0) for host in (1, 2, 3, 4)])
    assert schedules.choose("allreduce", 4) == "no file for the NPUs of the group in their order"
    assert schedules.peers == set()
    assert isinstance(Schedules.read(tmp_path, 1, 4, [Names("", ())] * 4).choose("allreduce", 4), tuple)


@pytest.mark.parametrize(("hosts", "fits"), [((1, 1), True), ((1, 2), False)])
def test_labels_without_a_host_are_of_one_host(tmp_path, hosts, fits):
    """The file of one server does not serve the GPUs of the same numbers on two."""
    text = TEXT.partition("topology t ")[0].replace("LABELS", LABELS).replace("server {", "t {")
    collc.compile_text(text + "schedule sum on t { run all_reduce(t.npus, size: 1MiB) emit run }", output=tmp_path)
    of_hosts = [found(host, gpu).found for gpu, host in enumerate(hosts)]
    names = [Names("", (*long, *(name.partition("/")[2] for name in long))) for long in of_hosts]
    schedules = Schedules.read(tmp_path, 0, 2, names)
    assert isinstance(schedules.choose("allreduce", 4), tuple) == fits
    assert schedules.peers == ({1} if fits else set())


@pytest.fixture
def driver(tmp_path, monkeypatch) -> Path:
    """The driver's folder of a host with four GPUs."""
    for name in ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "MPI_LOCALRANKID"):
        monkeypatch.delenv(name, raising=False)
    for number in range(4):
        gpu = tmp_path / "gpus" / f"0000:{number}f:00.0"
        gpu.mkdir(parents=True)
        (gpu / "information").write_text(f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-{number * 1111}-aa\n")
    return tmp_path / "gpus"


@pytest.mark.parametrize(
    ("visible", "local", "gpu"),
    [
        (None, None, None),
        (None, "2", 2),
        ("3", None, 3),
        ("3,1", "1", 1),
        ("GPU-2222-aa", "0", 2),
        ("0,1", "2", None),
        ("MIG-1", "0", None),
    ],
)
def test_the_gpu_of_a_process(driver, monkeypatch, visible, local, gpu):
    for name, value in (("CUDA_VISIBLE_DEVICES", visible), ("LOCAL_RANK", local)):
        if value is not None:
            monkeypatch.setenv(name, value)
    names = names_of_process("", driver).found
    assert bool(names) == (gpu is not None)
    if names:
        host = socket.gethostname()
        assert {f"{host}/GPU{gpu}", f"{host}/gpu[{gpu}]", f"{host}/0000:{gpu}f:00.0", f"GPU{gpu}"} <= set(names)
    assert names_of_process("npu[1]", driver).given == "npu[1]"
