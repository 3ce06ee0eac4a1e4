"""Finds many successive lines `let a = 5MiB` and `param b: int = 7`, which become a ValueTable.

A line is plain where neither the type of its value nor whether it is right depends on the digits and the characters of
strings in it: literals, lists of them, negative numbers, sums, and products that give whole numbers of bytes. A name
may stand alone or in a list. Of lines of one form, which differ only in digits, strings and the name that they declare,
one is parsed and checked for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, cast

from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.source.parsing.automaton import Automaton, Unexpected
from collc.source.parsing.build import Builder
from collc.source.parsing.build_expressions import RESERVED
from collc.source.parsing.syntax import File, Let, Param, ValueTable
from collc.source.parsing.table import Table

MIN_LINES: Final = 64
"""Lines of the smallest table."""

LINES_A_FORM: Final = 16
"""The fewest lines of a table for each form of a line."""

MAX_LIST: Final = 63
"""Items of the longest list in a line of a table; longer ones of whole numbers are tables themselves (tables.py)."""


# Units are part of the form of a line, so a wrong one is found in its example. White space is read with possessive
# quantifiers, so that a long run of it is never divided in several ways.
_S: Final = r"[ \t\r]*+"
_NAME: Final = rf"(?!(?:{'|'.join(sorted(RESERVED))})\b)[A-Za-z_][A-Za-z0-9_]*+"
_DELIMITED: Final = r"(?![0-9A-Za-z_./])"
_INT: Final = rf"[0-9]{{1,18}}+{_DELIMITED}"
_QUANTITY: Final = (
    rf"[0-9]{{1,18}}+(?:[A-Za-z]{{0,2}}B|(?:\.[0-9]{{1,9}}+)?(?:[A-Za-z]{{0,2}}[Bb]/s|[a-z]?s))?{_DELIMITED}"
)
"""A number: a whole one for sizes, since `0.3KiB` is no whole number of bytes."""

_PRODUCT: Final = rf"(?:{_INT}{_S}\*{_S}){{0,3}}{_QUANTITY}(?:{_S}\*{_S}{_INT}){{0,3}}"
_SUM: Final = rf"{_PRODUCT}(?:{_S}[+-]{_S}{_PRODUCT}){{0,3}}"
_EXPONENT: Final = r"[eE][+-]?[12]?[0-9]"
_DECIMAL: Final = rf"[0-9]{{1,18}}+(?:\.[0-9]{{1,9}}+(?:{_EXPONENT})?|{_EXPONENT}){_DELIMITED}"
_STRING: Final = r'"[^"\\\n]{0,1000}+"'
_ITEM: Final = rf"(?:-?(?:{_SUM}|{_DECIMAL})|{_STRING}|(?:true|false)\b|{_NAME})"
_LIST: Final = rf"\[{_S}(?:{_ITEM}(?:{_S},{_S}{_ITEM}){{0,{MAX_LIST - 1}}}{_S}(?:,{_S})?)?\]"
_END: Final = rf"{_S}(?:#[^\n]*+)?\n"
_HEAD: Final = rf"{_S}(?:let[ \t]++{_NAME}|param[ \t]++{_NAME}(?:{_S}:{_S}{_NAME})?){_S}={_S}"
_LINE: Final = rf"(?>{_HEAD}(?:{_ITEM}|{_LIST}){_END})"
_RUN: Final = re.compile(rf"^{_LINE}(?:{_LINE}|{_END})*+", re.MULTILINE | re.ASCII)

_COLUMNS: Final = re.compile(r'[ \t\r]*+(?:(let|param)[ \t]++(\w++)((?:[^"#\n]++|"[^"\n]*+")*+))?[^\n]*+\n', re.ASCII)
"""In each line of a run: the keyword, the name, and the rest but for a comment; nothing where it declares nothing."""

_TEXTS: Final = re.compile(r'"[^"\n]*+"')
_SPACE: Final = re.compile(r"[ \t\r]{2,}+|[\t\r]")
_DIGITS: Final = re.compile(r"(?<![A-Za-z0-9_])[0-9]++")
_ALIAS: Final = re.compile(rf"let ?= ?({_NAME}) ?")


class ValueReader:
    """Finds the tables of values in a file."""

    def __init__(self, source: SourceFile, table: Table) -> None:
        self._source = source
        self._scanner = table.scanner
        self._builder = Builder(source)
        self._automaton = Automaton(table, self._builder)

    def tables(self) -> Iterator[ValueTable]:
        """The tables of a file, in blocks too; they stand for statements at the top of a file only.

        The last line of a run is none of its table: what follows may belong to it, as an operator in the next line.
        """
        text = self._source.text
        if text.count("let ") + text.count("param ") < MIN_LINES:
            return
        for match in _RUN.finditer(text):
            table = self._table(*match.span())
            if table is not None:
                yield table

    def _table(self, start: int, end: int) -> ValueTable | None:
        text = self._source.text
        keywords, names, forms = _columns(text, start, end)
        starts = list(accumulate((len(line) + 1 for line in text[start:end].split("\n")), initial=start))
        places = dict(zip(names, starts, strict=False))
        places.pop("", None)
        if len(places) < max(MIN_LINES, len(keywords) - keywords.count("")):
            return None  # too few, or a name is declared twice
        first = dict(zip(reversed(forms), reversed(names), strict=True))
        first.pop("", None)
        targets = {form: found[1] for form in first if (found := _ALIAS.fullmatch(form))}
        aliases = {name: targets[form] for name, form in zip(names, forms, strict=True) if form in targets}
        examples = tuple(name for form, name in first.items() if form not in targets)
        if LINES_A_FORM * len(examples) > len(places):
            return None
        params = tuple(name for keyword, name in zip(keywords, names, strict=True) if keyword == "param")
        span = Span(self._source, text.index(keywords[0], start), starts[len(names)])
        table = ValueTable(span, places, params, examples, aliases, self._parsed)
        return table if self._right(table) else None

    def _right(self, table: ValueTable) -> bool:
        """Whether the line of each form has the meaning that the patterns give it."""
        try:
            found = [table.declaration(name).name.name == name for name in table.examples]
        except (Unexpected, SourceError):
            return False
        return all(found) and not self._builder.errors

    def _parsed(self, start: int) -> Let | Param:
        """The declaration in the line that begins at a position."""
        text = self._source.text
        self._automaton.cut(0)
        for token in self._scanner.scan(text, start, text.index("\n", start)):
            self._automaton.feed(token)
        return cast("Let | Param", cast("File", self._automaton.values[0]).statements[0])


def _columns(text: str, start: int, end: int) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """The keyword, the name and the form of each line but the last one of a run, "" where a line declares nothing."""
    rows: list[tuple[str, str, str]] = _COLUMNS.findall(text, start, end)
    while not rows[-1][0]:
        rows.pop()
    rows.pop()
    if not rows:
        return (), (), ()
    keywords, names, values = zip(*rows, strict=True)
    shapes = "\n".join(values)
    del rows, values  # they take a third of the memory
    shapes = _DIGITS.sub("0", _SPACE.sub(" ", _TEXTS.sub('""', shapes)))
    return keywords, names, list(map(str.__add__, keywords, shapes.split("\n")))
