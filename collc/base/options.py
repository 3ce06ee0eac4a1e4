"""Options of synthesizers and of kinds of files: their types and limits, and the values that a program gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a synthesizer or of a kind of file.

    type: "int", "bool", "time", "string" or "range" (of bytes), as docs/language.md names the types. meaning: one line,
    for the documents and for `--help`. default: the value if the option is not given; None for no value.
    least: the smallest number allowed. choices: the strings allowed, () for any; of a range, the name that may stand
    in its place.
    """

    type: str
    meaning: str = ""
    default: int | str | None = None
    least: int | None = None
    choices: tuple[str, ...] = ()


Options = Mapping[str, Option]
"""Options by name."""

OptionData = int | float | str | bool | Fraction | tuple[int, int]
"""The value of an option: bytes as int, times in picoseconds and rates in bytes per second as Fraction, a range of
bytes as its two ends, or the name in its place."""


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One `name: value` of a synthesize or emit statement, evaluated.

    type: "int", "time", ... as in docs/language.md.
    """

    type: str
    value: OptionData
    span: Span
