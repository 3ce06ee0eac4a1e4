"""The TextMate grammar of the extension for VS Code, and the lexer for Pygments, against the scanner and coll.lark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from pygments import token as pt

from collc.base.diagnostics import SourceFile
from collc.base.resources import grammar_file
from collc.editor.pygments_lexer import CollLexer
from collc.source.parsing.parse import parse
from collc.source.parsing.table import load_table
from collc.source.parsing.tokens import COMMENT, FLOAT, INT, NAME, QUANTITY, STRING

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "editors" / "vscode"
GRAMMAR = json.loads((FOLDER / "syntaxes" / "coll.tmLanguage.json").read_text())
PROGRAMS = sorted([*(ROOT / "examples").rglob("*.coll"), *(ROOT / "stdlib").glob("*.coll")])
SCOPES = {COMMENT: "comment", STRING: "string", INT: "constant.numeric", FLOAT: "constant.numeric"}
SCOPES[QUANTITY] = "constant.numeric.quantity"


def words_of_the_grammar() -> set[str]:
    return set(re.findall(r'"([a-z_]+)"', re.sub(r"//.*", "", grammar_file("coll.lark").read_text())))


def scopes(text: str) -> Iterator[tuple[int, int, str]]:
    """What a flat TextMate grammar makes of a text: at each position the first pattern that matches there."""
    patterns = [(pattern["name"], re.compile(pattern["match"], re.MULTILINE)) for pattern in GRAMMAR["patterns"]]
    place = 0
    while place < len(text):
        matches = ((name, pattern.match(text, place)) for name, pattern in patterns)
        name, match = next(((n, m) for n, m in matches if m is not None and m.end() > place), ("", None))
        if match is not None:
            yield place, match.end(), name
        place = match.end() if match is not None else place + 1


def test_the_keywords_are_those_of_the_grammar() -> None:
    kinds = re.compile(r"keyword\.(?!operator\.coll)|constant\.language")
    groups = [pattern["match"] for pattern in GRAMMAR["patterns"] if kinds.match(pattern["name"])]
    words = [word for group in groups for word in re.findall(r"[a-z_]{2,}", group)]
    assert sorted(words) == sorted(words_of_the_grammar())


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_grammar_colours_what_the_scanner_reads(path: Path) -> None:
    text = path.read_text()
    coloured = {start: (end, name) for start, end, name in scopes(text)}
    for token in load_table().scanner.scan(text, comments=True):
        if token.kind in SCOPES:
            end, name = coloured[token.start]
            assert end == token.end, token
            assert name.startswith(SCOPES[token.kind]), token
        elif token.kind == NAME:
            assert coloured[token.start][0] == token.end, token


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_lexer_keeps_the_text(path: Path) -> None:
    text = path.read_text()
    tokens = [*CollLexer().get_tokens_unprocessed(text)]
    assert "".join(part for _, _, part in tokens) == text
    assert all(text.startswith(part, start) for start, _, part in tokens)
    assert pt.Error not in {kind for _, kind, _ in tokens}


def test_kinds_of_the_lexer() -> None:
    text = 'let a = len([1MiB, "x"]) ? # c\nf(size: 1)'
    kinds = {part: kind for _, kind, part in CollLexer().get_tokens_unprocessed(text)}
    assert kinds["let"] is pt.Keyword
    assert kinds["len"] is pt.Name.Builtin
    assert kinds["1MiB"] is pt.Number
    assert kinds["?"] is pt.Error
    assert kinds["size"] is pt.Name.Attribute
    assert kinds["# c"] is pt.Comment.Single


def test_pygments_finds_the_lexer() -> None:
    names = {entry.name: entry.value for entry in entry_points(group="pygments.lexers")}
    if "coll" not in names:
        pytest.skip("collc was installed before it had the lexer")
    assert names["coll"] == "collc.editor.pygments_lexer:CollLexer"


def test_what_the_extension_names_exists() -> None:
    package: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
    given = package["contributes"]
    named = [given["grammars"][0]["path"], given["snippets"][0]["path"], given["languages"][0]["configuration"]]
    for name in [*named, package["main"]]:
        assert (FOLDER / name).is_file()
    assert GRAMMAR["scopeName"] == given["grammars"][0]["scopeName"]
    assert given["configuration"]["properties"]["collc.command"]["default"] == ["collc", "lsp"]


def test_snippets_are_programs() -> None:
    for snippet in json.loads((FOLDER / "snippets" / "coll.json").read_text()).values():
        text = "\n".join(snippet["body"])
        for number, value in re.findall(r"\$\{(\d):([^}]*)\}", text):
            text = text.replace(f"${{{number}:{value}}}", value).replace(f"${number}", value)
        parse(SourceFile(snippet["prefix"], text.replace("$0", "")))
