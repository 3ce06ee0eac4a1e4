"""Names use the terms of docs/glossary.md: words that it retires come back in no name of the package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "collc"

RETIRED: dict[str, tuple[str, ...]] = {
    "way": ("",),
    "strategy": ("",),
    "far": ("",),
    "told": ("",),
    "roam": ("",),
    "detour": ("",),
    "salt": ("",),
    "blame": ("",),
    "sweep": ("synthesis", "kernels", "passes", "ten"),
    "shop": ("",),
    "car": ("synthesis", "kernels"),
    "train": ("synthesis", "kernels"),
    "word": ("synthesis/symmetric",),
    "grid": ("synthesis", "kernels", "ten", "verification"),
    "lane": ("synthesis", "msccl", "kernels"),
    "place": ("synthesis", "msccl/lowering", "msccl/plans", "verification"),
}
"""Word -> folders of the package in which it is retired; "" is all of them. The plural is retired too."""

TERMS = {("open", "shop"), ("in", "place"), ("one", "way"), ("either", "way"), ("npu", "grid")}
"""Terms of the field that contain a retired word."""


def names(path: Path) -> Iterator[tuple[str, int]]:
    """The names of a module and of the classes, functions, parameters, variables and attributes that it defines."""
    yield path.stem if path.stem != "__init__" else path.parent.name, 1
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def retired_in(name: str, folder: str) -> str | None:
    """The first retired word of a name, None where there is none."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    for before, word in zip(["", *words], words, strict=False):
        folders = RETIRED.get(word) or RETIRED.get(word.removesuffix("s"), ())
        if (before, word) not in TERMS and any(folder.startswith(one) for one in folders):
            return word
    return None


def test_retired_words_do_not_come_back() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        folder = path.relative_to(PACKAGE).parent.as_posix().removeprefix(".")
        for name, line in names(path):
            if word := retired_in(name, folder):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name} has '{word}'")
    assert not found, "\n".join(found)


def test_every_retired_word_is_explained() -> None:
    table = (ROOT / "docs" / "glossary.md").read_text().partition("## Retired words")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")]
    explained = {word.removesuffix("s") for row in rows for word in re.findall(r"[a-z]+", row.lower())}
    assert explained >= set(RETIRED)


PHRASES = re.compile(r"\b(for ever|laid out anew|no good|chunks a block|does not go with)\b")
"""Phrases that messages, docstrings and documents had, and that stop the reader."""


def test_retired_phrases_do_not_come_back() -> None:
    folders = [PACKAGE, ROOT / "docs", ROOT / "stdlib", ROOT / "benchmarks"]
    paths = [ROOT / "README.md", *(path for folder in folders for path in folder.rglob("*") if path.is_file())]
    texts = {path: path.read_text() for path in paths if path.suffix in (".py", ".toml", ".md", ".coll")}
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}" for path, text in texts.items() for match in PHRASES.finditer(text)
    ]
    assert not found, "\n".join(found)
    assert PHRASES.search("the threads wait for ever")
    assert not PHRASES.search("one for every size")


def test_a_retired_word_is_seen() -> None:
    assert retired_in("BestWay", "ten") == "way"
    assert retired_in("find_ways", "synthesis/auto") == "ways"
    assert retired_in("open_shop", "synthesis/symmetric") is None
    assert retired_in("shop_of", "synthesis/symmetric") == "shop"
    assert retired_in("place", "source/parsing") is None
    assert retired_in("_place", "synthesis/pccl") == "place"
    assert retired_in("away", "ten") is None
