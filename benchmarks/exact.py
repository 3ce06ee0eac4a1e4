"""Exact search and bounds on small networks: results of auto, Pareto points of the DGX-1, and the time of bounds."""

from __future__ import annotations

from benchmarks.case import Case, Result, Target, Watch, measure
from collc.passes.registry import PassContext, Synthesize
from collc.passes.synthesizers import auto
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule
from tests.support import all_gather, all_reduce, dgx1, grid, network, ring

CHORD = network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


def measure_auto(net: Network, demand: Demand) -> Result:
    """The schedule that auto finds, with Z3 among its synthesizers."""

    def plan() -> Schedule:
        found = auto(Module("case", net, demand), Effort()).schedule
        assert found is not None
        return found

    plan()
    return measure(plan, net, demand)


def measure_pareto(chunks: int) -> Result:
    """The Pareto points of All-Gather on the DGX-1; reached: rounds per chunk at the last of them; bound: 7/6."""
    module = Module("case", dgx1(), all_gather(list(range(8))))
    watch = Watch()
    found = Synthesize("exact", {"pareto": chunks}).run(module, PassContext()).pareto
    last = found[-1]
    note = ", ".join(f"{p.chunks}/{p.steps}/{p.rounds}" for p in found)
    return Result(*watch.read(), last.rounds / last.chunks, 7 / 6, "rounds", None, f"chunks/steps/rounds {note}")


def measure_bound(net: Network, demand: Demand) -> Result:
    """The time of computing the bound; reached and bound are both its value."""
    assert len(demand.chunks)
    watch = Watch()
    bound = lower_bound(net, demand, LinkModel.STORE)
    return Result(*watch.read(), bound.time / 1e6, bound.time / 1e6, "us", None, bound.name)


def cases() -> list[Case]:
    reduced = [
        ("chord 4", CHORD, 2, 10),
        ("DGX-1", dgx1(), 1, 4),
        ("ring 8", ring(8), 1, 7),
        ("mesh 3x2", grid(3, 2), 1, 5),
    ]
    found = [
        Case(
            f"auto, All-Reduce, {name}, {chunks}",
            lambda net=net, chunks=chunks: measure_auto(net, all_reduce(net.npus.tolist(), chunks=chunks)),
            Target(reached=steps),
        )
        for name, net, chunks, steps in reduced
    ]
    found.append(Case("Pareto points, DGX-1, up to 6 chunks", lambda: measure_pareto(6), Target(seconds=10, ratio=1.0)))
    for name, net in (("mesh 4x5", grid(4, 5)), ("mesh 32x32", grid(32, 32)), ("mesh 64x64", grid(64, 64))):
        found.append(
            Case(f"bound, All-Gather, {name}", lambda net=net: measure_bound(net, all_gather(net.npus.tolist())))
        )
    return found
