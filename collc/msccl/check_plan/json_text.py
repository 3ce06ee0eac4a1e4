"""The text of a plan: strict JSON as values, fields with their types checked, and the line and column of its parts.

`Fields` raises PlanError if one is wrong or missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from collc.base.wording import phrase
from collc.msccl.check.findings import FileLocation, Finding, Findings

MAX_BYTES: Final = 2**28
"""Bytes of a file: a larger one would take gigabytes of memory."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_START: Final = FileLocation(1, 1)
_WORDS: Final = {
    "Expecting value": "a value is expected",
    "Expecting property name": "a name in double quotes is expected",
    "Expecting ':'": "':' is expected",
    "Expecting ','": "',' or the end of the list or object is expected",
    "Illegal trailing comma": "a value is expected after ','",
    "Extra data": "there is text after the end of the plan",
    "Unterminated string": "this text in quotes does not end on its line",
    "Invalid control character": "a text cannot hold a control character",
    "Invalid \\": "JSON has no such escape",
}
"""Messages of Python's JSON reader, and ours instead of them."""


BUFFERS: Final = ("i", "o", "s")
CHANNEL_TYPES: Final = ("memory", "port")
ALL_CHANNEL_TYPES: Final = (*CHANNEL_TYPES, "switch")

Item = TypeVar("Item")


class PlanError(Exception):
    """The plan can't be understood; `finding` says why."""

    def __init__(self, code: str, message: str, location: FileLocation, expected: str = "") -> None:
        super().__init__(message)
        self.finding: Finding = Finding("contract", code, message, location, expected)


def json_of(path: Path, findings: Findings) -> object:
    """The JSON values of a file, read as strictly as by the runtime.

    Names that an object has twice become findings (X0402).
    Raises PlanError (X0401) if it is no JSON in UTF-8 or too large, OSError if it can't be read.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise PlanError("X0401", f"the file has {size} bytes", _START, f"at most {MAX_BYTES}")
    twice: dict[str, None] = {}

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(members)
        if len(values) < len(members):
            counts = Counter(name for name, _ in members)
            twice.update(dict.fromkeys(name for name in values if counts[name] > 1))
        return values

    def constant(name: str) -> object:
        raise PlanError("X0401", f"not JSON: {name} is not a number", _START)

    try:
        text = path.read_bytes().decode("utf-8-sig")
        value: object = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise PlanError("X0401", f"no JSON: {_in_words(error)}", FileLocation(error.lineno, error.colno)) from error
    except UnicodeDecodeError as error:
        raise PlanError("X0401", f"not JSON: byte {error.start} is not valid UTF-8", _START) from error
    except ValueError as error:
        raise PlanError("X0401", "not a plan: a number has thousands of digits", _START) from error
    except RecursionError as error:
        raise PlanError("X0401", "not a plan: lists and objects are nested hundreds deep", _START) from error
    for name in twice:
        findings.add(
            Finding("contract", "X0402", f"an object has {name[:40]!a} twice: the first is ignored", FileLocation())
        )
    return value


def _in_words(error: json.JSONDecodeError) -> str:
    """Our message for an error of the JSON reader."""
    if error.pos >= len(error.doc.rstrip()):
        return "the file ends inside a list or an object" if error.doc.strip() else "the file is empty"
    words_of_error = next((words for begin, words in _WORDS.items() if error.msg.startswith(begin)), "")
    return words_of_error or "this cannot be here"


def locate(findings: Findings, path: Path) -> None:
    """Add line and column to the findings, from their numbers of gpu, threadblock and operation and their attribute.

    Findings about the whole plan point at its beginning.
    """
    if all(finding.location.line for finding in findings.kept):
        return
    try:
        finder = _Finder(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return
    findings.kept[:] = [
        replace(
            finding,
            location=finder.add_position(finding.location),
            also=tuple((text, finder.add_position(location)) for text, location in finding.also),
        )
        for finding in findings.kept
    ]


class _Finder:
    """Finds gpus, threadblocks and operations in a text that is known to be JSON."""

    def __init__(self, text: str) -> None:
        self._text: str = text
        self._decoder: json.JSONDecoder = json.JSONDecoder()
        self._parts: dict[int, dict[str | int, int]] = {}

    def add_position(self, location: FileLocation) -> FileLocation:
        """The location with line and column of the innermost part of it that exists."""
        if location.line:
            return location
        position = self._skip(0)
        for name, number in (("gpus", location.gpu), ("threadblocks", location.tb), ("ops", location.step)):
            inner = self._position_of(self._position_of(position, name), number) if number >= 0 else -1
            if inner < 0:
                break
            position = inner
        named = self._position_of(position, location.attribute) if location.attribute else -1
        position = max(position, named)
        begin = self._text.rfind("\n", 0, position) + 1
        return replace(location, line=self._text.count("\n", 0, position) + 1, column=position - begin + 1)

    def _position_of(self, position: int, name: str | int) -> int:
        """The position at which a member of an object or list begins; -1 if there is none. position: of the object."""
        if position < 0 or self._text[position : position + 1] not in ("{", "["):
            return -1
        if position not in self._parts:
            self._parts[position] = self._members(position)
        return self._parts[position].get(name, -1)

    def _members(self, position: int) -> dict[str | int, int]:
        members: dict[str | int, int] = {}
        text, named = self._text, self._text[position] == "{"
        position = self._skip(position + 1)
        while text[position] not in "}]":
            name: str | int = len(members)
            if named:
                name, position = self._decoder.raw_decode(text, position)
                position = self._skip(self._skip(position) + 1)
            members[name] = position
            position = self._skip(self._decoder.raw_decode(text, position)[1])
            position = self._skip(position + 1) if text[position] == "," else position
        return members

    def _skip(self, position: int) -> int:
        space = _SPACE.match(self._text, position)
        return space.end() if space else position


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of an object of the plan. All methods raise PlanError (X0402) if a field is missing or wrong."""

    values: dict[str, Any]
    location: FileLocation

    @staticmethod
    def of(value: object, what: str, location: FileLocation) -> Fields:
        """A value that must be an object. what: its name in the message."""
        if not isinstance(value, dict):
            raise PlanError("X0402", f"{what} is not an object", location)
        return Fields(cast("dict[str, Any]", value), location)

    def error(self, text: str, expected: str = "", name: str = "", code: str = "X0402") -> PlanError:
        """The error about a field, or about the whole object."""
        return PlanError(code, text, replace(self.location, attribute=name), expected)

    def items(self, name: str, *, optional: bool = False) -> list[Any]:
        """A list; empty if it is `optional` and missing."""
        value = self.values.get(name, [] if optional else None)
        if not isinstance(value, list):
            raise self.error(f"{name} is missing or not a list", name=name)
        return cast("list[Any]", value)

    def objects(self, name: str, what: str, *, optional: bool = False) -> list[Fields]:
        """A list of objects. what: the name of one in the message."""
        return [Fields.of(value, what, self.location) for value in self.items(name, optional=optional)]

    def number(self, name: str, limit: int = 2**32) -> int:
        """An integer from 0 to below a limit, which is a power of two."""
        value = self.values.get(name)
        if not is_number(value) or not 0 <= (number := cast("int", value)) < limit:
            raise self.error(f"{name} is missing or not a number of {limit.bit_length() - 1} bits", name=name)
        return number

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A boolean. default: if it is missing; None: it must be there."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            missing = "" if default is not None else "missing or "
            raise self.error(f"{name} is {missing}not a boolean", "true or false", name)
        return value

    def text(self, name: str) -> str:
        """A text of printable characters."""
        value = self.values.get(name)
        if not isinstance(value, str) or not value.isprintable():
            raise self.error(f"{name} is missing or not printable text", name=name)
        return value

    def choice(self, name: str, known: Sequence[str]) -> str:
        """One of some texts."""
        value = self.text(name)
        if value not in known:
            raise self.error(f'{name} "{value}"', phrase(known, "or"), name)
        return value


def is_number(value: object) -> bool:
    """Whether a value is an integer; JSON's true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def item_at(items: list[Item], number: object, what: str, location: FileLocation) -> Item:
    """The item that a number of the plan refers to (X0403); what: the name of an item in the message."""
    if not is_number(number) or not 0 <= (position := cast("int", number)) < len(items):
        rule = f"0 .. {len(items) - 1}" if items else "none, as there are none"
        raise PlanError("X0403", f"there is no {what} {str(number)[:20]}", location, rule)
    return items[position]
