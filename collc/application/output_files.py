"""The kinds of files a schedule can be written to, each checked before it gets its final name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from collc.base.atomic_files import Draft, inside
from collc.base.diagnostics import CollcError, Diagnostic, Note, SourceError, Span
from collc.base.outcome import Outcome
from collc.base.wording import did_you_mean, listed
from collc.source.program import EmitRequest, ScheduleRequest
from collc.ten.module import Module


@dataclass(frozen=True, slots=True)
class Output:
    """What came of writing one file: checks of the file that was read back, remarks and messages."""

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


def variant_name(name: str, variant: str) -> str:
    """The name of one of several files of a request: `a.xml` and "in" give `a.in.xml`; "" leaves the name."""
    path = Path(name)
    return str(path.with_name(f"{path.stem}.{variant}{path.suffix}")) if variant and path.name else name


def _ten(module: Module, request: EmitRequest, destination: Destination) -> Output:
    from collc.ten.binary import save_module
    from collc.ten.text.limits import too_large_for_text
    from collc.ten.text.write import write_module

    binary = request.options.get("binary")
    if binary is not None and binary.value:
        save_module(module, destination.new())
        return Output()
    if module.schedule is not None and (why := too_large_for_text(module.schedule)):
        hint = "write it in the binary form: emit ten(binary: true)"
        raise SourceError(Diagnostic("T0108", why, request.span, hint=hint))
    with destination.new().open("w", encoding="utf-8", newline="\n") as file:
        write_module(module, file)
    return Output()


def _msccl(module: Module, request: EmitRequest, destination: Destination) -> Output:
    from collc.emit.msccl import write_xml
    from collc.msccl.check import check_file, expected_of
    from collc.msccl.lowering.files import never_selected, program_files
    from collc.msccl.lowering.quality import quality, slowdown_note
    from collc.msccl.options import options_of

    options = options_of(request.options)
    collective, root = _asked(module)
    found: list[Output] = []
    files = program_files(module, options)
    for variant, program in files:
        path = destination.new(variant)
        with path.open("wb") as file:
            write_xml(program, file)
        custom = program.collective.kind == "custom"
        verdict = check_file(
            path,
            collective=None if custom else collective,
            root=None if custom else root,
            profile=options.profile.value,
            expected=expected_of(module.network, module.demand, options.instances) if custom else None,
        )
        measured = quality(program, module)
        notes = [*program.notes, f"MSCCL: {measured}", slowdown_note(program, measured)]
        if len(files) > 1:
            name = destination.finals[path].name
            placement = "in place" if program.placement.in_place else "out of place"
            notes = [f"{name} is for calls {placement}", *(f"{name}: {note}" for note in notes if note)]
        warning = never_selected(program, request.span)
        warnings = (warning,) if warning else ()
        found.append(Output({**verdict.checks}, tuple(filter(None, notes)), (*verdict.diagnostics, *warnings)))
    return _summed(found)


def _summed(outputs: Sequence[Output]) -> Output:
    """What came of several files together; of each check the worst outcome."""
    checks: dict[str, Outcome] = {}
    for name, outcome in (item for output in outputs for item in output.checks.items()):
        found = (outcome, checks.get(name, outcome))
        checks[name] = next(worst for worst in WORST_FIRST if worst in found)
    notes = tuple(note for output in outputs for note in output.notes)
    return Output(checks, notes, tuple(message for output in outputs for message in output.diagnostics))


def _msccl_stages(module: Module, request: EmitRequest, destination: Destination) -> Output:
    from collc.msccl.lowering.stages import stages_of, stages_text
    from collc.msccl.options import options_of

    stages = stages_of(module, options_of(request.options))
    with destination.new().open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(stages_text(stages))
    return Output()


def _mscclpp(module: Module, request: EmitRequest, destination: Destination) -> Output:
    from collc.emit.mscclpp import write_plan
    from collc.msccl.check import expected_of
    from collc.msccl.check_plan import check_plan
    from collc.msccl.options import plan_options_of

    options = plan_options_of(request.options)
    path = destination.new()
    with path.open("wb") as file:
        custom, notes = write_plan(module, options, file)
    collective, root = _asked(module)
    if custom:
        expected = expected_of(module.network, module.demand, options.instances)
        verdict = check_plan(path, collective="custom", expected=expected)
    else:
        verdict = check_plan(path, collective=collective, root=root)
    return Output({**verdict.checks}, tuple(notes), verdict.diagnostics)


def _asked(module: Module) -> tuple[str | None, int | None]:
    """The collective and the root that a program asks for, if it is one of the standard library."""
    standard = module.demand.runs[0].standard if len(module.demand.runs) == 1 else None
    if standard is None:
        return None, None
    return standard.kind, standard.root if standard.root >= 0 else None


CHECKED: Final = ("msccl", "mscclpp")
"""Kinds whose files are read back and checked."""

FROM_NPU_TO_NPU: Final = (*CHECKED, "msccl_stages")
"""Kinds whose runtimes send from NPU to NPU: a switch passes each message on once."""

WRITERS: Final[dict[str, Callable[[Module, EmitRequest, Destination], Output]]] = {
    "ten": _ten,
    "msccl": _msccl,
    "msccl_stages": _msccl_stages,
    "mscclpp": _mscclpp,
}
"""By the kind that `emit` names."""


def foresee(request: ScheduleRequest, emits: Sequence[EmitRequest]) -> None:
    """Raise SourceError for a file that no schedule of the request fits into, before one is sought."""
    for emit in emits:
        try:
            if emit.kind in ("msccl", "msccl_stages"):
                from collc.msccl.lowering.precheck import precheck
                from collc.msccl.options import options_of

                precheck(request.network, request.demand, options_of(emit.options))
            elif emit.kind == "mscclpp":
                from collc.msccl.options import plan_options_of
                from collc.msccl.plans.precheck import precheck_plan

                precheck_plan(request.network, request.demand, plan_options_of(emit.options))
        except SourceError as error:
            raise SourceError(*(d if d.span else replace(d, span=emit.span) for d in error.diagnostics)) from error


def file_names(emit: EmitRequest, schedule: str) -> list[str]:
    """The names of all files that a request may write, relative to the output folder."""
    name = emit.path or f"{schedule}.{emit.kind}"
    if emit.kind != "msccl":
        return [name]
    from collc.msccl.lowering.files import VARIANTS, may_be_two_files
    from collc.msccl.options import options_of

    try:
        two = may_be_two_files(options_of(emit.options))
    except SourceError:
        return [name]  # reported when the file is written
    return [name, *(variant_name(name, variant) for variant in VARIANTS)] if two else [name]


WORST_FIRST: Final[tuple[Outcome, ...]] = ("failed", "skipped", "ok")
"""How the same check of several files sums up: none hides what another one lacks."""


def write_outputs(module: Module, requests: Sequence[EmitRequest], folder: Path, draft: Draft) -> Output:
    """Write all files of a schedule under temporary names, and read back those that can be.

    Raises CollcError where one cannot be written.
    """
    found: list[Output] = []
    for request in requests:
        destination = Destination(inside(folder, request.path or f"{module.name}.{request.kind}", request.span), draft)
        try:
            written = WRITERS[request.kind](module, request, destination)
        except CollcError as error:
            named = [_of_final(message, destination) for message in error.diagnostics]
            raise type(error)(*(d if d.span else replace(d, span=request.span) for d in named)) from error
        messages = [_of_final(message, destination) for message in written.diagnostics]
        if "failed" in written.checks.values():
            messages = [_unwritten(messages[0], destination.path), *messages[1:]] if messages else []
        found.append(replace(written, diagnostics=tuple(messages)))
    return _summed(found)


def _of_final(message: Diagnostic, destination: Destination) -> Diagnostic:
    """A message about a file under the name that it was to get."""

    def words(text: str) -> str:
        for temporary, final in destination.finals.items():
            text = text.replace(str(temporary), str(final))
        return text

    def place(span: Span | None) -> Span | None:
        return span and replace(span, file=replace(span.file, name=words(span.file.name)))

    notes = tuple(Note(words(note.message), place(note.span)) for note in message.notes)
    return replace(
        message, message=words(message.message), span=place(message.span), notes=notes, hint=words(message.hint)
    )


def _unwritten(told: Diagnostic, path: Path) -> Diagnostic:
    """The first of the messages about a file of ours that is wrong."""
    note = Note(f"collc made this file and does not keep it: {path} was not written; please report the program")
    return replace(told, notes=(*told.notes, note))


def emits_of(request: ScheduleRequest, more: Sequence[str]) -> tuple[EmitRequest, ...]:
    """The files that a program asks for, and those of the kinds that the command line adds.

    The stages of an MSCCL file have the options of the file that the program asks for, unless they have their own.
    Raises SourceError for kinds of the program that collc cannot write.
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
    alike = [emit.kind == "msccl_stages" and not emit.options for emit in emits]
    return tuple(replace(emit, options=msccl[0]) if same else emit for emit, same in zip(emits, alike, strict=True))


def unknown_kind(kind: str, span: Span | None = None) -> Diagnostic:
    """The message for a kind of file that there is not."""
    hint = did_you_mean(kind, WRITERS, f"there are {listed(WRITERS)}")
    return Diagnostic("U0205", f"collc cannot write files of kind '{kind}'", span, hint=hint)
