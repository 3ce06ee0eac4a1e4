"""Reads modules from files in the text form or the binary form."""

from __future__ import annotations

from pathlib import Path

from collc.base.reading import read_text
from collc.ten.module import Module


def read_module(path: Path) -> Module:
    """Read a module; the first bytes of the file say in which form it is.

    The text form may also come from a pipe, or from standard input (`-`). Raises SourceError.
    """
    from collc.ten.binary import SIGNATURE, load_module
    from collc.ten.text.read import parse_module

    return load_module(path) if _is_binary(path, SIGNATURE) else parse_module(read_text(path))


def _is_binary(path: Path, signature: bytes) -> bool:
    try:
        if not path.is_file():  # a pipe must not be opened twice
            return False
        with path.open("rb") as file:
            return file.read(len(signature)) == signature
    except OSError:
        return False
