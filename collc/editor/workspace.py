"""The programs of an editor: texts that are not saved, the trees and scopes of files, and their messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError, SourceFile
from collc.base.reading import read_text, real_path
from collc.base.resources import standard_library
from collc.base.units import format_bytes
from collc.base.wording import plural
from collc.editor.settled import settle
from collc.editor.uses import Resolver, children
from collc.source.elaboration.elaborate import checked_context, elaborate
from collc.source.elaboration.file_context import FileContext
from collc.source.imports import SUFFIX, GivenFiles, LoadedFiles, load_imports, with_tables
from collc.source.limits import MAX_BYTES, MAX_EXPANSIONS, MAX_FOLDERS
from collc.source.parsing import syntax as s
from collc.source.parsing.edited import parse_edited
from collc.source.parsing.parse import parse_partly
from collc.source.problems import Problems
from collc.source.program import ScheduleRequest
from collc.source.scopes import FileScope

_IMPORTS_FILE: Final = re.compile(r'\bimport\s*"')
"""What a program that imports a file contains."""


@dataclass(frozen=True, eq=False)
class Checked:
    """What `collc check` says of a program.

    context: None if an error precedes it. files: of the program, and chunks: of the runs of each schedule, in words;
    empty if there are messages. expansions: of templates, at least as many as all statements need.
    """

    messages: tuple[Diagnostic, ...]
    context: FileContext | None = None
    files: Mapping[Path, FileScope] = field(default_factory=dict[Path, FileScope])
    chunks: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    expansions: int = 0


@dataclass(eq=False)
class Workspace:
    """The files that an editor shows and those beside them.

    folders: of the workspace. texts: of the open files by resolved path, as the editor has them. The other fields are
    caches: trees with the text that each was parsed from and the last ones without errors, paths by the names of files,
    what follows from the texts, and of each program the last check with values and the last without messages.
    """

    folders: Sequence[Path] = ()
    texts: dict[Path, str] = field(default_factory=dict[Path, str])
    _trees: dict[Path, tuple[s.File, Sequence[Diagnostic]]] = field(
        default_factory=dict[Path, "tuple[s.File, Sequence[Diagnostic]]"]
    )
    _whole_trees: dict[Path, s.File] = field(default_factory=dict[Path, s.File])
    _scopes: dict[Path, FileScope] = field(default_factory=dict[Path, FileScope])
    _names: dict[Path, Resolver] = field(default_factory=dict[Path, Resolver])
    _checked: dict[Path, Checked] = field(default_factory=dict[Path, Checked])
    _evaluated: dict[Path, Checked] = field(default_factory=dict[Path, Checked])
    _correct: dict[Path, Checked] = field(default_factory=dict[Path, Checked])
    _paths: dict[str, Path] = field(default_factory=dict[str, Path])
    _files: list[Path] | None = None

    def change(self, path: Path, text: str | None) -> None:
        """Enter the text of an open file; None if it was closed."""
        if text is None:
            self.texts.pop(path, None)
        else:
            self.texts[path] = text
        self.forget()

    def forget(self, *, files: bool = False) -> None:
        """Discard what depends on texts. files: whether files may have come or gone."""
        for known in (self._scopes, self._names, self._checked):
            known.clear()
        if files:
            self._paths.clear()
            self._files = None

    def with_texts(self, texts: Mapping[Path, str]) -> Workspace:
        """The workspace with other texts of some files; nothing else is parsed again."""
        return Workspace(self.folders, {**self.texts, **texts}, dict(self._trees), dict(self._whole_trees))

    # Files

    def source(self, path: Path) -> SourceFile:
        """The text of a file, from the editor if it is open there; empty if it cannot be read."""
        if path in self.texts:
            return SourceFile(str(path), self.texts[path])
        try:
            return read_text(path, limit=MAX_BYTES)
        except SourceError:
            return SourceFile(str(path), "")

    def path_of(self, source: SourceFile) -> Path:
        """Where the file of a span is; the names of files of the standard library begin with "std/"."""
        name = source.name
        if name not in self._paths:
            modules = standard_library() if name.startswith("std/") else {}
            module = modules.get(name.removeprefix("std/").removesuffix(SUFFIX))
            self._paths[name] = real_path(module or Path(name))
        return self._paths[name]

    def is_library(self, path: Path) -> bool:
        """Whether a file belongs to the standard library, which nobody edits."""
        return path in _library_files()

    def files(self) -> list[Path]:
        """The programs of the workspace, open ones first."""
        if self._files is None:
            walks = chain.from_iterable(map(_programs, self.folders))
            self._files = sorted(chain.from_iterable(islice(walks, MAX_FOLDERS)))
        return [*dict.fromkeys([*self.texts, *self._files])]

    def tree(self, path: Path) -> s.File:
        """The syntax tree of a file, without what has errors."""
        return self._parse(self.source(path))[0]

    def _parse(self, source: SourceFile) -> tuple[s.File, Sequence[Diagnostic]]:
        path = Path(source.name)
        known = self._trees.get(path)
        if known is None or known[0].source.text != source.text:
            whole = self._whole_trees.get(path)
            known = self._trees[path] = parse_partly(source) if whole is None else parse_edited(source, whole)
            if not known[1]:
                self._whole_trees[path] = known[0]
        return known

    def _parse_whole(self, source: SourceFile) -> s.File:
        """The syntax tree of a file. Raises SourceError with all syntax errors."""
        tree, problems = self._parse(source)
        if problems:
            raise SourceError(*problems)
        return tree

    def users(self, path: Path) -> list[Path]:
        """The programs of the workspace that import a file, directly or through others, and the file itself."""
        imports = {file: self._imports(file) for file in self.files()}
        users = [path]
        for used in users:
            users += [file for file, targets in imports.items() if used in targets and file not in users]
        return users

    def _imports(self, path: Path) -> set[Path]:
        if _IMPORTS_FILE.search(self.source(path).text) is None:
            return set()
        nodes = [node for node in self.tree(path).statements if isinstance(node, s.Import)]
        return {real_path(path.parent / node.path) for node in nodes if node.path and "\0" not in node.path}

    # Names

    def scope(self, path: Path) -> FileScope:
        """The declarations of a file and of its imports, as far as they can be read; both branches of each `if`."""
        if path not in self._scopes:
            loaded = LoadedFiles(tables=False, given=self.texts, parser=lambda source: self._parse(source)[0])
            first = loaded.parse(self.source(path), path)
            with suppress(SourceError):  # more errors than are kept
                load_imports(loaded, [first])
            for file in loaded.files.values():
                with suppress(SourceError):
                    _declare_branches(file, file.statements)
            self._scopes[path] = first
        return self._scopes[path]

    def names(self, path: Path) -> Resolver:
        """The names of a file and what they mean."""
        if path not in self._names:
            self._names[path] = Resolver(self.scope(path))
        return self._names[path]

    # Messages

    def check(self, path: Path) -> Checked:
        """The messages about a program, those of `collc check`, and what was built of it."""
        if path not in self._checked:
            self.enter(path, self.check_snapshot(self.snapshot(path)))
        return self._checked[path]

    def snapshot(self, path: Path) -> GivenFiles:
        """A program, with the texts that the editor has."""
        return GivenFiles(str(path), {path: self.source(path).text, **self.texts})

    def check_snapshot(self, program: GivenFiles) -> Checked:
        """The messages about a snapshot. It changes nothing, so another thread can run it."""
        path = Path(program.name)
        last, correct = self._evaluated.get(path), self._correct.get(path)
        checked = self._check(program, last, correct)
        if correct is not None and checked.expansions > MAX_EXPANSIONS:  # settled statements count again with each edit
            checked = self._check(program, last, None)
        return checked

    def _check(self, program: GivenFiles, last: Checked | None, correct: Checked | None) -> Checked:
        """The messages about a snapshot. last: the last check with values. correct: the last one without messages."""
        known = None if last is None or last.context is None else last.context.program
        settled = False
        contexts: list[FileContext] = []

        def build(loaded: LoadedFiles) -> Checked:
            nonlocal settled
            settled = correct is not None and settle(loaded.files, correct.files)
            contexts.append(checked_context(loaded, {}, known))
            chunks = {request.name: _chunks(contexts[-1], request) for request in elaborate(contexts[-1]).schedules}
            return Checked((), contexts[-1], loaded.files, chunks, contexts[-1].program.expansions)

        try:
            checked = with_tables(program, build, self._parse_whole)
        except (SourceError, NoSchedule) as error:
            context = contexts[-1] if contexts else None
            checked = Checked(error.diagnostics, context, expansions=context.program.expansions if context else 0)
        if correct is None or not settled:
            return checked
        expansions = correct.expansions + checked.expansions
        return replace(checked, chunks={**correct.chunks, **checked.chunks}, expansions=expansions)

    def enter(self, path: Path, checked: Checked) -> None:
        """Keep what a check of the present texts said of a program."""
        self._checked[path] = checked
        if checked.context is not None:
            self._evaluated[path] = checked
        if not checked.messages:
            self._correct[path] = checked

    def last_values(self, path: Path) -> Checked | None:
        """The last check of a program that got as far as values; None if there is none."""
        return self._evaluated.get(path)


def _chunks(context: FileContext, request: ScheduleRequest) -> list[str]:
    """The chunks of each run of a schedule without loops, in words."""
    runs = [part for node in context.file.look_up("schedule", request.name) for part in children(node)]
    if sum(isinstance(part, s.RunStatement) for part in runs) != len(request.demand.runs):
        return []
    sizes = ((len(run.pattern), run.chunk_size) for run in request.demand.runs)
    return [plural(count, "chunk") + (f" of {format_bytes(size)}" if size else "") for count, size in sizes]


@cache
def _library_files() -> frozenset[Path]:
    return frozenset(map(real_path, standard_library().values()))


def _programs(folder: Path) -> Iterator[list[Path]]:
    """The programs in a folder and in each folder inside it, hidden ones and installed packages left out."""
    for inside, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "node_modules"]
        yield [real_path(Path(inside) / name) for name in names if name.endswith(SUFFIX)]


def _declare_branches(file: FileScope, statements: Sequence[s.Statement]) -> None:
    for node in statements:
        if isinstance(node, s.If):
            for branch in (node.then, node.otherwise):
                file.declare(branch, Problems())
                file.chosen.extend(branch)
                _declare_branches(file, branch)
