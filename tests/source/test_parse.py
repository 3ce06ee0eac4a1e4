"""The parser against that of Lark, and against the rules of the language."""

from __future__ import annotations

import dataclasses
import random
import re
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark, Token
from lark.exceptions import UnexpectedInput

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span
from collc.base.resources import grammar_file
from collc.base.units import UNITS, Dimension
from collc.source.limits import MAX_BYTES, MAX_NESTING
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse
from collc.source.parsing.table import built_table, lark_parser, load_table, stored_table
from collc.source.parsing.tokens import quantity
from tests.source.programs import EVERYTHING, plain, samples

SAMPLES = samples()


@cache
def lark() -> Lark:
    """Loads only if the grammar is LALR(1) and no two terminals overlap."""
    return lark_parser(grammar_file("coll.lark").read_text(), strict=True)


def tree(text: str) -> s.File:
    return parse(SourceFile("test.coll", text))


def value(text: str) -> ex.Expr:
    (statement,) = tree(f"let a = {text}").statements
    assert isinstance(statement, s.Let)
    return statement.value


def shape(node: ex.Expr) -> str:
    """An expression with all its brackets."""
    match node:
        case ex.Binary(operator=o, left=a, right=b):
            return f"({shape(a)} {o} {shape(b)})"
        case ex.Unary(operator=o, operand=a):
            return f"({o} {shape(a)})"
        case ex.Range(low=a, high=b):
            return f"({shape(a)} .. {shape(b)})"
        case ex.Comparison(operators=o, operands=a):
            return "(" + shape(a[0]) + "".join(f" {x} {shape(y)}" for x, y in zip(o, a[1:], strict=True)) + ")"
        case ex.Name(name=name):
            return name
        case ex.Member(base=a, member=m):
            return f"{shape(a)}.{m.name}"
        case ex.IntLiteral(value=v):
            return str(v)
    raise AssertionError(node)


def accepts(text: str) -> bool:
    """Whether the grammar accepts a text, apart from errors that a grammar cannot express."""
    try:
        tree(text)
    except SourceError as error:
        return all(d.code in {"E0108", "E0110", "E0111", "E0115", "E0117", "E0118", "E0806"} for d in error.diagnostics)
    return True


def messages(text: str) -> tuple[Diagnostic, ...]:
    """The messages about a text, none if it is a program."""
    try:
        tree(text)
    except SourceError as error:
        return error.diagnostics or (Diagnostic("", "an error without a message"),)
    return ()


def lark_accepts(text: str) -> bool:
    """Whether Lark accepts a text, without reading a part of a word as a keyword (`int` as `in t`), as Lark does."""
    try:
        words = lark().parse(text).scan_values(lambda value: isinstance(value, Token) and value.isidentifier())
    except UnexpectedInput:
        return False
    return not any(re.match(r"\w", text[word.end_pos :]) for word in words)


def test_lark_reads_parts_of_words_as_keywords() -> None:
    glued = "param a = b int"
    assert lark().parse(glued)
    assert not lark_accepts(glued)
    assert not accepts(glued)


def test_the_stored_table_is_that_of_the_grammar() -> None:
    stored, built = stored_table(), built_table()
    assert stored is not None, "run `python -m collc.source.parsing.table` after a change of the grammar"
    assert len(stored.actions) == len(built.actions)
    assert stored.keywords == built.keywords


@pytest.mark.parametrize("name", SAMPLES)
def test_every_program_parses_here_and_in_lark(name: str) -> None:
    assert tree(SAMPLES[name]).statements
    assert lark_accepts(SAMPLES[name])


@given(st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_programs_are_accepted_exactly_where_lark_accepts_them(chance: random.Random) -> None:
    words = [token.text for token in load_table().scanner.scan(EVERYTHING)]
    start = chance.randrange(len(words) - 30)
    words = words[start : start + 30] if chance.random() < 0.3 else words
    for _ in range(chance.randrange(3)):
        i = chance.randrange(len(words))
        words[i : i + chance.randrange(2)] = chance.choices(words, k=chance.randrange(3))
    text = " ".join(words)
    assert accepts(text) == lark_accepts(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
@settings(max_examples=120, deadline=None)
def test_any_text_is_a_program_or_has_messages(text: str) -> None:
    assert all(d.span and 0 <= d.span.start <= d.span.end <= len(text) for d in messages(text))


@given(st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_recovery_reads_damaged_programs_to_the_end(chance: random.Random) -> None:
    text = chance.choice(list(SAMPLES.values()))
    start = chance.randrange(len(text))
    text = text[start : start + 800]
    for _ in range(chance.randrange(1, 8)):
        i = chance.randrange(len(text) + 1)
        new = chance.choice(["", "{", "}", "(", "]", '"', "\n", "for", "=", "9", ",", "é"])
        text = text[:i] + new + text[i + chance.randrange(3) :]
    reported = messages(text)
    assert all(d.code and d.message for d in reported)
    assert len(reported) <= 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 ** 4 ** 5", "(1 + (2 * (3 ** (4 ** 5))))"),
        ("-a ** -b", "(- (a ** (- b)))"),
        ("a - b - c", "((a - b) - c)"),
        ("a // b % c / d", "(((a // b) % c) / d)"),
        ("not a == b and c or d", "(((not (a == b)) and c) or d)"),
        ("a | b ^ c & d << e + f", "(a | (b ^ (c & (d << (e + f)))))"),
        ("0 .. n - 1 < b", "((0 .. (n - 1)) < b)"),
        ("a in 0..8", "(a in (0 .. 8))"),
        ("a < b <= c not in d", "(a < b <= c not in d)"),
        ("(a + b) * c", "((a + b) * c)"),
        ("t.npu.link", "t.npu.link"),
    ],
)
def test_precedence_of_operators(text: str, expected: str) -> None:
    assert shape(value(text)) == expected


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_is_read(unit: str) -> None:
    dimension, scale = UNITS[unit]
    number = Fraction(2) if unit == "B" else Fraction(5, 2)
    assert quantity(f"{float(number):g}{unit}") == (dimension, scale * number)
    node = value(f"{float(number):g}{unit}")
    assert isinstance(node, ex.QuantityLiteral)
    assert (node.dimension, node.value) == (dimension, scale * number)


def test_numbers() -> None:
    assert plain(value("0..8")) == ("Range", ("IntLiteral", 0), ("IntLiteral", 8))
    assert plain(value("1e9")) == ("FloatLiteral", Fraction(10**9))
    assert plain(value("0.1")) == ("FloatLiteral", Fraction(1, 10))
    assert plain(value("1.5e3ns")) == ("QuantityLiteral", Dimension.TIME, Fraction(1_500_000))
    assert plain(value("9MiB/s")) == ("QuantityLiteral", Dimension.RATE, Fraction(9 * 2**20))
    assert plain(value('"a\\"b\\\\"')) == ("StringLiteral", 'a"b\\')


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", Fraction(1, 1000)), ("1E+3", Fraction(1000)), ("1.5e-3", Fraction(3, 2000))]
)
def test_an_exponent_may_have_a_sign(text: str, value: Fraction) -> None:
    statement = tree(f"let a = {text}").statements[0]
    assert isinstance(statement, s.Let)
    assert isinstance(statement.value, ex.FloatLiteral)
    assert statement.value.value == value


def test_spans() -> None:
    text = "let a = (b + c) * f(1, x: 2)"
    node = value(text.removeprefix("let a = "))
    assert isinstance(node, ex.Binary)
    assert isinstance(node.right, ex.Call)

    def at(span: Span) -> str:
        return text[span.start : span.end]

    assert at(node.span) == "(b + c) * f(1, x: 2)"
    assert at(node.left.span) == "(b + c)"
    assert at(node.right.arguments[1].span) == "x: 2"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_node_is_inside_its_parent(name: str) -> None:
    def check(node: object, outer: Span | None) -> None:
        if isinstance(node, tuple):
            for part in node:
                check(part, outer)
        elif isinstance(node, ex.Node):
            assert outer is None or (outer.start <= node.span.start <= node.span.end <= outer.end)
            for field in dataclasses.fields(node):
                check(getattr(node, field.name), node.span)

    check(tree(SAMPLES[name]).statements, None)


@pytest.mark.parametrize(
    ("before", "middle", "after"),
    [("let a = ", "(", "1"), ("let a = ", "-", "1"), ("let a = ", "[", "1"), ("", "if true {", "")],
)
def test_nesting_is_limited(before: str, middle: str, after: str) -> None:
    close = {"(": ")", "[": "]", "if true {": "}"}.get(middle, "")
    for levels, fine in ((MAX_NESTING - 1, True), (MAX_NESTING + 1, False), (5_000, False)):
        text = before + middle * levels + after + close * levels
        assert accepts(text)
        if fine:
            tree(text)
        else:
            with pytest.raises(SourceError, match="64 levels"):
                tree(text)


def test_long_chains_are_errors_not_crashes() -> None:
    for text in ("let a = 1" + " + 1" * 5000, "let a = t" + ".x" * 5000, "if a {}" + " else if a {}" * 5000):
        with pytest.raises(SourceError, match="64 levels"):
            tree(text)


def test_a_file_of_more_than_16_mib_is_an_error() -> None:
    for text in ("#" * (MAX_BYTES + 1), "#" + "é" * (MAX_BYTES // 2)):
        with pytest.raises(SourceError) as caught:
            tree(text)
        assert caught.value.diagnostics[0].code == "E0801"


def test_several_errors_are_reported_at_once() -> None:
    text = "lett a = 1\ntopology t {\n    npu n[\n    link a b\n    run x()\n}\nlet b = 5Mib;\n"
    with pytest.raises(SourceError) as caught:
        tree(text)
    reported = [(d.code, d.span.line) for d in caught.value.diagnostics if d.span]
    assert reported == [("E0102", 1), ("E0104", 3), ("E0101", 4), ("E0103", 5), ("E0108", 7), ("E0107", 7)]
