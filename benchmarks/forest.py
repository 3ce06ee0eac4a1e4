"""Throughput-optimal trees: time against the fluid optimum of the links, without latencies (bound)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.case import Case, Result, Target, Watch, measure, task_of
from collc.graph.throughput import gather_rate, reduce_rate
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest import forest
from collc.synthesis.forest.problem import ForestProblem, forest_problem
from collc.synthesis.forest.synthesizer import plan_summed
from collc.synthesis.forest.trees import gather_candidates, tree_counts
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule
from tests.support import GiB, MiB, all_gather, all_reduce
from tests.synthesis.throughput_networks import a100, dgx1, mesh, mi250, rails, weak

PIPELINED = LinkModel.PIPELINED


def gather_problem(net: Network, chunks: int, size: int) -> ForestProblem:
    demand = all_gather(net.npus.tolist(), size // (net.npu_count * chunks), chunks)
    return forest_problem(conditions_of(task_of(net, demand, PIPELINED)))


def against_optimum(result: Result, optimum: float, size: int) -> Result:
    """The result with the optimum, in microseconds, as its bound, and the rate as a note."""
    return replace(result, bound=optimum, note=f"{size / result.reached / 1e3:.1f} GB/s")


def measure_gather(make: Callable[[], Network], chunks: int, size: int) -> Result:
    net = make()
    problem = gather_problem(net, chunks, size)
    rate = gather_rate(problem.graph, problem.capacity, problem.members.tolist()).rate
    task = problem.conditions.task
    forest(task, Effort())  # compiles kernels
    result = measure(lambda: forest(task, Effort()), net, task.demand, PIPELINED)
    return against_optimum(result, float(problem.unit * chunks / rate) / 1e6, size)


def measure_summed(make: Callable[[], Network], chunks: int) -> Result:
    net = make()
    problem = gather_problem(net, chunks, GiB)
    rate = reduce_rate(problem.graph, problem.capacity, problem.members.tolist()).rate
    demand = all_reduce(net.npus.tolist(), GiB // (net.npu_count * chunks), chunks)
    module = Module("m", net, demand, PIPELINED)

    def plan() -> Schedule:
        found = plan_summed(module, Effort())
        assert found is not None
        return found

    plan()
    result = measure(plan, net, demand, PIPELINED)
    return against_optimum(result, float(problem.unit * chunks * net.npu_count / rate) / 1e6, GiB)


def measure_trees(make: Callable[[], Network], chunks: int) -> Result:
    """The first trees that the search builds, scheduled by nobody: the time until the busiest link has carried all."""
    net = make()
    problem = gather_problem(net, chunks, GiB)

    def build() -> float:
        counts = tree_counts(problem)
        grown, count, shallow = next(iter(gather_candidates(problem, counts)))
        return grown.trees(count, shallow)[1] / float(counts[0].time)

    build()
    watch = Watch()
    ratio = build()
    wall, cpu, mib = watch.read()
    return Result(wall, cpu, mib, ratio, 1.0, "", None, "load")


def cases() -> list[Case]:
    gathers: list[tuple[str, Callable[[], Network], int, int, float]] = [
        ("mi250 x2, 1 GiB", partial(mi250, 2), 256, GiB, 0.98),
        ("a100 x2, 1 GiB", partial(a100, 2), 256, GiB, 0.99),
        ("h100 x4, 1 GiB", partial(rails, 4), 64, GiB, 0.99),
        ("h100 x16, 1 GiB", partial(rails, 16), 16, GiB, 0.99),
        ("DGX-1, 1 GiB", dgx1, 6, GiB, 0.99),
        ("mesh 8x8, 1 GiB", partial(mesh, 8, 8), 2, GiB, 0.99),
        ("mi250 x2, 16 MiB", partial(mi250, 2), 64, 16 * MiB, 0.90),
        ("a100 x2, 16 MiB", partial(a100, 2), 64, 16 * MiB, 0.95),
        ("h100 x4, 16 MiB", partial(rails, 4), 64, 16 * MiB, 0.95),
    ]
    sums: list[tuple[str, Callable[[], Network], int, float]] = [
        ("mesh 8x8", partial(mesh, 8, 8), 64, 0.95),
        ("two nodes with a weak GPU each", partial(weak, 16, 30), 64, 0.95),
    ]
    trees: list[tuple[str, Callable[[], Network], float]] = [
        ("h100 x4, 32 GPUs", partial(rails, 4), 0.1),
        ("mi250 x2, 32 GPUs", partial(mi250, 2), 0.1),
        ("h100 x16, 128 GPUs", partial(rails, 16), 1),
        ("h100 x64, 512 GPUs", partial(rails, 64), 0.1),
    ]
    return [
        *(
            Case(
                f"All-Gather {name}, {chunks} chunks",
                partial(measure_gather, make, chunks, size),
                Target(ratio=1 / share),
            )
            for name, make, chunks, size, share in gathers
        ),
        *(
            Case(f"All-Reduce {name}, {chunks} chunks", partial(measure_summed, make, chunks), Target(ratio=1 / share))
            for name, make, chunks, share in sums
        ),
        *(Case(f"trees {name}", partial(measure_trees, make, 1), Target(limit)) for name, make, limit in trees),
    ]
