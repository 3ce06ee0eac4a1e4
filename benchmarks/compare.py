"""`python -m benchmarks compare [WORD]`: the evaluations of the thesis as tables, beside its numbers.

Schedules of `auto` against the textbook algorithms of `collc compare`, all simulated with queues at links. The thesis:
Won, "Modeling and Optimization of Distributed Machine Learning Systems" (TACOS, PCCL); its baselines send whole
messages in ASTRA-sim, and its ideal is bytes over the bandwidth of the NPU with the fewest links. GiB/s, 0.5 us.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from collc.application.compare.comparing import Comparison, compare
from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import CompileReport
from collc.application.compile.planning import BuildInput
from collc.application.settings import Settings
from collc.base.diagnostics import SourceFile
from collc.source.elaboration.elaborate import load_program

_LATENCY: Final = "latency: 0.5us"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A network, what runs on it, and what the thesis says of it."""

    name: str
    network: str
    runs: str
    says: str


def _links(rate: int) -> str:
    return f"bandwidth: {rate}GiB/s, {_LATENCY}"


def _rfs(switched: int) -> str:
    """The thesis' 3D Ring-FC-Switch network of 8 * switched NPUs."""
    return f"ring(2, {_links(200)}) * fully_connected(4, {_links(100)}) * switched({switched}, {_links(50)})"


def _all_reduce(size: str) -> str:
    return f"run all_reduce(t.npus, size: {size}, chunks: 4)"


_BASELINES: Final = "> 90 % of ideal; 2.56 x over ring and direct on average"
_SCALING: Final = "ring 4.8 to 7.1 x, direct 4 to 36 x slower"

EVALUATIONS: Final = (
    Evaluation(
        "dragonfly 5x4 (400/200)",
        f"dragonfly(5, 4, local: 400GiB/s, global: 200GiB/s, {_LATENCY})",
        "run all_reduce(t.npus, size: 1000MiB, chunks: 4)",
        _BASELINES,
    ),
    Evaluation(
        "2D switch 8x4 (300/25)",
        f"switched(8, {_links(300)}) * switched(4, {_links(25)})",
        _all_reduce("1GiB"),
        _BASELINES,
    ),
    Evaluation("3D RFS 2x4x8 (200/100/50)", _rfs(8), _all_reduce("1GiB"), _BASELINES),
    *(Evaluation(f"3D RFS, {8 * n} NPUs", _rfs(n), _all_reduce("1GiB"), _SCALING) for n in (2, 4, 8, 16)),
    Evaluation("2D mesh 8x8", f"mesh2d(8, 8, {_links(50)})", _all_reduce("1GiB"), "near the ideal"),
    Evaluation("2D torus 8x8", f"torus2d(8, 8, {_links(50)})", _all_reduce("1GiB"), "near the ideal"),
    Evaluation("3D torus 4x4x4", f"torus3d(4, 4, 4, {_links(50)})", _all_reduce("1GiB"), "near the ideal"),
    Evaluation("hypercube 6", f"hypercube(6, {_links(50)})", _all_reduce("1GiB"), "near the ideal"),
    *(
        Evaluation(
            f"All-to-All, {n} of 8 rows, 8x8 mesh",
            f"mesh2d(8, 8, {_links(50)})",
            " ".join(f"run all_to_all(t.npu[{row}, *], size: 128MiB, chunks: 16)" for row in rows),
            "2.33 to 3.03 x over direct",
        )
        for n, rows in ((1, [3]), (2, [2, 5]), (4, [0, 2, 5, 7]), (8, list(range(8))))
    ),
)
"""What the thesis evaluates. Rows of the mesh are the process groups."""

SHOWN: Final = ("ring", "bidirectional_ring", "direct", "recursive_halving_doubling", "hierarchical", "themis")


def compared(evaluation: Evaluation) -> tuple[Comparison, float]:
    """The comparison, and the CPU seconds of the synthesis."""
    text = f"""
        import std.topologies
        import std.collectives
        topology t = {evaluation.network}
        schedule s on t {{ {evaluation.runs} synthesize auto(link_model: "pipelined") }}
    """
    request = replace(load_program(SourceFile(evaluation.name, text)).schedules[0], emits=())
    began = time.process_time()
    report = build_schedule(BuildInput(request, Settings(keep_modules=True)))
    CompileReport((report,)).raise_if_failed()
    seconds = time.process_time() - began
    return compare(report.kept_module(), request.network, lambda _share, _phase: None), seconds


def rows(part: str = "") -> Iterator[str]:
    """Lines of the table: the share of the ideal, and how many times longer each algorithm takes than the schedule."""
    head = " ".join(f"{name[:12]:>12}" for name in SHOWN)
    yield f"{'evaluation':34} {'time (us)':>10} {'of ideal':>9} {head} {'cpu (s)':>8}  the thesis"
    for evaluation in EVALUATIONS:
        if part not in evaluation.name:
            continue
        found, seconds = compared(evaluation)
        times = {one.name: one.time_ps or 0 for one in found.alternatives[1:]}
        own = found.own_ps
        cells = [f"{times[name] / own:11.2f}x" if times[name] else f"{'-':>12}" for name in SHOWN]
        share = f"{100 * found.ideal_ps / own:7.1f} %"
        columns = f"{own / 1e6:10.1f} {share:>9} {' '.join(cells)} {seconds:8.1f}"
        yield f"{evaluation.name:34} {columns}  {evaluation.says}"


def main(words: list[str]) -> int:
    """Print the table; words: of the names of evaluations."""
    for line in rows(words[0] if words else ""):
        print(line, flush=True)
    return 0
