"""Values that a program gives as options, with their places."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import Span

Option = int | float | str | bool | Fraction | tuple[int, int]
"""A value of an option: bytes as int, times in picoseconds and rates in bytes per second as Fraction, a range of bytes
as its two ends."""


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One `name: value` of a synthesize or emit statement, evaluated.

    type: "int", "time", ... as in docs/language.md.
    """

    type: str
    value: Option
    span: Span
