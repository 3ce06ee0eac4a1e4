"""The parse table of the grammar: Lark builds it, and it is stored as JSON beside the grammar, which saves 0.3 s a run.

`python -m collc.source.parsing.table` writes the file again after a change of the grammar. A stored table with the
digest of another grammar is ignored, and Lark builds the table in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from collc.base.resources import grammar_file
from collc.source.parsing import tokens
from collc.source.parsing.tokens import Scanner

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Rule as LarkRule

_Data = dict[str, Any]
"""A table as plain JSON data."""

_CLASSES: Final = {
    "COMMENT": tokens.COMMENT,
    "NAME": tokens.NAME,
    "STRING": tokens.STRING,
    "QUANTITY": tokens.QUANTITY,
    "FLOAT": tokens.FLOAT,
    "INT": tokens.INT,
}
"""Terminals of the grammar that match many texts, in the order in which the scanner tries them."""

KEEP: Final = "="
"""Method of a unit rule: its value is that of its only symbol."""

SPLICE: Final = "*"
"""Method of a rule whose values become values of the rule that contains it."""

NONE: Final = -1
"""Among the symbols that a tree keeps: an optional one that is absent."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One alternative of a grammar rule.

    origin: the symbol that it derives. size: number of symbols on its right side. method: what makes its value (see
    build.py), or KEEP or SPLICE. kept: the numbers of the symbols that a tree keeps, and NONE for optional ones that
    are absent. splices: the symbols that stand for several values.
    """

    origin: str
    size: int
    method: str
    kept: tuple[int, ...]
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


def _kept_symbols(rule: LarkRule) -> tuple[list[int], list[int]]:
    """The symbols of a rule that a tree keeps, and those that stand for several values (see Rule)."""
    kept: list[int] = []
    child = 0
    for empty in rule.options.empty_indices or [False] * len(rule.expansion):
        symbol = None if empty else rule.expansion[child]
        if symbol is None or rule.options.keep_all_tokens or not getattr(symbol, "filter_out", False):
            kept.append(NONE if empty else child)
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
    return sha256(text.encode()).hexdigest()


def _build(text: str) -> _Data:
    """The table as plain data; states and rules are numbered in the order in which they are reached from the start."""
    lark = lark_parser(text)
    patterns = {terminal.name: terminal.pattern for terminal in lark.terminals}
    kinds = {name: _CLASSES.get(name, pattern.value) for name, pattern in patterns.items()} | {"$END": tokens.END}
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


if __name__ == "__main__":
    write_table()
