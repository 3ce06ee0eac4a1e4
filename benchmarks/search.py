"""All-to-All and groups by pccl."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.case import Case, Result, Target, measure, task_of
from benchmarks.problems import all_to_all_demand, mixed_all_to_all_demand, two_switches
from collc.kernels.compiled import compile_kernel
from collc.kernels.pccl_times import plan_by_times
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.network import Network
from tests.support import all_to_all, grid

ROW_TRIALS = 12
"""Few enough for one second, and enough for schedules shorter than the best known ones."""


def measure_plain(net: Network, demand: Demand) -> Result:
    """pccl in plain Python; no kernel is compiled."""
    pccl(task_of(grid(3, 3), all_to_all_demand(9)), Effort())
    return measure(lambda: pccl(task_of(net, demand), Effort()), net, demand)


def measure_pccl(net: Network, demand: Demand, trials: int = 1) -> Result:
    compile_kernel(plan_by_times)  # the compiled kernel is then used for small cases too
    effort = Effort(trials=trials, threads=2)
    for small in (grid(8, 16), grid(16, 16), two_switches(2, 4)):  # their tables have all types of numbers
        pccl(task_of(small, all_to_all_demand(small.npu_count)), effort)
    return measure(lambda: pccl(task_of(net, demand), effort), net, demand)


def cases() -> list[Case]:
    found: list[Case] = []
    targets = {
        (8, 8): Target(0.05, 130),
        (16, 16): Target(0.5, ratio=1.01),
        (32, 32): Target(15, ratio=1.01),
        (8, 8, 8): Target(2, ratio=1.01),
        (10, 10, 10): Target(12, ratio=1.01),
        (12, 12, 12): Target(60, ratio=1.01, mib=1000),
    }
    for sizes, target in targets.items():
        name = f"All-to-All {'x'.join(map(str, sizes))}"
        net = grid(*sizes)
        found.append(
            Case(name, lambda n=net: measure_pccl(n, all_to_all_demand(n.npu_count)), target, sizes == (12, 12, 12))
        )
    net = grid(8, 8)
    found.append(
        Case("All-to-All 8x8, in plain Python", lambda: measure_plain(net, all_to_all_demand(64)), Target(0.05, 130))
    )
    found.append(
        Case("All-to-All 8x8, 16 trials", lambda: measure_pccl(net, all_to_all_demand(64), 16), Target(0.5, 129))
    )
    pods = two_switches(8, 32)
    found.append(
        Case(
            "All-to-All switched(8) * switched(32)",
            lambda: measure_pccl(pods, all_to_all_demand(256)),
            Target(1, ratio=1.05),
        )
    )
    tight = replace(pods, buffers=np.full(40, 8))
    found.append(
        Case(
            "All-to-All, pods with 8 slots in each switch",
            lambda: measure_pccl(tight, all_to_all_demand(256)),
            Target(2, ratio=1.05),
        )
    )
    mixed = mixed_all_to_all_demand(256)
    found.append(Case("All-to-All 16x16 of 0.5, 1 and 2 MiB", lambda: measure_pccl(grid(16, 16), mixed)))
    best = {(3,): 57, (2, 5): 73, (0, 2, 5, 7): 131, tuple(range(8)): 256, (0,): 85, (0, 1): 119, (0, 1, 2, 3): 155}
    for rows, steps in best.items():
        runs = tuple(all_to_all([8 * r + i for i in range(8)], chunks=16).runs[0] for r in rows)
        name = f"8x8, rows {', '.join(map(str, rows))}, 16 chunks"
        found.append(Case(name, lambda r=runs: measure_pccl(net, Demand(r), ROW_TRIALS), Target(1, steps)))
    return found
