"""`python -m benchmarks mate [WORD]`: All-to-Alls on tori with a dead link, beside what MATE publishes.

"Optimizing All-to-All ... Fault Tolerance on Torus Networks" (ISCA 2025) simulates tori of two to four dimensions, with
links of 32 GB/s and 100 ns, for 8 KB to 2 GB, and gives means of times relative to Ring + pipeline without a failure.
Its shapes may be others than these. The baseline here is a formula, at most what rings of one direction take: over each
link go (k - 1) / 2 of the buffer of an NPU in a dimension of k NPUs, in all dimensions at once, and a message crosses k
- 1 hops of each.

Speedups are this time by that of `symmetric`, with one chunk a block. `mean` is the geometric mean of a network. With
WORD only networks that have it in their names. Exit code 1 if a schedule is wrong.
"""

from __future__ import annotations

import time
from math import exp, log
from typing import Final

import collc

SHAPES: Final = ((4, 4), (8, 8), (4, 4, 4), (4, 4, 8), (4, 4, 4, 4))
SIZES: Final = (1 << 13, 1 << 17, 1 << 21, 1 << 25, 1 << 31)
"""Bytes of the buffer of an NPU."""

FAILURES: Final = ("none", "a link", "a chip")
PUBLISHED: Final = (
    ("HalfRing + DimRotation", "none", 2.28), ("FoldedRing", "a link", 0.55),
    ("FoldedRing + DimRotation", "a link", 0.67), ("MATE", "a link", 1.36), ("MATEe", "a link", 1.37),
)  # fmt: skip
"""Means over all of MATE's networks and sizes."""

RATE, LATENCY = 32e9, 100e-9
"""Bytes a second, and seconds."""


def program(shape: tuple[int, ...], failure: str, size: int) -> str:
    """An All-to-All on a torus."""
    ring, zeros = "ring({}, bandwidth: 32GB/s, latency: 100ns)", ["0"] * len(shape)
    near, far = (f"npu[{', '.join([first, *zeros[1:]])}]" for first in "01")
    parts = {"none": "", "a link": f"link {near} <-> {far}", "a chip": f"npu {near}"}
    lost = f"without {{ {parts[failure]} }}" if parts[failure] else ""
    return f"""import std.collectives
import std.topologies
topology t = {" * ".join(map(ring.format, shape))}
topology hurt = t {lost}
schedule s on hurt {{
    run all_to_all(hurt.npus, size: len(hurt.npus) * ({size}B // len(t.npus)))
    synthesize symmetric(link_model: "pipelined")
}}
"""


def ring_time(shape: tuple[int, ...], size: int) -> float:
    """Seconds of Ring + pipeline without a failure, at least."""
    return max(size * (each - 1) / 2 / RATE for each in shape) + LATENCY * sum(each - 1 for each in shape)


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a schedule is wrong."""
    sizes = [f"{size >> 10:,} KiB" for size in SIZES]
    print(f"| torus | failure | {' | '.join(sizes)} | mean | CPU |\n|{'---|' * (4 + len(SIZES))}")
    wrong = False
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        if any(word not in name for word in arguments):
            continue
        for failure in FAILURES:
            begin, speedups = time.process_time(), list[float]()
            for size in SIZES:
                report = collc.compile_text(program(shape, failure, size)).schedules[0]
                assert report.time_ps is not None
                wrong |= set(report.checks.values()) != {"ok"}
                speedups.append(ring_time(shape, size) * 1e12 / report.time_ps)
            mean = exp(sum(map(log, speedups)) / len(speedups))
            cells = " | ".join(f"{each:.2f}" for each in (*speedups, mean))
            print(f"| {name} | {failure} | {cells} | {time.process_time() - begin:.1f} s |", flush=True)
    for name, failure, mean in PUBLISHED:
        print(f"| MATE (ISCA 2025): {name} | {failure} |{' |' * len(SIZES)} {mean} | |")
    return int(wrong)
