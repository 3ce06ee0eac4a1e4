"""Parses a text again after an edit: only the statements that the edit touches; the others are moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.source.limits import MAX_BYTES
from collc.source.parsing.build import Builder
from collc.source.parsing.expressions import Node
from collc.source.parsing.parse import parse_partly
from collc.source.parsing.recovery import Recovery
from collc.source.parsing.syntax import File
from collc.source.parsing.table import Automaton, Unexpected, load_table

_Node = TypeVar("_Node", bound=Node)


def parse_edited(source: SourceFile, before: File) -> tuple[File, Sequence[Diagnostic]]:
    """What `parse_partly` says of a text. before: of another text without errors, with most of its statements.

    A statement ends where the next one begins: it is as before if it and the one after it precede the edit, or if it
    begins on a line after the edit, since no token crosses the end of a line.
    """
    old, new = before.source.text, source.text
    if len(new) > MAX_BYTES // 4:  # bytes of a character
        return parse_partly(source)
    moved_by, statements = len(new) - len(old), before.statements
    first = _common_length(old, new, min(len(old), len(new)))
    last = _common_length(old, new, min(len(old), len(new)) - first, at_end=True)
    line = old.find("\n", len(old) - last) + 1 or len(old)
    kept = max(0, sum(node.span.end < first for node in statements) - 1)
    rest = next((n for n, node in enumerate(statements) if n >= kept and node.span.start >= line), len(statements))
    start = statements[kept].span.start if kept else 0
    end = statements[rest].span.start + moved_by if rest < len(statements) else len(new)
    above = [_move(node, source, 0) for node in statements[:kept]]
    table, builder = load_table(), Builder(source)
    automaton = Automaton(table, builder)
    try:
        try:
            for token in table.scanner.scan(new, start, end):
                automaton.feed(token)
        except Unexpected:
            recovery = Recovery(source, table, [*table.scanner.scan(new, start)], 0)
            problems = recovery.read()
            return File(source, (*above, *recovery.rest().statements)), problems
    except SourceError:  # beyond a limit
        return parse_partly(source)
    middle = cast("File", automaton.values[0]).statements
    below = [_move(node, source, moved_by) for node in statements[rest:]]
    return File(source, (*above, *middle, *below)), builder.errors


def _common_length(old: str, new: str, most: int, *, at_end: bool = False) -> int:
    """The number of characters, at most `most`, that are common to the starts or the ends of two texts."""
    low = 0
    while low < most:
        size = (low + most + 1) // 2
        if (old[-size:] == new[-size:]) if at_end else (old[:size] == new[:size]):
            low = size
        else:
            most = size - 1
    return low


def _move(node: _Node, source: SourceFile, by: int) -> _Node:
    """The same node in another text, some characters further on."""
    copy = object.__new__(type(node))
    fields: dict[str, Any] = copy.__dict__
    for name, value in node.__dict__.items():
        if isinstance(value, Node):
            fields[name] = _move(value, source, by)
        elif isinstance(value, tuple):
            items = cast("tuple[Any, ...]", value)
            fields[name] = tuple(_move(item, source, by) if isinstance(item, Node) else item for item in items)
        else:
            fields[name] = Span(source, value.start + by, value.end + by) if isinstance(value, Span) else value
    return copy
