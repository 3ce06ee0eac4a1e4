"""Run files hold what MSCCL files hold, are read back and checked, and run over every transport."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import collc
from collc.base.diagnostics import CheckFailed
from collc.msccl.check import check_file
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import parse_file, read_file
from collc.msccl.running.run_file import run_file
from collc.runtime.run_program import MAGIC, RunProgram

PROGRAM = """
import std.topologies
import std.collectives
topology t = hypercube(2, bandwidth: 50GB/s, latency: 1us)
schedule s on t {
    run RUN
    synthesize tacos
    emit run(OPTIONS)
    emit msccl
}
"""
RUNS = {
    "allreduce": "all_reduce(t.npus, size: 64KiB, chunks: 2)",
    "allgather": "all_gather(t.npus, size: 64KiB, chunks: 2)",
    "reducescatter": "reduce_scatter(t.npus, size: 64KiB, chunks: 2)",
    "alltoall": "all_to_all(t.npus, size: 64KiB)",
    "broadcast": "broadcast(t.npus, root: 1, size: 64KiB, chunks: 4)",
    "reduce": "reduce(t.npus, root: 2, size: 64KiB, chunks: 4)",
    "gather": "gather(t.npus, root: 3, size: 64KiB)",
    "scatter": "scatter(t.npus, root: 1, size: 64KiB)",
}


def compiled(tmp_path: Path, run: str, options: str = "") -> Path:
    collc.compile_text(PROGRAM.replace("RUN", run).replace("OPTIONS", options), output=tmp_path)
    return tmp_path / "s.run"


def reread(path: Path) -> RunProgram:
    return RunProgram.from_bytes(path.read_bytes())


@pytest.mark.parametrize("coll", RUNS)
def test_every_collective_runs_and_equals_its_xml(tmp_path, coll):
    path = compiled(tmp_path, RUNS[coll])
    program, xml = (read_file(file, "executor", Findings()) for file in (path, tmp_path / "s.msccl"))
    assert program.waits == xml.waits
    assert np.array_equal(program.chunks, xml.chunks)
    for name in ("kind", "srcbuf", "dstbuf", "srcoff", "dstoff", "cnt"):
        used = program.steps.kind > 2 if name.startswith("src") else program.steps.kind > 0
        assert np.array_equal(getattr(program.steps, name)[used], getattr(xml.steps, name)[used]), name
    assert (program.coll, program.nchunksperloop, program.profile) == (coll, xml.nchunksperloop, "run")
    for transport in ("memory", "threads"):
        reports = run_file(path, transport=transport, dtype="int32")
        assert reports
        assert all(report.ok for report in reports)


@pytest.mark.parametrize("coll", ["allreduce", "scatter"])
def test_over_tcp(tmp_path, coll):
    reports = run_file(compiled(tmp_path, RUNS[coll]), count=4096, transport="tcp", dtype="float64")
    assert all(report.ok for report in reports)


def test_averages_are_divided(tmp_path):
    path = compiled(tmp_path, RUNS["allreduce"].replace(")", ', op: "avg")'))
    assert [report.op for report in run_file(path, dtype="float64")] == ["avg", "avg"]
    for transport in ("memory", "tcp"):
        assert all(report.ok for report in run_file(path, dtype="int64", transport=transport))
        assert all(report.ok for report in run_file(tmp_path / "s.msccl", op="avg", transport=transport))


def test_what_a_file_says(tmp_path):
    program = reread(compiled(tmp_path, RUNS["broadcast"], 'sizes: 1KiB .. 1MiB, placement: "out", instances: 2'))
    assert (program.sizes, program.root, program.out_of_place, program.in_place) == ((1024, 2**20), 1, True, False)
    assert (program.chunk_bytes, program.chunks_per_loop, program.ranks) == (2**13, 8, 4)
    assert program.npus == ("npu[0]", "npu[1]", "npu[2]", "npu[3]")
    assert program.time_ps >= program.when.max() > 0
    again = RunProgram.from_bytes(program.to_bytes())
    assert again.to_bytes() == program.to_bytes() == (tmp_path / "s.run").read_bytes()


def test_from_python(tmp_path):
    text = PROGRAM.replace("RUN", RUNS["allgather"]).replace("OPTIONS", "")
    report = collc.compile_text(text, output=tmp_path)["s"]
    lowered = collc.lower(report, kind="run", placement="out")
    assert lowered.checks == dict.fromkeys(("contract", "result", "deadlock", "race"), "ok")
    assert lowered.data.startswith(MAGIC)
    with pytest.raises(ValueError, match="no text"):
        lowered.text  # noqa: B018
    lowered.save(tmp_path / "again.run")
    assert collc.verify(tmp_path / "again.run").ok
    assert collc.verify(lowered).kind == "run"
    assert collc.run(lowered, transport="threads").ok


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[: len(MAGIC)] + b"\x02" + data[len(MAGIC) + 1 :], "version 2"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "SHA-256 differs"),
        (lambda data: data[:100], "SHA-256 differs"),
        (lambda data: MAGIC, "only its beginning"),
    ],
)
def test_damaged_files(tmp_path, damage, message):
    path = compiled(tmp_path, RUNS["allgather"])
    path.write_bytes(damage(path.read_bytes()))
    verdict = check_file(path)
    assert not verdict.ok
    assert verdict.findings[0].code == "X0108"
    with pytest.raises(CheckFailed, match=message):
        read_file(path, "executor", Findings())


def test_tables_that_contradict_one_another(tmp_path):
    program = reread(compiled(tmp_path, RUNS["allgather"]))
    steps, blocks = program.steps.copy(), program.blocks.copy()
    steps[0, 1] = 99
    blocks[-1, 0] = 4
    for changes in ({"steps": steps}, {"blocks": blocks}, {"steps": program.steps[::-1]}, {"npus": ()}):
        with pytest.raises(ValueError, match="inconsistent"):
            RunProgram.from_bytes(dataclasses.replace(program, **changes).to_bytes())


@pytest.mark.parametrize(
    ("column", "value", "check"), [(3, 1, "result"), (6, 9, "contract"), (7, 0, "deadlock"), (5, 0, "result")]
)
def test_mutants_fail(tmp_path, column, value, check):
    """Another source or target, a count beyond the buffer, a step that waits for itself."""
    program = reread(compiled(tmp_path, RUNS["allreduce"]))
    row = int(np.flatnonzero((program.steps[:, 1] == 0) if column in (3, 7) else (program.steps[:, 1] == 1))[-1])
    steps = program.steps.copy()
    steps[row, column] = (steps[row, column] + value) % 8 if column in (3, 5) else value
    if column == 5:
        steps[row, 5] = (program.steps[row, 5] + 1) % 8
    if column == 7:
        first = int(program.first[np.searchsorted(program.blocks[:, 0], program.blocks[steps[row, 0], 0])])
        steps[row, 7:9] = steps[row, 0] - steps[first, 0], row - int(program.first[steps[row, 0]])
        steps[row, 9] = 1
    path = tmp_path / "mutant.run"
    path.write_bytes(dataclasses.replace(program, steps=steps).to_bytes())
    verdict = check_file(path)
    assert verdict.checks[check] == "failed", verdict.checks
    assert "line" not in str(verdict.findings[0].location)
    assert parse_file(path, "executor", Findings()) is not None
