"""`collc tune`: files for all sizes of a collective, each range of sizes with the best schedule, by simulation."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np

from collc.application.emit.file_times import Runtime
from collc.application.emit.runtime_files import average_note
from collc.application.program_files import not_one_schedule, read_program
from collc.application.settings import Progress
from collc.application.sweep.sweeping import check_names
from collc.application.tune.tuning_case import (
    FileOptions,
    SchedulePlan,
    TunedProgram,
    TuningResult,
    TuningTask,
    as_written,
    of_the_group,
)
from collc.application.tune.tuning_report import (
    Candidate,
    TunedRange,
    TuningReport,
    best_of_nccl,
    size_words,
    write_tuning,
)
from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError, UsageError
from collc.base.units import format_bytes, format_time
from collc.base.wording import did_you_mean, phrase, plural
from collc.emit.kinds import ELEMENT_TYPES
from collc.msccl.limits import PLAN_END, PLAN_STARTS
from collc.msccl.options import MscclOptions, Profile
from collc.parallel.journal import journal_of, opened_journal
from collc.parallel.processes import Lost, Processes, results_of
from collc.source.program import ScheduleRequest
from collc.tuning.protocols import DEFAULT_COSTS, ProtocolCost
from collc.tuning.ranges import SizeRange, Times, fewest_ranges

RUN_TASK: Final = "collc.application.tune.tuning_case:run_tuning_task"

PLANNED: Final = (2**14, 2**21, 2**28)
"""Bytes of the buffers for which synthesizers plan schedules, if they are among the sizes that are tuned."""

SMALL: Final = 16
"""NPUs up to which synthesizers are asked for more numbers of chunks."""

MANY_CHUNKS: Final = (1, 2, 4, 8)
FEW_CHUNKS: Final = (1, 4)
INSTANCES: Final = (1, 2)


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """What is tuned, and how.

    output: the folder. sizes: the smallest and the largest buffer in bytes. schedule: its name; None for the only one.
    definitions: values of params. kinds: of files. profile: the runtime of MSCCL files. algorithms, chunks, instances:
    what is tried; () for the defaults. channels: most channels, None for as many as the runtime allows. costs: of the
    protocols that are tried. tolerance: how much longer than the best a size may take, for fewer ranges. dtype: of the
    elements that run files are for; "": any.
    """

    output: Path
    sizes: tuple[int, int]
    schedule: str | None = None
    definitions: tuple[tuple[str, str], ...] = ()
    kinds: tuple[Runtime, ...] = ("msccl", "mscclpp")
    profile: Profile = Profile.EXECUTOR
    algorithms: tuple[str, ...] = ()
    chunks: tuple[int, ...] = ()
    instances: tuple[int, ...] = ()
    channels: tuple[int | None, ...] = (None,)
    costs: tuple[ProtocolCost, ...] = tuple(DEFAULT_COSTS.values())
    tolerance: Fraction = Fraction(1, 50)
    dtype: str = ""
    seed: int | None = None
    processes: Processes = field(default_factory=Processes)


def tune_program(path: Path, settings: TuningSettings, progress: Progress) -> TuningReport:
    """Try schedules and files for all sizes, and write the best: a folder of files, `tuning.json` and a picture.

    Raises SourceError if the program is wrong, UsageError if the settings are or if the schedule is not of one standard
    collective with `chunks` (U0160) or no kind can compute its reduction (M0120), NoSchedule if nothing could be
    written for any size. A journal in the folder has what is done; it is removed in the end.
    """
    from collc.msccl.plans.precheck import check_sums, other_reductions

    if settings.dtype and "run" not in settings.kinds:
        message = "of MSCCL files and MSCCL++ plans none is for one type of elements alone"
        raise UsageError(Diagnostic("U0160", message, hint="--dtype TYPE is for --emit run"))
    if settings.dtype and settings.dtype not in ELEMENT_TYPES:
        hint = did_you_mean(settings.dtype, ELEMENT_TYPES, f"there are {', '.join(ELEMENT_TYPES)}")
        raise UsageError(Diagnostic("U0160", f"unknown type of elements '{settings.dtype}'", hint=hint))
    outline = read_program(path)
    check_names(outline, [name for name, _ in settings.definitions], settings.schedule, settings.algorithms)
    if settings.schedule is None and len(outline.schedules) != 1:
        raise not_one_schedule(path, len(outline.schedules))
    schedule = settings.schedule or outline.schedules[0]
    tuned = TunedProgram(outline.files, settings.definitions, schedule, settings.seed)
    request = _tunable(tuned)
    kinds, others = settings.kinds, other_reductions(request.demand)
    notes = [note] if kinds != ("run",) and (note := average_note(request.demand)) else []
    if others and "mscclpp" in kinds:
        kinds = tuple(kind for kind in kinds if kind != "mscclpp")
        if not kinds:
            check_sums(request.demand)
        notes.append(f"no MSCCL++ plans: MSCCL++ only adds, and this is {' and '.join(others)}")
        settings = replace(settings, kinds=kinds)
    plan_end = PLAN_END // _parts(request) if "mscclpp" in kinds else None
    sizes = tuned_sizes(*settings.sizes, plan_end)
    tasks = _tasks(tuned, request, settings, sizes)
    basis = json.dumps([outline.files.digest(), repr(settings.costs)])
    with opened_journal(journal_of(settings.output / "tuning.json"), basis) as journal:
        by_key = {_key(task): task for task in tasks}
        results = results_of(RUN_TASK, by_key, settings.processes, progress, "schedule", journal)
        for key, result in results.items():
            if isinstance(result, Lost):
                results[key] = {"synthesizer": "", "files": [], "errors": [f"[U0144] {result.reason}"], "compared": {}}
        report = _report(tuned, request, settings, sizes, tasks, [results[_key(task)] for task in tasks])
        report = replace(report, notes=(*notes, *report.notes))
        report = write_tuning(report, tuned, settings.output, progress)
        journal.remove()
    return report


def tuned_sizes(low: int, high: int, plan_end: int | None = None) -> tuple[int, ...]:
    """The sizes that are simulated: both ends, and between them the powers of two and the largest size of plans."""
    powers = [2**k for k in range(low.bit_length(), high.bit_length())]
    between = powers if plan_end is None else [*powers, plan_end]
    return tuple(sorted({low, high, *(size for size in between if low < size < high)}))


def _tunable(tuned: TunedProgram) -> ScheduleRequest:
    """The schedule's request. Raises UsageError U0160 if files for sizes make no sense."""
    request = as_written(tuned)
    run = request.demand.runs[0]
    if len(request.demand.runs) != 1 or run.standard is None or request.choice is None:
        message = f"schedule '{tuned.schedule}' is not one run of a standard collective with 'chunks'"
        hint = "tune a schedule with one run of all_reduce, all_gather, reduce_scatter, all_to_all, ..."
        raise UsageError(Diagnostic("U0160", message, hint=hint))
    in_order = np.array_equal(run.group, request.network.npus)
    if not in_order and request.runs[0].moves is not None:
        message = (
            f"the run of schedule '{tuned.schedule}' is over a part of the NPUs, with an algorithm written by hand"
        )
        raise UsageError(Diagnostic("U0160", message, hint="leave out 'using', or tune it on a topology of these NPUs"))
    return of_the_group(request)


def _parts(request: ScheduleRequest) -> int:
    """By how much the sizes of plans, as their reader counts them, are larger than those of the collective."""
    run = request.demand.runs[0]
    return len(run.group) if run.standard is not None and run.standard.kind == "scatter" else 1


def _tasks(
    tuned: TunedProgram, request: ScheduleRequest, settings: TuningSettings, sizes: tuple[int, ...]
) -> list[TuningTask]:
    """All tasks; the first one is what the others are compared with."""
    from collc.msccl.plans.switches import may_use_switches
    from collc.passes.synthesizers import searching_synthesizers

    small = len(request.network.npus) <= SMALL
    chunks = settings.chunks or (MANY_CHUNKS if small else FEW_CHUNKS)
    instances = settings.instances or INSTANCES
    profiles = {"msccl": settings.profile, "run": Profile.RUN}
    files = tuple(
        FileOptions(
            kind, count, channels, profiles.get(kind, Profile.EXECUTOR), settings.dtype if kind == "run" else ""
        )
        for kind in settings.kinds
        for count in (instances if kind != "run" else settings.instances or instances[:1])
        for channels in (settings.channels if kind != "mscclpp" else (None,))
    )
    planned = [size for size in PLANNED if sizes[0] <= size <= sizes[-1]] or [sizes[len(sizes) // 2]]
    plans = [
        SchedulePlan(algorithm, count, size)
        for algorithm, textbook in _algorithms(request, settings)
        for count in (chunks if settings.chunks or not textbook else FEW_CHUNKS)
        for size in (planned[-1:] if textbook else planned)
    ]
    tasks = [TuningTask(tuned, plan, files if plan else (), settings.costs, sizes) for plan in (None, *plans)]
    if not may_use_switches(request.network, request.demand, MscclOptions()) or request.runs[0].moves is not None:
        return tasks
    for task in [*tasks]:  # the tasks of synthesizers again, with switches that add and multicast (NVLS), for plans
        of_plans = tuple(options for options in task.files if options.kind == "mscclpp")
        if task.plan is not None and of_plans and task.plan.algorithm in {None, *searching_synthesizers()}:
            tasks.append(replace(task, plan=replace(task.plan, in_network=True), files=of_plans))
    return tasks


def _algorithms(request: ScheduleRequest, settings: TuningSettings) -> list[tuple[str | None, bool]]:
    """(algorithm, whether it is one of the library): of the settings, else the program's, auto and the library's."""
    from collc.passes.synthesizers import searching_synthesizers
    from collc.source.standard_algorithms import StandardAlgorithms, hierarchical_shape

    if settings.algorithms:
        return [(name, name not in searching_synthesizers()) for name in settings.algorithms]
    standard = request.demand.runs[0].standard
    by_hand = request.runs[0].moves is not None
    own: list[tuple[str | None, bool]] = [(None, by_hand)]
    own += [] if request.synthesizer == "auto" and not by_hand else [("auto", False)]
    names = StandardAlgorithms.names(standard.kind) if standard is not None else ()
    if not hierarchical_shape(request.network, len(request.demand.runs[0].group)):
        names = [name for name in names if name != "hierarchical"]
    return [*own, *((name, True) for name in names)]


def _key(task: TuningTask) -> str:
    rest = (task.tuned.definitions, task.tuned.schedule, task.tuned.seed, task.sizes)
    return json.dumps([repr(task.plan), repr(task.files), rest])


def _report(
    tuned: TunedProgram,
    request: ScheduleRequest,
    settings: TuningSettings,
    sizes: tuple[int, ...],
    tasks: Sequence[TuningTask],
    results: Sequence[TuningResult],
) -> TuningReport:
    """The ranges of each kind of file. Raises NoSchedule S0311 if there is no file."""
    candidates, errors = _candidates(tasks, results)
    ranges: list[TunedRange] = []
    notes: list[str] = []
    latest = PLAN_STARTS // _parts(request)
    nccl = best_of_nccl(results[0]["compared"], len(sizes))
    for kind in settings.kinds:
        own = [candidate for candidate in candidates if candidate.options.kind == kind]
        starts = [kind != "mscclpp" or size <= latest for size in sizes]
        times = [candidate.times for candidate in own]
        serving = fewest_ranges(sizes, times, settings.tolerance, starts, None if kind == "run" else nccl)
        notes += _left_to_nccl(kind, sizes, times, nccl, serving) if kind != "run" else []
        if kind == "mscclpp":
            end = PLAN_END // _parts(request)
            if sizes[0] > end:
                notes.append(f"no MSCCL++ plans: their 32-bit offsets end at {format_bytes(end)}")
            elif serving and sizes[0] > latest:
                notes.append(
                    f"the first MSCCL++ plan says {size_words(latest)} as its smallest message, the largest that its "
                    f"reader takes; register_plans.py selects it from {size_words(sizes[0])} on"
                )
            serving = [replace(serving[0], low=min(serving[0].low, latest)), *serving[1:]] if serving else []
        ranges += [TunedRange(own[r.candidate], r.low, r.high) for r in serving]
    if all(time is None for candidate in candidates for time in candidate.times):
        reason = (*errors, *notes, "nothing was tried")[0]
        message = f"no file could be written for schedule '{tuned.schedule}': {reason}"
        kinds = phrase(settings.kinds, "or")
        raise NoSchedule(Diagnostic("S0311", message, hint=f"try it with: collc compile --emit {kinds}"))
    run = request.demand.runs[0]
    assert run.standard is not None
    return TuningReport(
        schedule=tuned.schedule,
        network=request.network.name,
        collective=run.standard.kind,
        npus=len(run.group),
        sizes=sizes,
        costs=settings.costs,
        tolerance=settings.tolerance,
        ranges=tuple(ranges),
        compared=results[0]["compared"],
        candidates=len(candidates),
        errors=tuple(errors),
        notes=tuple(notes),
    )


def _left_to_nccl(
    kind: str, sizes: Sequence[int], times: Sequence[Times], nccl: Times, serving: Sequence[SizeRange]
) -> list[str]:
    """A note for each range of sizes that files of a kind could serve, and in which NCCL is at least as fast."""
    notes: list[str] = []
    lows = [sizes[0], *(served.high + 1 for served in serving)]
    highs = [*(served.low - 1 for served in serving), sizes[-1]]
    for low, high in zip(lows, highs, strict=True):
        best: list[tuple[int, int, int]] = []  # (size, time of the best file, time of NCCL)
        for place, size in enumerate(sizes):
            of_files = [time for column in times if (time := column[place]) is not None]
            of_nccl = nccl[place]
            if low <= size <= high and of_files and of_nccl is not None:
                best.append((size, min(of_files), of_nccl))
        if best:
            size, file, other = best[-1]
            name = "MSCCL files" if kind == "msccl" else "MSCCL++ plans"
            shown = size_words(low) if low == high else f"{size_words(low)} .. {size_words(high)}"
            notes.append(
                f"no {name} for {shown}: NCCL's own algorithms are at least as fast; at {format_bytes(size)} they take "
                f"{format_time(other)}, and the best file {format_time(file)}"
            )
    return notes


def _candidates(tasks: Sequence[TuningTask], results: Sequence[TuningResult]) -> tuple[list[Candidate], list[str]]:
    """The files that were simulated, and what failed."""
    candidates: list[Candidate] = []
    errors: list[str] = []
    for task, result in itertools.islice(zip(tasks, results, strict=True), 1, None):
        plan = task.plan
        assert plan is not None
        name = plan.algorithm or "as the program says"
        errors += [f"{name}, {plural(plan.chunks, 'chunk')}, {error}" for error in result["errors"]]
        for row in result["files"]:
            options = task.files[row["file"]]
            candidates.append(Candidate(plan, result["synthesizer"], options, row["protocol"], tuple(row["times"])))
    if not candidates and results[0]["errors"]:
        raise SourceError(Diagnostic("S0311", results[0]["errors"][0]))
    return candidates, errors
