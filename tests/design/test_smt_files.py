"""The SMT-LIB files of designs: Z3 answers sat at the optimum and unsat at 0.999 times its value."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import z3

from collc.design.optimize import optimum
from collc.design.problem import DesignProblem, ExactRow, NoDesign, Objective
from collc.emit.libra import solver_files
from collc.emit.libra.solver_files import LibraModel, cost_ranges, smt_text
from collc.source.elaboration.designs import default_prices
from tests.design.papers import TRAFFIC, dimensions, problem, time_of
from tests.design.test_libra_files import EXAMPLE, LOOPS, solved, training
from tests.design.test_optimize import random_problem


def answers(text: str, seconds: int = 20) -> list[str]:
    """What Z3 answers; `unknown` after a time."""
    context = z3.Context()
    return z3.Z3_eval_smtlib2_string(context.ref(), f"(set-option :timeout {seconds * 1000})\n{text}").split()


PROGRAMS = {
    "two dimensions": EXAMPLE,
    "two dimensions, time * cost": EXAMPLE.replace("minimize time", "minimize time * cost"),
    **{
        f"{loop[:13]}, {objective}": training(loop, objective)
        for loop in LOOPS
        for objective in ("time", "time * cost")
    },
    "deadline": EXAMPLE.replace("minimize time", "require time <= 24.21875ms minimize cost"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_questions_have_the_expected_answers(program: str, tmp_path: Path) -> None:
    _, folder = solved(PROGRAMS[program], tmp_path)
    assert answers((folder / "d.smt2").read_text()) == ["sat", "unsat"]


def model_of(wanted: DesignProblem) -> LibraModel:
    """A problem in floating point as one in exact numbers."""
    best = optimum(wanted)
    rows = tuple(
        ExactRow(tuple(map(Fraction, row.coefficients.tolist())), "==" if row.equal else "<=", Fraction(row.limit))
        for row in wanted.rows
    )
    assert wanted.deadline is None
    costs = zip(wanted.dimensions, wanted.unit_cost.tolist(), strict=True)
    dims = tuple(replace(one, unit_cost=Fraction(cost)) for one, cost in costs)
    name, prices = wanted.objective.value, default_prices()
    return LibraModel("d", dims, wanted.time, rows, None, name, best.bandwidth, best.time, best.cost, prices)


@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
@pytest.mark.parametrize(("workload", "network"), TRAFFIC)
def test_the_designs_of_the_paper(workload: str, network: str, objective: Objective) -> None:
    wanted = problem(dimensions(network), time_of(workload, network), objective=objective)
    assert answers(smt_text(model_of(wanted))) == ["sat", "unsat"]


def consequences(text: str) -> tuple[z3.Solver, list[z3.BoolRef]]:
    """What a better design would be, for any time and cost, and what is said to follow."""
    declared = [
        f"(declare-const {line.split()[1]} Real)" if line.startswith("(define-fun") else line
        for line in text.splitlines()
        if line.startswith(("(declare-const B", "(declare-const x", "(define-fun", "(assert (> x"))
    ]
    second = text.split("(push 1)")[2].partition("(check-sat)")[0]
    (better,) = (line.split("That ")[1].split(" implies")[0] for line in text.splitlines() if "; That" in line)
    solver, implied = z3.Solver(), z3.Solver()
    solver.from_string("\n".join([*declared, f"(assert (and (> cost 0) {better}))"]))
    implied.from_string("\n".join([*declared, second]))
    return solver, implied.assertions()[len(implied.assertions()) - second.count("(assert") :]


@pytest.mark.parametrize("loop", LOOPS)
def test_what_the_second_question_adds_follows(loop: str, tmp_path: Path) -> None:
    """Each tangent from B x >= 1, and for each cost one of the ranges with its line."""
    _, folder = solved(training(loop, "time * cost"), tmp_path)
    solver, (ranges,) = consequences((folder / "d.smt2").read_text())
    tangents, lines = [], []
    for one in ranges.children():
        own = [(part, "x" in str(part)) for part in one.children()]
        tangents += [part for part, tangent in own if tangent]
        lines.append(z3.And([part for part, tangent in own if not tangent]))
    assert len(tangents) >= len(lines) - 1
    for tangent in tangents:
        assert solver.check(z3.Not(tangent)) == z3.unsat
    assert solver.check(z3.Not(z3.Or(lines))) == z3.unsat


def test_no_ranges_refute_what_is_possible() -> None:
    wanted = problem(dimensions("4D"), time_of("GPT-3", "4D"), objective=Objective.PRODUCT)
    best = optimum(wanted).objective
    assert cost_ranges(wanted, best * 1.0001) == ()
    ranges = cost_ranges(wanted, best * 0.9999)
    assert [one.low for one in ranges] == [0.0, *(one.high for one in ranges[:-1])]
    assert ranges[-1].high == float("inf")


def second_answer(text: str) -> list[str]:
    """Of the second question alone."""
    head, _, second = text.split("(push 1)")
    return answers(head + second.replace("(pop 1)", ""), 60)


@pytest.mark.slow
def test_random_designs() -> None:
    """Up to five dimensions."""
    for seed in range(500, 560):
        try:
            text = smt_text(model_of(random_problem(seed, Objective.PRODUCT)))
        except NoDesign:
            continue
        assert second_answer(text) == ["unsat"], seed
        head, first, _ = text.split("(push 1)")
        assert answers(head + first.replace("(pop 1)", "")) == ["sat"], seed


@pytest.mark.slow
@pytest.mark.parametrize("objective", [Objective.TIME, Objective.PRODUCT])
def test_exact_arithmetic_agrees_to_a_millionth(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random designs: linear arithmetic on fractions proves that none is better by a millionth."""
    monkeypatch.setattr(solver_files, "BETTER", 1 - Fraction(1, 10**6))
    proved = 0
    for seed in range(100, 140):
        try:
            model = model_of(random_problem(seed, objective))
        except NoDesign:
            continue
        assert second_answer(smt_text(model)) == ["unsat"], seed
        proved += 1
    assert proved >= 33
