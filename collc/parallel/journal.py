"""The journal of a long command: the results of finished tasks, so that a command that was killed goes on from there.

A journal is a text file of JSON lines: first what the results depend on, then one line for each finished task. Each
line is on the disk before the next task counts as done. A line that was cut off by a crash is ignored. Whoever may
write to the folder could put another file, or a link to one, in the place of a journal: what is no journal stays as it
is, and the command ends.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from collc.base.atomic_files import try_lock
from collc.base.diagnostics import Diagnostic, UsageError

VERSION: Final = 1

_BEGIN: Final = b'{"collc_journal":'
"""What each journal begins with."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

_FLAGS: Final = os.O_RDWR | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
"""A symbolic link is not followed, and a pipe is not waited for."""


@dataclass(eq=False)
class Journal:
    """An open journal; `opened_journal` makes one.

    done: the result of each finished task, by key. restarted: whether there was a journal of something else, which was
    dropped.
    """

    path: Path
    handle: int
    done: dict[str, Any] = field(default_factory=dict[str, Any])
    restarted: bool = False

    def add(self, key: str, result: object) -> None:
        """Note the result of a task, a JSON value. Raises UsageError U0203 if the disk is full or broken."""
        self._write({"task": key, "result": result})
        self.done[key] = result

    def remove(self) -> None:
        """Remove the file: the command is complete."""
        self.path.unlink(missing_ok=True)

    def start(self, basis: str) -> None:
        """Read what is there; begin anew if it is of another basis. Raises UsageError U0203 if it is no journal."""
        with os.fdopen(os.dup(self.handle), "rb") as file:
            begin = file.read(len(_BEGIN))
            if not _BEGIN.startswith(begin):
                raise _not_a_journal(self.path)
            lines = (begin + file.read()).split(b"\n")[:-1]  # a line without an end was cut off
        head = _parse_entry(lines[0]) if lines else None
        if head == {"collc_journal": VERSION, "basis": basis}:
            size = len(lines[0]) + 1
            for line in lines[1:]:
                entry = _parse_entry(line)
                if entry is None or entry.keys() != {"task", "result"}:
                    break
                self.done[str(entry["task"])] = entry["result"]
                size += len(line) + 1
            os.ftruncate(self.handle, size)
            os.lseek(self.handle, size, os.SEEK_SET)
            return
        self.restarted = bool(lines)
        os.ftruncate(self.handle, 0)
        os.lseek(self.handle, 0, os.SEEK_SET)
        self._write({"collc_journal": VERSION, "basis": basis})

    def _write(self, entry: dict[str, object]) -> None:
        data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self.handle, data) :]
            os.fsync(self.handle)
        except OSError as error:
            if not self.done:
                with contextlib.suppress(OSError):  # nothing is lost, and an incomplete file would be of no use
                    self.remove()
            raise _unwritable(self.path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    hint = "choose another output" if error.errno not in _FULL else "free some space, or choose another output"
    return UsageError(Diagnostic("U0203", f"cannot write {path}: {error.strerror or error}", hint=hint))


def _not_a_journal(path: Path) -> UsageError:
    message = f"{path} is the name of the journal, but it is a link, or a file of something or someone else"
    return UsageError(Diagnostic("U0203", message, hint="remove it, or choose another output"))


def journal_of(output: Path) -> Path:
    """The journal of a command that writes `output`: a hidden file beside it."""
    return output.with_name(f".{output.name}.journal")


@contextlib.contextmanager
def opened_journal(path: Path, basis: str) -> Generator[Journal]:
    """The journal at a path, locked while it is open.

    basis: what the results depend on besides their keys, as in a hash of the program; a journal of another one begins
    anew. Raises UsageError U0140 if another process has it open, U0203 if it cannot be written or is no journal.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, is_new = _open(path)
    except OSError as error:
        if os.path.lexists(path):
            raise _not_a_journal(path) from error
        raise _unwritable(path, error) from error
    try:
        if not is_new and not _is_own(os.fstat(handle)):
            raise _not_a_journal(path)
        if not _lock(handle):
            hint = "wait until it is done, or choose another output"
            raise UsageError(Diagnostic("U0140", f"another process is writing {path}", hint=hint))
        journal = Journal(path, handle)
        journal.start(basis)
        yield journal
    finally:
        os.close(handle)


def _open(path: Path) -> tuple[int, bool]:
    """The open file, and whether it was made by this call. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666), True
    return os.open(path, _FLAGS), False


def _is_own(status: os.stat_result) -> bool:
    """Whether it is a file with this name alone that this user has made: others could say what tasks have given."""
    is_user = sys.platform == "win32" or status.st_uid == os.geteuid()
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1 and is_user


def _lock(handle: int) -> bool:
    """Lock a file while it is open; False if another process has it. True if the system has no locks."""
    if sys.platform == "win32":
        return True
    try:
        return try_lock(handle)
    except OSError:  # a file system without locks
        return True


def _parse_entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry: object = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) else None
