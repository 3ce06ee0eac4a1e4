import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collc.base import atomic_files
from collc.base.atomic_files import open_draft, path_inside, write_file
from collc.base.diagnostics import SourceError, UsageError
from collc.base.interrupts import cleanup_on_termination


@pytest.mark.parametrize("name", ["", "/tmp/x", "../x", "a/../../x", ".", "a/.."])
def test_names_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError):
        path_inside(tmp_path, name)


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    with pytest.raises(SourceError, match="not a file inside"):
        path_inside(tmp_path / "in", "out/x.ten")
    assert path_inside(tmp_path / "in", "sub/x.ten") == tmp_path / "in" / "sub" / "x.ten"


def test_nothing_changes_until_it_is_published(tmp_path: Path) -> None:
    kept = tmp_path / "a.ten"
    kept.write_text("before")
    with open_draft() as draft:
        draft.new(kept).write_text("after")
        assert kept.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a.ten"]
    assert kept.read_text() == "before"
    with open_draft() as draft:
        draft.new(kept).write_text("after")
        draft.new(tmp_path / "new" / "b.ten").write_text("b")
        assert draft.publish() == [kept, tmp_path / "new" / "b.ten"]
    assert kept.read_text() == "after"
    assert (tmp_path / "new" / "b.ten").read_text() == "b"


def test_files_are_as_readable_as_others(tmp_path: Path) -> None:
    with open_draft() as draft:
        draft.new(tmp_path / "a").write_text("")
        draft.publish()
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with open_draft() as draft, pytest.raises(UsageError, match="cannot write"):
        draft.new(tmp_path / "a.ten")


def test_a_file_with_the_name_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    for path in (tmp_path / "a" / "b.ten", tmp_path / "a" / "c" / "b.ten"):
        with open_draft("try another") as draft, pytest.raises(UsageError, match="cannot write") as caught:
            draft.new(path)
        (message,) = caught.value.diagnostics
        assert message.message == f"cannot write {path}: {tmp_path / 'a'} is a file, not a folder"
        assert message.hint == "try another"
    with pytest.raises(UsageError) as caught:
        write_file(tmp_path / "a" / "b.ten", "")
    assert not caught.value.diagnostics[0].hint


def test_what_a_symbolic_link_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for target in ("real/a", "real/new"):
        link = tmp_path / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        if target == "real/a":
            link.write_text("before")
        write_file(link, "after")
        assert (link.is_symlink(), (tmp_path / target).read_text()) == (True, "after")
    assert names(tmp_path) == ["link", "real"]
    assert names(tmp_path / "real") == ["a", "new"]


def test_a_name_in_the_output_folder_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "s.ten").symlink_to(tmp_path / "kept")
    with pytest.raises(SourceError, match="is a symbolic link that leads out of the output folder"):
        path_inside(tmp_path / "out", "s.ten")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_pipes_are_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UsageError, match=f"cannot write .*{name}: it is a device, a pipe or a stream, not a file"):
            write_file(tmp_path / name, "")
    assert names(tmp_path) == ["link", "pipe"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_or_a_link_with_a_temporary_name_does_no_harm(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".a.ten.aaaaaaaa.draft.ten")  # reading it would wait for a writer
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".a.ten.bbbbbbbb.draft.ten").symlink_to("precious")
    write_file(tmp_path / "a.ten", "new")
    assert (tmp_path / "a.ten").read_text() == "new"
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system has no names for open files")
def test_an_open_file_is_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("before")
        log.flush()
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{log.fileno()}")
        with pytest.raises(UsageError, match="not a file"):
            write_file(tmp_path / "stdout", "")
    assert (tmp_path / "log").read_text() == "before"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


HELD = """
import signal, sys, time
from pathlib import Path
from collc.base.atomic_files import open_draft
from collc.base.interrupts import cleanup_on_termination
for name in ("SIGTERM", "SIGHUP"):  # the parent process may ignore them, and a child inherits that
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
with cleanup_on_termination(), open_draft() as draft:
    draft.new(Path(sys.argv[1])).write_text("half")
    print("held", flush=True)
    time.sleep(60)
"""


def holding(path: Path) -> subprocess.Popen[bytes]:
    """A process that is writing a file and does not end by itself."""
    process = subprocess.Popen([sys.executable, "-c", HELD, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_leaves_no_files(tmp_path: Path, number: signal.Signals) -> None:
    process = holding(tmp_path / "a.xml")
    assert len(names(tmp_path)) == 1
    process.send_signal(number)
    assert process.wait(30) == -number
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="locks of Unix")
def test_the_next_run_removes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    target = tmp_path / "a[1].xml"
    (tmp_path / ".a[1].xml.mine.draft.xml").write_text("a file of somebody else's with such a name")
    process = holding(target)
    process.kill()
    process.wait(30)
    left = names(tmp_path)
    assert len(left) == 2
    with open_draft() as draft:
        draft.new(tmp_path / "b.xml").write_text("another target")
        draft.publish()
    assert names(tmp_path) == sorted([*left, "b.xml"])
    with open_draft() as draft:
        draft.new(target).write_text("whole")
        draft.publish()
    assert names(tmp_path) == [".a[1].xml.mine.draft.xml", "a[1].xml", "b.xml"]
    assert target.read_text() == "whole"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of Unix")
def test_a_run_keeps_the_files_that_another_is_writing(tmp_path: Path) -> None:
    target = tmp_path / "a.xml"
    process = holding(target)
    with open_draft() as draft:
        mine, again = draft.new(target), draft.new(target)
        assert mine.exists()
        again.write_text("mine")
        assert len(names(tmp_path)) == 3
        draft.publish()
    assert len(names(tmp_path)) == 2
    process.terminate()
    process.wait(30)
    assert names(tmp_path) == ["a.xml"]
    assert target.read_text() == "mine"


def test_a_file_removed_as_abandoned_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run locks the new file first: it assumes that a killed run has left it, and removes it."""
    answers = iter([False, True])
    monkeypatch.setattr(atomic_files, "try_lock", lambda _handle: next(answers))
    with open_draft() as draft:
        draft.new(tmp_path / "a.xml").write_text("mine")
        draft.publish()
    assert (tmp_path / "a.xml").read_text() == "mine"


def test_long_names_have_room_for_their_temporary_names(tmp_path: Path) -> None:
    target = tmp_path / ("x" * 250 + ".xml")
    write_file(target, "text")
    assert names(tmp_path) == [target.name]


def test_ignored_signals_stay_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with cleanup_on_termination():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def ended(seen: list[str]) -> None:
    with cleanup_on_termination():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            seen.append("tidy")


def test_the_previous_handler_is_called_at_the_end() -> None:
    seen: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: seen.append("theirs"))
    try:
        with pytest.raises(KeyboardInterrupt):
            ended(seen)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == ["tidy", "theirs"]
