"""Loads a program: its file and, one after another, the files that it imports, each parsed once."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from collc.base.diagnostics import NoSchedule, Note, SourceError, SourceFile, Span
from collc.base.memory import without_collection
from collc.base.reading import read_text, real_path
from collc.base.resources import standard_library
from collc.base.wording import did_you_mean
from collc.source.limits import MAX_BYTES, MAX_DEPTH, too_deep
from collc.source.parsing.parse import begins, parse, parse_library, parse_with_tables
from collc.source.parsing.syntax import File, Import
from collc.source.problems import Problems, fail
from collc.source.scopes import FileScope

SUFFIX: Final = ".coll"
"""How the names of imported files end."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """A program and the files that it imports, read before and perhaps elsewhere.

    name: what messages call the program. texts: the text of each file by its resolved path, the program first, under
    any path.
    """

    name: str
    texts: Mapping[Path, str]


@dataclass(eq=False)
class LoadedFiles:
    """The files of a program by resolved path, the program itself first.

    tables: whether long tables are read as such (see parsing/tables.py). tabular: whether there were any. given: texts
    of files that are not read again, by resolved path. parser: makes the syntax tree of a text.
    """

    tables: bool
    given: Mapping[Path, str]
    parser: Callable[[SourceFile], File] = parse
    tabular: bool = False
    files: dict[Path, FileScope] = field(default_factory=dict[Path, FileScope])

    @property
    def main(self) -> FileScope:
        """The file of the program itself."""
        return next(iter(self.files.values()))

    def read(self, path: Path, name: str, module: str | None = None, at: Span | None = None) -> FileScope:
        """The file at a path. name: what messages call it. at: the import statement. Raises SourceError."""
        real = real_path(path)
        if real in self.files:
            return self.files[real]
        if module is not None:
            tree = parse_library(path.stem)
            return self._add(real, FileScope(tree.source, tree.statements, module, str(path.parent)))
        if real in self.given:
            return self.parse(SourceFile(name, self.given[real]), path)
        source = read_text(path, name, limit=MAX_BYTES, at=at)
        if at is not None and not begins(source):
            hint = f"a program begins as in: topology pod {{ ... }}; 'collc check {name}' shows what is wrong"
            raise fail("E0706", f"'{name}' is not a program: it does not begin with a statement", at, hint=hint)
        return self.parse(source, path)

    def parse(self, source: SourceFile, path: Path) -> FileScope:
        """The file with a text. path: where it is; names of files in its imports are relative to its folder."""
        tree = parse_with_tables(source) if self.tables else None
        self.tabular |= tree is not None
        return self._add(
            real_path(path), FileScope(source, (tree or self.parser(source)).statements, None, str(path.parent))
        )

    def _add(self, real: Path, file: FileScope) -> FileScope:
        self.files[real] = file
        return file


def load_source_files(
    source: Path | SourceFile | GivenFiles, *, tables: bool = False, parser: Callable[[SourceFile], File] = parse
) -> LoadedFiles:
    """The files of a program: of a path, of a text that is in no file, or of files that were read before.

    tables, parser: as of LoadedFiles.
    Raises SourceError with all errors of reading and syntax, and for a name that a file declares twice.
    """
    loaded = LoadedFiles(tables, source.texts if isinstance(source, GivenFiles) else {}, parser)
    if isinstance(source, SourceFile):
        queue = [loaded.parse(source, Path(source.name))]
    elif isinstance(source, GivenFiles):
        path, text = next(iter(source.texts.items()))
        queue = [loaded.parse(SourceFile(source.name, text), path)]
    else:
        queue = [loaded.read(source, str(source))]
    load_imports(loaded, queue).stop()
    return loaded


def load_imports(loaded: LoadedFiles, queue: list[FileScope]) -> Problems:
    """Load all that the files of a queue import, and declare the names of each. Returns the errors."""
    problems = Problems()
    for file in queue:  # to which the imported files are added
        for node in file.statements:
            if isinstance(node, Import):
                with problems.collect():
                    queue += _follow_import(file, node, loaded)
    _check_order(queue[0], [], set(), problems)
    for file in queue:
        file.declare(file.statements, problems)
    return problems


def with_tables(
    source: Path | SourceFile | GivenFiles,
    use: Callable[[LoadedFiles], Result],
    parser: Callable[[SourceFile], File] = parse,
) -> Result:
    """What `use` makes of a program; if it fails and the files have tables, without these: messages name lines."""
    with without_collection():
        loaded = load_source_files(source, tables=True, parser=parser)
        try:
            return use(loaded)
        except (SourceError, NoSchedule):
            if not loaded.tabular:
                raise
        return use(load_source_files(source, parser=parser))


def _follow_import(file: FileScope, node: Import, loaded: LoadedFiles) -> list[FileScope]:
    """Enter the file that an import statement names; returns it if it was not loaded before. Raises SourceError."""
    path, name, module = _resolve_import(file, node)
    count = len(loaded.files)
    imported = loaded.read(path, name, module, node.span)
    first = next((statement for other, statement in file.imports if other is imported), None)
    if first is not None:
        raise fail("E0704", f"{name} is imported twice", node.span, Note("first here", first.span))
    file.imports.append((imported, node))
    return [imported] if len(loaded.files) > count else []


def _resolve_import(file: FileScope, node: Import) -> tuple[Path, str, str | None]:
    """Path of the imported file, its name in messages, and its module. Raises SourceError."""
    if node.path is not None:
        if not node.path or "\0" in node.path:
            raise fail("E0701", "an import names a file", node.span)
        if not node.path.endswith(SUFFIX):  # of other files nothing is read, and so nothing is shown
            hint = f'the name of a program ends with {SUFFIX}, as in: import "parts/node{SUFFIX}"'
            raise fail("E0706", f"'{node.path}' is not the name of a program", node.span, hint=hint)
        name = posixpath.normpath(posixpath.join(posixpath.dirname(file.source.name), node.path))
        return Path(file.folder) / node.path, name, None
    module = node.module or ""
    modules = {f"std.{name}": path for name, path in standard_library().items()}
    if module not in modules:
        hint = f'there are {", ".join(modules)}; a file is imported as: import "pod.coll"'
        raise fail("E0702", f"unknown module '{module}'", node.span, hint=did_you_mean(module, modules, hint))
    return modules[module], f"std/{modules[module].name}", module


def _check_order(file: FileScope, open_files: list[FileScope], done: set[int], problems: Problems) -> None:
    """Report imports in a circle. open_files: those whose imports lead to the file, outermost first."""
    around = [*open_files, file]
    for imported, node in file.imports:
        with problems.collect():
            if imported in around:
                ring = [*around[around.index(imported) :], imported]
                names = Note(" -> ".join(member.source.name for member in ring))
                raise fail("E0703", "these files import each other", node.span, names)
            if len(around) > MAX_DEPTH:
                raise too_deep("importing", node.span)
            if id(imported) not in done:
                _check_order(imported, around, done, problems)
    done.add(id(file))
