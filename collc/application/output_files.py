"""The kinds of files that a schedule can be written to. Each file is checked before it gets its final name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from collc.application.libra_files import libra_main_file, model_of_schedule, write_beside
from collc.application.settings import Progress
from collc.base.atomic_files import Draft, path_inside
from collc.base.diagnostics import CollcError, Diagnostic, Note, SourceError, Span
from collc.base.outcome import Outcome
from collc.base.wording import did_you_mean, listed
from collc.msccl.options import MscclOptions, options_of, plan_options_of
from collc.source.program import EmitRequest, ScheduleRequest
from collc.ten.module import Module


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What is known of a file that was written, or of several: outcomes of their checks, remarks and messages."""

    checks: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    notes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the files of one request go: under temporary names until all checks have passed.

    path: the final name. finals: the final name of each temporary one.
    """

    path: Path
    draft: Draft
    finals: dict[Path, Path] = field(default_factory=dict[Path, Path])

    def new(self, variant: str = "") -> Path:
        """The temporary name of one file. variant: of several, the part of its name before the suffix."""
        final = self.path.with_name(variant_name(self.path.name, variant))
        temporary = self.draft.new(final)
        self.finals[temporary] = final
        return temporary

    def new_folder(self, replaced: str) -> Path:
        """The temporary name of a folder with several files. replaced: see `Draft.new_folder`."""
        temporary = self.draft.new_folder(self.path, replaced)
        self.finals[temporary] = self.path
        return temporary


def variant_name(name: str, variant: str) -> str:
    """The name of one of several files of a request: `a.xml` and "in" give `a.in.xml`; "" leaves the name."""
    path = Path(name)
    return str(path.with_name(f"{path.stem}.{variant}{path.suffix}")) if variant and path.name else name


def write_ten(module: Module, path: Path) -> None:
    """Write the module as `.ten` text."""
    from collc.ten.text.write import write_module

    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_module(module, file)


def write_msccl(module: Module, options: MscclOptions, destination: Destination, progress: Progress) -> WrittenFile:
    """Lower the schedule to MSCCL, write it as XML, read the file back and check it. Raises what `lower` raises.

    The old runtime needs a file for each placement; then there are two.
    """
    from collc.emit.msccl import write_xml
    from collc.msccl.check import check_file, expected_of
    from collc.msccl.lowering.files import program_files
    from collc.msccl.lowering.quality import quality, slowdown_note

    collective, root = _collective_of(module)
    written: list[WrittenFile] = []
    progress(None, "lowering to MSCCL")
    files = program_files(module, options, lambda stage: progress(None, f"lowering to MSCCL, {stage}"))
    for variant, program in files:
        path = destination.new(variant)
        with path.open("wb") as file:
            write_xml(program, file)
        custom = program.collective.kind == "custom"
        progress(None, "reading the MSCCL file back and checking it")
        verdict = check_file(
            path,
            collective=None if custom else collective,
            root=None if custom else root,
            profile=options.profile.value,
            expected=expected_of(module.network, module.demand, options.instances) if custom else None,
        )
        progress(None, "simulating the MSCCL file")
        measured = quality(program, module)
        notes = [*program.notes, f"MSCCL: {measured}", slowdown_note(program, measured)]
        if len(files) > 1:
            name = destination.finals[path].name
            placement = "in place" if program.placement.in_place else "out of place"
            notes = [f"{name} is for calls {placement}", *(f"{name}: {note}" for note in notes if note)]
        written.append(WrittenFile({**verdict.checks}, tuple(filter(None, notes)), verdict.diagnostics))
    return _combined(written)


def _combined(files: Sequence[WrittenFile]) -> WrittenFile:
    """What is known of several files together; each check has the worst of its outcomes."""
    checks: dict[str, Outcome] = {}
    for name, outcome in (item for file in files for item in file.checks.items()):
        found = (outcome, checks.get(name, outcome))
        checks[name] = next(worst for worst in _WORST_FIRST if worst in found)
    notes = tuple(note for file in files for note in file.notes)
    return WrittenFile(checks, notes, tuple(message for file in files for message in file.diagnostics))


def write_msccl_stages(module: Module, options: MscclOptions, path: Path) -> None:
    """Write the MSCCL program after each stage of the lowering, as text for people."""
    from collc.msccl.lowering.stages import stages_of, stages_text

    stages = stages_of(module, options)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(stages_text(stages))


def write_mscclpp(module: Module, options: MscclOptions, destination: Destination, progress: Progress) -> WrittenFile:
    """Write an MSCCL++ execution plan, read the file back and check it. Raises what `plan_of` raises."""
    from collc.emit.mscclpp import write_plan
    from collc.msccl.check import expected_of
    from collc.msccl.check_plan import check_plan

    path = destination.new()
    progress(None, "lowering to MSCCL++")
    with path.open("wb") as file:
        custom, notes = write_plan(module, options, file)
    collective, root = _collective_of(module)
    progress(None, "reading the MSCCL++ plan back and checking it")
    if custom:
        expected = expected_of(module.network, module.demand, options.instances)
        verdict = check_plan(path, collective="custom", expected=expected)
    else:
        verdict = check_plan(path, collective=collective, root=root)
    return WrittenFile({**verdict.checks}, tuple(notes), verdict.diagnostics)


def _collective_of(module: Module) -> tuple[str | None, int | None]:
    """The collective of the standard library that a module computes, and its root; None where there is none."""
    standard = module.demand.runs[0].standard if len(module.demand.runs) == 1 else None
    if standard is None:
        return None, None
    return standard.kind, standard.root if standard.root >= 0 else None


def _emit_chakra(module: Module, _emit: EmitRequest, destination: Destination, progress: Progress) -> WrittenFile:
    """Write Chakra traces, read them back and check them."""
    from collc.application.trace_verification import verify_traces
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


CHECKED: Final = ("msccl", "mscclpp")
"""Kinds whose files are read back and checked."""

FROM_NPU_TO_NPU: Final = (*CHECKED, "msccl_stages", "chakra")
"""Kinds for runtimes that send from NPU to NPU. In a schedule for them, a switch passes each chunk on once."""

FOLDERS: Final = ("chakra",)
"""Kinds that are written to several files in a folder."""

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
"""The function that writes each kind, by its name in `emit`."""


def check_feasible(request: ScheduleRequest, emits: Sequence[EmitRequest]) -> None:
    """Raise SourceError for a file that can hold no schedule of the request, before one is synthesized."""
    from collc.msccl.lowering.precheck import precheck
    from collc.msccl.plans.precheck import precheck_plan

    for emit in emits:
        try:
            if emit.kind in ("msccl", "msccl_stages"):
                precheck(request.network, request.demand, options_of(emit.options))
            elif emit.kind == "mscclpp":
                precheck_plan(request.network, request.demand, plan_options_of(emit.options))
        except SourceError as error:
            raise SourceError(*(d if d.span else replace(d, span=emit.span) for d in error.diagnostics)) from error


def _main_file(emit: EmitRequest, schedule: str) -> str:
    """The name of the file, or of the first one where there are several."""
    return libra_main_file(emit, schedule) if emit.kind == "libra" else emit.path or f"{schedule}.{emit.kind}"


def file_names(emit: EmitRequest, schedule: str) -> list[str]:
    """The names of all files that a request may write, relative to the output folder."""
    from collc.msccl.lowering.files import VARIANTS, may_be_two_files

    name = _main_file(emit, schedule)
    if emit.kind != "msccl":
        return [name]
    try:
        two = may_be_two_files(options_of(emit.options))
    except SourceError:
        return [name]  # reported when the file is written
    return [name, *(variant_name(name, variant) for variant in VARIANTS)] if two else [name]


_WORST_FIRST: Final[tuple[Outcome, ...]] = ("failed", "skipped", "ok")
"""Of several files, a check has the worst of its outcomes."""


def write_outputs(
    module: Module, emits: Sequence[EmitRequest], folder: Path, draft: Draft, progress: Progress
) -> WrittenFile:
    """Write all files of a schedule under temporary names, and check those that can be read back.

    Raises CollcError where a file cannot be written.
    """
    written: list[WrittenFile] = []
    for emit in emits:
        name = _main_file(emit, module.name)
        path = path_inside(folder, name, emit.span, is_folder=emit.kind in FOLDERS)
        destination = Destination(path, draft)
        try:
            found = WRITERS[emit.kind](module, emit, destination, progress)
        except CollcError as error:
            renamed = [_with_final_names(message, destination) for message in error.diagnostics]
            raise type(error)(*(d if d.span else replace(d, span=emit.span) for d in renamed)) from error
        messages = [_with_final_names(message, destination) for message in found.diagnostics]
        if "failed" in found.checks.values() and messages:
            messages[0] = _as_internal_fault(messages[0], path)
        written.append(replace(found, diagnostics=tuple(messages)))
    return _combined(written)


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
    note = Note(f"collc made this file and does not keep it: {path} was not written; please report the program")
    return replace(message, notes=(*message.notes, note))


def emits_of(request: ScheduleRequest, more: Sequence[str]) -> tuple[EmitRequest, ...]:
    """The files to write: those of the program, and one of each kind of `more` that the program does not name.

    `msccl_stages` without options has those of the program's first `msccl`. Raises SourceError U0205 for an unknown
    kind.
    """
    for emit in request.emits:
        if emit.kind not in WRITERS:
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
    hint = did_you_mean(kind, WRITERS, f"there are {listed(WRITERS)}")
    return Diagnostic("U0205", f"collc cannot write files of kind '{kind}'", span, hint=hint)
