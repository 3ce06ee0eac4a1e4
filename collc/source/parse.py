"""Text to syntax tree."""

from __future__ import annotations

from functools import cache

from lark import Lark
from lark.exceptions import UnexpectedInput

from collc.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.resources import grammar_text
from collc.source.build import Builder
from collc.source.syntax import File

MAX_BYTES = 16 * 2**20
"""Size of the largest source file that is read."""


def _parser() -> tuple[Lark, Builder]:
    builder = Builder()
    lark = Lark(
        grammar_text("coll"), parser="lalr", lexer="contextual", start="file", keep_all_tokens=True, transformer=builder
    )
    return lark, builder


_cached = cache(_parser)


def parse(source: SourceFile) -> File:
    """The syntax tree of a file. Raises SourceError with every mistake found in it."""
    if len(source.text) > MAX_BYTES or (not source.text.isascii() and len(source.text.encode()) > MAX_BYTES):
        raise SourceError(Diagnostic("E0801", "a file of more than 16 MiB", Span(source, 0, 0)))
    lark, builder = _cached()
    builder.begin(source)
    try:
        tree = lark.parse(source.text)
    except UnexpectedInput as error:
        start = error.pos_in_stream or 0
        raise SourceError(Diagnostic("E0101", "syntax error", Span(source, start, start + 1))) from None
    if builder.errors:
        raise SourceError(*builder.errors)
    return tree  # pyright: ignore[reportReturnType]
