"""Questions to Z3: equal ones get equal answers, whatever was asked before and however fast the machine is."""

import subprocess
import sys

import pytest

import collc.smt.solver
from collc.smt.script import Undecided
from collc.smt.solver import SolverLimits, solve
from collc.synthesis.exact import exact_sums
from collc.synthesis.exact.sums import SumEncoding
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from tests.smt.questions import pigeons
from tests.support import MiB, all_reduce, demand_of, ring


def sums(npus: int, steps: int, chunks: int = 1) -> str:
    """The question whether a ring can form sums in some steps."""
    net = ring(npus)
    group = list(range(npus))
    demand = demand_of([(MiB, group, group, Op.SUM)] * chunks)
    return SumEncoding(Module("m", net, demand), steps, lambda: False).text()


@pytest.mark.parametrize("finite", [True, False])
def test_an_answer_does_not_depend_on_what_was_asked_before(finite: bool) -> None:
    question, limits = sums(4, 3, chunks=4), SolverLimits(60.0)
    first = solve(question, limits, finite)
    for other in (sums(5, 3, chunks=2), sums(5, 2), sums(6, 4)):
        solve(other, limits, finite)
        assert solve(question, limits, finite) == first


def test_a_schedule_does_not_depend_on_what_was_asked_before() -> None:
    net = ring(5)
    module = Module("m", net, all_reduce(net.npus.tolist()))
    first = exact_sums(module, Effort(), 6)
    exact_sums(Module("m", ring(4), all_reduce([0, 1, 2, 3])), Effort(), 4)
    again = exact_sums(module, Effort(), 6)
    for column in ("chunk", "link", "start", "reduce"):
        assert getattr(first.transfers, column).tobytes() == getattr(again.transfers, column).tobytes()


def test_calls_end_by_work_and_add_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that ends by the clock would leave Z3 in a state that depends on the speed of the machine."""
    monkeypatch.setattr(collc.smt.solver, "_FIRST_CALL", 1_000)
    reports: list[float] = []
    asked = SolverLimits(60.0, work=7_000, progress=reports.append)
    assert solve(pigeons(9).text(), asked, propositional=True)[0].answer == "unknown"
    assert len(reports) == 3  # 1,000, 2,000 and 4,000
    assert solve(pigeons(4).text(), SolverLimits(60.0), propositional=True)[0].answer == "unsat"


def test_a_search_ends_when_it_is_asked_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collc.smt.solver, "_FIRST_CALL", 1_000)
    answers = iter([False, False, True])
    asked = SolverLimits(60.0, stop=lambda: next(answers))
    assert solve(pigeons(9).text(), asked, propositional=True)[0].answer == "unknown"


LARGE = """
import resource
from collc.base.memory import limit_memory
from collc.smt.script import Undecided
from collc.smt.solver import SolverLimits, solve

names = [f"b{k}" for k in range(4000)]
clauses = (f"(assert (or {names[k % 3989]} (not {names[k % 3967]}) {names[k % 3947]}))" for k in range(200_000))
text = "\\n".join(["(set-logic QF_UF)", *(f"(declare-const {name} Bool)" for name in names), *clauses])
limit_memory(100 * 2**20)
try:
    solve(text, SolverLimits(10.0), propositional=True)
except Undecided as why:
    print(why)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what is taken")
def test_a_script_beyond_the_memory_is_not_read() -> None:
    """Z3 ended the process with 101 and no word."""
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    message = "Z3 needs more memory than is left of 100 MiB: --memory-limit allows more\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, message, "")


def test_a_search_ends_before_the_memory_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collc.smt.solver, "memory_left", lambda: 100 * 2**20)
    monkeypatch.setattr(collc.smt.solver, "SHARE", 0.01)
    for propositional in (True, False):
        with pytest.raises(Undecided, match="Z3 needs more memory than is left"):
            solve(pigeons(9).text(), SolverLimits(60.0), propositional)
