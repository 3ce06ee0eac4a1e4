"""The files that describe the package agree with each other and with the command line."""

from __future__ import annotations

import io
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from collc.command.cli import main, parse_arguments
from collc.version import __version__

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def releases(text: str) -> dict[str, set[str]]:
    """The headings of kinds of changes below each release of a changelog."""
    found: dict[str, set[str]] = {}
    for level, title in re.findall(r"^(##|###) (.+)$", text, re.MULTILINE):
        if level == "##":
            assert re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - 20\d\d-\d\d-\d\d", title), title
            found[title] = set()
        else:
            found[[*found][-1]].add(title)
    return found


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    found = releases((ROOT / "CHANGELOG.md").read_text())
    assert next(iter(found)) == "[Unreleased]"
    assert all(kinds and kinds <= CHANGES for kinds in found.values())


def test_a_wrong_heading_of_the_changelog_is_found() -> None:
    with pytest.raises(AssertionError):
        releases("## 1.0\n")


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]


def test_the_license_is_there_as_reuse_and_as_others_look_for_it() -> None:
    (note,) = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
    assert note["SPDX-License-Identifier"] == PROJECT["license"]
    assert (ROOT / "LICENSE").read_bytes() == (ROOT / "LICENSES" / f"{PROJECT['license']}.txt").read_bytes()


@pytest.mark.parametrize(
    "hook", yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()), ids=lambda hook: hook["id"]
)
def test_hooks_take_all_files_at_once(hook: dict[str, str]) -> None:
    program, *words = hook["entry"].split()
    assert program in PROJECT["scripts"]
    chosen = parse_arguments([*words, "a.coll", "b.coll"])
    assert chosen is not None
    assert chosen.files == [Path("a.coll"), Path("b.coll")]
    assert re.search(hook["files"], "parts/a.coll")


def test_check_goes_on_with_the_next_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"a": "let x = nothing\n", "b": "let y = 1\n", "c": "let z =\n"}.items():
        (tmp_path / f"{name}.coll").write_text(text)
    assert main(["check", *(str(tmp_path / f"{name}.coll") for name in "abc")]) == 1
    told = capsys.readouterr().err
    assert "a.coll:1:9" in told
    assert "b.coll" not in told
    assert "c.coll:1" in told
    assert main(["check", str(tmp_path / "b.coll"), str(tmp_path / "b.coll")]) == 0


def test_fmt_of_standard_input_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, out in ((["fmt", "-"], 0, "let x = 1\n"), (["fmt", "--check", "-"], 4, "")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"let   x=1\n")))
        assert main(words) == code
        assert capsys.readouterr().out == out
    assert not Path("-").exists()
