"""Synthesis: All-Gather by tacos, All-Reduce by overlapped, Cayley graphs by symmetric, broadcasts by swarm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.case import Case, Result, Target, Watch, measure, task_of
from benchmarks.problems import HALF, all_gather_demand, all_to_all_demand, two_switches
from collc.synthesis.overlapped import overlap_trees
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.swarm import swarm
from collc.synthesis.symmetric import find_group, representative, symmetric
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Standard
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule
from tests.support import (
    MiB,
    all_reduce,
    broadcast,
    dgx1,
    dragonfly,
    fully_connected,
    grid,
    hypercube,
    reduce,
    ring,
    switched,
)
from tests.synthesis.cases import kind, ring_fc_switch

EFFORT = Effort(threads=2)


def measure_tacos(net: Network, chunks: int = 1, model: LinkModel = LinkModel.STORE) -> Result:
    """All kernels are compiled before: the torus needs that of the second rule, the last network that of events."""
    warm = [grid(12, 12), grid(13, 17, wrap=True), ring_fc_switch(17, [kind(r, HALF) for r in (200, 100, 50)])]
    for small in warm if net.npu_count > 128 else [grid(3, 3)]:
        tacos(task_of(small, all_gather_demand(small.npu_count)), EFFORT)
    demand = all_gather_demand(net.npu_count, chunks)
    return measure(lambda: tacos(task_of(net, demand, model), EFFORT), net, demand, model)


def measure_overlapped(net: Network, chunks: int) -> Result:
    overlap_trees(grid(6, 6), all_reduce(list(range(36)), chunks=9), LinkModel.STORE, EFFORT)  # compiles
    demand = all_reduce(net.npus.tolist(), chunks=chunks)
    return measure(lambda: overlap_trees(net, demand, LinkModel.STORE, EFFORT), net, demand)


def measure_swarm(net: Network, chunks: int, inverted: bool = False) -> Result:
    """A broadcast, or its inverse, a reduce."""
    demand = (reduce if inverted else broadcast)(net.npus.tolist(), 4 * MiB, chunks)
    module = Module("m", net, demand)
    return measure(lambda: plan_by_swarm(module), net, demand)


def plan_by_swarm(module: Module) -> Schedule:
    found = join(solve(module, lambda task: swarm(task, EFFORT))).schedule
    assert found is not None
    return found


def measure_representative(net: Network, what: str, bound: int) -> Result:
    """The representative plan; on at most 1000 NPUs, the whole schedule is built and verified too."""
    standard = Standard(what, 1, 1)
    warm = grid(24, 24, wrap=True)
    group = find_group(warm)
    assert group is not None
    for each in ("all_gather", "all_to_all"):
        representative(group, Standard(each, 1, 1), EFFORT)
    watch = Watch()
    group = find_group(net)
    assert group is not None
    found = representative(group, standard, EFFORT)
    wall, cpu, mib = watch.read()
    verified = None
    if net.npu_count <= 1000:
        demand = all_gather_demand(net.npu_count) if what == "all_gather" else all_to_all_demand(net.npu_count)
        verified = measure(lambda: symmetric(task_of(net, demand), EFFORT), net, demand).verified
    return Result(wall, cpu, mib, found.end, bound, "steps", verified, "before expansion")


def measure_symmetric(net: Network) -> Result:
    """The whole schedule of an All-Gather, verified."""
    warm = grid(24, 24, wrap=True)
    symmetric(task_of(warm, all_gather_demand(warm.npu_count)), EFFORT)
    demand = all_gather_demand(net.npu_count)
    return measure(lambda: symmetric(task_of(net, demand), EFFORT), net, demand)


def _optima() -> list[Case]:
    known = {
        "ring 4, 2 chunks": (ring(4), 2, 3),
        "ring 8": (ring(8), 1, 4),
        "mesh 2x2, 2 chunks": (grid(2, 2), 2, 3),
        "mesh 3x3": (grid(3, 3), 1, 4),
        "mesh 4x4": (grid(4, 4), 1, 8),
        "torus 3x3": (grid(3, 3, wrap=True), 1, 2),
        "hypercube 3, 3 chunks": (hypercube(3), 3, 7),
        "DGX-1, 2 chunks": (dgx1(), 2, 3),
        "DGX-1, 6 chunks": (dgx1(), 6, 7),
        "fully connected 4": (fully_connected(4), 1, 1),
        "one-way ring 4": (ring(4, one_way=True), 1, 3),
    }
    return [
        Case(f"All-Gather {name}", lambda n=net, k=chunks: measure_tacos(n, k), Target(0.05, steps))
        for name, (net, chunks, steps) in known.items()
    ]


def _all_gathers() -> list[Case]:
    nets: dict[str, tuple[Callable[[], Network], Target]] = {
        "mesh 32x32": (partial(grid, 32, 32), Target(0.1, ratio=1)),
        "mesh 64x64": (partial(grid, 64, 64), Target(1.5, ratio=1)),
        "mesh 100x100": (partial(grid, 100, 100), Target(8, ratio=1)),
        "mesh 200x200": (partial(grid, 200, 200), Target(210, ratio=1, mib=12_000)),
        "grid 16x16x16": (partial(grid, 16, 16, 16), Target(2, ratio=1)),
        "torus 32x32": (partial(grid, 32, 32, wrap=True), Target(2, ratio=1)),
        "torus 16x16x16": (partial(grid, 16, 16, 16, wrap=True), Target(2, ratio=1)),
        "dragonfly(5, 4)": (partial(dragonfly, 5, 4, kind(400, HALF), kind(200, HALF)), Target(0.1, ratio=1)),
        "dragonfly(9, 8)": (partial(dragonfly, 9, 8, kind(400, HALF), kind(200, HALF)), Target(0.1, ratio=1)),
    }
    rates = [kind(200, HALF), kind(100, HALF), kind(50, HALF)]
    for pods, ratio in ((4, 1.26), (8, 1.13), (16, 1.06), (128, 1.01)):
        nets[f"ring-FC-switch 2x4x{pods}"] = (
            partial(ring_fc_switch, pods, rates),
            Target(2 if pods == 128 else None, None, ratio),
        )
    pipelined = {"mesh 32x32": partial(grid, 32, 32), "torus 16x16": partial(grid, 16, 16, wrap=True)}
    return [
        *(
            Case(f"All-Gather {name}", lambda n=net: measure_tacos(n()), target, name == "mesh 200x200")
            for name, (net, target) in nets.items()
        ),
        *(
            Case(
                f"All-Gather {name}, pipelined",
                lambda n=net: measure_tacos(n(), 1, LinkModel.PIPELINED),
                Target(2, None, 1.01),
            )
            for name, net in pipelined.items()
        ),
    ]


def _symmetric() -> list[Case]:
    known = [
        ((200, 200), "all_gather", 10_000, 0.1),
        ((100, 100, 100), "all_gather", 166_667, 1.0),
        ((8, 8, 8), "all_to_all", 512, 0.1),
        ((16, 16, 16), "all_to_all", 8192, 0.1),
        ((100, 100), "all_to_all", 125_000, 0.1),
    ]
    names = {"all_gather": "All-Gather", "all_to_all": "All-to-All"}
    return [
        Case(
            f"symmetric {names[what]} torus {'x'.join(map(str, sizes))}",
            lambda s=sizes, w=what, b=bound: measure_representative(grid(*s, wrap=True), w, b),
            Target(seconds, ratio=1),
        )
        for sizes, what, bound, seconds in known
    ]


def _broadcasts() -> list[Case]:
    known: dict[str, tuple[Network, int, Target]] = {
        "fully connected 8, 64 chunks": (fully_connected(8), 64, Target(0.1, ratio=1)),
        "hypercube 5, 50 chunks": (hypercube(5), 50, Target(0.1, ratio=1)),
        "torus 4x4x4, 60 chunks": (grid(4, 4, 4, wrap=True), 60, Target(0.2, ratio=1)),
        "mesh 32x32, 64 chunks": (grid(32, 32), 64, Target(2, ratio=1)),
        "DGX-1, 24 chunks": (dgx1(), 24, Target(0.1, ratio=1)),
        "dragonfly(5, 4), 32 chunks": (dragonfly(5, 4, kind(400, HALF), kind(200, HALF)), 32, Target(0.1, ratio=1)),
        "one switch of 72, 64 chunks": (switched(72), 64, Target(5, ratio=1.25)),
        "switched(8) * switched(4), 32 chunks": (two_switches(8, 4), 32, Target(5, ratio=1.75)),
    }
    return [
        Case(f"{name} {what}", lambda n=net, k=chunks, b=inverted: measure_swarm(n, k, b), target)
        for what, (net, chunks, target) in known.items()
        for name, inverted in (("broadcast", False), ("reduce", True))
    ]


def cases() -> list[Case]:
    trees = [((8, 8), 8, 311, 0.5), ((16, 16), 4, 599, 3), ((4, 4, 4), 4, 126, 0.5), ((8, 8), 1, 63, 0.5)]
    return [
        *_optima(),
        *_all_gathers(),
        *_symmetric(),
        *_broadcasts(),
        Case(
            "symmetric All-Gather torus 64x64, expanded",
            lambda: measure_symmetric(grid(64, 64, wrap=True)),
            Target(5, ratio=1),
        ),
        *(
            Case(
                f"overlapped All-Reduce {'x'.join(map(str, sizes))}, {chunks} chunks",
                lambda s=sizes, c=chunks: measure_overlapped(grid(*s), c),
                Target(seconds, steps),
            )
            for sizes, chunks, steps, seconds in trees
        ),
    ]
