"""The parser: text to syntax tree."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import cast

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.reading import read_text
from collc.base.resources import standard_library
from collc.source.limits import MAX_BYTES
from collc.source.parsing.build import Builder
from collc.source.parsing.expressions import Expr
from collc.source.parsing.recovery import Recovery
from collc.source.parsing.syntax import File, Let
from collc.source.parsing.table import Automaton, Unexpected, load_table
from collc.source.parsing.tokens import Token


def _too_large(text: str) -> bool:
    return len(text) > MAX_BYTES or (not text.isascii() and len(text.encode("utf-8", "replace")) > MAX_BYTES)


def begins(source: SourceFile) -> bool:
    """Whether the first word of a file, or its end, is allowed where a program begins."""
    table = load_table()
    try:
        for token in table.scanner.scan(source.text):
            Automaton(table, Builder(source)).feed(token)
            break
    except (Unexpected, SourceError):
        return False
    return True


def parse_with_tables(source: SourceFile) -> File | None:
    """The syntax tree of a file in which long tables are not parsed line by line (see tables.py).

    None if the file has no such tables, or anything in it is wrong.
    """
    if len(source.text) > MAX_BYTES:
        return None
    from collc.source.parsing.tables import TableReader

    reader = TableReader(source, load_table())
    if not reader.places:
        return None
    builder = Builder(source, reader.read)
    automaton = Automaton(load_table(), builder)
    try:
        for token in reader.scan():
            automaton.feed(token)
    except (Unexpected, SourceError):
        return None
    return None if builder.errors or builder.tables else cast("File", automaton.values[0])


def parse_library(module: str) -> File:
    """A module of the standard library ("topologies"), parsed once for each process, which may load many programs."""
    return _parse_library_file(standard_library()[module])


@cache
def _parse_library_file(path: Path) -> File:
    return parse(read_text(path, f"std/{path.name}", limit=MAX_BYTES))


def parse(source: SourceFile) -> File:
    """The syntax tree of a file. Raises SourceError with all syntax errors of the file."""
    tree, problems = parse_partly(source)
    if problems:
        raise SourceError(*problems)
    return tree


def parse_let(source: SourceFile) -> Expr | None:
    """The value of the `let` that a text consists of; None if it is anything else. Raises SourceError."""
    match parse(source).statements:
        case [Let(value=value)]:
            return value
        case _:
            return None


def parse_partly(source: SourceFile) -> tuple[File, Sequence[Diagnostic]]:
    """The syntax tree of a file without the statements that have syntax errors, and all these errors.

    A body that is not closed ends with the file. A file beyond a limit has no statements.
    """
    if _too_large(source.text):
        hint = "split it into files and 'import' them"
        return File(source, ()), [Diagnostic("E0801", "this file has more than 16 MiB", Span(source, 0, 0), hint=hint)]
    table = load_table()
    builder = Builder(source)
    automaton = Automaton(table, builder)
    try:
        for position, token in enumerate(table.scanner.scan(source.text)):
            try:
                automaton.feed(token)
            except Unexpected:
                recovery = Recovery(source, table, list(table.scanner.scan(source.text)), position)
                problems = recovery.read()
                return recovery.rest(), problems
    except SourceError as error:  # nested too deeply, or too many arguments
        return File(source, ()), error.diagnostics
    return cast("File", automaton.values[0]), builder.errors


def read_between(source: SourceFile, start: int, end: int) -> tuple[Recovery, list[Token]]:
    """The parser of the text between two positions, which begins with a declaration, and its tokens."""
    table = load_table()
    tokens = [*table.scanner.scan(source.text, start, end)]
    recovery = Recovery(source, table, tokens, 0)
    with suppress(SourceError):
        recovery.read(whole=False)
    return recovery, tokens[:-1]
