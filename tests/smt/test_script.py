"""The counters of scripts count right, and limits of the solver end a search."""

from __future__ import annotations

from itertools import product

import pytest

from collc.smt.script import Script, Undecided, all_of, any_of
from collc.smt.solver import SolverLimits, solve
from tests.smt.questions import pigeons


def answer(script: Script) -> str:
    return solve(script.text(), SolverLimits(20.0), propositional=True)[0].answer


@pytest.mark.parametrize("limit", range(5))
@pytest.mark.parametrize("unless", ["", "u"])
def test_at_most_for_all_assignments(limit: int, unless: str) -> None:
    for values in product([False, True], repeat=4):
        for free in (False, True):
            script = Script("QF_UF")
            names = [script.declare(f"x{i}") for i in range(4)]
            script.declare("u")
            script.at_most(limit, names, unless)
            for name, value in (*zip(names, values, strict=True), ("u", free)):
                script.require(name if value else f"(not {name})")
            allowed = sum(values) <= limit or (free and bool(unless))
            assert answer(script) == ("sat" if allowed else "unsat"), (values, free)


@pytest.mark.parametrize("most", [1, 2, 4])
def test_counted_for_all_assignments(most: int) -> None:
    for values in product([False, True], repeat=4):
        script = Script("QF_UF")
        counts: list[str] = []
        for i, value in enumerate(values):
            name = script.declare(f"x{i}")
            script.require(name if value else f"(not {name})")
            counts = script.count_one_more(counts, name, most)
        expected = [count if k < sum(values) else f"(not {count})" for k, count in enumerate(counts)]
        script.require(f"(not {all_of(expected)})")
        assert len(counts) == most
        assert answer(script) == "unsat", values


def test_require_not_all() -> None:
    for terms, expected in ((["true", "true"], "unsat"), (["true", "false"], "sat"), ([], "unsat")):
        script = Script("QF_UF")
        script.require_not_all(terms)
        assert answer(script) == expected


def test_joined_terms() -> None:
    assert (any_of([]), any_of(["a"]), any_of(["a", "b"])) == ("false", "a", "(or a b)")
    assert (all_of([]), all_of(["a"]), all_of(["a", "b"])) == ("true", "a", "(and a b)")


def test_a_script_that_is_too_large_is_undecided() -> None:
    script = Script("QF_UF", most=1_000_000)
    script.require("x" * 999_991)
    with pytest.raises(Undecided, match="larger than 1 MB"):
        script.require("")


def test_limits_end_a_search() -> None:
    text = pigeons(13).text()
    asked: list[float] = []
    assert solve(text, SolverLimits(0.2, progress=asked.append), propositional=True)[0].answer == "unknown"
    assert asked[0] == pytest.approx(0.0, abs=0.9)
    assert solve(text, SolverLimits(60.0, work=10_000), propositional=True)[0].answer == "unknown"
    assert solve(text, SolverLimits(60.0, stop=lambda: True), propositional=True)[0].answer == "unknown"
    assert solve(pigeons(4).text(), SolverLimits(60.0), propositional=True)[0].answer == "unsat"


def test_a_model_names_what_is_true() -> None:
    script = Script("QF_UF")
    for name, term in (("a", "a"), ("b", "(not b)")):
        script.declare(name)
        script.require(term)
    assert solve(script.text(), SolverLimits(20.0), propositional=True)[1] == {"a"}
