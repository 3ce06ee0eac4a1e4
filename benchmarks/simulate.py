"""The simulator: textbook algorithms of hundreds of thousands of messages. ASTRA-sim 2.0 takes 24 s for the first two.

The tasks are made and simulated before the clock stops.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.case import Case, Result, Target, Watch
from collc.base.diagnostics import SourceFile
from collc.chakra.network_file import astra_network
from collc.simulation.engine import simulate
from collc.simulation.routing import shortest_routes
from collc.simulation.tasks import DONE, Edges, Routes, TaskGraph
from collc.simulation.timing import AstraTiming, ExactTiming, Timing
from collc.source.elaboration.elaborate import load_program
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network
from tests.support import DEFAULT, MiB, grid


def _tasks(
    source: Int64Array, target: Int64Array, size: Int64Array, routes: Routes, route: Int32Array, edges: Edges
) -> TaskGraph:
    ends = (source.astype(np.int32), target.astype(np.int32))
    return TaskGraph(size, route.astype(np.int32), np.zeros(len(size), np.int64), *ends, routes, edges)


def ring_steps(net: Network, steps: int) -> TaskGraph:
    """One message a step from every NPU to the next, after the one received."""
    n = net.npu_count
    number = np.arange(steps * n)
    step, npu = np.divmod(number, n)
    before = ((step - 1) * n + (npu - 1) % n)[n:]
    edges = Edges.all_of(before.astype(np.int32), number[n:].astype(np.int32), DONE)
    return _tasks(npu, (npu + 1) % n, np.full(len(number), MiB), Routes.single_links(net), npu, edges)


def torus_all_reduce(net: Network, side: int) -> TaskGraph:
    """The hierarchical All-Reduce of a 3D torus: ring Reduce-Scatters of x, y and z, then ring All-Gathers back."""
    n = side**3
    ids = np.arange(n)
    phases = [(axis, MiB * 64 // side ** (k + 1)) for k, axis in enumerate((0, 1, 2))]
    phases += phases[::-1]
    sources, targets, sizes, before = [], [], [], []
    last = np.full(n, -1)
    for axis, size in phases:
        stride = side**axis
        position = ids // stride % side
        ahead = ids + ((position + 1) % side - position) * stride
        for _ in range(side - 1):
            number = len(sources) * n + ids
            before.append(last)
            sources, targets, sizes = [*sources, ids], [*targets, ahead], [*sizes, np.full(n, size)]
            last = np.empty(n, np.int64)
            last[ahead] = number
    source, target, waits = (np.concatenate(rows) for rows in (sources, targets, before))
    routes, route = shortest_routes(net, source, target)
    after = np.flatnonzero(waits >= 0)
    edges = Edges.all_of(waits[after].astype(np.int32), after.astype(np.int32), DONE)
    return _tasks(source, target, np.concatenate(sizes), routes, route, edges)


def direct_all_to_all(net: Network) -> TaskGraph:
    """Rank r sends 1 MiB to r + 1, r + 2, ..., all at the beginning."""
    n = len(net.npus)
    npu, step = np.divmod(np.arange(n * (n - 1)), n - 1)
    source, target = net.npus[npu], net.npus[(npu + step + 1) % n]
    routes, route = shortest_routes(net, source, target)
    return _tasks(source, target, np.full(len(npu), MiB), routes, route, Edges.of([]))


def dgx_h100(nodes: int) -> Network:
    text = (
        "import std.clusters\nimport std.collectives\n"
        f"topology t = dgx_h100({nodes})\nschedule s on t {{ run all_gather(t.npus, size: 1GiB) }}\n"
    )
    return load_program(SourceFile("benchmark", text), {}).schedules[0].network


def measure_simulation(net: Network, make: Callable[[Network], TaskGraph], timing: Timing) -> Result:
    """Make the tasks and simulate them, after a small ring that lets the kernel compile."""
    small = astra_network("Ring", 600, DEFAULT)
    simulate(small, ring_steps(small, 600), timing)
    watch = Watch()
    graph = make(net)
    found = simulate(net, graph, timing)
    wall, cpu, mib = watch.read()
    return Result(wall, cpu, mib, found.time_ps / 1e6, unit="us", note=f"{len(graph):,} messages")


def cases() -> list[Case]:
    ring, astra = astra_network("Ring", 512, DEFAULT), AstraTiming()
    found = [
        Case(
            f"ring {name}, 512 NPUs",
            lambda steps=steps: measure_simulation(ring, lambda net: ring_steps(net, steps), astra),
            Target(1.5),
        )
        for name, steps in (("All-Gather", 511), ("All-Reduce", 1022))
    ]
    found.append(
        Case(
            "hierarchical All-Reduce, 16x16x16 torus",
            lambda: measure_simulation(grid(16, 16, 16, wrap=True), lambda net: torus_all_reduce(net, 16), astra),
            Target(10.0),
        )
    )
    found.append(
        Case(
            "direct All-to-All, dgx_h100(16)",
            lambda: measure_simulation(dgx_h100(16), direct_all_to_all, ExactTiming()),
            Target(3.0),
        )
    )
    return found
