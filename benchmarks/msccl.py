"""Lowering to MSCCL: time, memory and quality. Run: python -m benchmarks.msccl"""

from __future__ import annotations

import io
import resource
import time

import numpy as np

from collc.emit.msccl import write_xml
from collc.msccl.lower import lower
from collc.msccl.quality import quality
from collc.synthesis.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support


def direct(n: int) -> Module:
    """All-to-All on a fully connected network, everything at once."""
    network, demand = support.fully_connected(n), support.all_to_all(list(range(n)))
    links = np.arange(network.link_count, dtype=np.int32)
    rows = Transfers.of(network.source * n + network.target, links, np.zeros(len(links), np.int64))
    return Module(f"direct{n}", network, demand).with_schedule(RowSchedule(LinkModel.STORE, rows), "direct")


def synthesized() -> list[Module]:
    """Standard collectives on small networks."""
    made: list[Module] = []
    for network in (support.ring(8), support.grid(4, 4, wrap=True), support.dgx1(), support.hypercube(4)):
        for collective in (support.all_gather, support.reduce_scatter, support.all_reduce, support.all_to_all):
            demand = collective(list(range(network.npu_count)), chunks=2)
            module = Module(f"{network.name} {collective.__name__}", network, demand)
            made.append(join(solve(module, lambda task: tacos(task, Effort()))))
    return made


def main() -> None:
    """Print one line a module."""
    for module in [*synthesized(), direct(64), direct(256)]:
        start = time.perf_counter()
        program = lower(module)
        out = io.BytesIO()
        write_xml(program, out)
        seconds = time.perf_counter() - start
        q = quality(program, module)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(
            f"{module.name:24} {seconds:7.2f} s {len(out.getvalue()):9} B {peak:5} MiB  steps {q.steps:3} "
            f"tbs {q.threadblocks:3} channels {q.channels:2} scratch {q.scratch:3} (saved {q.scratch_saved:4}) "
            f"fused {q.fused / 10:5.1f} % chain {q.chain:3} time {q.replay / max(1, q.schedule):.3f}"
        )


if __name__ == "__main__":
    main()
