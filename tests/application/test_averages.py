"""Averages: a sum in every file, with a note that says by what the caller divides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import collc
from collc.base.diagnostics import SourceError
from collc.msccl.running.run_file import run_file
from collc.ten.demand import Op
from tests.end_to_end.programs import build

PROGRAM = """
import std.topologies
import std.collectives
topology t = fully_connected(4, bandwidth: 50GB/s, latency: 1us)
schedule s on t {
    run all_reduce(t.npus, size: 1MiB, op: "avg")
    emit ten("s.ten")
    emit ten("binary.ten", binary: true)
    emit msccl("s.xml")
    emit msccl("r.xml", profile: "rccl")
    emit msccl("old.xml", profile: "old")
    emit mscclpp("s.json")
}
"""
NOTE = "avg: the file adds and does not divide; call it with ncclSum and divide the result by 4"


def test_files_hold_the_sum_and_notes_say_by_what_to_divide(tmp_path: Path) -> None:
    (report,) = build(tmp_path, PROGRAM)
    assert {NOTE, f"old.out.xml, old.in.xml: {NOTE}"} <= set(report.notes)
    for name in ("s.xml", "r.xml", "old.out.xml", "old.in.xml"):
        assert 'redop="sum"' in (tmp_path / name).read_text()
    assert all(run.ok for run in run_file(tmp_path / "s.xml", runs=2))


@pytest.mark.parametrize("name", ["s.ten", "binary.ten"])
def test_ten_keeps_the_average(tmp_path: Path, name: str) -> None:
    build(tmp_path, PROGRAM)
    module = collc.load(tmp_path / name)
    run = module.demand.runs[0]
    assert run.standard is not None
    assert run.standard.op is Op.AVG
    assert np.unique(run.pattern.op).tolist() == [Op.AVG]
    assert "post avg @" in (tmp_path / "s.ten").read_text()
    assert set(collc.verify(tmp_path / name).checks.values()) == {"ok"}


@pytest.mark.parametrize("synthesizer", ["exact", "tacos", "symmetric", "forest", "exchange"])
def test_synthesizers_make_of_averages_what_they_make_of_sums(tmp_path: Path, synthesizer: str) -> None:
    program = PROGRAM.split("    emit", maxsplit=1)[0] + f"    synthesize {synthesizer}\n}}\n"
    times = [build(tmp_path, text)[0].time_ps for text in (program, program.replace('"avg"', '"sum"'))]
    assert times[0] == times[1]


def test_a_chunk_of_a_custom_collective_is_averaged(tmp_path: Path) -> None:
    program = """
import std.topologies
topology t = ring(4, bandwidth: 50GB/s, latency: 1us)
collective c(g: group, size: bytes) {
    chunk x: size
    pre  x at g
    post avg(x) at g[0]
}
schedule s on t { run c(t.npus, size: 1MiB) emit msccl("s.xml", profile: "old") }
"""
    (report,) = build(tmp_path, program)
    assert any(note.endswith(NOTE) for note in report.notes)


@pytest.mark.parametrize("op", ["max", "min", "prod"])
def test_a_plan_of_another_operation_is_refused_before_synthesis(tmp_path: Path, op: str) -> None:
    """MSCCL++ would add; nothing is written, and `lower` refuses it likewise."""
    text = PROGRAM.replace('"avg"', f'"{op}"')
    (tmp_path / "p.coll").write_text(text)
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path / "out", errors="report").schedules
    (message,) = report.diagnostics
    assert (message.code, message.message) == (
        "M0120",
        f"MSCCL++ only adds, and here a plan would have to compute {op}",
    )
    assert message.span is not None
    assert text[message.span.start :].startswith("emit mscclpp")
    assert report.time_ps is None
    assert not list((tmp_path / "out").glob("*.*"))
    (tmp_path / "p.coll").write_text(text.replace('    emit mscclpp("s.json")\n', ""))
    collc.compile(tmp_path / "p.coll", output=tmp_path / "out")
    assert f'redop="{op}"' in (tmp_path / "out" / "old.in.xml").read_text()
    with pytest.raises(SourceError) as caught:
        collc.lower(collc.load(tmp_path / "out" / "s.ten"), kind="mscclpp")
    assert [one.code for one in caught.value.diagnostics] == ["M0120"]
