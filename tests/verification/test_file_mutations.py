"""No wrong file is accepted: random changes of files of every synthesizer, judged by a second reader of the text."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from collc.application.verify.file_verification import Expectation, verify_file
from collc.base.diagnostics import CollcError
from tests.verification.file_mutants import HEADS, PROGRAMS, file_of, line_mutant
from tests.verification.judge import faults

QUICK = ("tacos", "pccl_sums", "queued_limited", "groups")
"""The programs whose files the quick part of the campaign changes."""


def outcome(text: str, path: Path) -> str:
    """What `collc verify` says of a text: "accepted", "refused", or "unreadable"."""
    path.write_text(text)
    try:
        report = verify_file(path, Expectation())
    except CollcError:
        return "refused"
    return "accepted" if report.ok else "unreadable" if report.unreadable else "refused"


def judge_both(name: str, text: str, path: Path, counts: Counter[str]) -> None:
    """Assert that no file is accepted that the second judge refuses, and that the checks refuse no right one."""
    found, wrong = outcome(text, path), faults(text)
    counts[found] += 1
    assert found != "accepted" or not wrong, (name, wrong, path.rename(path.with_name("accepted.ten")))
    assert found != "refused" or wrong, (name, path.rename(path.with_name("refused.ten")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_files_of_every_synthesizer_are_right(name: str, tmp_path: Path) -> None:
    counts = Counter[str]()
    judge_both(name, file_of(name), tmp_path / "m.ten", counts)
    assert counts["accepted"] == 1


@pytest.mark.parametrize("head", HEADS)
def test_changed_heads(head: str, tmp_path: Path) -> None:
    counts = Counter[str]()
    for name in QUICK:
        rng = random.Random(f"{name} {head}")
        for text in {HEADS[head](file_of(name), rng) for _ in range(3)}:
            judge_both(f"{name}: {head}", text, tmp_path / "m.ten", counts)


@pytest.mark.parametrize("name", QUICK)
def test_changed_lines(name: str, tmp_path: Path) -> None:
    counts, rng = Counter[str](), random.Random(name)
    for _ in range(40):
        judge_both(name, line_mutant(file_of(name), rng), tmp_path / "m.ten", counts)
    assert min(counts["accepted"], counts["refused"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_changes(name: str, tmp_path: Path) -> None:
    counts, rng = Counter[str](), random.Random(f"many {name}")
    for head, change in HEADS.items():
        for text in {change(file_of(name), rng) for _ in range(6)}:
            judge_both(f"{name}: {head}", text, tmp_path / "m.ten", counts)
    for _ in range(60):
        judge_both(name, line_mutant(file_of(name), rng), tmp_path / "m.ten", counts)
    assert min(counts["accepted"], counts["refused"], counts["unreadable"]) > 0
