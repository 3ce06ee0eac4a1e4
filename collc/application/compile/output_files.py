"""The kinds of files that a schedule can be written to. Each file is checked before it gets its final name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from collc.application.emit.libra_files import (
    libra_main_file,
    model_of_schedule,
    network_with_dimensions,
    write_beside,
)
from collc.application.emit.runtime_files import (
    check_paths_inside,
    check_runs,
    write_msccl,
    write_msccl_stages,
    write_mscclpp,
)
from collc.application.emit.written_files import (
    Destination,
    RunRanks,
    WrittenFile,
    combined,
    ranks_name,
    run_name,
    variant_name,
    write_ranks,
)
from collc.application.settings import Progress
from collc.base.atomic_files import Draft, path_inside
from collc.base.diagnostics import CollcError, Diagnostic, Note, SourceError, Span
from collc.base.wording import did_you_mean, listed
from collc.msccl.options import MscclOptions, options_of, plan_options_of
from collc.source.program import EmitRequest, ScheduleRequest
from collc.ten.module import Module
from collc.ten.network import Network


def write_ten(module: Module, path: Path) -> None:
    """Write the module as `.ten` text."""
    from collc.ten.text.write import write_module

    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_module(module, file)


def _emit_chakra(module: Module, _emit: EmitRequest, destination: Destination, progress: Progress) -> WrittenFile:
    """Write Chakra traces, read them back and check them."""
    from collc.application.verify.trace_verification import verify_traces
    from collc.emit.chakra import write_chakra

    progress(None, "writing Chakra traces")
    name = module.name
    folder = destination.new_folder(rf"(?:{re.escape(name)}|workload)\.\d+\.et|network\.yml|system\.json")
    notes = write_chakra(module, name, folder)
    progress(None, "reading the traces back and checking them")
    report = verify_traces(folder / name, demand=(module.demand, module.network))
    return WrittenFile(dict(report.checks), tuple(notes), report.diagnostics)


def _emit_trace(module: Module, _emit: EmitRequest, destination: Destination, _progress: Progress) -> WrittenFile:
    from collc.emit.trace import write_trace

    with destination.new().open("w", encoding="utf-8", newline="\n") as file:
        return WrittenFile(notes=tuple(write_trace(module, file)))


def _emit_report(page: Callable[[], str], destination: Destination, progress: Progress) -> WrittenFile:
    progress(None, "drawing the report")
    destination.new().write_text(page(), encoding="utf-8", newline="\n")
    return WrittenFile()


CHECKED: Final = ("msccl", "mscclpp")
"""Kinds whose files are read back and checked."""

RANKED: Final = (*CHECKED, "msccl_stages")
"""Kinds for which each run has ranks of its own."""

FROM_NPU_TO_NPU: Final = (*CHECKED, "msccl_stages", "chakra")
"""Kinds for runtimes that send from NPU to NPU. In a schedule for them, a switch passes each chunk on once."""

FOLDERS: Final = ("chakra",)
"""Kinds that are written to several files in a folder."""

SUFFIXES: Final = {"report": "html"}
"""Suffixes of files that are named after the schedule, where they differ from the kind."""

Writer = Callable[[Module, EmitRequest, Destination, Progress], WrittenFile]


def _emit_ten(module: Module, emit: EmitRequest, destination: Destination, _progress: Progress) -> WrittenFile:
    from collc.ten.binary import save_module
    from collc.ten.text.limits import too_large_for_text

    binary = emit.options.get("binary")
    if binary is not None and binary.value:
        save_module(module, destination.new())
        return WrittenFile()
    if module.schedule is not None and (reason := too_large_for_text(module.schedule)):
        hint = "write it in the binary form: emit ten(binary: true)"
        raise SourceError(Diagnostic("T0108", reason, emit.span, hint=hint))
    write_ten(module, destination.new())
    return WrittenFile()


def _emit_msccl(module: Module, emit: EmitRequest, destination: Destination, progress: Progress) -> WrittenFile:
    return write_msccl(module, options_of(emit.options), destination, progress)


def _emit_stages(module: Module, emit: EmitRequest, destination: Destination, _progress: Progress) -> WrittenFile:
    write_msccl_stages(module, options_of(emit.options), destination.new())
    return WrittenFile()


def _emit_mscclpp(module: Module, emit: EmitRequest, destination: Destination, progress: Progress) -> WrittenFile:
    return write_mscclpp(module, plan_options_of(emit.options), destination, progress)


def _emit_libra(module: Module, emit: EmitRequest, destination: Destination, _progress: Progress) -> WrittenFile:
    write_beside(model_of_schedule(module, emit), destination.path, destination.draft)
    return WrittenFile()


WRITERS: Final[dict[str, Writer]] = {
    "ten": _emit_ten,
    "msccl": _emit_msccl,
    "msccl_stages": _emit_stages,
    "mscclpp": _emit_mscclpp,
    "libra": _emit_libra,
    "chakra": _emit_chakra,
    "trace": _emit_trace,
}
"""The function that writes each kind from the module alone, by its name in `emit`."""

KINDS: Final = (*WRITERS, "report")
"""All kinds of files."""


def check_feasible(request: ScheduleRequest, emits: Sequence[EmitRequest]) -> None:
    """Raise SourceError for a file that can hold no schedule of the request, before one is synthesized."""
    for emit in emits:
        if emit.kind == "libra":
            network_with_dimensions(request.network, emit)
        if emit.kind not in RANKED:
            continue
        try:
            options = _options(emit)
            check_runs(request.network, request.demand, options, plan=emit.kind == "mscclpp")
            if not options.custom:
                check_paths_inside(request.network, request.demand)
        except SourceError as error:
            raise SourceError(*(d if d.span else replace(d, span=emit.span) for d in error.diagnostics)) from error


def _options(emit: EmitRequest) -> MscclOptions:
    """The options of a file with ranks. Raises as `options_of` and `plan_options_of` do."""
    return (plan_options_of if emit.kind == "mscclpp" else options_of)(emit.options)


def switch_options(emits: Sequence[EmitRequest], kinds: set[str], request: ScheduleRequest) -> MscclOptions | None:
    """The options of the plan that may use switches which add and multicast; None where no such plan is written.

    kinds: of all files, also those that are only planned for. Other files know no such switches.
    """
    from collc.msccl.plans.switch_program import may_use_switches

    if kinds & set(FROM_NPU_TO_NPU) != {"mscclpp"}:
        return None
    plans = [_options(emit) for emit in emits if emit.kind == "mscclpp"] or [MscclOptions()]
    fits = all(may_use_switches(request.network, request.demand, options) for options in plans)
    return plans[0] if fits else None


def stays_in_groups(emits: Sequence[EmitRequest]) -> bool:
    """Whether the chunks of a run may pass NPUs of its group only, since a file has ranks for no others."""
    return any(not _options(emit).custom for emit in emits if emit.kind in RANKED)


def main_file(emit: EmitRequest, schedule: str) -> str:
    """The name of the file, or of the first one where there are several."""
    if emit.kind == "libra":
        return libra_main_file(emit, schedule)
    return emit.path or f"{schedule}.{SUFFIXES.get(emit.kind, emit.kind)}"


def file_names(emits: Sequence[EmitRequest], request: ScheduleRequest) -> list[tuple[str, Span]]:
    """The names of all files that a schedule may write, relative to the output folder, each with its place."""
    named = [(name, emit.span) for emit in emits for name in _names_of(emit, request)]
    if all(np.array_equal(run.group, request.network.npus) for run in request.demand.runs):
        return named
    ranks = {ranks_name(main_file(emit, request.name)): emit.span for emit in emits if emit.kind in CHECKED}
    return [*named, *ranks.items()]


def _names_of(emit: EmitRequest, request: ScheduleRequest) -> list[str]:
    """The names of the files that one `emit` may write, without that of the ranks."""
    from collc.msccl.lowering.files import VARIANTS, may_be_two_files

    name = main_file(emit, request.name)
    if emit.kind not in CHECKED:
        return [name]
    try:
        options = _options(emit)
    except SourceError:
        return [name]  # reported when the file is written
    runs = 1 if options.custom else len(request.demand.runs)
    names = [run_name(name, run, several=runs > 1) for run in range(runs)]
    if emit.kind == "msccl" and may_be_two_files(options):
        names += [variant_name(one, variant) for one in names for variant in VARIANTS]
    return names


def write_files(
    module: Module,
    network: Network,
    emits: Sequence[EmitRequest],
    output: tuple[Path, Draft],
    progress: Progress,
    page: Callable[[WrittenFile], str],
) -> WrittenFile:
    """Write the files of a schedule, the report last, and check those that can be read back.

    network: as the program declares it; the schedule may be for one whose switches are unwound. output: the folder, and
    the draft that gets the files. page: the text of the report, from what is known of the other files. Raises
    CollcError if a file cannot be written.
    """
    folder, draft = output
    written: list[WrittenFile] = []
    ranks: dict[str, tuple[RunRanks, ...]] = {}
    for emit in sorted(emits, key=lambda emit: emit.kind == "report"):
        name = main_file(emit, module.name)
        destination = Destination(path_inside(folder, name, emit.span, is_folder=emit.kind in FOLDERS), draft)
        try:
            if emit.kind == "report":
                file = _emit_report(partial(page, combined(written)), destination, progress)
            else:
                file = _write_file(module, network, emit, destination, progress)
        except CollcError as error:
            renamed = [_with_final_names(message, destination) for message in error.diagnostics]
            raise type(error)(*(d if d.span else replace(d, span=emit.span) for d in renamed)) from error
        messages = [_with_final_names(message, destination) for message in file.diagnostics]
        if "failed" in file.checks.values() and messages:
            messages[0] = _as_internal_fault(messages[0], destination.path)
        written.append(replace(file, diagnostics=tuple(messages)))
        if file.ranks:
            ranks[ranks_name(name)] = file.ranks
    for name, of_runs in ranks.items():
        write_ranks(of_runs, draft.new(folder / name))
    return combined(written)


def _write_file(
    module: Module, network: Network, emit: EmitRequest, destination: Destination, progress: Progress
) -> WrittenFile:
    """Write one file; of one planned without the switches that the program declares, remarks on its speed."""
    file = WRITERS[emit.kind](module, emit, destination, progress)
    if emit.kind not in CHECKED or not module.network.unwound or "failed" in file.checks.values():
        return file
    from collc.application.emit.file_speed import switched_notes

    kind = "mscclpp" if emit.kind == "mscclpp" else "msccl"
    notes = switched_notes(list(destination.finals), kind, module, network, _options(emit))
    return replace(file, notes=(*file.notes, *notes))


def _with_final_names(message: Diagnostic, destination: Destination) -> Diagnostic:
    """A message about temporary files, with the files' final names instead."""

    def renamed(text: str) -> str:
        for temporary, final in destination.finals.items():
            text = text.replace(str(temporary), str(final))
        return text

    def moved(span: Span | None) -> Span | None:
        return span and replace(span, file=replace(span.file, name=renamed(span.file.name)))

    notes = tuple(Note(renamed(note.message), moved(note.span)) for note in message.notes)
    return replace(
        message, message=renamed(message.message), span=moved(message.span), notes=notes, hint=renamed(message.hint)
    )


def _as_internal_fault(message: Diagnostic, path: Path) -> Diagnostic:
    """A message about a file of collc's own that fails a check, with a note that collc is at fault."""
    note = Note(f"the file that collc generated is wrong, so {path} was not written; please report the program")
    return replace(message, notes=(*message.notes, note))


def emits_of(request: ScheduleRequest, more: Sequence[str]) -> tuple[EmitRequest, ...]:
    """The files to write: those of the program, and one of each kind of `more` that the program does not name.

    `msccl_stages` without options has those of the program's first `msccl`. Raises SourceError U0205 for an unknown
    kind.
    """
    for emit in request.emits:
        if emit.kind not in KINDS:
            raise SourceError(unknown_kind(emit.kind, emit.span))
    named = {emit.kind for emit in request.emits}
    added = [EmitRequest(kind, None, {}, request.span) for kind in dict.fromkeys(more) if kind not in named]
    emits = (*request.emits, *added)
    msccl = [emit.options for emit in request.emits if emit.kind == "msccl"]
    if not msccl:
        return emits
    return tuple(
        replace(emit, options=msccl[0]) if emit.kind == "msccl_stages" and not emit.options else emit for emit in emits
    )


def unknown_kind(kind: str, span: Span | None = None) -> Diagnostic:
    """The message U0205 for an unknown kind of file."""
    hint = did_you_mean(kind, KINDS, f"there are {listed(KINDS)}")
    return Diagnostic("U0205", f"collc cannot write files of kind '{kind}'", span, hint=hint)
