"""The static check of expressions: resolves names and infers types, without evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean, phrase
from collc.source.automatic_chunks import AUTO, CHUNKS
from collc.source.elaboration.attributes import LINK_ATTRIBUTES, NPU_ATTRIBUTES, SWITCH_ATTRIBUTES
from collc.source.elaboration.binding import match_arguments, parameter_type
from collc.source.elaboration.builtins import BUILTINS, call_type
from collc.source.parsing import expressions as ex
from collc.source.parsing.syntax import ChangedDevice, ChangedLink, DeviceDeclaration, Parameter, TopologyTemplate, With
from collc.source.problems import Problems, fail
from collc.source.scopes import FileScope
from collc.source.types import (
    ANY,
    BOOL,
    BYTES,
    DEVICES,
    FLOAT,
    GROUP,
    INT,
    NAMED,
    NPU,
    NUMBERS,
    QUANTITIES,
    RANGE,
    STRING,
    TOPOLOGY,
    Kind,
    Type,
    are_comparable,
    binary_type,
    fits,
    holds,
    item_type,
    join,
    list_of,
    unary_type,
)

OPERATOR_VERBS: Final = {"+": "adds", "-": "subtracts", "*": "multiplies", "/": "divides", "//": "divides"}


@dataclass(eq=False)
class TypeScope:
    """The types of the names that a body declares. outer: the scope around it. places: the span of each declaration."""

    outer: TypeScope | None = None
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    places: dict[str, Span] = field(default_factory=dict[str, Span])

    def find(self, name: str) -> Type | None:
        """The type of a name, None if no scope declares it."""
        if name in self.types:
            return self.types[name]
        return self.outer.find(name) if self.outer is not None else None

    def known_names(self) -> set[str]:
        """All names of this scope and of those around it."""
        return set(self.types) | (self.outer.known_names() if self.outer is not None else set())

    def declare(self, name: ex.Identifier, kind: Type) -> None:
        """Add a name. Raises SourceError if this scope has it already."""
        if name.name in self.places:
            first = Note("first here", self.places[name.name])
            raise fail("E0205", f"'{name.name}' is declared twice", name.span, first)
        self.types[name.name] = kind
        self.places[name.name] = name.span


class ExpressionChecker(ex.ExpressionVisitor[TypeScope, Type]):
    """Infers the types of the expressions of one file.

    Errors go to `problems`; the type of the expression is then ANY, which fits everywhere. global_type: the type of a
    top-level value by its name.
    """

    def __init__(self, file: FileScope, problems: Problems, global_type: Callable[[str, Span], Type | None]) -> None:
        self.file = file
        self.problems = problems
        self.global_type = global_type

    def report(self, error: SourceError) -> None:
        """Keep the messages of an error; the check goes on."""
        self.problems.add(*error.diagnostics)

    def type_of(self, node: ex.Expr, env: TypeScope) -> Type:
        """The type of an expression."""
        try:
            return self.visit(node, env)
        except SourceError as error:
            self.report(error)
            return ANY

    def expect(self, node: ex.Expr, env: TypeScope, wanted: Type, what: str) -> None:
        """Report an expression whose type does not fit; what: its role, for the message."""
        given = self.type_of(node, env)
        if not fits(given, wanted):
            self.report(wrong_type(given, wanted, what, node))

    def _visit_literal(self, node: ex.Expr) -> Type:
        match node:
            case ex.IntLiteral():
                return INT
            case ex.FloatLiteral():
                return FLOAT
            case ex.QuantityLiteral():
                return NAMED[str(node.dimension)]
            case ex.NumberList():
                return list_of(INT)
            case ex.StringLiteral():
                return STRING
            case ex.BoolLiteral():
                return BOOL
            case _:
                raise fail("E0211", "'*' is only allowed as an index", node.span)

    def _visit_collection(self, node: ex.Collection, env: TypeScope) -> Type:
        return self._items(node.kind, [(self.type_of(i, env), i.span) for i in node.items])

    def _visit_comprehension(self, node: ex.Comprehension, env: TypeScope) -> Type:
        inner = self.loop(node.clauses, node.condition, env)
        return self._items(node.kind, [(self.type_of(node.item, inner), node.item.span)])

    def _visit_with(self, node: With | ex.Without, env: TypeScope) -> Type:
        word = "with" if isinstance(node, With) else "without"
        self.expect(node.base, env, TOPOLOGY, f"the topology before '{word}'")
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
                self.attributes(part.attributes, LINK_ATTRIBUTES, inner)
            for end in (part.source, part.target):
                self.device_indices(end, inner)
            if part.lanes is not None:
                self.expect(part.lanes, inner, INT, "the number of lanes")
        return TOPOLOGY

    _visit_without = _visit_with

    def _items(self, kind: str, found: Sequence[tuple[Type, Span]]) -> Type:
        item: Type = ANY
        for given, span in found:
            joint = join(item, given)
            if joint is None or not holds(Kind(kind), given):
                message = f"{item} and {given} in one {kind}" if joint is None else f"a {kind} does not hold {given}"
                raise fail("E0216", message, span)
            item = joint
        return Type(Kind(kind), item)

    def _visit_name(self, node: ex.Name, env: TypeScope) -> Type:
        found = env.find(node.name)
        if found is None:
            found = self.global_type(node.name, node.span)
        if found is not None:
            return found
        topology = self.file.find("topology", node.name, node.span)
        if topology is not None:
            if isinstance(topology.node, TopologyTemplate) and topology.node.parameters is not None:
                hint = f"write {node.name}(...)"
                raise fail("E0313", f"topology '{node.name}' needs arguments", node.span, hint=hint)
            return TOPOLOGY
        known = env.known_names() | self.file.known_names("value") | self.file.known_names("topology")
        hint = did_you_mean(node.name, known)
        if node.name in BUILTINS:
            hint = f"'{node.name}' is a function: write {node.name}(...)"
        if node.name == AUTO:
            hint = f"auto stands alone and only for {CHUNKS} of a run, as in 'run all_gather(..., {CHUNKS}: {AUTO})'"
        raise fail("E0201", f"unknown value '{node.name}'", node.span, hint=hint)

    def _visit_binary(self, node: ex.Binary, env: TypeScope) -> Type:
        left, right = self.type_of(node.left, env), self.type_of(node.right, env)
        kind = binary_type(node.operator, left, right)
        if kind is not None:
            return kind
        verb = OPERATOR_VERBS.get(node.operator)
        if node.operator in ("+", "-") and verb is not None:
            message = f"this {verb} {left} and {right}" if node.operator == "+" else f"this {verb} {right} from {left}"
        else:
            message = f"'{node.operator}' is not defined for {left} and {right}"
        notes = [Note(f"this is {k}", n.span) for k, n in ((left, node.left), (right, node.right))]
        raise fail("E0210", message, node.span, *notes, hint=_unit_hint(left, right))

    def _visit_unary(self, node: ex.Unary, env: TypeScope) -> Type:
        operand = self.type_of(node.operand, env)
        kind = unary_type(node.operator, operand)
        if kind is None:
            raise fail("E0210", f"'{node.operator}' is not defined for {operand}", node.span)
        return kind

    def _visit_comparison(self, node: ex.Comparison, env: TypeScope) -> Type:
        types = [self.type_of(operand, env) for operand in node.operands]
        for k, operator in enumerate(node.operators):
            left, right = types[k], types[k + 1]
            if not are_comparable(operator, left, right):
                place = node.operands[k].span.to(node.operands[k + 1].span)
                notes = [Note(f"this is {types[i]}", node.operands[i].span) for i in (k, k + 1)]
                message = f"'{operator}' is not defined for {left} and {right}"
                self.problems.add(*fail("E0210", message, place, *notes).diagnostics)
        return BOOL

    def _visit_range(self, node: ex.Range, env: TypeScope) -> Type:
        low, high = self.type_of(node.low, env), self.type_of(node.high, env)
        if low == high == BYTES:
            return Type(Kind.RANGE, BYTES)
        for given, end in ((low, node.low), (high, node.high)):
            if not fits(given, INT):
                self.report(wrong_type(given, INT, "an end of a range", end))
        return RANGE

    def _visit_member(self, node: ex.Member, env: TypeScope) -> Type:
        base = self._base(node.base, env)
        copies = isinstance(node.base, ex.Index) and self._base(node.base.base, env).kind is Kind.DEVICES
        if not copies and base.kind not in (Kind.TOPOLOGY, Kind.DEVICES, Kind.ANY):
            hint = "the NPUs of a group are g[0], g[1], ..." if base == GROUP else ""
            raise fail("E0215", f"{base} has no members", node.member.span, hint=hint)
        return GROUP if node.member.name == "npus" else DEVICES

    def _base(self, node: ex.Expr, env: TypeScope) -> Type:
        """The type of the base of a member; a topology has precedence over a value of the same name."""
        if isinstance(node, ex.Name) and env.find(node.name) is None:
            declaration = self.file.find("topology", node.name, node.span)
            if declaration is not None and not (
                isinstance(declaration.node, TopologyTemplate) and declaration.node.parameters is not None
            ):
                return TOPOLOGY
        return self.type_of(node, env)

    def _visit_index(self, node: ex.Index, env: TypeScope) -> Type:
        base = self.type_of(node.base, env)
        several = self.indices(node.indices, env)
        match base.kind:
            case Kind.ANY:
                return ANY
            case Kind.FAMILY:
                return GROUP
            case Kind.DEVICES:
                return GROUP if several else DEVICES
            case Kind.TOPOLOGY | Kind.GROUP | Kind.LIST if len(node.indices) == 1:
                if base.kind is Kind.LIST:
                    return base if several else base.item or ANY
                return GROUP if several else NPU
            case Kind.TOPOLOGY | Kind.GROUP | Kind.LIST:
                hint = "a list of lists is indexed as a[i][j]" if base.kind is Kind.LIST else ""
                raise fail("E0214", f"{base} takes one index, not {len(node.indices)}", node.span, hint=hint)
            case _:
                raise fail("E0214", f"{base} takes no index", node.span)

    def indices(self, nodes: Sequence[ex.Expr], env: TypeScope) -> bool:
        """Check indices; returns whether one of them selects several items."""
        several = False
        for node in nodes:
            if isinstance(node, ex.Star):
                several = True
                continue
            given = self.type_of(node, env)
            whole = given.kind in (Kind.LIST, Kind.SET, Kind.RANGE)
            if whole and not fits(item_type(given) or STRING, INT):
                self.report(wrong_type(item_type(given) or given, INT, "an index", node))
            elif not whole and not fits(given, INT):
                self.report(wrong_type(given, INT, "an index", node))
            several |= whole
        return several

    # Calls

    def _visit_call(self, node: ex.Call, env: TypeScope) -> Type:
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
        return TOPOLOGY

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
            if not fits(given, types[name]):
                error = wrong_type(given, types[name], f"'{name}'", argument.value, Note("declared here", places[name]))
                self.report(error)
        return matched

    # Loops

    def loop(self, clauses: Sequence[ex.ForClause], condition: ex.Expr | None, env: TypeScope) -> TypeScope:
        """Check the clauses of a loop nest; returns the scope with its loop variables."""
        for clause in clauses:
            given = self.type_of(clause.iterable, env)
            item = item_type(given)
            if item is None:
                hint = f"write 0..{_text(clause.iterable)}" if given.kind in (Kind.INT, Kind.NUMBER) else ""
                error = fail("E0213", f"a for loop cannot iterate over {given}", clause.iterable.span, hint=hint)
                self.report(error)
            env = TypeScope(env)
            with self.problems.collect():
                env.declare(clause.name, item or ANY)
        if condition is not None:
            self.expect(condition, env, BOOL, "a condition")
        return env

    # Parts of topologies

    def device(self, node: DeviceDeclaration | ChangedDevice, env: TypeScope) -> None:
        """Check the declaration or change of devices, as in `npu gpu[2, 8]`."""
        if isinstance(node, ChangedDevice):
            self.device_indices(node.device, env)
        for size in node.shape if isinstance(node, DeviceDeclaration) else ():
            self.expect(size, env, INT, "a size")
        self.attributes(node.attributes, NPU_ATTRIBUTES if node.kind == "npu" else SWITCH_ATTRIBUTES, env)
        self.labels(node.labels, env)

    def labels(self, node: ex.Expr | None, env: TypeScope) -> None:
        """Check the labels of devices: strings."""
        if node is not None:
            given = self.type_of(node, env)
            if not fits(given, STRING) and not fits(given, list_of(STRING)):
                self.report(fail("E0211", f"labels must be of type string or list of string, not {given}", node.span))

    def attributes(self, arguments: Sequence[ex.Argument], known: Mapping[str, Type], env: TypeScope) -> None:
        """Check the attributes of a device or link, as in `(bandwidth: 50GiB/s, latency: 0.5us)`."""
        seen: dict[str, ex.Argument] = {}
        for argument in arguments:
            name = argument.key
            if name not in known:
                hint = did_you_mean(name, known, f"there are {phrase(known)}")
                if name in NPU_ATTRIBUTES and known is not NPU_ATTRIBUTES:
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


def _text(node: ex.Expr) -> str:
    return node.span.text


def _unit_hint(left: Type, right: Type) -> str:
    kinds = {left.kind, right.kind}
    if kinds & NUMBERS and kinds & {Kind.BYTES}:
        return "a size needs a unit, as in 1MiB"
    if kinds & NUMBERS and kinds & {Kind.TIME}:
        return "a time needs a unit, as in 0.5us"
    return "a rate needs a unit, as in 50GiB/s" if kinds & NUMBERS and kinds & {Kind.RATE} else ""


def wrong_type(given: Type, wanted: Type, what: str, node: ex.Expr, *notes: Note) -> SourceError:
    """The error for a value whose type does not fit; what: its role."""
    hint = ""
    if wanted == INT and given == FLOAT:
        divided = isinstance(node, ex.Binary) and node.operator == "/"
        hint = "'//' is the division that rounds down to an int" if divided else "ceil(...) rounds up to a whole number"
    elif wanted.kind in QUANTITIES and given.kind in NUMBERS:
        hint = _unit_hint(wanted, given)
    elif wanted == GROUP and given == NPU:
        hint = "a group of one NPU is [npu]"
    elif wanted == NPU and given == GROUP:
        hint = "one NPU of a group is g[0]"
    elif wanted == GROUP and given == TOPOLOGY:
        hint = f"the group of all its NPUs is {_text(node)}.npus"
    return fail("E0211", f"{what} must be of type {wanted}, not {given}", node.span, *notes, hint=hint)
