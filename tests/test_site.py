"""The pages of the site that are made from the code, and those with commands, which run as they stand."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import collc
from collc.application.file_kinds import FILE_KINDS
from collc.codes import catalogue
from collc.command.cli import main, parsers
from collc.emit.kinds import EMIT_KINDS
from collc.machines.kinds import import_kinds
from collc.source.standard_library import std_entries

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import gallery  # noqa: E402
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
    formats = reference.formats_page()
    rows = {*re.findall(r"^\| `(\w[\w-]*)` \|", formats, re.MULTILINE)}
    assert rows == {*EMIT_KINDS, *import_kinds()}
    assert all(reference.plain(kind.title) in formats for kind in FILE_KINDS.values())
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
    site_pages.stage(tmp_path, compiles=False)
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


def sessions(page: str) -> list[tuple[list[str], str]]:
    """The commands of the blocks `console` and what they print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(part.partition("\n")[0]), part.partition("\n")[2]) for part in parts]


def pattern(output: str) -> str:
    """A pattern of an output in which a line "..." stands for any lines, and "..." in a line for any text."""
    lines = (re.escape(line).replace(r"\.\.\.", ".*") for line in output.splitlines(keepends=True))
    return "".join("(?:.*\n)*?" if line == ".*\\\n" else line for line in lines)


def files_of(page: str) -> list[tuple[str, str]]:
    """The files that a page says to write, each after a line that ends with its name: name and text."""
    return re.findall(r"`([\w.-]+)`:\n\n```[\w ]+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def follow(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Write the files of a page into the current folder, run its commands, and compare what they print."""
    Path("examples").symlink_to(ROOT / "examples")
    for name, text in files_of(page):
        Path(name).write_text(text)
    for words, expected in sessions(page):
        assert main(words[1:]) == 0
        printed = capsys.readouterr()
        assert re.fullmatch(pattern(expected), printed.out + printed.err), (words, printed.out + printed.err)


def test_the_commands_of_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert [name for name, _ in files_of(page)] == ["topo.txt", "sum.coll"]
    assert [words[1] for words, _ in sessions(page)] == ["import", "topology", "compile", "verify", "run"]
    follow(page, capsys)


PAGES = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}


def with_output(page: str) -> list[str]:
    """The commands of collc in a page that show what they print."""
    return re.findall(r"^\$ (collc .*)\n(?!\$|```)", page, re.MULTILINE)


def test_what_commands_print_is_compared() -> None:
    for path, page in PAGES.items():
        assert with_output(page) == [shlex.join(words) for words, expected in sessions(page) if expected], path
    assert with_output("```text\n$ collc x\n```\n```\n$ collc y\nz\n```\n") == ["collc y"]


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, page in PAGES.items() if sessions(page)])
def test_the_commands_of_pages(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    follow(PAGES[path], capsys)


def test_a_wrong_output_is_found() -> None:
    assert re.fullmatch(pattern("a\n...\nb\n"), "a\nx\ny\nb\n")
    assert not re.fullmatch(pattern("a\n...\nb\n"), "a\nx\ny\n")
    assert re.fullmatch(pattern("a ... c.\n"), "a b c.\n")
    assert not re.fullmatch(pattern("a ... c.\n"), "a b\nc.\n")
    assert sessions("```console\n$ collc x 'y z'\na\n$ collc w\n```\n") == [
        (["collc", "x", "y z"], "a\n"),
        (["collc", "w"], ""),
    ]


def test_programs_that_move_have_results_and_a_picture() -> None:
    program = (
        "import std.topologies\nimport std.collectives\ntopology loop = ring(4, bandwidth: 50GB/s, latency: 1us)\n"
    )
    program += "schedule s on loop { run all_gather(loop.npus, size: 4MiB) }\n"
    text = f"As in `a.coll`:\n\n```coll moving\n{program}```\n\nMore.\n"
    shown, files = gallery.with_moving_pictures(Path("explanations", "x.md"), text)
    assert list(files) == ["x-a-s.html"]
    assert "<canvas" in files["x-a-s.html"]
    assert '<iframe src="../moving/x-a-s.html"' in shown
    assert re.search(r"^\| s \| loop \(4 NPUs, 8 links\) \| symmetric \| 2 \|", shown, re.MULTILINE)
    assert shown.startswith(f"As in `a.coll`:\n\n```coll\n{program}```\n")
    assert shown.endswith("\nMore.\n")


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "page.html").write_text(
        '<h1 id="here">A</h1><a href="#here">1</a><a href="#lost">2</a><a href="../b.html#x%20y">3</a>'
        '<iframe src="../moving/none.html"></iframe><a href="https://example.org/#z">4</a><a href="../b.html#z">5</a>'
    )
    (tmp_path / "b.html").write_text('<p id="x y">B</p>')
    assert site_pages.dead_links(tmp_path) == [
        "a/page.html: #lost",
        "a/page.html: ../b.html#z",
        "a/page.html: ../moving/none.html",
    ]
