"""Large parts of a file that are tables: many links or devices, one a line, and long lists of whole numbers.

Programs that write `.coll` files write them so. Each form of a line is parsed once, and the numbers and names in which
the other lines differ from it are read as columns: about ten times as fast as a syntax tree of every line. If
anything is not as expected, there is no table, and if anything in a table is wrong, the file is parsed again without
tables (elaboration/elaborate.py), so that messages are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.source.parsing import syntax as s
from collc.source.parsing.build import Builder, TableNode
from collc.source.parsing.expressions import Name, NumberList
from collc.source.parsing.table import Automaton, Table, Unexpected
from collc.source.parsing.tokens import END, INT, NAME, Token

if TYPE_CHECKING:
    from collc.ten.arrays import Int64Array

MIN_LENGTH: Final = 64
"""Lines of the smallest table for each form of a line, and numbers of the shortest list that is read as a column: no
index and no shape has as many.
"""

_LINES: Final = re.compile(
    r"(?:^[ \t]*link[ \t][^\n#\"{}]*\n)+|(?:^[ \t]*(?:npu|switch)[ \t][^\n#\"{}]*\n)+", re.MULTILINE
)
_NUMBERS: Final = re.compile(
    r"\[[ \t\n]*+([0-9]{1,18}(?:[ \t\n]*+,[ \t\n]*+[0-9]{1,18})+)[ \t\n]*+,?[ \t\n]*+\]"  # possessive: linear time
)
_VARIABLE: Final = re.compile(r"(?<![\w.])([A-Za-z_]+[0-9]\w*|[0-9]{1,18}(?![\w.]))", re.ASCII)
"""What can differ between lines of one form: a name with a digit in it, or a whole number."""


class _Place(NamedTuple):
    """Where the text of a table begins and ends, the tokens that stand for it, and the table."""

    start: int
    end: int
    tokens: list[Token]
    table: TableNode


class TableReader:
    """Finds the tables of a file.

    places: all of them, in order. read: those that `scan` has come to, by the positions at which they begin.
    """

    def __init__(self, source: SourceFile, table: Table) -> None:
        self._source = source
        self._table = table
        self.read: dict[int, TableNode] = {}
        self.places = sorted([*self._line_tables(), *self._number_lists()], key=lambda place: place.start)

    def scan(self) -> Iterator[Token]:
        """The tokens of the file; of each table those of its first and last line, of each list those of one number.

        The last line of a table is none of it: what follows may belong to it, as attributes in a line of their own.
        """
        text, scanner = self._source.text, self._table.scanner
        position = 0
        for start, end, kept, table in self.places:
            if start < position:
                continue  # inside of another one
            for token in scanner.scan(text, position, start):
                if token.kind != END:
                    yield token
            self.read[kept[0].start] = table
            yield from kept
            position = end
        yield from scanner.scan(text, position)

    def _line_tables(self) -> Iterator[_Place]:
        """The tables of links and devices, each with the tokens of its first line."""
        text = self._source.text
        if sum(map(text.count, ("link", "npu", "switch"))) < MIN_LENGTH:
            return
        for match in _LINES.finditer(text):
            end = text.rfind("\n", match.start(), match.end() - 1) + 1
            table = self._line_table(match.start(), end) if end > match.start() else None
            if table is not None:
                yield _Place(match.start(), end, self._first_line(match.start()), table)

    def _first_line(self, start: int) -> list[Token]:
        return self._tokens(start, self._source.text.index("\n", start))

    def _line_table(self, start: int, end: int) -> s.LinkTable | s.DeviceTable | None:
        text = self._source.text[start:end]
        parts = _VARIABLE.split(text)
        words = parts[1::2]
        lines = "\0".join(parts[::2]).rstrip("\n").split("\n")
        if len(lines) < MIN_LENGTH * len(set(lines)) or "\0" in text:
            return None
        if lines.count(lines[0]) == len(lines) and not lines[0].lstrip().startswith("link"):
            return self._device_table(start, end, words)
        alike: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            alike.setdefault(line, []).append(number)
        places = _offsets([line.count("\0") for line in lines])
        starts = _offsets([len(line) + 1 for line in text.rstrip("\n").split("\n")])
        forms: list[s.LinkForm] = []
        for shape, members in alike.items():
            columns = [[words[places[m] + k] for m in members] for k in range(shape.count("\0"))]
            position = start + starts[members[0]]
            form = self._form(position, start + starts[members[0] + 1], members, columns)
            if form is None:
                return None
            forms.append(form)
        first = forms[0].link.span.start
        return s.LinkTable(Span(self._source, first, start + len(text.rstrip())), tuple(forms), len(lines))

    def _form(self, start: int, end: int, members: list[int], columns: list[list[str]]) -> s.LinkForm | None:
        """The form of some lines, the first of which is between two positions; None if these are no table.

        columns: what stands in each place that can differ. Its token in the first line is read as the name of a column.
        """
        import numpy as np

        starts = [m.start() for m in _VARIABLE.finditer(self._source.text, start, end)]
        varying = {begin: words for begin, words in zip(starts, columns, strict=True) if len(set(words)) > 1}
        names = {begin: f"{s.COLUMN}{k}" for k, begin in enumerate(varying)}
        link = self._parse_statement(start, end, names)
        if not isinstance(link, s.LinkDeclaration):
            return None
        ends = {part.span.start for part in (link.source, link.target) if isinstance(part, Name)}
        numbers: dict[str, Int64Array] = {}
        devices: dict[str, list[str]] = {}
        for begin, words in varying.items():
            if begin >= link.target.span.end or {*map(str.isdigit, words)} != {begin not in ends}:
                return None
            if begin in ends:
                devices[names[begin]] = words
            else:
                numbers[names[begin]] = np.array([*map(int, words)], np.int64)
        return s.LinkForm(link, np.array(members, np.int64), numbers, devices)

    def _device_table(self, start: int, end: int, words: list[str]) -> s.DeviceTable | None:
        """A table of lines of one form; words: what can differ in them, line by line."""
        text = self._source.text
        device = self._parse_statement(start, text.index("\n", start), {})
        lines = text.count("\n", start, end)
        width = len(words) // lines
        columns = [words[k::width] for k in range(width)]
        if not isinstance(device, s.DeviceDeclaration) or not columns or device.name.name != columns[0][0]:
            return None
        if len(set(columns[0])) < lines or any(len(set(column)) > 1 for column in columns[1:]):
            return None
        span = Span(self._source, device.span.start, start + len(text[start:end].rstrip()))
        return s.DeviceTable(span, device, columns[0])

    def _parse_statement(self, start: int, end: int, names: Mapping[int, str]) -> s.Statement | None:
        """The statement of a topology between two positions; None if there is something else, or more.

        names: in place of the tokens that begin at some positions.
        """
        tokens = [
            token._replace(kind=NAME, text=names[token.start]) if token.start in names else token
            for token in self._tokens(start, end)
        ]
        around = [Token(NAME, "topology", start, start), Token(NAME, "_", start, start), Token("{", "{", start, start)]
        builder = Builder(self._source)
        automaton = Automaton(self._table, builder)
        try:
            for token in [*around, *tokens, Token("}", "}", end, end), Token(END, "", end, end)]:
                automaton.feed(token)
        except (Unexpected, SourceError):
            return None
        statements = cast("s.File", automaton.values[0]).statements
        template = statements[0]
        if builder.errors or len(statements) > 1 or not isinstance(template, s.TopologyTemplate):
            return None
        return template.body[0] if len(template.body) == 1 else None

    def _tokens(self, start: int, end: int) -> list[Token]:
        """The tokens between two positions, without END."""
        return list(self._table.scanner.scan(self._source.text, start, end))[:-1]

    def _number_lists(self) -> Iterator[_Place]:
        """The long lists of whole numbers, each with the tokens of a list of one number."""
        import numpy as np

        for match in _NUMBERS.finditer(self._source.text):
            start, end = match.span()
            if match[1].count(",") + 1 >= MIN_LENGTH:
                numbers = NumberList(Span(self._source, start, end), np.fromstring(match[1], np.int64, sep=","))
                number = Token(INT, "0", match.start(1), match.end(1))
                kept = [Token("[", "[", start, start + 1), number, Token("]", "]", end - 1, end)]
                yield _Place(start, end, kept, numbers)


def _offsets(lengths: list[int]) -> list[int]:
    """The sums of the first 0, 1, ... lengths."""
    sums = [0]
    for length in lengths:
        sums.append(sums[-1] + length)
    return sums
