"""Verification of large schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.case import Case, Result, Target, Watch, task_of
from benchmarks.problems import all_gather_demand, all_reduce_demand, all_to_all_demand, two_switches
from collc.synthesis.pccl import pccl
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers
from collc.verification.schedule_check import verify_schedule
from tests.support import grid, hypercube, ring

Numbers = NDArray[Any]


def _planned(net: Network, demand: Demand) -> Schedule:
    standard = demand.runs[0].standard
    synthesize = pccl if standard is not None and standard.kind == "all_to_all" else tacos
    return synthesize(task_of(net, demand), Effort(threads=2))


def measure_verification(net: Network, demand: Demand) -> Result:
    for small in (grid(20, 20), two_switches(8, 32)):
        warm = all_gather_demand(400) if small.npu_count == 400 else all_to_all_demand(small.npu_count)
        verify_schedule(Module("warm", small, warm).with_schedule(_planned(small, warm), ""))
    module = Module("case", net, demand).with_schedule(_planned(net, demand), "")
    watch = Watch()
    verdict = verify_schedule(module)
    wall, cpu, mib = watch.read()
    assert module.schedule is not None
    return Result(wall, cpu, mib, verified=verdict.ok, note=f"{len(module.schedule):,} transfers")


def ring_all_gather(npus: int) -> Module:
    """The All-Gather of a one-way ring: npus * (npus - 1) transfers, one row each."""
    step, link = np.divmod(np.arange(npus * (npus - 1)), npus)
    return _laid_out(ring(npus, one_way=True), all_gather_demand(npus), (link - step) % npus, link, step)


def ring_all_reduce(npus: int) -> Module:
    """The All-Reduce of a one-way ring: 2 * npus * (npus - 1) transfers."""
    step, link = np.divmod(np.arange(2 * npus * (npus - 1)), npus)
    first: Numbers = step < npus - 1
    return _laid_out(ring(npus, one_way=True), all_reduce_demand(npus), (link - step) % npus, link, step, first)


def recursive_doubling(dimensions: int) -> Module:
    """Recursive doubling of as many chunks as there are NPUs; a chunk does not follow a single tree."""
    npus = 1 << dimensions
    numbers: Numbers = np.arange(npus * npus * dimensions)
    chunk: Numbers = numbers // (npus * dimensions)
    rest: Numbers = numbers % (npus * dimensions)
    step: Numbers = chunk + rest % dimensions
    # rest is npu * dimensions + dimension: the number of the link.
    return _laid_out(hypercube(dimensions), all_reduce_demand(npus), chunk, rest, step, reduce=True)


def _laid_out(
    net: Network, demand: Demand, chunk: Numbers, link: Numbers, step: Numbers, reduce: Numbers | bool = False
) -> Module:
    length = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    rows = Transfers.of(chunk.astype(np.int32), link.astype(np.int32), step * length, reduce)
    return Module("case", net, demand).with_schedule(RowSchedule(LinkModel.STORE, rows), "")


def measure_rows(make: Callable[[int], Module], small: int, large: int) -> Result:
    """The verification of a schedule of rows; the small one is verified before, to compile the kernels."""
    verify_schedule(make(small), large=0)
    module = make(large)
    watch = Watch()
    verdict = verify_schedule(module)
    wall, cpu, mib = watch.read()
    assert module.schedule is not None
    return Result(wall, cpu, mib, verified=verdict.ok, note=f"{len(module.schedule):,} transfers")


def cases() -> list[Case]:
    schedules = {
        "All-Gather": (ring_all_gather, 9, 3163),
        "All-Reduce": (ring_all_reduce, 9, 2237),
        "no tree": (recursive_doubling, 3, 10),
    }
    gathers = {64: None, 100: None, 200: 300.0}
    found = [
        Case(
            f"All-Gather mesh {side}x{side}",
            lambda n=side: measure_verification(grid(n, n), all_gather_demand(n * n)),
            Target(seconds),
            side == 200,
        )
        for side, seconds in gathers.items()
    ]
    found += [
        Case(f"{name}, ten million rows", lambda row=row: measure_rows(*row), Target(2.0, mib=2048))
        for name, row in schedules.items()
    ]
    for name, net in (("8x8x8", grid(8, 8, 8)), ("switched(8) * switched(32)", two_switches(8, 32))):
        found.append(Case(f"All-to-All {name}", lambda n=net: measure_verification(n, all_to_all_demand(n.npu_count))))
    return found
