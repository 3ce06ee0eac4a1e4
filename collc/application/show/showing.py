"""`collc show`: a report of a program, a schedule or a file for a runtime as one page, or a single picture of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from collc.application.compile.compile_report import CompileReport
from collc.application.file_kinds import call_for, kind_of
from collc.application.program_files import no_size, not_one_schedule
from collc.application.settings import Progress, Settings
from collc.application.show.picture_kinds import PICTURE_KINDS
from collc.application.show.report_page import (
    Subject,
    report_page,
    subject_of_program,
    subject_of_schedule,
    subject_sections,
)
from collc.base.atomic_files import open_draft
from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.base.wording import in_short, phrase, plural
from collc.emit.kinds import EMIT_KINDS

if TYPE_CHECKING:
    from collc.application.design.design_pages import DesignSubject
    from collc.application.show.fallback_page import FallbackSubject
    from collc.msccl.check.model import Profile
    from collc.pictures.picture import Picture
    from collc.source.program import ScheduleRequest


@dataclass(frozen=True, slots=True)
class ShowSettings:
    """What to show, and the files to write.

    page: the HTML file. svg, png: files for the single picture `picture`, in the colours of `theme`.
    schedule, design, definitions: of a program, which schedule or design alone, and values of its params.
    on, size, profile: of a file for a runtime, FILE.coll:TOPOLOGY and the bytes of the buffer, with which it is
    simulated, and the runtime that will load it.
    """

    page: Path | None = None
    svg: Path | None = None
    png: Path | None = None
    picture: str = "topology"
    theme: Literal["light", "dark"] = "light"
    schedule: str | None = None
    design: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    on: str | None = None
    size: int | None = None
    profile: Profile = "executor"

    @property
    def needs_alternatives(self) -> bool:
        """Whether what is drawn needs the alternatives to a schedule."""
        return self.page is not None or PICTURE_KINDS[self.picture].of == "comparison"


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown, and the files that were written."""

    subjects: tuple[Subject, ...]
    designs: tuple[DesignSubject, ...]
    fallbacks: tuple[FallbackSubject, ...]
    files: tuple[Path, ...]

    @property
    def messages(self) -> tuple[Diagnostic, ...]:
        """The messages of all subjects."""
        own = [message for subject in self.subjects for message in subject.messages]
        return (*own, *(message for design in self.designs for message in design.report.diagnostics))

    def as_json(self) -> dict[str, object]:
        """The object that `show --json` prints, without its messages."""
        return {
            "files": [str(path) for path in self.files],
            "schedules": [{"name": subject.name, "checks": dict(subject.checks)} for subject in self.subjects],
            "designs": [design.request.name for design in self.designs],
            "fallbacks": [each.as_json() for each in self.fallbacks],
        }

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not any(subject.failed_checks for subject in self.subjects)


class Subjects(NamedTuple):
    """The schedules of a file, or the file itself, the designs of a program, and the networks of an index."""

    schedules: tuple[Subject, ...] = ()
    designs: tuple[DesignSubject, ...] = ()
    fallbacks: tuple[FallbackSubject, ...] = ()


def show_files(
    paths: Sequence[Path], settings: ShowSettings, progress: Progress = lambda _share, _phase: None
) -> Shown:
    """Write a report or a picture of files; nothing is written if one of them fails. Several are shown side by side.

    A schedule that fails a check is shown, with what is wrong. Raises SourceError, NoSchedule or CheckFailed for a file
    that cannot be read or has no schedule, UsageError if settings do not fit it (U0106, U0131, U0135 to U0137).
    """
    several = len(paths) > 1
    each: list[Subjects] = [
        call_for(path, "show", _settings_for(path, settings) if several else settings, progress) for path in paths
    ]
    names = [path.name for path in paths]
    names = [path.name if names.count(path.name) == 1 else str(path) for path in paths]
    subjects = tuple(
        subject
        if not several
        else replace(subject, name=name if subject.name == path.name else f"{subject.name} of {name}")
        for path, name, own in zip(paths, names, each, strict=True)
        for subject in own.schedules
    )
    designs = tuple(design for own in each for design in own.designs)
    fallbacks = tuple(subject for own in each for subject in own.fallbacks)
    shown = Subjects(subjects, designs, fallbacks)
    texts: dict[Path, bytes] = {}
    if settings.page is not None:
        progress(None, "drawing")
        sections = subject_sections(subjects, several)
        if designs:
            from collc.application.design.design_pages import design_section

            sections += map(design_section, designs)
        if fallbacks:
            from collc.application.show.fallback_page import fallback_section

            sections += map(fallback_section, fallbacks)
        counts = [(len(subjects), "schedule"), (len(designs), "design"), (len(fallbacks), "network")]
        subtitle = phrase(plural(count, noun) for count, noun in counts if count) if len(sections) > 1 else ""
        title = in_short(names)
        texts[settings.page] = report_page(title, sections, subtitle).encode()
    if settings.svg is not None or settings.png is not None:
        if several:
            raise UsageError(
                Diagnostic("U0135", "a single picture is of one file", hint="give one, or no --svg, --png")
            )
        picture = _picture(paths[0], shown, settings)
        if settings.svg is not None:
            texts[settings.svg] = picture.file(settings.theme).encode()
        if settings.png is not None:
            from collc.pictures.picture import png_of

            texts[settings.png] = png_of(picture, settings.theme)
    with open_draft("name another file with -o, --svg or --png") as draft:
        for written, text in texts.items():
            draft.new(written).write_bytes(text)
        return Shown(*shown, tuple(draft.publish()))


def _settings_for(path: Path, settings: ShowSettings) -> ShowSettings:
    """Those settings that concern one file of several: networks are for files without one, schedules for programs."""
    kind = kind_of(path)
    name = "" if kind is None else kind.name
    if name in ("coll", "ten", "fallbacks"):
        settings = replace(settings, on=None, size=None)
    if name != "coll":
        settings = replace(settings, schedule=settings.schedule if name == "fallbacks" else None, design=None)
    if name != "coll" and settings.on is None:
        settings = replace(settings, definitions=dict[str, str]())
    return settings


def _picture(path: Path, shown: Subjects, settings: ShowSettings) -> Picture:
    """The one picture. Raises UsageError U0107 if several schedules have it, U0136 if nothing can be drawn."""
    kind = PICTURE_KINDS[settings.picture]
    subjects, designs, fallbacks = shown
    if kind.of == "fallbacks":
        if len(fallbacks) != 1 or (len(fallbacks[0].schedules) != 1 and kind.name != "classes"):
            message = f"a picture '{kind.name}' shows the fallbacks of one schedule, which 'collc compile' writes"
            raise UsageError(Diagnostic("U0136", message, hint="give fallbacks.json, and --schedule NAME"))
        drawn, reason, hint = fallbacks[0], "", ""
    elif kind.of == "design":
        if len(designs) != 1:
            message = f"{path} has {plural(len(designs), 'design')}, and a picture '{kind.name}' shows one"
            raise UsageError(Diagnostic("U0136", message, hint="choose one with --design NAME" if designs else ""))
        drawn, reason = designs[0], "no constraint of the design is a budget"
        hint = "a budget limits all bandwidths, as in: require sum(bandwidth) == 800GB/s"
    else:
        if len(subjects) != 1:
            raise not_one_schedule(path, len(subjects), ", and a picture shows one")
        subject = subjects[0]
        drawn = {"network": subject.network, "transfers": subject.use or None, "comparison": subject}[kind.of]
        reason = "it names no network" if subject.network is None else "no transfers are known"
        hint = "give a network with --on FILE.coll:TOPOLOGY --size BYTES" if subject.network is None else ""
    picture = None if drawn is None else kind.function()(drawn)
    if picture is None:
        raise UsageError(Diagnostic("U0136", f"there is no picture '{kind.name}' of {path}: {reason}", hint=hint))
    return picture


def ten_subjects(path: Path, settings: ShowSettings, progress: Progress) -> Subjects:
    """The schedule of a `.ten` file, with its checks."""
    from collc.application.verify.file_verification import Expectation, verify_module
    from collc.ten.binary import read_module

    _check_settings(path, settings, own_network=True)
    progress(None, f"checking {path.name}")
    module = read_module(path)
    checked = verify_module(module, Expectation(), path)
    compared = progress if settings.needs_alternatives else None
    return Subjects((subject_of_schedule(module, checked, module.network, compared),))


def runtime_file_subjects(path: Path, settings: ShowSettings, progress: Progress) -> Subjects:
    """A file for a runtime, with its checks, its threadblocks and, on a network, its simulation."""
    from collc.application.show.report_page import threadblock_picture
    from collc.application.verify.file_verification import Expectation, verify_file

    _check_settings(path, settings)
    progress(None, f"checking {path.name}")
    checked = verify_file(path, Expectation(profile=settings.profile))
    if not checked.summary:
        checked.raise_if_failed()
    try:
        threadblocks = threadblock_picture(call_for(path, "inspect", settings.profile))
    except CheckFailed:
        threadblocks = None
    use = None
    if settings.on is not None and checked.ok:
        from collc.application.simulate.simulating import SimulationSettings, simulate_file
        from collc.pictures.link_use import use_of_simulation

        chosen = {name: getattr(settings, name) for name in ("on", "size", "profile", "definitions")}
        use = use_of_simulation(simulate_file(path, SimulationSettings(**chosen)).simulation)
    return Subjects((subject_of_program(path, checked, threadblocks, use, settings.size),))


def _check_settings(
    path: Path, settings: ShowSettings, *, own_network: bool = False, program: bool = False, schedules: bool = False
) -> None:
    """Raise UsageError U0131, U0134 or U0135 for settings that do not fit the kind of the file.

    own_network: whether it has one. program: whether it is a program. schedules: whether it has several of them.
    """
    if own_network and settings.on is not None:
        raise UsageError(Diagnostic("U0131", f"{path} has a network of its own: --on is for others"))
    given = {"--schedule": settings.schedule, "--design": settings.design, "-D": settings.definitions or None}
    if schedules:
        del given["--schedule"]
    option = next((name for name, value in given.items() if value is not None), None)
    if not program and option is not None and not (option == "-D" and settings.on is not None):
        raise UsageError(Diagnostic("U0135", f"{option} is for programs, and {path} is a compiled file"))
    if settings.on is not None and settings.size is None:
        raise no_size(path)


def program_subjects(path: Path, settings: ShowSettings, progress: Progress) -> Subjects:
    """The schedules and designs of a program. Raises UsageError U0118 or U0136 if there is none."""
    from collc.application.design.design_pages import design_subject
    from collc.application.design.designs import chosen_designs
    from collc.source.elaboration.elaborate import load_program

    _check_settings(path, settings, own_network=True, program=True)
    program = load_program(path, settings.definitions, settings.schedule)
    designs = chosen_designs(program, settings.design) if settings.schedule is None else []
    schedules = program.schedules if settings.design is None else ()
    if not schedules and not designs:
        hint = "write one, as in: schedule s on t { run all_gather(t.npus, size: 9MiB) }"
        raise UsageError(Diagnostic("U0136", f"{path} has no schedule: there is nothing to show", hint=hint))
    subjects = tuple(_schedule_subjects(schedules, settings, progress))
    progress(None, "solving designs")
    return Subjects(subjects, tuple(design_subject(design) for design in designs))


def index_subjects(path: Path, settings: ShowSettings, progress: Progress) -> Subjects:
    """The networks of an index of fallbacks. Raises as `fallback_subjects`."""
    from collc.application.show.fallback_page import fallback_subjects

    _check_settings(path, settings, own_network=True, schedules=True)
    progress(None, "simulating long runs")
    return Subjects(fallbacks=fallback_subjects(path, settings.schedule))


def _schedule_subjects(
    requests: Sequence[ScheduleRequest], settings: ShowSettings, progress: Progress
) -> Iterator[Subject]:
    """The schedules, compiled as with `collc compile`; their files are checked but not kept."""
    from collc.application.compile.compilation import build_schedule
    from collc.application.compile.planning import BuildInput

    with tempfile.TemporaryDirectory() as folder:
        for request in requests:

            def phase(share: float | None, text: str, name: str = request.name) -> None:
                progress(share, f"{name}: {text}")

            emits = tuple(emit for emit in request.emits if EMIT_KINDS[emit.kind].only_messages)
            own = Settings(output=Path(folder) / request.name, keep_modules=True)
            report = build_schedule(BuildInput(replace(request, emits=emits), own, phase))
            if report.module is None:
                CompileReport((report,)).raise_if_failed()
            compared = phase if settings.needs_alternatives else None
            yield subject_of_schedule(report.kept_module(), replace(report, files=()), request.network, compared)
