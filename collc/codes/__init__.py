"""The catalogue of messages of all rooms, as data: a TOML file for each letter, for E one for each hundred codes.

E: the program. U: the command line and its files. C: checks that were asked for. S: synthesis and simulation.
V: checks of schedules. M: writing MSCCL files. X: checking and running them. T: reading .ten files.

A table `[E0203]` has a `title`, an `explanation`, and, where a program can show it, a `wrong` program that yields the
code and a `right` one that compiles.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Code:
    """What is told about one code; wrong and right are "" where no single program shows it."""

    code: str
    title: str
    explanation: str
    wrong: str = ""
    right: str = ""


@cache
def catalogue() -> dict[str, Code]:
    """Every code, in order."""
    codes: dict[str, Code] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        table: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
        for code, fields in table.items():
            if code in codes:
                raise ValueError(f"{code} is in the catalogue twice")
            codes[code] = Code(code, **fields)
    return dict(sorted(codes.items()))
