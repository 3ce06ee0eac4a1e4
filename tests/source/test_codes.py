"""The catalogue of messages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import collc
from collc.diagnostics import CollcError, SourceFile, UsageError
from collc.source.codes import catalogue
from collc.source.explain import explain
from collc.source.format import format_source
from collc.source.parse import parse

SYNTAX = [code for code in catalogue() if code.startswith("E01")]
USED = {
    code
    for path in Path(collc.__file__).parent.glob("**/*.py")
    for code in re.findall(r"\bE0[0-9]{3}\b", "\n".join(re.findall(r'"E0[0-9]{3}"', path.read_text())))
}


@pytest.mark.parametrize("code", SYNTAX)
def test_wrong_programs_are_wrong_and_right_ones_right(code: str) -> None:
    entry = catalogue()[code]
    with pytest.raises(CollcError) as caught:
        parse(SourceFile("wrong.coll", entry.wrong))
    assert {d.code for d in caught.value.diagnostics} == {code}
    assert format_source(SourceFile("right.coll", entry.right)) == entry.right


def test_every_code_of_the_syntax_is_explained_and_used() -> None:
    assert sorted(code for code in USED if code.startswith("E01")) == SYNTAX
    assert {"E0801", "E0806"} <= catalogue().keys()


def test_explain() -> None:
    text = explain("e0108")
    assert text.startswith("E0108: an unknown unit\n\n")
    assert "    let a = 5Mib" in text
    assert "    let a = 5MiB" in text
    with pytest.raises(UsageError) as caught:
        explain("E0198")
    assert "did you mean 'E01" in caught.value.diagnostics[0].hint
