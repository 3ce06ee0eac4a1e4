"""Reading text files with limits and clear errors."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collc.diagnostics import Diagnostic, SourceError, SourceFile

LIMIT: Final = 2**30
"""Bytes of a text that is read at once."""


def read_text(path: Path, limit: int = LIMIT) -> SourceFile:
    """A whole file.

    Raises SourceError where it cannot be read, is larger than `limit` bytes or is no UTF-8.
    """
    try:
        size = path.stat().st_size
        if size > limit:
            message = f"{path} has {size} bytes; at most {limit} are read"
            raise SourceError(Diagnostic("E0801", message))
        return SourceFile(str(path), path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        message = f"{path} is no UTF-8 text (byte {error.start})"
        raise SourceError(Diagnostic("E0705", message)) from error
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise SourceError(Diagnostic("E0701", message, hint="check the name and the folder")) from error
