"""Designs: all designs of the LIBRA paper, and a network that is designed together with the schedules that run on it.

The second is an All-Reduce of 1 GiB in 8 chunks on a 4x4x4 torus with 1,000 GB/s per NPU (`pipelined`, 0.5 us
per hop): with equal bandwidths, with those designed for the textbook traffic, and with those designed again for the
traffic of the schedule that was found on that network. The baseline of the speed-ups are equal bandwidths and the
textbook schedule, dimension by dimension; the bound is that of the network with equal bandwidths.
"""

from __future__ import annotations

import tempfile
from functools import cache

import collc
from benchmarks.case import Case, Result, Target, Watch
from collc.application.compile.compile_report import ScheduleReport
from collc.design.optimize import optimum
from collc.design.problem import Objective
from collc.design.training_time import schedule_problem
from collc.source.elaboration.designs import default_prices
from tests.design.papers import TRAFFIC, dimensions, problem, time_of

TOTAL = 1000
TEXTBOOK = "hierarchical"

TORUS = """
import std.topologies
import std.collectives
topology net =
    ring(4, bandwidth: {0}GB/s, latency: 0.5us)
    * ring(4, bandwidth: {1}GB/s, latency: 0.5us)
    * ring(4, bandwidth: {2}GB/s, latency: 0.5us)
schedule s on net {{
    run all_reduce(net.npus, size: 1GiB, chunks: 8)
    synthesize {3}(link_model: "pipelined")
}}
"""

Rates = tuple[float, ...]
EQUAL: Rates = (TOTAL / 3,) * 3


@cache
def planned(rates: Rates, synthesizer: str) -> ScheduleReport:
    """The schedule on the torus with these bandwidths of an NPU, half of them in each direction of a ring."""
    links = [f"{rate / 2:.9f}" for rate in rates]
    with tempfile.TemporaryDirectory() as folder:
        return collc.compile_text(TORUS.format(*links, synthesizer), output=folder)["s"]


def redesigned(rates: Rates, synthesizer: str) -> Rates:
    """The best bandwidths for the traffic of that schedule, of the same total."""
    module = planned(rates, synthesizer).kept_module()
    assert module.schedule is not None
    return optimum(schedule_problem(module.network, module.demand, module.schedule, default_prices())[0]).bandwidth


def price(rates: Rates) -> float:
    module = planned(EQUAL, TEXTBOOK).kept_module()
    assert module.schedule is not None
    return schedule_problem(module.network, module.demand, module.schedule, default_prices())[0].cost(rates)


def measure_torus(synthesizer: str, rounds: int) -> Result:
    """rounds: 0 for equal bandwidths, 1 for those designed for textbook traffic, 2 for those designed again."""
    base = planned(EQUAL, TEXTBOOK)
    watch = Watch()
    rates = redesigned(EQUAL, TEXTBOOK) if rounds else EQUAL
    if rounds > 1:
        rates = redesigned(rates, synthesizer)
    found = planned(rates, synthesizer)
    cost = watch.read()
    assert found.time_ps is not None
    assert base.time_ps is not None
    assert base.ideal_ps is not None
    speedup = base.time_ps / found.time_ps
    per_cost = speedup * price(EQUAL) / price(rates)
    shown = " ".join(f"{rate:.1f}" for rate in rates)
    note = f"[{shown}] GB/s, speed-up {speedup:.3f}, per cost {per_cost:.3f}"
    return Result(*cost, found.time_ps / 1e6, base.ideal_ps / 1e6, "us", found.ok, note)


def measure_paper() -> Result:
    """Four workloads, two networks, ten budgets, two objectives; reached: the largest gap."""
    optimum(problem(dimensions("4D"), time_of("GPT-3", "4D")))
    watch = Watch()
    gaps = [
        optimum(problem(dimensions(network), time_of(workload, network), float(total), objective=objective)).gap
        for workload, network in TRAFFIC
        for total in range(100, 1100, 100)
        for objective in (Objective.TIME, Objective.PRODUCT)
    ]
    return Result(*watch.read(), max(gaps), unit="gap", note=f"{len(gaps)} designs")


def cases() -> list[Case]:
    names = ("equal", "designed", "designed again")
    torus = [
        Case(f"torus 4x4x4, {names[rounds]}, {synthesizer}", lambda s=synthesizer, r=rounds: measure_torus(s, r))
        for synthesizer, rounds in ((TEXTBOOK, 0), (TEXTBOOK, 1), ("tacos", 0), ("tacos", 1), ("tacos", 2))
    ]
    return [Case("designs of the LIBRA paper", measure_paper, Target(seconds=10, reached=1e-9)), *torus]
