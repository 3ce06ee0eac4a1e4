"""The static check of files: names and types of every declaration, also of those that are never used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collc.base.diagnostics import Note, Span
from collc.base.options import Options
from collc.base.wording import did_you_mean, plural
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source import types as ty
from collc.source.checking.check_expressions import ExpressionChecker, TypeScope
from collc.source.elaboration.collectives import OPS, statements
from collc.source.elaboration.file_context import parameter_type
from collc.source.elaboration.requests import AUTO, TYPES, stands_for_range, with_one_chunk
from collc.source.limits import uses_too_deep
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import (
    Argument,
    Expr,
    Index,
    Member,
    Name,
    RemovedDevice,
    RemovedLink,
    StringLiteral,
    root_of,
)
from collc.source.problems import Problems, fail, unknown_name_error
from collc.source.scopes import FileScope, FoundDeclaration

Devices = Mapping[str, s.DeviceDeclaration | s.Use]
Chunks = Mapping[str, s.ChunkReference]
StatementChecker = Callable[[s.Statement, TypeScope], None]


class FileChecker(ExpressionChecker):
    """The static check of one file. checkers: of all files of the program, by the id of the file."""

    def __init__(self, file: FileScope, problems: Problems, checkers: dict[int, FileChecker]) -> None:
        super().__init__(file, problems)
        self.checkers = checkers
        self.types: dict[int, ty.Type] = {}
        self.top = TypeScope()

    def global_type(self, name: str, span: Span) -> ty.Type | None:
        """See ExpressionChecker. Raises SourceError if the name is ambiguous."""
        declaration = self.file.find("value", name, span)
        return None if declaration is None else self.checkers[id(declaration.file)].declared_type(declaration)

    def declared_type(self, found: FoundDeclaration) -> ty.Type:
        """The type of a declared value; ANY during its own computation, in a cycle of declarations."""
        node = found.node
        if id(node) not in self.types:
            self.types[id(node)] = ty.ANY
            self.types[id(node)] = self._declared_type(found)
        return self.types[id(node)]

    def _declared_type(self, declaration: FoundDeclaration) -> ty.Type:
        match declaration.node:
            case s.Let(value=value):
                return self.type_of(value, self.top)
            case s.Param() as node:
                kind = parameter_type(node)
                return self.type_of(node.default, self.top) if kind == ty.ANY and node.default is not None else kind
            case s.Group(clauses=()):
                return ty.GROUP
            case s.Group():
                return ty.FAMILY
            case _:
                return ty.ANY

    def check(self) -> None:
        """Check every declaration that is not settled; errors go to `problems`."""
        for node in self.file.open_statements():
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
                self.expect(node.value, self.top, ty.TOPOLOGY, "a topology")
            case s.Group():
                env = self.loop(node.clauses, None, self.top)
                self.expect(node.value, env, ty.GROUP, "a group")
            case s.TopologyTemplate():
                self.topology(node.body, self.parameters(node.parameters or ()))
            case s.Collective():
                self.collective(node.body, self.parameters(node.parameters))
            case s.Algorithm():
                self.algorithm(node)
            case s.ScheduleDeclaration():
                self.expect(node.topology, self.top, ty.TOPOLOGY, "the topology of a schedule")
                self.body(node.body, TypeScope(self.top), self._schedule_statement)
            case s.If():
                self.expect(node.condition, self.top, ty.BOOL, "a condition")
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
            self.expect(node.default, self.top, parameter_type(node), f"'{node.name.name}'")

    def known_type(self, node: s.Parameter) -> None:
        """Report an unknown type of a parameter."""
        if node.type is not None and node.type.name not in ty.NAMED:
            self.report(unknown_name_error("E0208", "type", node.type.name, ty.NAMED, node.type.span))

    def parameters(self, nodes: tuple[s.Parameter, ...]) -> TypeScope:
        """A scope with the parameters; the default of each can use the ones before it."""
        env = TypeScope(self.top)
        for node in nodes:
            self.known_type(node)
            wanted = parameter_type(node)
            if node.default is not None:
                given = self.type_of(node.default, env)
                if not ty.fits(given, wanted):
                    self.report(ty.wrong_type(given, wanted, f"'{node.name.name}'", node.default))
                wanted = given if node.type is None else wanted
            with self.problems.collect():
                env.declare(node.name, wanted)
        return env

    def algorithm(self, node: s.Algorithm) -> None:
        """`algorithm a(...) implements c(...) { ... }`."""
        env = self.parameters(node.parameters)
        collective = self.file.get("collective", node.implements.function).node
        if not isinstance(collective, s.Collective):
            return
        what = f"collective '{collective.name.name}'"
        self.arguments(collective.parameters, node.implements.arguments, what, node.implements.span, env)
        chunks = chunk_families(collective.body)

        def handle(node: s.Statement, inner: TypeScope) -> None:
            assert isinstance(node, s.TransferStatement)
            self.expect(node.source, inner, ty.NPU, "'from'")
            self.expect(node.target, inner, ty.NPU, "'to'")
            if node.step is not None:
                self.expect(node.step, inner, ty.INT, "a step")
            self.chunk(node.chunk, inner, chunks)

        self.body(node.body, TypeScope(env), handle)

    # Bodies

    def body(self, nodes: Sequence[s.Statement], env: TypeScope, handle: StatementChecker) -> None:
        """Check statements in order; an error in one does not stop the check of the next."""
        for node in nodes:
            with self.problems.collect():
                match node:
                    case s.Let():
                        env.declare(node.name, self.type_of(node.value, env))
                    case s.For():
                        inner = self.loop(node.clauses, node.condition, env)
                        self.body(node.body, TypeScope(inner), handle)
                    case s.If():
                        self.expect(node.condition, env, ty.BOOL, "a condition")
                        self.body(node.then, TypeScope(env), handle)
                        self.body(node.otherwise, TypeScope(env), handle)
                    case _:
                        handle(node, env)

    # Topologies

    def topology(self, nodes: Sequence[s.Statement], env: TypeScope) -> None:
        """The body of a template."""
        devices: dict[str, s.DeviceDeclaration | s.Use] = {}
        for node in statements(tuple(nodes)):
            if isinstance(node, s.DeviceDeclaration | s.Use):
                devices[node.name.name] = node
            elif isinstance(node, s.DeviceTable):
                devices |= dict.fromkeys(node.names, node.device)

        def handle(node: s.Statement, inner: TypeScope) -> None:
            match node:
                case s.DeviceDeclaration():
                    self.device(node, inner)
                case s.DeviceTable():
                    self.device(node.device, inner)
                case s.LinkDeclaration():
                    self.end(node.source, inner, devices)
                    self.end(node.target, inner, devices)
                    self.attributes(node, "link", inner)
                case s.LinkTable():
                    self.table(node, inner, devices)
                case s.LinkMatrix():
                    self.expect(node.matrix, inner, ty.list_of(ty.list_of(ty.INT)), "the matrix of links")
                    self.attributes(node, "link", inner)
                case s.Use():
                    self.ints(node.shape, inner, "a size")
                    self.expect(node.topology, inner, ty.TOPOLOGY, "the topology of 'use'")
                    self.labels(node.labels, inner)
                case s.PartDeclaration():
                    self.part(node, inner, devices)
                case _:
                    raise AssertionError(node)  # the grammar has no other

        self.body(nodes, TypeScope(env), handle)

    def part(self, node: s.PartDeclaration, env: TypeScope, devices: Devices) -> None:
        """`part nic[i in 0..8] = { link gpu[i] <-> leaf[i] }`, whose devices the body declares."""
        self.labels(node.labels, env)
        inner = self.loop(node.clauses, None, env) if node.clauses else env
        for part in node.parts:
            if isinstance(part, RemovedLink) and part.lanes is not None:
                raise fail("E0331", "the links of a part are all parallel ones", part.lanes.span)
            if isinstance(part, RemovedDevice) and part.kind == "part":
                raise fail("E0331", "a part consists of devices and links, not of parts", part.span)
            for device in (part.device,) if isinstance(part, RemovedDevice) else (part.source, part.target):
                self.end(device, inner, devices)

    def ints(self, nodes: Sequence[Expr], env: TypeScope, what: str) -> None:
        """Check that expressions are of type int."""
        for node in nodes:
            self.expect(node, env, ty.INT, what)

    def table(self, node: s.LinkTable, env: TypeScope, devices: Devices) -> None:
        """Check each form of the links in a table."""
        for form in node.forms:
            inner = TypeScope(env, dict.fromkeys(form.numbers, ty.INT))
            known = dict(devices)
            for column, names in form.names.items():
                unlike = [name for name in set(names) if name not in devices or devices[name].shape]
                if unlike:
                    raise fail("E0309", f"unknown device '{min(unlike)}'", node.span)
                known[column] = devices[names[0]]
            self.end(form.link.source, inner, known)
            self.end(form.link.target, inner, known)
            self.attributes(form.link, "link", inner)

    def end(self, node: Expr, env: TypeScope, devices: Devices) -> None:
        """Check one end of a link: a device that the body declares."""
        root, indices = node, 0
        if isinstance(node, Index):
            self.indices(node.indices, env)
            root, indices = node.base, len(node.indices)
        if isinstance(root, Member | Index):
            self.device_indices(root, env)
            root, indices = root_of(root), -1
        if not isinstance(root, Name):
            raise fail("E0301", "the end of a link must be a device", node.span)
        device = devices.get(root.name)
        if device is None:
            hint = did_you_mean(root.name, devices)
            raise fail("E0309", f"unknown device or copy '{root.name}'", root.span, hint=hint)
        rank = len(device.shape)
        if isinstance(device, s.DeviceDeclaration) and indices not in (-1, rank):
            has = f"takes {_index_count(rank)}" if rank else "takes no index"
            raise fail(
                "E0317", f"'{root.name}' {has}, not {indices}", node.span, Note("declared here", device.name.span)
            )

    # Collectives and algorithms

    def collective(self, nodes: Sequence[s.Statement], env: TypeScope) -> None:
        """The body of a collective."""
        chunks = chunk_families(nodes)

        def handle(node: s.Statement, inner: TypeScope) -> None:
            match node:
                case s.ChunkDeclaration():
                    self.chunk(node.chunk, inner, chunks)
                    self.expect(node.size, inner, ty.BYTES, "the size of a chunk")
                case s.Precondition() | s.Postcondition():
                    self.chunk(node.chunk, inner, chunks)
                    ty.check_place(node.place, self.type_of(node.place, inner))
                    reduction = node.reduction if isinstance(node, s.Postcondition) else None
                    if reduction is not None:
                        self.expect(reduction, inner, ty.STRING, "a reduction")
                    if isinstance(reduction, StringLiteral) and reduction.value not in OPS:
                        raise unknown_name_error("E0409", "reduction", reduction.value, OPS, reduction.span)
                case _:
                    raise AssertionError(node)  # the grammar has no other

        self.body(nodes, TypeScope(env), handle)

    def chunk(self, node: s.ChunkReference, env: TypeScope, chunks: Chunks) -> None:
        """Check a reference to a chunk."""
        self.ints(node.indices, env, "an index")
        known = chunks.get(node.name.name)
        if known is None:
            hint = did_you_mean(node.name.name, chunks)
            raise fail("E0415", f"unknown chunk '{node.name.name}'", node.name.span, hint=hint)
        if len(known.indices) != len(node.indices):
            takes = _index_count(len(known.indices))
            message = f"chunk '{node.name.name}' has {takes}, not {len(node.indices)}"
            raise fail("E0406", message, node.span, Note("declared here", known.span))

    # Schedules

    def _schedule_statement(self, node: s.Statement, env: TypeScope) -> None:
        match node:
            case s.RunStatement():
                self.run(node, env)
            case s.Synthesize():
                synthesizer = SYNTHESIZERS.get(node.synthesizer.name)
                self.options(node.arguments, synthesizer and synthesizer.options, env)
            case s.Emit():
                arguments = node.arguments
                if arguments and arguments[0].name is None:
                    self.expect(arguments[0].value, env, ty.STRING, "a file name")
                    arguments = arguments[1:]
                kind = EMIT_KINDS.get(node.kind.name)
                self.options(arguments, kind and kind.options, env)
            case s.Failures():
                for failing in node.failing:
                    if not isinstance(failing.parts, s.AnyParts):
                        self.device_indices(failing.parts, env)
                    self.attributes(failing, "failures", env)
            case _:
                pass

    def run(self, node: s.RunStatement, env: TypeScope) -> None:
        """Check a run, as in `run all_reduce(dp, size: 1GiB) using ring`."""
        call = node.collective
        collective = self.file.get("collective", call.function)
        if isinstance(collective.node, s.Collective):
            what = f"collective '{call.function.name}'"
            is_value = self._is_value(AUTO, env)
            call, _ = with_one_chunk(call, collective.node.parameters, collective.file.module, is_value)
            self.arguments(collective.node.parameters, call.arguments, what, call.span, env)
        if node.using is not None and not self.file.candidates("algorithm", node.using.name):
            raise self.file.unknown_name("algorithm", node.using.name, node.using.span)
        for argument in node.arguments:
            self.type_of(argument.value, env)

    def _is_value(self, name: str, env: TypeScope) -> bool:
        return env.find(name) is not None or bool(self.file.candidates("value", name))

    def options(self, arguments: Sequence[Argument], known: Options | None, env: TypeScope) -> None:
        """Check the types of options; elaboration checks their names."""
        for argument in arguments:
            option = (known or {}).get(argument.key)
            if option is not None and stands_for_range(option, argument, lambda name: self._is_value(name, env)):
                continue
            given = self.type_of(argument.value, env)
            if option is None:
                continue
            if option.type == "range" and (given.kind is not ty.Kind.RANGE or given.item != ty.BYTES):
                hint = f"write {argument.key}: 64MiB .. 4GiB, or {argument.key}: auto"
                message = f"a range of bytes is required, not {given}"
                self.report(fail("E0605", message, argument.value.span, hint=hint))
            elif option.type != "range" and not ty.fits(given, TYPES[option.type]):
                self.report(ty.wrong_type(given, TYPES[option.type], f"'{argument.key}'", argument.value))


def check_files(files: list[FileScope], problems: Problems) -> None:
    """Check the names and types of files; errors go to `problems`. Tests check the standard library."""
    checkers: dict[int, FileChecker] = {}
    for file in files:
        checkers[id(file)] = FileChecker(file, problems, checkers)
    for checker in checkers.values():
        if checker.file.module is None:
            checker.check()


def chunk_families(nodes: Sequence[s.Statement]) -> dict[str, s.ChunkReference]:
    """The chunk families that a body declares: name -> first declaration."""
    chunks = [n.chunk for n in statements(tuple(nodes)) if isinstance(n, s.ChunkDeclaration)]
    return {chunk.name.name: chunk for chunk in reversed(chunks)}


def _index_count(count: int) -> str:
    return "1 index" if count == 1 else plural(count, "indice")
