"""The remark that another number of chunks could be better: where it is made, and that it is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import collc
from collc.ten.module import Module

HEAD = "import std.topologies\nimport std.collectives\n"
DAMAGED = HEAD + (
    "topology t = fully_connected(8, bandwidth: 50GB/s, latency: 0.7us) without { link 0 <-> 1 }\n"
    'schedule s on t { run RUN synthesize tacos(link_model: "pipelined") }\n'
)
RING = HEAD + (
    "topology t = ring(4, bandwidth: 50GB/s, latency: 1us)\nschedule s on t { run RUN synthesize tacos(seed: 1) }\n"
)


def remarks(program: str, run: str, **options) -> list[str]:
    report = collc.compile_text(program.replace("RUN", run), **options)["s"]
    assert isinstance(report.module, Module)
    return [note for note in report.notes if "per block takes less than" in note]


def test_it_names_a_number_that_reaches_what_one_chunk_cannot() -> None:
    """With one chunk the pair without a link needs two whole hops."""
    run = "all_gather(t.npus, size: 256MiB)"
    (remark,) = remarks(DAMAGED, run)
    number = int(re.findall(r"try chunks: (\d+) or chunks: auto", remark)[0])
    one = collc.compile_text(DAMAGED.replace("RUN", run))["s"]
    other = collc.compile_text(DAMAGED.replace("RUN", run), chunks=number)["s"]
    assert other.bound_ps < 0.95 * one.bound_ps
    assert f"takes less than {collc.base.units.format_time(one.bound_ps)}" in remark
    assert f"with {number} the bound is {collc.base.units.format_time(other.bound_ps)}" in remark
    assert remarks(DAMAGED, run, chunks=number) == []


def test_it_names_fewer_chunks_where_latency_decides() -> None:
    (remark,) = remarks(RING, "all_gather(t.npus, size: 4KiB, chunks: 16)")
    assert remark.startswith("no schedule with 16 chunks per block takes less than ")
    assert remark.endswith("try chunks: 1 or chunks: auto")


@pytest.mark.parametrize(
    "run",
    [
        "all_gather(t.npus, size: 64MiB, chunks: 2)",  # nothing to gain
        "all_gather(t.npus, 4KiB, 16) run all_gather(t.npus, 4KiB, 8)",  # no one number
        "all_gather(t.npus, size: 20B)",  # no other number divides
    ],
)
def test_elsewhere_there_is_none(run: str) -> None:
    assert remarks(RING, run) == []


def test_on_large_networks_it_names_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    run = "all_gather(t.npus, size: 256MiB)"
    monkeypatch.setattr("collc.application.chunk_advice.MOST_WORK", 31)
    (remark,) = remarks(DAMAGED, run)
    report = collc.compile_text(DAMAGED.replace("RUN", run))["s"]
    less = int(100 * (1 - report.ideal_ps / report.bound_ps))
    assert remark.endswith(f"; the bound for any number of chunks is {less} % less: try chunks: auto")
    assert remarks(RING, "all_gather(t.npus, size: 20B)") == [], "no other number divides"


GROUP = HEAD + (
    "import std.clusters\ntopology t = dgx_h100(2)\n"
    "schedule s on t { run RUN emit msccl }\n"
    "group g = [t.npus[15], t.npus[3], t.npus[8], t.npus[1]]\n"
)


def test_a_network_without_the_npus_outside_a_group_is_named_and_gets_a_number(tmp_path: Path) -> None:
    """It is not one with direct links in place of switches."""
    run = "all_reduce(g, size: 8MiB)"
    (remark,) = remarks(GROUP, run, output=tmp_path)
    assert "us, between members of the group only, but with 4 the bound is " in remark
    one = collc.compile_text(GROUP.replace("RUN", run), output=tmp_path)["s"]
    other = collc.compile_text(GROUP.replace("RUN", run), chunks=4, output=tmp_path)["s"]
    assert other.bound_ps < 0.95 * one.bound_ps
    assert one.bound.endswith("}, between members of the group only")


def test_an_unwound_network_is_named() -> None:
    program = HEAD + (
        "topology t = unwound(switched(8, bandwidth: 50GB/s, latency: 0.7us), degree: 2)\n"
        "schedule s on t { run RUN synthesize tacos }\n"
    )
    (remark,) = remarks(program, "all_gather(t.npus, size: 256MiB)")
    assert "ms, with direct links in place of switches, but with " in remark
