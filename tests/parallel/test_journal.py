"""The journal: what was finished is found again, and nothing else."""

from __future__ import annotations

import collections
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


def test_what_is_no_journal_is_neither_followed_nor_changed(tmp_path: Path) -> None:
    """Others may have put it there, since the name can be foreseen."""
    precious = tmp_path / "precious"
    for content in ("text", '{"other": 1}\n', '{"collc_journal"}\n'):
        precious.write_text(content)
        (tmp_path / "link").symlink_to(precious)
        for path in (precious, tmp_path / "link"):
            with pytest.raises(UsageError) as caught, opened_journal(path, "a"):
                pass
            assert caught.value.diagnostics[0].code == "U0203"
            what = "symbolic link" if path.is_symlink() else "not a journal of collc"
            assert what in caught.value.diagnostics[0].message
            assert precious.read_text() == content
        (tmp_path / "link").unlink()


def test_a_pipe_in_place_of_a_journal_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is not a file"), opened_journal(tmp_path / "pipe", "a"):
        pass
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("entries", [0, 1])
def test_a_full_disk_leaves_whole_entries_or_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    write, free = os.write, [10 if entries == 0 else 100]

    def write_some(handle: int, data: bytes) -> int:
        if not free[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(handle, data[: free[0]])
        free[0] -= written
        return written

    monkeypatch.setattr(os, "write", write_some)
    path = tmp_path / "j"
    with pytest.raises(UsageError, match="No space left"), opened_journal(path, "a") as journal:
        collections.deque((journal.add(str(number), "x" * 10) for number in range(entries * 10)), maxlen=0)
    assert path.exists() == bool(entries)
    free[0] = 10**6
    with opened_journal(path, "a") as journal:
        assert bool(journal.done) == bool(entries)
        assert not journal.restarted
