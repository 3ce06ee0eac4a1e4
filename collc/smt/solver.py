"""The one module that calls Z3. What the solver reads is the text of the certificate."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic
from typing import Any, Final, Literal

from collc.base.memory import SHARE, SMALL, gibibytes, memory_left, memory_limit
from collc.smt.script import Undecided

Answer = Literal["sat", "unsat", "unknown"]

_MEMORY_OF_A_BYTE: Final = 32
"""Bytes that Z3 takes at most for a byte of a script, beside those for any (16 to 25 MiB): it took 13 to 26 for scripts
of 2 to 20 MB."""

_FIRST_CALL: Final = 1_000_000
"""Work of the first call of Z3, after which progress is reported and `stop` is asked; each later call may do twice as
much. Calls end by work, not by the clock, so that the answer is the same on all machines."""

_LONGEST: Final = 2**31
"""Milliseconds that a call may take at most, which Z3 keeps in 32 bits."""

_ENDED: Final = ("canceled", "resource", "timeout")
"""What Z3's reason for an unknown answer has in it if a call ended by a limit."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A question that any SMT solver can answer again.

    text: SMT-LIB 2.6. answer: what the solver said. solver: its name and version.
    """

    text: str
    answer: Answer
    solver: str

    def __str__(self) -> str:
        """The text, with the answer and the solver in comments above it."""
        return f"; answer: {self.answer}\n; solver: {self.solver}\n{self.text}"


class Interrupted(Undecided):
    """Ctrl-C while Z3 was at work."""

    def __init__(self) -> None:
        super().__init__("the proof was interrupted by Ctrl-C")


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """How long Z3 may work on one question.

    seconds: wall-clock time. work: Z3's resource limit (`rlimit`), which stops at the same point on every machine (a
    million takes 0.1 to 0.6 s); None for no limit. seed: Z3's random seed. stop: asked now and then; True ends the
    search. progress: called now and then with the share of the time that is over, from 0 to 1.
    """

    seconds: float
    work: int | None = None
    seed: int = 0
    stop: Callable[[], bool] = field(default=lambda: False)
    progress: Callable[[float], None] = field(default=lambda _share: None)


def _out_of_memory() -> Undecided:
    return Undecided(
        f"Z3 needs more memory than is left of {gibibytes(memory_limit() or 0)}: --memory-limit allows more"
    )


def solve(text: str, limits: SolverLimits, propositional: bool) -> tuple[Certificate, frozenset[str]]:
    """Ask Z3 for a model of a script.

    propositional: the script has only Booleans, and goes to Z3's SAT solver. Returns the certificate, and the Boolean
    constants that are true in the model if the answer is "sat". Raises Interrupted at Ctrl-C, or
    KeyboardInterrupt if Python's handler of the signal does: Z3 catches the signal first. Raises Undecided if Z3 needs
    more memory than is left: without memory to read a script it would end the process.
    """
    left = memory_left()
    if left is not None and SMALL + _MEMORY_OF_A_BYTE * len(text) > left:
        raise _out_of_memory()
    z3: Any = import_module("z3")
    began = monotonic()
    context = z3.Context()  # what Z3 was asked before in the same context changes its answers
    solver = z3.SolverFor("QF_FD", ctx=context) if propositional else z3.Solver(ctx=context)
    solver.set("random_seed", limits.seed)
    if left is not None:
        solver.set("max_memory", int(left * SHARE) >> 20)
    solver.from_string(text)
    said, call, spent = "unknown", _FIRST_CALL, 0
    while said == "unknown" and (left := limits.seconds - (monotonic() - began)) > 0 and not limits.stop():
        budget = call if limits.work is None else min(call, limits.work - spent)
        if budget <= 0:
            break
        limits.progress(1 - left / limits.seconds)
        solver.set("rlimit", budget)
        solver.set("timeout", min(_LONGEST, int(left * 1000) + 1))
        with ThreadPoolExecutor(1) as pool:  # so that Python's handlers of signals run meanwhile
            check = pool.submit(solver.check)
            try:
                said = str(check.result())
            except z3.Z3Exception as error:  # some ways to the end of the memory
                if "memory" not in str(error):
                    raise
                raise _out_of_memory() from error
            except BaseException:
                solver.interrupt()
                raise
        reason = str(solver.reason_unknown()) if said == "unknown" else ""
        if "interrupt" in reason:
            signal.raise_signal(signal.SIGINT)  # for Python's handler, which may raise KeyboardInterrupt
            raise Interrupted
        if "memory" in reason:
            raise _out_of_memory()
        if reason and not any(word in reason for word in _ENDED):
            break
        spent += budget
        call *= 2
    answer: Answer = "sat" if said == "sat" else "unsat" if said == "unsat" else "unknown"
    true: frozenset[str] = frozenset()
    if answer == "sat":
        model = solver.model()
        true = frozenset(str(name) for name in model.decls() if z3.is_true(model[name]))
    return Certificate(text, answer, f"Z3 {z3.get_version_string()}"), true
