"""The static check of files: every declaration, also templates, collectives and algorithms that are never used."""

from __future__ import annotations

from collc.base.diagnostics import Span
from collc.source.checking.check_bodies import BodyChecker
from collc.source.checking.check_expressions import ExpressionChecker, TypeScope
from collc.source.elaboration.binding import parameter_type
from collc.source.limits import uses_too_deep
from collc.source.parsing import syntax as s
from collc.source.problems import Problems, fail, unknown_name_error
from collc.source.scopes import FileScope, FoundDeclaration
from collc.source.types import ANY, BOOL, FAMILY, GROUP, NAMED, TOPOLOGY, Type, fits, wrong_type


class FileChecker:
    """The static check of one file. checkers: of all files of the program, by the id of the file."""

    def __init__(self, file: FileScope, problems: Problems, checkers: dict[int, FileChecker]) -> None:
        self.file = file
        self.problems = problems
        self.checkers = checkers
        self.expressions = ExpressionChecker(file, problems, self.global_type)
        self.bodies = BodyChecker(file, self.expressions)
        self.types: dict[int, Type] = {}
        self.top = TypeScope()

    def global_type(self, name: str, span: Span) -> Type | None:
        """The type of a let, param or group of the file or its imports. Raises SourceError if it is ambiguous."""
        declaration = self.file.find("value", name, span)
        return None if declaration is None else self.checkers[id(declaration.file)].declared_type(declaration)

    def declared_type(self, found: FoundDeclaration) -> Type:
        """The type of a declared value; ANY during its own computation, in a cycle of declarations."""
        node = found.node
        if id(node) not in self.types:
            self.types[id(node)] = ANY
            self.types[id(node)] = self._declared_type(found)
        return self.types[id(node)]

    def _declared_type(self, declaration: FoundDeclaration) -> Type:
        match declaration.node:
            case s.Let(value=value):
                return self.expressions.type_of(value, self.top)
            case s.Param() as node:
                kind = ANY if node.type is None else NAMED.get(node.type.name, ANY)
                if kind == ANY and node.default is not None:
                    return self.expressions.type_of(node.default, self.top)
                return kind
            case s.Group(clauses=()):
                return GROUP
            case s.Group():
                return FAMILY
            case _:
                return ANY

    def check(self) -> None:
        """Check every declaration; errors go to `problems`."""
        for node in self.file.all_statements():
            with self.problems.collect():
                try:
                    self.statement(node)
                except RecursionError:
                    raise uses_too_deep(node.span) from None

    def statement(self, node: s.Statement) -> None:
        """One declaration. Raises SourceError."""
        match node:
            case s.Let():
                self.declared_type(FoundDeclaration(node, self.file))
            case s.Param():
                self.param(node)
            case s.TopologyInstance():
                self.expressions.expect(node.value, self.top, TOPOLOGY, "a topology")
            case s.Group():
                env = self.expressions.loop(node.clauses, None, self.top)
                self.expressions.expect(node.value, env, GROUP, "a group")
            case s.TopologyTemplate():
                self.bodies.topology(node.body, self.parameters(node.parameters or ()))
            case s.Collective():
                self.bodies.collective(node.body, self.parameters(node.parameters))
            case s.Algorithm():
                self.algorithm(node)
            case s.ScheduleDeclaration():
                self.expressions.expect(node.topology, self.top, TOPOLOGY, "the topology of a schedule")
                self.bodies.schedule(node.body, TypeScope(self.top))
            case s.If():
                self.expressions.expect(node.condition, self.top, BOOL, "a condition")
            case s.For():
                hint = "a family of groups is declared as: group tp[n in 0..4] = ..."
                raise fail("E0225", "declarations are not allowed in a loop", node.span, hint=hint)
            case _:
                pass

    def param(self, node: s.Param) -> None:
        """`param nodes: int = 2`."""
        if node.type is not None:
            self.known_type(node)
        if node.type is None and node.default is None:
            hint = f"write param {node.name.name}: int"
            raise fail("E0208", f"param '{node.name.name}' has no type", node.name.span, hint=hint)
        if node.default is not None:
            self.expressions.expect(node.default, self.top, parameter_type(node), f"'{node.name.name}'")

    def known_type(self, node: s.Parameter) -> None:
        """Report an unknown type of a parameter."""
        if node.type is not None and node.type.name not in NAMED:
            self.expressions.report(unknown_name_error("E0208", "type", node.type.name, NAMED, node.type.span))

    def parameters(self, nodes: tuple[s.Parameter, ...]) -> TypeScope:
        """A scope with the parameters; the default of each can use the ones before it."""
        env = TypeScope(self.top)
        for node in nodes:
            self.known_type(node)
            wanted = parameter_type(node)
            if node.default is not None:
                given = self.expressions.type_of(node.default, env)
                if not fits(given, wanted):
                    self.expressions.report(wrong_type(given, wanted, f"'{node.name.name}'", node.default))
                wanted = given if node.type is None else wanted
            with self.problems.collect():
                env.declare(node.name, wanted)
        return env

    def algorithm(self, node: s.Algorithm) -> None:
        """`algorithm a(...) implements c(...) { ... }`."""
        env = self.parameters(node.parameters)
        declared = self.file.get("collective", node.implements.function)
        if not isinstance(declared.node, s.Collective):
            return
        what = f"collective '{declared.node.name.name}'"
        self.expressions.arguments(declared.node.parameters, node.implements.arguments, what, node.implements.span, env)
        self.bodies.algorithm(node.body, env, declared.node)


def check_files(files: list[FileScope], problems: Problems) -> None:
    """Check the names and types of files; errors go to `problems`."""
    checkers: dict[int, FileChecker] = {}
    for file in files:
        checkers[id(file)] = FileChecker(file, problems, checkers)
    for checker in checkers.values():
        checker.check()
