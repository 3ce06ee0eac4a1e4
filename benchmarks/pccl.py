"""All-to-All by pccl: time, steps and ratio to the bound. Run: python -m benchmarks.pccl"""

from __future__ import annotations

import resource
import time
from fractions import Fraction

import numpy as np

from collc.synthesis.bounds import lower_bound
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Demand
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import GiB, all_to_all, grid, network


def two_switches(first: int, second: int) -> Network:
    """switched(first) * switched(second): links of 300 and 25 GiB/s."""
    fast, slow = (LinkKind(250_000, Fraction(rate * GiB)) for rate in (300, 25))
    n = first * second
    links = []
    for npu in range(n):
        for switch, kind in ((n + npu // first, fast), (n + second + npu % first, slow)):
            links += [(npu, switch, kind), (switch, npu, kind)]
    return network(n, links, switches=first + second)


def row(name: str, net: Network, demand: Demand, effort: Effort) -> None:
    task = Task(net, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))
    bound = lower_bound(net, demand, LinkModel.STORE).time
    began = time.perf_counter()
    schedule = pccl(task, effort, bound)
    seconds = time.perf_counter() - began
    took = schedule.collective_time(net, demand)
    ratio = took / max(1, bound)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:32} {seconds:8.3f} s {took / 20_031_250:8.1f} steps {ratio:8.4f} x bound "
        f"{len(schedule):10} transfers, peak {peak} MB",
        flush=True,
    )


def main() -> None:
    small = grid(2, 2)
    row("warm-up", small, all_to_all(list(range(4))), Effort())
    for sizes in ((8, 8), (16, 16), (8, 8, 8)):
        net = grid(*sizes)
        row("x".join(map(str, sizes)), net, all_to_all(list(range(net.npu_count))), Effort())
    net = two_switches(8, 32)
    row("switched(8) * switched(32)", net, all_to_all(list(range(256))), Effort())
    for rows in ((3,), (2, 5), (0, 2, 5, 7)):
        runs = tuple(all_to_all([8 * r + i for i in range(8)], chunks=16).runs[0] for r in rows)
        row(f"8x8, rows {rows}", grid(8, 8), Demand(runs), Effort())


if __name__ == "__main__":
    main()
