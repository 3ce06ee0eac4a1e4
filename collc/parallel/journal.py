"""The journal of a long command: the results of finished tasks, so that a command that was killed goes on from there.

A journal is a text file of JSON lines: first what the results depend on, then one line for each finished task. Each
line is on the disk before the next task counts as done. A line that was cut off by a crash is ignored. Its name can be
foreseen, so that others may have put something in its place: only a regular file that begins as a journal does is
changed, and no symbolic link is followed.
"""

from __future__ import annotations

import contextlib
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

_BEGINNING: Final = b'{"collc_journal":'
"""The first bytes of every journal."""

_OPEN: Final = os.O_RDWR | os.O_CREAT
_GUARDS: Final = ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")
"""Flags of `os.open`, of which Windows has none: a pipe must not block it."""


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
        self.done[key] = result
        self._write({"task": key, "result": result})

    def remove(self) -> None:
        """Remove the file: the command is complete."""
        self.path.unlink(missing_ok=True)

    def start(self, basis: str) -> None:
        """Read what is there; begin anew if it is of another basis. Raises UsageError U0203 if it is no journal."""
        with os.fdopen(os.dup(self.handle), "rb") as file:
            data = file.read(len(_BEGINNING))
            if not _BEGINNING.startswith(data):
                raise _not_writable(self.path, "it is not a journal of collc")
            lines = (data + file.read()).split(b"\n")[:-1]  # a line without an end was cut off
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
        before = os.lseek(self.handle, 0, os.SEEK_CUR)
        try:
            while data:
                data = data[os.write(self.handle, data) :]
            os.fsync(self.handle)
        except OSError as error:
            os.ftruncate(self.handle, before)
            raise _not_writable(self.path, error.strerror or str(error)) from error


def journal_of(output: Path) -> Path:
    """The journal of a command that writes `output`: a hidden file beside it."""
    return output.with_name(f".{output.name}.journal")


@contextlib.contextmanager
def opened_journal(path: Path, basis: str) -> Generator[Journal]:
    """The journal at a path, locked while it is open.

    basis: what the results depend on besides their keys, as in a hash of the program; a journal of another one begins
    anew. Raises UsageError U0140 if another process has it open, U0203 if it cannot be written, or if what has its name
    is no journal. A journal without any entry is removed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, _OPEN | sum(getattr(os, name, 0) for name in _GUARDS), 0o666)
    except OSError as error:
        raise _not_writable(
            path, "it is a symbolic link" if path.is_symlink() else error.strerror or str(error)
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _not_writable(path, "it is not a file")
        if not _lock(handle):
            hint = "wait until it is done, or choose another output"
            raise UsageError(Diagnostic("U0140", f"another process is writing {path}", hint=hint))
        journal = Journal(path, handle)
        journal.start(basis)
        yield journal
    finally:
        if stat.S_ISREG(os.fstat(handle).st_mode) and not os.fstat(handle).st_size:
            path.unlink(missing_ok=True)
        os.close(handle)


def _not_writable(path: Path, obstacle: str) -> UsageError:
    hint = "remove it, or choose another output" if os.path.lexists(path) else "choose another output"
    return UsageError(Diagnostic("U0203", f"cannot write {path}: {obstacle}", hint=hint))


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
