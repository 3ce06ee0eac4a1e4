"""The elaboration of one file, with its values, topologies and groups, and the binding of arguments to parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean, phrase, plural
from collc.source import limits
from collc.source.elaboration.attributes import endpoint_of
from collc.source.elaboration.containers import coerce, flatten_lists
from collc.source.elaboration.derived_topologies import with_parts, without_parts
from collc.source.elaboration.evaluate import Evaluator, row_by_row
from collc.source.elaboration.topologies import build_topology
from collc.source.elaboration.topology_parts import check_npus, device_label
from collc.source.elaboration.topology_values import (
    DeviceArray,
    Topology,
    limited_npus,
    rename_topology,
    reversed_links,
    unwound,
)
from collc.source.elaboration.values import Data, Frame, Value, as_rows
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Call, Index, Without
from collc.source.problems import AlreadyReported, Problems, at_use, fail
from collc.source.scopes import LANGUAGE, Declaration, FileScope, FoundDeclaration
from collc.source.types import ANY, FAMILY, GROUP, INT, NAMED, QUANTITIES, TOPOLOGY, Kind, Type


@dataclass(frozen=True, eq=False)
class GroupFamily:
    """`group tp[n in 0..4] = ...`: several groups. row: the row of each, by the values of its loop variables."""

    name: str
    row: Mapping[tuple[int, ...], int]
    groups: Value

    def member(self, evaluator: Evaluator, node: Index, frame: Frame) -> Value:
        """The group `tp[2]`, or one an iteration. Raises SourceError if the family has none with these indices."""
        indices = [evaluator.coerce(i, frame, INT, "an index") for i in node.indices]
        if not any(i.varies for i in indices):
            return self.groups.at(self._row_of(tuple(int(i.data) for i in indices), node))
        columns = [as_rows(i, frame).data.tolist() for i in indices]
        rows = [self._row_of(key, node) for key in zip(*columns, strict=True)]
        return as_rows(self.groups, Frame(len(self.row))).take(np.array(rows, np.int64))

    def _row_of(self, key: tuple[int, ...], node: Index) -> int:
        if key not in self.row:
            known = list(self.row)
            hint = f"there are {self.name}{list(known[0])} .. {self.name}{list(known[-1])}" if known else ""
            raise fail("E0414", f"the family '{self.name}' has no group {list(key)}", node.span, hint=hint)
        return self.row[key]


BuildKey = tuple[s.TopologyTemplate, tuple[tuple[str, Type, Data], ...]]
"""A template, and the name, type and value of each argument."""


@dataclass(eq=False)
class ProgramContext:
    """The elaboration of one program.

    definitions: the values of params that were given with -D. problems: the messages so far. contexts: of its files, by
    the id of the file. depth: number of templates that are being expanded, one inside another. expansions: of
    templates, so far. built: topologies of the standard library by template and arguments. known: topologies of
    the library that an earlier elaboration built.
    """

    definitions: dict[str, Value] = field(default_factory=dict[str, Value])
    problems: Problems = field(default_factory=Problems)
    contexts: dict[int, FileContext] = field(default_factory=dict[int, "FileContext"])
    depth: int = 0
    expansions: int = 0
    built: dict[BuildKey, Topology] = field(default_factory=dict["BuildKey", Topology])
    known: Mapping[BuildKey, Topology] = field(default_factory=dict["BuildKey", Topology])

    def context(self, file: FileScope) -> FileContext:
        """The context of a file."""
        return self.contexts.setdefault(id(file), FileContext(file, self))


class FileContext(Evaluator):
    """The elaboration of one file.

    main: whether it is the file that was given, whose params -D sets. made: the values so far, or the error that one
    raised, by the id of the declaration. open: the declarations that are being evaluated, outermost first.
    """

    def __init__(self, file: FileScope, program: ProgramContext) -> None:
        self.file = file
        self.program = program
        self.main = False
        self.made: dict[int, Value | SourceError] = {}
        self.open: list[Declaration] = []
        self.root = Frame(outer=self.value_named)

    def value_named(self, name: str) -> Value | None:
        """The value of a let, param or group of the file or its imports."""
        declaration = self.file.find("value", name)
        return None if declaration is None else self.value_of(declaration)

    def value_of(self, found: FoundDeclaration) -> Value:
        """The value of a declaration, evaluated once. Raises AlreadyReported if that failed before."""
        if found.file is not self.file:
            return self.program.context(found.file).value_of(found)
        node = found.node
        known = self.made.get(id(node))
        if isinstance(known, Value):
            return known
        if isinstance(known, SourceError):
            self.program.problems.add(*known.diagnostics)  # in case that what asked first caught them
            raise AlreadyReported
        if node in self.open:
            names = " -> ".join(n.name.name for n in [*self.open[self.open.index(node) :], node])
            raise fail("E0222", f"'{node.name.name}' is defined by itself", node.name.span, Note(names))
        self.open.append(node)
        try:
            value = self.made[id(node)] = self._evaluate(node)
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
        return value

    def _evaluate(self, node: Declaration) -> Value:
        match node:
            case s.Let():
                return self.value(node.value, self.root)
            case s.Param():
                return self._parameter(node)
            case s.Group():
                return self._group(node)
            case s.TopologyInstance():
                value = self.coerce(node.value, self.root, TOPOLOGY, "a topology")
                return Value(TOPOLOGY, rename_topology(value.data, node.name))
            case s.TopologyTemplate():
                return Value(TOPOLOGY, build_topology(node, node.name.span, self.root, self))
            case _:
                raise fail("E0201", f"'{node.name.name}' is not a value", node.name.span)

    def _parameter(self, node: s.Param) -> Value:
        """The value of a param: the one given with -D, or its default. Raises SourceError if it has neither."""
        name = node.name.name
        if self.main and name in self.program.definitions:
            return self.program.definitions[name]
        if node.default is None:
            hint = f"set it with -D {name}=..., in Python with definitions={{'{name}': ...}}"
            raise fail("E0223", f"param '{name}' has no value", node.name.span, hint=hint)
        return as_parameter(self.value(node.default, self.root), node, node.default.span)

    def _group(self, node: s.Group) -> Value:
        """The value of a group or of a family of groups."""

        def members(frame: Frame) -> Value:
            value = self.coerce(node.value, frame, GROUP, "a group")
            return checked_group(Value(GROUP, value.data, value.home), node.value.span)

        if not node.clauses:
            return members(self.root)
        frame = self.loop(node.clauses, None, self.root)
        limits.check_count("statements of a schedule", frame.rows or 0, node.span)
        variables = [(frame.find(clause.name.name), clause.span) for clause in node.clauses]
        indices = [coerce(value, INT, span, "an index", frame) for value, span in variables if value is not None]
        keys = zip(*(as_rows(index, frame).data.tolist() for index in indices), strict=True)
        row_of = {key: row for row, key in enumerate(keys)}
        try:
            groups = members(frame)
        except SourceError:  # found again with the values of the loop variables
            row_by_row(frame, members)
            raise
        return Value(FAMILY, GroupFamily(node.name.name, row_of, groups))

    # Topologies that expressions of the file can name or construct

    def topology_named(self, name: str) -> Topology | None:
        """The topology with a name: an instance or a template without parameters; None if there is none."""
        declaration = self.file.find("topology", name)
        if declaration is None or (
            isinstance(declaration.node, s.TopologyTemplate) and declaration.node.parameters is not None
        ):
            return None
        return self.value_of(declaration).data

    def construct_topology(self, node: Call | s.With | Without, frame: Frame) -> Topology:
        """The topology of `ring(8)`, `unwound(t)`, `t with { ... }` or `t without { ... }`. Raises SourceError."""
        if isinstance(node, s.With | Without):
            word = "with" if isinstance(node, s.With) else "without"
            base: Topology = self.coerce(node.base, frame, TOPOLOGY, f"the topology before '{word}'").data
            if isinstance(node, s.With):
                return with_parts(node, base, frame, self)
            return without_parts(node, base, frame, self)
        declaration, name = self.file.get("topology", node.function), node.function.name
        template = declaration.node
        if not isinstance(template, s.TopologyTemplate) or template.parameters is None:
            hint = f"write '{name}' without parentheses"
            raise fail("E0313", f"topology '{name}' takes no arguments", node.span, hint=hint)
        matched = match_arguments(template.parameters, node.arguments, f"topology '{name}'", node.span, shapes=True)
        given = evaluated_arguments(template.parameters, matched, self, frame)
        if declaration.file.module == LANGUAGE:
            return self._apply_function(node, given)
        return self.program.context(declaration.file)._expand_template(template, given, node)

    def _apply_function(self, call: Call, given: Mapping[str, GivenArgument]) -> Topology:
        """The topology `unwound(t, degree: 2)`, `reversed(t)` or `limited(t, inject: 100GB/s)`. Raises SourceError."""
        name = call.function.name
        values = {key: argument.value.data for key, argument in given.items()}
        base: Topology = values.pop("t")
        if name == "reversed":
            return reversed_links(base)
        if name == "unwound":
            return unwound(base, values.get("degree", 1), call.span)
        unnamed = next((a for a in call.arguments[1:] if a.name is None), None)
        if unnamed is not None:
            raise fail("E0212", "write limited(t, inject: 100GB/s): the rates have names", unnamed.span)
        if not values:
            raise fail("E0212", "limited takes at least one rate: limited(t, inject: 100GB/s)", call.span)
        known = {key: value for key, value in values.items() if value is not None}
        return limited_npus(base, endpoint_of(known, call.arguments, call.span), "endpoint" in known)

    def _expand_template(
        self, template: s.TopologyTemplate, given: Mapping[str, GivenArgument], call: Call
    ) -> Topology:
        """The topology of a template of this file. Errors inside name the call (see at_use)."""
        program, places = self.program, {name: argument.span for name, argument in given.items()}
        library = self.file.module is not None
        arguments = tuple((name, argument.value.type, argument.value.data) for name, argument in given.items())
        key = (template, arguments)
        plain = library and all(isinstance(data, int | float | str | Fraction | None) for _, _, data in arguments)
        earlier = (program.built.get(key) or program.known.get(key)) if plain else None
        if program.depth >= limits.MAX_DEPTH:
            raise limits.too_deep("the expansion of templates", call.span)
        program.expansions += 1
        limits.check_count("expansions of templates", program.expansions, call.span)
        if earlier is not None:
            program.built[key] = earlier
            return replace(earlier)  # groups of one of two equal topologies are not groups of the other
        program.depth += 1
        try:
            frame = parameter_frame(template.parameters or (), given, self, self.root)
            topology = build_topology(template, call.span, frame, self)
        except SourceError as error:
            raise at_use(error, library, call.span, "in the expansion of this call", places) from None
        finally:
            program.depth -= 1
        if plain and all(isinstance(member, DeviceArray) for member in topology.members.values()):
            program.built[key] = topology  # other members are evaluated later, in the context of this program
        return topology

    # Bodies of schedules, workloads, designs and tables of prices

    def run_body(
        self,
        nodes: Sequence[s.Statement],
        handle: Callable[[s.Statement, Frame], None],
        handle_loop: Callable[[s.For, Frame], bool] = lambda _node, _frame: False,
    ) -> None:
        """Execute the statements of a body (see run_statements). Raises AlreadyReported if one has an error."""
        with self.program.problems.collect_all():
            self.run_statements(nodes, self.root.inner(), handle, handle_loop)

    def run_statements(
        self,
        nodes: Sequence[s.Statement],
        frame: Frame,
        handle: Callable[[s.Statement, Frame], None],
        handle_loop: Callable[[s.For, Frame], bool] = lambda _node, _frame: False,
    ) -> None:
        """Execute statements in order, iteration by iteration. handle: executes all but loops, conditions and lets.
        handle_loop: executes a whole loop, given its iterations, or says that it does not.

        Errors of a statement are collected; the next statement is executed all the same.
        """
        for node in nodes:
            with self.program.problems.collect():
                match node:
                    case s.Let():
                        frame.names[node.name.name] = self.value(node.value, frame)
                    case s.For():
                        rows = self.loop(node.clauses, node.condition, frame)
                        limits.check_count("statements of a schedule", rows.rows or 0, node.span)
                        if handle_loop(node, rows):
                            continue
                        for row in range(rows.rows or 0):
                            self.run_statements(node.body, rows.row(row), handle, handle_loop)
                    case s.If():
                        chosen = node.then if self.condition(node.condition, frame) else node.otherwise
                        self.run_statements(chosen, frame.inner(), handle, handle_loop)
                    case _:
                        handle(node, frame)


@dataclass(frozen=True, slots=True, eq=False)
class GivenArgument:
    """The value of an argument, and its span in the source."""

    value: Value
    span: Span

    def at(self, row: int) -> GivenArgument:
        """The argument in one iteration."""
        return GivenArgument(self.value.at(row), self.span)


def parameter_type(parameter: s.Parameter) -> Type:
    """Its declared type; ANY if it has none or an unknown one (the static check reports that)."""
    return ANY if parameter.type is None else NAMED.get(parameter.type.name, ANY)


def may_be_left_out(parameter: s.Parameter) -> bool:
    """Whether it is a rate or time of a template without a default: it may be unknown if only the shape matters."""
    return parameter.default is None and parameter_type(parameter).kind in QUANTITIES - {Kind.BYTES}


def match_arguments(
    parameters: Sequence[s.Parameter], arguments: Sequence[Argument], what: str, span: Span, shapes: bool = False
) -> dict[str, Argument]:
    """The argument of each parameter that has one.

    what: the name of the callee in messages. shapes: whether rates and times may be left out. Raises SourceError if
    there are too many arguments, or one is unknown, given twice or missing.
    """
    argument_of: dict[str, Argument] = {}
    names = [p.name.name for p in parameters]
    for place, argument in enumerate(arguments):
        if argument.name is not None:
            name = argument.name.name
            if name not in names:
                hint = did_you_mean(name, names, f"it takes {phrase(names)}" if names else "it takes no arguments")
                raise fail("E0212", f"{what} has no parameter '{name}'", argument.name.span, hint=hint)
        elif place < len(names):
            name = names[place]
        else:
            takes = plural(len(names), "argument")
            raise fail("E0212", f"{what} takes {takes}, this one is too many", argument.span)
        if name in argument_of:
            first = Note("first here", argument_of[name].span)
            raise fail("E0212", f"'{name}' is given twice", argument.span, first)
        argument_of[name] = argument
    missing = [
        p.name.name
        for p in parameters
        if p.name.name not in argument_of and p.default is None and not (shapes and may_be_left_out(p))
    ]
    if missing:
        raise fail("E0212", f"{what} also needs {phrase(missing)}", span)
    return argument_of


def evaluated_arguments(
    parameters: Sequence[s.Parameter], matched: Mapping[str, Argument], evaluator: Evaluator, frame: Frame
) -> dict[str, GivenArgument]:
    """The values of arguments, converted to the types of their parameters. Raises SourceError."""
    given: dict[str, GivenArgument] = {}
    for parameter in parameters:
        name = parameter.name.name
        if name in matched:
            node = matched[name].value
            given[name] = GivenArgument(as_parameter(evaluator.value(node, frame), parameter, node.span), node.span)
    return given


def as_parameter(value: Value, parameter: s.Parameter, span: Span) -> Value:
    """A value, converted to the type of a parameter. Raises SourceError if it does not fit."""
    wanted = parameter_type(parameter)
    if wanted.kind is Kind.ANY:
        return value
    value = coerce(value, wanted, span, f"'{parameter.name.name}'")
    return checked_group(value, span) if wanted == GROUP else value


def checked_group(value: Value, span: Span) -> Value:
    """The group, or one an iteration. Raises SourceError if one is empty, or contains a switch or an NPU twice."""
    rows, numbers = flatten_lists(value.data)
    if not value.data.lengths.all():
        raise fail("E0402", "this group is empty", span)
    check_npus(numbers, value.home, span)
    order = np.lexsort((numbers, rows))
    ordered = numbers[order]
    again = np.flatnonzero((ordered[1:] == ordered[:-1]) & (rows[order][1:] == rows[order][:-1]))
    if len(again):
        number = int(numbers[order[again + 1].min()])
        name = device_label(value.home, number) if value.home is not None else f"npu {number}"
        raise fail("E0401", f"{name} is in the group twice", span)
    return value


def parameter_frame(
    parameters: Sequence[s.Parameter], given: Mapping[str, GivenArgument], evaluator: Evaluator, root: Frame
) -> Frame:
    """A frame with all parameters; a default can use the parameters before it.

    evaluator, root: of the file that declares the parameters.
    """
    frame = root.inner()
    for parameter in parameters:
        name = parameter.name.name
        if name in given:
            frame.names[name] = given[name].value
        elif parameter.default is not None:
            value = evaluator.value(parameter.default, frame)
            frame.names[name] = as_parameter(value, parameter, parameter.default.span)
        else:
            frame.names[name] = Value(parameter_type(parameter), None)
    return frame
