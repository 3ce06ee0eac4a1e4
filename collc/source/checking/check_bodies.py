"""The static check of bodies: topologies, collectives, algorithms and schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from collc.base.diagnostics import Note
from collc.base.options import Options
from collc.base.wording import did_you_mean, plural
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source.automatic_chunks import RunCall
from collc.source.checking.check_expressions import ExpressionChecker, TypeScope
from collc.source.elaboration.attributes import LINK_ATTRIBUTES
from collc.source.elaboration.collectives import OPS, statements
from collc.source.elaboration.requests import TYPES, stands_for_range
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Expr, Index, Member, Name, StringLiteral, root_of
from collc.source.problems import fail, unknown_name_error
from collc.source.scopes import FileScope
from collc.source.types import BOOL, BYTES, INT, NPU, STRING, TOPOLOGY, Kind, check_place, fits, list_of, wrong_type

ChunkFamilies = Mapping[str, s.ChunkReference]
StatementChecker = Callable[[s.Statement, TypeScope], None]


class BodyChecker:
    """Checks the bodies of one file's declarations."""

    def __init__(self, file: FileScope, expressions: ExpressionChecker) -> None:
        self.file = file
        self.expressions = expressions
        self.problems = expressions.problems

    def body(self, nodes: Sequence[s.Statement], env: TypeScope, handle: StatementChecker) -> None:
        """Check statements in order; an error in one does not stop the check of the next."""
        for node in nodes:
            with self.problems.collect():
                match node:
                    case s.Let():
                        env.declare(node.name, self.expressions.type_of(node.value, env))
                    case s.For():
                        inner = self.expressions.loop(node.clauses, node.condition, env)
                        self.body(node.body, TypeScope(inner), handle)
                    case s.If():
                        self.expressions.expect(node.condition, env, BOOL, "a condition")
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
                    self.expressions.device(node, inner)
                case s.DeviceTable():
                    self.expressions.device(node.device, inner)
                case s.LinkDeclaration():
                    self.end(node.source, inner, devices)
                    self.end(node.target, inner, devices)
                    self.expressions.attributes(node.attributes, LINK_ATTRIBUTES, inner)
                case s.LinkTable():
                    self.table(node, inner, devices)
                case s.LinkMatrix():
                    self.expressions.expect(node.matrix, inner, list_of(list_of(INT)), "the matrix of links")
                    self.expressions.attributes(node.attributes, LINK_ATTRIBUTES, inner)
                case s.Use():
                    self.ints(node.shape, inner, "a size")
                    self.expressions.expect(node.topology, inner, TOPOLOGY, "the topology of 'use'")
                    self.expressions.labels(node.labels, inner)
                case _:
                    raise AssertionError(node)  # the grammar has no other

        self.body(nodes, TypeScope(env), handle)

    def ints(self, nodes: Sequence[Expr], env: TypeScope, what: str) -> None:
        """Check that expressions are of type int."""
        for node in nodes:
            self.expressions.expect(node, env, INT, what)

    def table(self, node: s.LinkTable, env: TypeScope, devices: Mapping[str, s.DeviceDeclaration | s.Use]) -> None:
        """Check each form of the links in a table."""
        for form in node.forms:
            inner = TypeScope(env, dict.fromkeys(form.numbers, INT))
            known = dict(devices)
            for column, names in form.names.items():
                unlike = [name for name in set(names) if name not in devices or devices[name].shape]
                if unlike:
                    raise fail("E0309", f"unknown device '{min(unlike)}'", node.span)
                known[column] = devices[names[0]]
            self.end(form.link.source, inner, known)
            self.end(form.link.target, inner, known)
            self.expressions.attributes(form.link.attributes, LINK_ATTRIBUTES, inner)

    def end(self, node: Expr, env: TypeScope, devices: Mapping[str, s.DeviceDeclaration | s.Use]) -> None:
        """Check one end of a link: a device that the body declares."""
        root, indices = node, 0
        if isinstance(node, Index):
            self.expressions.indices(node.indices, env)
            root, indices = node.base, len(node.indices)
        if isinstance(root, Member | Index):
            self.expressions.device_indices(root, env)
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
        families = chunk_families(nodes)

        def handle(node: s.Statement, inner: TypeScope) -> None:
            match node:
                case s.ChunkDeclaration():
                    self.chunk(node.chunk, inner, families)
                    self.expressions.expect(node.size, inner, BYTES, "the size of a chunk")
                case s.Precondition() | s.Postcondition():
                    self.chunk(node.chunk, inner, families)
                    check_place(node.place, self.expressions.type_of(node.place, inner))
                    if isinstance(node, s.Postcondition) and node.reduction is not None:
                        self.reduction(node.reduction, inner)
                case _:
                    raise AssertionError(node)  # the grammar has no other

        self.body(nodes, TypeScope(env), handle)

    def reduction(self, node: Expr, env: TypeScope) -> None:
        """Check a reduction: `sum`, or the op of `reduce(x, op)`."""
        self.expressions.expect(node, env, STRING, "a reduction")
        if isinstance(node, StringLiteral) and node.value not in OPS:
            raise unknown_name_error("E0409", "reduction", node.value, OPS, node.span)

    def chunk(self, node: s.ChunkReference, env: TypeScope, families: ChunkFamilies) -> None:
        """Check a reference to a chunk."""
        self.ints(node.indices, env, "an index")
        known = families.get(node.name.name)
        if known is None:
            hint = did_you_mean(node.name.name, families)
            raise fail("E0415", f"unknown chunk '{node.name.name}'", node.name.span, hint=hint)
        if len(known.indices) != len(node.indices):
            takes = _index_count(len(known.indices))
            message = f"chunk '{node.name.name}' has {takes}, not {len(node.indices)}"
            raise fail("E0406", message, node.span, Note("declared here", known.span))

    def algorithm(self, nodes: Sequence[s.Statement], env: TypeScope, collective: s.Collective) -> None:
        """The body of an algorithm."""
        families = chunk_families(collective.body)

        def handle(node: s.Statement, inner: TypeScope) -> None:
            assert isinstance(node, s.TransferStatement)
            self.expressions.expect(node.source, inner, NPU, "'from'")
            self.expressions.expect(node.target, inner, NPU, "'to'")
            if node.step is not None:
                self.expressions.expect(node.step, inner, INT, "a step")
            self.chunk(node.chunk, inner, families)

        self.body(nodes, TypeScope(env), handle)

    # Schedules

    def schedule(self, nodes: Sequence[s.Statement], env: TypeScope) -> None:
        """The body of a schedule."""
        self.body(nodes, env, self._schedule_statement)

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
                    self.expressions.expect(arguments[0].value, env, STRING, "a file name")
                    arguments = arguments[1:]
                kind = EMIT_KINDS.get(node.kind.name)
                self.options(arguments, kind and kind.options, env)
            case _:
                pass

    def run(self, node: s.RunStatement, env: TypeScope) -> None:
        """Check a run, as in `run all_reduce(dp, size: 1GiB) using ring`."""
        call = node.collective
        collective = self.file.get("collective", call.function)
        if isinstance(collective.node, s.Collective):
            what = f"collective '{call.function.name}'"
            module = collective.file.module
            call = RunCall.of(call, collective.node.parameters, module, lambda name: self._is_value(name, env)).call
            self.expressions.arguments(collective.node.parameters, call.arguments, what, call.span, env)
        if node.using is not None and not self.file.candidates("algorithm", node.using.name):
            raise self.file.unknown_name("algorithm", node.using.name, node.using.span)
        for argument in node.arguments:
            self.expressions.type_of(argument.value, env)

    def _is_value(self, name: str, env: TypeScope) -> bool:
        return env.find(name) is not None or bool(self.file.candidates("value", name))

    def options(self, arguments: Sequence[Argument], known: Options | None, env: TypeScope) -> None:
        """Check the types of options; elaboration checks their names."""
        for argument in arguments:
            option = (known or {}).get(argument.key)
            if option is not None and stands_for_range(option, argument, lambda name: self._is_value(name, env)):
                continue
            given = self.expressions.type_of(argument.value, env)
            if option is None:
                continue
            if option.type == "range" and (given.kind is not Kind.RANGE or given.item != BYTES):
                hint = f"write {argument.key}: 64MiB .. 4GiB, or {argument.key}: auto"
                message = f"a range of bytes is required, not {given}"
                self.expressions.report(fail("E0605", message, argument.value.span, hint=hint))
            elif option.type != "range" and not fits(given, TYPES[option.type]):
                self.expressions.report(wrong_type(given, TYPES[option.type], f"'{argument.key}'", argument.value))


def chunk_families(nodes: Sequence[s.Statement]) -> dict[str, s.ChunkReference]:
    """The chunk families that a body declares: name -> first declaration."""
    chunks = [n.chunk for n in statements(tuple(nodes)) if isinstance(n, s.ChunkDeclaration)]
    return {chunk.name.name: chunk for chunk in reversed(chunks)}


def _index_count(count: int) -> str:
    return "1 index" if count == 1 else plural(count, "indice")
