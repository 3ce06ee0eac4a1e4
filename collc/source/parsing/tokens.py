"""Text to tokens: the words, numbers, strings and signs of a file, as the terminals of coll.lark say."""

from __future__ import annotations

import re
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
"""Kind of what is no token: an open string, a misshapen number, characters that mean nothing."""


class Token(NamedTuple):
    """One token: `kind` is one of the above, or the sign itself. A keyword is a NAME until the parser knows better."""

    kind: str
    text: str
    start: int
    end: int


_WRONG = r"""(?:"(?:\\.|[^"\\\n])*\\?)|[0-9]+(?:\.?[A-Za-z0-9_]+)*|\w+|(?s:.)"""
"""Where no token fits: an open string, a misshapen number, a word in another alphabet, or one sign."""


@dataclass(frozen=True, slots=True)
class Scanner:
    """The terminals of a grammar as one regular expression, and the kind of each of its groups."""

    pattern: re.Pattern[str]
    kinds: dict[str, str]

    @classmethod
    def of(cls, classes: dict[str, str], signs: list[str], space: str) -> Scanner:
        """From the patterns of the classes in order of preference, the signs, and the pattern of white space."""
        by_length = sorted(signs, key=lambda sign: (-len(sign), sign))
        kinds = [*classes, "", WRONG, END]
        patterns = [*classes.values(), "|".join(map(re.escape, by_length)), _WRONG, r"\Z"]
        groups = "|".join(f"(?P<t{i}>{pattern})" for i, pattern in enumerate(patterns))
        return cls(re.compile(f"(?:{space})?(?:{groups})"), {f"t{i}": kind for i, kind in enumerate(kinds)})

    def scan(self, text: str, *, comments: bool = False) -> list[Token]:
        """All tokens in order, the last one of kind END; comments only where asked for."""
        kinds = self.kinds
        tokens: list[Token] = []
        for match in self.pattern.finditer(text):
            group = match.lastgroup or ""
            kind = kinds[group]
            if kind == COMMENT and not comments:
                continue
            word = match[group]
            tokens.append(Token(kind or word, word, match.start(group), match.end()))
            if kind == END:
                break
        return tokens
