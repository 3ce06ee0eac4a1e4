"""The optimizer against the numbers that LIBRA and SmartBW give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from collc.design.comparison import smart
from collc.design.optimize import optimum
from collc.design.problem import DesignProblem, NetworkDimension, Objective, Row, collective_time
from collc.design.training_time import traffic
from collc.source.elaboration.designs import default_prices
from tests.design.papers import TRAFFIC, dimensions, problem, time_of

CASES = [
    ("GPT-3", "3D", Objective.TIME, [795.1, 180.0, 24.9], 705.94, 21.83, 1.031, None),
    ("GPT-3", "4D", Objective.TIME, [676.9, 169.2, 116.3, 37.6], 703.43, 19.05, 1.037, None),
    ("MSFT-1T", "4D", Objective.TIME, [643.5, 187.7, 20.1, 148.7], 189.84, 43.64, 1.134, None),
    ("ResNet-50", "4D", Objective.TIME, [750.2, 218.8, 23.4, 7.6], 1.197, 11.89, 1.170, None),
    ("GPT-3", "4D", Objective.PRODUCT, [927.6, 63.0, 7.1, 2.3], 775.67, 9.28, None, 6.99),
    ("MSFT-1T", "3D", Objective.PRODUCT, [932.3, 54.4, 13.3], 217.57, 19.29, None, 4.51),
]


@pytest.mark.parametrize(("workload", "network", "objective", "rates", "time", "cost", "speedup", "per_cost"), CASES)
def test_published_designs(workload, network, objective, rates, time, cost, speedup, per_cost) -> None:
    dims = dimensions(network)
    wanted = problem(dims, time_of(workload, network), objective=objective)
    found = optimum(wanted)
    assert [round(rate, 1) for rate in found.bandwidth] == rates
    assert sum(found.bandwidth) == pytest.approx(1000, rel=1e-12)
    assert found.time / 1e6 == pytest.approx(time, abs=0.0065 if time > 100 else 0.0006)
    assert found.cost / 1e6 == pytest.approx(cost, abs=0.006)
    assert found.gap <= 1e-9
    equal = [1000 / len(dims)] * len(dims)
    if speedup:
        assert wanted.time.value(equal) / found.time == pytest.approx(speedup, abs=0.0006)
    if per_cost:
        product = wanted.time.value(equal) * wanted.cost(equal)
        assert product / found.time / found.cost == pytest.approx(per_cost, abs=0.006)


def test_costs_of_equal_bandwidths() -> None:
    assert problem(dimensions("4D"), time_of("GPT-3", "4D")).cost([250] * 4) == pytest.approx(69_017_784.32)
    three = problem(dimensions("3D"), time_of("GPT-3", "3D"))
    assert three.cost([1000 / 3] * 3) == pytest.approx(89_292_963.84, rel=1e-9)
    assert np.allclose(three.unit_cost, [16384.04096, 16384.08192, 235110.76864], rtol=1e-12)
    four = [8192.04096, 16384.08192, 16384.12288, 235110.89152]
    assert np.allclose(problem(dimensions("4D"), time_of("GPT-3", "4D")).unit_cost, four, rtol=1e-12)


def test_cost_of_three_npus_on_a_switch() -> None:
    pod = default_prices()["inter_pod"]
    parts = [3 * 10 * price for price in (pod.link, pod.switch, pod.nic)]
    assert (parts, sum(parts)) == ([234, 540, 948], 1722)


def test_same_cost_buys_five_times_the_bandwidth() -> None:
    dims = dimensions("4D")
    plain = problem(dims, time_of("GPT-3", "4D"), total=None)
    limit = Row(plain.unit_cost / plain.unit_cost.max(), 15e6 / plain.unit_cost.max(), False, 0)
    found = optimum(DesignProblem(dims, plain.time, plain.unit_cost, (limit,)))
    assert found.cost == pytest.approx(15e6, rel=1e-9)
    equal = 15e6 / plain.unit_cost.sum() * len(dims)
    assert sum(found.bandwidth) / equal == pytest.approx(5.0522, abs=1e-4)


def example(deadline: float | None = None) -> DesignProblem:
    """All-Reduce of 1e9 bytes on Ring(4) * Switch(8) with 100 GB/s in all."""
    dims = (
        NetworkDimension("ring", 4, "inter_node", False, False, Fraction(4 * 32)),
        NetworkDimension("switched", 8, "inter_pod", True, False, Fraction(574 * 32, 10)),
    )
    time = collective_time(traffic("all_reduce", 10**9, (4, 8), (False, False)))
    unit = np.array([float(d.unit_cost) for d in dims])
    return DesignProblem(dims, time, unit, (Row(np.ones(2), 100.0, True, 0),), deadline)


def test_example_of_the_constraints() -> None:
    assert traffic("all_reduce", 10**9, (4, 8), (False, False)) == (1_500_000_000, 437_500_000)
    found = optimum(example())
    assert found.bandwidth == pytest.approx((2400 / 31, 700 / 31), rel=1e-9)
    assert found.time == pytest.approx(19_375_000, rel=1e-10)
    assert found.cost == pytest.approx(51_385.81, abs=0.005)


def test_cheapest_at_a_deadline() -> None:
    """At 1.25 T the cheapest network has 1 / 1.25 of the bandwidths; it is found by the cost alone."""
    whole = example()
    free = DesignProblem(whole.dimensions, whole.time, whole.unit_cost, (), 1.25 * 19_375_000, Objective.COST)
    found = optimum(free)
    assert found.bandwidth == pytest.approx((61.935, 18.065), abs=0.0006)
    assert found.cost == pytest.approx(41_108.65, abs=0.005)


@pytest.mark.parametrize(("workload", "network"), TRAFFIC)
@pytest.mark.parametrize("total", [100.0, 1000.0])
def test_smart_is_the_optimum(workload: str, network: str, total: float) -> None:
    dims = dimensions(network)
    rows = [[float(size) for size in row] for row in TRAFFIC[workload, network][1]]
    rates = smart(total, rows[0], rows[1] if len(rows) > 1 else [0.0] * len(dims))
    assert rates is not None
    wanted = problem(dims, time_of(workload, network), total)
    assert sum(rates) == pytest.approx(total, rel=1e-12)
    assert wanted.time.value(rates) == pytest.approx(optimum(wanted).time, rel=1e-9)
