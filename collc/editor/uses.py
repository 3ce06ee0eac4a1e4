"""The names in a file: the declaration that each one means, and the names that are known at a position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, cast

from collc.base.diagnostics import Span
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.elaboration.attributes import ATTRIBUTES
from collc.source.elaboration.builtins import BUILTINS
from collc.source.limits import MAX_DEPTH
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.scopes import LANGUAGE, Declaration, FileScope
from collc.source.types import NAMED

KINDS: Final[dict[type[ex.Node], str]] = {
    s.TopologyTemplate: "topology",
    s.TopologyInstance: "topology",
    s.Collective: "collective",
    s.Algorithm: "algorithm",
    s.ScheduleDeclaration: "schedule",
    s.Workload: "workload",
    s.PriceTable: "price table",
    s.Design: "design",
    s.Let: "constant",
    s.Param: "param",
    s.Parameter: "parameter",
    s.Group: "group",
    s.Use: "copies",
    s.PartDeclaration: "part",
    ex.ForClause: "loop variable",
    s.ChunkDeclaration: "chunk",
}
"""What the node of a declaration declares; a device has its own kind."""

Declaring = (
    Declaration | s.Parameter | s.DeviceDeclaration | s.Use | s.PartDeclaration | s.ChunkDeclaration | ex.ForClause
)
"""What declares a name."""

_DERIVED: Final = frozenset({"unwound", "reversed", "limited"})
"""Functions whose topology has the devices of their argument."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """What a name means. kind: one of KINDS, "npu", "switch", or what the language has: "function", "type", ...

    node: its declaration in a program or in the standard library; None for what the language has.
    """

    kind: str
    name: str
    node: ex.Node | None = None

    @property
    def place(self) -> Span | None:
        """The span of its name in the declaration."""
        if isinstance(self.node, s.ChunkDeclaration):
            return self.node.chunk.name.span
        identifier = getattr(self.node, "name", None)
        if not isinstance(identifier, ex.Identifier) or identifier.span.file.name == LANGUAGE:
            return None
        return identifier.span


@dataclass(frozen=True, slots=True)
class Use:
    """A place at which a name stands. declares: whether that declares it."""

    span: Span
    symbol: Symbol
    declares: bool = False


@dataclass(eq=False)
class Names:
    """The names of a body, and those around it.

    span: of the body; None for the file. members: its devices. parts: in a schedule, those of its topology.
    """

    span: Span | None = None
    outer: Names | None = None
    values: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    members: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    chunks: dict[str, Symbol] = field(default_factory=dict[str, Symbol])
    parts: dict[str, Symbol] = field(default_factory=dict[str, Symbol])

    def find(self, table: str, name: str) -> Symbol | None:
        """The innermost symbol of a name in a table: "values", "members", "chunks" or "parts"."""
        own = getattr(self, table).get(name)
        return own or (self.outer.find(table, name) if self.outer is not None else None)

    def table(self, table: str) -> dict[str, Symbol]:
        """All symbols of a table, of this body and of those around it."""
        outer = self.outer.table(table) if self.outer is not None else {}
        return outer | getattr(self, table)


def children(node: ex.Node) -> Iterator[ex.Node]:
    """The nodes directly inside a node, in the order of its fields."""
    for name in _fields(type(node)):
        value: Any = getattr(node, name)
        for part in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(part, ex.Node):
                yield part


@cache
def _fields(cls: type[ex.Node]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls) if f.name != "span")  # pyright: ignore[reportArgumentType]


def symbol_of(node: Declaring) -> Symbol:
    """What a node declares."""
    if isinstance(node, s.ChunkDeclaration):
        return Symbol("chunk", node.chunk.name.name, node)
    if isinstance(node, s.DeviceDeclaration):
        return Symbol(node.kind, node.name.name, node)
    return Symbol("function" if node.span.file.name == LANGUAGE else KINDS[type(node)], node.name.name, node)


def members_of(body: Iterable[ex.Node]) -> dict[str, Symbol]:
    """The devices, copies and parts that the body of a topology declares, also inside of loops and conditions."""
    nodes = (n for n in flat(body) if isinstance(n, s.DeviceDeclaration | s.Use | s.PartDeclaration))
    return {node.name.name: symbol_of(node) for node in nodes}


def flat(nodes: Iterable[ex.Node]) -> Iterator[ex.Node]:
    """Statements, with those inside of loops and conditions."""
    for node in nodes:
        yield node
        if isinstance(node, s.For | s.If | s.Repeat):
            yield from flat(children(node))


def callee_parameters(node: ex.Node | None) -> tuple[s.Parameter, ...]:
    """The parameters of a template, collective or algorithm."""
    return getattr(node, "parameters", None) or ()


def algorithm_for(file: FileScope, name: str, collective: str) -> Symbol | None:
    """The algorithm of a name that implements a collective; any of the name if none does."""
    named = file.algorithms(name)
    wanted = next(iter(file.candidates("collective", collective)), None)
    fitting = [declared for declared in named if wanted is not None and declared.implements(wanted.node)]
    return next((symbol_of(declared.node) for declared in fitting or named), None)


class Resolver:
    """Collects the uses of all names of a file. bodies: the names of each body, in the order in which they begin.

    The rules of scopes are those of the static check (checking/check.py), applied to what that does not visit, too.
    """

    def __init__(self, file: FileScope) -> None:
        self.file = file
        self.uses: list[Use] = []
        self.bodies: list[Names] = [Names()]
        for node in file.statements:
            self._visit(node, self.bodies[0])
        self.uses.sort(key=lambda use: use.span.start)
        self._starts = [use.span.start for use in self.uses]

    def at(self, offset: int) -> Use | None:
        """The use that contains a position or ends there."""
        for use in self.uses[max(bisect_right(self._starts, offset) - 1, 0) :][:1]:
            if use.span.start <= offset <= use.span.end:
                return use
        return None

    def names_at(self, offset: int) -> Names:
        """The names of the innermost body around a position."""
        inside = [b for b in self.bodies if b.span is not None and b.span.start < offset <= b.span.end]
        return max(inside, key=lambda body: body.span.start if body.span else -1, default=self.bodies[0])

    # What stands for a symbol

    def _use(self, place: ex.Node, symbol: Symbol | None, declares: bool = False) -> None:
        if symbol is not None:
            self.uses.append(Use(place.span, symbol, declares))

    def _use_of_language(self, place: ex.Identifier, kind: str, names: Sequence[str]) -> None:
        """A name of something that the language has."""
        self._use(place, Symbol(kind, place.name) if place.name in names else None)

    def _declaration_of(self, space: str, name: ex.Identifier | ex.Name | s.Parameter) -> Symbol | None:
        """The declaration of a name in the file or its imports."""
        candidates = self.file.candidates(space, str(name.name))
        return symbol_of(candidates[0].node) if candidates else None

    def template_of(self, node: ex.Expr, names: Names) -> tuple[s.TopologyTemplate, FileScope] | None:
        """The template whose devices are the members of an expression, and its file; None if that is not known."""
        return self._template(node, names, self.file)

    def members(self, node: ex.Expr, names: Names) -> dict[str, Symbol]:
        """The members of an expression, a topology, as far as they are known."""
        template = self.template_of(node, names)
        return members_of(template[0].body) if template is not None else {}

    def _template(
        self, node: ex.Expr, names: Names, file: FileScope, depth: int = 0
    ) -> tuple[s.TopologyTemplate, FileScope] | None:
        if depth > MAX_DEPTH:
            return None
        match node:
            case ex.Index(base=base) | s.With(base=base) | ex.Without(base=base):
                return self._template(base, names, file, depth + 1)
            case ex.Call(function=function, arguments=arguments) if function.name in _DERIVED and arguments:
                return self._template(arguments[0].value, names, file, depth + 1)
            case ex.Name(name=name) | ex.Call(function=ex.Identifier(name=name)):
                copies = names.find("members", name)
                if isinstance(node, ex.Name) and copies is not None and isinstance(copies.node, s.Use):
                    return self._template(copies.node.topology, Names(), file, depth + 1)
                declared = next(iter(file.candidates("topology", name)), None)
                if declared is not None and isinstance(declared.node, s.TopologyTemplate):
                    return declared.node, declared.file
                if declared is not None and isinstance(declared.node, s.TopologyInstance):
                    return self._template(declared.node.value, Names(), declared.file, depth + 1)
                return None
            case ex.Member(base=base, member=member):
                outer = self._template(base, names, file, depth + 1)
                copies = members_of(outer[0].body).get(member.name) if outer is not None else None
                if outer is None or copies is None or not isinstance(copies.node, s.Use):
                    return None
                return self._template(copies.node.topology, Names(), outer[1], depth + 1)
            case _:
                return None

    # Syntax

    def _visit_all(self, nodes: Sequence[ex.Node], names: Names) -> None:
        for node in nodes:
            self._visit(node, names)

    def _body(self, node: ex.Node, outer: Names, nodes: Sequence[ex.Node]) -> Names:
        """A body with its own names. nodes: of the body of a declaration, whose devices and chunks are known in it."""
        names = Names(node.span, outer, members=members_of(nodes))
        for part in flat(nodes):
            if isinstance(part, s.ChunkDeclaration):
                names.chunks.setdefault(part.chunk.name.name, symbol_of(part))
        self.bodies.append(names)
        return names

    def _declare(self, node: s.Let | s.Parameter | ex.ForClause, names: Names) -> None:
        symbol = symbol_of(node)
        self._use(node.name, symbol, declares=True)
        if names.span is not None:
            names.values[node.name.name] = symbol

    def _visit(self, node: ex.Node, names: Names) -> None:
        """Collect the uses in a node."""
        method = getattr(self, f"_visit_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node, names)
        else:
            self._visit_all([*children(node)], names)

    def _visit_import(self, node: s.Import, _names: Names) -> None:
        file = next((file for file, statement in self.file.imports if statement is node), None)
        if file is not None:
            self.uses.append(Use(node.what.span, Symbol("module", node.module or node.path or "", node)))

    def _visit_parameter(self, node: s.Parameter, names: Names) -> None:
        if node.type is not None:
            self._use_of_language(node.type, "type", [*NAMED])
        if node.default is not None:
            self._visit(node.default, names)
        self._declare(node, names)

    _visit_param = _visit_parameter

    def _visit_let(self, node: s.Let, names: Names) -> None:
        self._visit(node.value, names)
        self._declare(node, names)

    def _visit_topologyinstance(self, node: s.TopologyInstance, names: Names) -> None:
        self._use(node.name, symbol_of(node), declares=True)
        self._visit(node.value, names)

    def _visit_forclause(self, node: ex.ForClause, names: Names) -> None:
        self._visit(node.iterable, names)
        self._declare(node, names)

    def _inner_body(self, node: ex.Node, names: Names) -> None:
        """A node with names of its own, whose loop variables precede what uses them."""
        inner = self._body(node, names, [])
        parts = [*children(node)]
        self._visit_all([part for part in parts if isinstance(part, ex.ForClause)], inner)
        self._visit_all([part for part in parts if not isinstance(part, ex.ForClause)], inner)

    _visit_for = _visit_comprehension = _inner_body

    def _visit_if(self, node: s.If, names: Names) -> None:
        self._visit(node.condition, names)
        for branch in (node.then, node.otherwise):
            self._visit_all(branch, self._body(node, names, []) if names.span is not None else names)

    def _visit_group(self, node: s.Group, names: Names) -> None:
        self._use(node.name, symbol_of(node), declares=True)
        inner = self._body(node, names, [])
        self._visit_all([*node.clauses, node.value], inner)

    def _declaration(self, node: s.TopologyTemplate | s.Collective | s.ScheduleDeclaration, names: Names) -> None:
        """A declaration with a name, perhaps parameters, and a body."""
        self._use(node.name, symbol_of(node), declares=True)
        inner = self._body(node, names, node.body)
        if isinstance(node, s.ScheduleDeclaration):
            inner.parts = self.members(node.topology, names)
        self._visit_all([part for part in children(node) if part is not node.name], inner)

    _visit_topologytemplate = _visit_collective = _visit_scheduledeclaration = _declaration
    _visit_workload = _visit_pricetable = _visit_design = _declaration

    def _visit_algorithm(self, node: s.Algorithm, names: Names) -> None:
        self._use(node.name, symbol_of(node), declares=True)
        collective = self._declaration_of("collective", node.implements.function)
        inner = self._body(node, names, [])
        if collective is not None and isinstance(collective.node, s.Collective):
            for part in flat(collective.node.body):
                if isinstance(part, s.ChunkDeclaration):
                    inner.chunks[part.chunk.name.name] = symbol_of(part)
        self._visit_all(node.parameters, inner)
        self._call_of(collective, node.implements, inner)
        self._visit_all(node.body, inner)

    def _visit_devicedeclaration(self, node: s.DeviceDeclaration, names: Names) -> None:
        self._use(node.name, symbol_of(node), declares=True)
        self._visit_all(node.shape, names)
        self._options(node.attributes, names, "attribute", [*ATTRIBUTES[node.kind]])
        self._visit_all([node.labels] if node.labels is not None else [], names)

    def _visit_use(self, node: s.Use, names: Names) -> None:
        self._visit(node.topology, names)
        self._use(node.name, symbol_of(node), declares=True)
        self._visit_all([*node.shape, *([node.labels] if node.labels is not None else [])], names)

    def _visit_partdeclaration(self, node: s.PartDeclaration, names: Names) -> None:
        self._use(node.name, symbol_of(node), declares=True)
        inner = self._body(node, names, [])
        self._visit_all(node.clauses, inner)
        for part in node.parts:
            for device in (part.device,) if isinstance(part, ex.RemovedDevice) else (part.source, part.target):
                self._device(device, names.table("members"), inner)

    def _visit_failures(self, node: s.Failures, names: Names) -> None:
        """Parts of the topology; a name in the plural is none of their names."""
        parts = names.table("parts")
        for failing in node.failing:
            part = failing.parts
            if isinstance(part, s.AnyParts):
                for name in (*part.names, *([part.within] if part.within is not None else [])):
                    self._use(name, parts.get(name.name))
            else:
                self._device(part, parts, names)
            self._options(failing.attributes, names, "attribute", [*ATTRIBUTES["failures"]])

    def _visit_linkdeclaration(self, node: s.LinkDeclaration, names: Names) -> None:
        for end in (node.source, node.target):
            self._device(end, names.table("members"), names)
        self._options(node.attributes, names, "attribute", [*ATTRIBUTES["link"]])

    def _visit_chunkreference(self, node: s.ChunkReference, names: Names) -> None:
        symbol = names.find("chunks", node.name.name)
        declares = symbol is not None and symbol.place is not None and symbol.place.start == node.name.span.start
        self._use(node.name, symbol, declares)
        self._visit_all(node.indices, names)

    def _visit_runstatement(self, node: s.RunStatement, names: Names) -> None:
        self._call_of(self._declaration_of("collective", node.collective.function), node.collective, names)
        algorithm = None
        if node.using is not None:
            algorithm = algorithm_for(self.file, node.using.name, node.collective.function.name)
            self._use(node.using, algorithm)
        self._arguments(algorithm, node.arguments, names)

    def _visit_synthesize(self, node: s.Synthesize, names: Names) -> None:
        self._use_of_language(node.synthesizer, "synthesizer", [*SYNTHESIZERS])
        record = SYNTHESIZERS.get(node.synthesizer.name)
        self._options(node.arguments, names, "option", [*record.options] if record else [])

    def _visit_emit(self, node: s.Emit, names: Names) -> None:
        self._use_of_language(node.kind, "kind of file", [*EMIT_KINDS])
        record = EMIT_KINDS.get(node.kind.name)
        self._options(node.arguments, names, "option", [*record.options] if record else [])

    def _visit_train(self, node: s.Train, names: Names) -> None:
        self._use(node.workload, self._declaration_of("workload", node.workload))
        self._visit_all(node.arguments, names)

    def _visit_pricedby(self, node: s.PricedBy, _names: Names) -> None:
        self._use(node.table, self._declaration_of("price table", node.table))

    # Expressions

    def _visit_name(self, node: ex.Name, names: Names) -> None:
        local = (
            names.find("values", node.name)
            or self._declaration_of("value", node)
            or self._declaration_of("topology", node)
        )
        self._use(node, local)

    def _device(self, node: ex.Expr, members: Mapping[str, Symbol], names: Names) -> None:
        """The name of devices among those of a topology, as `gpu[0, *]` or `node[1].gpu[0]`."""
        if isinstance(node, ex.Name):
            self._use(node, members.get(node.name))
        elif isinstance(node, ex.Index):
            self._device(node.base, members, names)
            self._visit_all(node.indices, names)
        elif isinstance(node, ex.Member):
            self._device(node.base, members, names)
            root = ex.root_of(node)
            copies = members[root.name].node if isinstance(root, ex.Name) and root.name in members else None
            if isinstance(copies, s.Use):
                self._use(node.member, self.members(copies.topology, Names()).get(node.member.name))

    def _visit_with(self, node: s.With | ex.Without, names: Names) -> None:
        self._visit(node.base, names)
        members = self.members(node.base, names)
        for part in node.parts:
            inner = self._body(part, names, [])
            loop = part.loop if isinstance(part, s.ChangedLink) else None
            self._visit_all([loop] if loop is not None else [], inner)
            devices = (
                [part.device] if isinstance(part, s.ChangedDevice | ex.RemovedDevice) else [part.source, part.target]
            )
            for device in devices:
                self._device(device, members, inner)
            if isinstance(part, s.ChangedDevice | s.ChangedLink):
                kind = part.kind if isinstance(part, s.ChangedDevice) else "link"
                self._options(part.attributes, inner, "attribute", [*ATTRIBUTES[kind]])

    _visit_without = _visit_with

    def _visit_member(self, node: ex.Member, names: Names) -> None:
        self._visit(node.base, names)
        symbol = self.members(node.base, names).get(node.member.name)
        self._use(node.member, symbol or (Symbol("all NPUs", "npus") if node.member.name == "npus" else None))

    def _visit_call(self, node: ex.Call, names: Names) -> None:
        known = Symbol("function", node.function.name) if node.function.name in BUILTINS else None
        self._call_of(known or self._declaration_of("topology", node.function), node, names)

    def _call_of(self, callee: Symbol | None, node: ex.Call, names: Names) -> None:
        self._use(node.function, callee)
        self._arguments(callee, node.arguments, names)

    def _arguments(self, callee: Symbol | None, arguments: Sequence[ex.Argument], names: Names) -> None:
        """Arguments, whose labels are the parameters of what is called."""
        parameters = {p.name.name: p for p in callee_parameters(callee.node if callee is not None else None)}
        for argument in arguments:
            if argument.name is not None and argument.key in parameters:
                self._use(argument.name, Symbol("parameter", argument.key, parameters[argument.key]))
            self._visit(argument.value, names)

    def _options(self, arguments: Sequence[ex.Argument], names: Names, kind: str, known: Sequence[str]) -> None:
        """Arguments, whose labels are attributes or options."""
        for argument in arguments:
            if argument.name is not None:
                self._use_of_language(argument.name, kind, known)
            self._visit(argument.value, names)

    def _visit_argument(self, node: ex.Argument, names: Names) -> None:
        self._visit(node.value, names)
