"""The acceptance numbers of the public TACOS tests: All-Gather times that collc must reach, within 0.001 %.

Winkler et al., TACOS (MICRO 2024); https://github.com/astra-sim/tacos, tests. All equal the in-degree bound.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.end_to_end.programs import HEAD, SYNTHESIZERS, assert_all_checks_ok, build

GIB = 2**30

CASES = [
    ("mesh2d(5, 5, bandwidth: 50GiB/s, latency: 0.5us)", 25, 1, 1, "9606.00"),
    ("mesh2d(10, 10, bandwidth: 100GiB/s, latency: 1us)", 100, 1, 2, "5049.00"),
    ("mesh2d(7, 12, bandwidth: 100GiB/s, latency: 1us)", 84, 4, 3, "19966.27"),
    ("mesh3d(3, 3, 3, bandwidth: 50GiB/s, latency: 0.5us)", 27, 1, 1, "6671.17"),
    ("mesh3d(3, 4, 5, bandwidth: 50GiB/s, latency: 0.5us)", 60, 2, 2, "13353.33"),
    ("torus3d(3, 3, 3, bandwidth: 50GiB/s, latency: 0.5us)", 27, 1, 1, "3706.20"),
    (
        "line(5, bandwidth: 50GiB/s, latency: 0.5us) * line(5, bandwidth: 75GiB/s, latency: 0.5us)",
        25,
        1,
        1,
        "8005.00",
    ),
    ("uneven(8, 5, 80GiB/s, 35GiB/s, 1us)", 40, 1, 2, "8595.43"),
]
"""Topology, NPUs, GiB of the gathered output, chunks per NPU, microseconds."""

UNEVEN = """
topology uneven(width: int, height: int, along_x: rate, along_y: rate, latency: time) {
    npu npu[height, width]
    for y in 0..height, x in 0..width - 1 {
        link npu[y, x] <-> npu[y, x + 1] (bandwidth: along_x, latency: latency)
    }
    for y in 0..height - 1, x in 0..width {
        link npu[y, x] <-> npu[y + 1, x] (bandwidth: along_y, latency: latency)
    }
}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("synthesizer", SYNTHESIZERS)
@pytest.mark.parametrize(("topology", "npus", "gib", "chunks", "expected"), CASES)
def test_public_numbers(
    tmp_path: Path, topology: str, npus: int, gib: int, chunks: int, expected: str, synthesizer: str
) -> None:
    pieces = npus * chunks
    size = -(-gib * GIB // pieces) * pieces
    text = (
        HEAD + UNEVEN + f"topology t = {topology}\n"
        f"schedule s on t {{ run all_gather(t.npus, size: {size}B, chunks: {chunks}) synthesize {synthesizer} }}"
    )
    (schedule,) = build(tmp_path, text)
    assert_all_checks_ok(schedule)
    assert schedule.time_ps is not None
    wanted = Fraction(expected) * 10**6
    # Written with two decimals: half of the last one is more than 0.001 % of none of them.
    assert abs(schedule.time_ps - wanted) <= wanted / 100_000
