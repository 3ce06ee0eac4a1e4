"""The LALR(1) automaton that reads a file by its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collc.source.parsing.build import Builder
from collc.source.parsing.table import KEEP, NONE, SPLICE, Rule, Table
from collc.source.parsing.tokens import END, NAME, Token


class Unexpected(Exception):
    """A token that cannot stand where it came."""

    def __init__(self, token: Token) -> None:
        super().__init__(token.text)
        self.token = token


def _word(kind: str) -> Token:
    return Token(NAME if kind.isidentifier() else kind, kind if kind.isidentifier() else "", 0, 0)


def _arranged(rule: Rule, children: list[Any]) -> list[Any]:
    """The arguments that the plan of a rule makes of its children."""
    plan = rule.plan
    arguments: list[Any] = []
    if plan and plan[0] in rule.splices and rule.method == SPLICE:
        arguments, plan = children[0], plan[1:]  # a repetition grows in place: else a long one takes for ever
    for child in plan:
        if child in rule.splices:
            arguments.extend(children[child])
        else:
            arguments.append(None if child == NONE else children[child])
    return arguments


class Automaton:
    """On its way through a file: the states passed and, for each but the first, the value read on the way to it.

    A word is a keyword where the table has it in this state, and a name elsewhere, as Lark's contextual lexer has it.
    """

    def __init__(self, table: Table, builder: Builder) -> None:
        self.states: list[int] = [0]
        self.values: list[Any] = []
        self._table = table
        self._keywords = table.keywords
        self._settled: dict[tuple[int, int, str], tuple[int, int | None]] = {}
        self._methods: list[Callable[..., Any] | None] = [
            None if rule.method in (KEEP, SPLICE) else getattr(builder, rule.method) for rule in table.rules
        ]
        self._whole = [not rule.splices and rule.plan == tuple(range(rule.size)) for rule in table.rules]

    def feed(self, token: Token) -> None:
        """Take the next token; after END, the file is the one value left. Raises Unexpected."""
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
        """The state after the rules that keep their only child, and what to do there; None: nothing can be done.

        A number passes one such rule for every rank of operators, so they are gone through once for each situation.
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
        arguments = children if self._whole[number] else _arranged(rule, children)
        method = self._methods[number]
        values.append(arguments if method is None else method(*arguments))
        states.append(self._table.goto[states[-1]][rule.origin])

    # For the time after an error

    def accepts(self, token: Token) -> bool:
        """Whether a token can stand here."""
        return self.accepts_at(len(self.states) - 1, token)

    def accepts_at(self, height: int, token: Token) -> bool:
        """Whether a token could stand here if only `height` values had been read."""
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

    def acceptable(self) -> frozenset[str]:
        """Every terminal that can stand here."""
        return frozenset(kind for kind in self._table.actions[self.states[-1]] if self.accepts(_word(kind)))

    def cut(self, height: int) -> None:
        """Forget all values but the first `height`."""
        del self.values[height:], self.states[height + 1 :]
