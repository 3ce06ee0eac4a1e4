"""What is checked besides a schedule itself: requests before anything is planned, `verify` statements, and proofs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np

from collc.application.compile.compile_report import Optimality, ScheduleReport, ShorterSchedule
from collc.application.settings import OUTPUT_HINT, Progress, Settings
from collc.base.atomic_files import open_draft, path_inside, write_file
from collc.base.diagnostics import CheckFailed, Diagnostic, Note, Outcome, SourceError, Span
from collc.base.units import decimal, format_time
from collc.emit.ten import write_ten
from collc.source.program import CheckRequest, ScheduleRequest
from collc.ten.module import Module
from collc.ten.network import occupation_time

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


def prove(module: Module, wanted: Mapping[str, Span | None], settings: Settings, progress: Progress) -> Proofs:
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
    module: Module, wanted: Mapping[str, Span | None], settings: Settings, timeout: float, progress: Progress
) -> Proofs:
    """Whether no schedule is shorter: a lower bound is met, or Z3 shows it within `timeout` seconds.

    Messages: C0104 if Z3 finds a shorter schedule, C0103 if the question stays undecided.
    """
    from collc.verification.optimal import prove_optimal

    proof = prove_optimal(module, timeout, progress, module.bound)
    certificates = tuple(map(str, proof.certificates))
    asked = "optimal" in wanted
    outcome: Outcome = "ok" if proof.answer == "proved" else "failed"
    checks: dict[str, Outcome] = {"optimal": outcome} if asked else {}
    if proof.answer == "proved":
        return Proofs(checks, (), (f"optimal: {proof.reason}",), certificates, Optimality("proved", proof.reason))
    span = wanted.get("optimal")
    if proof.shorter is not None:
        shorter = _keep_shorter(proof.shorter, settings)
        message = f"the schedule is not optimal: one of {format_time(shorter.time_ps)} exists"
        where = () if shorter.file is None else (Note(f"it is in {shorter.file}, verified"),)
        hint = "take it from there; more trials or another synthesizer may find one as short"
        diagnostic = Diagnostic("C0104", message, span, (Note(proof.reason), *where), hint, warning=not asked)
        return Proofs(checks, (diagnostic,), (), certificates, Optimality("refuted", proof.reason, shorter))
    undecided = Optimality("undecided", proof.reason)
    if not asked:
        return Proofs(checks, (), (f"optimal: not decided: {proof.reason}",), certificates, undecided)
    message = "it is not decided whether the schedule is optimal"
    hint = "ask for what can be measured: 'verify time <= 1.05 * bound'"
    if proof.timed_out:
        hint = "give the proof more time with --time-limit, or " + hint
    diagnostic = Diagnostic("C0103", message, span, (Note(proof.reason),), hint)
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

    proof = prove_properties(module, timeout, progress)
    certificates = tuple(map(str, proof.certificates.values()))
    unproved = [name for name, outcome in proof.outcomes.items() if outcome != "proved"]
    if not unproved:
        return Proofs({"proved": "ok"}, (), ("proved: " + ", ".join(proof.outcomes),), certificates)
    notes = tuple(Note(f"{name}: {proof.outcomes[name]}. {proof.reasons.get(name, '')}") for name in unproved)
    hint = "proofs are for small schedules: use fewer NPUs or chunks"
    if proof.timed_out:
        hint += ", or give them more time with --time-limit"
    elif proof.answer == "refuted":
        hint = "it does not hold: see the other messages"
    message = Diagnostic("C0105", f"Z3 does not prove {', '.join(unproved)}", span, notes, hint)
    return Proofs({"proved": "failed"}, (message,), (), certificates)


MAX_TIME: Final = 2**62
"""Picoseconds that a schedule may take: times are 64-bit integers."""

MAX_PATH: Final = 2**60
"""Picoseconds that a path may take: from these on, synthesizers take a device for one that cannot be reached."""

_HINT: Final = "look at the units of bandwidths, latencies and sizes"


def check_durations(request: ScheduleRequest) -> None:
    """Raise SourceError C0204 if a path through all devices could take longer than MAX_PATH."""
    network = request.network
    largest = 0
    for family in request.demand.by_family.families:
        run = family.first
        largest = max(largest, run.chunk_size or int(run.pattern.expand().size.max(initial=0)))
    used: list[int] = np.unique(network.kind).tolist()
    durations = [
        kind.latency + occupation_time(largest, kind)
        for kind in map(network.kinds.__getitem__, used)
        if kind.latency is not None and kind.bandwidth is not None
    ]
    longest = max(durations, default=0)
    if longest * network.device_count >= MAX_PATH:
        message = (
            f"a chunk takes {format_time(longest)} on a link of '{network.name}': paths over its "
            f"{network.device_count:,} devices may take longer than {MAX_PATH // 10**12 // 86400} days"
        )
        raise SourceError(Diagnostic("C0204", message, request.span, hint=_HINT))


def too_long(request: ScheduleRequest) -> SourceError:
    """The error C0204 for a schedule that takes longer than MAX_TIME."""
    message = f"transfers on '{request.network.name}' take longer than {MAX_TIME // 10**12 // 86400} days"
    return SourceError(Diagnostic("C0204", message, request.span, hint=_HINT))


_COMPARE: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def check_limit(request: CheckRequest, report: ScheduleReport) -> tuple[Outcome, Diagnostic | None]:
    """Whether the comparison holds for a schedule, and the message (C0101, C0102) if it does not."""
    if request.name == "steps" and report.steps is None:
        message = "'steps' cannot be checked: links, chunks or their times differ, so this schedule has no steps"
        return "failed", Diagnostic("C0101", message, request.span, hint="ask for a time: 'verify time <= 100us'")
    if request.name == "steps":
        actual, limit, shown, noun = Fraction(report.steps or 0), request.limit, str, "the number of steps"
    else:
        limit = request.limit * ((report.bound_ps or 0) if request.of_bound else 1)
        actual, shown, noun = Fraction(report.time_ps or 0), format_time, f"the {request.name}"
    if _COMPARE[request.operator](actual, limit):
        return "ok", None
    bound = format_time(report.bound_ps or 0)
    comparison = f"{shown(int(actual))} is not {request.operator} {shown(limit)}"
    if request.of_bound:
        comparison += f" ({decimal(request.limit)} x the bound of {bound})"
    message = f"{noun} violates its limit: {comparison}"
    note = Note(f"no schedule can take less than {bound} ({report.bound})")
    return "failed", Diagnostic("C0102", message, request.span, (note,), _hint(request, report, limit))


def _hint(request: CheckRequest, report: ScheduleReport, limit: Fraction) -> str:
    """What to try; it depends on whether any schedule can meet the limit."""
    if request.operator in (">", ">=", "!="):
        return "relax the limit"
    least = Fraction(report.bound_ps or 0)
    if request.name == "steps":
        bound, time = ((each or 0) - report.launch_ps for each in (report.bound_ps, report.time_ps))
        least = Fraction(-(-bound * (report.steps or 0) // (time or 1)))
    if least > limit or (least == limit and request.operator == "<"):
        return "no schedule can meet it: allow more time or steps, less data, or faster links"
    return "try more trials or another synthesizer, or relax the limit"


_HINTS_FOR_ALGORITHMS: Final = {
    "congestion_free": "give each message on a link a step of its own, use another algorithm, or leave out 'using'",
    "": "check what the algorithm says, and the values of its parameters; without 'using' collc plans the run itself",
}
"""What to try if an algorithm that the program gives with `using` fails a check, by check; "" for all others."""


def placed_at_algorithms(request: ScheduleRequest, messages: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The messages; if algorithms are written by hand, the first of each code with a place and a hint."""
    by_hand = [run for run in request.runs if run.moves is not None]
    if not by_hand:
        return list(messages)
    span = by_hand[0].span if len(by_hand) == 1 else request.span
    placed: list[Diagnostic] = []
    seen: set[str] = set()
    for message in messages:
        if message.code in seen:
            placed.append(message)
            continue
        seen.add(message.code)
        hint = _HINTS_FOR_ALGORITHMS.get(message.message.partition(":")[0], _HINTS_FOR_ALGORITHMS[""])
        placed.append(replace(message, span=message.span or span, hint=message.hint or hint))
    return placed
