"""Text to syntax tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from collc.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.source.build import Builder
from collc.source.syntax import File
from collc.source.table import KEEP, NONE, SPLICE, Rule, Table, load_table
from collc.source.tokens import END, NAME, Token

MAX_BYTES = 16 * 2**20
"""Size of the largest source file that is read."""


class Unexpected(Exception):
    """A token that cannot stand where it stands. The stacks are as they were when it came."""


class Parser:
    """An LALR(1) automaton on its way through a file.

    A word is a keyword where the table has it in this state, and a name elsewhere: that is what Lark's contextual
    lexer does, too.
    """

    def __init__(self, table: Table, builder: Builder) -> None:
        self.states: list[int] = [0]
        self.values: list[Any] = []
        self.table = table
        self._builder = builder
        self._methods: list[Callable[..., Any] | None] = [
            None if rule.method in (KEEP, SPLICE) else getattr(builder, rule.method) for rule in table.rules
        ]

    def action(self, token: Token) -> int | None:
        """What the table says to this token in this state; None: it cannot stand here."""
        row = self.table.actions[self.states[-1]]
        action = row.get(token.text) if token.kind == NAME else None
        return row.get(token.kind) if action is None else action

    def feed(self, token: Token) -> None:
        """Take the next token; with END, the file is the one value left.

        Raises Unexpected.
        """
        states, values = self.states, self.values
        rows, goto, rules = self.table.actions, self.table.goto, self.table.rules
        word, kind = token.text, token.kind
        while True:
            row = rows[states[-1]]
            action = row.get(word) if kind == NAME else None
            if action is None:
                action = row.get(kind)
                if action is None:
                    raise Unexpected
            if action >= 0:
                states.append(action)
                values.append(token)
                return
            rule = rules[-1 - action]
            if rule.method == KEEP:
                states[-1] = goto[states[-2]][rule.origin]
                continue
            self._reduce(-1 - action, rule)
            if kind == END and rule.origin == "file":
                return

    def _reduce(self, number: int, rule: Rule) -> None:
        states, values = self.states, self.values
        split = len(values) - rule.size
        children = values[split:]
        del values[split:], states[split + 1 :]
        if rule.splices:
            arguments: list[Any] = []
            for child in rule.plan:
                if child in rule.splices:
                    arguments.extend(children[child])
                else:
                    arguments.append(None if child == NONE else children[child])
        else:
            arguments = [None if child == NONE else children[child] for child in rule.plan]
        method = self._methods[number]
        values.append(arguments if method is None else method(*arguments))
        states.append(self.table.goto[states[-1]][rule.origin])


def _too_large(text: str) -> bool:
    return len(text) > MAX_BYTES or (not text.isascii() and len(text.encode("utf-8", "replace")) > MAX_BYTES)


def parse(source: SourceFile) -> File:
    """The syntax tree of a file. Raises SourceError with every mistake found in it."""
    if _too_large(source.text):
        hint = "split it into files and `import` them"
        raise SourceError(Diagnostic("E0801", "this file is larger than 16 MiB", Span(source, 0, 0), hint=hint))
    table = load_table()
    builder = Builder(source)
    parser = Parser(table, builder)
    try:
        for token in table.scanner.scan(source.text):
            parser.feed(token)
    except Unexpected:
        raise SourceError(Diagnostic("E0101", "syntax error", Span(source, token.start, token.end))) from None
    if builder.errors:
        raise SourceError(*builder.errors)
    return cast("File", parser.values[0])
