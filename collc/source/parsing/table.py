"""The LALR(1) parser: the parse table of the grammar, and the automaton that reads tokens with it.

Lark builds the table, and it is stored as JSON beside the grammar, which saves 0.3 s a run. `python -m
collc.source.parsing.table` writes the file again after a change of the grammar. A stored table with the digest of
another grammar is ignored, and Lark builds the table in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from collc.base.resources import grammar_file
from collc.source.limits import MAX_ARGUMENTS
from collc.source.parsing.build import Builder, too_many
from collc.source.parsing.tokens import END, NAME, Scanner, Token

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Rule as LarkRule


_Data = dict[str, Any]
"""A table as plain JSON data."""

_CLASSES: Final = {name: f"<{name.lower()}>" for name in ("COMMENT", "NAME", "STRING", "QUANTITY", "FLOAT", "INT")}
"""Terminals of the grammar that match many texts, in the order in which the scanner tries them."""

KEEP: Final = "="
"""Method of a unit rule: its value is that of its only symbol."""

SPLICE: Final = "*"
"""Method of a rule whose values become values of the rule that contains it."""

_LIMITED: Final = {
    "_list{argument}": "arguments",
    "_list{parameter}": "parameters",
    "_list{index}": "indices",
    "for_clauses": "loop variables",
}
"""The repetitions of the grammar that have at most MAX_ARGUMENTS items, and what these are called."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One alternative of a grammar rule.

    origin: the symbol that it derives. size: number of symbols on its right side. method: what makes its value (see
    build.py), or KEEP or SPLICE. kept: the numbers of the symbols that a tree keeps, and None for optional ones that
    are absent. splices: the symbols that stand for several values.
    """

    origin: str
    size: int
    method: str
    kept: tuple[int | None, ...]
    splices: frozenset[int]


@dataclass(frozen=True, slots=True)
class Table:
    """An LALR(1) table.

    actions: for each state, terminal -> the next state after a shift, or -1 - r to reduce by rule r.
    goto: for each state, nonterminal -> the next state. State 0 is the start state. keywords: the terminals that have
    the form of a name.
    """

    scanner: Scanner
    rules: tuple[Rule, ...]
    actions: tuple[dict[str, int], ...]
    goto: tuple[dict[str, int], ...]
    keywords: frozenset[str]


def lark_parser(text: str, *, strict: bool = False) -> Lark:
    """Lark's parser for a grammar. strict: conflicts and overlapping terminals are errors."""
    from lark import Lark

    return Lark(text, parser="lalr", lexer="contextual", start="file", strict=strict)


def _kept_symbols(rule: LarkRule) -> tuple[list[int | None], list[int]]:
    """The symbols of a rule that a tree keeps, and those that stand for several values (see Rule)."""
    kept: list[int | None] = []
    child = 0
    for empty in rule.options.empty_indices or [False] * len(rule.expansion):
        symbol = None if empty else rule.expansion[child]
        if symbol is None or rule.options.keep_all_tokens or not getattr(symbol, "filter_out", False):
            kept.append(None if empty else child)
        child += not empty
    splices = [i for i, symbol in enumerate(rule.expansion) if not symbol.is_term and symbol.name.startswith("_")]
    return kept, splices


def _method(rule: LarkRule) -> str:
    if rule.alias:
        return str(rule.alias)
    if rule.origin.name.startswith("_"):
        return SPLICE
    if rule.options.expand1:
        return KEEP
    return str(rule.options.template_source or rule.origin.name)


def _growing_keys(numbers: dict[int, int]) -> Iterator[int]:
    """The keys in order, including those that are added during the iteration."""
    done = 0
    while done < len(numbers):
        new = list(numbers)[done:]
        done += len(new)
        yield from new


def _digest(text: str) -> str:
    """The digest of a grammar without its comments, each in a line of its own."""
    rules = [line for line in text.splitlines() if line and not line.startswith("//")]
    return sha256("\n".join(rules).encode()).hexdigest()


def _build(text: str) -> _Data:
    """The table as plain data; states and rules are numbered in the order in which they are reached from the start."""
    lark = lark_parser(text)
    patterns = {terminal.name: terminal.pattern for terminal in lark.terminals}
    kinds = {name: _CLASSES.get(name, pattern.value) for name, pattern in patterns.items()} | {"$END": END}
    table = cast("Any", lark.parser).parser._parse_table
    rules: dict[LarkRule, int] = {}
    numbers: dict[int, int] = {table.start_states["file"]: 0}
    rows: list[list[dict[str, int]]] = []
    for state in _growing_keys(numbers):
        actions: dict[str, int] = {}
        goto: dict[str, int] = {}
        for symbol, (action, target) in sorted(table.states[state].items()):
            if str(action) != "Shift":
                actions[kinds[symbol]] = -1 - rules.setdefault(target, len(rules))
            elif symbol in kinds:
                actions[kinds[symbol]] = numbers.setdefault(target, len(numbers))
            else:
                goto[symbol] = numbers.setdefault(target, len(numbers))
        rows.append([actions, goto])
    return {
        "grammar": _digest(text),
        "classes": {kind: patterns[name].to_regexp() for name, kind in _CLASSES.items()},
        "signs": sorted(p.value for name, p in patterns.items() if name not in _CLASSES and not p.value.isidentifier()),
        "space": patterns["SPACE"].to_regexp(),
        "rules": [[rule.origin.name, len(rule.expansion), _method(rule), *_kept_symbols(rule)] for rule in rules],
        "states": rows,
    }


def _table(data: _Data) -> Table:
    rules = [
        Rule(origin, size, method, tuple(kept), frozenset(splices))
        for origin, size, method, kept, splices in data["rules"]
    ]
    actions, goto = zip(*data["states"], strict=True)
    keywords = frozenset(kind for row in actions for kind in row if kind.isidentifier())
    return Table(Scanner.of(data["classes"], data["signs"], data["space"]), tuple(rules), actions, goto, keywords)


def stored_table() -> Table | None:
    """The stored table, None if there is none or it belongs to another version of the grammar."""
    file = grammar_file("coll.json")
    if not file.exists():
        return None
    data: _Data = json.loads(file.read_text(encoding="utf-8"))
    return _table(data) if data["grammar"] == _digest(grammar_file("coll.lark").read_text(encoding="utf-8")) else None


def built_table() -> Table:
    """The table, built by Lark from the grammar in about 0.3 s."""
    return _table(_build(grammar_file("coll.lark").read_text(encoding="utf-8")))


@cache
def load_table() -> Table:
    """The table of coll.lark: the stored one, or a new one if that is out of date."""
    return stored_table() or built_table()


def write_table() -> None:
    """Store the table of the current grammar, one state a line, which keeps differences readable."""
    data = _build(grammar_file("coll.lark").read_text(encoding="utf-8"))
    fields: list[str] = []
    for key, value in data.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in cast("list[object]", value))
            fields.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            fields.append(f"{json.dumps(key)}: {json.dumps(value)}")
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    grammar_file("coll.json").write_text(text, encoding="utf-8")


STATEMENT_STARTS: Final = frozenset({"let", "forward"})
"""Keywords of which one is allowed exactly in the states in which a statement of a body can begin."""


class Unexpected(Exception):
    """Raised for a token that the grammar does not allow in the current state."""

    def __init__(self, token: Token) -> None:
        super().__init__(token.text)
        self.token = token


def accepts_statement(actions: Mapping[str, int]) -> bool:
    """Whether a statement of a body can begin in the state with these actions."""
    return any(actions.get(word, -1) >= 0 for word in STATEMENT_STARTS)


def _kept_children(rule: Rule, children: list[Any]) -> list[Any]:
    """The values of the symbols of a rule that a tree keeps, None for optional ones that are absent."""
    chosen, kept = rule.kept, list[Any]()
    if chosen and chosen[0] in rule.splices and rule.method == SPLICE:
        kept, chosen = children[chosen[0]], chosen[1:]  # extended in place: copies would make repetitions quadratic
    for number in chosen:
        if number in rule.splices:
            kept.extend(children[number])
        else:
            kept.append(None if number is None else children[number])
    return kept


class Automaton:
    """The state of a parse.

    states: the stack of parser states. values: for each state but the first, the value of the symbol that led to it:
    a token, or what the builder returned. A word is a keyword in the states whose table row contains it, and a name
    in all others, as with Lark's contextual lexer.
    """

    def __init__(self, table: Table, builder: Builder) -> None:
        self.states: list[int] = [0]
        self.values: list[Any] = []
        self._table = table
        self._keywords = table.keywords
        self._settled: dict[tuple[int, int, str], tuple[int, int | None]] = {}
        self._methods: list[Callable[..., Any] | None] = [
            None if rule.method in (KEEP, SPLICE) else builder.method(rule.method) for rule in table.rules
        ]
        repetitions = [re.fullmatch(r"__(.*)_star_[0-9]+", rule.origin) for rule in table.rules]
        self._limited = [_LIMITED.get(match[1]) if match else None for match in repetitions]

    def feed(self, token: Token) -> None:
        """Consume the next token. After END, the syntax tree is the only value. Raises Unexpected."""
        states, settled = self.states, self._settled
        word = token.text if token.kind == NAME and token.text in self._keywords else token.kind
        while True:
            place = (states[-2] if len(states) > 1 else 0, states[-1], word)
            known = settled.get(place)
            if known is None:
                known = settled[place] = self._settle(*place, token)
            states[-1], action = known
            if action is None:
                raise Unexpected(token)
            if action >= 0:
                states.append(action)
                self.values.append(token)
                return
            rule = self._table.rules[-1 - action]
            self._reduce(-1 - action, rule)
            if token.kind == END and rule.origin == "file":
                return

    def _settle(self, below: int, state: int, word: str, token: Token) -> tuple[int, int | None]:
        """The state after all unit reductions that are due, and its action; None if the token is not allowed.

        A unit rule passes the value of its only child through. A number passes one such rule for each level of
        operator precedence, so `feed` remembers the result for each (state below, state, token).
        """
        rows, goto, rules = self._table.actions, self._table.goto, self._table.rules
        while True:
            action = rows[state].get(word, rows[state].get(token.kind))
            if action is None or action >= 0 or rules[-1 - action].method != KEEP:
                return state, action
            state = goto[below][rules[-1 - action].origin]

    def _reduce(self, number: int, rule: Rule) -> None:
        states, values = self.states, self.values
        split = len(values) - rule.size
        children = values[split:]
        del values[split:], states[split + 1 :]
        kept = _kept_children(rule, children)
        method, limited = self._methods[number], self._limited[number]
        if limited is not None and len(kept) >= MAX_ARGUMENTS:  # and one before the repetition
            raise too_many(limited, kept[-1])
        if rule.splices and method is not None:  # the values of repetitions one by one
            children = [v for n, child in enumerate(children) for v in (child if n in rule.splices else (child,))]
        values.append(kept if method is None else method(children, kept))
        states.append(self._table.goto[states[-1]][rule.origin])

    # For recovery after an error

    def accepts(self, token: Token) -> bool:
        """Whether a token is allowed in the current state."""
        return self.accepts_at(len(self.states) - 1, token)

    def accepts_at(self, height: int, token: Token) -> bool:
        """Whether a token would be allowed if only the first `height` values had been read."""
        states = self.states[: height + 1]
        while True:
            row = self._table.actions[states[-1]]
            action = row.get(token.text) if token.kind == NAME else None
            action = row.get(token.kind) if action is None else action
            if action is None:
                return False
            if action >= 0:
                return True
            rule = self._table.rules[-1 - action]
            if rule.size:
                del states[-rule.size :]
            states.append(self._table.goto[states[-1]][rule.origin])
            if token.kind == END and rule.origin == "file":
                return True

    def allowed_terminals(self) -> frozenset[str]:
        """All terminals that are allowed in the current state."""
        words = [Token(NAME if k.isidentifier() else k, k, 0, 0) for k in self._table.actions[self.states[-1]]]
        return frozenset(word.text for word in words if self.accepts(word))

    def cut(self, height: int) -> None:
        """Discard all values but the first `height`."""
        del self.values[height:], self.states[height + 1 :]


if __name__ == "__main__":
    write_table()
