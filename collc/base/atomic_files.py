"""Writing files so that a failure leaves what was there before: a temporary name, then a rename.

A temporary file is locked while it is being written. The lock ends with the process, however that ends, so what
a killed run has left behind is told from what another run is just writing, and the next run removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, Span, UsageError

_KEPT_NAME: Final = 100
"""Letters of a long name that its temporary name has."""


def inside(folder: Path, name: str, span: Span | None = None) -> Path:
    """The path of `name`, as a program gives it at `span`, in `folder`.

    Raises SourceError where the name is absolute, empty or leaves the folder, also through a link.
    """
    path = folder / name
    real = path.parent.resolve()
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute() or not real.is_relative_to(folder.resolve()):
        message = f"'{name}' is not a file inside the output folder"
        hint = "give a relative name without '..', and the folder with -o DIR"
        raise SourceError(Diagnostic("U0201", message, span, hint=hint))
    try:
        folder_there = path.is_dir()
    except OSError as error:
        message = f"'{name}' cannot be the name of a file: {error.strerror}"
        raise SourceError(Diagnostic("U0201", message, span, hint="choose another name")) from error
    if folder_there:
        raise SourceError(Diagnostic("U0202", f"{path} is a folder, not a file", span, hint="choose another name"))
    return path


@dataclass(frozen=True, slots=True)
class _Pending:
    """A file to come. handle: open while it holds the lock, None where the system has no locks."""

    temporary: Path
    final: Path
    handle: int | None

    def release(self) -> None:
        """Give up the lock."""
        if self.handle is not None:
            os.close(self.handle)


@dataclass
class Draft:
    """Files under temporary names beside their final ones, until `publish` renames them all.

    Used as a context manager: what was not published is removed.
    """

    _pending: list[_Pending] = field(default_factory=list[_Pending])

    def new(self, path: Path) -> Path:
        """An empty file beside `path`, with its suffix, to be written before `publish`.

        What killed runs have left there for `path` goes. Raises UsageError where the folder cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.lstat()  # fails for a name that is too long, which its temporary name is not
            _remove_abandoned(path)
            pending = _created(path)
            self._pending.append(pending)
            pending.temporary.chmod(0o666 & ~_mask())
        except OSError as error:
            raise UsageError(
                Diagnostic("U0203", f"cannot write {path}: {error.strerror}", hint="choose another folder with -o DIR")
            ) from error
        return pending.temporary

    def publish(self) -> list[Path]:
        """Give all files their final names, which are returned."""
        done = [pending.final for pending in self._pending]
        for pending in self._pending:
            pending.temporary.replace(pending.final)
            pending.release()
        self._pending.clear()
        return done

    def discard(self) -> None:
        """Remove what was not published."""
        for pending in self._pending:
            with contextlib.suppress(OSError):
                pending.temporary.unlink()
            pending.release()
        self._pending.clear()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _prefix(path: Path) -> str:
    return f".{path.name[:_KEPT_NAME]}."


def _created(path: Path) -> _Pending:
    """A new temporary file for `path`, locked where the system can."""
    while True:
        handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=f".draft{path.suffix}", dir=path.parent)
        if sys.platform == "win32":
            os.close(handle)  # an open file cannot be renamed there
            return _Pending(Path(name), path, None)
        with contextlib.suppress(OSError):
            if not _locked(handle) or not os.fstat(handle).st_nlink:
                os.close(handle)  # another run has taken it for a leftover before it was locked
                continue
        return _Pending(Path(name), path, handle)


def _locked(handle: int) -> bool:
    """Lock an open file; False where another holds it. Raises OSError where its file system has no locks."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files for `path` that nobody is writing any more."""
    if sys.platform == "win32":
        return
    ours = re.compile(re.escape(_prefix(path)) + r"[a-z0-9_]{8}\.draft" + re.escape(path.suffix))
    for left in (there for there in path.parent.iterdir() if ours.fullmatch(there.name)):
        with contextlib.suppress(OSError), left.open("rb+") as file:
            if _locked(file.fileno()):
                left.unlink()


def write_file(path: Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all. Raises UsageError where the folder cannot be written."""
    with drafting() as draft:
        draft.new(path).write_text(text, encoding="utf-8")
        draft.publish()


@contextlib.contextmanager
def drafting() -> Generator[Draft]:
    """A draft whose unpublished files vanish."""
    draft = Draft()
    try:
        yield draft
    finally:
        draft.discard()
