"""`collc.load`, `collc.verify`, `collc.lower` and `collc.run`: what can be done with schedules and files."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, TypedDict, Unpack, cast

from collc.api import arguments
from collc.api.arguments import with_keywords
from collc.application.compile.compile_report import ScheduleReport
from collc.application.emit.runtime_files import write_msccl, write_mscclpp
from collc.application.file_kinds import FILE_KINDS
from collc.application.run.file_runs import FileRuns, RunOptions, run_program
from collc.application.verify.file_report import FileReport
from collc.application.verify.file_verification import Expectation, verify_file, verify_module
from collc.base.atomic_files import open_draft, write_file
from collc.base.diagnostics import CheckFailed, Diagnostic, Outcome, SourceError, SourceFile, Span
from collc.base.options import OptionValue, check_values
from collc.emit.kinds import EMIT_KINDS
from collc.emit.output import Destination, Emission
from collc.msccl.options import MscclOptions, msccl_options
from collc.ten.binary import read_module
from collc.ten.module import Module


def load(path: str | PathLike[str]) -> Module:
    """Read a `.ten` file, text or binary: a network, a demand and, if there is one, a schedule.

    Raises SourceError if the file is no module, with line and column if it is text.
    """
    return read_module(arguments.path("path", path))


class VerifyOptions(TypedDict, total=False):
    """The keywords of `verify`. A missing one, or None, leaves it to the file.

    collective, root: the collective over all NPUs that the file must compute, and the rank of its root.
    profile: the runtime that will load an MSCCL file: "executor" (the default), "old" or "rccl".
    program, schedule: a `.coll` file and the name of one of its schedules, whose network and demand count.
    gpus_per_node: for an MSCCL++ plan, the number of consecutive ranks that map each other's memory.
    """

    collective: str | None
    root: int | None
    profile: Literal["executor", "old", "rccl"]
    program: str | PathLike[str] | None
    schedule: str | None
    gpus_per_node: int | None


class LowerOptions(TypedDict, total=False):
    """The keywords of `lower`, which are the options of `emit` for the kind of file (docs/msccl.md, docs/running.md).

    kind: "msccl" (the default) for MSCCL XML; "mscclpp" for an MSCCL++ execution plan, which has only the options
        instances, protocol ("Simple" or "LL"), sizes, placement, coll and gpus_per_node; "run" for a run file, which
        has only instances, channels, sizes, placement and dtype.
    instances: number of copies of the program, each of which moves its part of every chunk.
    protocol: "Simple" (the default), "LL" or "LL128".
    channels: the most channels to use.
    sizes: smallest and largest buffer in bytes for which the runtime may use the file; None: no largest. "auto": the
        sizes for which the schedule is the best known.
    profile: the runtime: "executor" (msccl-executor-nccl, the default), "old" (microsoft/msccl) or "rccl".
    placement: "in", "out" or "both"; whether the output is the input's memory.
    coll: "custom" for one file of all runs together; else each run has a file.
    gpus_per_node: number of consecutive ranks that map each other's memory; None: the parts that only slow links join.
    dtype: the type of elements, as torch and NumPy call it.
    """

    kind: Literal["msccl", "mscclpp", "run"]
    instances: int
    protocol: Literal["Simple", "LL", "LL128"]
    channels: int | None
    sizes: tuple[int, int | None] | Literal["auto"]
    profile: Literal["executor", "old", "rccl"]
    placement: Literal["in", "out", "both"] | None
    coll: Literal["custom"] | None
    gpus_per_node: int | None
    dtype: str


_KIND: Final = arguments.one_of("msccl", "mscclpp", "run")
_CHECKS: Final = {
    "collective": arguments.text,
    "root": arguments.at_least(-(2**63)),
    "profile": arguments.one_of("executor", "old", "rccl"),
    "program": arguments.path,
    "schedule": arguments.text,
    "gpus_per_node": arguments.at_least(1),
    "dtype": arguments.text,
    "op": arguments.text,
    "count": arguments.at_least(1),
    "seed": arguments.at_least(0),
    "runs": arguments.at_least(1),
    "transport": arguments.one_of("memory", "threads", "tcp"),
}
"""The checks of the keywords of `verify` and `run`."""

_TYPES: Final = {"str": "string", "tuple": "range"}
"""The names of types in the language, if they are not Python's."""


@dataclass(frozen=True, slots=True, repr=False)
class LoweredProgram:
    """A schedule as a checked program for a runtime: the result of `lower`.

    data: the contents of the file. kind: "msccl", "mscclpp" or "run". checks: the outcome of each check of the file.
    notes: remarks. diagnostics: warnings.
    """

    data: bytes
    kind: Literal["msccl", "mscclpp", "run"]
    checks: dict[str, Outcome]
    notes: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def text(self) -> str:
        """The contents as text. Raises ValueError for a run file, which is binary."""
        if self.kind == "run":
            raise ValueError("a run file is no text: see 'data' and 'save'")
        return self.data.decode()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the contents to a file."""
        write_file(arguments.path("path", path), self.data)

    @contextmanager
    def in_file(self) -> Generator[Path]:
        """The path of a temporary file with the contents."""
        with TemporaryDirectory() as folder:
            path = Path(folder, f"program{FILE_KINDS[self.kind].suffixes[0]}")
            path.write_bytes(self.data)
            yield path

    def __repr__(self) -> str:
        return f"<LoweredProgram: {self.kind}, {len(self.data)} bytes, {len(self.checks)} checks ok>"


@with_keywords(VerifyOptions, _CHECKS)
def verify(
    source: str | PathLike[str] | Module | ScheduleReport | LoweredProgram, **options: Unpack[VerifyOptions]
) -> FileReport:
    """Check a schedule or a program for a runtime. The keywords are those of `VerifyOptions`.

    source: a module, the report of a schedule, the result of `lower`, or the path of a file: `.ten`, MSCCL XML, a run
    file or an MSCCL++ plan.

    Returns the report; `report.ok` says whether all checks passed, and `report.raise_if_failed()` raises CheckFailed
    if one did not. Raises UsageError if the file cannot be opened or a name is unknown, and CheckFailed if
    the file is not what the keywords say.
    """
    expected = Expectation(**dict[str, Any](options))
    if isinstance(source, Module | ScheduleReport):
        return verify_module(arguments.module(source), expected)
    if isinstance(source, LoweredProgram):
        with source.in_file() as path:
            return replace(verify_file(path, expected), file=None)
    kinds = "a path, a Module, the report of a schedule or the result of lower()"
    return verify_file(arguments.path("source", source, kinds), expected)


@with_keywords(LowerOptions, {"kind": _KIND, "sizes": arguments.sizes})
def lower(source: Module | ScheduleReport, **options: Unpack[LowerOptions]) -> LoweredProgram:
    """Lower a schedule to a program for a runtime. The keywords are those of `LowerOptions`.

    source: a module, or the report of a schedule, which holds its module.

    The schedule is verified first; the program is read back and checked. Raises CheckFailed if a check fails,
    SourceError if the runtime cannot express the schedule. Writes no file.
    """
    module = arguments.module(source)
    chosen = options.get("kind", "msccl")
    if module.schedule is None:
        raise CheckFailed(Diagnostic("C0205", f"{module.name} has no schedule: there is nothing to lower"))
    verify_module(module, Expectation()).raise_if_failed()
    settings = _msccl_options(options, chosen)
    with TemporaryDirectory() as folder, open_draft() as draft:
        destination = Destination(Path(folder, "program"), draft)
        write = write_mscclpp if chosen == "mscclpp" else write_msccl
        written = write(Emission(chosen, module, destination), settings)
        if "failed" in written.checks.values():
            raise CheckFailed(*written.diagnostics)
        files = [path.read_bytes() for path in destination.finals]
    if len(files) > 1 and len(module.demand.runs) > 1 and not settings.custom:
        raise ValueError(f"{module.name} has {len(module.demand.runs)} runs, each with a file: 'emit' writes them")
    if len(files) > 1:
        raise ValueError("the old runtime needs a file for each placement: give placement='in' or placement='out'")
    return LoweredProgram(files[0], chosen, written.checks, written.notes, written.diagnostics)


def _msccl_options(options: LowerOptions, kind: str) -> MscclOptions:
    """The options as an `emit` statement gives them. Raises SourceError for values that it does not accept."""
    values: dict[str, OptionValue] = {}
    for name, value in options.items():
        if name != "kind":
            text, data, kind_name = f"{name}={value!r}", cast("Any", value), type(value).__name__
            span = Span(SourceFile("lower()", text), 0, len(text))
            values[name] = OptionValue(_TYPES.get(kind_name, kind_name), data, span)
    try:
        check_values(values, EMIT_KINDS[kind].options, f"emit {kind}")
        return msccl_options(values, kind)
    except SourceError as error:  # the messages name the options; there is no place to point to
        raise SourceError(*(replace(message, span=None) for message in error.diagnostics)) from error


@with_keywords(RunOptions, _CHECKS)
def run(source: str | PathLike[str] | LoweredProgram, **options: Unpack[RunOptions]) -> FileRuns:
    """Run an MSCCL file, a run file or an MSCCL++ plan on random data, and compare its results with NumPy.

    source: the path of the file, or the result of `lower`. The keywords are those of `RunOptions`.

    Returns one report for each run and placement; `runs.ok` says whether all results are right. Raises CollcError
    if the file or a keyword's value is wrong.
    """
    if isinstance(source, LoweredProgram):
        with source.in_file() as path:
            return replace(run_program(path, **options), file=None)
    return run_program(arguments.path("source", source, "a path or the result of lower()"), **options)
