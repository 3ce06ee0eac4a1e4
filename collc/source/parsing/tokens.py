"""The scanner: splits a text into words, numbers, strings and signs with the terminals of coll.lark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

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
