"""Elaboration of schedules: runs become a demand, other statements become requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from collc.base.diagnostics import Note, SourceError, Span
from collc.base.wording import did_you_mean, listed
from collc.emit.kinds import EMIT_KINDS
from collc.passes.synthesizers import SYNTHESIZERS
from collc.source import limits
from collc.source.automatic_chunks import AUTO, CHUNKS, MODULE, RunCall
from collc.source.elaboration.binding import (
    GivenArgument,
    as_parameter,
    evaluated_arguments,
    match_arguments,
    parameter_frame,
)
from collc.source.elaboration.collectives import LazyChunks, NamedChunks, expand_collective, moves_of
from collc.source.elaboration.containers import equal_values
from collc.source.elaboration.file_context import FileContext
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.requests import check_request, checked_options, file_name
from collc.source.elaboration.standard_collectives import chunk_numbers, lazy_count, standard_of
from collc.source.elaboration.topology_values import Topology
from collc.source.elaboration.unreachable import UnreachableChunk, unreachable_chunk
from collc.source.elaboration.values import Value, npu_numbers
from collc.source.parsing import syntax as s
from collc.source.parsing.expressions import Name
from collc.source.problems import AlreadyReported, Problems, at_use, fail, unknown_name_error
from collc.source.program import CheckRequest, ChunkChoice, EmitRequest, OptionValue, RunRequest, ScheduleRequest
from collc.source.scopes import FoundDeclaration
from collc.source.textbook_names import synthesizer_hint
from collc.source.types import BYTES, GROUP, INT, TOPOLOGY
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Run
from collc.ten.limited import fed_links


@dataclass(eq=False)
class _ScheduleDraft:
    """The statements of a schedule that were elaborated so far.

    chunks: number of chunks of `runs`. statements: number of statements, loops unrolled. number: chunks per block of
    the runs for which the number is chosen, which are those with `chunks: auto` or `everywhere`. choices: for each run
    that takes `chunks`, whether that is `auto`, and the numbers that divide its size.
    """

    topology: Topology
    number: int | None = None
    everywhere: bool = False
    choices: list[tuple[bool, frozenset[int]]] = field(default_factory=list[tuple[bool, frozenset[int]]])
    runs: list[Run] = field(default_factory=list[Run])
    requests: list[RunRequest] = field(default_factory=list[RunRequest])
    chunks: int = 0
    synthesizer: s.Synthesize | None = None
    options: dict[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    checks: list[CheckRequest] = field(default_factory=list[CheckRequest])
    emits: list[EmitRequest] = field(default_factory=list[EmitRequest])
    allow_congestion: bool = False
    statements: int = 0


@dataclass(frozen=True, eq=False)
class ScheduleBuilder:
    """Elaborates the schedules of one file.

    chunks: what `chunks` is in all runs of standard collectives, in place of what the program says: a number, "auto",
    or None for what the program says. size: in bytes, likewise, of those that take `chunks`.
    """

    context: FileContext
    chunks: int | str | None = None
    size: int | None = None

    def request(
        self, node: s.ScheduleDeclaration, number: int | None = None, everywhere: bool = False
    ) -> ScheduleRequest:
        """The request of a schedule. Raises SourceError or AlreadyReported; errors of statements go to `problems`.

        number: of chunks per block for the runs with `chunks: auto`, or `everywhere`.
        """
        value = self.context.coerce(node.topology, self.context.root, TOPOLOGY, "the topology of a schedule")
        topology: Topology = value.data
        draft = _ScheduleDraft(topology, number, everywhere)
        self._check_complete(topology, node)
        self.context.run_body(node.body, lambda statement, frame: self._statement(statement, frame, draft))
        if not draft.runs:
            hint = "add: run all_gather(t.npus, size: 1MiB)"
            raise fail("E0606", f"schedule '{node.name.name}' runs nothing", node.name.span, hint=hint)
        demand = Demand(tuple(draft.runs))
        problem = unreachable_chunk(topology.network, demand)
        if problem is not None:
            raise _unreachable_error(problem, topology, demand, draft)
        return ScheduleRequest(
            name=node.name.name,
            span=node.span,
            network=fed_links(topology.network),
            demand=demand,
            runs=tuple(draft.requests),
            synthesizer=draft.synthesizer.synthesizer.name if draft.synthesizer else "auto",
            synthesizer_span=draft.synthesizer.span if draft.synthesizer else node.name.span,
            options=draft.options,
            checks=tuple(draft.checks),
            emits=tuple(draft.emits),
            allow_congestion=draft.allow_congestion,
            choice=self._choice(node, draft),
        )

    def _choice(self, node: s.ScheduleDeclaration, draft: _ScheduleDraft) -> ChunkChoice | None:
        """Other numbers of chunks: for the runs with `chunks: auto`, else for all that take `chunks`."""
        automatic = any(auto for auto, _ in draft.choices)
        chosen = [numbers for auto, numbers in draft.choices if auto or not automatic]
        if not chosen:
            return None

        def request(number: int) -> ScheduleRequest:
            program = self.context.program
            before, program.problems = program.problems, Problems()
            try:
                return self.request(node, number, not automatic)
            except AlreadyReported:
                program.problems.stop()
                raise
            finally:
                program.problems = before

        common = chosen[0]
        for numbers in chosen[1:]:
            common &= numbers
        return ChunkChoice(automatic, tuple(sorted(common)), request)

    def _check_complete(self, topology: Topology, node: s.ScheduleDeclaration) -> None:
        """Raise SourceError if a link has no bandwidth or latency."""
        network = topology.network
        used = np.unique(network.kind)
        for row in map(int, used):
            kind = network.kinds[row]
            missing = [n for n, v in (("bandwidth", kind.bandwidth), ("latency", kind.latency)) if v is None]
            if missing:
                link = network.shown_link(int(np.argmax(network.kind == row)))
                hint = f"give the topology its {listed(missing)}"
                note = Note(f"for example, link {link} has no {listed(missing, 'or')}")
                message = f"a schedule needs the times of all links, but '{topology.name}' is only a shape"
                raise fail("E0607", message, node.topology.span, note, hint=hint)

    def _statement(self, node: s.Statement, frame: Frame, draft: _ScheduleDraft) -> None:
        draft.statements += 1
        limits.check_count("statements of a schedule", draft.statements, node.span)
        if isinstance(node, s.RunStatement):
            self._run(node, frame, draft)
        else:
            self._request(node, frame, draft)

    def _request(self, node: s.Statement, frame: Frame, draft: _ScheduleDraft) -> None:
        evaluator = self.context
        match node:
            case s.Synthesize():
                name = node.synthesizer.name
                if draft.synthesizer is not None:
                    first = Note("first here", draft.synthesizer.span)
                    raise fail("E0608", "a schedule has one synthesizer", node.span, first)
                draft.synthesizer = node
                if name not in SYNTHESIZERS:
                    hint = synthesizer_hint(name, SYNTHESIZERS, self.context.file.known_names("algorithm"))
                    raise fail("E0601", f"unknown synthesizer '{name}'", node.synthesizer.span, hint=hint)
                draft.options = checked_options(node.arguments, SYNTHESIZERS[name].options, name, evaluator, frame)
            case s.Verify():
                for check in node.checks:
                    with self.context.program.problems.collect():
                        draft.checks.append(check_request(check, frame, evaluator))
            case s.Emit():
                draft.emits.append(emit_request(node, frame, self.context))
            case s.Allow():
                if node.what.name != "congestion":
                    hint = did_you_mean(node.what.name, ["congestion"], "only congestion can be allowed")
                    raise fail("E0609", f"'{node.what.name}' cannot be allowed", node.what.span, hint=hint)
                draft.allow_congestion = True
            case _:
                raise AssertionError(node)  # the grammar has no other

    # Runs

    def _run(self, node: s.RunStatement, frame: Frame, draft: _ScheduleDraft) -> None:
        found = self.context.file.get("collective", node.collective.function)
        collective = found.node
        if not isinstance(collective, s.Collective):
            raise AlreadyReported
        run_call = RunCall.of(
            node.collective, collective.parameters, found.file.module, lambda name: frame.find(name) is not None
        )
        call = run_call.call
        name = collective.name.name
        matched = match_arguments(collective.parameters, call.arguments, f"collective '{name}'", call.span)
        given = evaluated_arguments(collective.parameters, matched, self.context, frame)
        self._check_home(given, draft)
        takes_chunks = found.file.module == MODULE and any(p.name.name == CHUNKS for p in collective.parameters)
        automatic = takes_chunks and (self.chunks == AUTO or (run_call.automatic and self.chunks is None))
        number = self._chunk_number(automatic, draft)
        if takes_chunks and number is not None:
            given[CHUNKS] = GivenArgument(Value(INT, number), given[CHUNKS].span if CHUNKS in given else call.span)
        if takes_chunks and self.size is not None:
            given["size"] = GivenArgument(Value(BYTES, self.size), call.span)
        owner = self.context.program.context(found.file)
        bound = parameter_frame(collective.parameters, given, owner, owner.root)
        try:
            run, chunks = self._demand(found, owner, bound, draft, call.span)
        except SourceError as error:
            library, places = owner.file.module is not None, {name: g.span for name, g in given.items()}
            located = at_use(error, library, call.span, "in this run", places)
            raise self._with_origin(located, number if takes_chunks and not draft.number else None) from None
        if len(run.pattern) == 0:
            raise fail("E0416", f"this {name} has no chunks, so there is nothing to schedule", call.span)
        draft.runs.append(run)
        if takes_chunks and run.standard is not None:
            draft.choices.append((automatic, chunk_numbers(run.standard, len(run.group))))
        moves, library = None, False
        if node.using is not None:
            moves = self._moves(node, found, bound, given, chunks, draft, frame)
            library = self._algorithm(node, found).file.module is not None
        draft.requests.append(RunRequest(node.span, node.using.name if node.using else None, moves, library))
        draft.chunks += len(run.pattern)

    def _chunk_number(self, automatic: bool, draft: _ScheduleDraft) -> int | None:
        """The number of chunks of a run that takes `chunks`; None for what the program says."""
        if draft.number is not None and (automatic or draft.everywhere):
            return draft.number
        if automatic:
            return 1
        return self.chunks if isinstance(self.chunks, int) else None

    def _with_origin(self, error: SourceError, number: int | None) -> SourceError:
        """An error in a run; if its number of chunks is not that of the program, with a note that says so."""
        if number is None or not isinstance(self.chunks, int):
            return error
        note = Note(f"'chunks' is {number} in all runs, as --chunks (in Python: chunks=) says")
        return SourceError(*(replace(found, notes=(*found.notes, note)) for found in error.diagnostics))

    def _check_home(self, given: Mapping[str, GivenArgument], draft: _ScheduleDraft) -> None:
        for argument in given.values():
            home = argument.value.home
            if home is not None and home is not draft.topology:
                message = f"these are NPUs of '{home.name}', but the schedule is on '{draft.topology.name}'"
                raise fail("E0403", message, argument.span)

    def _demand(
        self, found: FoundDeclaration, owner: FileContext, bound: Frame, draft: _ScheduleDraft, span: Span
    ) -> tuple[Run, LazyChunks]:
        """The run of a collective. The chunks of a standard collective are listed only on demand."""
        collective = found.node
        if not isinstance(collective, s.Collective):
            raise AlreadyReported
        name = collective.name.name
        values = dict(bound.names)
        group = next((v for v in values.values() if v.type == GROUP), None)
        ranks = npu_numbers(group).astype(np.int32) if group is not None else draft.topology.network.npus

        def build() -> NamedChunks:
            return expand_collective(collective, bound, owner)

        standard = None
        count = None
        if found.file.module == MODULE:
            standard = standard_of(name, len(ranks), values)
            count = lazy_count(name, len(ranks), values)
        chunks = LazyChunks(count if count is not None else 0, build, span)
        if count is None:
            chunks.count = len(chunks.named_chunks.table)
        elif draft.chunks + count >= 2**31:
            raise fail("E0803", f"{draft.chunks + count:,} chunks exceed the limit of {2**31:,}", span)
        pattern = chunks if standard is not None else chunks.named_chunks.table
        return Run(name, ranks, pattern, standard), chunks

    def _algorithm(self, node: s.RunStatement, found: FoundDeclaration) -> FoundDeclaration:
        """The algorithm that `using` names, for the collective of the run. Raises SourceError."""
        name = node.using.name if node.using else ""
        span = node.using.span if node.using else node.span
        file = self.context.file
        every = [
            FoundDeclaration(a, f)
            for f in (file, *(i for i, _ in file.imports))
            for a in f.names.get("algorithm", {}).get(name, [])
            if isinstance(a, s.Algorithm)
        ]
        if not every:
            raise file.unknown_name("algorithm", name, span)
        fitting = [a for a in every if self._implemented_collective(a) is found.node]
        wanted = found.node.name.name
        if not fitting:
            kinds = listed(a.node.implements.function.name for a in every if isinstance(a.node, s.Algorithm))
            raise fail("E0504", f"algorithm '{name}' does not implement {wanted}", span, Note(f"it implements {kinds}"))
        if len(fitting) > 1 and fitting[0].file is not file:
            notes = [Note(f"one is declared here, in {a.file.source.name}", a.node.name.span) for a in fitting[:2]]
            raise fail("E0206", f"two imported files declare algorithm '{name}' for {wanted}", span, *notes)
        return fitting[0]

    def _implemented_collective(self, algorithm: FoundDeclaration) -> object:
        node = algorithm.node
        if not isinstance(node, s.Algorithm):
            return None
        candidates = algorithm.file.candidates("collective", node.implements.function.name)
        return candidates[0].node if candidates else None

    def _moves(
        self,
        node: s.RunStatement,
        found: FoundDeclaration,
        bound: Frame,
        given: Mapping[str, GivenArgument],
        chunks: LazyChunks,
        draft: _ScheduleDraft,
        frame: Frame,
    ) -> AlgorithmSends:
        chosen = self._algorithm(node, found)
        algorithm, collective = chosen.node, found.node
        if not isinstance(algorithm, s.Algorithm) or not isinstance(collective, s.Collective):
            raise AlreadyReported
        owner = self.context.program.context(chosen.file)
        what = f"algorithm '{algorithm.name.name}'"
        arguments = tied_arguments(algorithm, collective, bound, given)
        free = [p for p in algorithm.parameters if p.name.name not in arguments]
        _check_tied(arguments, node)
        matched = match_arguments(free, node.arguments, what, node.using.span if node.using else node.span)
        arguments |= evaluated_arguments(free, matched, self.context, frame)
        inner = parameter_frame(algorithm.parameters, arguments, owner, owner.root)
        _check_fixed(algorithm, collective, bound, inner, owner, node)
        try:
            return moves_of(algorithm, inner, owner, chunks.named_chunks, draft.chunks)
        except SourceError as error:
            library, places = owner.file.module is not None, {name: g.span for name, g in arguments.items()}
            raise at_use(error, library, node.span, "in this run", places) from None


def tied_arguments(
    algorithm: s.Algorithm, collective: s.Collective, bound: Frame, given: Mapping[str, GivenArgument]
) -> dict[str, GivenArgument]:
    """The arguments of those parameters of an algorithm that `implements` passes to the collective."""
    own = {p.name.name: p for p in algorithm.parameters}
    what = f"collective '{collective.name.name}'"
    matched = match_arguments(collective.parameters, algorithm.implements.arguments, what, algorithm.implements.span)
    found: dict[str, GivenArgument] = {}
    for name, argument in matched.items():
        if isinstance(argument.value, Name) and argument.value.name in own:
            parameter = own[argument.value.name]
            span = given[name].span if name in given else argument.span
            found[parameter.name.name] = GivenArgument(as_parameter(bound.names[name], parameter, span), span)
    return found


def _check_tied(tied: Mapping[str, GivenArgument], node: s.RunStatement) -> None:
    """Raise SourceError if `using` gives an argument that the run gives already."""
    for argument in node.arguments:
        if argument.name is not None and argument.name.name in tied:
            name, collective = argument.name.name, node.collective.function.name
            hint = f"write run {collective}(..., {name}: ...) using {node.using.name if node.using else ''}"
            raise fail("E0212", f"'{name}' is given by the run of {collective}", argument.name.span, hint=hint)


def _check_fixed(
    algorithm: s.Algorithm,
    collective: s.Collective,
    bound: Frame,
    inner: Frame,
    owner: FileContext,
    node: s.RunStatement,
) -> None:
    """Raise SourceError if `implements` fixes an argument to another value than that of the run."""
    what = f"collective '{collective.name.name}'"
    matched = match_arguments(collective.parameters, algorithm.implements.arguments, what, algorithm.implements.span)
    own = {p.name.name for p in algorithm.parameters}
    for parameter in collective.parameters:
        name = parameter.name.name
        argument = matched.get(name)
        if argument is not None and isinstance(argument.value, Name) and argument.value.name in own:
            continue
        expression = argument.value if argument is not None else parameter.default
        if expression is None:
            continue
        value = owner.value(expression, inner) if argument is not None else None
        default = value if value is not None else _default(collective, name, bound, owner)
        if default is not None and not equal_values(default, bound.names[name]):
            message = (
                f"algorithm '{algorithm.name.name}' implements {collective.name.name} with another value of '{name}'"
            )
            note = Note("which is fixed here", (argument or algorithm.implements).span)
            raise fail("E0505", message, node.using.span if node.using else node.span, note)


def _default(collective: s.Collective, name: str, bound: Frame, owner: FileContext) -> Value | None:
    """The default of a parameter of a collective; None if it has none or it cannot be evaluated."""
    parameter = next(p for p in collective.parameters if p.name.name == name)
    if parameter.default is None:
        return None
    try:
        return as_parameter(owner.value(parameter.default, bound), parameter, parameter.default.span)
    except SourceError:
        return None


def emit_request(node: s.Emit, frame: Frame, context: FileContext) -> EmitRequest:
    """The request of `emit msccl("f.xml", instances: 2)`. Raises SourceError."""
    kind = node.kind.name
    if kind not in EMIT_KINDS:
        raise unknown_name_error("E0602", "kind of file", kind, EMIT_KINDS, node.kind.span)
    arguments = list(node.arguments)
    path = None
    if arguments and arguments[0].name is None:
        path = file_name(arguments.pop(0), frame, context)
    options = checked_options(arguments, EMIT_KINDS[kind].options, f"emit {kind}", context, frame)
    return EmitRequest(kind, path, options, node.span)


def _unreachable_error(
    problem: UnreachableChunk, topology: Topology, demand: Demand, draft: _ScheduleDraft
) -> SourceError:
    network = topology.network
    source, target = network.shown_name(problem.source), network.shown_name(problem.target)
    names = [network.shown_name(int(d)) for d in problem.side[:8]]
    if len(problem.side) > 8:
        names.append(f"{len(problem.side) - 8} more")
    side = f"{{{', '.join(names)}}}"
    cut = (
        f"no link leads from {side} to another device"
        if problem.forward
        else f"no link leads from another device to {side}"
    )
    if len(names) == 1:
        cut = f"no link leaves {names[0]}" if problem.forward else f"no link leads to {names[0]}"
    run = demand.runs[problem.run]
    what = f"the chunks of {source} can't get to {target}"
    if problem.chunk is not None:
        what = f"chunk {demand.chunk_name(problem.chunk).partition(':')[2]} can't get to {target} from {source}"
    message = f"{run.collective} is impossible on '{topology.name}': {what}"
    return fail("E0412", message, draft.requests[problem.run].span, Note(cut))
