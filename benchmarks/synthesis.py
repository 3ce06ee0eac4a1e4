"""What synthesis takes and reaches: `python benchmarks/synthesis.py [--large] [WORD ...]` (cases named with a WORD).

Times are of synthesis alone, kernels compiled before. Peak memory is that of the process so far, in MiB.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from collc.synthesis.bounds import lower_bound
from collc.synthesis.overlapped import overlapped
from collc.synthesis.symmetric import find_group, representative, symmetric
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Run, Standard
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from tests.support import GiB, MiB, all_gather, all_reduce, all_to_all, dgx1, dragonfly, grid, hypercube, ring
from tests.synthesis.cases import kind, ring_fc_switch

HALF = Fraction(1, 2)
EFFORT = Effort(threads=2)
Result = tuple[float, float, float]
"""Seconds, time of the schedule, bound (both in steps or microseconds)."""


def gathered(npus: int, chunks: int = 1) -> Demand:
    """An All-Gather as arrays, for networks of tens of thousands of NPUs."""
    if npus < 1000:
        return all_gather(list(range(npus)), chunks=chunks)
    ids = np.arange(npus, dtype=np.int32)
    table = ChunkTable(
        np.full(npus, MiB), ids, np.full(npus, npus, np.int32), np.zeros(npus, np.int8), np.zeros(npus, np.int32),
        ids[:, None], (ChunkFamily("x", 1),),
        HolderSets(np.append(np.arange(npus + 1), 2 * npus).astype(np.int64), np.tile(ids, 2)),
    )  # fmt: skip
    return Demand((Run("all_gather", ids, table, Standard("all_gather", MiB * npus, 1)),))


def by_tacos(net: Network, chunks: int = 1, model: LinkModel = LinkModel.STORE) -> Result:
    demand = gathered(net.npu_count, chunks)
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32))
    begin = time.perf_counter()
    schedule = tacos(task, EFFORT)
    seconds = time.perf_counter() - begin
    bound = lower_bound(net, demand, model).time / 1e6
    steps = getattr(schedule, "chunk", None)
    if steps is not None:
        return seconds, len(steps), bound * 1e6 / schedule.step
    return seconds, schedule.collective_time(net, demand) / 1e6, bound


def by_symmetry(net: Network, what: str, bound: int) -> Result:
    representative(find_group(net), Standard(what, 1, 1), EFFORT)
    begin = time.perf_counter()
    found = representative(find_group(net), Standard(what, 1, 1), EFFORT)
    return time.perf_counter() - begin, found.steps, bound


def by_trees(net: Network, chunks: int) -> Result:
    demand = all_reduce(net.npus.tolist(), chunks=chunks)
    begin = time.perf_counter()
    schedule = overlapped(net, demand, LinkModel.STORE, EFFORT)
    seconds = time.perf_counter() - begin
    bound = lower_bound(net, demand, LinkModel.STORE).time
    return seconds, schedule.collective_time(net, demand) / 20_031_250, bound / 20_031_250


def cases(large: bool) -> list[tuple[str, Callable[[], Result]]]:
    found: list[tuple[str, Callable[[], Result]]] = []
    small = {"ring 4": (ring(4), 2), "ring 8": (ring(8), 1), "mesh 3x3": (grid(3, 3), 1), "mesh 4x4": (grid(4, 4), 1)}
    small |= {"torus 3x3": (grid(3, 3, wrap=True), 1), "hypercube 3": (hypercube(3), 3), "DGX-1, 2": (dgx1(), 2)}
    small |= {"DGX-1, 6": (dgx1(), 6), "mesh 8x8": (grid(8, 8), 1), "mesh 32x32": (grid(32, 32), 1)}
    small |= {"mesh 64x64": (grid(64, 64), 1), "mesh 100x100": (grid(100, 100), 1), "grid 16^3": (grid(16, 16, 16), 1)}
    small |= {"torus 32x32": (grid(32, 32, wrap=True), 1), "torus 16^3": (grid(16, 16, 16, wrap=True), 1)}
    if large:
        small["mesh 200x200"] = (grid(200, 200), 1)
    found += [(f"all-gather {name}", lambda n=net, k=k: by_tacos(n, k)) for name, (net, k) in small.items()]
    rates = [kind(200, HALF), kind(100, HALF), kind(50, HALF)]
    for pods in (4, 8, 16):
        net = ring_fc_switch(pods, rates)
        found.append((f"all-gather ring-FC-switch 2x4x{pods}", lambda n=net: by_tacos(n)))
    for groups, size in ((5, 4), (9, 8)):
        net = dragonfly(groups, size, kind(400, HALF), kind(200, HALF))
        found.append((f"all-gather dragonfly {groups}, {size}", lambda n=net: by_tacos(n)))
    for sizes, bound in (((200, 200), 10_000), ((100, 100, 100), 166_667)):
        net = grid(*sizes, wrap=True)
        found.append((f"symmetric all-gather torus {sizes}", lambda n=net, b=bound: by_symmetry(n, "all_gather", b)))
    for sizes, bound in (((8, 8, 8), 512), ((16, 16, 16), 8192), ((100, 100), 125_000)):
        net = grid(*sizes, wrap=True)
        found.append((f"symmetric all-to-all torus {sizes}", lambda n=net, b=bound: by_symmetry(n, "all_to_all", b)))
    for name, net, chunks in (("8x8", grid(8, 8), 8), ("16x16", grid(16, 16), 4), ("4^3", grid(4, 4, 4), 4)):
        found.append((f"overlapped all-reduce {name}, {chunks}", lambda n=net, k=chunks: by_trees(n, k)))
    for power in range(10, 25, 2):
        net = grid(8, 8, kind=LinkKind(500_000, Fraction(50 * GiB * MiB, 1 << power)))
        for model in LinkModel:
            name = f"all-gather mesh 8x8, {2**power >> 10} KiB, {model}"
            found.append((name, lambda n=net, m=model: by_tacos(n, 1, m)))
    return found


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    for net in (grid(12, 12), grid(12, 12, wrap=True)):
        by_tacos(net)
    task = all_to_all(list(range(4)))
    symmetric(Task(ring(4), task, LinkModel.STORE, np.arange(16, dtype=np.int32)), EFFORT)
    print(f"{'case':44} {'seconds':>9} {'MiB':>7} {'steps/us':>12} {'bound':>12} {'ratio':>7}")
    for name, run in cases("--large" in sys.argv):
        if words and not any(word in name for word in words):
            continue
        seconds, reached, bound = run()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{name:44} {seconds:9.4f} {peak:7} {reached:12.2f} {bound:12.2f} {reached / bound:7.4f}", flush=True)


if __name__ == "__main__":
    main()
