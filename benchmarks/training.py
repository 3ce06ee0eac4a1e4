"""`python -m benchmarks training [WORD]`: training with synthesized against textbook collectives, as in section 5.6.4
of Won's thesis (ResNet-50 on a 3D torus and a 3D Ring-FC-Switch network).

An iteration takes the compute times of a workload of `std.workloads` plus, without overlap, its collectives as
`collc compare` simulates them: once with the schedules of `auto`, once with each textbook algorithm. Compute times are
those of one NPU, so that the workloads run as they are on 64 NPUs, all of which are data parallel. GiB/s, 0.5 us.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from benchmarks.compare import SHOWN, Evaluation, compared
from collc.base.resources import standard_library
from collc.source.elaboration.elaborate import load_program
from collc.ten.training import LOOPS, Workload

CHUNKS: Final = 4

_FAST, _MIDDLE, _SLOW = (f"bandwidth: {rate}GiB/s, latency: 0.5us" for rate in (200, 100, 50))

NETWORKS: Final = {
    "3D torus 4x4x4 (50)": (f"torus3d(4, 4, 4, {_SLOW})", 64),
    "3D RFS 2x4x8 (200/100/50)": (f"ring(2, {_FAST}) * fully_connected(4, {_MIDDLE}) * switched(8, {_SLOW})", 64),
}
"""The expression of each network, and its NPUs."""

WORKLOADS: Final = ("resnet50", "gnmt", "turing_nlg")
"""The workloads of std.workloads whose NPUs are all data parallel, with All-Reduces alone."""


@dataclass(slots=True)
class Iteration:
    """The time of one training iteration, in picoseconds.

    synthesized, ideal: with the schedules of `auto`, and with collectives as fast as their ideal bound. textbook: with
    each algorithm that runs. seconds: CPU time of the synthesis.
    """

    compute: int
    synthesized: int = 0
    ideal: int = 0
    textbook: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0


def iteration(workload: Workload, network: str, npus: int) -> Iteration:
    """The time of an iteration on a network whose NPUs are all data parallel.

    Sizes are rounded up to whole chunks; a tensor group of one NPU sends nothing. Raises ValueError for a workload with
    other than All-Reduces of the data group, or with overlap.
    """
    items = [item for layer in workload.layers for item in layer.traffic if item.group == "data"]
    alike = all(item.kind == "all_reduce" for item in items)
    if workload.tensor > 1 or not alike or workload.loop != LOOPS["no_overlap"]:
        raise ValueError(f"{workload.name} is not a data-parallel workload of All-Reduces without overlap")
    compute = round(sum(sum(layer.times) for layer in workload.layers))
    found = Iteration(compute, compute, compute)
    names: dict[str, int] = dict.fromkeys(SHOWN, compute)
    for size, count in Counter(item.size for item in items).items():
        whole = -(-size // (npus * CHUNKS)) * npus * CHUNKS
        run = f"run all_reduce(t.npus, size: {whole}B, chunks: {CHUNKS})"
        comparison, seconds = compared(Evaluation(workload.name, network, run, ""))
        times = {one.name: one.time_ps for one in comparison.alternatives[1:] if one.time_ps is not None}
        found.synthesized += count * comparison.own_ps
        found.ideal += count * comparison.ideal_ps
        found.seconds += seconds
        names = {name: total + count * times[name] for name, total in names.items() if name in times}
    found.textbook = names
    return found


@cache
def standard_workloads() -> dict[str, Workload]:
    """The workloads of std.workloads."""
    return {workload.name: workload for workload in load_program(standard_library()["workloads"]).workloads}


def rows(part: str = "") -> Iterator[str]:
    """Lines of the table: how many times longer an iteration takes with each algorithm than with the schedules."""
    head = " ".join(f"{name[:12]:>12}" for name in SHOWN)
    yield f"{'network':26} {'workload':11} {'compute':>10} {'iteration':>10} {'of ideal':>9} {head} {'cpu (s)':>8}"
    for name, (network, npus) in NETWORKS.items():
        for workload in WORKLOADS:
            if part in f"{name} {workload}":
                yield _row(name, workload, iteration(standard_workloads()[workload], network, npus))


def _row(network: str, workload: str, found: Iteration) -> str:
    def cell(name: str) -> str:
        time = found.textbook.get(name)
        return f"{'-':>12}" if time is None else f"{time / found.synthesized:11.2f}x"

    times = f"{found.compute / 1e9:8.3f}ms {found.synthesized / 1e9:8.3f}ms"
    share = f"{100 * found.ideal / found.synthesized:7.1f} %"
    return f"{network:26} {workload:11} {times} {share:>9} {' '.join(map(cell, SHOWN))} {found.seconds:8.1f}"


def main(words: Sequence[str]) -> int:
    """Print the table; words: of the names of networks or workloads."""
    for line in rows(words[0] if words else ""):
        print(line, flush=True)
    return 0
