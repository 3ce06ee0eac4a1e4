"""The text of a program and of the files that it imports, to be compiled in another process or on another machine."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from collc.base.diagnostics import Diagnostic, SourceFile, UsageError
from collc.base.reading import real_path
from collc.source.elaboration.elaborate import load_program
from collc.source.imports import Loader
from collc.source.parsing.syntax import Param, ScheduleDeclaration
from collc.source.problems import Problems
from collc.source.program import Program
from collc.version import __version__


def not_one_schedule(path: Path, count: int, why: str = "") -> UsageError:
    """The error U0107 of a program that has no schedule, or several, where one must be meant. why: of what is done."""
    message = f"{path} has {count} schedules{why}"
    return UsageError(Diagnostic("U0107", message, hint="say which one with --schedule NAME"))


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """A program: its files as (path, text), paths relative to the folder that has them all.

    shown: what messages call the first file, which is the program itself.
    """

    shown: str
    files: tuple[tuple[str, str], ...]

    def digest(self) -> str:
        """A hash of all that a compilation depends on besides its settings: the files and collc's version."""
        return hashlib.sha256(json.dumps([__version__, self.files]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ProgramOutline:
    """A program that was read, and the names of its params and schedules."""

    files: ProgramFiles
    params: tuple[str, ...]
    schedules: tuple[str, ...]


def read_program(path: Path) -> ProgramOutline:
    """Read a program and all files that it imports. Raises SourceError where one cannot be read or parsed."""
    problems = Problems()
    loader = Loader(problems)
    main = loader.load(path, str(path))
    problems.stop()
    own = {real: file for real, file in loader.files.items() if file.module is None}
    folder = Path(os.path.commonpath([real.parent for real in own]))
    first = real_path(path)
    files = [(first, own[first]), *((real, file) for real, file in sorted(own.items()) if real != first)]
    texts = tuple((real.relative_to(folder).as_posix(), file.source.text) for real, file in files)
    params = tuple(node.name.name for node in main.declared("value") if isinstance(node, Param))
    schedules = tuple(node.name.name for node in main.declared("schedule") if isinstance(node, ScheduleDeclaration))
    return ProgramOutline(ProgramFiles(str(path), texts), params, schedules)


@lru_cache(maxsize=4)
def _unpacked(program: ProgramFiles) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """A folder with the files, which is removed with the first value, and the program in it."""
    folder = tempfile.TemporaryDirectory(prefix="collc-")
    for name, text in program.files:
        path = Path(folder.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder, Path(folder.name) / program.files[0][0]


def load_files(
    program: ProgramFiles,
    definitions: dict[str, str],
    only: str | None,
    chunks: int | Literal["auto"] | None,
    size: int | None = None,
) -> Program:
    """The elaborated program: `load_program`, from files that may have come from elsewhere."""
    _, path = _unpacked(program)
    return load_program(path, definitions, only, chunks=chunks, size=size)


def with_own_name(program: ProgramFiles, message: Diagnostic) -> Diagnostic:
    """A message about a program that was unpacked, with the name by which the user knows the file."""
    folder, path = _unpacked(program)
    if message.span is None or not message.span.file.name.startswith(folder.name):
        return message
    inside = os.path.relpath(message.span.file.name, path.parent)
    name = os.path.normpath(Path(program.shown).parent / inside)
    return replace(message, span=replace(message.span, file=SourceFile(name, message.span.file.text)))
