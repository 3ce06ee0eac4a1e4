"""The proofs that `verify optimal`, `verify proved` and `--prove` ask for, and how their answers are reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from collc.application.compile.compile_report import Optimality, ShorterSchedule
from collc.application.settings import OUTPUT_HINT, Progress, Settings
from collc.base.atomic_files import open_draft, path_inside, write_file
from collc.base.diagnostics import CheckFailed, Diagnostic, Note, Outcome, Span
from collc.base.units import format_time
from collc.emit.ten import write_ten
from collc.ten.module import Module

PROOF_SECONDS: Final = 60.0
"""Time limit of each question to Z3 if the settings have none."""


@dataclass(frozen=True, slots=True)
class Proofs:
    """The answers of all proofs.

    checks: "optimal" and "proved" if they were asked for; what is not proved is failed. optimal: None if nobody
    asked. certificates: the formulas given to Z3 as SMT-LIB texts, in order.
    """

    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    certificates: tuple[str, ...] = ()
    optimal: Optimality | None = None


def prove(
    module: Module,
    wanted: Mapping[str, Span | None],
    settings: Settings,
    progress: Progress,
) -> Proofs:
    """Make the proofs that a program or the settings ask for.

    wanted: the names in `verify` statements with their places; "optimal" and "proved" ask for proofs. `settings.prove`
    asks for the properties, and reports whether the schedule is optimal without failing if it is not.

    A shorter schedule that Z3 finds is verified, and written to NAME.shorter.ten in the output folder if
    `settings.write_shorter` says so. The certificate is written also if a proof fails.
    """
    timeout = settings.time_limit or PROOF_SECONDS
    answers: list[Proofs] = []
    if "optimal" in wanted or settings.prove:
        answers.append(_prove_optimal(module, wanted, settings, timeout, progress))
    if "proved" in wanted or settings.prove:
        answers.append(_prove_properties(module, wanted.get("proved"), timeout, progress))
    certificates = tuple(text for answer in answers for text in answer.certificates)
    messages = [message for answer in answers for message in answer.diagnostics]
    return Proofs(
        {name: outcome for answer in answers for name, outcome in answer.checks.items()},
        (*messages, *_write_certificate(settings, wanted, certificates)),
        tuple(note for answer in answers for note in answer.notes),
        certificates,
        next((answer.optimal for answer in answers if answer.optimal is not None), None),
    )


def _write_certificate(
    settings: Settings, wanted: Mapping[str, Span | None], certificates: tuple[str, ...]
) -> list[Diagnostic]:
    """Write the certificate; the warning C0207 if Z3 was asked nothing."""
    path = settings.certificate
    if path is None:
        return []
    if certificates:
        write_file(path, "(reset)\n".join(certificates))
        return []
    message = f"{path} was not written: no question to Z3 was needed"
    hint = "ask for a proof: --prove, 'verify optimal' or 'verify proved'"
    if settings.prove or "proved" in wanted:
        hint = "a note or message says why Z3 was not asked"
    elif "optimal" in wanted:
        hint = "what meets its bound is optimal without Z3; 'verify proved' asks it for the properties"
    return [Diagnostic("C0207", message, hint=hint, warning=True)]


def _prove_optimal(
    module: Module,
    wanted: Mapping[str, Span | None],
    settings: Settings,
    timeout: float,
    progress: Progress,
) -> Proofs:
    """Whether no schedule is shorter: a lower bound is met, or Z3 shows it within `timeout` seconds.

    Messages: C0104 if Z3 finds a shorter schedule, C0103 if the question stays undecided.
    """
    from collc.verification.optimal import prove_optimal

    found = prove_optimal(module, timeout, progress, module.bound)
    certificates = tuple(map(str, found.certificates))
    asked = "optimal" in wanted
    outcome: Outcome = "ok" if found.answer == "proved" else "failed"
    checks: dict[str, Outcome] = {"optimal": outcome} if asked else {}
    if found.answer == "proved":
        return Proofs(checks, (), (f"optimal: {found.reason}",), certificates, Optimality("proved", found.reason))
    span = wanted.get("optimal")
    if found.shorter is not None:
        shorter = _keep_shorter(found.shorter, settings)
        message = f"the schedule is not optimal: one of {format_time(shorter.time_ps)} exists"
        where = () if shorter.file is None else (Note(f"it is in {shorter.file}, verified"),)
        hint = "take it from there; more trials or another synthesizer may find one as short"
        diagnostic = Diagnostic("C0104", message, span, (Note(found.reason), *where), hint, warning=not asked)
        return Proofs(checks, (diagnostic,), (), certificates, Optimality("refuted", found.reason, shorter))
    undecided = Optimality("undecided", found.reason)
    if not asked:
        return Proofs(checks, (), (f"optimal: not decided: {found.reason}",), certificates, undecided)
    message = "it is not decided whether the schedule is optimal"
    hint = "ask for what can be measured: 'verify time <= 1.05 * bound'"
    if found.timed_out:
        hint = "give the proof more time with --time-limit, or " + hint
    diagnostic = Diagnostic("C0103", message, span, (Note(found.reason),), hint)
    return Proofs(checks, (diagnostic,), (), certificates, undecided)


def _keep_shorter(module: Module, settings: Settings) -> ShorterSchedule:
    """A shorter schedule, written and kept as the settings say. The file is read back and verified.

    Raises CheckFailed if the schedule that was read back is not right.
    """
    from collc.base.reading import read_text
    from collc.ten.text.read import parse_module
    from collc.verification import verify_schedule

    time_ps = module.collective_time()
    kept = module if settings.keep_modules else None
    if not settings.write_shorter:
        return ShorterSchedule(time_ps, None, kept)
    path = path_inside(settings.output, f"{module.name}.shorter.ten")
    with open_draft(OUTPUT_HINT) as draft:
        temporary = draft.new(path)
        write_ten(module, temporary)
        verdict = verify_schedule(parse_module(read_text(temporary)))
        if not verdict.ok:
            raise CheckFailed(*verdict.diagnostics)
        draft.publish()
    return ShorterSchedule(time_ps, path, kept)


def _prove_properties(module: Module, span: Span | None, timeout: float, progress: Progress) -> Proofs:
    """Whether Z3 proves all properties of the schedule, each within `timeout` seconds; C0105 if it does not."""
    from collc.verification.prove import prove_properties

    found = prove_properties(module, timeout, progress)
    certificates = tuple(map(str, found.certificates.values()))
    unproved = [name for name, outcome in found.outcomes.items() if outcome != "proved"]
    if not unproved:
        return Proofs({"proved": "ok"}, (), ("proved: " + ", ".join(found.outcomes),), certificates)
    notes = tuple(Note(f"{name}: {found.outcomes[name]}. {found.reasons.get(name, '')}") for name in unproved)
    hint = "proofs are for small schedules: use fewer NPUs or chunks"
    if found.timed_out:
        hint += ", or give them more time with --time-limit"
    elif found.answer == "refuted":
        hint = "it does not hold: see the other messages"
    message = Diagnostic("C0105", f"Z3 does not prove {', '.join(unproved)}", span, notes, hint)
    return Proofs({"proved": "failed"}, (message,), (), certificates)
