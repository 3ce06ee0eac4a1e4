"""Every code that collc can raise is in the catalogue of messages, and the catalogue has no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import collc
from collc.base.diagnostics import UsageError
from collc.codes import catalogue
from collc.codes.explain import explain

PACKAGE = Path(collc.__file__).parent
CODE = re.compile(r"[A-Z]\d{4}")
LETTERS = "CEMSTUVX"


@cache
def trees() -> dict[Path, ast.Module]:
    """The modules of the package; parsed by the process that needs them, not by each that collects tests."""
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Strings that are statements by themselves."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """All strings of a module that are no docstrings."""
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node


def raised(tree: ast.Module) -> set[str]:
    return {node.value for node in texts(tree) if CODE.fullmatch(node.value)}


@cache
def places() -> dict[str, str]:
    """A module that raises each code."""
    return {code: str(path) for path, tree in trees().items() for code in raised(tree)}


def test_every_code_that_can_be_raised_is_explained() -> None:
    assert {code: path for code, path in places().items() if code not in catalogue()} == {}


def test_no_code_is_explained_that_nothing_raises() -> None:
    assert catalogue().keys() - places().keys() == set()


def test_codes_with_unknown_letters_are_found() -> None:
    assert {code[0] for code in catalogue()} == set(LETTERS)
    assert raised(ast.parse('"""X9999"""\ndef f():\n    "X9998"\n    return fail("Z0001", "E0101 in a text")')) == {
        "Z0001"
    }


@pytest.mark.parametrize(("code", "hint"), [("E0l01", "did you mean 'E0101'?"), ("E9999", "codes look like 'E0101'")])
def test_only_a_code_with_one_other_letter_is_suggested(code: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain(code)
    assert caught.value.diagnostics[0].hint.startswith(hint)


def test_titles_are_unique() -> None:
    titles = [entry.title for entry in catalogue().values()]
    assert [title for title in titles if titles.count(title) > 1] == []


def test_entries_are_complete_and_in_one_style() -> None:
    for code, entry in catalogue().items():
        lines = entry.explanation.rstrip().splitlines()
        assert re.match(r"[a-z]|['\d]|XML|MSCCL|NPU|Z3", entry.title), f"{code}: a title begins in lower case"
        assert not entry.title.endswith("."), code
        assert lines[-1].strip()[-1] in ".:;?)" or lines[-1].startswith("    "), code
        assert "`" not in entry.title + entry.explanation, code
        assert max(map(len, lines)) <= 120, code
        assert explain(code.lower()).startswith(f"{code}: {entry.title}\n\n")


def test_each_file_has_the_codes_of_its_letter() -> None:
    for path in sorted((PACKAGE / "codes").glob("*.toml")):
        found = re.findall(r"^\[([A-Z]\d{4})\]$", path.read_text(), re.MULTILINE)
        assert found, path
        assert all(code.lower().startswith(path.stem) for code in found), path
