"""All-Reduce by cores that exchange partials: steps against the optimum, and times against the bound by size.

The optima are those of a SAT solver (CaDiCaL), found apart from collc. Sizes are those of the whole buffer, with one
chunk for each NPU, over links of 0.5 us and 50 GB/s in the link model `pipelined`.
"""

from __future__ import annotations

from fractions import Fraction

from benchmarks.case import Case, Result, Target, measure
from collc.passes.synthesizers import auto
from collc.synthesis.exchange import exchange
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, Schedule
from tests.support import MiB, all_reduce, demand_of, dgx1, fully_connected, grid, hypercube, ring

LINK = LinkKind(500_000, Fraction(50 * 10**9))
KIB = 1024

OPTIMA: dict[str, tuple[Network, int, int, int]] = {
    "DGX-1": (dgx1(), 2, 2, 4),
    "hypercube 3": (hypercube(3), 3, 3, 5),
    "mesh 3x2": (grid(3, 2), 3, 3, 5),
    "mesh 3x3": (grid(3, 3), 4, 4, 8),
    "mesh 4x2": (grid(4, 2), 4, 4, 7),
    "one-way ring 4": (ring(4, one_way=True), 3, 4, 6),
    "one-way ring 8": (ring(8, one_way=True), 7, 8, 14),
    "torus 3x3": (grid(3, 3, wrap=True), 2, 2, 4),
    "torus 4x2": (grid(4, 2, wrap=True), 3, 3, 5),
    **{f"fully connected {n}": (fully_connected(n), 1, 2, 2) for n in range(3, 10)},
    **{f"line {n}": (grid(n, 1), n - 1, n, 2 * (n - 1)) for n in range(3, 10)},
    **{f"ring {n}": (ring(n), n // 2, (n + 1) // 2, 2 if n == 3 else n - 1) for n in range(3, 10)},
}
"""The least steps for 1 chunk, 2 chunks, and as many as there are NPUs."""

BY_SIZE: dict[str, tuple[Network, bool]] = {
    "ring 8": (ring(8, LINK), False),
    "ring 64": (ring(64, LINK), True),
    "torus 4x4": (grid(4, 4, kind=LINK, wrap=True), False),
    "torus 8x8": (grid(8, 8, kind=LINK, wrap=True), True),
    "mesh 4x4": (grid(4, 4, kind=LINK), False),
    "mesh 8x8": (grid(8, 8, kind=LINK), True),
    "hypercube 3": (hypercube(3, LINK), False),
    "hypercube 6": (hypercube(6, LINK), True),
    "fully connected 8": (fully_connected(8, LINK), False),
    "fully connected 16": (fully_connected(16, LINK), False),
}
"""Networks, and whether they are left to `--large`."""

RATIOS = {KIB: 1.05, 8 * KIB: 1.35, 64 * KIB: 2.4, MiB: 2.4}
"""Times by the lower bound, by size."""


def measure_steps(net: Network, chunks: int) -> Result:
    """The schedule that auto finds."""
    npus = net.npus.tolist()
    demand = demand_of([(MiB, npus, npus, Op.SUM)] * chunks)
    return measure(lambda: _schedule(auto(Module("case", net, demand), Effort())), net, demand)


def measure_size(net: Network, size: int) -> Result:
    """The schedule of exchange alone."""
    demand = all_reduce(net.npus.tolist(), max(1, size // net.npu_count))
    return measure(lambda: _planned(net, demand), net, demand, LinkModel.PIPELINED)


def _planned(net: Network, demand: Demand) -> Schedule:
    return _schedule(exchange(Module("case", net, demand, LinkModel.PIPELINED), Effort(), tacos))


def _schedule(module: Module) -> Schedule:
    assert module.schedule is not None
    return module.schedule


def cases() -> list[Case]:
    """Steps on small networks, then times by size."""
    found: list[Case] = []
    for name, (net, one, two, all_npus) in OPTIMA.items():
        for chunks, steps in ((1, one), (2, two), (net.npu_count, all_npus)):
            found.append(
                Case(
                    f"auto, All-Reduce, {name}, {chunks} in all",
                    lambda net=net, chunks=chunks: measure_steps(net, chunks),
                    Target(reached=steps, seconds=1),
                )
            )
    for name, (net, large) in BY_SIZE.items():
        for size, ratio in RATIOS.items():
            found.append(
                Case(
                    f"exchange, {name}, {size // KIB} KiB",
                    lambda net=net, size=size: measure_size(net, size),
                    Target(ratio=ratio),
                    large=large,
                )
            )
    return found
