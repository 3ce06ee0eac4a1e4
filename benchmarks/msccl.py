"""Lowering to MSCCL and writing the XML: time and quality; the ratio is of the program's time to the schedule's.

A row of the matrix sums up programs for four collectives on seven networks with chunks of five sizes. Its ratio
is the worst of all, of the program's time to the larger of its schedule's and a lower bound of all programs: the time
for which the busiest link is occupied (each instance pays the latency) or the slots of a connection are full.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from benchmarks.case import Case, Result, Target, Watch
from collc.emit.msccl import write_xml
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import quality
from collc.msccl.options import MscclOptions, Protocol
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support


def direct_all_to_all(n: int) -> Module:
    """All-to-All on a fully connected network in one step."""
    network, demand = support.fully_connected(n), support.all_to_all(list(range(n)))
    links = np.arange(network.link_count, dtype=np.int32)
    rows = Transfers.of(network.source * n + network.target, links, np.zeros(len(links), np.int64))
    return Module(f"direct{n}", network, demand).with_schedule(RowSchedule(LinkModel.STORE, rows), "direct")


def synthesized(network: Network, demand: Demand) -> Module:
    return join(solve(Module("case", network, demand), lambda task: tacos(task, Effort())))


def measure_lowering(build: Callable[[], Module]) -> Result:
    module = build()
    watch = Watch()
    program = lower(module)
    out = io.BytesIO()
    write_xml(program, out)
    wall, cpu, mib = watch.read()
    q = quality(program, module)
    return Result(
        wall, cpu, mib, q.replay / 1e6, q.schedule / 1e6, "us",
        note=f"{len(out.getvalue())} B, steps {q.steps}, tbs {q.threadblocks}, channels {q.channels}, "
        f"scratch {q.scratch} ({q.scratch_saved} saved), fused {q.fused / 10:.1f} %, chain {q.chain}",
    )  # fmt: skip


MOST_RATIO = Fraction(110, 100)
"""The most time of a program, by that of its schedule, that counts as equal."""


def ratios(network: Network, demand: Demand, model: LinkModel, options: MscclOptions) -> tuple[Fraction, Fraction]:
    """A program's time over its schedule's, and over the larger of that and the lower bound of all programs."""
    module = join(solve(Module("case", network, demand, model), lambda task: tacos(task, Effort())))
    q = quality(lower(module, options), module)
    return Fraction(q.replay, q.schedule), Fraction(q.replay, max(q.schedule, q.busiest_link, q.fullest_pair))


def measure_matrix(options: MscclOptions, model: LinkModel) -> Result:
    networks = (
        *(support.ring(4), support.ring(8), support.grid(3, 3), support.grid(4, 4, wrap=True)),
        *(support.dgx1(), support.hypercube(3), support.fully_connected(8)),
    )
    collectives = (support.all_gather, support.reduce_scatter, support.all_reduce, support.all_to_all)
    sizes = (1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20)
    watch = Watch()
    found = [
        ratios(network, collective([*range(network.npu_count)], chunk=size, chunks=2), model, options)
        for network, collective, size in product(networks, collectives, sizes)
    ]
    wall, cpu, mib = watch.read()
    own, bound = (sum(pair[k] <= MOST_RATIO for pair in found) for k in (0, 1))
    note = (
        f"{own} of {len(found)} within 10 % of their schedule, the worst {float(max(found)[0]):.3f} of it; "
        f"{bound} within 10 % of the bound"
    )
    return Result(wall, cpu, mib, float(max(ratio for _, ratio in found)), 1, "", note=note)


def matrix_cases() -> list[Case]:
    """All numbers of instances with Simple; LL and LL128 replay alike, with more slots: a few are enough."""
    rows = [(Protocol.SIMPLE, n) for n in (1, 2, 4, 8)] + [(Protocol.LL, 1), (Protocol.LL, 4), (Protocol.LL128, 1)]
    return [
        Case(
            f"matrix {model.value} {protocol.value} instances {n}",
            partial(measure_matrix, MscclOptions(instances=n, protocol=protocol), model),
            Target(ratio=1.10),
            large=n > 1 or protocol is not Protocol.SIMPLE,
        )
        for model in LinkModel
        for protocol, n in rows
    ]


def cases() -> list[Case]:
    found: list[Case] = matrix_cases()
    for network in (support.ring(8), support.grid(4, 4, wrap=True), support.dgx1(), support.hypercube(4)):
        for collective in (support.all_gather, support.reduce_scatter, support.all_reduce, support.all_to_all):
            demand = collective(list(range(network.npu_count)), chunks=2)
            name = f"{network.name} {collective.__name__}"
            found.append(Case(name, lambda n=network, d=demand: measure_lowering(lambda: synthesized(n, d))))
    found += [Case(f"direct {n}", lambda k=n: measure_lowering(lambda: direct_all_to_all(k))) for n in (64, 256)]
    return found
