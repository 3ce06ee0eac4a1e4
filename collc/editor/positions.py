"""Positions as the protocol counts them: lines from 0, and UTF-16 code units from the start of a line."""

from __future__ import annotations

from bisect import bisect_right

from collc.base.diagnostics import line_starts


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def position_of(text: str, offset: int) -> tuple[int, int]:
    """The line and the code unit of an offset into a text."""
    starts = line_starts(text)
    line = bisect_right(starts, offset) - 1
    return line, _units(text[starts[line] : offset])


def offset_of(text: str, line: int, unit: int) -> int:
    """The offset of a code unit of a line; of one behind the end of its line or text, that end."""
    starts = line_starts(text)
    if line >= len(starts):
        return len(text)
    start = starts[line]
    end = starts[line + 1] - 1 if line + 1 < len(starts) else len(text)
    row = text[start:end]
    if row.isascii():
        return start + min(unit, len(row))
    return start + len(row.encode("utf-16-le", "surrogatepass")[: 2 * unit].decode("utf-16-le", "surrogatepass"))
