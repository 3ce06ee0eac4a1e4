"""Recovery from syntax errors: finds all syntax errors of a file, and where parsing resumes after each."""

from __future__ import annotations

import re
from typing import Any, Final
from unicodedata import normalize

from collc.base.diagnostics import Diagnostic, Note, SourceFile, Span
from collc.base.units import UNITS
from collc.base.wording import did_you_mean, listed, near
from collc.source.parsing import tokens as t
from collc.source.parsing.automaton import Automaton
from collc.source.parsing.build import Builder
from collc.source.parsing.expectations import (
    ANYWHERE,
    HEADERS,
    SIGN_HINTS,
    all_statements,
    describe_terminals,
    number_hint,
    sign,
    statements_of,
    token_name,
    where_argument_stands,
)
from collc.source.parsing.literals import unit_hint
from collc.source.parsing.table import Table
from collc.source.parsing.tokens import Token

MAX_ERRORS: Final = 50
"""Errors that are reported of one file."""

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _ascii_unit(token: Token) -> str:
    """The ASCII spelling of a unit with a micro sign or compatibility letters; "" if the token is no such unit."""
    if token.kind != t.WRONG:
        return ""
    name = normalize("NFKC", token.text).replace("\N{GREEK SMALL LETTER MU}", "u")
    return name if name.isascii() and name.isalpha() else ""


class Recovery:
    """Parses a file with errors again, from its beginning.

    first: number of the token at which the parser failed. problems: the messages so far. _doubtful: position of the
    last token, first on its line, that was read as a name though it is a keyword of a statement, with the parser's
    stacks before it; if an error follows it directly, it is read as a keyword instead.
    """

    def __init__(self, source: SourceFile, table: Table, tokens: list[Token], first: int) -> None:
        self.problems: list[Diagnostic] = []
        self._source = source
        self._table = table
        self._tokens = tokens
        self._first = first
        self._keywords = table.keywords
        self._builder = Builder(source)
        self._parser = Automaton(table, self._builder)
        self._doubtful: tuple[int, list[int], list[Any]] | None = None

    def read(self) -> list[Diagnostic]:
        """All errors of the file, in the order of their places."""
        position = 0
        while position < len(self._tokens) and len(self.problems) < MAX_ERRORS:
            token = self._tokens[position]
            if position < self._first or (token.kind != t.WRONG and self._parser.accepts(token)):
                self._doubt(position)
                self._parser.feed(token)
                position += 1
            else:
                self._first = 0
                position = self._doubtful_position(position)
                position = self._correct_mistake(position) or self._resume_position(position)
        found_all = {(d.span, d.message): d for d in (*self.problems, *self._builder.errors)}
        return sorted(found_all.values(), key=lambda d: d.span.start if d.span else 0)

    def _doubt(self, position: int) -> None:
        """Remember the parser's state where a keyword of a statement is about to be read as a name."""
        token = self._tokens[position]
        doubtful = token.kind == t.NAME and token.text in all_statements() and self._first_on_line(position)
        if doubtful and not self._parser.accepts(token._replace(kind=token.text)):
            self._doubtful = (position, list(self._parser.states), list(self._parser.values))

    def _doubtful_position(self, position: int) -> int:
        """The position at which to go on: of the doubtful word if one is directly before the error."""
        if self._doubtful is None or position - self._doubtful[0] != 1:
            return position
        position, self._parser.states, self._parser.values = self._doubtful
        self._doubtful = None
        return position

    # The state of the parser

    def _span(self, token: Token) -> Span:
        if token.kind == t.END and len(self._tokens) > 1:
            end = self._tokens[-2].end
            return Span(self._source, end, end)
        return Span(self._source, token.start, token.end)

    def _report(self, code: str, message: str, span: Span, *notes: Note, hint: str = "") -> None:
        self.problems.append(Diagnostic(code, message, span, notes, hint))

    def _first_on_line(self, position: int) -> bool:
        if position == 0:
            return True
        return "\n" in self._source.text[self._tokens[position - 1].end : self._tokens[position].start]

    def _column(self, token: Token) -> int:
        return token.start - self._source.text.rfind("\n", 0, token.start)

    def _open(self) -> int:
        """The height of the stack below a bracket pair that was just closed; the full height if there is none."""
        values = self._parser.values
        last = values[-1] if values else None
        if not isinstance(last, Token) or last.kind not in _CLOSING.values():
            return len(values)
        openings = [i for i, v in enumerate(values) if isinstance(v, Token) and _CLOSING.get(v.kind) == last.kind]
        return openings[-1]

    def _open_bracket(self) -> Token | None:
        values = self._parser.values[: self._open()]
        return next((v for v in reversed(values) if isinstance(v, Token) and v.kind in _CLOSING), None)

    def _levels(self) -> list[int]:
        """The stack heights at which a statement can begin, that of the innermost body last."""
        rows, states = self._table.actions, self._parser.states[: self._open() + 1]
        return [h for h, s in enumerate(states) if rows[s].get("let", -1) >= 0 or rows[s].get("forward", -1) >= 0]

    def _head(self, level: int) -> str:
        """The keyword of the statement that began at a stack height; "" if none has begun."""
        values = self._parser.values
        first = values[level] if level < len(values) else None
        return first.text if isinstance(first, Token) and first.kind == t.NAME else ""

    def _body(self) -> str:
        """The innermost body around the current position: "topology", ..., or "file"."""
        for level in reversed(self._levels()[:-1]):
            head = self._head(level)
            if head in statements_of():
                return head
        return "file"

    # Mistakes that can be corrected in place

    def _correct_mistake(self, position: int) -> int | None:
        """Report and correct a mistake, and return the position after it; None if it is of no known kind."""
        token = self._tokens[position]
        before = self._tokens[position - 1] if position else token
        if _ascii_unit(token) and before.kind in {t.INT, t.FLOAT} and not self._first_on_line(position):
            return self._unit_with_other_letters(position)
        if token.kind == t.WRONG:
            return self._wrong_token(position)
        if token.kind == "=":
            return self._equals(position)
        if token.kind in {"&", "|"} and before.kind == token.kind and before.end == token.start:
            word = "and" if token.kind == "&" else "or"
            span = Span(self._source, before.start, token.end)
            self._report("E0113", f"'{token.kind * 2}' is not an operator", span, hint=f"write '{word}'")
            return position + 1
        if token.kind == t.NAME and before.kind in {t.INT, t.FLOAT} and not self._first_on_line(position):
            return self._separate_unit(position)
        if self._in_parts(position):
            return self._wrong_part(position)
        if (
            token.kind == t.NAME
            and token.text in all_statements()
            and before.kind == "{"
            and self._parser.values[-1] is before
        ):
            return self._body_for_value(position)
        if token.kind == "(" and self._head(self._levels()[-1]) == "link":
            hint = "the end of a link is a name with indices or members, as 'gpu[0]' or 'node[1].gpu[0]'"
            self._report("E0116", "the end of a link cannot be a call", self._span(token), hint=hint)
            return self._resume_position(position + 1, reported=True)
        return None

    def _body_for_value(self, position: int) -> int | None:
        """Report a missing value before a brace, and read the brace as the beginning of the statement's body."""
        brace = self._tokens[position - 1]
        if not self._enter_body(position - 1):
            return None
        self._report(
            "E0101", "found '{', but expected a value", self._span(brace), hint="a value is missing before this"
        )
        return position

    def _in_parts(self, position: int) -> bool:
        """Whether the parser expects the next part of `with { ... }` or `without { ... }`."""
        possible = self._parser.allowed_terminals()
        return {"npu", "switch", "link"} <= possible <= {"npu", "switch", "link", "}"} and not self._begins_declaration(
            position
        )

    def _begins_declaration(self, position: int) -> bool:
        """Whether a declaration begins at column 1, or the file ends: open braces are then never closed."""
        token = self._tokens[position]
        return token.kind == t.END or (token.text in statements_of()["file"] and self._column(token) == 1)

    def _wrong_part(self, position: int) -> int:
        """Report a part of `with` or `without` that is neither a device nor a link; parsing resumes after it."""
        token = self._tokens[position]
        self._parser.feed(Token(t.NAME, "npu", token.start, token.start))
        self._parser.feed(Token(t.NAME, "n", token.start, token.start))
        removes = "(" not in self._parser.allowed_terminals()
        does = "'without' removes" if removes else "'with' adds or changes"
        message = f"found {token_name(token, self._keywords)}, but {does} NPUs, switches and links"
        example = "'npu 5', 'switch spine' or 'link 0 <-> 1'" if removes else "'link a <-> b (bandwidth: 25GB/s)'"
        hint = f"each part begins with 'npu', 'switch' or 'link', as in {example}"
        self._report("E0101", message, self._span(token), hint=hint)
        depth = 0
        while not self._begins_declaration(position):
            kind = self._tokens[position].kind
            if depth == 0 and kind in {",", "}"}:
                break
            depth += (kind in _CLOSING) - (kind in _OPENING)
            position += 1
        return position

    def _unit_with_other_letters(self, position: int) -> int:
        """Report a unit that is written with a micro sign or another compatibility letter: `0.5µs`."""
        number, unit = self._tokens[position - 1], self._tokens[position]
        name = _ascii_unit(unit)
        span = Span(self._source, number.start, unit.end)
        hint = f"write '{number.text}{name}'" if name in UNITS else unit_hint(name)
        self._report(
            "E0108", f"'{unit.text}' is not a unit: units are written with the letters a-z and A-Z", span, hint=hint
        )
        return position + 1

    def _equals(self, position: int) -> int | None:
        token = self._tokens[position]
        if self._parser.accepts(Token(":", ":", 0, 0)) and (self._open_bracket() or token).kind == "(":
            name = self._tokens[position - 1].text
            self._report(
                "E0114", "an argument is named with ':', not '='", self._span(token), hint=f"write '{name}: ...'"
            )
            self._parser.feed(token._replace(kind=":", text=":"))
            return position + 1
        if self._parser.accepts(Token("==", "==", 0, 0)):
            self._report("E0112", "'=' does not compare", self._span(token), hint="write '=='")
            self._parser.feed(token._replace(kind="==", text="=="))
            return position + 1
        return None

    def _separate_unit(self, position: int) -> int | None:
        number, unit = self._tokens[position - 1], self._tokens[position]
        after = self._tokens[position + 1 : position + 3]
        size = 1
        name = unit.text
        if len(after) == 2 and after[0].kind == "/" and after[1].text == "s":
            size, name = 3, f"{name}/s"
        if name in self._keywords or (name not in UNITS and after[0].kind == ":"):
            return None
        span = Span(self._source, number.start, self._tokens[position + size - 1].end)
        if name in UNITS:
            self._report(
                "E0109", "there is no space between a number and its unit", span, hint=f"write '{number.text}{name}'"
            )
        else:
            self._report("E0109", f"'{name}' is not a unit", self._span(unit), hint=unit_hint(name))
        return position + size

    def _wrong_token(self, position: int) -> int:
        token = self._tokens[position]
        stand_in = ""
        span = self._span(token)
        if token.text.startswith('"'):
            stand_in = t.STRING
            self._report("E0106", "this string is never closed", span, hint="a string ends on its line, with '\"'")
        elif token.text[0].isdigit() and token.text.isascii():
            stand_in = t.INT
            self._report("E0110", f"'{token.text}' is not a number", span, hint=number_hint(token.text))
        elif token.text.isidentifier():
            stand_in = t.NAME
            before = self._tokens[position - 1] if position else token
            start = before.start if before.end == token.start and before.kind == t.NAME else token.start
            hint = "names are made of the letters a-z and A-Z, digits and '_'"
            word = self._source.text[start : token.end]
            self._report("E0107", f"'{word}' is not a name", Span(self._source, start, token.end), hint=hint)
        elif token.text == "'":
            return self._single_quotes(position)
        elif token.text == "!":
            self._report("E0113", "'!' is not an operator", span, hint="write 'not'")
        else:
            self._report("E0107", f"{sign(token.text)} means nothing here", span, hint=SIGN_HINTS.get(token.text, ""))
        if stand_in and self._parser.accepts(token._replace(kind=stand_in)):
            text = {t.STRING: '""', t.INT: "1"}.get(stand_in, token.text)
            self._parser.feed(token._replace(kind=stand_in, text=text))
        return position + 1

    def _single_quotes(self, position: int) -> int:
        start = self._tokens[position].start
        match = re.compile(r"'[^'\n]*'?").match(self._source.text, start)
        end = match.end() if match else start + 1
        self._report(
            "E0107", "strings are written in double quotes", Span(self._source, start, end), hint='write "..."'
        )
        stand_in = Token(t.STRING, '""', start, end)
        if self._parser.accepts(stand_in):
            self._parser.feed(stand_in)
        while self._tokens[position].start < end and self._tokens[position].kind != t.END:
            position += 1
        return position

    # Errors after which parsing resumes at the next statement

    def _resume_position(self, position: int, *, reported: bool = False) -> int:
        """Report the error unless that is done, and return the position at which parsing resumes."""
        if not reported:
            self._describe(position)
        depth = 0
        start = position
        while position < len(self._tokens):
            token = self._tokens[position]
            if token.kind == "{":
                if depth == 0 and self._enter_body(position):
                    return position + 1
                depth += 1
            elif token.kind == "}":
                if depth == 0 and self._close(token):
                    return position + 1
                depth = max(0, depth - 1)
            elif depth == 0 and self._begins_statement(position, mid_line=position > start):
                if self._pop_to(token):
                    return position
                if position > start:
                    self._parser.cut(self._levels()[-1])
                    return position
            elif token.kind == t.END:
                return len(self._tokens)
            position += 1
        return position

    def _begins_statement(self, position: int, *, mid_line: bool) -> bool:
        token, after = self._tokens[position], self._tokens[min(position + 1, len(self._tokens) - 1)]
        if token.kind != t.NAME or after.kind in {":", ",", ")", "]", "=", "."}:
            return False
        if token.text not in all_statements():
            return (
                self._first_on_line(position)
                and after.kind == t.NAME
                and near(token.text, all_statements()) is not None
            )
        before = self._tokens[position - 1].kind if position else ""
        return self._first_on_line(position) or (mid_line and before in {"}", ")", "]"}) or before == "{"

    def _pop_to(self, token: Token) -> bool:
        """Discard the current statement for one that begins here: in this body or, at column 1, in the file."""
        levels = self._levels()
        candidates = levels[-1:] if self._column(token) > 1 else [*levels[-1:], levels[0]]
        for level in candidates:
            if self._table.actions[self._parser.states[level]].get(token.text, -1) >= 0:
                self._parser.cut(level)
                return True
        return False

    def _close(self, token: Token) -> bool:
        levels = self._levels()
        for level in reversed(levels):
            if self._parser.accepts_at(level, token):
                self._parser.cut(level)
                self._parser.feed(token)
                return True
        return False

    def _enter_body(self, position: int) -> bool:
        """Parse a valid head in place of a wrong one, so that the body can be read; False if no body begins here."""
        after = self._tokens[min(position + 1, len(self._tokens) - 1)]
        if after.kind != "}" and after.text not in all_statements():
            return False
        level = self._levels()[-1]
        head = self._head(level)
        if head not in HEADERS:
            return False
        self._parser.cut(level)
        for token in list(self._table.scanner.scan(HEADERS[head]))[:-1]:
            self._parser.feed(token)
        self._parser.feed(self._tokens[position])
        return True

    # Messages

    def _describe(self, position: int) -> None:
        token = self._tokens[position]
        bracket = self._open_bracket()
        possible = self._parser.allowed_terminals()
        statement = "let" in possible or "forward" in possible
        if self._report_unclosed(position, bracket, possible):
            return
        if (
            token.kind in {")", "]", "}"}
            and token.kind not in possible
            and not (bracket and token.kind == _CLOSING[bracket.kind])
        ):
            notes = (Note(f"'{bracket.kind}' was opened here", self._span_of(bracket)),) if bracket else ()
            hint = (
                f"'{_CLOSING[bracket.kind]}' would close it"
                if bracket
                else f"remove it, or add the missing '{_OPENING[token.kind]}'"
            )
            self._report("E0105", f"this '{token.kind}' closes nothing", self._span(token), *notes, hint=hint)
        elif statement and token.kind == t.NAME and token.text in all_statements() | {"else"}:
            self._report_misplaced(token)
        elif statement and token.kind == t.NAME and self._first_on_line(position):
            words = sorted(possible & all_statements())
            quoted = [f"'{word}'" for word in words]
            hint = where_argument_stands(token.text, possible) or did_you_mean(
                token.text, words, f"allowed here: {listed(quoted)}"
            )
            self._report("E0102", f"'{token.text}' does not begin a statement", self._span(token), hint=hint)
        else:
            self._general(position, possible)

    def _span_of(self, token: Token) -> Span:
        return Span(self._source, token.start, token.end)

    def _report_unclosed(self, position: int, bracket: Token | None, possible: frozenset[str]) -> bool:
        """Report a bracket that is never closed; False if that is not the error."""
        token = self._tokens[position]
        if bracket is None:
            return False
        ends = token.kind == t.END
        if token.kind == "}" and bracket.kind != "{" and self._first_on_line(position):
            ends = len(self._levels()) > 1
        elif token.kind == t.NAME and token.text in all_statements() and self._first_on_line(position):
            in_block = "let" in possible or "forward" in possible
            outer = self._column(token) == 1 and token.text in statements_of()["file"]
            ends = outer if in_block else bracket.kind != "{" or outer
            ends = ends and self._begins_statement(position, mid_line=False)
        cut_short = (self._source.text + "\n").find("\n", bracket.start)
        if ends and any(
            d.code == "E0106" and d.span and bracket.start < d.span.start < cut_short for d in self.problems
        ):
            return True
        if ends:
            word = token_name(token, self._keywords)
            note = Note(f"found {word} here, but expected {describe_terminals(possible)}", self._span(token))
            message = f"this '{bracket.kind}' is never closed"
            self._report("E0104", message, self._span_of(bracket), note, hint=f"write '{_CLOSING[bracket.kind]}'")
        return ends

    def _report_misplaced(self, token: Token) -> None:
        body = self._body()
        if token.text == "else":
            self._report(
                "E0103",
                "this 'else' has no 'if'",
                self._span(token),
                hint="'else' follows directly after the '}' of an 'if'",
            )
            return
        homes = [
            f"{_article(home)} {home}"
            for home, words in statements_of().items()
            if token.text in words and home != "file"
        ]
        where = f"in the body of {_article(body)} {body}" if body != "file" else "at the top of a file"
        bracket = self._open_bracket()
        if body == "file" and bracket is not None and bracket.kind == "{":
            where = "inside a block"
        belongs = f"it belongs in {listed(homes, 'or')}" if homes else "it belongs at the top of a file"
        self._report("E0103", f"'{token.text}' is not allowed {where}", self._span(token), hint=belongs)

    def _general(self, position: int, possible: frozenset[str]) -> None:
        token = self._tokens[position]
        message = f"found {token_name(token, self._keywords)}, but expected {describe_terminals(possible)}"
        self._report("E0101", message, self._span(token), hint=self._hint(position, possible))

    def _hint(self, position: int, possible: frozenset[str]) -> str:
        token = self._tokens[position]
        before = self._tokens[position - 1].kind if position else ""
        after = self._tokens[min(position + 1, len(self._tokens) - 1)].kind
        if token.kind in {"//", "/"} and (self._first_on_line(position) or before == "/"):
            return "a comment begins with '#'"
        if "," in possible and token.kind in {t.NAME, t.INT, t.FLOAT, t.QUANTITY, t.STRING}:
            parameter, value = "=" in possible, token.kind != t.NAME
            missing = "':'" if ":" in possible and (parameter or value) else "','"
            return f"a {missing} is missing before this"
        if token.kind == "{" and possible == frozenset({t.NAME}):
            return "a name is missing before this"
        if token.kind == "." and before == "..":
            return "'a..b' counts from a up to, not including, b"
        if "." in {token.kind, before} and {t.INT, t.END} & {token.kind, after}:
            return "numbers are written '0.5' and '5.0'"
        if token.kind in {"=", "<", "-"} and "->" in possible:
            return "'->' is a link one way, '<->' are links both ways"
        if token.kind == "(" and "let" in possible:
            return "only a name can be called"
        if token.kind == t.NAME:
            return did_you_mean(token.text, sorted(possible & self._keywords - ANYWHERE))
        return ""
