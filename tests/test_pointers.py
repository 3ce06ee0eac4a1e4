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
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import collc
from collc.codes import catalogue

pytestmark = pytest.mark.slow  # reads the whole tree, as a linter does

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("collc", "tests", "benchmarks", "docs", "grammar", "stdlib", "starters", "examples")
PYTHON: Final = [path for folder in FOLDERS[:3] for path in sorted((ROOT / folder).rglob("*.py"))]
PROSE: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

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


def prose(path: Path) -> tuple[tuple[int, str], ...]:
    """Docstrings and comments of a file of Python, each with its line."""
    return parts(path.read_text())[0]


@cache
def parts(text: str) -> tuple[tuple[tuple[int, str], ...], frozenset[str]]:
    """Docstrings and comments with their lines, and all names and words of texts that are code.

    A string that is a statement is a docstring.
    """
    found: list[tuple[int, str]] = []
    words = set[str]()
    word = re.compile(r"\w+")
    begins, strings = True, list[tokenize.TokenInfo]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found.append((token.start[0], token.string))
        elif token.type == tokenize.STRING and begins:
            strings.append(token)
        elif token.type == tokenize.NEWLINE:
            found += [(one.start[0], ast.literal_eval(one.string)) for one in strings]
            begins, strings = True, []
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            for one in (*strings, token):
                words.update(word.findall(one.string))
            begins, strings = False, []
    return tuple(found), frozenset(words)


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


@cache
def definitions(path: Path) -> frozenset[str]:
    """What the code of a file defines anywhere."""
    defined = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
    return frozenset(defined)


@cache
def is_module(name: str) -> bool:
    """Whether a module has this dotted name, or defines its last part."""
    folder, last = ROOT.joinpath(*name.split(".")[:-1]), name.rpartition(".")[2]
    owners = [path for path in (folder.with_suffix(".py"), folder / "__init__.py") if path.exists()]
    there = (folder / f"{last}.py").exists() or (folder / last / "__init__.py").exists()
    return (
        there or any(last in definitions(path) for path in owners) or (folder.name == "collc" and hasattr(collc, last))
    )


@cache
def names() -> frozenset[str]:
    """All words with an underscore in code, in texts of code, and in the project's other languages."""
    found = FOREIGN.union(*(parts(path.read_text())[1] for path in set(PYTHON) - {Path(__file__)}))
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
    yield from (f"module {match[0]}" for match in _MODULE.finditer(text) if not is_module(match[0]))
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
    found, words = parts(text)
    assert ([said for _, said in found], words) == (["One.", "# three", "Four."], {"x", "two"})
