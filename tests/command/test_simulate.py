"""`collc simulate` of programs and schedules."""

from __future__ import annotations

import json

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
