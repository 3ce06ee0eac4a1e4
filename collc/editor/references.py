"""All uses of a symbol in a workspace, and its renaming."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collc.base.diagnostics import Diagnostic, UsageError
from collc.editor.outline import Outline, outline
from collc.editor.uses import Symbol, Use
from collc.editor.workspace import Workspace
from collc.source.parsing.build import RESERVED

Key = tuple[object, object]


@dataclass(frozen=True, slots=True)
class Edit:
    """Another text for the characters from `start` to `end` of a file."""

    path: Path
    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """A text after edits that do not overlap."""
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _key(programs: Workspace, symbol: Symbol) -> Key:
    """What two symbols have in common if they are one: the place of the declaration, or kind and name."""
    place = symbol.place
    return (symbol.kind, symbol.name) if place is None else (programs.path_of(place.file), place.start)


def uses_in(programs: Workspace, path: Path, symbol: Symbol) -> list[Use]:
    """The uses of a symbol in a file, in order."""
    key = _key(programs, symbol)
    return [use for use in programs.names(path).uses if _key(programs, use.symbol) == key]


def uses_of(programs: Workspace, path: Path, symbol: Symbol) -> dict[Path, list[Use]]:
    """The uses of a symbol that a file uses: in the workspace, and in the file that declares it."""
    home = path if symbol.place is None else programs.path_of(symbol.place.file)
    users = programs.files() if programs.is_library(home) else programs.users(home)
    files = dict.fromkeys([home, *users] if symbol.place is not None else [path])
    return {file: uses for file in files if (uses := uses_in(programs, file, symbol))}


def check_renaming(programs: Workspace, symbol: Symbol) -> None:
    """Raise UsageError for a symbol that cannot have another name: it is the language's or the library's."""
    place = symbol.place
    if place is None or symbol.kind == "module" or programs.is_library(programs.path_of(place.file)):
        raise UsageError(Diagnostic("U0154", f"'{symbol.name}' is not declared in this workspace"))


def rename(programs: Workspace, path: Path, symbol: Symbol, name: str) -> list[Edit]:
    """The edits that give a symbol another name. Raises UsageError if any name would then mean something else."""
    check_renaming(programs, symbol)
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None or name in RESERVED:
        raise UsageError(Diagnostic("U0154", f"'{name}' is not a name"))
    uses = uses_of(programs, path, symbol)
    edits = [Edit(file, use.span.start, use.span.end, name) for file, places in uses.items() for use in places]
    texts = {file: apply_edits(programs.source(file).text, [e for e in edits if e.path == file]) for file in uses}
    after = programs.with_texts(texts)
    for file in programs.users(next(iter(uses))):
        known = len(after.check(file).messages) <= len(programs.check(file).messages)  # else it is declared twice
        if not known or [*_meanings(programs, file)] != [*_meanings(after, file)]:
            raise UsageError(Diagnostic("U0154", f"'{name}' means something else in {file.name}"))
    return edits


def _meanings(programs: Workspace, path: Path) -> Iterator[int]:
    """For each use of a file, in order, the number of the first use with its meaning."""
    first: dict[Key, int] = {}
    for number, use in enumerate(programs.names(path).uses):
        yield first.setdefault(_key(programs, use.symbol), number)


def symbols(programs: Workspace, query: str) -> Iterator[tuple[Path, Outline]]:
    """The declarations of the workspace whose names have the letters of a query in this order."""
    pattern = re.compile(".*".join(map(re.escape, query)), re.IGNORECASE)
    for path in programs.files():
        for item in outline(programs.tree(path)):
            if pattern.search(item.name):
                yield path, item
