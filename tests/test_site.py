"""The pages of the site that are made from the code, and the tutorial, whose commands run as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import collc
from collc.codes import catalogue
from collc.command.cli import main, parsers
from collc.source.standard_library import std_entries

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import reference  # noqa: E402
import site_pages  # noqa: E402

sys.path.pop(0)


def test_the_page_of_commands_has_every_option() -> None:
    sections = reference.commands_page().split("\n## collc ")[1:]
    _, of_command = parsers()
    assert [section.partition("\n")[0] for section in sections] == [*of_command]
    for section, parser in zip(sections, of_command.values(), strict=True):
        flags = {flag for action in parser._actions for flag in action.option_strings} - {"-h", "--help"}
        assert {flag for flag in flags if flag not in re.findall(r"--?[\w-]+", section)} == set()


def test_other_pages_have_every_code_declaration_and_name() -> None:
    messages = reference.messages_page()
    assert re.findall(r"^## ([A-Z]\d{4}): ", messages, re.MULTILINE) == [*catalogue()]
    std = reference.std_page()
    assert all(entry.source.strip() in std for entry in std_entries())
    assert "\nlet " in std.partition("## std.links")[2].partition("\n## ")[0]
    python = reference.python_page()
    names = {name for name in collc.__all__ if not name.startswith("_")}
    assert {*re.findall(r"^## collc\.(\w+)", python, re.MULTILINE)} == names
    assert "collc.compile(" in python


@pytest.mark.parametrize(
    ("text", "expected"), [("a_b `c_d` <e>", r"a\_b `c_d` \<e\>"), ("[*]", r"\[\*\]"), ("--x", "--x")]
)
def test_only_code_has_a_meaning(text: str, expected: str) -> None:
    assert reference.plain(text) == expected


def test_all_pages_are_in_the_table_of_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what they link to is a page; Sphinx, which also checks the sections, is not needed for this."""
    documents = tmp_path / "documents"
    shutil.copytree(ROOT / "docs", documents)
    (documents / "new-page.md").write_text("# New\n")
    monkeypatch.setattr(site_pages, "DOCS", documents)
    tmp_path /= "site"
    site_pages.stage(tmp_path)
    listed = re.findall(r"^[\w/-]+$", (tmp_path / "index.md").read_text(), re.MULTILINE)
    pages = {page.relative_to(tmp_path).with_suffix("").as_posix() for page in tmp_path.rglob("*.md")}
    assert {page for page in pages if not re.match(r"decisions/\d", page)} == {"index", *listed}
    assert "new-page" in listed
    assert sum(name.startswith("!") for name in (tmp_path / "gallery" / "gallery.md").read_text().splitlines()) >= 20
    for page in tmp_path.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)", _without_code(page.read_text())):
            assert (page.parent / target).is_file(), (page.name, target)


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def sessions(page: str) -> list[tuple[list[str], str]]:
    """The commands of the blocks `console` and what they print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(part.partition("\n")[0]), part.partition("\n")[2]) for part in parts]


def pattern(output: str) -> str:
    """A pattern of an output in which a line "..." stands for any lines."""
    return "".join("(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in output.splitlines(keepends=True))


def test_the_commands_of_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = re.findall(r"into\s`([\w.]+)`:\n\n```\w+\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["topo.txt", "sum.coll"]
    for name, text in files:
        Path(name).write_text(text)
    steps = sessions(TUTORIAL)
    assert [words[1] for words, _ in steps] == ["import", "topology", "compile", "verify", "run"]
    for words, expected in steps:
        assert main(words[1:]) == 0
        printed = capsys.readouterr()
        assert re.fullmatch(pattern(expected), printed.out + printed.err), (words, printed.out + printed.err)


def test_a_wrong_output_is_found() -> None:
    assert re.fullmatch(pattern("a\n...\nb\n"), "a\nx\ny\nb\n")
    assert not re.fullmatch(pattern("a\n...\nb\n"), "a\nx\ny\n")
    assert sessions("```console\n$ collc x 'y z'\na\n$ collc w\n```\n") == [
        (["collc", "x", "y z"], "a\n"),
        (["collc", "w"], ""),
    ]
