"""Atomic writing of files: a file is written under a temporary name and then renamed, so that a failure leaves the
existing file unchanged.

A process holds a lock (flock) on a temporary file while it writes the file, and the system releases the lock when the
process ends. A temporary file without a lock was therefore left by a killed process, and the next process that writes
the same file removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, Span, UsageError
from collc.base.interrupts import cleanup_on_termination
from collc.base.reading import real_path

_MOST_LETTERS: Final = 100
"""The most letters of a file name that its temporary name repeats; the system limits the length of names."""


def path_inside(folder: Path, name: str, span: Span | None = None, *, is_folder: bool = False) -> Path:
    """The path of the file `name` in `folder`, or of a folder with files. span: the place of the name in the program.

    Raises SourceError if the name is absolute or empty, if it denotes a folder, or if it leads out of the folder, also
    through a symbolic link.
    """
    path = folder / name
    real = real_path(path.parent)
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute() or not real.is_relative_to(real_path(folder)):
        message = f"'{name}' is not a file inside the output folder"
        hint = "give a relative name without '..', and the folder with -o DIR"
        raise SourceError(Diagnostic("U0201", message, span, hint=hint))
    try:
        wrong = path.is_dir() and not is_folder
    except OSError as error:
        message = f"'{name}' cannot be the name of a file: {error.strerror}"
        raise SourceError(Diagnostic("U0201", message, span, hint="choose another name")) from error
    if wrong:
        raise SourceError(Diagnostic("U0202", f"{path} is a folder, not a file", span, hint="choose another name"))
    if not is_folder and not real_path(path).is_relative_to(real_path(folder)):
        message = f"'{name}' is a symbolic link that leads out of the output folder"
        raise SourceError(Diagnostic("U0201", message, span, hint="remove the link, or choose another name"))
    return path


@dataclass(frozen=True, slots=True)
class _Pending:
    """A file or folder that is not published yet.

    final: the name that was asked for. target: the file that gets the content, which is another one if `final` is a
    symbolic link. handle: the open, locked file; None if the system has no locks. replaced: of a folder, see
    `Draft.new_folder`.
    """

    temporary: Path
    final: Path
    target: Path
    handle: int | None
    replaced: str = ""

    def release(self) -> None:
        """Release the lock."""
        if self.handle is not None:
            os.close(self.handle)


@dataclass
class Draft:
    """Files under temporary names in the folders of their final names, until `publish` renames all of them.

    `open_draft` creates one and removes the files that were not published.
    hint: what to try if a folder cannot be written; "" if the error says enough.
    """

    hint: str = ""
    _pending: list[_Pending] = field(default_factory=list[_Pending])

    def new(self, path: Path) -> Path:
        """Create an empty temporary file for `path`, with the same suffix, and return its path.

        Of a symbolic link, the file to which it leads is written, and the link stays. Removes temporary files for
        `path` that killed processes have left. Raises UsageError if the folder cannot be written, and if a device,
        a pipe or a stream, as /dev/stdout, has the name.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            target = self._target(path)
            _remove_abandoned(target, target.suffix)
            pending = _create(path, target)
            self._pending.append(pending)
            pending.temporary.chmod(0o666 & ~_umask())
        except OSError as error:
            message = f"cannot write {path}: {_obstacle(path) or error.strerror or error}"
            raise UsageError(Diagnostic("U0203", message, hint=self.hint)) from error
        return pending.temporary

    def _target(self, path: Path) -> Path:
        """The file that `path` denotes, without symbolic links if it is one. Raises UsageError if it is no file."""
        try:
            mode = path.stat().st_mode  # fails if the name is too long; the temporary name is shorter
        except FileNotFoundError:
            return real_path(path) if path.is_symlink() else path
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or _is_stream(path):
            message = f"cannot write {path}: it is a device, a pipe or a stream, not a file"
            raise UsageError(Diagnostic("U0203", message, hint=self.hint or "choose another name"))
        return real_path(path) if path.is_symlink() else path

    def new_folder(self, path: Path, replaced: str) -> Path:
        """Create a temporary folder beside `path`, whose files `publish` moves into the folder `path`.

        replaced: a regular expression; of the files that are in `path` by then, those whose whole name matches are
        removed first. Raises UsageError if the folder cannot be written.
        """
        try:
            if path.exists() and not path.is_dir():
                raise NotADirectoryError
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(path, "")
            temporary = Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=".draft", dir=path.parent))
            temporary.chmod(0o777 & ~_umask())
        except OSError as error:
            message = f"cannot write {path}: {_obstacle(path / 'x') or error.strerror or error}"
            raise UsageError(Diagnostic("U0203", message, hint=self.hint)) from error
        self._pending.append(_Pending(temporary, path, path, _open_locked(temporary), replaced))
        return temporary

    @property
    def paths(self) -> list[Path]:
        """The final names of the files that are not published yet."""
        return [pending.final for pending in self._pending]

    def publish(self) -> list[Path]:
        """Rename all files to their final names and return these."""
        done = self.paths
        for pending in self._pending:
            if pending.replaced:
                _move_files(pending.temporary, pending.final, pending.replaced)
            else:
                pending.temporary.replace(pending.target)
            pending.release()
        self._pending.clear()
        return done

    def discard(self) -> None:
        """Remove the files that were not published."""
        for pending in self._pending:
            _remove(pending.temporary)
            pending.release()
        self._pending.clear()


def check_folder(folder: Path, hint: str = "") -> None:
    """Raise UsageError U0203 if files cannot be written to a folder, which need not exist yet."""
    existing = next((parent for parent in (folder, *folder.absolute().parents) if os.path.lexists(parent)), folder)
    if os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK):  # noqa: PTH112 (raises nothing)
        return
    what = "it may not be changed" if os.path.isdir(existing) else f"{existing} is a file, not a folder"  # noqa: PTH112
    raise UsageError(Diagnostic("U0203", f"cannot write {folder}: {what}", hint=hint))


def _is_stream(path: Path) -> bool:
    """Whether a path leads to an open file of a process, as /dev/stdout does, which may be a file that is added to."""
    for _ in range(40):  # the most links that Linux follows
        folder = real_path(path.parent)
        if folder.is_relative_to("/proc"):
            return True
        if not path.is_symlink():
            break
        path = folder / path.readlink()
    return False


def _move_files(temporary: Path, folder: Path, replaced: str) -> None:
    """Move all files into a folder, from which those with names that match `replaced` are removed."""
    folder.mkdir(exist_ok=True)
    new = sorted(temporary.iterdir())
    names = {path.name for path in new}
    for old in list(folder.iterdir()):
        if old.name not in names and re.fullmatch(replaced, old.name) and old.is_file():
            old.unlink()
    for path in new:
        path.replace(folder / path.name)
    temporary.rmdir()


def _obstacle(path: Path) -> str:
    """The file whose name a folder of the path should have, in words; "" if there is none."""
    files = [folder for folder in path.parents if os.path.isfile(folder)]  # noqa: PTH113 (raises nothing)
    return f"{files[0]} is a file, not a folder" if files else ""


def _umask() -> int:
    """The file mode mask of the process. The system has no call that only reads it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _prefix(path: Path) -> str:
    return f".{path.name[:_MOST_LETTERS]}."


def _create(path: Path, target: Path) -> _Pending:
    """Create a temporary file for `target`, which `path` denotes, and lock it if the system has locks."""
    while True:
        handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=f".draft{target.suffix}", dir=target.parent)
        if sys.platform == "win32":
            os.close(handle)  # Windows cannot rename an open file
            return _Pending(Path(name), path, target, None)
        with contextlib.suppress(OSError):
            if not try_lock(handle) or not os.fstat(handle).st_nlink:
                os.close(handle)  # another process found it unlocked and removed it
                continue
        return _Pending(Path(name), path, target, handle)


def try_lock(handle: int) -> bool:
    """Lock an open file; False if another process holds the lock. Raises OSError if the file system has no locks."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open_locked(path: Path) -> int | None:
    """A file or folder, open and locked; None if another process has it locked, or if the system has no locks."""
    with contextlib.suppress(OSError):  # a link to something else is left alone, and a pipe is not waited for
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with contextlib.suppress(OSError):
            if try_lock(handle):
                return handle
        os.close(handle)
    return None


def _remove_abandoned(path: Path, suffix: str) -> None:
    """Remove the temporary files or folders for `path` that no process has locked."""
    pattern = re.compile(re.escape(_prefix(path)) + r"[a-z0-9_]{8}\.draft" + re.escape(suffix))
    for temporary in [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)]:
        handle = _open_locked(temporary)
        if handle is not None:
            _remove(temporary)
            os.close(handle)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def write_file(path: Path, content: str | bytes) -> None:
    """Write a text as UTF-8, or bytes, atomically. Raises UsageError if the folder cannot be written."""
    with open_draft() as draft:
        draft.new(path).write_bytes(content.encode() if isinstance(content, str) else content)
        draft.publish()


@contextlib.contextmanager
def open_draft(hint: str = "") -> Generator[Draft]:
    """A draft; at the end of the context, also at SIGTERM, the files that were not published are removed.

    hint: of `Draft`. An OSError of a write, which names no file, gets the name of the file that was begun last.
    """
    draft = Draft(hint)
    with cleanup_on_termination():
        try:
            yield draft
        except OSError as error:
            if error.filename is None and draft.paths:
                error.filename = str(draft.paths[-1])
            raise
        finally:
            draft.discard()
