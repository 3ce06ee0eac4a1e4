"""A lexer for Pygments, which colours programs in documents and notebooks; it is the scanner of the front end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pygments import token as pt
from pygments.lexer import Lexer

from collc.source.elaboration.builtins import BUILTINS
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import COMMENT, END, FLOAT, INT, NAME, QUANTITY, STRING, WRONG
from collc.source.types import NAMED

_TYPES: Final[dict[str, Any]] = {
    COMMENT: pt.Comment.Single,
    STRING: pt.String,
    INT: pt.Number.Integer,
    FLOAT: pt.Number.Float,
    QUANTITY: pt.Number,
    WRONG: pt.Error,
}


class CollLexer(Lexer):
    """Programs of collc. A word of the language is a keyword unless it is the label of an argument."""

    name = "collc"
    aliases = ("coll",)
    filenames = ("*.coll",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The position, the type and the text of each token, white space included."""
        table, end = load_table(), 0
        for token in table.scanner.scan(text, comments=True):
            if token.start > end:
                yield end, pt.Whitespace, text[end : token.start]
            end = token.end
            if token.kind != END:
                yield token.start, _word(token.text, text[end : end + 1], table.keywords, token.kind), token.text


def _word(word: str, following: str, keywords: frozenset[str], kind: str) -> Any:  # noqa: ANN401 (Pygments' type of tokens)
    if kind != NAME:
        return _TYPES.get(kind, pt.Punctuation if word in "()[]{},.:" else pt.Operator)
    if following == ":":
        return pt.Name.Attribute
    if word in keywords:
        return pt.Keyword
    if word in BUILTINS and following == "(":
        return pt.Name.Builtin
    return pt.Keyword.Type if word in NAMED else pt.Name
