"""`collc doctor`: what is installed, and whether it works."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Final, Literal

from collc.base.memory import free_memory, gibibytes
from collc.base.tables import Column
from collc.base.trusted_folders import CODE
from collc.base.wording import phrase
from collc.version import __version__

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome", "firefox")
_FOR_DEVELOPERS: Final = ("dev", "site", "test")
"""Extras that no command of collc needs."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an installation. outcome: "absent" for a part that collc works without. details: version and place."""

    name: str
    outcome: Literal["ok", "absent", "failed"]
    details: str


COLUMNS: Final[Sequence[Column[Part]]] = (
    Column("part", "name", lambda part: part.name),
    Column("outcome", "outcome", lambda part: part.outcome),
    Column("details", "details", lambda part: part.details),
)


def examine() -> list[Part]:
    """All parts, each tried."""
    checks = (_packages, _library, _kernels, _solver, _extras, _browser)
    return [*_environment(), *(part for check in checks for part in _result_of(check))]


def _result_of(check: Callable[[], list[Part]]) -> list[Part]:
    """The parts that a check returns; one that failed if it raises."""
    try:
        return check()
    except Exception as error:  # whatever is broken
        return [Part(check.__name__.strip("_"), "failed", f"{type(error).__name__}: {error}")]


def _environment() -> list[Part]:
    free = free_memory(1.0)
    memory = "" if free is None else f", {gibibytes(free)} of memory free"
    python = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    variables = [name for name in sorted(os.environ) if name.startswith(("COLLC_", "NUMBA_", "PYTHON"))]
    return [
        Part("collc", "ok", f"{__version__} ({CODE})"),
        Part("python", "ok", python),
        Part("machine", "ok", f"{platform.platform()}, {os.cpu_count()} cores{memory}"),
        Part("environment", "ok", " ".join(f"{name}={os.environ[name]}" for name in variables) or "-"),
    ]


def _requirements() -> dict[str, list[str]]:
    """The packages that collc requires, "" by each of its extras, and those that it always requires as ""."""
    packages: dict[str, list[str]] = {}
    for text in metadata.requires("collc") or ():
        requirement, _, marker = text.partition(";")
        extra = re.search(r"""extra == ["']([\w-]+)""", marker)
        name = re.match(r"[\w.-]+", requirement)
        if name is not None:
            packages.setdefault(extra[1] if extra else "", []).append(name[0])
    return packages


def _versions(packages: Sequence[str]) -> tuple[list[str], list[str]]:
    """The packages that are installed, with their versions, and those that are not."""
    there: list[str] = []
    missing: list[str] = []
    for name in packages:
        try:
            there.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    return there, missing


def _packages() -> list[Part]:
    try:
        there, missing = _versions(_requirements().get("", []))
    except metadata.PackageNotFoundError:
        return [Part("packages", "absent", "collc runs from a folder and is not installed: pip install . installs it")]
    if missing:
        return [Part("packages", "failed", f"not installed: {', '.join(missing)}")]
    return [Part("packages", "ok", ", ".join(there))]


def _extras() -> list[Part]:
    try:
        requirements = _requirements()
    except metadata.PackageNotFoundError:
        return []
    parts: list[Part] = []
    for extra, packages in sorted(requirements.items()):
        if extra and extra not in _FOR_DEVELOPERS:
            there, missing = _versions(packages)
            details = f"pip install 'collc[{extra}]' installs {phrase(missing, 'and')}" if missing else ", ".join(there)
            parts.append(Part(f"collc[{extra}]", "absent" if missing else "ok", details))
    return parts


def _library() -> list[Part]:
    from collc.source.standard_library import std_entries

    return [Part("standard library", "ok", f"{len(std_entries())} declarations")]


def _kernels() -> list[Part]:
    """Numba, tried on a function, and the folder of its cache."""
    from collc.kernels.cached_jit import jit
    from collc.kernels.compiled import trailing_zeros

    def lowest(bits: int) -> int:
        return bits & -bits

    if jit()(lowest)(12) != 4:
        return [Part("compiled functions", "failed", "Numba computes 12 & -12 wrongly")]
    folder = getattr(getattr(jit()(trailing_zeros), "_cache", None), "cache_path", None)
    if folder is None:
        return [Part("compiled functions", "absent", "no folder can keep them: set NUMBA_CACHE_DIR to one of your own")]
    return [Part("compiled functions", "ok", f"kept in {folder}")]


def _solver() -> list[Part]:
    from collc.smt.solver import SolverLimits, solve

    certificate, true = solve("(declare-const a Bool)(assert a)", SolverLimits(seconds=10), propositional=True)
    outcome = "ok" if (certificate.answer, true) == ("sat", {"a"}) else "failed"
    return [Part("proofs", outcome, f"{certificate.solver} says {certificate.answer}")]


def _browser() -> list[Part]:
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    return [
        Part("browser", "absent" if path is None else "ok", path or "the pages of 'collc show' need one to be read")
    ]
