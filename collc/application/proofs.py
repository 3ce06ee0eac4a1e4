"""`verify optimal`, `verify proved` and `--prove`: what is asked of Z3, and how the answer is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collc.application.compile_report import Optimal
from collc.application.settings import Settings
from collc.base.atomic_files import drafting, inside, write_file
from collc.base.diagnostics import CheckFailed, Diagnostic, Note, Span
from collc.base.outcome import Outcome
from collc.base.units import format_time
from collc.ten.module import Module

PROOF_SECONDS = 60.0
"""How long Z3 may take for a proof where no time limit is given."""

_CONGESTED = "two chunks are on one link at once, so that the schedule takes longer than its time says"

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Proofs:
    """What came of all proofs.

    checks: those that were asked for; what is not proved is failed. optimal: the answer about optimality, None where
    nobody asked. certificates: SMT-LIB texts, in the order in which Z3 was asked.
    """

    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    optimal: Optimal | None = None


def prove(
    module: Module,
    wanted: Mapping[str, Span | None],
    settings: Settings,
    progress: Progress,
    *,
    congested: bool = False,
) -> Proofs:
    """Ask Z3 for what `verify` wants ("optimal", "proved", with their places) and for what `--prove` adds.

    `--prove` wants the properties proved; whether the schedule is optimal it only tells. A shorter schedule is written
    to the output folder as NAME.shorter.ten, once it is verified. The certificate is written also where a proof fails.
    congested: two chunks are on a link at once, which the program allows: such a schedule is not as long as it says.
    """
    timeout = settings.time_limit or PROOF_SECONDS
    answers: list[Proofs] = []
    if "optimal" in wanted or settings.prove:
        answers.append(_optimality(module, wanted, settings, timeout, progress, congested))
    if "proved" in wanted or settings.prove:
        answers.append(_properties(module, wanted.get("proved"), timeout, progress))
    certificates = tuple(text for answer in answers for text in answer.certificates)
    return Proofs(
        {name: outcome for answer in answers for name, outcome in answer.checks.items()},
        (*(told for answer in answers for told in answer.diagnostics), *_certified(settings, wanted, certificates)),
        tuple(note for answer in answers for note in answer.notes),
        certificates,
        next((answer.optimal for answer in answers if answer.optimal is not None), None),
    )


def _certified(
    settings: Settings, wanted: Mapping[str, Span | None], certificates: tuple[str, ...]
) -> list[Diagnostic]:
    """Write the certificate, or say why there is none."""
    path = settings.certificate
    if path is None:
        return []
    if certificates:
        write_file(path, "(reset)\n".join(certificates))
        return []
    message = f"{path} was not written: nothing had to be asked of Z3"
    hint = "ask for a proof: --prove, 'verify optimal' or 'verify proved'"
    if settings.prove or "proved" in wanted:
        hint = "a note or message says what keeps Z3 from being asked"
    elif "optimal" in wanted:
        hint = "what meets its bound is optimal without Z3; 'verify proved' asks it for the properties"
    return [Diagnostic("C0207", message, hint=hint, warning=True)]


def _optimality(
    module: Module,
    wanted: Mapping[str, Span | None],
    settings: Settings,
    timeout: float,
    progress: Progress,
    congested: bool,
) -> Proofs:
    """Whether no schedule is shorter: a lower bound is met, or Z3 shows it. timeout: seconds."""
    from collc.verification.optimal import Optimality, prove_optimal

    found = prove_optimal(module, timeout, progress) if not congested else Optimality("undecided", _CONGESTED)
    certificates = tuple(map(str, found.certificates))
    asked = "optimal" in wanted
    outcome: Outcome = "ok" if found.answer == "proved" else "failed"
    checks: dict[str, Outcome] = {"optimal": outcome} if asked else {}
    if found.answer == "proved":
        told = Optimal("proved", found.reason)
        return Proofs(checks, (), (f"optimal: {found.reason}",), certificates, told)
    span = wanted.get("optimal")
    if found.shorter is not None and found.shorter.schedule is not None:
        better = found.shorter.schedule.collective_time(module.network, module.demand)
        path = _offered(found.shorter, settings.output)
        message = f"the schedule is not optimal: one of {format_time(better)} exists"
        notes = (Note(found.reason), Note(f"it is in {path}, verified"))
        hint = "take it from there; more trials or another way of synthesis may find one as short"
        diagnostic = Diagnostic("C0104", message, span, notes, hint, warning=not asked)
        return Proofs(checks, (diagnostic,), (), certificates, Optimal("refuted", found.reason, path, better))
    told = Optimal("undecided", found.reason)
    if not asked:
        return Proofs(checks, (), (f"optimal: not decided: {found.reason}",), certificates, told)
    message = "it is not decided whether the schedule is optimal"
    hint = "ask for what can be measured: 'verify time <= 1.05 * bound'"
    if found.timed_out:
        hint = "give the proof more time with --time-limit, or " + hint
    elif congested:
        hint = "leave out 'allow congestion', so that a schedule without it is sought"
    return Proofs(checks, (Diagnostic("C0103", message, span, (Note(found.reason),), hint),), (), certificates, told)


def _offered(shorter: Module, folder: Path) -> Path:
    """Write a shorter schedule, read it back and verify that. Raises CheckFailed where it is not right."""
    from collc.base.reading import read_text
    from collc.ten.text.read import parse_module
    from collc.ten.text.write import write_module
    from collc.verification import verify_schedule

    path = inside(folder, f"{shorter.name}.shorter.ten")
    with drafting() as draft:
        written = draft.new(path)
        with written.open("w", encoding="utf-8", newline="\n") as file:
            write_module(shorter, file)
        verdict = verify_schedule(parse_module(read_text(written)))
        if not verdict.ok:
            raise CheckFailed(*verdict.diagnostics)
        draft.publish()
    return path


def _properties(module: Module, span: Span | None, timeout: float, progress: Progress) -> Proofs:
    """Whether Z3 proves all properties of the schedule; not proved is failed. timeout: seconds, for each."""
    from collc.verification.prove import prove_properties

    found = prove_properties(module, timeout, progress)
    certificates = tuple(map(str, found.certificates.values()))
    open_ = [name for name, outcome in found.outcomes.items() if outcome != "proved"]
    if not open_:
        return Proofs({"proved": "ok"}, (), ("proved: " + ", ".join(found.outcomes),), certificates)
    notes = tuple(Note(f"{name}: {found.outcomes[name]}. {found.reasons.get(name, '')}") for name in open_)
    hint = "proofs are for small schedules: take fewer NPUs or chunks"
    if found.timed_out:
        hint += ", or give them more time with --time-limit"
    elif found.answer == "refuted":
        hint = "it does not hold: see the other messages"
    told = Diagnostic("C0105", f"Z3 does not prove {', '.join(open_)}", span, notes, hint)
    return Proofs({"proved": "failed"}, (told,), (), certificates)
