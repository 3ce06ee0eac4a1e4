"""The scanner, which splits a text into words, numbers, strings and signs, and the values of numbers and strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, NamedTuple

from collc.base import units
from collc.base.units import MAX_DIGITS, UNITS, Dimension
from collc.source.limits import MAX_CHARACTERS

NAME: Final = "<name>"
STRING: Final = "<string>"
INT: Final = "<int>"
FLOAT: Final = "<float>"
QUANTITY: Final = "<quantity>"
COMMENT: Final = "<comment>"
END: Final = "<end>"
WRONG: Final = "<wrong>"
"""Kind of text that is no token: an unclosed string, a malformed number, characters without a meaning."""


class Token(NamedTuple):
    """One token. kind: one of the above, or the sign itself. Keywords have the kind NAME; the parser knows them."""

    kind: str
    text: str
    start: int
    end: int


_WRONG = r"""(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*\\?)|[0-9]+(?:\.?[A-Za-z0-9_]+)*|\w+|(?s:.)"""
"""Matches if no token does: an unclosed string, a malformed number, a word with other letters, or one sign."""


@dataclass(frozen=True, slots=True)
class Scanner:
    """The terminals of a grammar as one regular expression. kinds: the kind of token of each group of `pattern`."""

    pattern: re.Pattern[str]
    kinds: dict[str, str]

    @classmethod
    def of(cls, classes: dict[str, str], signs: list[str], space: str) -> Scanner:
        """A scanner. classes: kind of token -> pattern, tried in this order. space: the pattern of white space."""
        by_length = sorted(signs, key=lambda sign: (-len(sign), sign))
        kinds = [*classes, "", WRONG, END]
        patterns = [*classes.values(), "|".join(map(re.escape, by_length)), _WRONG, r"\Z"]
        groups = "|".join(f"(?P<t{i}>{pattern})" for i, pattern in enumerate(patterns))
        return cls(re.compile(f"(?:{space})?(?:{groups})"), {f"t{i}": kind for i, kind in enumerate(kinds)})

    def scan(self, text: str, start: int = 0, end: int | None = None, *, comments: bool = False) -> Iterator[Token]:
        """All tokens between two positions; the last one has the kind END. comments: whether to include comments."""
        kinds = self.kinds
        for match in self.pattern.finditer(text, start, len(text) if end is None else end):
            group = match.lastgroup or ""
            kind = kinds[group]
            if kind == COMMENT and not comments:
                continue
            word = match[group]
            yield Token(kind or word, word, match.start(group), match.end())
            if kind == END:
                break


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_LONG_UNITS = {
    "byte": "B",
    "bytes": "B",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "usec": "us",
    "nsec": "ns",
    "Bps": "B/s",
}


_KNOWN_UNITS = (
    "sizes are in 'B', 'kB', 'MiB', ..., times in 'ns', 'us', 'ms', ..., rates in 'GB/s', 'Gb/s', 'GiB/s', ..."
)


class LiteralError(ValueError):
    """Raised for a number or a string without a value, with the code, the text and the hint of the message about it."""


def whole_number(text: str) -> int:
    """The value of `42`. Raises LiteralError for more than MAX_DIGITS digits."""
    if len(text) > MAX_DIGITS:
        raise _too_long()
    return int(text)


def number(text: str) -> Fraction:
    """The exact value of `42`, `0.5` or `1e9`. Raises LiteralError for more than MAX_DIGITS digits."""
    try:
        return units.number(text)
    except OverflowError:
        raise _too_long() from None


def _too_long() -> LiteralError:
    message = f"a number of more than {MAX_DIGITS} digits"
    return LiteralError("E0110", message, "bytes, picoseconds and counts are all far smaller than this")


def unit_hint(unit: str) -> str:
    """The hint for an unknown unit."""
    bits = re.fullmatch(r"([kKMGTP]i?)b", unit)
    if bits:
        return f"'{bits[1]}B' is bytes; bits are only used in rates, as '{bits[1]}b/s'"
    rate = re.fullmatch(r"([kKMGTP]?i?)([bB])ps", unit)
    if rate:
        return f"did you mean '{rate[1]}{rate[2]}/s'?"
    folded = {name.lower(): name for name in UNITS}
    close = _LONG_UNITS.get(unit) or folded.get(unit.lower())
    close = close or next(iter(get_close_matches(unit, UNITS, n=1, cutoff=0.6)), None)
    return f"did you mean '{close}'?" if close else _KNOWN_UNITS


def quantity(text: str) -> tuple[Dimension, Fraction]:
    """The dimension of `9MiB`, `0.5us` or `400Gb/s`, and its value in bytes, picoseconds or bytes per second.

    Raises LiteralError for an unknown unit.
    """
    try:
        return units.quantity(text)
    except OverflowError:
        raise _too_long() from None
    except KeyError as error:
        unit = str(error.args[0])
        raise LiteralError("E0108", f"'{unit}' is not a unit", unit_hint(unit)) from None
    except ValueError:
        raise LiteralError("E0110", f"'{text}' is not a number with a unit", unit_hint("")) from None


def string_value(text: str) -> str:
    r"""The value of a string literal, given with its quotes. The only escapes are `\"` and `\\`.

    Raises LiteralError for any other escape.
    """

    def unescape(match: re.Match[str]) -> str:
        escape = match[1]
        if escape not in '\\"':
            message = f"'\\{escape}' is not an escape"
            raise LiteralError("E0111", message, "write '\\\\' for a backslash, '\\\"' for a quote")
        return escape

    inside = text[1:-1]
    if len(inside) > MAX_CHARACTERS:
        message = f"{len(inside):,} characters of a string exceed the limit of {MAX_CHARACTERS:,}"
        raise LiteralError("E0809", message, "write a shorter one")
    return _ESCAPE.sub(unescape, inside) if "\\" in inside else inside
