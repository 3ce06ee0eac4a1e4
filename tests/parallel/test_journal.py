"""The journal: what was finished is found again, and nothing else."""

from __future__ import annotations

import errno
import json
import os
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


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError) as caught, opened_journal(tmp_path / "j", "a"):
        pass
    assert [found.hint for found in caught.value.diagnostics] == ["choose another output"]


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


@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link", "pipe", "other text", "other JSON"])
def test_what_is_no_journal_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "j", tmp_path / "precious"
    if kind != "link to nothing":
        other.write_text("precious\n" if kind != "other JSON" else '{"task": "x", "result": 1}\n')
    before = other.read_bytes() if other.exists() else None
    if kind.startswith("link"):
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.hardlink_to(other)
    with pytest.raises(UsageError) as caught, opened_journal(path, "a"):
        pass
    assert caught.value.diagnostics[0].code == "U0203"
    assert "journal" in caught.value.diagnostics[0].message
    assert (other.read_bytes() if other.exists() else None) == before
    assert os.path.lexists(path)


def test_a_journal_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, user = tmp_path / "j", os.geteuid()
    with opened_journal(path, "a") as journal:
        journal.add("first", 1)
    before = path.read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(UsageError, match="someone else"), opened_journal(path, "a"):
        pass
    assert path.read_bytes() == before


def test_a_full_disk_leaves_no_empty_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "j"
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(UsageError) as caught, opened_journal(path, "a"):
        pass
    assert "No space left" in caught.value.diagnostics[0].message
    assert "space" in caught.value.diagnostics[0].hint
    assert not path.exists()


def test_a_full_disk_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = tmp_path / "j", os.write

    def nearly_full(handle: int, data: bytes) -> int:
        if b"second" in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, data)

    with opened_journal(path, "a") as journal:
        journal.add("first", 1)
        monkeypatch.setattr(os, "write", nearly_full)
        with pytest.raises(UsageError):
            journal.add("second", 2)
    monkeypatch.undo()
    with opened_journal(path, "a") as journal:
        assert journal.done == {"first": 1}
