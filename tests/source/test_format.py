"""The formatter keeps the syntax tree and all comments, and formatting its result changes nothing."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError, SourceFile
from collc.source.formatting.format import format_source
from collc.source.parsing.parse import parse
from collc.source.parsing.table import load_table
from tests.source.programs import EVERYTHING, plain, samples

SAMPLES = samples()


def laid_out(text: str) -> str:
    return format_source(SourceFile("test.coll", text))


def check(text: str) -> str:
    out = laid_out(text)
    assert plain(parse(SourceFile("a", text)).statements) == plain(parse(SourceFile("b", out)).statements)
    assert laid_out(out) == out
    return out


def comments(text: str) -> Counter[str]:
    """How often each comment occurs in a text; the formatter may have joined several on one line."""
    found = [t.text for t in load_table().scanner.scan(text, comments=True) if t.kind == "<comment>"]
    return Counter(" ".join(found).split())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SAMPLES)
def test_programs_keep_their_tree_and_their_comments(name: str) -> None:
    out = check(SAMPLES[name])
    assert comments(out) == comments(SAMPLES[name])
    assert not any(line != line.rstrip() for line in out.splitlines())


@given(st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_any_spacing_and_any_comments(chance: random.Random) -> None:
    """Line breaks, blanks and comments between any two tokens do not change the tree."""
    tokens = list(load_table().scanner.scan(chance.choice(list(SAMPLES.values()))))[:-1]
    start = chance.randrange(0, max(1, len(tokens) - 400))
    text = "".join(t.text + _gap(chance) for t in (tokens if len(tokens) < 400 else tokens[start : start + 400]))
    try:
        parse(SourceFile("a", text))
    except SourceError:
        return
    assert comments(check(text)) == comments(text)


def _gap(chance: random.Random) -> str:
    if chance.random() < 0.9:
        return " "
    return chance.choice(
        ["\n", "\n\n\n", "  \t ", f" # c{chance.randrange(99)}\n", f"\n  # own{chance.randrange(99)} \n", "\r\n"]
    )


def test_comments_in_empty_brackets() -> None:
    assert check("let a = f(# one\n) + g(\n# two\n)") == "let a = f(  # one\n) + g(\n    # two\n)\n"


@pytest.mark.parametrize("offset", range(4))
def test_a_comment_after_any_token(offset: int) -> None:
    tokens = list(load_table().scanner.scan(EVERYTHING))[:-1]
    marks = {offset: " # after{}\n", (offset + 2) % 4: "\n# own{}\n"}
    text = "".join(t.text + marks.get(i % 4, " ").format(i) for i, t in enumerate(tokens))
    assert comments(check(text)) == comments(text)


def test_a_long_statement_has_one_argument_a_line() -> None:
    name = "a_rather_long_name_of_a_topology"
    assert laid_out(f"topology {name} = {name}({name}, first: {name}, second: [1, 2])") == (
        f"topology {name} = {name}(\n    {name},\n    first: {name},\n    second: [1, 2]\n)\n"
    )


def test_matrices_are_aligned() -> None:
    assert laid_out("let m = [[0,10,2],[100,0,1],[1,1,0]]") == (
        "let m = [\n    [  0, 10, 2],\n    [100,  0, 1],\n    [  1,  1, 0]\n]\n"
    )


def test_comments_keep_their_positions() -> None:
    text = (
        "# head\n\nlet a = 1  # why\n# before\nif a {  # open\n    # inside\n}  # after\n\n"
        "let b = [\n    1,  # one\n    # own\n    2\n]\n# end\n"
    )
    assert laid_out(text) == text


def test_blank_lines_and_spaces() -> None:
    text = "\n\nlet  a=1\n\n\n\nlet b   =  -a+f( 1 ,x:2 )[ 0 ].c..9\ntopology t{\n\n npu n [2](inject:1GB/s) }\n\n"
    assert laid_out(text) == (
        "let a = 1\n\nlet b = -a + f(1, x: 2)[0].c..9\ntopology t {\n    npu n[2] (inject: 1GB/s)\n}\n"
    )


def test_an_empty_program_stays_empty() -> None:
    assert laid_out(" \n\n") == ""
    assert laid_out("# only this") == "# only this\n"


def test_a_wrong_program_is_an_error() -> None:
    with pytest.raises(SourceError):
        laid_out("let a = ")
