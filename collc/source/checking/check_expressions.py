"""The static check of expressions: resolves names and infers types, without evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean, phrase
from collc.source import types as ty
from collc.source.elaboration.attributes import ATTRIBUTES, Attributed
from collc.source.elaboration.builtins import BUILTINS, call_type
from collc.source.elaboration.evaluate import literal_value
from collc.source.elaboration.file_context import match_arguments, parameter_type
from collc.source.elaboration.requests import AUTO, CHUNKS
from collc.source.parsing import expressions as ex
from collc.source.parsing.syntax import ChangedDevice, ChangedLink, DeviceDeclaration, Parameter, TopologyTemplate, With
from collc.source.problems import Problems, fail
from collc.source.scopes import FileScope


@dataclass(eq=False)
class TypeScope:
    """The types of the names that a body declares. outer: the scope around it. places: the span of each declaration."""

    outer: TypeScope | None = None
    types: dict[str, ty.Type] = field(default_factory=dict[str, ty.Type])
    places: dict[str, Span] = field(default_factory=dict[str, Span])

    def find(self, name: str) -> ty.Type | None:
        """The type of a name, None if no scope declares it."""
        if name in self.types:
            return self.types[name]
        return self.outer.find(name) if self.outer is not None else None

    def known_names(self) -> set[str]:
        """All names of this scope and of those around it."""
        return set(self.types) | (self.outer.known_names() if self.outer is not None else set())

    def declare(self, name: ex.Identifier, kind: ty.Type) -> None:
        """Add a name. Raises SourceError if this scope has it already."""
        if name.name in self.places:
            first = Note("first here", self.places[name.name])
            raise fail("E0205", f"'{name.name}' is declared twice", name.span, first)
        self.types[name.name] = kind
        self.places[name.name] = name.span


class ExpressionChecker(ex.ExpressionVisitor[TypeScope, ty.Type]):
    """Infers the types of the expressions of one file.

    Errors go to `problems`; the type of the expression is then ANY, which fits everywhere.
    """

    def __init__(self, file: FileScope, problems: Problems) -> None:
        self.file = file
        self.problems = problems

    def global_type(self, name: str, span: Span) -> ty.Type | None:
        """The type of a let, param or group of the file or its imports; None if there is none of that name."""
        raise NotImplementedError

    def report(self, error: SourceError) -> None:
        """Keep the messages of an error; the check goes on."""
        self.problems.add(*error.diagnostics)

    def type_of(self, node: ex.Expr, env: TypeScope) -> ty.Type:
        """The type of an expression."""
        try:
            return self.visit(node, env)
        except SourceError as error:
            self.report(error)
            return ty.ANY

    def expect(self, node: ex.Expr, env: TypeScope, wanted: ty.Type, what: str) -> None:
        """Report an expression whose type does not fit; what: its role, for the message."""
        given = self.type_of(node, env)
        if not ty.fits(given, wanted):
            self.report(ty.wrong_type(given, wanted, what, node))

    def _visit_literal(self, node: ex.Expr) -> ty.Type:
        return literal_value(node).type

    def _visit_collection(self, node: ex.Collection, env: TypeScope) -> ty.Type:
        return ty.collection_type(ty.Kind(node.kind), [(self.type_of(i, env), i.span) for i in node.items])

    def _visit_comprehension(self, node: ex.Comprehension, env: TypeScope) -> ty.Type:
        inner = self.loop(node.clauses, node.condition, env)
        return ty.collection_type(ty.Kind(node.kind), [(self.type_of(node.item, inner), node.item.span)])

    def _visit_with(self, node: With | ex.Without, env: TypeScope) -> ty.Type:
        word = "with" if isinstance(node, With) else "without"
        self.expect(node.base, env, ty.TOPOLOGY, f"the topology before '{word}'")
        for part in node.parts:
            if isinstance(part, ex.RemovedDevice):
                self.device_indices(part.device, env)
                continue
            if isinstance(part, ChangedDevice):
                self.device(part, env)
                continue
            inner = env
            if isinstance(part, ChangedLink):
                inner = env if part.loop is None else self.loop((part.loop,), None, env)
                self.attributes(part, "link", inner)
            for end in (part.source, part.target):
                self.device_indices(end, inner)
            if part.lanes is not None:
                self.expect(part.lanes, inner, ty.INT, "the number of lanes")
        return ty.TOPOLOGY

    _visit_without = _visit_with

    def _visit_name(self, node: ex.Name, env: TypeScope) -> ty.Type:
        declared = env.find(node.name)
        if declared is None:
            declared = self.global_type(node.name, node.span)
        if declared is not None:
            return declared
        topology = self.file.find("topology", node.name, node.span)
        if topology is not None:
            if isinstance(topology.node, TopologyTemplate) and topology.node.parameters is not None:
                hint = f"write {node.name}(...)"
                raise fail("E0313", f"topology '{node.name}' needs arguments", node.span, hint=hint)
            return ty.TOPOLOGY
        known = env.known_names() | self.file.known_names("value") | self.file.known_names("topology")
        hint = did_you_mean(node.name, known)
        if node.name in BUILTINS:
            hint = f"'{node.name}' is a function: write {node.name}(...)"
        if node.name == AUTO:
            hint = f"auto stands alone and only for {CHUNKS} of a run, as in 'run all_gather(..., {CHUNKS}: {AUTO})'"
        raise fail("E0201", f"unknown value '{node.name}'", node.span, hint=hint)

    def _visit_binary(self, node: ex.Binary, env: TypeScope) -> ty.Type:
        return ty.binary_type(node, self.type_of(node.left, env), self.type_of(node.right, env))

    def _visit_unary(self, node: ex.Unary, env: TypeScope) -> ty.Type:
        return ty.unary_type(node, self.type_of(node.operand, env))

    def _visit_comparison(self, node: ex.Comparison, env: TypeScope) -> ty.Type:
        types = [self.type_of(operand, env) for operand in node.operands]
        for k in range(len(node.operators)):
            with self.problems.collect():
                ty.check_comparison(node, k, types[k], types[k + 1])
        return ty.BOOL

    def _visit_range(self, node: ex.Range, env: TypeScope) -> ty.Type:
        low, high = self.type_of(node.low, env), self.type_of(node.high, env)
        if low == high == ty.BYTES:
            return ty.Type(ty.Kind.RANGE, ty.BYTES)
        for given, end in ((low, node.low), (high, node.high)):
            if not ty.fits(given, ty.INT):
                self.report(ty.wrong_type(given, ty.INT, "an end of a range", end))
        return ty.RANGE

    def _visit_member(self, node: ex.Member, env: TypeScope) -> ty.Type:
        base = self._base(node.base, env)
        copies = isinstance(node.base, ex.Index) and self._base(node.base.base, env).kind is ty.Kind.DEVICES
        if not copies and base.kind not in (ty.Kind.TOPOLOGY, ty.Kind.DEVICES, ty.Kind.ANY):
            hint = "the NPUs of a group are g[0], g[1], ..." if base == ty.GROUP else ""
            raise fail("E0215", f"{base} has no members", node.member.span, hint=hint)
        return ty.GROUP if node.member.name == "npus" else ty.DEVICES

    def _base(self, node: ex.Expr, env: TypeScope) -> ty.Type:
        """The type of the base of a member; a topology has precedence over a value of the same name."""
        if isinstance(node, ex.Name) and env.find(node.name) is None:
            declaration = self.file.find("topology", node.name, node.span)
            if declaration is not None and not (
                isinstance(declaration.node, TopologyTemplate) and declaration.node.parameters is not None
            ):
                return ty.TOPOLOGY
        return self.type_of(node, env)

    def _visit_index(self, node: ex.Index, env: TypeScope) -> ty.Type:
        base = self.type_of(node.base, env)
        several = self.indices(node.indices, env)
        if base.kind is ty.Kind.ANY:
            return ty.ANY
        if base.kind in (ty.Kind.FAMILY, ty.Kind.DEVICES):
            return ty.GROUP if several or base.kind is ty.Kind.FAMILY else ty.DEVICES
        ty.check_index(node, base)
        if base.kind is ty.Kind.LIST:
            return base if several else base.item or ty.ANY
        return ty.GROUP if several else ty.NPU

    def indices(self, nodes: Sequence[ex.Expr], env: TypeScope) -> bool:
        """Check indices; returns whether one of them selects several items."""
        several = False
        for node in nodes:
            if isinstance(node, ex.Star):
                several = True
                continue
            given = self.type_of(node, env)
            whole = given.kind in (ty.Kind.LIST, ty.Kind.SET, ty.Kind.RANGE)
            if whole and not ty.fits(ty.item_type(given) or ty.STRING, ty.INT):
                self.report(ty.wrong_type(ty.item_type(given) or given, ty.INT, "an index", node))
            elif not whole and not ty.fits(given, ty.INT):
                self.report(ty.wrong_type(given, ty.INT, "an index", node))
            several |= whole
        return several

    # Calls

    def _visit_call(self, node: ex.Call, env: TypeScope) -> ty.Type:
        name = node.function.name
        if name in BUILTINS:
            return call_type(node, [self.type_of(a.value, env) for a in node.arguments])
        declaration = self.file.find("topology", name, node.function.span)
        if declaration is None:
            raise self.file.unknown_name("topology", name, node.function.span, [*BUILTINS])
        template = declaration.node
        if not isinstance(template, TopologyTemplate) or template.parameters is None:
            hint = f"write '{name}' without parentheses"
            raise fail("E0313", f"topology '{name}' takes no arguments", node.span, hint=hint)
        self.arguments(template.parameters, node.arguments, f"topology '{name}'", node.span, env, shapes=True)
        return ty.TOPOLOGY

    def arguments(
        self,
        parameters: Sequence[Parameter],
        arguments: Sequence[ex.Argument],
        what: str,
        span: Span,
        env: TypeScope,
        shapes: bool = False,
    ) -> Mapping[str, ex.Argument]:
        """Check arguments; returns them by the names of their parameters, {} if they do not match."""
        types = {p.name.name: parameter_type(p) for p in parameters}
        try:
            matched = match_arguments(parameters, arguments, what, span, shapes)
        except SourceError as error:
            self.report(error)
            for argument in arguments:
                self.type_of(argument.value, env)
            return {}
        places = {p.name.name: p.name.span for p in parameters}
        for name, argument in matched.items():
            given = self.type_of(argument.value, env)
            if not ty.fits(given, types[name]):
                error = ty.wrong_type(
                    given, types[name], f"'{name}'", argument.value, Note("declared here", places[name])
                )
                self.report(error)
        return matched

    # Loops

    def loop(self, clauses: Sequence[ex.ForClause], condition: ex.Expr | None, env: TypeScope) -> TypeScope:
        """Check the clauses of a loop nest; returns the scope with its loop variables."""
        for clause in clauses:
            item = ty.ANY
            with self.problems.collect():
                item = ty.loop_type(clause, self.type_of(clause.iterable, env))
            env = TypeScope(env)
            with self.problems.collect():
                env.declare(clause.name, item)
        if condition is not None:
            self.expect(condition, env, ty.BOOL, "a condition")
        return env

    # Parts of topologies

    def device(self, node: DeviceDeclaration | ChangedDevice, env: TypeScope) -> None:
        """Check the declaration or change of devices, as in `npu gpu[2, 8]`."""
        if isinstance(node, ChangedDevice):
            self.device_indices(node.device, env)
        for size in node.shape if isinstance(node, DeviceDeclaration) else ():
            self.expect(size, env, ty.INT, "a size")
        self.attributes(node, node.kind, env)
        self.labels(node.labels, env)

    def labels(self, node: ex.Expr | None, env: TypeScope) -> None:
        """Check the labels of devices: strings."""
        if node is not None:
            given = self.type_of(node, env)
            if not ty.fits(given, ty.STRING) and not ty.fits(given, ty.list_of(ty.STRING)):
                self.report(fail("E0211", f"labels must be of type string or list of string, not {given}", node.span))

    def attributes(self, node: Attributed, kind: str, env: TypeScope) -> None:
        """Check the attributes of a device or link, as in `(bandwidth: 50GiB/s, latency: 0.5us)`."""
        seen: dict[str, ex.Argument] = {}
        known = ATTRIBUTES[kind]
        for argument in node.attributes:
            name = argument.key
            if name not in known:
                hint = did_you_mean(name, known, f"there are {phrase(known)}")
                if name in ATTRIBUTES["npu"] and kind != "npu":
                    hint = f"'{name}' is an attribute of NPUs"
                message = f"unknown attribute '{name}'" if name else "an attribute needs a name"
                self.report(fail("E0305", message, argument.span, hint=hint))
                continue
            if name in seen:
                error = fail("E0212", f"'{name}' is given twice", argument.span, Note("first here", seen[name].span))
                self.report(error)
            seen[name] = argument
            self.expect(argument.value, env, known[name], f"'{name}'")

    def device_indices(self, node: ex.Expr, env: TypeScope) -> None:
        """Check the indices in the name of a device, as in `node[2].gpu[0]`."""
        if isinstance(node, ex.Member):
            self.device_indices(node.base, env)
        elif isinstance(node, ex.Index):
            self.device_indices(node.base, env)
            self.indices(node.indices, env)
