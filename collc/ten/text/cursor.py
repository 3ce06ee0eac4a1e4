"""The tokens of the text form: a cursor that reads them one at a time and reports errors with their positions.

Schedules that exceed the limits of the text form are written in the binary form (`collc.ten.binary`).
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable
from fractions import Fraction
from typing import Final, NoReturn

import numpy as np

from collc.base.diagnostics import Diagnostic, Note, SourceError, SourceFile, Span
from collc.base.units import UNITS, Dimension
from collc.ten.arrays import Int32Array
from collc.ten.schedule import Schedule, StepSchedule
from collc.ten.text.names import KEYWORDS, quote, word

MOST_CHUNKS: Final = 10_000_000
MOST_MEMBERS: Final = 100_000_000
"""Members of all holder sets of a run together, and of the groups of all runs."""
MOST_INDICES: Final = 64
"""Indices of a chunk family."""
MOST_PHASES: Final = 8
"""The greatest depth to which phases may be nested."""
ANY_DEVICES: Final = 100_000
"""Devices and steps that any file may have, however short."""
MOST_TRANSFERS: Final = 200_000_000
MOST_CELLS: Final = 1 << 28
"""Steps x links of a step-by-link table."""


def too_large_for_text(schedule: Schedule) -> str:
    """Why the text of a schedule would exceed the limits of the reader; "" if it does not."""
    if isinstance(schedule, StepSchedule) and schedule.chunk.size > MOST_CELLS:
        steps, links = schedule.chunk.shape
        return f"a schedule of {steps} steps on {links} links is too large for the text form"
    if len(schedule) > MOST_TRANSFERS:
        return f"a schedule of {len(schedule)} transfers is too large for the text form"
    return ""


LARGEST: Final = 2**63 - 1
"""The largest number, size or time: all of them fit in a signed 64-bit integer."""

_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*+(?:\#[^\n]*+[ \t\r\n]*+)*+
    (?: (?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+")
      | (?P<quantity>-?[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?[A-Za-z]+(?:/s)?)
      | (?P<int>-?[0-9]+)
      | (?P<number>%-?[0-9]+)
      | (?P<set>@[0-9]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<punctuation>->|\.\.|[\[\]{},:=])
      | (?P<end>\Z) )""",
    re.VERBOSE,
)
_QUANTITY: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(?:/([0-9]+))?([A-Za-z]+(?:/s)?)")
_KINDS: Final = {
    "string": "a quoted string",
    "quantity": "a quantity with a unit",
    "int": "a whole number",
    "number": "a number like %3",
    "set": "a set like @0",
    "name": "a name",
    "end": "the end of the file",
}


class Cursor:
    """The position of a reader in a file, with the next token.

    kind: of the next token: "string", "quantity", "int", "number", "set", "name", "keyword", "punctuation" or "end".
    text: its characters. start, end: their offsets in the file. before: the offset at which the previous token ends.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self._move(0)

    def _move(self, position: int) -> None:
        token = _TOKEN.match(self.file.text, position)
        self.before = position
        if token is None:
            self._fail_unreadable(position)
        kind = token.lastgroup or "end"
        self.text = token.group(kind)
        self.start = token.start(kind)
        self.end = token.end()
        self.kind = "keyword" if kind == "name" and self.text in KEYWORDS else kind

    def _fail_unreadable(self, position: int) -> NoReturn:
        """Raise T0101: the characters after `position` are no token."""
        text = self.file.text
        blank = re.compile(r"[ \t\r\n]*+(?:#[^\n]*+[ \t\r\n]*+)*+").match(text, position)
        start = blank.end() if blank else position
        if text[start] == '"':
            message = "this quoted string does not end on its line, or has an escape that JSON does not have"
        else:
            message = f"{text[start]!r} cannot occur in a .ten file"
        raise SourceError(Diagnostic("T0101", message, Span(self.file, start, start + 1)))

    @property
    def span(self) -> Span:
        """The span of the next token."""
        return Span(self.file, self.start, self.end)

    def read_printed_lines(self, pattern: re.Pattern[str], add: Callable[[re.Match[str]], bool]) -> None:
        """Read lines by one regular expression, up to the first one that differs from it or that `add` refuses.

        pattern: of a line as `format_module` writes it, from the end of the line before on.
        """
        position = self.before
        while (line := pattern.match(self.file.text, position)) and add(line):
            position = line.end()
        if position != self.before:
            self._move(position)

    def fail(self, code: str, message: str, span: Span | None = None, hint: str = "", note: str = "") -> NoReturn:
        """Raise a SourceError that points at `span`, or at the next token."""
        notes = (Note(note),) if note else ()
        raise SourceError(Diagnostic(code, message, span or self.span, notes, hint))

    def fail_expecting(self, what: str) -> NoReturn:
        """Raise T0102, which names the token found and what was expected in its place."""
        actual = _KINDS["end"] if self.kind == "end" else f"'{self.text[:40]}'"
        hint = ""
        if self.kind == "keyword" and "name" in what.split():
            hint = f"'{self.text}' is a word of the format; as a name it is written {quote(self.text)}"
        self.fail("T0102", f"expected {what}, found {actual}", hint=hint)

    def at(self, text: str) -> bool:
        """Whether the next token is this keyword or punctuation."""
        return self.text == text and self.kind in {"keyword", "punctuation"}

    def accept(self, text: str) -> bool:
        """Consume the next token if it is this keyword or punctuation; return whether it was."""
        if self.at(text):
            self._move(self.end)
            return True
        return False

    def accept_word(self, text: str) -> bool:
        """Consume the next token if it is this name, which has a meaning only here; return whether it was."""
        if self.kind == "name" and self.text == text:
            self._move(self.end)
            return True
        return False

    def expect(self, *texts: str) -> str:
        """Consume the next token, which must be one of these keywords or punctuation marks, and return its text."""
        accepted = next((text for text in texts if self.accept(text)), None)
        if accepted is None:
            self.fail_expecting(" or ".join(f"'{text}'" for text in texts))
        return accepted

    def take(self, kind: str) -> str:
        """Consume the next token, which must be of this kind, and return its text."""
        if self.kind != kind:
            self.fail_expecting(_KINDS[kind])
        text = self.text
        self._move(self.end)
        return text

    def string(self) -> str:
        """Read a quoted string and return its value."""
        return str(json.loads(self.take("string")))

    def word(self) -> str:
        """Read a name, quoted or not, and return its value."""
        span = self.span
        name = self.string() if self.kind == "string" else self.take("name")
        if len(name) > 1000:  # every device, link and chunk has a label that repeats it
            self.fail("T0108", "a name has more than 1,000 characters", span)
        return name

    def label(self) -> str:
        """Read a name and return it as it occurs in labels: quoted if it must be."""
        return word(self.word())

    def integer(self, low: int, high: int, what: str) -> int:
        """Read an integer in low..high, both included. what: its name in messages."""
        if self.kind != "int":
            self.fail_expecting(_KINDS["int"])
        value = self._value_within(self.text, low, high, what)
        self._move(self.end)
        return value

    def _value_within(self, digits: str, low: int, high: int, what: str) -> int:
        """The value of some digits. Raises T0104 unless it is in low..high, both included."""
        value = int(digits) if len(digits) <= 20 else None
        if value is None or not low <= value <= high:
            limits = f"from {low} to {high}" if low <= high else "nothing: there are none"
            self.fail("T0104", f"{what} {digits[:24]} is out of range", hint=f"possible here: {limits}")
        return value

    def reference(self, low: int, high: int, what: str) -> int:
        """Read `@17` (a set) or `%17` (anything else): a number in low..high, both included."""
        kind = "set" if what == "set" else "number"
        if self.kind != kind:
            self.fail_expecting(_KINDS[kind])
        value = self._value_within(self.text[1:], low, high, what)
        self._move(self.end)
        return value

    def quantity(self, dimension: Dimension) -> Fraction:
        """Read a value with a unit and return it in bytes, picoseconds, or bytes per second."""
        if self.kind != "quantity":
            self.fail_expecting(_KINDS["quantity"])
        parts = _QUANTITY.fullmatch(self.text)
        assert parts is not None
        unit = UNITS.get(parts[3])
        if unit is None:
            self.fail("T0105", f"'{parts[3]}' is not a unit")
        if unit[0] is not dimension:
            self.fail("T0105", f"expected a quantity of {dimension}, found {unit[0]}")
        if len(self.text) > 80 or (parts[2] and not int(parts[2])):
            self.fail("T0105", f"'{self.text[:40]}' is not a number")
        value = Fraction(parts[1]) / int(parts[2] or 1) * unit[1]
        self._move(self.end)
        return value

    def whole_number(self, dimension: Dimension, low: int, what: str) -> int:
        """Read a size in bytes or a time in picoseconds: an integer in low..LARGEST."""
        span = self.span
        value = self.quantity(dimension)
        unit = "picoseconds" if dimension is Dimension.TIME else "bytes"
        if value.denominator != 1:
            self.fail("T0105", f"{what} must be a whole number of {unit}", span)
        if not low <= value <= LARGEST:
            self.fail("T0104", f"{what} of {self.file.text[span.start : span.end]} is out of range", span)
        return int(value)

    def items(self, close: str, low: int, high: int, what: str, limit: int) -> Int32Array:
        """Read `0..4, 7` and the closing bracket: int32, at most `limit` numbers in low..high, both included."""
        parts: list[Int32Array] = []
        numbers, count = array("i"), 0
        while not self.accept(close):
            span = self.span
            first = self.integer(low, high, what)
            stop = self.integer(first + 1, high + 1, f"end of a range of {what}s") if self.accept("..") else first + 1
            count += stop - first
            if count > limit:
                self.fail("T0108", f"more than {limit} members", span)
            if stop - first > 1:
                parts += [np.array(numbers, np.int32), np.arange(first, stop, dtype=np.int32)]
                numbers = array("i")
            else:
                numbers.append(first)
            if not self.at(close):
                self.expect(",")
                if self.at(close):
                    self.fail_expecting(_KINDS["int"])
        return np.concatenate([*parts, np.array(numbers, np.int32)])

    def shape(self, what: str) -> tuple[int, ...]:
        """Read `[2, 8]`; return () if there are no brackets."""
        if not self.accept("["):
            return ()
        sizes = [self.integer(0, 2**31 - 1, what)]
        while not self.accept("]"):
            self.expect(",")
            sizes.append(self.integer(0, 2**31 - 1, what))
        return tuple(sizes)
