"""Recovery from syntax errors: finds all syntax errors of a file, and the place at which parsing resumes after each."""

from __future__ import annotations

import re
from typing import Any, Final, cast
from unicodedata import normalize

from collc.base.diagnostics import Diagnostic, Note, SourceFile, Span
from collc.base.units import UNITS
from collc.base.wording import closest_name, did_you_mean, phrase
from collc.source.limits import MAX_ERRORS
from collc.source.parsing import expectations as expected
from collc.source.parsing import tokens as t
from collc.source.parsing.build import Builder
from collc.source.parsing.syntax import File
from collc.source.parsing.table import STATEMENT_STARTS, Automaton, Table, accepts_statement
from collc.source.parsing.tokens import Token, unit_hint

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_PARTS: Final = frozenset({"npu", "switch", "link"})


def _with_article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


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

    def read(self, *, whole: bool = True) -> list[Diagnostic]:
        """All errors of the file, in the order of their places. whole: whether the file ends with the last token."""
        position = 0
        while position < len(self._tokens) - (not whole) and len(self.problems) < MAX_ERRORS:
            token = self._tokens[position]
            if position < self._first or (token.kind != t.WRONG and self._parser.accepts(token)):
                doubtful = self._begins_line_with_statement(position)
                if doubtful and not self._parser.accepts(token._replace(kind=token.text)):
                    self._doubtful = (position, list(self._parser.states), list(self._parser.values))
                self._parser.feed(token)
                position += 1
                continue
            self._first = 0
            if self._doubtful is not None and position - self._doubtful[0] == 1:
                position, self._parser.states, self._parser.values = self._doubtful
                self._doubtful = None
            position = self._correct_mistake(position) or self._resume_position(position)
        found_all = {(d.span, d.message): d for d in (*self.problems, *self._builder.errors)}
        return sorted(found_all.values(), key=lambda d: d.span.start if d.span else 0)

    def rest(self) -> File:
        """The syntax tree of what `read` could parse: open bodies end with the file, and unfinished statements go."""
        end = self._tokens[-1]
        closing = Token("}", "}", end.start, end.start)
        if self._parser.values and isinstance(self._parser.values[0], File):
            return self._parser.values[0]
        while not self._parser.accepts(end):
            levels = self._levels()
            if self._parser.accepts(closing):
                self._parser.feed(closing)
            else:
                self._parser.cut(levels[-1] if levels[-1] < len(self._parser.values) else levels[-2])
        self._parser.feed(end)
        return cast("File", self._parser.values[0])

    def open_call(self) -> tuple[list[Any], list[Any]] | None:
        """The values before the innermost open parenthesis and after it; None if no parenthesis is the innermost."""
        bracket = self._open_bracket()
        if bracket is None or bracket.kind != "(":
            return None
        values = self._parser.values
        place = max(number for number, value in enumerate(values) if value is bracket)
        return values[:place], values[place + 1 :]

    @property
    def parser(self) -> Automaton:
        """The parser after the tokens that `read` has read."""
        return self._parser

    # The state of the parser

    def _span(self, token: Token) -> Span:
        if token.kind == t.END and len(self._tokens) > 1:
            end = self._tokens[-2].end
            return Span(self._source, end, end)
        return Span(self._source, token.start, token.end)

    def _report(self, code: str, message: str, place: Token | Span, *notes: Note, hint: str = "") -> None:
        span = place if isinstance(place, Span) else self._span(place)
        self.problems.append(Diagnostic(code, message, span, notes, hint))

    def _replace_token(self, token: Token, kind: str, text: str) -> None:
        """Parse another token in place of a wrong one."""
        self._parser.feed(token._replace(kind=kind, text=text))

    def _neighbours(self, position: int) -> tuple[Token | None, Token]:
        """The tokens before and after a position."""
        after = self._tokens[min(position + 1, len(self._tokens) - 1)]
        return self._tokens[position - 1] if position else None, after

    def _first_on_line(self, position: int) -> bool:
        before, _ = self._neighbours(position)
        return before is None or "\n" in self._source.text[before.end : self._tokens[position].start]

    def _begins_line_with_statement(self, position: int) -> bool:
        token = self._tokens[position]
        return token.kind == t.NAME and token.text in expected.all_statements() and self._first_on_line(position)

    def _column(self, token: Token) -> int:
        return token.start - self._source.text.rfind("\n", 0, token.start)

    def _open(self) -> int:
        """The height of the stack below a bracket pair that was just closed; the full height if there is none."""
        values = self._parser.values
        last = values[-1] if values else None
        if not isinstance(last, Token) or last.kind not in _CLOSING.values():
            return len(values)
        return max(i for i, v in enumerate(values) if isinstance(v, Token) and _CLOSING.get(v.kind) == last.kind)

    def _open_bracket(self) -> Token | None:
        values = self._parser.values[: self._open()]
        return next((v for v in reversed(values) if isinstance(v, Token) and v.kind in _CLOSING), None)

    def _levels(self) -> list[int]:
        """The stack heights at which a statement can begin, that of the innermost body last."""
        states = self._parser.states[: self._open() + 1]
        return [height for height, state in enumerate(states) if accepts_statement(self._table.actions[state])]

    def _head(self, level: int) -> str:
        """The keyword of the statement that began at a stack height; "" if none has begun."""
        first = self._parser.values[level] if level < len(self._parser.values) else None
        return first.text if isinstance(first, Token) and first.kind == t.NAME else ""

    def _body(self) -> str:
        """The innermost body around the current position: "topology", ..., or "file"."""
        heads = (self._head(level) for level in reversed(self._levels()[:-1]))
        return next((head for head in heads if head in expected.statements_of()), "file")

    # Mistakes that can be corrected in place

    def _correct_mistake(self, position: int) -> int | None:
        """Report and correct a mistake, and return the position after it; None if it is of no known kind."""
        token = self._tokens[position]
        before = self._tokens[position - 1] if position else token
        after_number = before.kind in {t.INT, t.FLOAT} and not self._first_on_line(position)
        if _ascii_unit(token) and after_number:
            name = _ascii_unit(token)
            hint = f"write '{before.text}{name}'" if name in UNITS else unit_hint(name)
            message = f"'{token.text}' is not a unit: units are written with the letters a-z and A-Z"
            self._report("E0108", message, Span(self._source, before.start, token.end), hint=hint)
            return position + 1
        if token.kind == t.WRONG:
            return self._wrong_token(position)
        if token.kind == "=":
            return self._equals(position)
        if token.kind in {"&", "|"} and before.kind == token.kind and before.end == token.start:
            span, word = Span(self._source, before.start, token.end), "and" if token.kind == "&" else "or"
            self._report("E0113", f"'{token.kind * 2}' is not an operator", span, hint=f"write '{word}'")
            return position + 1
        if token.kind == t.NAME and after_number:
            return self._separate_unit(position)
        allowed = self._parser.allowed_terminals()
        if _PARTS <= allowed <= _PARTS | {"part", "}"} and not self._begins_declaration(position):
            return self._wrong_part(position)
        is_statement = token.kind == t.NAME and token.text in expected.all_statements()
        if is_statement and before.kind == "{" and self._parser.values[-1] is before:
            if not self._enter_body(position - 1):
                return None
            self._report("E0101", "found '{', but expected a value", before, hint="a value is missing before this")
            return position
        if token.kind == "(" and self._head(self._levels()[-1]) == "link":
            hint = "the end of a link is a name with indices or members, as 'gpu[0]' or 'node[1].gpu[0]'"
            self._report("E0116", "the end of a link cannot be a call", token, hint=hint)
            return self._resume_position(position + 1, reported=True)
        return None

    def _begins_declaration(self, position: int) -> bool:
        """Whether a declaration begins at column 1, or the file ends: open braces are then never closed."""
        token = self._tokens[position]
        return token.kind == t.END or (token.text in expected.statements_of()["file"] and self._column(token) == 1)

    def _wrong_part(self, position: int) -> int:
        """Report what is neither a device nor a link in `with`, `without` or `part`; parsing resumes after it."""
        token = self._tokens[position]
        for word in ("npu", "n"):
            self._parser.feed(Token(t.NAME, word, token.start, token.start))
        removes = "(" not in self._parser.allowed_terminals()
        does = "'without' and 'part' name" if removes else "'with' adds or changes"
        message = f"found {expected.token_name(token, self._keywords)}, but {does} NPUs, switches and links"
        example = "'npu 5', 'switch spine' or 'link 0 <-> 1'" if removes else "'link a <-> b (bandwidth: 25GB/s)'"
        self._report("E0101", message, token, hint=f"each part begins with 'npu', 'switch' or 'link', as in {example}")
        depth = 0
        while not self._begins_declaration(position):
            kind = self._tokens[position].kind
            if depth == 0 and kind in {",", "}"}:
                break
            depth += (kind in _CLOSING) - (kind in _OPENING)
            position += 1
        return position

    def _equals(self, position: int) -> int | None:
        token = self._tokens[position]
        if self._parser.accepts(Token(":", ":", 0, 0)) and (self._open_bracket() or token).kind == "(":
            kind, code, message = ":", "E0114", "an argument is named with ':', not '='"
            hint = f"write '{self._tokens[position - 1].text}: ...'"
        elif self._parser.accepts(Token("==", "==", 0, 0)):
            kind, code, message, hint = "==", "E0112", "'=' does not compare", "write '=='"
        else:
            return None
        self._report(code, message, token, hint=hint)
        self._replace_token(token, kind, kind)
        return position + 1

    def _separate_unit(self, position: int) -> int | None:
        number, unit = self._tokens[position - 1], self._tokens[position]
        after = self._tokens[position + 1 : position + 3]
        size, name = 1, unit.text
        if len(after) == 2 and after[0].kind == "/" and after[1].text == "s":
            size, name = 3, f"{name}/s"
        if name in self._keywords or (name not in UNITS and after[0].kind == ":"):
            return None
        if name in UNITS:
            span = Span(self._source, number.start, self._tokens[position + size - 1].end)
            message, hint = "there is no space between a number and its unit", f"write '{number.text}{name}'"
            self._report("E0109", message, span, hint=hint)
        else:
            self._report("E0109", f"'{name}' is not a unit", unit, hint=unit_hint(name))
        return position + size

    def _wrong_token(self, position: int) -> int:
        token = self._tokens[position]
        kind, text = "", token.text
        if text.startswith('"'):
            kind, text = t.STRING, '""'
            self._report("E0106", "this string is never closed", token, hint="a string ends on its line, with '\"'")
        elif text[0].isdigit() and text.isascii():
            self._report("E0110", f"'{text}' is not a number", token, hint=expected.number_hint(text))
            kind, text = t.INT, "1"
        elif text.isidentifier():
            kind = t.NAME
            before = self._tokens[position - 1] if position else token
            joined = before.end == token.start and before.kind == t.NAME
            span = Span(self._source, before.start if joined else token.start, token.end)
            hint = "names are made of the letters a-z and A-Z, digits and '_'"
            self._report("E0107", f"'{span.text}' is not a name", span, hint=hint)
        elif text == "'":
            return self._single_quotes(position)
        elif text == "!":
            self._report("E0113", "'!' is not an operator", token, hint="write 'not'")
        else:
            self._report(
                "E0107", f"{expected.sign(text)} means nothing here", token, hint=expected.SIGN_HINTS.get(text, "")
            )
        if kind and self._parser.accepts(token._replace(kind=kind)):
            self._replace_token(token, kind, text)
        return position + 1

    def _single_quotes(self, position: int) -> int:
        start = self._tokens[position].start
        match = re.compile(r"'[^'\n]*'?").match(self._source.text, start)
        end = match.end() if match else start + 1
        message = "strings are written in double quotes"
        self._report("E0107", message, Span(self._source, start, end), hint='write "..."')
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
        token, (before, after) = self._tokens[position], self._neighbours(position)
        if token.kind != t.NAME or after.kind in {":", ",", ")", "]", "=", "."}:
            return False
        first = self._first_on_line(position)
        if token.text not in expected.all_statements():
            return first and after.kind == t.NAME and closest_name(token.text, expected.all_statements()) is not None
        return first or (before is not None and before.kind in ({"}", ")", "]", "{"} if mid_line else {"{"}))

    def _pop_to(self, token: Token) -> bool:
        """Discard the current statement for one that begins here: in this body or, at column 1, in the file."""
        levels = self._levels()
        file = int(isinstance(next(iter(self._parser.values), None), list))  # after its statements so far
        for level in levels[-1:] if self._column(token) > 1 else [*levels[-1:], file]:
            if self._table.actions[self._parser.states[level]].get(token.text, -1) >= 0:
                self._parser.cut(level)
                return True
        return False

    def _close(self, token: Token) -> bool:
        level = next((level for level in reversed(self._levels()) if self._parser.accepts_at(level, token)), None)
        if level is not None:
            self._parser.cut(level)
            self._parser.feed(token)
        return level is not None

    def _enter_body(self, position: int) -> bool:
        """Parse a valid head in place of a wrong one, so that the body can be read; False if no body begins here."""
        _, after = self._neighbours(position)
        level = self._levels()[-1]
        header = expected.HEADERS.get(self._head(level))
        if header is None or (after.kind != "}" and after.text not in expected.all_statements()):
            return False
        self._parser.cut(level)
        for token in [*self._table.scanner.scan(header)][:-1]:
            self._parser.feed(token)
        self._parser.feed(self._tokens[position])
        return True

    # Messages

    def _describe(self, position: int) -> None:
        token = self._tokens[position]
        bracket = self._open_bracket()
        possible = self._parser.allowed_terminals()
        begins = token.kind == t.NAME and bool(possible & STATEMENT_STARTS)
        if bracket is not None and self._report_unclosed(position, bracket, possible):
            return
        if token.kind in _OPENING.keys() - possible and not (bracket and token.kind == _CLOSING[bracket.kind]):
            message = f"this '{token.kind}' closes nothing"
            if bracket is None:
                hint = f"remove it, or add the missing '{_OPENING[token.kind]}'"
                self._report("E0105", message, token, hint=hint)
            else:
                note = Note(f"'{bracket.kind}' was opened here", self._span(bracket))
                self._report("E0105", message, token, note, hint=f"'{_CLOSING[bracket.kind]}' would close it")
        elif begins and token.text in expected.all_statements() | {"else"}:
            self._report_misplaced(token, bracket)
        elif begins and self._first_on_line(position):
            words = sorted(possible & expected.all_statements())
            quoted = phrase(f"'{word}'" for word in words)
            hint = expected.where_argument_stands(token.text, possible)
            hint = hint or did_you_mean(token.text, words, f"allowed here: {quoted}")
            self._report("E0102", f"'{token.text}' does not begin a statement", token, hint=hint)
        else:
            word, wanted = expected.token_name(token, self._keywords), expected.describe_terminals(possible)
            self._report("E0101", f"found {word}, but expected {wanted}", token, hint=self._hint(position, possible))

    def _report_unclosed(self, position: int, bracket: Token, possible: frozenset[str]) -> bool:
        """Report a bracket that is never closed; False if that is not the error."""
        token = self._tokens[position]
        ends = token.kind == t.END
        if token.kind == "}" and bracket.kind != "{" and self._first_on_line(position):
            ends = len(self._levels()) > 1
        elif self._begins_line_with_statement(position):
            outer = self._column(token) == 1 and token.text in expected.statements_of()["file"]
            in_block = bool(possible & STATEMENT_STARTS)
            ends = (outer or (not in_block and bracket.kind != "{")) and self._begins_statement(
                position, mid_line=False
            )
        cut_short = (self._source.text + "\n").find("\n", bracket.start)
        string_errors = [d.span.start for d in self.problems if d.code == "E0106" and d.span]
        if ends and not any(bracket.start < start < cut_short for start in string_errors):
            word = expected.token_name(token, self._keywords)
            note = Note(f"found {word} here, but expected {expected.describe_terminals(possible)}", self._span(token))
            message = f"this '{bracket.kind}' is never closed"
            self._report("E0104", message, bracket, note, hint=f"write '{_CLOSING[bracket.kind]}'")
        return ends

    def _report_misplaced(self, token: Token, bracket: Token | None) -> None:
        if token.text == "else":
            hint = "'else' follows directly after the '}' of an 'if'"
            self._report("E0103", "this 'else' has no 'if'", token, hint=hint)
            return
        body = self._body()
        homes = [home for home, words in expected.statements_of().items() if token.text in words and home != "file"]
        where = f"in the body of {_with_article(body)}" if body != "file" else "at the top of a file"
        if body == "file" and bracket is not None and bracket.kind == "{":
            where = "inside a block"
        hint = (
            f"it belongs in {phrase(map(_with_article, homes), 'or')}" if homes else "it belongs at the top of a file"
        )
        self._report("E0103", f"'{token.text}' is not allowed {where}", token, hint=hint)

    def _hint(self, position: int, possible: frozenset[str]) -> str:
        token, (previous, following) = self._tokens[position], self._neighbours(position)
        before, after = previous.kind if previous else "", following.kind
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
            return did_you_mean(token.text, sorted(possible & self._keywords - expected.ANYWHERE))
        return ""
