"""The kind of a file: recognized by its first bytes, or by its suffix where these do not say."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Final, Literal

from collc.base.diagnostics import Diagnostic, UsageError

FileKind = Literal["msccl", "mscclpp", "ten", "coll"]
"""MSCCL XML, MSCCL++ plan, schedule, and source text of the language."""

_BY_SUFFIX: Final[dict[str, FileKind]] = {
    ".xml": "msccl",
    ".msccl": "msccl",
    ".json": "mscclpp",
    ".mscclpp": "mscclpp",
    ".ten": "ten",
    ".coll": "coll",
}
_BEGINNINGS: Final[tuple[tuple[re.Pattern[bytes], FileKind], ...]] = (
    (re.compile(rb"\s*<"), "msccl"),
    (re.compile(rb"\s*[{\[]"), "mscclpp"),
    (re.compile(rb"(\s|#[^\n]*\n)*ten\b"), "ten"),
    (re.compile(rb"PK\x03\x04"), "ten"),
)


def kind_of(path: Path) -> FileKind | None:
    """The kind of a file; None if neither its first bytes nor its suffix say. Raises OSError if it can't be read.

    What comes through a pipe, which can be read only once, is taken for a `.ten` file as text.
    """
    if path.is_fifo():
        return "ten"
    with path.open("rb") as stream:
        head = stream.read(4096).removeprefix(codecs.BOM_UTF8)
    for pattern, kind in _BEGINNINGS:
        if pattern.match(head):
            return kind
    return _BY_SUFFIX.get(path.suffix.lower())


def kind_of_program(path: Path) -> FileKind | None:
    """The kind of a file that a runtime loads; None if it can't be opened, which its reader will report.

    Raises UsageError (X0206) for a schedule, for source text, and for a pipe or a device.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a device may never end
            what = "pipe" if path.is_fifo() else "device"
            message = f"{path} is a {what}, and files for runtimes are read more than once"
            raise UsageError(Diagnostic("X0206", message, hint="save it as a file"))
        kind = kind_of(path)
    except OSError:
        return None
    if kind == "coll":
        raise source_error(path)
    if kind == "ten":
        message = f"{path} is a schedule, not a program for a runtime"
        hint = "write it as a program with 'emit msccl'; 'collc verify' checks it as it is"
        raise UsageError(Diagnostic("X0206", message, hint=hint))
    return kind


def source_error(path: Path) -> UsageError:
    """The error for a `.coll` file where a compiled one is expected (X0206)."""
    message = f"{path} is a program in the language of collc, not a compiled file"
    hint = f"'collc compile {path}' writes the files that its schedules emit; give one of those"
    return UsageError(Diagnostic("X0206", message, hint=hint))
