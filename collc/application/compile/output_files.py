"""The files of a schedule: their names, and writing them. Each is checked before it gets its final name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from collc.application.settings import Progress
from collc.base.atomic_files import Draft, path_inside
from collc.base.diagnostics import CollcError, Diagnostic, Note, SourceError, Span
from collc.base.wording import did_you_mean, phrase
from collc.emit.kinds import EMIT_KINDS
from collc.emit.output import (
    Destination,
    Emission,
    RunRanks,
    WrittenFile,
    combine,
    ranks_name,
    run_name,
    variant_name,
    write_ranks,
)
from collc.msccl.options import MscclOptions, msccl_options
from collc.source.program import EmitRequest, ScheduleRequest
from collc.ten.module import Module
from collc.ten.network import Network


def check_feasible(request: ScheduleRequest, emits: Sequence[EmitRequest]) -> None:
    """Raise SourceError for a file that can hold no schedule of the request, before one is synthesized."""
    for emit in emits:
        try:
            EMIT_KINDS[emit.kind].check(request.network, request.demand, emit.options)
        except SourceError as error:
            raise SourceError(*(d if d.span else replace(d, span=emit.span) for d in error.diagnostics)) from error


def switch_options(emits: Sequence[EmitRequest], kinds: set[str], request: ScheduleRequest) -> MscclOptions | None:
    """The options of the plan that may use switches which add and multicast; None if no such plan is written.

    kinds: of all files, also those that are only planned for. Other files know no such switches.
    """
    from collc.msccl.plans.switches import may_use_switches

    if {EMIT_KINDS[kind].needs for kind in kinds if EMIT_KINDS[kind].only_messages} != {"plan"}:
        return None
    plans = [msccl_options(emit.options, "mscclpp") for emit in emits if EMIT_KINDS[emit.kind].needs == "plan"]
    plans = plans or [MscclOptions()]
    fits = all(may_use_switches(request.network, request.demand, options) for options in plans)
    return plans[0] if fits else None


def stays_in_groups(emits: Sequence[EmitRequest]) -> bool:
    """Whether the chunks of a run may pass NPUs of its group only, since a file has ranks for no others."""
    return any(EMIT_KINDS[emit.kind].has_ranks and "coll" not in emit.options for emit in emits)


def file_names(emits: Sequence[EmitRequest], request: ScheduleRequest) -> list[tuple[str, Span]]:
    """The names of all files that a schedule may write, relative to the output folder, each with its place."""
    named = [(name, emit.span) for emit in emits for name in _names_of(emit, request)]
    if all(np.array_equal(run.group, request.network.npus) for run in request.demand.runs):
        return named
    kinds = [(emit, EMIT_KINDS[emit.kind]) for emit in emits]
    ranks = {ranks_name(k.path(e.path, request.name)): e.span for e, k in kinds if k.output == "files"}
    return [*named, *ranks.items()]


def _names_of(emit: EmitRequest, request: ScheduleRequest) -> list[str]:
    """The names of the files that one `emit` may write, without the file of the ranks."""
    from collc.msccl.lowering.files import VARIANTS, may_be_two_files

    kind = EMIT_KINDS[emit.kind]
    name = kind.path(emit.path, request.name)
    if kind.output != "files":
        return [name]
    try:
        options = msccl_options(emit.options, kind.name)
    except SourceError:
        return [name]  # reported when the file is written
    runs = 1 if options.custom else len(request.demand.runs)
    names = [run_name(name, run, several=runs > 1) for run in range(runs)]
    if may_be_two_files(options):
        names += [variant_name(plain, variant) for plain in names for variant in VARIANTS]
    return names


def write_files(
    module: Module,
    network: Network,
    emits: Sequence[EmitRequest],
    output: tuple[Path, Draft],
    progress: Progress,
    page: Callable[[WrittenFile], str],
    hurried: Callable[[], bool] = lambda: False,
) -> WrittenFile:
    """Write the files of a schedule, the report last, and check those that can be read back.

    network: as the program declares it; the schedule may be for one whose switches are unwound. output: the folder, and
    the draft that gets the files. page: the text of the report, from what is known of the other files.
    hurried: see Emission. Raises CollcError if a file cannot be written.
    """
    folder, draft = output
    written: list[WrittenFile] = []
    ranks: dict[str, tuple[RunRanks, ...]] = {}
    for emit in sorted(emits, key=lambda emit: EMIT_KINDS[emit.kind].needs == "report"):
        kind = EMIT_KINDS[emit.kind]
        name = kind.path(emit.path, module.name)
        is_folder = kind.output == "folder" and not kind.main_file
        destination = Destination(path_inside(folder, name, emit.span, is_folder=is_folder), draft)
        emission = Emission(
            *(kind.name, module, destination, emit.options, network),
            announce=partial(progress, None),
            page=lambda: page(combine(written)),
            hurried=hurried,
        )
        try:
            file = kind.write(emission)
        except CollcError as error:
            renamed = [_with_final_names(message, destination) for message in error.diagnostics]
            raise type(error)(*(d if d.span else replace(d, span=emit.span) for d in renamed)) from error
        messages = [_with_final_names(message, destination) for message in file.diagnostics]
        if "failed" in file.checks.values() and messages:
            path = destination.path
            note = Note(f"the file that collc generated is wrong, so {path} was not written; please report the program")
            messages[0] = replace(messages[0], notes=(*messages[0].notes, note))
        written.append(replace(file, diagnostics=tuple(messages)))
        if file.ranks:
            ranks[ranks_name(name)] = file.ranks
    for name, of_runs in ranks.items():
        write_ranks(of_runs, draft.new(folder / name))
    return combine(written)


def _with_final_names(message: Diagnostic, destination: Destination) -> Diagnostic:
    """A message about temporary files, with the files' final names instead."""

    def final_text(text: str) -> str:
        for temporary, final in destination.finals.items():
            text = text.replace(str(temporary), str(final))
        return text

    def final_span(span: Span | None) -> Span | None:
        return span and replace(span, file=replace(span.file, name=final_text(span.file.name)))

    notes = tuple(Note(final_text(note.message), final_span(note.span)) for note in message.notes)
    return replace(
        message,
        message=final_text(message.message),
        span=final_span(message.span),
        notes=notes,
        hint=final_text(message.hint),
    )


def emits_of(request: ScheduleRequest, more: Sequence[str]) -> tuple[EmitRequest, ...]:
    """The files that the program names, and one of each kind of `more` that the program does not name.

    `msccl_stages` without options has those of the program's first `msccl`.
    """
    named = {emit.kind for emit in request.emits}
    added = [EmitRequest(kind, None, {}, request.span) for kind in dict.fromkeys(more) if kind not in named]
    emits = (*request.emits, *added)
    msccl = [emit.options for emit in request.emits if emit.kind == "msccl"]
    if not msccl:
        return emits
    return tuple(
        replace(emit, options=msccl[0]) if emit.kind == "msccl_stages" and not emit.options else emit for emit in emits
    )


def unknown_kind(kind: str) -> Diagnostic:
    """The message U0205 for an unknown kind of file."""
    hint = did_you_mean(kind, EMIT_KINDS, f"there are {phrase(EMIT_KINDS)}")
    return Diagnostic("U0205", f"collc cannot write files of kind '{kind}'", hint=hint)
