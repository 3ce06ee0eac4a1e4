"""The remark that another number of chunks could be better: who gets it, and that it is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import collc
from benchmarks.throughput import MI250
from collc.application.compile import chunk_search
from collc.base.units import format_time
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
    monkeypatch.setattr("collc.application.compile.chunk_search.MOST_WORK", 31)
    (remark,) = remarks(DAMAGED, run)
    report = collc.compile_text(DAMAGED.replace("RUN", run))["s"]
    less = int(100 * (1 - report.ideal_ps / report.bound_ps))
    assert remark.endswith(f"; the bound for any number of chunks is {less} % less: try chunks: auto")
    assert remarks(RING, "all_gather(t.npus, size: 20B)") == [], "no other number divides"


def estimates(program: str, run: str) -> list[str]:
    report = collc.compile_text(program.replace("RUN", run))["s"]
    return [note for note in report.notes if "may give about" in note]


@pytest.mark.slow
def test_it_names_more_chunks_where_the_schedule_waits_for_whole_ones() -> None:
    """The bound of 4 chunks is less than 5 % above that of any number, but the schedule is far from it."""
    text = f"import std.collectives\n{MI250}topology t = mi250(2)\n"
    text += 'schedule s on t { run RUN synthesize forest(link_model: "pipelined") }\n'
    run = "all_gather(t.npus, size: 1GiB, chunks: {})"
    (remark,) = estimates(text, run.format(4))
    number = int(re.findall(r"try chunks: (\d+) or chunks: auto", remark)[0])
    few, more = (collc.compile_text(text.replace("RUN", run.format(chunks)))["s"] for chunks in (4, number))
    assert few.ideal_ps > 0.95 * few.bound_ps
    assert f"takes {format_time(few.time_ps - few.bound_ps)} more than the bound" in remark
    estimated = float(re.findall(r"about ([0-9.]+)ms", remark)[0]) * 1e9
    assert 0.9 * estimated < more.time_ps < 0.95 * few.time_ps


def test_it_estimates_nothing_where_no_chunk_is_passed_on_or_the_bound_is_near() -> None:
    full = HEAD + "topology t = fully_connected(8, bandwidth: 50GB/s, latency: 0.7us)\nschedule s on t { run RUN }\n"
    assert estimates(full, "all_reduce(t.npus, size: 1MiB, chunks: 1)") == []
    assert estimates(RING, "all_gather(t.npus, size: 64MiB, chunks: 2)") == []
    alone = HEAD + "topology t = ring(2, 50GB/s, 1us) without { npu 1 }\nschedule s on t { run RUN }\n"
    assert estimates(alone, "all_gather(t.npus, size: 64MiB, chunks: 2)") == []
    by_hand = HEAD + (
        "import std.algorithms\ntopology t = ring(8, bandwidth: 50GB/s, latency: 0.7us)\n"
        "schedule s on t { run RUN using ring }\n"
    )
    assert estimates(by_hand, "all_gather(t.npus, size: 64MiB, chunks: 1)") == []


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


def test_the_ideal_is_that_of_the_switches_that_were_unwound() -> None:
    """On the ring in place of a switch, what NPU 2 sends to NPU 0 passes NPU 3, which has a tenth of the rate."""
    program = HEAD + (
        "topology t {\n    npu n[4]\n    switch w\n"
        "    for i in 0..3 { link n[i] <-> w (bandwidth: 50GB/s, latency: 0.7us) }\n"
        "    link n[3] <-> w (bandwidth: 5GB/s, latency: 0.7us)\n}\n"
        "schedule s on t { run broadcast([t.n[2], t.n[0]], size: 256MiB) }\n"
    )
    own = collc.compile_text(program, passes="pccl,invert")["s"]
    unwound = collc.compile_text(program, passes="unwind,tacos,invert")["s"]
    assert (unwound.ideal_ps, unwound.ideal) == (own.ideal_ps, own.ideal)
    assert unwound.bound.endswith("with direct links in place of switches")
    assert unwound.bound_ps > own.bound_ps


@pytest.mark.parametrize(("network", "links"), [("ring(4", 1), ("line(5", 3), ("fully_connected(4", 0)])
def test_a_chunk_waits_on_all_links_of_the_longest_path_but_one(network: str, links: int) -> None:
    """A chunk of 1 MB takes 20 us on a link; on its last link nobody waits for it to be passed on."""
    text = RING.replace("ring(4", network).replace("RUN", f"all_gather(t.npus, size: {network[-1]}MB)")
    module = collc.compile_text(text)["s"].module
    assert module is not None
    assert chunk_search._longest_wait(module) == links * 20_000_000
