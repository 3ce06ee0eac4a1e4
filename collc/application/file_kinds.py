"""The kinds of files that commands take: how to tell them apart, and which function does what a command asks.

A new kind is a record here, a module with its functions, and tests (docs/extending.md, "A file kind").
Messages, `--help` and the choice of the function follow from the record.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, UsageError
from collc.base.wording import phrase

_VERIFY: Final = "collc.application.verify.file_verification"
_SIMULATE: Final = "collc.application.simulate.simulating"
_RUN: Final = "collc.application.run.file_runs"
_SHOW: Final = "collc.application.show.showing"
_INSPECT: Final = "collc.msccl.inspecting"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    name: in reports. title: in messages and help. advice: what to do with a file of this kind that a command refuses.
    suffixes: in lower case, of files whose first bytes fit no kind. beginning: a pattern of its first bytes, empty
    if these do not tell it apart. mark: what they contain, but those of no description of a machine. verify, simulate,
    run, inspect, show: the function that the command calls, as MODULE:FUNCTION; "" if the command refuses the kind.
    Their arguments and results are those of `verify_file`, `simulate_file`, `run_program`, `inspect_file` and
    `program_subjects`.
    """

    name: str
    title: str
    advice: str
    suffixes: tuple[str, ...] = ()
    beginning: bytes = b""
    mark: bytes = b""
    verify: str = ""
    simulate: str = ""
    run: str = ""
    inspect: str = ""
    show: str = ""


_RECORDS: Final = (
    FileKind(
        "ten",
        "a .ten file",
        "write it as a program for a runtime with 'emit msccl'; 'collc verify' checks it as it is",
        (".ten",),
        rb"(\s|#[^\n]*\n)*ten\s+\d|PK\x03\x04",
        verify=f"{_VERIFY}:verify_ten",
        simulate=f"{_SIMULATE}:simulate_ten",
        show=f"{_SHOW}:ten_subjects",
    ),
    FileKind(
        "msccl",
        "an MSCCL file (XML)",
        "",
        (".xml", ".msccl"),
        rb"\s*<[\w?!]",
        b"<algo",
        verify=f"{_VERIFY}:verify_msccl",
        simulate=f"{_SIMULATE}:simulate_msccl",
        run=f"{_RUN}:run_msccl",
        inspect=f"{_INSPECT}:inspect_file",
        show=f"{_SHOW}:runtime_file_subjects",
    ),
    FileKind(
        "run",
        "a run file",
        "",
        (".run",),
        rb"collc run\n",
        verify=f"{_VERIFY}:verify_run",
        simulate=f"{_SIMULATE}:simulate_msccl",
        run=f"{_RUN}:run_msccl",
        inspect=f"{_INSPECT}:inspect_file",
        show=f"{_SHOW}:runtime_file_subjects",
    ),
    FileKind(
        "fallbacks",
        "an index of fallbacks",
        "'collc fallback' finds the files for a failure in it, and 'collc show' shows its classes",
        beginning=rb'\s*\{"kind": "collc fallbacks',
        show=f"{_SHOW}:index_subjects",
    ),
    FileKind(
        "mscclpp",
        "an MSCCL++ plan (JSON)",
        "",
        (".json", ".mscclpp"),
        rb"\s*[{\[]",
        b'"collective"',
        verify=f"{_VERIFY}:verify_plan",
        simulate=f"{_SIMULATE}:simulate_plan",
        run=f"{_RUN}:run_plan",
        inspect=f"{_INSPECT}:inspect_plan",
        show=f"{_SHOW}:runtime_file_subjects",
    ),
    FileKind(
        "chakra",
        "DIR/PREFIX of Chakra traces",
        "'collc verify' checks traces, and 'collc simulate' runs them on a network",
        verify=f"{_VERIFY}:verify_chakra",
        simulate=f"{_SIMULATE}:simulate_traces",
    ),
    FileKind(
        "coll",
        "a program",
        "'collc compile FILE' writes the files that its schedules emit; give one of those",
        (".coll",),
        simulate=f"{_SIMULATE}:simulate_program",
        show=f"{_SHOW}:program_subjects",
    ),
)

FILE_KINDS: Final = {kind.name: kind for kind in _RECORDS}
"""By name, in the order in which their patterns are tried."""

_REFUSED: Final = (
    FileKind(
        "table",
        "a table",
        "'collc calibrate FILE' fits a link to a table of nccl-tests; no other command reads tables",
        (".csv", ".tsv"),
        rb"(\s|#[^\n]*\n)*\d\S*[ \t,;]+\S",
    ),
    FileKind(
        "page",
        "a page, a picture or a timeline",
        "a browser shows pages and pictures, and ui.perfetto.dev timelines",
        beginning=rb"\s*<(!DOCTYPE html|svg )|\{\"displayTimeUnit\"",
    ),
    FileKind("trace", "the trace of one rank", "leave out rank and suffix: 'collc verify DIR/PREFIX'", (".et",)),
)
"""What users give to commands by mistake, although no command of this module takes it."""


def titles(command: str) -> str:
    """The kinds that a command takes, in words."""
    return phrase([kind.title for kind in FILE_KINDS.values() if getattr(kind, command)], "or")


def kind_of(path: Path) -> FileKind | None:
    """The kind of a file; None if neither its first bytes nor its suffix say it.

    Standard input, `-`, is a program. What comes through a pipe, which can be read only once, is a `.ten` file as
    text. Raises UsageError U0106 if the file cannot be opened.
    """
    from collc.chakra.reader import trace_ranks

    if path == Path("-") or path.is_fifo():
        return FILE_KINDS["ten" if path.is_fifo() else "coll"]
    if trace_ranks(path):
        return FILE_KINDS["chakra"]
    try:
        with path.open("rb") as stream:
            head = stream.read(4096).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        first = min(path.glob("*.0.et"), default=None) if path.is_dir() else None
        hint = "check the name and the folder" if first is None else f"for the traces in it: {str(first)[:-5]}"
        raise UsageError(Diagnostic("U0106", message, hint=hint)) from error
    by_suffix = (kind for kind in (*_REFUSED, *FILE_KINDS.values()) if path.suffix.lower() in kind.suffixes)
    return _kind_of_head(head) or next(by_suffix, None)


def _kind_of_head(head: bytes) -> FileKind | None:
    kinds = (*_REFUSED, *FILE_KINDS.values())
    return next((kind for kind in kinds if kind.beginning and re.match(kind.beginning, head)), None)


def with_other_kind(messages: Sequence[Diagnostic], command: str) -> Sequence[Diagnostic]:
    """The messages about a text that a command reads as a program; X0206 if it is a file of another kind.

    A program with an error may have lines that begin like another kind of file: of such a file no line is read before
    the first error.
    """
    if not messages or not messages[0].code.startswith("E01") or messages[0].span is None:
        return messages
    source, error = messages[0].span.file, messages[0].span.start
    line = source.text.rfind("\n", 0, error) + 1
    if not re.fullmatch(r"(?:\s|#[^\n]*+\n)*+", source.text[:line]):
        return messages
    if source.name == "stdin":  # no command could name it
        source = SourceFile("FILE", source.text)
    kind = _machine_kind(source) or _kind_of_head(source.text[:4096].encode())
    if kind is None:
        return messages
    advice = (kind.advice or "'collc verify FILE' checks it").replace("FILE", source.name)
    name = messages[0].span.file.name
    return [Diagnostic("X0206", f"{name} is {kind.title}, and 'collc {command}' takes a program", hint=advice)]


def _machine_kind(source: SourceFile) -> FileKind | None:
    """The kind of a text that describes a machine; its name is one of `collc import`. None for all other texts."""
    head = source.text[:4096].encode()
    if any(kind.mark and kind.mark in head for kind in FILE_KINDS.values()):
        return None
    from collc.machines.kinds import kind_of as machine_kind

    try:
        name = machine_kind(source)
    except SourceError:
        return None
    advice = f"'collc import {source.name}' makes a program of it"
    return FileKind(name, f"the description of a machine ({name})", advice)


def kind_for(path: Path, command: str) -> FileKind:
    """The kind of a file that a command takes.

    Raises UsageError U0106 if the file cannot be opened, X0206 if the command does not take such a file or nothing says
    what it is.
    """
    taken = [kind for kind in FILE_KINDS.values() if getattr(kind, command)]
    if taken[0].name != "ten" and path.exists() and not (path.is_file() or path.is_dir()):  # a device may never end
        message = f"{path} is a {'pipe' if path.is_fifo() else 'device'}, and 'collc {command}' reads a file twice"
        raise UsageError(Diagnostic("X0206", message, hint="save it as a file"))
    kind = kind_of(path)
    if (kind is None or kind.name in ("ten", "msccl", "mscclpp", "table")) and path.suffix != ".ten" and path.is_file():
        with path.open("rb") as stream:
            head = stream.read(1 << 16).decode("utf-8", "replace")
        kind = _machine_kind(SourceFile(str(path), head)) or kind
    if kind not in taken:
        title = "of no kind that collc knows" if kind is None else kind.title
        message = f"{path} is {title}, and 'collc {command}' takes {titles(command)}"
        advice = "give the file that another command or tool wrote, as it is" if kind is None else kind.advice
        raise UsageError(Diagnostic("X0206", message, hint=advice.replace("FILE", str(path))))
    return kind


def call_for(path: Path, command: str, *arguments: object) -> Any:  # noqa: ANN401
    """What the function of a command for the kind of a file returns. Raises as `kind_for`, and what it raises."""
    return resolve_name(getattr(kind_for(path, command), command))(path, *arguments)
