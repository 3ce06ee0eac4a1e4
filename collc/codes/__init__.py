"""The catalogue of messages, as data: one TOML file for each letter of codes; E and parts of X by hundreds.

E: the program. U: the command line and its files. C: requested checks. S: synthesis and simulation. V: checks of
schedules. M: writing MSCCL files. X: checking and running MSCCL files and MSCCL++ plans, and
Chakra traces (X05). T: reading .ten files.

A table `[E0203]` has a `title` and an `explanation` and, where a program can show the error, a `wrong` program that
yields the code and a `right` one that compiles.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Code:
    """The entry of one code. wrong, right: example programs, "" if no single program shows the error."""

    code: str
    title: str
    explanation: str
    wrong: str = ""
    right: str = ""


@cache
def catalogue() -> dict[str, Code]:
    """All entries by code, in order. Raises ValueError if two files have the same code."""
    codes: dict[str, Code] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        table: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
        for code, fields in table.items():
            if code in codes:
                raise ValueError(f"{code} is in the catalogue twice")
            codes[code] = Code(code, **fields)
    return dict(sorted(codes.items()))
