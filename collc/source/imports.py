"""Reads a program file and, recursively, the files that it imports."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from collc.base.collection import without_collection
from collc.base.diagnostics import NoSchedule, Note, SourceError, SourceFile, Span
from collc.base.reading import read_text, real_path
from collc.base.resources import standard_library
from collc.base.wording import did_you_mean
from collc.source.limits import MAX_DEPTH, too_deep
from collc.source.parsing.parse import MAX_BYTES, begins, parse, parse_with_tables
from collc.source.parsing.syntax import Import, Statement
from collc.source.problems import Problems, fail
from collc.source.scopes import FileScope

SUFFIX: Final = ".coll"
"""How the names of imported files end."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """A program and the files that it imports, read before and perhaps elsewhere.

    name: what messages call the program. texts: the text of each file by its resolved path, the program first.
    """

    name: str
    texts: Mapping[Path, str]


@dataclass(eq=False)
class Loader:
    """Reads files, each once.

    tables: whether to read long tables as such (see parsing/tables.py). tabular: whether there were any. given: texts
    of files that are not read again, by resolved path. files: the files read so far, by resolved path. open: the files
    whose imports are being read, outermost first, as (resolved path, name in messages), to detect import cycles.
    """

    problems: Problems
    tables: bool = False
    tabular: bool = False
    given: Mapping[Path, str] = field(default_factory=dict[Path, str])
    files: dict[Path, FileScope] = field(default_factory=dict[Path, FileScope])
    open: list[tuple[Path, str]] = field(default_factory=list[tuple[Path, str]])

    def load(self, path: Path, name: str, module: str | None = None, at: Span | None = None) -> FileScope:
        """The file at a path, with its imports.

        name: what messages call the file. module: "std.topologies" for one of the standard library. at: the import
        statement. Raises SourceError if the file cannot be read or parsed.
        """
        real = real_path(path)
        if real in self.files:
            return self.files[real]
        if module is not None:
            source, statements = _standard(path, name)
            return self._load_file(FileScope(source, statements, module, str(path.parent)), path)
        if real in self.given:
            return self._load_declarations(SourceFile(name, self.given[real]), path)
        text = read_text(path, name, limit=MAX_BYTES, at=at)
        if at is not None and not begins(text):
            hint = f"a program begins as in: topology pod {{ ... }}; 'collc check {name}' shows what is wrong"
            raise fail("E0706", f"'{name}' is not a program: it does not begin with a statement", at, hint=hint)
        return self._load_declarations(text, path)

    def load_text(self, source: SourceFile) -> FileScope:
        """A program that is in no file; names of files in its imports are relative to the current folder."""
        return self._load_declarations(source, Path(source.name))

    def load_given(self, program: GivenFiles) -> FileScope:
        """A program whose files were read before."""
        self.given = program.texts
        return self.load(next(iter(program.texts)), program.name)

    def _load_declarations(self, source: SourceFile, path: Path) -> FileScope:
        """The declarations of a file that was read from `path`, its imports loaded too."""
        tree = parse_with_tables(source) if self.tables else None
        self.tabular |= tree is not None
        return self._load_file(FileScope(source, (tree or parse(source)).statements, None, str(path.parent)), path)

    def _load_file(self, file: FileScope, path: Path) -> FileScope:
        """A file at a path with its declarations, its imports loaded too."""
        real = real_path(path)
        self.files[real] = file
        self.open.append((real, file.source.name))
        for statement in file.statements:
            if isinstance(statement, Import):
                with self.problems.collect():
                    self.follow(file, statement)
        self.open.pop()
        file.declare(file.statements, self.problems)
        return file

    def follow(self, file: FileScope, node: Import) -> None:
        """Load the file that an import statement names. Raises SourceError."""
        if len(self.open) > MAX_DEPTH:
            raise too_deep("importing", node.span)
        path, name, module = self.resolve(file, node)
        real = real_path(path)
        names = [n for p, n in self.open if p == real]
        if names:
            ring = [*[n for _, n in self.open[[p for p, _ in self.open].index(real) :]], names[0]]
            raise fail("E0703", "these files import each other", node.span, Note(" -> ".join(ring)))
        found = self.load(path, name, module, node.span)
        if any(f is found for f, _ in file.imports):
            first = next(i for f, i in file.imports if f is found)
            raise fail("E0704", f"{name} is imported twice", node.span, Note("first here", first.span))
        file.imports.append((found, node))

    def resolve(self, file: FileScope, node: Import) -> tuple[Path, str, str | None]:
        """Path of the imported file, its name in messages, and its module. Raises SourceError."""
        if node.path is not None:
            if not node.path or "\0" in node.path:
                raise fail("E0701", "an import names a file", node.span)
            if not node.path.endswith(SUFFIX):  # of other files nothing is read, and so nothing is shown
                hint = f'the name of a program ends with {SUFFIX}, as in: import "parts/node{SUFFIX}"'
                raise fail("E0706", f"'{node.path}' is not the name of a program", node.span, hint=hint)
            return Path(file.folder) / node.path, _name_in_messages(file.source.name, node.path), None
        module = node.module or ""
        library = standard_library()
        known = [f"std.{name}" for name in library]
        if module not in known:
            hint = did_you_mean(
                module, known, f'there are {", ".join(known)}; a file is imported as: import "pod.coll"'
            )
            raise fail("E0702", f"unknown module '{module}'", node.span, hint=hint)
        path = library[module.removeprefix("std.")]
        return path, f"std/{path.name}", module


def with_tables(load: Callable[[Loader], Result]) -> Result:
    """What `load` returns; if it fails and the files have tables, without these, so that messages are right."""
    with without_collection():
        loader = Loader(Problems(), tables=True)
        try:
            return load(loader)
        except (SourceError, NoSchedule):
            if not loader.tabular:
                raise
        return load(Loader(Problems()))


@cache
def _standard(path: Path, name: str) -> tuple[SourceFile, tuple[Statement, ...]]:
    """A file of the standard library with its statements; once for each process, which may load many programs."""
    source = read_text(path, name, limit=MAX_BYTES)
    return source, parse(source).statements


def _name_in_messages(importer: str, path: str) -> str:
    """The name of an imported file in messages: its path relative to the folder from which the first file is named."""
    folder = posixpath.dirname(importer)
    return posixpath.normpath(posixpath.join(folder, path))
