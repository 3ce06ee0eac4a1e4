"""Samples of the fuzzers with fixed seeds, and that they find what they look for."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from collc.base.diagnostics import NoSchedule, SourceError
from collc.command import cli
from collc.source.elaboration.elaborate import load_program
from tests.fuzz import execution
from tests.fuzz.cases import KINDS, Case, case_of, programs, seed_files
from tests.fuzz.execution import run_case
from tests.fuzz.mutations import parts_of, spliced
from tests.fuzz.programs import random_program

SEED = 20261122


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return seed_files(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_sample_of_each_kind(kind: str, seeds: dict[str, bytes], tmp_path: Path) -> None:
    for number in range(25 if kind == "program" else 6):
        case = case_of(kind, SEED, number, seeds)
        assert not run_case(case, tmp_path / "case"), case.about


@pytest.mark.slow
def test_many_cases_of_all_kinds(tmp_path: Path) -> None:
    """A number of cases, not a time: the same ones on any machine."""
    words = [sys.executable, "-m", "tests.fuzz", "--cases", "500", "--seed", str(SEED), "--corpus", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "500 cases" in done.stdout


def test_the_same_seed_gives_the_same_cases(seeds: dict[str, bytes]) -> None:
    for kind in KINDS:
        assert case_of(kind, 5, 3, seeds) == case_of(kind, 5, 3, seeds)
        assert case_of(kind, 5, 3, seeds) != case_of(kind, 6, 3, seeds)


def test_many_random_programs_are_right(tmp_path: Path) -> None:
    right = 0
    for seed in range(10):
        (tmp_path / "p.coll").write_text(random_program(random.Random(seed)))
        with contextlib.suppress(SourceError, NoSchedule):
            right += len(load_program(tmp_path / "p.coll").schedules)
    assert right >= 4


def test_a_spliced_program_has_the_right_syntax() -> None:
    good = [text for text in programs() if parts_of(text)]
    chance = random.Random(3)
    changed = [spliced(chance.choice(good), good, chance) for _ in range(100)]
    assert sum(bool(parts_of(text)) for text in changed) >= 80
    assert not set(changed) <= set(good)


FAULTS = {
    "exit code 5": (5, "", "error: x"),
    "an internal error": (1, "", "Traceback (most recent call last)"),
    "without a word": (1, "", ""),
    "control characters": (1, "", "error: \x1b[2J"),
    "no JSON": (1, "oops", "error"),
    "without a place": (1, '{"diagnostics": [{"code": "E0201", "message": "m", "line": null, "notes": []}]}', "error"),
    "an empty message": (1, '{"diagnostics": [{"code": "", "message": "m", "line": null, "notes": []}]}', "error"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_command_says_wrong_is_found(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, out, err = FAULTS[name]

    def command(_words: object) -> int:
        print(out, end="")
        print(err, end="", file=sys.stderr)
        return code

    monkeypatch.setattr(execution, "main", command)
    found = run_case(Case("x", ("check", "p.coll", "--json"), {"p.coll": b""}), tmp_path / "case")
    assert any(name in one for one in found)


def test_what_a_command_does_wrong_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def command(_words: object) -> int:
        Path("kept").write_text("changed")
        Path(".half").write_text("")
        (Path("..") / "escaped").write_text("")
        end = os.times().user + 0.05
        while os.times().user < end:
            pass
        bytearray(1 << 20)
        return cli.Exit.SOURCE

    monkeypatch.setattr(execution, "main", command)
    monkeypatch.setattr(execution, "MOST_SECONDS", 0.01)
    found = run_case(Case("x", ("check", "--json"), {"kept": b""}), tmp_path / "case")
    for what in ("s of processor time", "files outside of the folder: ['escaped']", "kept was changed", "left behind"):
        assert any(what in one for one in found), what
