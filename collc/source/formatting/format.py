"""The formatter: one canonical layout for every program, with its comments."""

from __future__ import annotations

from typing import Final

from collc.base.diagnostics import SourceFile
from collc.source.formatting.layout import STEP, Layout, LayoutWord, Piece, comments_after, comments_before, pieces
from collc.source.parsing import tokens as t
from collc.source.parsing.build import Builder
from collc.source.parsing.expectations import all_statements
from collc.source.parsing.parse import parse
from collc.source.parsing.table import Automaton, Table, accepts_statement, load_table
from collc.source.parsing.tokens import Token

_SIGNS: Final = frozenset({"-", "+", "~"})
_AFTER_VALUE: Final = frozenset({t.NAME, t.INT, t.FLOAT, t.QUANTITY, t.STRING, ")", "]", "}"})


def format_source(source: SourceFile) -> str:
    """The program in its canonical layout, with its comments. Raises SourceError if it does not parse."""
    parse(source)
    writer = _Writer(source.text)
    for word in _words(source, load_table()):
        writer.take(word)
    return writer.text()


def _words(source: SourceFile, table: Table) -> list[LayoutWord]:
    """The tokens of a file, each with its role (see LayoutWord)."""
    automaton = Automaton(table, Builder(source))
    words: list[LayoutWord] = []
    before = LayoutWord(Token(",", ",", 0, 0))
    for token in table.scanner.scan(source.text, comments=True):
        word = LayoutWord(token)
        words.append(word)
        if token.kind in {t.COMMENT, t.END}:
            continue
        automaton.feed(token)
        below, state = table.actions[automaton.states[-2]], table.actions[automaton.states[-1]]
        if token.kind == t.NAME and token.text in below:
            word.role = "statement" if token.text in all_statements() and accepts_statement(below) else "word"
        elif token.kind == "{":
            word.role = "block" if accepts_statement(state) else "parts" if "link" in state else ""
        elif token.kind in _SIGNS and (before.role in {"word", "statement"} or before.token.kind not in _AFTER_VALUE):
            word.role = "unary"
        before = word
    return words


class _Writer:
    """Writes the words of a file in order; a statement is laid out when its last word is known.

    _held: comments whose place is not yet known. _blocks: for each open brace, whether it opens a body. _blank: whether
    a blank line precedes the next line. _opened: whether the last line opened a body.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[str] = []
        self._depth = 0
        self._statement: list[LayoutWord] = []
        self._held: list[LayoutWord] = []
        self._blocks: list[bool] = []
        self._end = 0
        self._blank = False
        self._opened = True

    def take(self, word: LayoutWord) -> None:
        """Add the next word or comment."""
        token = word.token
        newlines = self._text.count("\n", self._end, token.start)
        self._end = token.end
        closes = token.kind == "}" and self._blocks.pop()
        branch = token.text == "else" and word.role == "word"
        if token.kind == t.COMMENT:
            word.role = "" if newlines == 0 else "gap" if newlines > 1 else "line"
            self._held.append(word)
            return
        if branch or closes or word.role == "statement" or token.kind == t.END:
            self._finish_statement()
            if not branch:
                self._write_held_comments()
        self._attach(word)
        if closes:
            self._close()
        elif token.kind != t.END:
            self._blank = self._blank or (word.role == "statement" and newlines > 1)
            self._statement.append(word)
        if token.kind == "{":
            self._blocks.append(word.role == "block")
            if word.role == "block":
                self._finish_statement()
                self._depth += 1

    def text(self) -> str:
        """The whole program."""
        return "\n".join(self._lines) + "\n" if self._lines else ""

    def _attach(self, word: LayoutWord) -> None:
        """Attach comments inside a statement to the word before them on their line, else to the next word."""
        for comment in self._held:
            text = comment.token.text.rstrip()
            if comment.role == "" and self._statement:
                self._statement[-1].after.append(text)
            else:
                word.comments.append(text)
        self._held = []

    def _write_held_comments(self) -> None:
        """Write comments that stand between two statements."""
        for comment in self._held:
            text = comment.token.text.rstrip()
            if comment.role == "" and self._lines:
                self._lines[-1] += f"  {text}"
                continue
            self._blank = self._blank or comment.role == "gap"
            self._put([STEP * self._depth + text])
        self._held = []

    def _put(self, lines: list[str]) -> None:
        if self._blank and not self._opened:
            self._lines.append("")
        self._blank = self._opened = False
        self._lines += lines

    def _close(self) -> None:
        self._depth -= 1
        self._blank = False
        if self._opened and self._lines[-1].endswith("{"):
            self._lines[-1] += "}"
        else:
            self._put([STEP * self._depth + "}"])
        self._opened = False

    def _finish_statement(self) -> None:
        words, self._statement = self._statement, []
        if not words:
            return
        opens = words[-1].role == "block"
        indent = STEP * self._depth
        row = pieces(words[:-1] if opens else words)
        lines = Layout(words[0].token.text).lines(row, indent, " {" if opens else "")
        brace: list[Piece] = [words[-1]] if opens else []
        comments = [indent + c for c in (*comments_before([*row, *brace]), *comments_after([*row, *brace]))]
        if words[0].token.text == "else":
            lines[0] = self._lines.pop() + " " + lines[0].lstrip() if self._lines[-1].endswith("}") else lines[0]
            self._put([*lines, *(STEP + c for c in comments)])
        else:
            self._put([*comments, *lines])
        self._opened = opens and not (comments and words[0].token.text == "else")
