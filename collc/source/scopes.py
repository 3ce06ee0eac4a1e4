"""Name resolution: the declarations of a file and of its imports, one name space for each kind of declaration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from collc.base.diagnostics import Note, SourceError, SourceFile, Span
from collc.base.resources import standard_library
from collc.base.wording import did_you_mean
from collc.source.elaboration.builtins import BUILTINS
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Identifier
from collc.source.parsing.parse import parse, parse_library
from collc.source.problems import Problems, fail

Declaration = (
    s.Algorithm
    | s.Collective
    | s.Design
    | s.Group
    | s.Let
    | s.Param
    | s.PriceTable
    | s.ScheduleDeclaration
    | s.TopologyInstance
    | s.TopologyTemplate
    | s.Workload
)

NAME_SPACES: dict[type, str] = {
    s.TopologyTemplate: "topology",
    s.TopologyInstance: "topology",
    s.Collective: "collective",
    s.Algorithm: "algorithm",
    s.Let: "value",
    s.Param: "value",
    s.Group: "value",
    s.ScheduleDeclaration: "schedule",
    s.Workload: "workload",
    s.PriceTable: "price table",
    s.Design: "design",
}
"""The name space of each kind of declaration."""

UNKNOWN_NAME_CODES: dict[str, str] = {
    "value": "E0201",
    "topology": "E0202",
    "collective": "E0203",
    "algorithm": "E0204",
    "workload": "E0901",
    "price table": "E0922",
}

FUNCTIONS: Final = """
topology unwound(t: topology, degree: int = 1) {}
topology reversed(t: topology) {}
topology limited(t: topology, inject: rate, eject: rate, memory: rate, endpoint: string = "baseline", overhead: time,
                 launch: time) {}
"""
"""The functions of topologies, as templates; FileContext builds their topologies."""

LANGUAGE: Final = "the language"
"""The module of these functions."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundDeclaration:
    """A declaration and the file that contains it."""

    node: Declaration
    file: FileScope

    def implements(self, collective: Declaration) -> bool:
        """Whether it is an algorithm for a collective."""
        if not isinstance(self.node, s.Algorithm):
            return False
        implemented = self.file.candidates("collective", self.node.implements.function.name)
        return bool(implemented) and implemented[0].node is collective


@dataclass(eq=False)
class FileScope:
    """The declarations of one file.

    module: "std.topologies" for a file of the standard library, else None. names: name space -> name -> declarations.
    imports: the imported files. chosen: the statements of those branches of top-level `if`s whose condition holds;
    elaboration fills it. settled: statements that are known to have no errors: they are not checked, and evaluated only
    if others use them.
    """

    source: SourceFile
    statements: tuple[s.Statement, ...]
    module: str | None
    folder: str
    names: dict[str, dict[str, list[Declaration]]] = field(default_factory=dict[str, dict[str, list[Declaration]]])
    imports: list[tuple[FileScope, s.Import]] = field(default_factory=list["tuple[FileScope, s.Import]"])
    chosen: list[s.Statement] = field(default_factory=list[s.Statement])
    settled: frozenset[s.Statement] = frozenset()

    def declare(self, statements: Sequence[s.Statement], problems: Problems) -> None:
        """Add declarations; a second declaration of a name is reported to `problems`."""
        for node in statements:
            if isinstance(node, Declaration):
                space = NAME_SPACES[type(node)]
                with problems.collect():
                    _check_new(node, space, self.look_up(space, node.name.name))
                self.names.setdefault(space, {}).setdefault(node.name.name, []).append(node)

    def all_statements(self) -> Iterator[s.Statement]:
        """All statements at the top of the file and those of chosen branches, in order."""
        yield from (*self.statements, *self.chosen)

    def open_statements(self) -> Iterator[s.Statement]:
        """All statements but those that are settled, in order."""
        return (node for node in self.all_statements() if node not in self.settled)

    def params(self) -> list[str]:
        """The names of all params, in order."""
        return [node.name.name for node in self.all_statements() if isinstance(node, s.Param)]

    def declarations(self, space: str) -> list[Declaration]:
        """All declarations of a name space, in order."""
        return [node for nodes in self.names.get(space, {}).values() for node in nodes]

    def look_up(self, space: str, name: str) -> list[Declaration]:
        """The declarations of a name in this file."""
        return self.names.get(space, {}).get(name, [])

    def candidates(self, space: str, name: str) -> list[FoundDeclaration]:
        """The declarations of a name in the file or, if it has none, in its imports."""
        for files in ([self], [file for file, _ in self.imports], [function_scope()]):
            candidates = [FoundDeclaration(node, file) for file in files for node in file.look_up(space, name)]
            if candidates:
                return candidates
        return []

    def algorithms(self, name: str) -> list[FoundDeclaration]:
        """The algorithms of a name in the file and its imports, each for another collective."""
        files = [self, *(file for file, _ in self.imports)]
        return [FoundDeclaration(node, file) for file in files for node in file.look_up("algorithm", name)]

    def visible(self, space: str) -> list[FoundDeclaration]:
        """The declarations of a name space that the file can use."""
        files = [self, *(file for file, _ in self.imports), function_scope()]
        return [FoundDeclaration(node, file) for file in files for node in file.declarations(space)]

    def known_names(self, space: str) -> set[str]:
        """All names of a name space that the file can use."""
        return {declared.node.name.name for declared in self.visible(space)}

    def find(self, space: str, name: str, span: Span | None = None) -> FoundDeclaration | None:
        """The declaration of a name, None if there is none. Raises SourceError if two imports declare it."""
        candidates = self.candidates(space, name)
        if len(candidates) > 1 and candidates[0].file is not candidates[1].file:
            notes = [Note(f"one is declared here, in {f.file.source.name}", f.node.name.span) for f in candidates[:2]]
            hint = "declare one of that name in this file, or import only one of the two"
            raise fail("E0206", f"two imported files declare {space} '{name}'", span, *notes, hint=hint)
        return candidates[0] if candidates else None

    def get(self, space: str, name: Identifier) -> FoundDeclaration:
        """The declaration of a name. Raises SourceError if there is none, or two imports declare it."""
        declaration = self.find(space, name.name, name.span)
        if declaration is None:
            raise self.unknown_name(space, name.name, name.span)
        return declaration

    def unknown_name(self, space: str, name: str, span: Span, more: Sequence[str] = ()) -> SourceError:
        """The error for an undeclared name; more: further names that a hint may propose."""
        module = _module_with(space, name)
        if module is None:
            elsewhere = "the standard library does not declare it either; 'collc std' lists what it has"
            hint = did_you_mean(name, self.known_names(space) | set(more), elsewhere if space != "value" else "")
        else:
            hint = f"to use the standard library, add: import std.{module}"
        what = f"{space} or function" if more else space
        return fail(UNKNOWN_NAME_CODES[space], f"unknown {what} '{name}'", span, hint=hint)


@cache
def function_scope() -> FileScope:
    """The scope of the functions of topologies."""
    tree = parse(SourceFile(LANGUAGE, FUNCTIONS))
    scope = FileScope(tree.source, tree.statements, LANGUAGE, "")
    scope.names["topology"] = {n.name.name: [n] for n in tree.statements if isinstance(n, s.TopologyTemplate)}
    return scope


def library_declarations(space: str) -> Iterator[tuple[str, Declaration]]:
    """The declarations of a name space in the standard library, each with its module, such as "clusters"."""
    for module in standard_library():
        for node in parse_library(module).statements:
            if isinstance(node, Declaration) and NAME_SPACES[type(node)] == space:
                yield module, node


@cache
def _module_with(space: str, name: str) -> str | None:
    """The module of the standard library that declares a name, such as "clusters"; None if there is none."""
    return next((module for module, node in library_declarations(space) if node.name.name == name), None)


def _check_new(node: Declaration, space: str, known: list[Declaration]) -> None:
    """Raise SourceError for a second declaration of a name, or one of a function. known: those with the name."""
    name = node.name
    if space == "topology" and (name.name in BUILTINS or function_scope().look_up(space, name.name)):
        raise fail("E0207", f"'{name.name}' is a function of the language", name.span, hint="choose another name")
    what = f"{space} '{name.name}'"
    if isinstance(node, s.Algorithm):
        wanted = node.implements.function.name
        known = [n for n in known if isinstance(n, s.Algorithm) and n.implements.function.name == wanted]
        what += f" for {wanted}"
    if known:
        raise fail("E0205", f"{what} is declared twice", name.span, Note("first here", known[0].name.span))
