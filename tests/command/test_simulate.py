"""`collc simulate` of programs and schedules."""

from __future__ import annotations

import json
import re

import pytest

from collc.command.cli import main

PROGRAM = """
import std.topologies
import std.collectives
import std.algorithms
topology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule gather on t { run all_gather(t.npus, size: 4MiB) synthesize tacos emit ten("g.ten") }
schedule sum on t { run all_reduce(t.npus, size: 4MiB) using ring synthesize fixed }
"""


def test_a_schedule_of_a_program_and_its_ten_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.coll").write_text(PROGRAM)
    assert main(["simulate", "p.coll"]) == 2
    assert "U0107" in capsys.readouterr().err
    assert main(["simulate", "p.coll", "--schedule", "gather", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.coll"]
    assert main(["compile", "p.coll", "--json"]) == 0
    times = [schedule["time_ps"] for schedule in json.loads(capsys.readouterr().out)["schedules"]]
    assert found["time_ps"] == times[0] == max(found["ranks_ps"])
    assert main(["simulate", "g.ten", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["links"] == found["links"]
    assert again["algorithm_bandwidth"] == 4 * 2**20 * 10**12 / times[0]
    assert again["bus_bandwidth"] == pytest.approx(again["algorithm_bandwidth"] * 3 / 4)
    assert sum(link["bytes"] for link in again["links"]) == 12 * 2**20
    mean = sum(again["utilisation"]) / len(again["utilisation"])
    assert abs(mean - sum(link["utilisation"] for link in again["links"]) / 8) < 1e-5


def test_a_ring_all_reduce_takes_the_time_of_astra_sim(tmp_path, capsys):
    """Ring 4, 1 MiB chunks: 6 steps of int(500 + 19531.25) cycles; no reduction is counted without traces."""
    (tmp_path / "p.coll").write_text(PROGRAM)
    assert main(["simulate", str(tmp_path / "p.coll"), "--schedule", "sum", "--astra", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time_ps"] == 6 * 20_031_000
    assert found["bus_bandwidth"] == pytest.approx(found["algorithm_bandwidth"] * 3 / 2)
    assert main(["simulate", str(tmp_path / "p.coll"), "--schedule", "sum", "--model", "unaware"]) == 0
    assert "exact, congestion-unaware" in capsys.readouterr().out


def test_files_that_hold_no_schedule(tmp_path, capsys):
    (tmp_path / "p.coll").write_text(PROGRAM.replace("synthesize fixed", "synthesize nothing"))
    assert main(["simulate", str(tmp_path / "p.coll"), "--schedule", "sum"]) == 1
    (tmp_path / "x.ten").write_text("ten 1\n")
    assert main(["simulate", str(tmp_path / "x.ten")]) == 1
    assert "T0102" in capsys.readouterr().err


MSCCL = """
import std.topologies
import std.collectives
topology loop = ring(6, bandwidth: 50GiB/s, latency: 0.5us)
topology star = switched(6, bandwidth: 50GiB/s, latency: 0.5us)
topology apart {
    npu n[6]
    link n[0] -> n[1] (bandwidth: 1GB/s, latency: 1us)
}
schedule sum on loop {
    run all_reduce(loop.npus, size: 6MiB)
    synthesize tacos(link_model: "pipelined")
    emit msccl
    emit mscclpp
}
schedule all on star { run all_to_all(star.npus, size: 6MiB) synthesize pccl(link_model: "pipelined") emit msccl }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("msccl")
    (folder / "p.coll").write_text(MSCCL)
    assert main(["compile", str(folder / "p.coll"), "-o", str(folder), "--json"]) == 0
    return folder


@pytest.mark.parametrize(("name", "topology"), [("sum", "loop"), ("all", "star")])
def test_an_msccl_file_takes_the_time_that_its_compilation_reports(name, topology, files, capsys):
    main(["compile", str(files / "p.coll"), "-o", str(files), "--schedule", name])
    simulated = re.search(r"simulated ([\d.]+)us", capsys.readouterr().err)
    arguments = ["simulate", str(files / f"{name}.msccl"), "--on", f"{files}/p.coll:{topology}", "--json"]
    assert main([*arguments, "--size", "6MiB"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert simulated is not None
    assert found["time_ps"] / 1e6 == float(simulated[1])
    assert found["collective"] == ("all_reduce" if name == "sum" else "all_to_all")
    assert main([*arguments, "--size", "12MiB"]) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] > 1.8 * found["time_ps"]


def test_a_plan_takes_the_time_of_its_schedule_and_of_its_signals(files, capsys):
    arguments = ["simulate", str(files / "sum.mscclpp"), "--on", f"{files}/p.coll:loop", "--json", "--size", "6MiB"]
    assert main(arguments) == 0
    plan = json.loads(capsys.readouterr().out)
    assert main([arguments[0], str(files / "sum.msccl"), *arguments[2:]]) == 0
    program = json.loads(capsys.readouterr().out)
    assert plan["kind"] == "mscclpp"
    assert program["time_ps"] <= plan["time_ps"] <= 1.05 * program["time_ps"]
    assert sum(link["bytes"] for link in plan["links"]) == sum(link["bytes"] for link in program["links"])


def test_msccl_files_that_cannot_be_simulated(files, tmp_path, capsys):
    path, on = str(files / "sum.msccl"), f"{files}/p.coll"
    assert main(["simulate", path, "--on", f"{on}:loop"]) == 2
    assert "U0134" in capsys.readouterr().err
    assert main(["simulate", path, "--on", f"{on}:loop", "--size", "6 apples"]) == 2
    assert main(["simulate", path, "--size", "6MiB"]) == 2
    assert "U0130" in capsys.readouterr().err
    assert main(["simulate", path, "--size", "6MiB", "--on", f"{on}:apart"]) == 1
    assert "X0511" in capsys.readouterr().err
    (tmp_path / "small.coll").write_text("import std.topologies\ntopology t = ring(4, bandwidth: 1GB/s, latency: 1us)")
    assert main(["simulate", path, "--size", "6MiB", "--on", f"{tmp_path}/small.coll:t"]) == 1
    assert "X0510" in capsys.readouterr().err
    broken = tmp_path / "broken.xml"
    broken.write_text((files / "sum.msccl").read_text().replace('type="r', 'type="x', 1))
    assert main(["simulate", str(broken), "--size", "6MiB", "--on", f"{on}:loop"]) == 4


@pytest.mark.parametrize(("collective", "traffic"), [("all_gather", 1), ("reduce_scatter", 2)])
@pytest.mark.parametrize("file", ["s.xml", "s.json", "s/s"])
def test_what_a_file_reads_from_memory_follows_from_its_collective(
    tmp_path, monkeypatch, capsys, collective, traffic, file
):
    """Each NPU sends 7 MiB with 60 GB/s of memory. All files were charged 1.5 bytes for each byte.

    The last of its messages arrives when its link has carried it, before its memory is free again.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.coll").write_text(
        "import std.topologies\nimport std.collectives\n"
        "topology t = limited(ring(8, bandwidth: 50GB/s, latency: 1us), memory: 60GB/s)\n"
        f"schedule s on t {{ run {collective}(t.npus, size: 8MiB) synthesize symmetric\n"
        '    emit msccl("s.xml") emit mscclpp("s.json") emit chakra("s") }\n'
    )
    assert main(["compile", "p.coll", "--quiet"]) == 0
    assert main(["simulate", file, "--on", "p.coll:t", "--size", "8MiB", "--json"]) == 0
    time = json.loads(capsys.readouterr().out)["time_ps"]
    assert 0.95 < time / (7 * 2**20 * traffic / 60e9 * 1e12) < 1.2
