"""Verification of large schedules."""

from __future__ import annotations

from benchmarks.case import Case, Result, Target, Watch, task_of
from benchmarks.worlds import exchanged, gathered, two_switches
from collc.synthesis.pccl import pccl
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.verification.schedule_check import verify_schedule
from tests.support import grid


def _planned(net: Network, demand: Demand) -> Schedule:
    standard = demand.runs[0].standard
    way = pccl if standard is not None and standard.kind == "all_to_all" else tacos
    return way(task_of(net, demand), Effort(threads=2))


def verified(net: Network, demand: Demand) -> Result:
    for small in (grid(20, 20), two_switches(8, 32)):
        warm = gathered(400) if small.npu_count == 400 else exchanged(small.npu_count)
        verify_schedule(Module("warm", small, warm).with_schedule(_planned(small, warm), ""))
    module = Module("case", net, demand).with_schedule(_planned(net, demand), "")
    watch = Watch()
    verdict = verify_schedule(module)
    wall, cpu, mib = watch.read()
    assert module.schedule is not None
    return Result(wall, cpu, mib, verified=verdict.ok, note=f"{len(module.schedule):,} transfers")


def cases() -> list[Case]:
    gathers = {64: None, 100: None, 200: 300.0}
    found = [
        Case(
            f"All-Gather mesh {side}x{side}",
            lambda n=side: verified(grid(n, n), gathered(n * n)),
            Target(seconds),
            side == 200,
        )
        for side, seconds in gathers.items()
    ]
    for name, net in (("8x8x8", grid(8, 8, 8)), ("switched(8) * switched(32)", two_switches(8, 32))):
        found.append(Case(f"All-to-All {name}", lambda n=net: verified(n, exchanged(n.npu_count))))
    return found
