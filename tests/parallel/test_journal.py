"""The journal: what was finished is found again, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.base.diagnostics import UsageError
from collc.parallel.journal import journal_of, opened_journal


def test_results_are_found_again(tmp_path: Path) -> None:
    path = journal_of(tmp_path / "t.csv")
    assert path.name == ".t.csv.journal"
    with opened_journal(path, "a") as journal:
        assert not journal.done
        assert not journal.restarted
        journal.add("x", {"rows": [1, None, "é"]})
        journal.add("y", 2)
    with opened_journal(path, "a") as journal:
        assert journal.done == {"x": {"rows": [1, None, "é"]}, "y": 2}
        journal.remove()
    assert not path.exists()


def test_a_line_that_was_cut_off_is_dropped_at_every_place(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened_journal(path, "a") as journal:
        journal.add("x", 1)
        journal.add("y", [2])
    whole = path.read_bytes()
    first, second = (len(b"\n".join(whole.split(b"\n")[:n])) + 1 for n in (1, 2))
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with opened_journal(path, "a") as journal:
            assert journal.done == ({} if size < second else {"x": 1})
            assert journal.restarted == False  # noqa: E712
            journal.add("z", 3)
        with opened_journal(path, "a") as journal:
            assert journal.done.get("z") == 3
            assert len(journal.done) == 1 + (size >= second)
    assert first < second


def test_a_line_that_is_no_entry_ends_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened_journal(path, "a") as journal:
        journal.add("x", 1)
    for wrong in ("7", "{}", "[]", "\0\0", json.dumps({"task": "y"})):
        with path.open("a") as file:
            file.write(wrong + "\n" + json.dumps({"task": "z", "result": 1}) + "\n")
        with opened_journal(path, "a") as journal:
            assert journal.done == {"x": 1}


def test_a_journal_of_something_else_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened_journal(path, "a") as journal:
        journal.add("x", 1)
    with opened_journal(path, "b") as journal:
        assert journal.restarted
        assert not journal.done
    with opened_journal(path, "a") as journal:
        assert not journal.done


def test_two_processes_do_not_share_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with opened_journal(path, "a"), pytest.raises(UsageError) as caught, opened_journal(path, "a"):
        pass
    assert caught.value.diagnostics[0].code == "U0140"


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught, opened_journal(tmp_path / "file" / "j", "a"):
        pass
    assert caught.value.diagnostics[0].code == "U0203"
