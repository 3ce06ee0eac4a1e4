"""Elaboration of schedules: runs become a demand, other statements become requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import numpy as np

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean, phrase
from collc.graph.memory_traffic import fed_for
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source import limits
from collc.source.elaboration.collectives import (
    LazyChunks,
    check_first_chunk,
    chunk_numbers,
    expand_collective,
    lazy_count,
    moves_of,
    standard_of,
    statements,
)
from collc.source.elaboration.containers import equal_values, flatten_lists
from collc.source.elaboration.evaluate import BodyRows, NotVectorised
from collc.source.elaboration.file_context import (
    FileContext,
    GivenArgument,
    as_parameter,
    evaluated_arguments,
    match_arguments,
    parameter_frame,
)
from collc.source.elaboration.lost_members import surviving_arguments
from collc.source.elaboration.named_parts import failing_parts
from collc.source.elaboration.requests import (
    AUTO,
    CHUNKS,
    MODULE,
    check_request,
    checked_options,
    emit_request,
    with_one_chunk,
)
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.unreachable import unreachable_chunk, unreachable_error
from collc.source.elaboration.values import Frame, Value, npu_numbers
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Argument, Identifier, Name
from collc.source.problems import AlreadyReported, Problems, at_use, check_single, fail
from collc.source.program import (
    CheckRequest,
    ChunkChoice,
    EmitRequest,
    FailureSets,
    OptionValue,
    RunRequest,
    ScheduleRequest,
)
from collc.source.scopes import FoundDeclaration
from collc.source.standard_library import synthesizer_hint
from collc.source.types import BYTES, GROUP, INT, TOPOLOGY
from collc.ten.algorithm import AlgorithmSends
from collc.ten.arrays import Int64Array, distinct
from collc.ten.demand import Demand, FamilyRuns, Run, RunFamily
from collc.ten.limited import fed_links, launched_for
from collc.ten.parts import Part, without_parts


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """The collective of a run with its arguments, of which groups may vary. owner: of the file that declares it.

    takes_chunks: whether `chunks` is a parameter of it, and collc may choose it. automatic: whether collc does.
    number: of chunks, if they are not those of the program.
    """

    collective: s.Collective
    owner: FileContext
    span: Span
    given: Mapping[str, GivenArgument]
    takes_chunks: bool
    automatic: bool
    number: int | None

    @property
    def bound(self) -> Frame:
        """A frame with all parameters."""
        return parameter_frame(self.collective.parameters, self.given, self.owner, self.owner.root)


@dataclass(eq=False)
class ScheduleBuilder:
    """Elaborates one schedule.

    chunks: what `chunks` is in all runs of standard collectives, in place of what the program says: a number, "auto",
    or None for what the program says. size: in bytes, likewise, of those that take `chunks`. number: chunks per block
    of the runs for which the number is chosen, which are those with `chunks: auto` or `everywhere`. lost: parts that
    the network lacks, with which groups lose members. left: the topology without them. The other fields are of the
    statements that were elaborated so far. choices: for each family that takes `chunks`, whether that is `auto`, and
    the numbers that divide its size. order: the family of each run, and its row there. count: number of chunks of all
    runs. failing: what `failures` names. statements: their number, loops unrolled that are not kept as families.
    """

    node: s.ScheduleDeclaration
    context: FileContext
    chunks: int | str | None = None
    size: int | None = None
    number: int | None = None
    everywhere: bool = False
    lost: tuple[Part, ...] = ()
    choices: list[tuple[bool, frozenset[int]]] = field(default_factory=list[tuple[bool, frozenset[int]]])
    families: list[RunFamily] = field(default_factory=list[RunFamily])
    order: list[tuple[Int64Array, Int64Array]] = field(default_factory=list[tuple[Int64Array, Int64Array]])
    requests: list[RunRequest] = field(default_factory=list[RunRequest])
    count: int = 0
    synthesizer: s.Synthesize | None = None
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    checks: list[CheckRequest] = field(default_factory=list[CheckRequest])
    emits: list[EmitRequest] = field(default_factory=list[EmitRequest])
    allow_congestion: bool = False
    failing: list[tuple[s.Failing, Frame]] = field(default_factory=list[tuple[s.Failing, Frame]])
    statements: int = 0

    def build(self) -> ScheduleRequest:
        """The request of the schedule. Raises SourceError, or AlreadyReported for errors of its statements."""
        node, context, name = self.node, self.context, self.node.name
        self.topology: Topology = context.coerce(
            node.topology, context.root, TOPOLOGY, "the topology of a schedule"
        ).data
        _check_rates(self.topology, node)
        network = self.topology.network
        if self.lost:
            network = without_parts(network, self.lost)
        self.left = replace(self.topology, network=network)
        context.run_body(node.body, self._statement, self._run_loop)
        if self.lost and not self.families:
            raise fail("E0615", "fewer than two members of each run are left", node.name.span)
        if not self.families:
            hint = "add: run all_gather(t.npus, size: 1MiB)"
            raise fail("E0606", f"schedule '{name.name}' runs nothing", name.span, hint=hint)
        family, row = (np.concatenate(column) for column in zip(*self.order, strict=True))
        runs = FamilyRuns(tuple(self.families), family, row)
        demand = Demand(runs if len(runs) > len(self.families) else tuple(runs))
        problem = unreachable_chunk(network, demand)
        if problem is not None:
            raise unreachable_error(problem, self.left, demand, self.requests[problem.run].span)
        return ScheduleRequest(
            name=name.name,
            span=node.span,
            network=fed_links(fed_for(launched_for(network, demand), demand)),
            demand=demand,
            runs=tuple(self.requests),
            synthesizer=self.synthesizer.synthesizer.name if self.synthesizer else "auto",
            synthesizer_span=self.synthesizer.span if self.synthesizer else name.span,
            options=self.options,
            checks=tuple(self.checks),
            emits=tuple(self.emits),
            allow_congestion=self.allow_congestion,
            choice=self._choice(),
            failures=self._failures(),
        )

    def _failures(self) -> FailureSets | None:
        """What the schedule has to be ready for; None without a `failures` statement."""
        if not self.failing or self.lost:
            return None
        parts, names, members = failing_parts(self.failing, self.topology, self.context)
        build = partial(self._builder(), self.number, self.everywhere)
        return FailureSets(parts, names, members, build, self.failing[0][0].span)

    def _builder(self) -> Callable[[int | None, bool, tuple[Part, ...]], ScheduleRequest]:
        """Builds the schedule with another `number`, `everywhere` and `lost`. Raises SourceError or NoSchedule."""
        node, context, chunks, size = self.node, self.context, self.chunks, self.size  # no reference to the demand

        def request(number: int | None, everywhere: bool, lost: tuple[Part, ...]) -> ScheduleRequest:
            program = context.program
            before, program.problems = program.problems, Problems()
            try:
                return ScheduleBuilder(node, context, chunks, size, number, everywhere, lost).build()
            except (SourceError, AlreadyReported) as error:
                program.problems.add(*(error.diagnostics if isinstance(error, SourceError) else ()))
                program.problems.stop()
                raise
            finally:
                program.problems = before

        return request

    def _choice(self) -> ChunkChoice | None:
        """Other numbers of chunks: for the runs with `chunks: auto`, else for all that take `chunks`."""
        automatic = any(auto for auto, _ in self.choices)
        chosen = [numbers for auto, numbers in self.choices if auto or not automatic]
        if not chosen:
            return None
        build, lost, numbers = self._builder(), self.lost, sorted(reduce(lambda a, b: a & b, chosen))
        return ChunkChoice(automatic, tuple(numbers), lambda number: build(number, not automatic, lost))

    def _statement(self, node: s.Statement, frame: Frame) -> None:
        self.statements += 1
        limits.check_count("statements of a schedule", self.statements, node.span)
        match node:
            case s.RunStatement():
                self._run(node, frame)
            case s.Synthesize():
                name = node.synthesizer.name
                check_single(self.synthesizer, node, "E0608", "a schedule has one synthesizer")
                self.synthesizer = node
                if name not in SYNTHESIZERS:
                    hint = synthesizer_hint(name, SYNTHESIZERS, self.context.file.known_names("algorithm"))
                    raise fail("E0601", f"unknown synthesizer '{name}'", node.synthesizer.span, hint=hint)
                self.options = checked_options(node.arguments, SYNTHESIZERS[name].options, name, self.context, frame)
            case s.Verify():
                for check in node.checks:
                    with self.context.program.problems.collect():
                        self.checks.append(check_request(check, frame, self.context))
            case s.Emit():
                self.emits.append(emit_request(node, frame, self.context))
            case s.Allow():
                if node.what.name != "congestion":
                    hint = did_you_mean(node.what.name, ["congestion"], "only congestion can be allowed")
                    raise fail("E0609", f"'{node.what.name}' cannot be allowed", node.what.span, hint=hint)
                self.allow_congestion = True
            case s.Failures():
                self.failing += [(part, frame) for part in node.failing]
            case _:
                raise AssertionError(node)  # the grammar has no other

    # Runs

    def _run(self, node: s.RunStatement, frame: Frame) -> None:
        call = self._call(node, frame)
        if call is None:
            return
        try:
            run, chunks = self._demand(call)
        except SourceError as error:
            located = _error_in_run(error, call.owner, call.span, call.given)
            if call.number is not None and not self.number and isinstance(self.chunks, int):
                note = Note(f"'chunks' is {call.number} in all runs, as --chunks (in Python: chunks=) says")
                located = SourceError(*(replace(d, notes=(*d.notes, note)) for d in located.diagnostics))
            raise located from None
        if len(run.pattern) == 0:
            message = f"this {run.collective} has no chunks, so there is nothing to schedule"
            raise fail("E0416", message, call.span)
        request = RunRequest(node.span, None, None)
        if node.using is not None:
            algorithm = self._algorithm(node.using, call.collective)
            moves = self._moves(algorithm, node, call, chunks, frame)
            request = RunRequest(node.span, node.using.name, moves, algorithm.file.module is not None)
        first = np.zeros(1, np.int64)
        self._add([RunFamily(run, run.group[None, :])], [(call, request)], first, first)

    def _run_loop(self, node: s.For, frame: Frame) -> bool:
        """Add the runs of a loop as families; False if it has other statements, they are no families, or have errors,
        which are found again one by one.
        """
        inside = [n for n in statements(node.body) if not isinstance(n, s.For | s.If | s.Let)]
        if not all(isinstance(n, s.RunStatement) and n.using is None for n in inside) or (frame.rows or 0) < 2:
            return False
        families: list[RunFamily] = []
        calls: list[tuple[_Call, RunRequest]] = []

        def handle(statement: s.Statement, inner: Frame) -> BodyRows | None:
            assert isinstance(statement, s.RunStatement)
            call = self._call(statement, inner)
            if call is None:
                raise NotVectorised
            family = self._family(call, inner.rows or 0)
            families.append(family)
            calls.append((call, RunRequest(statement.span, None, None)))
            row = np.arange(len(family), dtype=np.int64)
            return BodyRows(row, np.stack([np.full(len(family), len(families) - 1, np.int64), row], axis=1))

        try:
            table = self.context.execute_body(node.body, frame.inner(), handle, 2).table
        except (SourceError, NotVectorised):
            return False
        self.statements += len(families)
        limits.check_count("statements of a schedule", self.statements, node.span)
        self._add(families, calls, table[:, 0], table[:, 1])
        return True

    def _add(
        self,
        families: list[RunFamily],
        calls: list[tuple[_Call, RunRequest]],
        family: Int64Array,
        row: Int64Array,
    ) -> None:
        """Add runs. family, row: int64[runs], of each in order."""
        for runs, (call, _) in zip(families, calls, strict=True):
            if call.takes_chunks and runs.first.standard is not None:
                numbers = chunk_numbers(runs.first.standard, len(runs.first.group))
                self.choices.append((call.automatic, numbers))
            self.count += len(runs) * runs.chunks_each
        self.requests += [calls[number][1] for number in family.tolist()]
        self.order.append((family + len(self.families), row))
        self.families += families

    def _call(self, node: s.RunStatement, frame: Frame) -> _Call | None:
        """The collective of a run, with its arguments in all iterations of a frame; None if lost parts leave fewer than
        two members.
        """
        declaration = self.context.file.get("collective", node.collective.function)
        collective = declaration.node
        assert isinstance(collective, s.Collective)
        name, parameters = collective.name.name, collective.parameters
        is_value = frame.find(AUTO) is not None
        call, says_auto = with_one_chunk(node.collective, parameters, declaration.file.module, is_value)
        matched = match_arguments(parameters, call.arguments, f"collective '{name}'", call.span)
        given = evaluated_arguments(parameters, matched, self.context, frame)
        for argument in given.values():
            home = argument.value.home
            if home is not None and home is not self.topology:
                message = f"these are NPUs of '{home.name}', but the schedule is on '{self.topology.name}'"
                raise fail("E0403", message, argument.span)
        standard = declaration.file.module == MODULE
        takes_chunks = standard and any(p.name.name == CHUNKS for p in parameters)
        automatic = takes_chunks and (self.chunks == AUTO or (says_auto and self.chunks is None))
        number = self._chunk_number(automatic) if takes_chunks else None
        if number is not None:
            given[CHUNKS] = GivenArgument(Value(INT, number), given[CHUNKS].span if CHUNKS in given else call.span)
        if takes_chunks and self.size is not None:
            given["size"] = GivenArgument(Value(BYTES, self.size), call.span)
        owner = self.context.program.context(declaration.file)
        if self.lost:
            chunks = 1 if automatic or CHUNKS not in given else given[CHUNKS].value.data
            name = collective.name.name if standard else ""
            kept = surviving_arguments(given, name, self.left.network, call.span, chunks)
            if kept is None:
                return None
            given = kept
        return _Call(collective, owner, call.span, given, takes_chunks, automatic, number)

    def _chunk_number(self, automatic: bool) -> int | None:
        """The number of chunks of a run that takes `chunks`; None for what the program says."""
        if self.number is not None and (automatic or self.everywhere):
            return self.number
        return 1 if automatic else self.chunks if isinstance(self.chunks, int) else None

    def _demand(self, call: _Call) -> tuple[Run, LazyChunks]:
        """The run of a collective. The chunks of a standard collective are listed only on demand."""
        collective, owner, bound = call.collective, call.owner, call.bound
        name, values = collective.name.name, dict(bound.names)
        group = next((v for v in values.values() if v.type == GROUP), None)
        ranks = npu_numbers(group).astype(np.int32) if group is not None else self.left.network.npus
        standard = standard_of(name, len(ranks), values) if owner.file.module == MODULE else None
        count = lazy_count(name, len(ranks), values) if standard is not None else None
        chunks = LazyChunks(count or 0, lambda: expand_collective(collective, bound, owner), call.span)
        if count is None:
            if standard is not None and standard.shape.by_rule and standard.chunks >= 1:
                check_first_chunk(collective, bound, owner)
            chunks.count = len(chunks.named_chunks.table)
        else:
            self._check_chunks(self.count + count, call.span)
        return Run(name, ranks, chunks if standard is not None else chunks.named_chunks.table, standard), chunks

    def _check_chunks(self, count: int, span: Span) -> None:
        """Raise SourceError if the runs have too many chunks that are not listed."""
        most = 2**31 if self.families else 2**62
        if count >= most:
            raise fail("E0803", f"{count:,} chunks exceed the limit of {most:,}", span)

    def _family(self, call: _Call, rows: int) -> RunFamily:
        """The runs of a collective in all iterations of a frame. rows: how many.

        Raises NotVectorised if they differ by more than their groups, or are of no standard collective.
        """
        varying = [name for name, argument in call.given.items() if argument.value.varies]
        if call.owner.file.module != MODULE or len(varying) != 1 or call.given[varying[0]].value.type != GROUP:
            raise NotVectorised
        argument = call.given[varying[0]]
        lengths = argument.value.data.lengths
        run, chunks = self._demand(replace(call, given={**call.given, varying[0]: argument.at(0)}))
        if run.standard is None or not run.standard.shape.by_rule or (lengths != lengths[0]).any():
            raise NotVectorised
        self._check_chunks(self.count + rows * chunks.count, call.span)
        groups = flatten_lists(argument.value.data)[1].reshape(rows, -1).astype(np.int32)
        return RunFamily(run, groups)

    def _algorithm(self, name: Identifier, collective: s.Collective) -> FoundDeclaration:
        """The algorithm that `using` names, for the collective of the run. Raises SourceError."""
        file = self.context.file
        named = file.algorithms(name.name)
        if not named:
            raise file.unknown_name("algorithm", name.name, name.span)
        fitting = [declared for declared in named if declared.implements(collective)]
        wanted = collective.name.name
        if not fitting:
            others = (f.node.implements.function.name for f in named if isinstance(f.node, s.Algorithm))
            note = Note(f"it implements {phrase(others)}")
            raise fail("E0504", f"algorithm '{name.name}' does not implement {wanted}", name.span, note)
        if len(fitting) > 1 and fitting[0].file is not file:
            notes = [Note(f"one is declared here, in {a.file.source.name}", a.node.name.span) for a in fitting[:2]]
            message = f"two imported files declare algorithm '{name.name}' for {wanted}"
            raise fail("E0206", message, name.span, *notes)
        return fitting[0]

    def _moves(
        self,
        found: FoundDeclaration,
        node: s.RunStatement,
        call: _Call,
        chunks: LazyChunks,
        frame: Frame,
    ) -> AlgorithmSends:
        collective, bound, given = call.collective, call.bound, call.given
        algorithm, owner = found.node, self.context.program.context(found.file)
        assert isinstance(algorithm, s.Algorithm)
        tied, fixed = _implemented_arguments(algorithm, collective, bound, given)
        for argument in node.arguments:
            if argument.name is not None and argument.key in tied:
                name = collective.name.name
                hint = f"write run {name}(..., {argument.key}: ...) using {algorithm.name.name}"
                raise fail("E0212", f"'{argument.key}' is given by the run of {name}", argument.name.span, hint=hint)
        free = [p for p in algorithm.parameters if p.name.name not in tied]
        what, span = f"algorithm '{algorithm.name.name}'", node.using.span if node.using else node.span
        matched = match_arguments(free, node.arguments, what, span)
        arguments = tied | evaluated_arguments(free, matched, self.context, frame)
        inner = parameter_frame(algorithm.parameters, arguments, owner, owner.root)
        for name, argument in fixed.items():
            value = owner.value(argument.value, inner) if argument else _default(collective, name, bound, owner)
            if value is not None and not equal_values(value, bound.names[name]):
                message = f"{what} implements {collective.name.name} with another value of '{name}'"
                note = Note("which is fixed here", (argument or algorithm.implements).span)
                raise fail("E0505", message, span, note)
        try:
            return moves_of(algorithm, inner, owner, chunks.named_chunks, self.count)
        except SourceError as error:
            raise _error_in_run(error, owner, node.span, arguments) from None


def _error_in_run(
    error: SourceError, owner: FileContext, span: Span, given: Mapping[str, GivenArgument]
) -> SourceError:
    """An error inside of a collective or algorithm of a file, with the place of the run (see at_use)."""
    places = {name: argument.span for name, argument in given.items()}
    return at_use(error, owner.file.module is not None, span, "in this run", places)


def _check_rates(topology: Topology, node: s.ScheduleDeclaration) -> None:
    """Raise SourceError if a link has no bandwidth or latency."""
    network = topology.network
    for row in map(int, distinct(network.kind)):
        kind = network.kinds[row]
        missing = [n for n, v in (("bandwidth", kind.bandwidth), ("latency", kind.latency)) if v is None]
        if missing:
            link = network.shown_link(int(np.argmax(network.kind == row)))
            hint = f"give the topology its {phrase(missing)}"
            note = Note(f"for example, link {link} has no {phrase(missing, 'or')}")
            message = f"a schedule needs the times of all links, but '{topology.name}' is only a shape"
            raise fail("E0607", message, node.topology.span, note, hint=hint)


def _implemented_arguments(
    algorithm: s.Algorithm, collective: s.Collective, bound: Frame, given: Mapping[str, GivenArgument]
) -> tuple[dict[str, GivenArgument], dict[str, Argument | None]]:
    """What `implements` says of the parameters of a collective, whose values are in a frame.

    Returns the arguments of those parameters of the algorithm that are passed to the collective, and, of the other
    parameters of the collective, what they are fixed to: an argument, or None for their default.
    """
    own = {p.name.name: p for p in algorithm.parameters}
    what, implements = f"collective '{collective.name.name}'", algorithm.implements
    matched = match_arguments(collective.parameters, implements.arguments, what, implements.span)
    tied: dict[str, GivenArgument] = {}
    fixed: dict[str, Argument | None] = {}
    for parameter in collective.parameters:
        name = parameter.name.name
        argument = matched.get(name)
        if argument is not None and isinstance(argument.value, Name) and argument.value.name in own:
            target = own[argument.value.name]
            span = given[name].span if name in given else argument.span
            tied[target.name.name] = GivenArgument(as_parameter(bound.names[name], target, span), span)
        else:
            fixed[name] = argument
    return tied, fixed


def _default(collective: s.Collective, name: str, bound: Frame, owner: FileContext) -> Value | None:
    """The default of a parameter of a collective, None if it has none or it cannot be evaluated."""
    parameter = next(p for p in collective.parameters if p.name.name == name)
    if parameter.default is None:
        return None
    try:
        return as_parameter(owner.value(parameter.default, bound), parameter, parameter.default.span)
    except SourceError:
        return None
