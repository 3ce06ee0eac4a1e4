"""Which statements each body takes, and how syntax messages name tokens: what was found, what was expected."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.base.wording import phrase
from collc.passes.synthesizers import COMMON
from collc.source.parsing import tokens as t
from collc.source.parsing.build import Builder
from collc.source.parsing.table import Automaton, load_table
from collc.source.parsing.tokens import Token

ANYWHERE: Final = frozenset({"let", "for", "if"})

HEADERS: Final[dict[str, str]] = {
    "topology": "topology x",
    "collective": "collective x()",
    "algorithm": "algorithm x() implements x()",
    "schedule": "schedule x on x",
    "workload": "workload x",
    "layer": "layer",
    "prices": "prices x",
    "design": "design x on x",
    "repeat": "repeat 0",
    "for": "for x in 0",
    "if": "if 0",
}
"""A valid head of each statement with a body: recovery parses it in place of a wrong head, then reads the body."""


@cache
def terminals_after(text: str) -> frozenset[str]:
    """The terminals that the grammar allows after the beginning of a program."""
    table = load_table()
    automaton = Automaton(table, Builder(SourceFile("", "")))
    for token in [*table.scanner.scan(text)][:-1]:
        automaton.feed(token)
    return automaton.allowed_terminals()


@cache
def statements_of() -> dict[str, frozenset[str]]:
    """The keywords of the statements of "file" and of each body, without ANYWHERE: what the grammar allows there."""
    heads = {"file": ""} | {body: f"{head} {{" for body, head in HEADERS.items() if body not in ("repeat", *ANYWHERE)}
    heads["layer"] = f"workload x {{ {heads['layer']}"
    return {body: frozenset(filter(str.isidentifier, terminals_after(head))) - ANYWHERE for body, head in heads.items()}


@cache
def all_statements() -> frozenset[str]:
    """Every keyword that begins a statement."""
    return ANYWHERE.union(*statements_of().values())


_CLASSES: Final = {t.NAME: "a name", t.INT: "a number", t.STRING: "a string", t.END: "the end of the file"}
_KINDS: Final = {t.INT: "number", t.FLOAT: "number", t.QUANTITY: "quantity", t.STRING: "string"}
_LONGEST: Final = 40


def token_name(token: Token, keywords: AbstractSet[str]) -> str:
    """The name of a token in a message."""
    if token.kind == t.END:
        return "the end of the file"
    text = token.text if len(token.text) <= _LONGEST else token.text[:_LONGEST] + "..."
    if token.kind == t.STRING:
        return f"the string {text}"
    if token.kind == t.NAME and token.text not in keywords:
        return f"the name '{text}'"
    kind = _KINDS.get(token.kind)
    return f"the {kind} '{text}'" if kind else f"'{text}'"


def describe_terminals(terminals: AbstractSet[str]) -> str:
    """The description of the expected terminals, without those that are allowed in every expression."""
    left = set(terminals)
    words: list[str] = []
    if {t.INT, t.STRING, "("} <= left:
        words.append("a value")
        left -= terminals_after("let x =")
    elif {"*", "+", "and"} <= left:
        left -= terminals_after("let x = x") - all_statements() - {t.END}
        words += [] if left else ["an operator"]
    if {"let"} < left:
        words.append("a new statement")
        left -= all_statements()
        left -= {t.END, "else"}
    signs = sorted(left - _CLASSES.keys(), key=lambda sign: (sign.isidentifier(), sign))
    words += [_CLASSES[kind] for kind in _CLASSES if kind in left]
    words += [f"'{sign}'" for sign in signs]
    return phrase(words, "or")


SIGN_HINTS: Final = {
    ";": "statements need no ';' after them",
    "?": "there is no 'a ? b : c'; use 'if' statements",
    "$": "names are used as they are, without '$'",
    "\u201c": 'write "..." with straight quotes',
    "\u201d": 'write "..." with straight quotes',
    "\u2018": 'write "..." with straight quotes',
    "\u2019": 'write "..." with straight quotes',
    "\u2192": "write '->'",
    "\u2194": "write '<->'",
    "\u2013": "write '-'",
    "\u00d7": "write '*'",
    "\u2264": "write '<='",
    "\u2265": "write '>='",
    "\u2260": "write '!='",
    "\u00a0": "write an ordinary space",
    "\ufeff": "save the file without a byte order mark",
}
"""Hints for signs that are not part of the language."""


def sign(text: str) -> str:
    """The name in messages of a sign that is not part of the language."""
    return f"'{text}'" if text.isprintable() and not text.isspace() else f"the character U+{ord(text):04X}"


def where_argument_stands(word: str, possible: AbstractSet[str]) -> str:
    """The hint for an argument that stands as a statement of a schedule, or "" if the word is none.

    possible: the tokens that could stand there.
    """
    if "synthesize" not in possible:
        return ""
    if word in COMMON:
        return f"it is an option of a synthesizer, as in 'synthesize auto({word}: ...)'"
    if word in {"size", "chunks"}:
        return f"it is an argument of a collective, as in 'run all_reduce(t.npus, {word}: ...)'"
    return ""


def number_hint(text: str) -> str:
    """The hint for a malformed number."""
    if "_" in text:
        return f"write '{text.replace('_', '')}'" if text.replace("_", "").isdigit() else ""
    if text[:2].lower() in {"0x", "0b", "0o"}:
        return "numbers are decimal"
    return "a number is '42', '0.5' or '1e9', a quantity '9MiB', '0.5us' or '50GiB/s'"
