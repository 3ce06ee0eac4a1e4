"""collc: schedules for collective communication, proved correct and written for real runtimes.

The Python API is small: `compile` builds the schedules of a `.coll` file as the command line does, and
`load` reads a `.ten` file.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from collc.version import __version__

if TYPE_CHECKING:
    from collc.application.compile_report import CompileReport
    from collc.ten.module import Module

__all__ = ["__version__", "compile", "load"]


def compile(path: str | PathLike[str], **settings: object) -> CompileReport:  # noqa: A001
    """Compile a `.coll` file: build, verify and write all its schedules.

    settings: the fields of collc.application.settings.Settings, as in `compile("a.coll", output="out", seed=7)`.
    Raises CollcError where the file or the settings are wrong; what goes wrong with one schedule is
    in its report, as are its numbers, checks and files.
    """
    from collc.application.compilation import compile_file
    from collc.application.settings import Settings

    chosen = replace(Settings(), **settings)
    return compile_file(Path(path), replace(chosen, output=Path(chosen.output)))


def load(path: str | PathLike[str]) -> Module:
    """Read a `.ten` file, text or binary: a network, a demand and, where there is one, a schedule.

    Raises SourceError where the file is no module, with line and column where it is text.
    """
    from collc.ten.files import read_module

    return read_module(Path(path))
