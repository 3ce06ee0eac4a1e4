"""Reading text files with limits and clear errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO, Final

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span

LIMIT: Final = 2**30
"""The most bytes of a text file."""

_HINT: Final = "check the name and the folder"


def real_path(path: Path) -> Path:
    """The absolute path without symbolic links; of links that lead in a circle, as far as they can be followed."""
    return Path(os.path.realpath(path))


def at_most(file: BinaryIO, count: int) -> bytes:
    """The first bytes of a file, in parts: a single read would reserve memory for all that are asked for."""
    parts: list[bytes] = []
    while count and (block := file.read(min(count, 2**20))):
        parts.append(block)
        count -= len(block)
    return b"".join(parts)


def read_text(path: Path, name: str | None = None, *, limit: int = LIMIT, at: Span | None = None) -> SourceFile:
    """Read a whole text file.

    name: the name of the file in messages; None for its path. at: the place where a program names the file; None for a
    file that the command line names, which may also be a pipe, or `-` for standard input. Raises SourceError if the
    file cannot be read (E0701), has more than `limit` bytes (E0801) or is not UTF-8 (E0705).
    """
    shown = str(path) if name is None else name
    try:
        if at is None and str(path) == "-":
            shown, data = "stdin", at_most(sys.stdin.buffer, limit + 1)
        elif path.is_file() or (at is None and path.is_fifo()):
            with path.open("rb") as file:
                data = at_most(file, limit + 1)
        else:
            what = f"{shown} is not a file" if path.exists() else f"there is no file {shown}"
            raise SourceError(Diagnostic("E0701", what, at, hint=_HINT))
        if len(data) > limit:
            most = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
            message = f"{shown} has more than {most}"
            raise SourceError(Diagnostic("E0801", message, at, hint="split it into several files"))
        return SourceFile(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"{shown} is not UTF-8 text (byte {error.start})"
        raise SourceError(Diagnostic("E0705", message, at, hint="save it as UTF-8")) from error
    except OSError as error:
        message = f"cannot read {shown}: {error.strerror or error}"
        raise SourceError(Diagnostic("E0701", message, at, hint=_HINT)) from error
