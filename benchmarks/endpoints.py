"""`python -m benchmarks endpoints [-o FILE.svg]`: All-Reduce bandwidth against the memory bandwidth for communication.

A 4x4x4 torus with 6 links of 25 GB/s and 0.5 us at each NPU, 64 MiB, link model `pipelined`; kernels on the NPU move
1.5 bytes of memory for each byte sent (baseline), a collective engine 4/9 (offload), 3.375 times less (Rashidi et al.,
ACE, ISCA 2021). Schedules are verified, and replayed by the simulator.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collc.application.simulate.module_simulation import simulated_module
from collc.base.atomic_files import write_file
from collc.base.diagnostics import SourceFile
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.simulation.timing import ExactTiming
from collc.source.elaboration.elaborate import load_program
from collc.synthesis.bounds import ideal_bound
from collc.ten.endpoint import MEMORY_TRAFFIC
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule

MEMORY: Final = (15, 30, 60, 90, 120, 150, 180, 225, 300)
"""GB/s of memory for communication."""

SIZE: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Point:
    """One schedule. memory, feeds: GB/s, what an NPU reads and what it can send from it. time, simulated, ideal:
    picoseconds. cpu: seconds. right: whether it is verified.
    """

    mode: str
    memory: int
    feeds: float
    time: int
    simulated: int
    ideal: int
    cpu: float
    right: bool

    @property
    def bandwidth(self) -> float:
        """Bus bandwidth in GB/s as nccl-tests define it: 2 (n - 1) / n bytes for each byte of the buffer."""
        return bus_bandwidth(self.time)


def bus_bandwidth(picoseconds: int) -> float:
    """Bus bandwidth of 64 NPUs in GB/s."""
    return 2 * 63 / 64 * SIZE * 1000 / picoseconds


def program(mode: str, memory: int) -> str:
    """The program of a point."""
    torus = "torus3d(4, 4, 4, bandwidth: 25GB/s, latency: 0.5us)"
    return (
        "import std.topologies\nimport std.collectives\n"
        f'topology t = limited({torus}, memory: {memory}GB/s, endpoint: "{mode}")\n'
        f"schedule s on t {{ run all_reduce(t.npus, size: {SIZE}B) }}\n"
    )


def point(mode: str, memory: int, synthesizer: str = "tacos") -> Point:
    """Plan, verify and simulate one schedule."""
    request = load_program(SourceFile("endpoints.coll", program(mode, memory))).schedules[0]
    began = time.process_time()
    context = PassContext()
    module = Module("s", request.network, request.demand, LinkModel.PIPELINED)
    module = Invert().run(Synthesize(synthesizer).run(module, context), context)
    cpu = time.process_time() - began
    assert module.schedule is not None
    simulated = simulated_module(module, ExactTiming()).time
    ideal = ideal_bound(module.network, module.demand).time
    fed = request.network.endpoint_of(0).fed_by_memory
    assert fed is not None
    feeds = float(fed) / 1e9
    return Point(mode, memory, feeds, module.collective_time(), simulated, ideal, cpu, verify_schedule(module).ok)


def points(memory: Sequence[int] = MEMORY) -> Iterator[Point]:
    """All points, mode by mode."""
    for mode in MEMORY_TRAFFIC:
        for rate in memory:
            yield point(mode, rate)


def rows(found: Sequence[Point]) -> Iterator[str]:
    """The table, of which the first row is the head."""
    head = f"{'mode':9} {'memory':>7} {'feeds':>7} {'time us':>9} {'simulated':>9} {'bus GB/s':>9}"
    yield f"{head} {'of ideal':>8} {'cpu s':>6} right"
    for one in found:
        yield (
            f"{one.mode:9} {one.memory:7} {one.feeds:7.0f} {one.time / 1e6:9.1f} {one.simulated / 1e6:9.1f} "
            f"{one.bandwidth:9.1f} {one.ideal / one.time:8.1%} {one.cpu:6.1f} {'yes' if one.right else 'NO'}"
        )


def write_plot(found: Sequence[Point], path: Path) -> None:
    """Write the plot of all points as SVG."""
    from collc.pictures.charts import Axis, Series, line_chart

    series = [
        Series(mode, [(one.memory, one.bandwidth) for one in found if one.mode == mode]) for mode in MEMORY_TRAFFIC
    ]
    ideal = [
        Series(f"{mode}, ideal", [(one.memory, bus_bandwidth(one.ideal)) for one in found if one.mode == mode])
        for mode in MEMORY_TRAFFIC
    ]
    picture = line_chart(
        [*series, *ideal],
        title="All-Reduce of 64 MiB on a 4x4x4 torus",
        x=Axis("memory bandwidth for communication in GB/s"),
        y=Axis("bus bandwidth in GB/s"),
    )
    write_file(path, picture.file())


def main(arguments: Sequence[str]) -> int:
    """Print the table, and write the plot if one is asked for; 1 if a schedule is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks endpoints", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.svg", help="also write a plot")
    options = parser.parse_args(arguments)
    found: list[Point] = []
    for one in points():
        found.append(one)
        lines = list(rows(found))
        print("\n".join(lines if len(found) == 1 else lines[-1:]), flush=True)
    if options.output is not None:
        write_plot(found, options.output)
    return 0 if all(one.right for one in found) else 1
