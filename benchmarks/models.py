"""Schedules for pipelined links on the mesh 8x8, compared with those of store-and-forward links."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.case import Case, Result, measure, task_of
from benchmarks.problems import all_gather_demand, all_to_all_demand
from collc.synthesis.pccl import pccl
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Demand
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel, Schedule
from tests.support import GiB, grid

NET = grid(8, 8, kind=LinkKind(500_000, Fraction(50 * GiB)))


def compare_models(demand: Demand, synthesizer: str) -> Result:
    def plan(task: Task) -> Schedule:
        return pccl(task, Effort()) if synthesizer == "pccl" else tacos(task, Effort())

    store = measure(lambda: plan(task_of(NET, demand)), NET, demand)
    model = LinkModel.PIPELINED
    result = measure(lambda: plan(task_of(NET, demand, model)), NET, demand, model)
    size = demand.chunks.size[:1]
    micro = store.reached * int(NET.occupancy(size)[0, 0] + NET.latencies[0]) / 1e6
    verified = bool(store.verified and result.verified)
    return Result(
        result.wall, result.cpu, result.mib, result.reached, result.bound, "us", verified,
        f"store {micro:.2f} us = {micro / result.reached:.2f} x",
    )  # fmt: skip


def cases() -> list[Case]:
    found: list[Case] = []
    for power in range(10, 25, 2):
        size = 1 << power
        name = f"{size >> 10} KiB" if power < 20 else f"{size >> 20} MiB"
        found.append(
            Case(f"All-Gather 8x8, {name}", lambda s=size: compare_models(all_gather_demand(64, size=s), "tacos"))
        )
        found.append(
            Case(f"All-to-All 8x8, {name}", lambda s=size: compare_models(all_to_all_demand(64, size=s), "pccl"))
        )
    return found
