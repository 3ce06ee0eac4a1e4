"""Writing files so that a failure leaves what was there before: a temporary name, then a rename."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from collc.diagnostics import Diagnostic, SourceError, Span, UsageError


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


@dataclass
class Draft:
    """Files under temporary names beside their final ones, until `publish` renames them all.

    Used as a context manager: what was not published is removed.
    """

    _pending: list[tuple[Path, Path]] = field(default_factory=list[tuple[Path, Path]])

    def new(self, path: Path) -> Path:
        """An empty file beside `path`, with its suffix, to be written before `publish`.

        Raises UsageError where the folder cannot be written.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        except OSError as error:
            raise UsageError(
                Diagnostic("U0203", f"cannot write {path}: {error.strerror}", hint="choose another folder with -o DIR")
            ) from error
        os.close(handle)
        mask = os.umask(0)
        os.umask(mask)
        temporary = Path(name)
        temporary.chmod(0o666 & ~mask)
        self._pending.append((temporary, path))
        return temporary

    def publish(self) -> list[Path]:
        """Give all files their final names, which are returned."""
        done = [path for _, path in self._pending]
        for temporary, path in self._pending:
            temporary.replace(path)
        self._pending.clear()
        return done

    def discard(self) -> None:
        """Remove what was not published."""
        for temporary, _ in self._pending:
            with contextlib.suppress(OSError):
                temporary.unlink()
        self._pending.clear()


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
