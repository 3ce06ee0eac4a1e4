"""`collc new` and `collc doctor`."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from collc.application.doctor import installation
from collc.base.resources import starters
from collc.command.cli import main
from collc.command.setup_commands import KINDS
from collc.smt import solver

pytestmark = pytest.mark.usefixtures("folder")


def test_new_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert sorted(line.split()[0] for line in lines) == [*starters()] == sorted(KINDS)
    assert all(line.endswith((".", "?")) for line in lines)


@pytest.mark.parametrize("kind", starters())
def test_starters_are_checked_and_formatted(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", kind]) == 0
    file = f"{kind}.coll"
    assert f"{file} written" in capsys.readouterr().err
    assert main(["check", file]) == 0
    assert main(["fmt", "--check", file]) == 0


@pytest.mark.parametrize("kind", [pytest.param("cluster", marks=pytest.mark.slow), "collective", "design", "mesh"])
def test_commands_of_starters_work(kind: str) -> None:
    """The commands in the first lines, but for those that take minutes."""
    assert main(["new", kind, "mine.coll"]) == 0
    lines = [line.removeprefix("#   collc ") for line in Path("mine.coll").read_text().splitlines()]
    commands = [line.split("    ")[0].split() for line in lines if not line.startswith("#") and "mine.coll" in line]
    assert len(commands) >= 2
    for words in commands:
        if words[0] not in ("tune", "sweep") and "nodes=4" not in words:
            assert main(words) == 0, words


def test_new_writes_over_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mesh.coll").write_text("mine")
    assert main(["new", "mesh"]) == 2
    assert capsys.readouterr().err == (
        "error[U0152]: there is a file mesh.coll already\nhelp: name another one: collc new mesh FILE.coll\n"
    )
    assert Path("mesh.coll").read_text() == "mine"
    assert main(["new", "mash"]) == 2
    assert "'cluster'" in capsys.readouterr().err


def parts(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, tuple[str, str]]:
    """Part -> (outcome, details) of `collc doctor --json`."""
    assert main(["doctor", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["diagnostics"] == []
    return {part["name"]: (part["outcome"], part["details"]) for part in answer["parts"]}


def test_doctor_finds_what_works(capsys: pytest.CaptureFixture[str]) -> None:
    found = parts(capsys)
    assert {"collc", "python", "machine", "standard library", "compiled functions", "proofs", "browser"} <= found.keys()
    assert found["proofs"][1].startswith("Z3 ")
    assert all(outcome != "failed" for outcome, _ in found.values())
    assert main(["doctor"]) == 0
    assert "proofs" in capsys.readouterr().out


def broken_solver(*_: object, **__: object) -> Any:
    raise OSError("libz3.so is missing")


def no_packages(_: str) -> list[str]:
    return ["numpy>=2", "nowhere-to-be-found>=1", 'not-there-either; extra == "png"']


@pytest.mark.parametrize(
    ("module", "name", "function", "part", "outcome", "details"),
    [
        (solver, "solve", broken_solver, "solver", "failed", "OSError: libz3.so is missing"),
        (metadata, "requires", no_packages, "packages", "failed", "not installed: nowhere-to-be-found"),
        (metadata, "requires", no_packages, "collc[png]", "absent", "not-there-either"),
        (installation.shutil, "which", lambda _: None, "browser", "absent", "the pages of 'collc show'"),
    ],
)
def test_doctor_finds_what_is_broken(
    module: object,
    name: str,
    function: Callable[..., Any],
    part: str,
    outcome: str,
    details: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, function)
    found = parts(capsys, 4 if function in (broken_solver, no_packages) else 0)
    assert found[part][0] == outcome
    assert details in found[part][1]


def test_doctor_names_an_open_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba import config

    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "open"))
    assert parts(capsys)["compiled functions"][0] == "absent"
