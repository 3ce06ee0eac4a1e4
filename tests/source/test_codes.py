"""The catalogue of messages."""

from __future__ import annotations

import pytest

from collc.base.diagnostics import CollcError, SourceFile, UsageError
from collc.codes import catalogue
from collc.codes.explain import explain
from collc.source.formatting.format import format_source
from collc.source.parsing.parse import parse

SYNTAX = [code for code in catalogue() if code.startswith("E01")]


@pytest.mark.parametrize("code", SYNTAX)
def test_wrong_programs_yield_the_code_and_right_ones_parse(code: str) -> None:
    entry = catalogue()[code]
    with pytest.raises(CollcError) as caught:
        parse(SourceFile("wrong.coll", entry.wrong))
    assert {d.code for d in caught.value.diagnostics} == {code}
    assert format_source(SourceFile("right.coll", entry.right)) == entry.right


def test_explain() -> None:
    text = explain("e0108")
    assert text.startswith("E0108: an unknown unit\n\n")
    assert "    let a = 5Mib" in text
    assert "    let a = 5MiB" in text
    with pytest.raises(UsageError) as caught:
        explain("E0198")
    assert "did you mean 'E01" in caught.value.diagnostics[0].hint
