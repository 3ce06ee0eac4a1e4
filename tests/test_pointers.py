"""What docstrings, comments and documents name exists: files, modules, sections of documents, codes of messages, names.

A pointer is recognised by its form:

- a path: a word that ends with `.py`, `.md`, `.lark` or `.toml`, or that begins with a folder of the project;
- a module: dotted words that begin with `collc.`;
- a section: a document of `docs/` with ", section 4.2" or ", sections 2 and 3" after it;
- a code: a letter of the catalogue and four digits;
- a name: a word with an underscore, as Python writes functions and variables.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import collc
from collc.codes import catalogue

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("collc", "tests", "benchmarks", "docs", "grammar", "stdlib", "examples")
PYTHON: Final = [path for folder in FOLDERS[:3] for path in sorted((ROOT / folder).rglob("*.py"))]
PROSE: Final = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

FOREIGN: Final = {"buffer_type", "rank_groups", "switch_channel_id", "reduce_op"}
"""Names of runtimes and of their files that the project mentions and does not use."""

_PATH: Final = re.compile(r"(?<![\w./*-])(?:[\w-]+/)*[\w-]+\.(?:py|md|lark|toml)\b(?![\w/*-])")
_FOLDER: Final = re.compile(
    rf"(?<![\w./*-])(?:{'|'.join(FOLDERS)})(?:/[\w-]+)+(?:\.\w+)?(?![\w-])(?![\w./*{{}}-]*[*{{}}<>])(?<!NAME)"
)
_FENCED: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MODULE: Final = re.compile(r"(?<![\w./-])collc(?:\.[a-z_]\w*)+(?![\w/])")
_SECTION: Final = re.compile(
    r"(docs/[\w-]+\.md),?\s+sections?\s+([\d.]+\d|\d)(?:(?:,\s+\d[\d.]*)*\s+(?:and|to)\s+(\d[\d.]*\d|\d))?"
)
_CODE: Final = re.compile(r"\b([CEMSTUVX]\d{4})\b")
_NAME: Final = re.compile(r"(?<![\w./\\$%{}<>#-])_?[a-z][a-z0-9]+(?:_[a-z0-9]+)+(?![\w./<>{}-]*[/<>{}])")


@cache
def prose(path: Path) -> tuple[tuple[int, str], ...]:
    """Docstrings and comments of a file of Python, each with its line."""
    return tuple(comments(path.read_text()))


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The same of a text. A string that is a statement is a docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@cache
def paths() -> frozenset[str]:
    """All files and folders of the project, relative to its root."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    found += [path for path in ROOT.iterdir() if path.is_file()]
    return frozenset(str(path.relative_to(ROOT)) for path in found) | set(FOLDERS)


@cache
def endings() -> frozenset[str]:
    """Every suffix of a path that names a file: `check/races.py` and `races.py` for one of them."""
    parts = [path.split("/") for path in paths()]
    return frozenset("/".join(one[begin:]) for one in parts for begin in range(len(one)))


@dataclass(frozen=True)
class Code:
    """What the code of a file contains: what it defines anywhere, and all names and words of texts that are code."""

    defined: frozenset[str]
    words: frozenset[str]


@cache
def code(path: Path) -> Code:
    lines = {line for line, _ in prose(path)}
    defined, words = set[str](), set[str]()
    word = re.compile(r"\w+")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            words.add(node.id)
            if isinstance(node.ctx, ast.Store):
                defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.arg | ast.keyword):
            words.add(node.arg or "")
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            words.add(node.name)
            defined.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.alias):
            words.update((node.asname or node.name).split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in lines:
            words.update(word.findall(node.value))
    return Code(frozenset(defined), frozenset(words))


@cache
def modules() -> frozenset[str]:
    """Dotted names of all modules and of what they define at their top."""
    found = set[str]()
    for path in PYTHON:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.add(name)
        found |= {f"{name}.{defined}" for defined in code(path).defined}
    found |= {f"collc.{name}" for name in dir(collc)}  # collectives of the standard library are functions, too
    return frozenset(found)


@cache
def names() -> frozenset[str]:
    """All words with an underscore in code, in texts of code, and in the project's other languages."""
    found = FOREIGN.union(*(code(path).words for path in set(PYTHON) - {Path(__file__)}))
    word = re.compile(r"\w+")
    found.update(path.stem for path in PYTHON)
    for path in [*ROOT.glob("pyproject.toml"), *(ROOT / "grammar").iterdir(), *ROOT.glob("*/**/*.coll")]:
        found.update(word.findall(path.read_text()))
    return frozenset(found)


@cache
def sections(document: str) -> frozenset[str]:
    """Numbers of the sections of a document, "4" and "6.2"."""
    return frozenset(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", (ROOT / document).read_text(), re.MULTILINE))


def dead(text: str) -> Iterator[str]:
    """The pointers of a text to what is not there."""
    yield from _dead_paths(text)
    yield from (f"module {match[0]}" for match in _MODULE.finditer(text) if match[0] not in modules())
    for match in _SECTION.finditer(text):
        if match[1] in paths():
            numbers = {match[2], match[3] or match[2]}
            yield from (f"{match[1]}, section {number}" for number in sorted(numbers - sections(match[1])))
    yield from (f"code {match[0]}" for match in _CODE.finditer(text) if match[0] not in catalogue())
    yield from (f"name {match[0]}" for match in _NAME.finditer(text) if match[0] not in names())


def _dead_paths(text: str) -> Iterator[str]:
    """The files and folders that a text names and that are not there. NAME is a place for a name."""
    for match in _PATH.finditer(text):
        if match[0] not in endings():
            yield f"file {match[0]}"
    for match in _FOLDER.finditer(text):
        if match[0] not in endings() and "NAME" not in match[0] and not _PATH.match(text, match.start()):
            yield f"folder {match[0]}"


@pytest.mark.parametrize("folder", ["collc", "tests", "benchmarks"])
def test_docstrings_and_comments_name_what_exists(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {pointer}"
        for path in PYTHON
        if path.relative_to(ROOT).parts[0] == folder
        for line, text in prose(path)
        for pointer in dead(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_documents_name_what_exists(path: Path) -> None:
    found = [*dead(_FENCED.sub("", path.read_text()))]
    assert not found, found


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("as in check/no_such_file.py", "file check/no_such_file.py"),
        ("see tests/msccl/nowhere", "folder tests/msccl/nowhere"),
        ("(collc.msccl.check.gone)", "module collc.msccl.check.gone"),
        ("(docs/msccl-contract.md, section 99)", "docs/msccl-contract.md, section 99"),
        ("(docs/msccl-contract.md, sections 2 and 98)", "docs/msccl-contract.md, section 98"),
        ("raises X9876", "code X9876"),
        ("what made_up_words says", "name made_up_words"),
    ],
)
def test_a_pointer_to_nothing_is_seen(text: str, pointer: str) -> None:
    assert [*dead(text)] == [pointer]


def test_pointers_to_what_exists_are_none() -> None:
    text = (
        "tests/test_house.py, check/races.py, collc.msccl.check.races.check_races, E0203, `check_races`, X0110 .. X0120"
    )
    assert not [*dead(text + " (docs/msccl-contract.md, section 6.2; docs/msccl-contract.md, sections 2 to 4)")]


def test_comments_and_docstrings_are_read_and_other_texts_are_not() -> None:
    text = '"""One."""\nx = "two"  # three\n"""Four."""\n'
    assert [said for _, said in comments(text)] == ['"""One."""'[3:-3], "Four.", "# three"]
