"""The layout of one statement: spaces between tokens, and line breaks if it is too long for one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from collc.source.parsing.tokens import NAME, STRING, Token

WIDTH: Final = 100
"""Maximum columns of a line."""

STEP: Final = "    "
"""Indentation of one level."""

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_TIGHT: Final = frozenset({",", ".", "..", ":", ")", "]"})
_DETACHED: Final = frozenset({"npu", "switch", "link", "links", "layer", "workload", "train", "price"})
"""Statements with parentheses that hold attributes and not arguments of a call: a space goes before them."""


@dataclass(slots=True)
class LayoutWord:
    """A token with its role and its comments.

    role: "statement" for a keyword that begins a statement, "word" for another keyword, "unary" for a sign, "block" or
    "parts" for a brace that opens a body or the parts of `with` or `without`, else "". comments: those on lines of
    their own before the token. after: those after it on its line.
    """

    token: Token
    role: str = ""
    comments: list[str] = field(default_factory=list[str])
    after: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Bracket:
    """A bracket pair and its items, which commas separate; each item is a row of words and brackets."""

    opening: LayoutWord
    closing: LayoutWord
    items: list[list[Piece]]


Piece = LayoutWord | Bracket


def pieces(words: list[LayoutWord]) -> list[Piece]:
    """The words with bracket pairs grouped; a comma before a closing bracket is dropped."""
    row: list[Piece] = []
    around: list[tuple[list[Piece], LayoutWord, list[list[Piece]]]] = []
    for word in words:
        kind = word.token.kind
        if kind in _CLOSING:
            around.append((row, word, [[]]))
            row = around[-1][2][0]
        elif around and kind == ",":
            row = []
            around[-1][2].append(row)
            _carry(word, around[-1][2][-2])
        elif around and kind == _CLOSING[around[-1][1].token.kind]:
            outer, opening, items = around.pop()
            outer.append(Bracket(opening, word, [item for item in items if item]))
            row = outer
        else:
            row.append(word)
    return row


def _carry(comma: LayoutWord, item: list[Piece]) -> None:
    """Attach the comments around a comma to the item before it."""
    if item:
        _first(item[0]).comments += comma.comments
        _last(item[-1]).after += comma.after


def _first(piece: Piece) -> LayoutWord:
    return piece if isinstance(piece, LayoutWord) else piece.opening


def _last(piece: Piece) -> LayoutWord:
    return piece if isinstance(piece, LayoutWord) else piece.closing


def _has_comment(bracket: Bracket) -> bool:
    """Whether there is a comment inside a bracket pair."""
    inside = [piece for item in bracket.items for piece in item]
    return bool(bracket.opening.after or bracket.closing.comments) or any(
        _first(piece).comments or _last(piece).after or (isinstance(piece, Bracket) and _has_comment(piece))
        for piece in inside
    )


def _matrix(bracket: Bracket) -> bool:
    """Whether a list is a matrix: at least three lists of equal length without brackets or comments inside."""
    rows = [item[0] for item in bracket.items if len(item) == 1]
    if bracket.opening.token.kind != "[" or len(rows) != len(bracket.items) or len(rows) < 3:
        return False
    lengths = {
        len(row.items) if isinstance(row, Bracket) and row.opening.token.kind == "[" and not _has_brackets(row) else 0
        for row in rows
    }
    return len(lengths) == 1 and lengths != {0} and not any(_has_comment(b) for b in rows if isinstance(b, Bracket))


def _has_brackets(row: Bracket) -> bool:
    return any(isinstance(piece, Bracket) for item in row.items for piece in item) or not row.items


def _space(before: LayoutWord, after: LayoutWord, *, detached: bool) -> str:
    """The space between two neighbours of a row."""
    left, right = before.token.kind, after.token.kind
    if before.role == "statement" and before.token.text == "pre":
        return "  "  # aligns `pre` with `post`
    if left in {".", ".."} or right in _TIGHT or before.role == "unary":
        return ""
    if right in {"(", "["}:
        called = before.role == "" and left in {NAME, STRING, ")", "]", "}"}
        return "" if left in _CLOSING or (called and not (right == "(" and detached)) else " "
    return "" if left in _CLOSING else " "


class Layout:
    """Lays out one statement. _detached: its own parentheses hold attributes (see _DETACHED)."""

    def __init__(self, keyword: str) -> None:
        self._detached = keyword in _DETACHED

    def lines(self, row: list[Piece], indent: str, tail: str) -> list[str]:
        """The row in as few lines as the width allows; tail: text that follows the last line."""
        return (indent + self._row(row, indent, len(tail), top=True) + tail).split("\n")

    def _row(self, row: list[Piece], indent: str, tail: int, *, top: bool = False) -> str:
        """One row: on one line if it fits, else with its longest bracket pairs broken over lines, one after another."""
        brackets = [piece for piece in row if isinstance(piece, Bracket) and (piece.items or _has_comment(piece))]
        forced = {id(piece) for piece in brackets if self._must_break(piece)}
        waiting = sorted((b for b in brackets if id(b) not in forced), key=lambda b: -len(self._flat_bracket(b)))
        while True:
            text = self._join_pieces(row, indent, forced, top)
            widths = [len(line) for line in text.split("\n")]
            widths[0] += len(indent)
            widths[-1] += tail
            if max(widths) <= WIDTH or not waiting:
                return text
            forced.add(id(waiting.pop(0)))

    def _must_break(self, bracket: Bracket) -> bool:
        inside = [piece for item in bracket.items for piece in item if isinstance(piece, Bracket)]
        return _has_comment(bracket) or _matrix(bracket) or any(self._must_break(piece) for piece in inside)

    def _join_pieces(self, row: list[Piece], indent: str, broken: set[int], top: bool) -> str:
        text = ""
        first = _first(row[0])
        detached = self._detached if top else first.role == "word" and first.token.text in _DETACHED
        for i, piece in enumerate(row):
            if i:
                text += _space(_last(row[i - 1]), _first(piece), detached=detached)
            if isinstance(piece, LayoutWord):
                text += piece.token.text
            elif id(piece) in broken:
                text += self._break_bracket(piece, indent)
            else:
                text += self._flat_bracket(piece)
        return text

    def _flat_bracket(self, bracket: Bracket) -> str:
        items = ", ".join(self._join_pieces(item, "", set(), top=False) for item in bracket.items)
        pad = " " if items and bracket.opening.role == "parts" else ""
        return f"{bracket.opening.token.text}{pad}{items}{pad}{bracket.closing.token.text}"

    def _break_bracket(self, bracket: Bracket, indent: str) -> str:
        """A bracket pair with one item a line."""
        inner = indent + STEP
        lines: list[str] = []
        cells = self._cells(bracket) if _matrix(bracket) else None
        for i, item in enumerate(bracket.items):
            comma = "," if i < len(bracket.items) - 1 else ""
            lines += [inner + comment for comment in comments_before(item)]
            end = comma + "".join(f"  {comment}" for comment in comments_after(item))
            lines.append(inner + (cells[i] if cells else self._row(item, inner, len(comma))) + end)
        lines += [inner + comment for comment in bracket.closing.comments]
        opening = bracket.opening.token.text + "".join(f"  {comment}" for comment in bracket.opening.after)
        return "\n".join([opening, *lines, indent + bracket.closing.token.text])

    def _cells(self, bracket: Bracket) -> list[str]:
        """The rows of a matrix with aligned columns."""
        rows = [
            [self._join_pieces(cell, "", set(), top=False) for cell in row.items]
            for item in bracket.items
            for row in item
            if isinstance(row, Bracket)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["[" + ", ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) + "]" for row in rows]


def comments_before(row: list[Piece]) -> list[str]:
    """The comments before the pieces of a row, without those inside its brackets."""
    return [comment for piece in row for comment in _first(piece).comments]


def comments_after(row: list[Piece]) -> list[str]:
    """The comments after the pieces of a row, at the ends of their lines."""
    return [comment for piece in row for comment in _last(piece).after]
