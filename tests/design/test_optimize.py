"""The optimizer on random designs, against a second method, and on designs without a solution."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from collc.design.convex import LinearTime
from collc.design.optimize import optimum
from collc.design.problem import (
    DesignProblem,
    NetworkDimension,
    NoDesign,
    NoDesignReason,
    Objective,
    Row,
    TimeExpression,
    collective_time,
    constant,
    largest,
    weighted_sum,
)
from tests.cpu_time import at_most
from tests.design.papers import TRAFFIC, dimensions, problem, time_of


def random_problem(seed: int, objective: Objective) -> DesignProblem:
    """One to five dimensions, a few collectives that may overlap, a budget, and sometimes caps, floors and orders."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 6))
    parts: list[tuple[Fraction | int, TimeExpression]] = [(1, constant(int(draw.integers(0, 10**9)), n))]
    for _ in range(int(draw.integers(1, 4))):
        sizes = [Fraction(int(10 ** draw.uniform(5, 10))) if draw.random() < 0.8 else Fraction(0) for _ in range(n)]
        one = collective_time(sizes)
        if draw.random() < 0.4:
            other = collective_time([Fraction(int(10 ** draw.uniform(5, 10))) for _ in range(n)])
            one = largest([one, weighted_sum([(1, other), (1, constant(int(draw.integers(0, 10**7)), n))], n)])
        parts.append((int(draw.integers(1, 4)), one))
    unit = 10 ** draw.uniform(3, 6, n)
    rows = [Row(np.ones(n), 10 ** draw.uniform(1, 4), bool(draw.random() < 0.6), 0)]
    eye = np.eye(n)
    if draw.random() < 0.4:
        rows.append(Row(eye[int(draw.integers(n))], rows[0].limit * draw.uniform(0.05, 0.9), False, 1))
    if draw.random() < 0.6 or not rows[0].equal:
        rows.append(Row(-eye[int(draw.integers(n))], -rows[0].limit * draw.uniform(0.001, 0.3), False, 2))
    if n > 1 and draw.random() < 0.4:
        first, second = draw.permutation(n)[:2]
        rows.append(Row(eye[second] - eye[first], 0.0, False, 3))
    dims = tuple(NetworkDimension("ring", 4, "inter_pod", False, False, Fraction(1)) for _ in range(n))
    return DesignProblem(dims, weighted_sum(parts, n), unit, tuple(rows), None, objective)


def by_slsqp(wanted: DesignProblem, starts: list[np.ndarray]) -> float:
    """The least value that sequential quadratic programming finds, in the logarithms of bandwidths and maxima."""
    linear, n = LinearTime.of(wanted.time), len(wanted.unit_cost)
    best = float("inf")
    for start in starts:
        maxima = np.array([maximum.value(start.tolist()) for maximum in linear.maxima])
        base = np.concatenate([start, maxima])
        scale = wanted.value(start.tolist())

        def split(z: np.ndarray, base: np.ndarray = base) -> tuple[np.ndarray, np.ndarray]:
            values = base * np.exp(np.clip(z, -50, 50))
            return values[:n], values[n:]

        def times(rates: np.ndarray, own: np.ndarray) -> np.ndarray:
            return linear.constants + linear.bytes @ (1 / rates) + linear.weights @ own

        def total(z: np.ndarray, scale: float = scale) -> float:
            rates, own = split(z)
            time = times(rates, own)[0]
            return (time if wanted.objective is Objective.TIME else time * wanted.cost(rates)) / scale

        def slack(z: np.ndarray, option: int) -> float:
            rates, own = split(z)
            return float(np.log(own[linear.number[option]] / max(times(rates, own)[1 + option], 1e-300)))

        def room(z: np.ndarray, row: Row) -> float:
            return float(row.limit - row.coefficients @ split(z)[0]) / max(abs(row.limit), 1)

        conditions = [{"type": "ineq", "fun": slack, "args": (k,)} for k in range(len(linear.number))]
        conditions += [{"type": "eq" if r.equal else "ineq", "fun": room, "args": (r,)} for r in wanted.rows]
        options = {"maxiter": 500, "ftol": 1e-14}
        found = minimize(total, np.zeros(len(base)), method="SLSQP", constraints=conditions, options=options)
        rates = split(found.x)[0]
        if all(violation(row, rates) <= 1e-9 * wanted.rows[0].limit for row in wanted.rows):
            best = min(best, wanted.value(rates.tolist()))
    return best


def violation(row: Row, rates: np.ndarray) -> float:
    excess = float(row.coefficients @ rates) - row.limit
    return abs(excess) if row.equal else excess


def compare(seed: int, objective: Objective) -> str:
    """Compare both methods on one random design; returns which was better, or that there is no design."""
    wanted = random_problem(seed, objective)
    try:
        found = optimum(wanted)
    except NoDesign as error:
        return "none" if error.reason is not NoDesignReason.INFEASIBLE else "infeasible"
    assert found.gap <= 2e-9, seed
    for row in wanted.rows:
        assert violation(row, np.array(found.bandwidth)) <= 1e-8 * wanted.rows[0].limit, seed
    rates = np.maximum(np.array(found.bandwidth), 1e-9)
    other = by_slsqp(wanted, [rates, rates * np.random.default_rng(seed).uniform(0.5, 1.0, len(rates))])
    assert other >= found.bound * (1 - 1e-8), seed
    return "equal" if other <= found.objective * (1 + 1e-6) else "better"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
def test_against_slsqp(objective: Objective) -> None:
    outcomes = [compare(seed, objective) for seed in range(8)]
    assert "infeasible" not in outcomes
    assert outcomes.count("equal") >= 5, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
def test_against_slsqp_on_many(objective: Objective) -> None:
    outcomes = [compare(seed, objective) for seed in range(100, 200)]
    assert outcomes.count("equal") >= 50, outcomes


def small(rows: list[Row], objective: Objective = Objective.TIME, deadline: float | None = None, compute: int = 10**6):
    """GPT-3 like traffic in three dimensions."""
    time = weighted_sum([(1, constant(compute, 3)), (1, collective_time([Fraction(x) for x in (10**9, 10**8, 0)]))], 3)
    dims = tuple(NetworkDimension("ring", 4, "inter_pod", False, False, Fraction(1)) for _ in range(3))
    return DesignProblem(dims, time, np.array([1.0, 2.0, 3.0]), tuple(rows), deadline, objective)


ONE = np.eye(3)
BUDGET = Row(np.ones(3), 100.0, False, 0)


def reason(wanted: DesignProblem) -> NoDesign:
    with pytest.raises(NoDesign) as caught:
        optimum(wanted)
    return caught.value


def test_contradictions_name_the_constraints_involved() -> None:
    rows = [Row(-ONE[1], -1.0, False, 0), Row(np.ones(3), 100.0, True, 1), Row(-ONE[2], -200.0, False, 2)]
    found = reason(small(rows))
    assert (found.reason, found.statements) == (NoDesignReason.INFEASIBLE, (1, 2))


def test_a_dimension_with_traffic_needs_bandwidth() -> None:
    rows = [BUDGET, Row(ONE[1], 0.0, True, 1)]
    for objective in (Objective.TIME, Objective.PRODUCT):
        floor = Row(-np.ones(3), -10.0, False, 2)
        found = reason(small([*rows, floor], objective))
        assert (found.reason, found.statements) == (NoDesignReason.INFEASIBLE, (1,))


def test_a_dimension_without_limit() -> None:
    both = reason(small([]))
    assert both.reason is NoDesignReason.UNBOUNDED
    assert both.dimensions == (0, 1, 2)


def test_time_that_a_limited_dimension_sets() -> None:
    """Dimension 1 has no limit, but needs no more than a tenth of dimension 0; dimension 2 carries nothing."""
    found = optimum(small([Row(ONE[0], 10.0, False, 0)]))
    assert found.bandwidth == pytest.approx((10, 1, 0), rel=1e-6)


def test_ill_posed_products() -> None:
    assert reason(small([BUDGET], Objective.PRODUCT)).reason is NoDesignReason.NO_FLOOR
    assert reason(small([BUDGET], Objective.COST)).reason is NoDesignReason.NO_FLOOR
    floor = Row(-ONE[0], -1.0, False, 0)
    assert reason(small([floor], Objective.PRODUCT, compute=0)).reason is NoDesignReason.NO_COMPUTE
    assert optimum(small([floor], Objective.PRODUCT)).gap <= 1e-9
    assert optimum(small([BUDGET], Objective.PRODUCT, deadline=1e9)).gap <= 1e-9


def test_deadlines() -> None:
    early = reason(small([BUDGET], deadline=2e6))
    assert early.reason is NoDesignReason.DEADLINE
    assert early.time == pytest.approx(1e6 + 1.1e9 / 100, rel=1e-9)
    cheapest = optimum(small([BUDGET], Objective.COST, deadline=21e6))
    assert cheapest.bandwidth == pytest.approx((50, 5, 0), rel=1e-6)
    assert reason(small([BUDGET], Objective.COST, deadline=2e6)).reason is NoDesignReason.DEADLINE
    assert reason(small([], deadline=0.9e6)).reason is NoDesignReason.DEADLINE


def test_of_equal_times_the_cheapest() -> None:
    """With a budget as a limit, what does not shorten the time is not bought."""
    time = largest([collective_time([Fraction(10**9), Fraction(0)]), constant(10**8, 2)])
    dims = tuple(NetworkDimension("ring", 4, "inter_pod", False, False, Fraction(1)) for _ in range(2))
    wanted = DesignProblem(dims, time, np.array([1.0, 2.0]), (Row(np.ones(2), 100.0, False, 0),))
    assert optimum(wanted).bandwidth == pytest.approx((10, 0), rel=1e-6, abs=1e-6)


@pytest.mark.slow
def test_all_workloads_networks_budgets_and_objectives() -> None:
    """160 designs in less than 10 s of CPU time."""
    with at_most(10):
        for workload, network in TRAFFIC:
            for total in range(100, 1100, 100):
                for objective in (Objective.TIME, Objective.PRODUCT):
                    wanted = problem(dimensions(network), time_of(workload, network), float(total), objective=objective)
                    assert optimum(wanted).gap <= 1e-9
