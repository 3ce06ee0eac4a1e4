"""The LALR(1) automaton: reads tokens with a parse table and calls the builder for each reduced rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from collc.source.parsing.build import Builder
from collc.source.parsing.table import KEEP, NONE, SPLICE, Rule, Table
from collc.source.parsing.tokens import END, NAME, Token

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
            kept.append(None if number == NONE else children[number])
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
        method = self._methods[number]
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
