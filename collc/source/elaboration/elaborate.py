"""Elaboration of whole programs: from a file to a Program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, cast

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span, UsageError
from collc.base.wording import did_you_mean, listed
from collc.source.checking.check import check_files
from collc.source.elaboration.binding import as_parameter, parameter_type
from collc.source.elaboration.designs import DesignBuilder
from collc.source.elaboration.file_context import FileContext, ProgramContext
from collc.source.elaboration.prices import table_prices
from collc.source.elaboration.requests import OptionTables
from collc.source.elaboration.schedules import ScheduleBuilder
from collc.source.elaboration.training import WorkloadBuilder
from collc.source.elaboration.values import Value
from collc.source.imports import GivenFiles, Loader, with_tables
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse
from collc.source.problems import Problems, fail
from collc.source.program import DesignRequest, Program, ScheduleRequest
from collc.source.scopes import FileScope, FoundDeclaration
from collc.source.types import STRING
from collc.ten import training
from collc.ten.limited import fed_links
from collc.ten.network import Network


def load_program(
    source: Path | SourceFile | GivenFiles,
    definitions: Mapping[str, str] | None = None,
    only: str | None = None,
    catalogue: OptionTables | None = None,
    chunks: int | Literal["auto"] | None = None,
    size: int | None = None,
) -> Program:
    """The program of a file, of a text that is in no file (a SourceFile), or of files that were read before.

    definitions: values of params, as after `-D name=` on the command line. only: the name of a schedule; the
    others are left out. catalogue: synthesizers and kinds of files besides the usual ones. chunks: of all runs of
    standard collectives that take them, in place of what the program says. size: of these runs likewise, in bytes.
    Raises SourceError with every mistake found; NoSchedule if the only one is that the network has no path
    for a chunk (E0412).
    """

    def load(loader: Loader) -> Program:
        return _program(loader, source, definitions or {}, only, catalogue or OptionTables(), chunks, size)

    return with_tables(load)


def _program(
    loader: Loader,
    source: Path | SourceFile | GivenFiles,
    definitions: Mapping[str, str],
    only: str | None,
    catalogue: OptionTables,
    chunks: int | Literal["auto"] | None,
    size: int | None,
) -> Program:
    problems = loader.problems
    context = _load_files(loader, source, definitions, catalogue)
    builder = ScheduleBuilder(context, catalogue, problems, chunks, size)
    _check_only(context.file, only)
    schedules: list[ScheduleRequest] = []
    _evaluate_declarations(context, problems)
    for node in context.file.declarations("schedule"):
        if isinstance(node, s.ScheduleDeclaration) and only in (None, node.name.name):
            with problems.collect():
                schedules.append(builder.request(node))
    workloads, designs = _training(context, problems, catalogue)
    problems.stop()
    return Program(tuple(schedules), tuple(workloads.values()), tuple(designs))


def load_topology(source: Path | SourceFile, name: str | None, definitions: Mapping[str, str] | None = None) -> Network:
    """The network of a topology of a program. name: None for the one that no other topology of the file uses.

    Raises SourceError, U0133 if the program has no such topology, U0151 if several could be meant.
    """

    def load(loader: Loader) -> Network:
        context = _load_files(loader, source, definitions or {}, OptionTables())
        return _named_topology(context, loader.problems, _only_name(context, source) if name is None else name)

    return fed_links(with_tables(load))


def _only_name(context: FileContext, source: Path | SourceFile) -> str:
    """The name of the topology that a file is about. Raises SourceError U0151."""
    found = sole_topologies(context.file)
    if len(found) == 1:
        return found[0]
    hint = f"name one of them, as in {source}:{found[0]}" if found else "as in: topology pod = dgx_h100(4)"
    names = f"{len(found)} topologies ({listed(found[:8])})" if found else "no topology without parameters"
    raise SourceError(Diagnostic("U0151", f"{source} has {names}", hint=hint))


def sole_topologies(file: FileScope) -> list[str]:
    """The names of the topologies without parameters that no other topology of the file uses."""
    declared = [n for n in file.declarations("topology") if isinstance(n, s.TopologyInstance | s.TopologyTemplate)]
    used = {name for node in declared for name in _names(node) if name != node.name.name}
    return [
        node.name.name
        for node in declared
        if node.name.name not in used and not (isinstance(node, s.TopologyTemplate) and node.parameters is not None)
    ]


def _names(node: ex.Node) -> Iterator[str]:
    """The names that a part of the syntax tree refers to."""
    match node:
        case ex.Name(name=name) | ex.Call(function=ex.Identifier(name=name)):
            yield name
        case _:
            pass
    for field in fields(node):
        value: Any = getattr(node, field.name)
        for part in cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,):
            if isinstance(part, ex.Node):
                yield from _names(part)


def _named_topology(context: FileContext, problems: Problems, name: str) -> Network:
    topology = context.topology_named(name)
    problems.stop()
    if topology is None:
        known = [n.name.name for n in context.file.declarations("topology") if isinstance(n, s.TopologyInstance)]
        hint = did_you_mean(name, known, f"it has {listed(known)}")
        raise SourceError(
            Diagnostic("U0133", f"{context.file.source.name} has no topology '{name}' without parameters", hint=hint)
        )
    return topology.network


def _training(
    context: FileContext, problems: Problems, catalogue: OptionTables
) -> tuple[dict[str, training.Workload], list[DesignRequest]]:
    """The workloads by name, and the designs; errors go to `problems`."""
    workloads: dict[str, training.Workload] = {}
    for node in context.file.declarations("workload"):
        if isinstance(node, s.Workload):
            with problems.collect():
                workloads[node.name.name] = WorkloadBuilder(node, context, problems).build()
    tables: dict[str, dict[str, training.PartCosts]] = {}
    for node in context.file.declarations("price table"):
        if isinstance(node, s.PriceTable):
            with problems.collect():
                tables[node.name.name] = table_prices(node, context, problems)
    designs: list[DesignRequest] = []
    for node in context.file.declarations("design"):
        if isinstance(node, s.Design):
            with problems.collect():
                designs.append(DesignBuilder(node, context, catalogue, workloads, tables, problems).build())
    return workloads, designs


def _load_files(
    loader: Loader, source: Path | SourceFile | GivenFiles, definitions: Mapping[str, str], catalogue: OptionTables
) -> FileContext:
    """Read a file and its imports, set its params, and check names and types. Raises SourceError."""
    problems = loader.problems
    if isinstance(source, GivenFiles):
        file = loader.load_given(source)
    else:
        file = loader.load_text(source) if isinstance(source, SourceFile) else loader.load(source, str(source))
    problems.stop()
    given: dict[str, Value] = {}
    session = ProgramContext(given)
    context = session.context(file)
    context.main = True
    for name, text in definitions.items():
        with problems.collect():
            given[name] = _definition(context, name, text)
    for imported in loader.files.values():
        _declare_chosen_branches(session.context(imported), problems)
    problems.stop()
    check_files(list(loader.files.values()), problems, catalogue)
    problems.stop()
    return context


def _declare_chosen_branches(context: FileContext, problems: Problems) -> None:
    """Declare what the chosen branches of `if`s at the top of a file contain."""
    waiting: list[s.Statement] = list(context.file.statements)
    for node in waiting:
        if isinstance(node, s.If):
            with problems.collect():
                holds = context.evaluator.condition(node.condition, context.root)
                chosen = node.then if holds else node.otherwise
                context.file.declare(chosen, problems)
                context.file.chosen.extend(chosen)
                waiting.extend(chosen)


def _definition(context: FileContext, name: str, text: str) -> Value:
    """The value of the definition `name=text`. Raises SourceError if there is no such param or it does not fit."""
    node = next((n for n in context.file.look_up("value", name) if isinstance(n, s.Param)), None)
    if node is None:
        hint = did_you_mean(name, context.file.params())
        raise fail("E0224", f"definition of {name}: the program has no param '{name}'", None, hint=hint)
    parameter = s.Parameter(node.span, node.name, node.type, node.default)
    wanted = parameter_type(parameter)
    head = f"let {name} = "
    source = SourceFile(f"definition of {name}", head + text)
    try:
        statements = parse(source).statements
    except SourceError:
        if wanted == STRING:
            return Value(STRING, text)
        raise fail("E0224", f"definition of {name}: '{text}' is not a value of type {wanted}", None) from None
    only = statements[0] if len(statements) == 1 else None
    if not isinstance(only, s.Let):
        raise fail("E0224", f"definition of {name}: '{text}' is not a single value", None)
    try:
        value = context.evaluator.value(only.value, context.root)
        return as_parameter(value, parameter, Span(source, len(head), len(source.text)))
    except SourceError:
        if wanted == STRING:
            return Value(STRING, text)
        raise


def _check_only(file: FileScope, only: str | None) -> None:
    """Raise UsageError if the requested schedule does not exist."""
    names = [n.name.name for n in file.declarations("schedule")]
    if only is not None and only not in names:
        hint = did_you_mean(only, names, f"there are {', '.join(names)}" if names else "")
        raise UsageError(Diagnostic("U0110", f"{file.source.name} has no schedule '{only}'", hint=hint))


def _evaluate_declarations(context: FileContext, problems: Problems) -> None:
    """Evaluate every value and topology of the file, so that errors in unused ones are reported too."""
    file = context.file
    nodes = list(file.all_statements())
    for node in nodes:
        with problems.collect():
            if isinstance(node, s.Let | s.Param | s.Group):
                context.value_of(FoundDeclaration(node, file))
    for node in nodes:
        if isinstance(node, s.TopologyInstance) or (isinstance(node, s.TopologyTemplate) and node.parameters is None):
            with problems.collect():
                context.value_of(FoundDeclaration(node, file))
