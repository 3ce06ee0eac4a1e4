"""Elaboration of whole programs: from a file to a Program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile, Span, UsageError
from collc.base.wording import did_you_mean, phrase
from collc.source.checking.check import check_files
from collc.source.elaboration.designs import DesignBuilder, table_prices
from collc.source.elaboration.file_context import FileContext, ProgramContext, as_parameter, parameter_type
from collc.source.elaboration.named_parts import PartNames
from collc.source.elaboration.schedules import ScheduleBuilder
from collc.source.elaboration.training import WorkloadBuilder
from collc.source.elaboration.values import Value
from collc.source.imports import GivenFiles, LoadedFiles, with_tables
from collc.source.parsing import expressions as ex
from collc.source.parsing import syntax as s
from collc.source.parsing.parse import parse_let
from collc.source.problems import Problems, fail
from collc.source.program import DesignRequest, Program, ScheduleRequest
from collc.source.scopes import FileScope, FoundDeclaration
from collc.source.types import STRING
from collc.ten import training
from collc.ten.limited import fed_links
from collc.ten.network import Network
from collc.ten.parts import Part


def load_program(
    source: Path | SourceFile | GivenFiles,
    definitions: Mapping[str, str] | None = None,
    only: str | None = None,
    *,
    chunks: int | Literal["auto"] | None = None,
    size: int | None = None,
    without: tuple[Part, ...] = (),
) -> Program:
    """The program of a file, of a text that is in no file (a SourceFile), or of files that were read before.

    definitions: values of params, as after `-D name=` on the command line. only: the name of a schedule; the
    others are left out. chunks: of all runs of standard collectives that take them, in place of what the program says.
    size: of these runs likewise, in bytes. without: parts that the networks of schedules lack, or that are slow there.
    Raises SourceError with every mistake found; NoSchedule if the only one is that the network has no path for a chunk
    (E0412).
    """

    def use(loaded: LoadedFiles) -> Program:
        context = checked_context(loaded, definitions or {})
        names = [node.name.name for node in context.file.declarations("schedule")]
        if only is not None and only not in names:
            hint = did_you_mean(only, names, f"there are {', '.join(names)}" if names else "")
            raise UsageError(Diagnostic("U0110", f"{context.file.source.name} has no schedule '{only}'", hint=hint))
        return elaborate(context, only, chunks, size, without)

    return with_tables(source, use)


def checked_context(
    loaded: LoadedFiles, definitions: Mapping[str, str], before: ProgramContext | None = None
) -> FileContext:
    """What the program of some files is elaborated in, after the check of names and types. Raises SourceError.

    before: an earlier elaboration, whose topologies of the standard library are not built again.
    """
    program = ProgramContext() if before is None else ProgramContext(known=before.built)
    problems, context = program.problems, program.context(loaded.main)
    context.main = True
    for name, text in definitions.items():
        with problems.collect():
            program.definitions[name] = _definition(context, name, text)
    for file in loaded.files.values():
        _declare_chosen_branches(program.context(file), problems)
    problems.stop()
    check_files([*loaded.files.values()], problems)
    problems.stop()
    return context


def elaborate(
    context: FileContext,
    only: str | None = None,
    chunks: int | Literal["auto"] | None = None,
    size: int | None = None,
    without: tuple[Part, ...] = (),
) -> Program:
    """The program of a file whose names and types were checked, without schedules that are settled.

    The rest as in `load_program`. Raises SourceError.
    """
    file, problems = context.file, context.program.problems
    _evaluate_declarations(context)
    schedules: list[ScheduleRequest] = []
    workloads: dict[str, training.Workload] = {}
    tables: dict[str, dict[str, training.PartCosts]] = {}
    designs: list[DesignRequest] = []
    for node in (n for space in ("schedule", "workload", "price table", "design") for n in file.declarations(space)):
        with problems.collect():
            match node:
                case s.ScheduleDeclaration() if only in (None, node.name.name) and node not in file.settled:
                    schedules.append(ScheduleBuilder(node, context, chunks, size, lost=without).build())
                case s.Workload():
                    workloads[node.name.name] = WorkloadBuilder(node, context).build()
                case s.PriceTable():
                    tables[node.name.name] = table_prices(node, context)
                case s.Design():
                    designs.append(DesignBuilder(node, context, workloads, tables).build())
                case _:
                    pass
    problems.stop()
    return Program(tuple(schedules), tuple(workloads.values()), tuple(designs))


def load_topology(source: Path | SourceFile, name: str | None, definitions: Mapping[str, str] | None = None) -> Network:
    """The network of a topology of a program. name: None for the one that no other topology of the file uses.

    Raises SourceError, U0133 if the program has no such topology, U0151 if several could be meant.
    """

    def use(loaded: LoadedFiles) -> Network:
        context = checked_context(loaded, definitions or {})
        return _named_topology(context, _only_name(context, source) if name is None else name)

    return fed_links(with_tables(source, use))


@dataclass(frozen=True, slots=True)
class NamedNetwork:
    """The network of a topology of a program. texts: of the files that it imports, by resolved path.

    find_parts: finds parts by name, as `nic[3, 5]`, `node[3].gpu[*]` or `gpu[0, 1] <-> leaf[1]`. Raises SourceError.
    """

    name: str
    network: Network
    find_parts: Callable[[str], list[Part]]
    texts: Mapping[Path, str]


def load_parts(source: SourceFile, name: str | None) -> NamedNetwork:
    """A topology of a program, with its parts. name: None for the one that no other topology of the file uses.

    Raises SourceError as `load_topology`.
    """

    def use(loaded: LoadedFiles) -> NamedNetwork:
        context = checked_context(loaded, {})
        chosen = _only_name(context, Path(source.name)) if name is None else name
        network, topology = _named_topology(context, chosen), context.topology_named(chosen)
        assert topology is not None
        names = PartNames(topology, context)
        texts = {path: file.source.text for path, file in loaded.files.items() if file is not loaded.main}
        return NamedNetwork(chosen, fed_links(network), lambda text: names.find_text(text, context.root), texts)

    return with_tables(source, use)


def _only_name(context: FileContext, source: Path | SourceFile) -> str:
    """The name of the topology that a file is about. Raises SourceError U0151."""
    topologies = sole_topologies(context.file)
    if len(topologies) == 1:
        return topologies[0]
    hint = f"name one of them, as in {source}:{topologies[0]}" if topologies else "as in: topology pod = dgx_h100(4)"
    names = (
        f"{len(topologies)} topologies ({phrase(topologies[:8])})" if topologies else "no topology without parameters"
    )
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


def _named_topology(context: FileContext, name: str) -> Network:
    topology = context.topology_named(name)
    if topology is None:
        known = [n.name.name for n in context.file.declarations("topology") if isinstance(n, s.TopologyInstance)]
        hint = did_you_mean(name, known, f"it has {phrase(known)}")
        message = f"{context.file.source.name} has no topology '{name}' without parameters"
        raise SourceError(Diagnostic("U0133", message, hint=hint))
    return topology.network


def _declare_chosen_branches(context: FileContext, problems: Problems) -> None:
    """Declare what the chosen branches of `if`s at the top of a file contain."""
    waiting: list[s.Statement] = list(context.file.statements)
    for node in waiting:
        if isinstance(node, s.If):
            with problems.collect():
                holds = context.condition(node.condition, context.root)
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
    wanted = parameter_type(node)
    head = f"let {name} = "
    source = SourceFile(f"definition of {name}", head + text)
    try:
        expression = parse_let(source)
        if expression is None:
            raise fail("E0224", f"definition of {name}: '{text}' is not a single value", None)
        value = context.value(expression, context.root)
        return as_parameter(value, node, Span(source, len(head), len(source.text)))
    except SourceError as error:
        if wanted == STRING:
            return Value(STRING, text)
        syntax = any(d.code < "E02" for d in error.diagnostics)
        message = f"definition of {name}: '{text}' is not a value of type {wanted}"
        raise (fail("E0224", message, None) if syntax else error) from None


def _evaluate_declarations(context: FileContext) -> None:
    """Evaluate every value and topology that is not settled, so that errors in unused ones are reported too."""
    values: list[FoundDeclaration] = []
    topologies: list[FoundDeclaration] = []
    for node in context.file.open_statements():
        if isinstance(node, s.Let | s.Param | s.Group):
            values.append(FoundDeclaration(node, context.file))
        elif isinstance(node, s.TopologyInstance) or (isinstance(node, s.TopologyTemplate) and node.parameters is None):
            topologies.append(FoundDeclaration(node, context.file))
    for declaration in (*values, *topologies):
        with context.program.problems.collect():
            context.value_of(declaration)
