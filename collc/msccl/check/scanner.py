"""The scanner of the MSCCL runtimes, as strict as they are: from the bytes of a file to tags.

It is no XML parser: the runtimes read character by character and know neither declarations nor entities
(docs/msccl-contract.md, section 1). Messages say where an XML parser would accept the text. The file is read in blocks
and a tag of more than `TAG_LIMIT` bytes is refused, so that memory is bounded for all files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from collc.msccl.check.findings import FileLocation, Finding

BLOCK: Final = 2**20
TAG_LIMIT: Final = 2**16
TEXT_LIMIT: Final = 254
"""Characters of a name or value: the runtimes copy them into buffers of 255 bytes."""
ATTRIBUTE_LIMIT: Final = 16

_LENIENT: Final = "an XML parser lets this through; the runtime's scanner stops here and ignores the file"

_GAP: Final = re.compile(rb"[ \n\r]*")
_TAG: Final = re.compile(
    rb"<(?:/(?P<closed>[A-Za-z_][\w.-]*)>"
    rb'|(?P<name>[A-Za-z_][\w.-]*)(?P<attributes>(?: [A-Za-z_][\w.-]*="[^"<&\n\r\t]*")*) ?(?P<single>/?)>)'
)
_ATTRIBUTE: Final = re.compile(rb' ([A-Za-z_][\w.-]*)="([^"<&\n\r\t]*)"')
_BEGUN: Final = re.compile(rb'</(?P<closed>[A-Za-z_][\w.-]*)|<[A-Za-z_][\w.-]*(?: [A-Za-z_][\w.-]*="[^"<&\n\r\t]*")*')
"""A tag as far as it is right. No possessive group: Python 3.11.2 goes on behind one that has failed."""

_Mistake = tuple[bytes, str, str, str, bool, str]
_BETWEEN: Final[tuple[_Mistake, ...]] = (
    (rb"\xef\xbb\xbf", "X0101", "the file begins with a byte order mark", "", True, "save it without one"),
    (rb"\t", "X0102", "tab between elements", "", True, "use blanks"),
    (rb"([^<\n]{1,20})", "X0102", "text between elements: {0!r}", "'<'", True, ""),
    (rb"<\?xml", "X0101", "XML declaration", "", True, "remove it; the file begins with <algo"),
    (rb"<\?", "X0101", "processing instruction", "", True, "remove it; the file begins with <algo"),
    (rb"<!\[CDATA\[", "X0102", "CDATA section", "", True, ""),
    (
        *(rb"<!", "X0101", "document type or entity declaration: always refused", "", True),
        "remove it; the file begins with <algo",
    ),
    (rb"", "X0102", "'<' without the name of an element after it", "", False, ""),
)
"""What can be wrong between tags: pattern, code, message, what is expected, whether XML parsers let it through, hint.

Messages may name the groups of the pattern.
"""
_INSIDE: Final[tuple[_Mistake, ...]] = (
    (rb"(?<!\"):", "X0102", "namespace prefix", "", True, ""),
    (rb"[ \t]*[\n\r]", "X0103", "line end inside a tag", "all attributes of an element stand on one line", True, ""),
    (rb" *\t", "X0103", "tab inside a tag", "one blank", True, ""),
    (rb"  ", "X0103", "more than one blank between attributes", "one blank", True, ""),
    (rb"([\w.:-]+)", "X0103", "no blank before attribute {0}", "one blank", False, ""),
    (rb" (?P<at>[\w.-]*:[\w.:-]*)", "X0103", "namespace in attribute {0}", "", True, ""),
    (rb" (?P<at>[\w.-]++)(?! *+=)", "X0103", "attribute {0} without a value", "", False, ""),
    (rb" (?P<at>[\w.-]++) *+= *+'", "X0103", "value of {0} in single quotes", "double quotes", True, ""),
    (rb" (?P<at>[\w.-]++) *+= *+(?!\")", "X0103", "value of {0} without quotes", "double quotes", False, ""),
    (rb" (?P<at>[\w.-]++)(?: +=| *= )", "X0103", "blank beside '=' of {0}", '{0}="..."', True, ""),
    (
        *(rb' (?P<at>[\w.-]++)="[^"&]*&', "X0103"),
        *("entity in the value of {0}: the runtimes don't expand any, and collc refuses them", "", True, ""),
    ),
    (rb' (?P<at>[\w.-]++)="[^"\t]*\t', "X0103", "tab in the value of {0}", "", True, ""),
    (rb' (?P<at>[\w.-]++)="[^"\n\r]*[\n\r]', "X0103", "line end in the value of {0}", "", True, ""),
    (rb' (?P<at>[\w.-]++)="[^"<]*<', "X0103", "'<' in the value of {0}", "", False, ""),
    (rb' (?P<at>[\w.-]++)="', "X0103", "value of {0} that never ends", '"', False, ""),
    (rb"(.)", "X0102", "unexpected {0!r} inside a tag", "", False, ""),
)
"""What can be wrong in a tag after what is right."""


@dataclass(slots=True)
class Tag:
    """An opening, single (`<x/>`) or closing tag; `attributes` in order of the file."""

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    closing: bool = False
    single: bool = False


class ScanError(Exception):
    """The scanner of the runtimes stops here; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding: Finding = finding


def scan(stream: BinaryIO) -> Iterator[Tag]:
    """All tags of a file, in order. Comments are skipped, as the runtimes do.

    Raises ScanError at the first thing that the runtimes' scanner does not read.
    """
    return _Scanner(stream).tags()


class _Scanner:
    """A window of the file.

    at: position in `data`. line, line_start: the current line, and where in `data` it begins.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream: BinaryIO = stream
        self.data: bytes = b""
        self.at: int = 0
        self.line: int = 1
        self.line_start: int = 0
        self.ended: bool = False

    def tags(self) -> Iterator[Tag]:
        while self._skip_gap():
            match = _TAG.match(self.data, self.at)
            if match is None:
                if not self.ended and len(self.data) - self.at < TAG_LIMIT:
                    self._read_block()
                elif self.data.startswith(b"<!--", self.at):
                    self._skip_comment()
                else:
                    self._explain()
                continue
            if match.end() - self.at > TAG_LIMIT:
                self._fail("X0102", "tag of more than 64 KiB", 0)
            yield self._tag(match)
            self.at = match.end()

    def _read_block(self) -> bool:
        """Read the next block, and drop the data before the position."""
        block = self.stream.read(BLOCK)
        self.line_start -= self.at
        self.data = self.data[self.at :] + block
        self.at = 0
        self.ended = not block
        return bool(block)

    def _skip_gap(self) -> bool:
        """Skip spaces and line ends; False at the end of the file."""
        while True:
            gap = _GAP.match(self.data, self.at)
            if gap is not None and gap.end() > self.at:
                self._move_to(gap.end())
            if self.at < len(self.data):
                return True
            if self.ended or not self._read_block():
                return False

    def _move_to(self, to: int) -> None:
        """Move to position `to`, counting lines."""
        count = self.data.count(b"\n", self.at, to)
        if count:
            self.line += count
            self.line_start = self.data.rfind(b"\n", self.at, to) + 1
        self.at = to

    def _tag(self, match: re.Match[bytes]) -> Tag:
        column = self.at - self.line_start + 1
        closed: bytes | None = match["closed"]
        if closed is not None:
            return Tag(closed.decode(), {}, self.line, column, closing=True)
        pairs: list[tuple[bytes, bytes]] = _ATTRIBUTE.findall(match["attributes"])
        attributes = {key.decode(): value.decode("utf-8", "replace") for key, value in pairs}
        if len(attributes) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1).decode()
            self._fail("X0103", f"attribute {twice} appears twice in one element", 0, hint="keep one of them")
        if len(pairs) > ATTRIBUTE_LIMIT:
            extra = f"{len(pairs)} attributes in one element; the runtimes read at most {ATTRIBUTE_LIMIT}"
            self._fail("X0103", extra, 0, lenient=True)
        if len(match[0]) > TEXT_LIMIT and any(max(len(key), len(value)) > TEXT_LIMIT for key, value in pairs):
            long = f"a name or value of more than {TEXT_LIMIT} characters overruns the runtimes' buffer"
            self._fail("X0103", long, 0, lenient=True)
        return Tag(match["name"].decode(), attributes, self.line, column, single=bool(match["single"]))

    def _skip_comment(self) -> None:
        start_line, start_column = self.line, self.at - self.line_start + 1
        head = re.compile(rb"[^ >/\n\r]*").match(self.data, self.at + 4)
        word = head[0] if head else b""
        if b"=" in word:
            self._fail("X0102", "comment whose first word holds '='", 4, lenient=True, hint="begin it with a blank")
        if len(word) > TEXT_LIMIT - 4:
            self._fail("X0102", "comment whose first word is too long", 4, lenient=True)
        self.at += 4
        while (end := self.data.find(b"-->", self.at)) < 0:
            self._move_to(max(self.at, len(self.data) - 2))
            if not self._read_block():
                location = FileLocation(start_line, start_column)
                raise ScanError(Finding("contract", "X0102", "comment that never ends", location, expected="-->"))
        self._move_to(end + 3)

    def _explain(self) -> None:
        """Raise ScanError for the text at the position, which is no tag."""
        rest = self.data[self.at : self.at + TAG_LIMIT]
        begun = _BEGUN.match(rest)
        position = begun.end() if begun else 0
        if begun is not None and begun["closed"] is not None and rest[position : position + 1] != b":":
            text = f"closing tag </{begun['closed'].decode()} with something before its '>'"
            self._fail("X0102", text, position, lenient=True)
        for pattern, code, message, expected, lenient, hint in _INSIDE if begun else _BETWEEN:
            mistake = re.compile(pattern).match(rest, position)
            if mistake is not None:
                groups = [group.decode("utf-8", "replace") for group in mistake.groups() if group is not None]
                ahead = mistake.start("at") if "at" in mistake.groupdict() else position
                words = (text.format(*groups) for text in (message, expected))
                self._fail(code, next(words), ahead, expected=next(words), lenient=lenient, hint=hint)
        self._fail("X0102", "the file ends inside a tag" if self.ended else "tag of more than 64 KiB", len(rest))

    def _fail(
        self, code: str, message: str, ahead: int, *, expected: str = "", lenient: bool = False, hint: str = ""
    ) -> None:
        location = FileLocation(self.line, self.at - self.line_start + 1 + ahead)
        text = f"{message}: {_LENIENT}" if lenient else message
        raise ScanError(Finding("contract", code, text, location, expected, hint))
