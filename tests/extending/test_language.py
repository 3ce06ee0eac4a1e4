"""The recipes of the language in docs/extending.md, followed: a collective, an algorithm, a keyword and a message."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import collc
from collc.application.verify.named_collectives import collective_named
from collc.base import resources
from collc.base.diagnostics import UsageError
from collc.simulation.bandwidth import bus_factor
from collc.source import scopes
from collc.source.standard_library import std_entries, textbook_names
from collc.ten import standard_collectives

ROOT = Path(__file__).parents[2]
PROGRAM = """
import std.topologies
import std.collectives
import std.algorithms
topology t = ring(4, bandwidth: 1GB/s, latency: 1us)
schedule s on t { run shift(t.npus, size: 4kB, chunks: 2) USING emit ten("s.ten") }
"""


def recipe(title: str) -> str:
    """A section of the page."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    return page.partition(f"## {title}\n")[2].partition("\n## ")[0]


def example(title: str) -> str:
    """The only block of code of a section."""
    (block,) = re.findall(r"^```\w*\n(.*?)^```$", recipe(title), re.MULTILINE | re.DOTALL)
    return block


CACHES = (standard_collectives.shapes, scopes._module_with, textbook_names)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The standard library with both declarations."""
    folder = tmp_path / "stdlib"
    shutil.copytree(ROOT / "stdlib", folder)
    for title, file in (("A collective", "collectives.coll"), ("A textbook algorithm", "algorithms.coll")):
        text = (folder / file).read_text(encoding="utf-8")
        (folder / file).write_text(f"{text}\n{example(title)}", encoding="utf-8")
    usual = resources._folder
    monkeypatch.setattr(resources, "_folder", lambda name: folder if name == "stdlib" else usual(name))
    for cached in CACHES:
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()


@pytest.mark.parametrize("using", ["", "using neighbours"])
def test_a_collective_is_one_declaration(library: None, tmp_path: Path, using: str) -> None:
    report = collc.compile(PROGRAM.replace("USING", using), output=tmp_path)
    assert report["s"].time_ps <= 6_000_000
    module = collc.load(tmp_path / "s.ten")
    assert module.demand.runs[0].standard is not None  # which the reader compared with the chunks
    assert module.demand.runs[0].standard.kind == "shift"


def test_every_part_finds_it(library: None) -> None:
    entries = {entry.name: entry for entry in std_entries()}
    assert entries["shift"].summary.startswith("Member i ends with the buffer of the member before it")
    assert textbook_names("shift") == ("neighbours",)
    shape = standard_collectives.shapes()["shift"]
    assert (shape.start, shape.end, shape.reduces, shape.parts(4), shape.blocks(4)) == ("block", "some", False, 1, 4)
    assert bus_factor("shift", 4) is None  # nccl-tests have no such collective
    with pytest.raises(UsageError, match="no collective named 'shift'"):
        collective_named("shift")  # its chunks do not follow from size, chunks and root


INSERTION = re.compile(r"^In `(\S+)`, before `([^\n]*)`:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_keyword_and_its_message(tmp_path: Path) -> None:
    for folder in ("collc", "grammar", "stdlib"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    insertions = INSERTION.findall(recipe("A keyword") + recipe("A message"))
    assert len(insertions) == 7
    for name, anchor, block in insertions:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert f"\n{anchor}\n" in text, (name, anchor)
        (tmp_path / name).write_text(text.replace(f"\n{anchor}\n", f"\n{block}{anchor}\n", 1), encoding="utf-8")
    entry = recipe("A message")
    wrong, right = (re.findall(rf"{word} = '''\n(.*?)'''", entry, re.DOTALL)[0] for word in ("wrong", "right"))
    (tmp_path / "wrong.coll").write_text(wrong)
    (tmp_path / "right.coll").write_text(right)
    (tmp_path / "misplaced.coll").write_text("chain n\n")

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    run("collc.source.parsing.table")
    assert "error" not in run("collc", "check", "right.coll")
    assert "'n' is no array of two or more devices" in run("collc", "check", "wrong.coll")
    assert "it belongs in a topology" in run("collc", "check", "misplaced.coll")
    assert "a chain of something else than an array" in run("collc", "explain", "E0330")
