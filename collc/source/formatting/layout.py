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
_DETACHED: Final = frozenset({"npu", "switch", "link", "links", "layer", "workload", "train", "price", "failures"})
"""Statements with parentheses that hold attributes and not arguments of a call: a space goes before them."""


@dataclass(slots=True)
class LayoutWord:
    """A token with its role and its comments.

    role: "statement" for a keyword that begins a statement, "word" for another keyword, "unary" for a sign, "block" or
    "parts" for a brace that opens a body or the parts of `with`, `without` or `part`, else "". comments: those on lines
    of their own before the token. after: those after it on its line.
    """

    token: Token
    role: str = ""
    comments: list[str] = field(default_factory=list[str])
    after: list[str] = field(default_factory=list[str])

    @property
    def first(self) -> LayoutWord:
        """The word itself."""
        return self

    @property
    def last(self) -> LayoutWord:
        """The word itself."""
        return self


@dataclass(slots=True)
class Bracket:
    """A bracket pair, its first and last word, and its items, which commas separate: rows of words and brackets."""

    first: LayoutWord
    last: LayoutWord
    items: list[list[Piece]]

    @property
    def brackets(self) -> list[Bracket]:
        """The bracket pairs among its items."""
        return [piece for item in self.items for piece in item if isinstance(piece, Bracket)]

    @property
    def has_comment(self) -> bool:
        """Whether there is a comment inside the bracket pair."""
        inner = [piece for item in self.items for piece in item]
        return bool(self.first.after or self.last.comments) or any(
            piece.first.comments or piece.last.after or (isinstance(piece, Bracket) and piece.has_comment)
            for piece in inner
        )

    @property
    def is_matrix(self) -> bool:
        """Whether it is a list of at least three lists of equal length without brackets or comments inside."""
        rows = self.brackets
        if self.first.token.kind != "[" or len(rows) < 3 or any(len(item) != 1 for item in self.items):
            return False
        plain = all(row.first.token.kind == "[" and not row.brackets and not row.has_comment for row in rows)
        lengths = {len(row.items) for row in rows}
        return plain and len(rows) == len(self.items) and len(lengths) == 1 and lengths != {0}

    @property
    def must_break(self) -> bool:
        """Whether it cannot be on one line."""
        return self.has_comment or self.is_matrix or any(bracket.must_break for bracket in self.brackets)


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
            if row:  # the comments around a comma belong to the item before it
                row[0].first.comments += word.comments
                row[-1].last.after += word.after
            row = []
            around[-1][2].append(row)
        elif around and kind == _CLOSING[around[-1][1].token.kind]:
            outer, opening, items = around.pop()
            outer.append(Bracket(opening, word, [item for item in items if item]))
            row = outer
        else:
            row.append(word)
    return row


def _space(before: LayoutWord, after: LayoutWord, *, detached: bool) -> str:
    """The space between two neighbours of a row."""
    left, right = before.token.kind, after.token.kind
    if before.role == "statement" and before.token.text == "pre":
        return "  "  # aligns `pre` with `post`
    if left in {".", ".."} or left in _CLOSING or right in _TIGHT or before.role == "unary":
        return ""
    called = right in {"(", "["} and before.role == "" and left in {NAME, STRING, ")", "]", "}"}
    return "" if called and not (right == "(" and detached) else " "


class Layout:
    """Lays out one statement. _detached: its own parentheses hold attributes (see _DETACHED)."""

    def __init__(self, keyword: str) -> None:
        self._detached = keyword in _DETACHED

    def lines(self, row: list[Piece], indent: str, tail: str) -> list[str]:
        """The row in as few lines as the width allows; tail: text that follows the last line."""
        return (indent + self._row(row, indent, len(tail), top=True) + tail).split("\n")

    def _row(self, row: list[Piece], indent: str, tail: int, *, top: bool = False) -> str:
        """One row: on one line if it fits, else with its longest bracket pairs broken over lines, one after another."""
        brackets = [piece for piece in row if isinstance(piece, Bracket) and (piece.items or piece.has_comment)]
        forced = {id(piece) for piece in brackets if piece.must_break}
        waiting = sorted((b for b in brackets if id(b) not in forced), key=lambda b: -len(self._flat_bracket(b)))
        while True:
            text = self._join_pieces(row, indent, forced, top)
            widths = [len(line) for line in text.split("\n")]
            widths[0] += len(indent)
            widths[-1] += tail
            if max(widths) <= WIDTH or not waiting:
                return text
            forced.add(id(waiting.pop(0)))

    def _join_pieces(self, row: list[Piece], indent: str, broken: set[int], top: bool) -> str:
        text = ""
        first = row[0].first
        detached = self._detached if top else first.role == "word" and first.token.text in _DETACHED
        for i, piece in enumerate(row):
            if i:
                text += _space(row[i - 1].last, piece.first, detached=detached)
            if isinstance(piece, LayoutWord):
                text += piece.token.text
            else:
                text += self._break_bracket(piece, indent) if id(piece) in broken else self._flat_bracket(piece)
        return text

    def _flat_bracket(self, bracket: Bracket) -> str:
        items = ", ".join(self._join_pieces(item, "", set(), top=False) for item in bracket.items)
        pad = " " if items and bracket.first.role == "parts" else ""
        return f"{bracket.first.token.text}{pad}{items}{pad}{bracket.last.token.text}"

    def _break_bracket(self, bracket: Bracket, indent: str) -> str:
        """A bracket pair with one item a line."""
        inner = indent + STEP
        lines: list[str] = []
        cells = self._cells(bracket) if bracket.is_matrix else None
        for i, item in enumerate(bracket.items):
            comma = "," if i < len(bracket.items) - 1 else ""
            lines += [inner + comment for comment in comments_before(item)]
            end = comma + "".join(f"  {comment}" for comment in comments_after(item))
            lines.append(inner + (cells[i] if cells else self._row(item, inner, len(comma))) + end)
        lines += [inner + comment for comment in bracket.last.comments]
        opening = bracket.first.token.text + "".join(f"  {comment}" for comment in bracket.first.after)
        return "\n".join([opening, *lines, indent + bracket.last.token.text])

    def _cells(self, matrix: Bracket) -> list[str]:
        """The rows of a matrix with aligned columns."""
        rows = [[self._join_pieces(cell, "", set(), top=False) for cell in row.items] for row in matrix.brackets]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["[" + ", ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) + "]" for row in rows]


def comments_before(row: list[Piece]) -> list[str]:
    """The comments before the pieces of a row, without those inside its brackets."""
    return [comment for piece in row for comment in piece.first.comments]


def comments_after(row: list[Piece]) -> list[str]:
    """The comments after the pieces of a row, at the ends of their lines."""
    return [comment for piece in row for comment in piece.last.after]
