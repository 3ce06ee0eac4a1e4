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
_NAME: Final = re.compile(rb"[A-Za-z_][\w.-]*")


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
                    self._more()
                elif self.data.startswith(b"<!--", self.at):
                    self._skip_comment()
                else:
                    self._explain()
                continue
            if match.end() - self.at > TAG_LIMIT:
                self._fail("X0102", "tag of more than 64 KiB", 0)
            yield self._tag(match)
            self.at = match.end()

    def _more(self) -> bool:
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
                self._pass(gap.end())
            if self.at < len(self.data):
                return True
            if self.ended or not self._more():
                return False

    def _pass(self, to: int) -> None:
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
            self._pass(max(self.at, len(self.data) - 2))
            if not self._more():
                location = FileLocation(start_line, start_column)
                raise ScanError(Finding("contract", "X0102", "comment that never ends", location, expected="-->"))
        self._pass(end + 3)

    def _explain(self) -> None:
        """Raise ScanError for the text at the position, which is no tag."""
        rest = self.data[self.at : self.at + TAG_LIMIT]
        if rest.startswith(b"\xef\xbb\xbf"):
            self._fail("X0101", "the file begins with a byte order mark", 0, lenient=True, hint="save it without one")
        if rest.startswith(b"\t"):
            self._fail("X0102", "tab between elements", 0, lenient=True, hint="use blanks")
        if not rest.startswith(b"<"):
            text = rest[:20].split(b"\n")[0].split(b"<")[0].decode("utf-8", "replace")
            self._fail("X0102", f"text between elements: {text!r}", 0, expected="'<'", lenient=True)
        if rest.startswith(b"<?"):
            what = "XML declaration" if rest.startswith(b"<?xml") else "processing instruction"
            self._fail("X0101", what, 0, lenient=True, hint="remove it; the file begins with <algo")
        if rest.startswith(b"<![CDATA["):
            self._fail("X0102", "CDATA section", 0, lenient=True)
        if rest.startswith(b"<!"):
            what = "document type or entity declaration: always refused"
            self._fail("X0101", what, 0, lenient=True, hint="remove it; the file begins with <algo")
        self._explain_tag(rest)

    def _explain_tag(self, rest: bytes) -> None:
        closing = rest.startswith(b"</")
        name = _NAME.match(rest, 2 if closing else 1)
        if name is None:
            self._fail("X0102", "'<' without the name of an element after it", 0)
            return
        at = name.end()
        if rest[at : at + 1] == b":":
            self._fail("X0102", "namespace prefix", at, lenient=True)
        if closing:
            self._fail("X0102", f"closing tag </{name[0].decode()} with something before its '>'", at, lenient=True)
        while (attribute := _ATTRIBUTE.match(rest, at)) is not None:
            at = attribute.end()
        self._explain_attribute(rest, at)

    def _explain_attribute(self, rest: bytes, at: int) -> None:
        ahead = rest[at:]
        if not ahead:
            self._fail("X0102", "the file ends inside a tag" if self.ended else "tag of more than 64 KiB", at)
        if re.match(rb"[ \t]*[\n\r]", ahead):
            one = "all attributes of an element stand on one line"
            self._fail("X0103", "line end inside a tag", at, expected=one, lenient=True)
        if re.match(rb" *\t", ahead):
            self._fail("X0103", "tab inside a tag", at, expected="one blank", lenient=True)
        if ahead.startswith(b"  "):
            self._fail("X0103", "more than one blank between attributes", at, expected="one blank", lenient=True)
        match = re.match(rb" ?([\w.:-]+)( *=)? *([\"']?)", ahead)
        key = match[1].decode() if match else ""
        if match is None:
            self._fail("X0102", f"unexpected {ahead[:1].decode('utf-8', 'replace')!r} inside a tag", at)
        elif not ahead.startswith(b" "):
            self._fail("X0103", f"no blank before attribute {key}", at, expected="one blank")
        elif ":" in key:
            self._fail("X0103", f"namespace in attribute {key}", at + 1, lenient=True)
        elif match[2] is None:
            self._fail("X0103", f"attribute {key} without a value", at + 1)
        elif match[3] == b"'":
            self._fail("X0103", f"value of {key} in single quotes", at + 1, expected="double quotes", lenient=True)
        elif match[3] == b"":
            self._fail("X0103", f"value of {key} without quotes", at + 1, expected="double quotes")
        elif match[0].decode() != f' {key}="':
            self._fail("X0103", f"blank beside '=' of {key}", at + 1, expected=f'{key}="..."', lenient=True)
        self._explain_value(ahead, at, key)

    def _explain_value(self, ahead: bytes, at: int, key: str) -> None:
        value = ahead[len(key) + 3 :].split(b'"')[0]
        if b"&" in value:
            text = f"entity in the value of {key}: the runtimes don't expand any, and collc refuses them"
            self._fail("X0103", text, at + 1, lenient=True)
        for mark, what in ((b"\t", "tab"), (b"\n", "line end"), (b"\r", "line end"), (b"<", "'<'")):
            if mark in value:
                self._fail("X0103", f"{what} in the value of {key}", at + 1, lenient=mark != b"<")
        self._fail("X0103", f"value of {key} that never ends", at + 1, expected='"')

    def _fail(
        self, code: str, message: str, ahead: int, *, expected: str = "", lenient: bool = False, hint: str = ""
    ) -> None:
        location = FileLocation(self.line, self.at - self.line_start + 1 + ahead)
        text = f"{message}: {_LENIENT}" if lenient else message
        raise ScanError(Finding("contract", code, text, location, expected, hint))
