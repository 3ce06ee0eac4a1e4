"""Lowering to MSCCL and writing the XML: time and quality; the ratio is of the program's time to the schedule's."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from benchmarks.case import Case, Result, Watch
from collc.emit.msccl import write_xml
from collc.msccl.lower import lower
from collc.msccl.quality import quality
from collc.synthesis.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support


def direct(n: int) -> Module:
    """All-to-All on a fully connected network, everything at once."""
    network, demand = support.fully_connected(n), support.all_to_all(list(range(n)))
    links = np.arange(network.link_count, dtype=np.int32)
    rows = Transfers.of(network.source * n + network.target, links, np.zeros(len(links), np.int64))
    return Module(f"direct{n}", network, demand).with_schedule(RowSchedule(LinkModel.STORE, rows), "direct")


def synthesized(network: Network, demand: Demand) -> Module:
    return join(solve(Module("case", network, demand), lambda task: tacos(task, Effort())))


def lowered(build: Callable[[], Module]) -> Result:
    module = build()
    watch = Watch()
    program = lower(module)
    out = io.BytesIO()
    write_xml(program, out)
    wall, cpu, mib = watch.read()
    q = quality(program, module)
    return Result(
        wall, cpu, mib, q.replay / 1e6, q.schedule / 1e6, "us",
        note=f"{len(out.getvalue())} B, steps {q.steps}, tbs {q.threadblocks}, channels {q.channels}, "
        f"scratch {q.scratch}, fused {q.fused / 10:.1f} %",
    )  # fmt: skip


def cases() -> list[Case]:
    found: list[Case] = []
    for network in (support.ring(8), support.grid(4, 4, wrap=True), support.dgx1(), support.hypercube(4)):
        for collective in (support.all_gather, support.reduce_scatter, support.all_reduce, support.all_to_all):
            demand = collective(list(range(network.npu_count)), chunks=2)
            name = f"{network.name} {collective.__name__}"
            found.append(Case(name, lambda n=network, d=demand: lowered(lambda: synthesized(n, d))))
    found += [Case(f"direct {n}", lambda k=n: lowered(lambda: direct(k))) for n in (64, 256)]
    return found
