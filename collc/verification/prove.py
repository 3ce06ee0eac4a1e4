"""The properties of a schedule as formulas over its times, for Z3; they share no code with `verify_schedule`.

Each property is negated; "unsat" proves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from collc.smt.script import Script, Undecided
from collc.smt.solver import Certificate, Interrupted, SolverLimits, solve
from collc.ten.module import Module
from collc.verification.property_proof.formulas import PROPERTIES
from collc.verification.property_proof.scheduled_transfers import ScheduledTransfers
from collc.verification.verdict import checks_of

MOST_TRANSFERS: Final = 20_000
Answer = Literal["proved", "refuted", "undecided"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved of a schedule.

    outcomes: by the names of the checks of `verify_schedule`. reasons: in words, if one is undecided.
    certificates: what the solver was asked.
    """

    outcomes: dict[str, Answer]
    reasons: dict[str, str]
    certificates: dict[str, Certificate]

    @property
    def timed_out(self) -> bool:
        """Whether the solver ran out of time."""
        return any(certificate.answer == "unknown" for certificate in self.certificates.values())

    @property
    def answer(self) -> Answer:
        """The outcome of all properties together."""
        found = set(self.outcomes.values())
        return "refuted" if "refuted" in found else "undecided" if "undecided" in found else "proved"


def prove_properties(
    module: Module, timeout: float = 60.0, progress: Callable[[float, str], None] = lambda _share, _words: None
) -> Proof:
    """Prove the properties that `verify_schedule` checks; `timeout` is in seconds, for each of them.

    "delivered" of reductions is part of "reductions".
    """
    outcomes: dict[str, Answer] = {}
    reasons: dict[str, str] = {}
    certificates: dict[str, Certificate] = {}
    properties = checks_of(module.network)
    for number, name in enumerate(properties):

        def report_share(share: float, number: int = number, name: str = name) -> None:
            progress((number + share) / len(properties), f"proving {name}")

        report_share(0.0)
        try:
            certificate = _prove(module, name, timeout, report_share)
        except Interrupted as why:
            left = list(properties)[number:]
            outcomes |= dict.fromkeys(left, "undecided")
            reasons |= dict.fromkeys(left, str(why))
            break
        except Undecided as why:
            outcomes[name], reasons[name] = "undecided", str(why)
            continue
        certificates[name] = certificate
        answers: dict[str, Answer] = {"unsat": "proved", "sat": "refuted", "unknown": "undecided"}
        outcomes[name] = answers[certificate.answer]
        if certificate.answer == "unknown":
            reasons[name] = f"Z3 found no answer within {timeout:g} s"
    return Proof(outcomes, reasons, certificates)


def _prove(module: Module, name: str, timeout: float, progress: Callable[[float], None]) -> Certificate:
    if module.schedule is None:
        raise Undecided("there is no schedule")
    if len(module.schedule) > MOST_TRANSFERS:
        raise Undecided(f"more than {MOST_TRANSFERS} transfers are too many for a proof")
    times, formulas = PROPERTIES[name]
    transfers = ScheduledTransfers(module)
    script = Script(times.logic, f"{name} of a schedule with {len(transfers.all)} transfers: unsat means that it holds")
    for transfer in transfers.all:
        times.declare(script, transfer)
    script.require_not_all(formulas(transfers, script, times))
    return solve(script.text(), SolverLimits(timeout, progress=progress), propositional=False)[0]
