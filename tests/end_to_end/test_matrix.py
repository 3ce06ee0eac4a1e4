"""The standard collectives on the standard networks: programs are compiled to MSCCL XML, which is verified and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.msccl.running.run_file import run_file
from tests.end_to_end.programs import (
    FILE_CHECKS,
    HEAD,
    LINK,
    STEP,
    SYNTHESIZERS,
    USUAL,
    assert_all_checks_ok,
    assert_file_ok,
    build,
)

COLLECTIVES = {"all_gather": "allgather", "reduce_scatter": "reducescatter", "all_reduce": "allreduce"}

SHAPES = {
    "ring": {2: f"ring(2, {LINK})", 4: f"ring(4, {LINK})", 8: f"ring(8, {LINK})", 16: f"ring(16, {LINK})"},
    "mesh": {
        2: f"mesh2d(2, 1, {LINK})",
        4: f"mesh2d(2, 2, {LINK})",
        8: f"mesh2d(4, 2, {LINK})",
        16: f"mesh2d(4, 4, {LINK})",
    },
    "torus": {
        2: f"torus2d(2, 1, {LINK})",
        4: f"torus2d(2, 2, {LINK})",
        8: f"torus2d(4, 2, {LINK})",
        16: f"torus2d(4, 4, {LINK})",
    },
    "hypercube": {2**d: f"hypercube({d}, {LINK})" for d in (1, 2, 3, 4)},
    "fully_connected": {n: f"fully_connected({n}, {LINK})" for n in (2, 4, 8, 16)},
}


def program(topology: str, npus: int, chunks: tuple[int, ...]) -> str:
    """One schedule for each collective and number of chunks, with blocks of 1 MiB and more."""
    text = HEAD + f"topology t = {topology}\n"
    for name in COLLECTIVES:
        for k in chunks:
            text += (
                f"schedule {name}_{k} on t {{ run {name}(t.npus, size: {npus * k}MiB, chunks: {k})"
                f' {USUAL} emit msccl("{name}_{k}.xml") }}\n'
            )
    return text


def check_all(folder: Path, text: str, count: int) -> None:
    schedules = build(folder, text)
    assert len(schedules) == count
    for schedule in schedules:
        assert_all_checks_ok(schedule, *FILE_CHECKS)
        assert schedule.time_ps is not None
        assert schedule.bound_ps is not None
        assert schedule.time_ps >= schedule.bound_ps > 0
        (path,) = schedule.files
        assert_file_ok(path, COLLECTIVES[schedule.name.rpartition("_")[0]])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 5, 6])
def test_dgx1(tmp_path: Path, chunks: int) -> None:
    check_all(tmp_path, program("dgx1()", 8, (chunks,)), 3)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("family", "npus"), [(family, npus) for family in SHAPES for npus in SHAPES[family]])
def test_usual_networks(tmp_path: Path, family: str, npus: int) -> None:
    check_all(tmp_path, program(SHAPES[family][npus], npus, (1, 2)), 6)


ROOTED = {
    "broadcast": "broadcast(t.npus, size: 4MiB, chunks: 4, root: {root})",
    "reduce": "reduce(t.npus, size: 4MiB, chunks: 4, root: {root})",
    "scatter": "scatter(t.npus, size: 16MiB, chunks: 2, root: {root})",
    "gather": "gather(t.npus, size: 16MiB, chunks: 2, root: {root})",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("topology", ["dgx1()", f"ring(8, {LINK})", f"mesh2d(4, 2, {LINK})", f"hypercube(3, {LINK})"])
def test_rooted_collectives_and_all_to_all(tmp_path: Path, topology: str) -> None:
    text = HEAD + f"topology t = {topology}\n"
    for name, run in ROOTED.items():
        for root in (0, 5):
            text += f"schedule {name}_{root} on t {{ run {run.format(root=root)} {USUAL} emit msccl }}\n"
    text += f"schedule all_to_all on t {{ run all_to_all(t.npus, size: 16MiB, chunks: 2) {USUAL} emit msccl }}\n"
    for schedule in build(tmp_path, text):
        assert_all_checks_ok(schedule, *FILE_CHECKS)
        name, _, root = schedule.name.rpartition("_")
        if name in ROOTED:
            assert_file_ok(schedule.files[0], name, int(root))
        else:
            assert_file_ok(schedule.files[0], "alltoall")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("op", ["sum", "max", "min", "prod", "avg"])
def test_every_reduction(tmp_path: Path, op: str) -> None:
    run = f'all_reduce(t.npus, size: 8MiB, op: "{op}")'
    text = HEAD + f"topology t = dgx1()\nschedule s on t {{ run {run} {USUAL} emit msccl }}"
    (schedule,) = build(tmp_path, text)
    assert_all_checks_ok(schedule, *FILE_CHECKS)
    runs = run_file(schedule.files[0], op="sum" if op == "avg" else op, runs=3)
    assert all(report.ok for report in runs)


THREE = """
topology three(bandwidth: rate, latency: time) {
    npu n[3]
    link n[0] -> n[1] (bandwidth: bandwidth, latency: latency)
    link n[0] -> n[2] (bandwidth: bandwidth, latency: latency)
    link n[1] -> n[2] (bandwidth: bandwidth, latency: latency)
    link n[2] -> n[0] (bandwidth: bandwidth, latency: latency)
}
"""

OPTIMA = [
    (f"ring(4, {LINK})", 4, 2, 3),
    (f"ring(8, {LINK})", 8, 1, 4),
    (f"mesh2d(2, 2, {LINK})", 4, 2, 3),
    (f"mesh2d(3, 3, {LINK})", 9, 1, 4),
    (f"mesh2d(4, 4, {LINK})", 16, 1, 8),
    (f"torus2d(3, 3, {LINK})", 9, 1, 2),
    (f"hypercube(3, {LINK})", 8, 3, 7),
    ("dgx1(50GiB/s, 0.5us)", 8, 2, 3),
    ("dgx1(50GiB/s, 0.5us)", 8, 6, 7),
    (f"fully_connected(4, {LINK})", 4, 1, 1),
    (f"ring(4, {LINK}, one_way: true)", 4, 1, 3),
    (f"three({LINK})", 3, 1, 2),
]
"""Topology, NPUs, chunks per NPU, and the fewest steps of an All-Gather of them, proved by SMT by others."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
@pytest.mark.parametrize(("topology", "npus", "chunks", "steps"), OPTIMA)
def test_known_optima(tmp_path: Path, topology: str, npus: int, chunks: int, steps: int, synthesizer: str) -> None:
    """An All-Gather takes the fewest steps possible, and so does a Reduce-Scatter on the reversed network."""
    options = f"size: {npus * chunks}MiB, chunks: {chunks}) synthesize {synthesizer}"
    text = HEAD + THREE + f"topology t = {topology}\ntopology back = reversed(t)\n"
    text += f"schedule gather on t {{ run all_gather(t.npus, {options} }}\n"
    text += f"schedule scatter on back {{ run reduce_scatter(back.npus, {options} }}"
    for schedule in build(tmp_path, text):
        assert_all_checks_ok(schedule)
        assert (schedule.steps, schedule.time_ps) == (steps, steps * STEP)
        assert schedule.bound_ps is not None
        assert schedule.bound_ps <= steps * STEP
