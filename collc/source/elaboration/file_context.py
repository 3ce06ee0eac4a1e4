"""The elaboration of one file: evaluates its values, topologies and groups, each at most once and on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean
from collc.source import limits
from collc.source.elaboration.attributes import NPU_ATTRIBUTES, endpoint_of
from collc.source.elaboration.binding import (
    GivenArgument,
    as_parameter,
    checked_group,
    evaluated_arguments,
    match_arguments,
    parameter_frame,
)
from collc.source.elaboration.containers import coerce
from collc.source.elaboration.derived_topologies import (
    limited_npus,
    product,
    rename_topology,
    reversed_links,
    unwound,
    with_parts,
    without_parts,
)
from collc.source.elaboration.evaluate import Evaluator, NotVectorised, row_by_row
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.topologies import build_topology
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.values import Value
from collc.source.parsing.expressions import Argument, Call, Index, Without
from collc.source.parsing.syntax import Group, Let, Param, Parameter, TopologyInstance, TopologyTemplate, With
from collc.source.problems import AlreadyReported, at_use, fail
from collc.source.scopes import TRANSFORMS, Declaration, FileScope, FoundDeclaration
from collc.source.types import FAMILY, GROUP, INT, TOPOLOGY, Type


@dataclass(frozen=True, eq=False)
class GroupFamily:
    """`group tp[n in 0..4] = ...`: the groups of a family by the values of their loop variables."""

    name: str
    groups: Mapping[tuple[int, ...], Value]

    def member(self, evaluator: Evaluator, node: Index, frame: Frame) -> Value:
        """The group `tp[2]`. Raises SourceError if the family has none with these indices."""
        indices = [evaluator.coerce(i, frame, INT, "an index") for i in node.indices]
        if any(i.varies for i in indices):
            raise NotVectorised
        key = tuple(int(i.data) for i in indices)
        if key not in self.groups:
            known = list(self.groups)
            hint = f"there are {self.name}{list(known[0])} .. {self.name}{list(known[-1])}" if known else ""
            raise fail("E0414", f"the family '{self.name}' has no group {list(key)}", node.span, hint=hint)
        return self.groups[key]


@dataclass(eq=False)
class ProgramContext:
    """The elaboration of one program.

    definitions: the values of params that were given with -D. contexts: of its files, by the id of the file.
    depth: number of templates that are being expanded, one inside another. expansions: of templates, so far.
    """

    definitions: Mapping[str, Value]
    contexts: dict[int, FileContext] = field(default_factory=dict[int, "FileContext"])
    depth: int = 0
    expansions: int = 0

    def context(self, file: FileScope) -> FileContext:
        """The context of a file."""
        if id(file) not in self.contexts:
            self.contexts[id(file)] = FileContext(file, self)
        return self.contexts[id(file)]


@dataclass(eq=False)
class FileContext:
    """The elaboration of one file.

    main: whether it is the file that was given, whose params -D sets. made: the values so far, or the error that one
    raised, by the id of the declaration. open: the declarations that are being evaluated, outermost first.
    """

    file: FileScope
    program: ProgramContext
    main: bool = False
    made: dict[int, Value | SourceError] = field(default_factory=dict[int, "Value | SourceError"])
    open: list[Declaration] = field(default_factory=list[Declaration])

    def __post_init__(self) -> None:
        self.evaluator = Evaluator(self)
        self.root = Frame(outer=self.value_named)

    def value_named(self, name: str) -> Value | None:
        """The value of a let, param or group of the file or its imports."""
        found = self.file.find("value", name)
        return None if found is None else self.value_of(found)

    def value_of(self, found: FoundDeclaration) -> Value:
        """The value of a declaration, evaluated once. Raises AlreadyReported if that failed before."""
        if found.file is not self.file:
            return self.program.context(found.file).value_of(found)
        node = found.node
        known = self.made.get(id(node))
        if isinstance(known, Value):
            return known
        if isinstance(known, SourceError):
            raise AlreadyReported
        if node in self.open:
            names = " -> ".join(n.name.name for n in [*self.open[self.open.index(node) :], node])
            raise fail("E0222", f"'{node.name.name}' is defined by itself", node.name.span, Note(names))
        self.open.append(node)
        try:
            value = self._make(node)
        except SourceError as error:
            self.made[id(node)] = error
            raise
        except RecursionError:
            error = self.made[id(node)] = limits.uses_too_deep(node.span)
            if len(self.open) > 1:
                raise
            raise error from None
        finally:
            self.open.pop()
        self.made[id(node)] = value
        return value

    def _make(self, node: Declaration) -> Value:
        match node:
            case Let():
                return self.evaluator.value(node.value, self.root)
            case Param():
                return self.parameter(node)
            case Group():
                return self.group(node)
            case TopologyInstance():
                value = self.evaluator.coerce(node.value, self.root, TOPOLOGY, "a topology")
                return Value(TOPOLOGY, rename_topology(value.data, node.name))
            case TopologyTemplate():
                return Value(TOPOLOGY, self.build_topology(node, self.root, node.name.span))
            case _:
                raise fail("E0201", f"'{node.name.name}' is not a value", node.name.span)

    def parameter(self, node: Param) -> Value:
        """The value of a param: the one given with -D, or its default. Raises SourceError if it has neither."""
        given = self.program.definitions.get(node.name.name) if self.main else None
        return self.default(node) if given is None else given

    def default(self, node: Param) -> Value:
        """The default of a param. Raises SourceError if it has none."""
        if node.default is None:
            name = node.name.name
            hint = f"set it with -D {name}=..., in Python with definitions={{'{name}': ...}}"
            raise fail("E0223", f"param '{node.name.name}' has no value", node.name.span, hint=hint)
        value = self.evaluator.value(node.default, self.root)
        return as_parameter(value, Parameter(node.span, node.name, node.type, node.default), node.default.span)

    def group(self, node: Group) -> Value:
        """The value of a group or of a family of groups."""
        if not node.clauses:
            value = self.evaluator.coerce(node.value, self.root, GROUP, "a group")
            return checked_group(Value(GROUP, value.data, value.home), node.value.span)
        frame = self.evaluator.loop(node.clauses, None, self.root)
        limits.check_count("statements of a schedule", frame.rows or 0, node.span)

        def one_group(row: Frame) -> tuple[tuple[int, ...], Value]:
            key: list[int] = []
            for clause in node.clauses:
                index = row.find(clause.name.name)
                key.append(int(coerce(index, INT, clause.span, "an index").data) if index is not None else 0)
            value = self.evaluator.coerce(node.value, row, GROUP, "a group")
            return tuple(key), checked_group(Value(GROUP, value.data, value.home), node.value.span)

        return Value(FAMILY, GroupFamily(node.name.name, dict(row_by_row(frame, one_group))))

    # Topologies that expressions of the file can name or construct

    def topology_named(self, name: str) -> Topology | None:
        """The topology with a name: an instance or a template without parameters; None if there is none."""
        found = self.file.find("topology", name)
        if found is None or (isinstance(found.node, TopologyTemplate) and found.node.parameters is not None):
            return None
        return self.value_of(found).data

    def topology_called(self, call: Call, frame: Frame) -> Topology:
        """`ring(8)`, `unwound(t, degree: 2)`, `reversed(t)`, `limited(t, inject: 100GB/s)`."""
        name = call.function.name
        if name in TRANSFORMS:
            return self.transform_topology(name, call, frame)
        found = self.file.get("topology", call.function)
        template = found.node
        if not isinstance(template, TopologyTemplate) or template.parameters is None:
            hint = f"write '{name}' without parentheses"
            raise fail("E0313", f"topology '{name}' takes no arguments", call.span, hint=hint)
        matched = match_arguments(template.parameters, call.arguments, f"topology '{name}'", call.span, shapes=True)
        given = evaluated_arguments(template.parameters, matched, self.evaluator, frame)
        owner = self.program.context(found.file)
        places = {name: argument.span for name, argument in given.items()}
        library = found.file.module is not None
        return self.expand(call.span, library, places, lambda: owner.instance(template, given, call.span))

    def expand(self, span: Span, library: bool, places: Mapping[str, Span], make: Callable[[], Topology]) -> Topology:
        """Expand a template inside the current one. Errors inside name the call at `span` (see at_use)."""
        if self.program.depth >= limits.MAX_DEPTH:
            raise limits.too_deep("the expansion of templates", span)
        self.program.expansions += 1
        limits.check_count("expansions of templates", self.program.expansions, span)
        self.program.depth += 1
        try:
            return make()
        except SourceError as error:
            raise at_use(error, library, span, "in the expansion of this call", places) from None
        finally:
            self.program.depth -= 1

    def instance(self, template: TopologyTemplate, given: Mapping[str, GivenArgument], span: Span) -> Topology:
        """The topology of a template of this file, called with arguments."""
        frame = parameter_frame(template.parameters or (), given, self.evaluator, self.root)
        return self.build_topology(template, frame, span)

    def build_topology(self, template: TopologyTemplate, frame: Frame, span: Span) -> Topology:
        """The topology of a template whose parameters are in a frame."""
        try:
            return build_topology(template, template.name.name, frame, self.evaluator)
        except RecursionError:
            raise limits.too_deep("the expansion of templates", span) from None

    def transform_topology(self, name: str, call: Call, frame: Frame) -> Topology:
        """The topology `unwound(t, degree: 2)`, `reversed(t)` or `limited(t, inject: 100GB/s)`. Raises SourceError."""
        first, rest = transform_arguments(name, call)
        base: Topology = self.evaluator.coerce(first.value, frame, TOPOLOGY, f"the argument of '{name}'").data
        if name == "reversed":
            return reversed_links(base)
        if name == "limited":
            given = {n: self.evaluator.coerce(a.value, frame, NPU_ATTRIBUTES[n], n).data for n, a in rest.items()}
            known = {name: value for name, value in given.items() if value is not None}
            return limited_npus(base, endpoint_of(known, call.arguments, call.span), "endpoint" in known)
        distance = self.evaluator.whole_number(rest["degree"].value, frame, "a degree") if rest else 1
        return unwound(base, distance, call.span)

    def product(self, left: Topology, right: Topology, span: Span) -> Topology:
        """`a * b`."""
        return product(left, right, span)

    def changed_topology(self, node: With | Without, frame: Frame) -> Topology:
        """`t without { npu 5 }`, `t with { npu spare, link a <-> b (bandwidth: 12.5GB/s) }`."""
        word = "with" if isinstance(node, With) else "without"
        base: Topology = self.evaluator.coerce(node.base, frame, TOPOLOGY, f"the topology before '{word}'").data
        if isinstance(node, With):
            return with_parts(node, base, frame, self.evaluator)
        return without_parts(node, base, frame, self.evaluator)


TRANSFORM_PARAMETERS: Final[dict[str, dict[str, Type]]] = {
    "unwound": {"degree": INT},
    "reversed": {},
    "limited": NPU_ATTRIBUTES,
}
"""The parameters of the functions of topologies, beside the topology itself."""


def transform_arguments(name: str, call: Call) -> tuple[Argument, dict[str, Argument]]:
    """The topology and the other arguments by name of `unwound`, `reversed` and `limited`. Raises SourceError."""
    known = tuple(TRANSFORM_PARAMETERS[name])
    if not call.arguments or call.arguments[0].name is not None:
        raise fail("E0212", f"{name} takes a topology as its first argument", call.span)
    found: dict[str, Argument] = {}
    for place, argument in enumerate(call.arguments[1:]):
        if argument.name is not None and argument.name.name not in known:
            hint = did_you_mean(argument.name.name, known)
            raise fail("E0212", f"{name} has no parameter '{argument.name.name}'", argument.name.span, hint=hint)
        if place >= len(known):
            raise fail("E0212", f"{name} takes {1 + len(known)} argument{'s' if known else ''}", argument.span)
        if name == "limited" and argument.name is None:
            raise fail("E0212", f"write {name}(t, inject: 100GB/s): the rates have names", argument.span)
        parameter = known[place] if argument.name is None else argument.name.name
        if parameter in found:
            raise fail("E0212", f"{name} is given '{parameter}' twice", argument.span)
        found[parameter] = argument
    if name == "limited" and not found:
        raise fail("E0212", f"{name} takes at least one rate: {name}(t, inject: 100GB/s)", call.span)
    return call.arguments[0], found
