"""From a scheduled module to an MSCCL program that keeps the limits of its runtime and cannot deadlock.

    messages -> select -> merge -> assign (with fusion) -> allocate -> repeat -> depend

Each stage is a function from program to program. A program that exceeds a limit, could deadlock or takes longer than
its schedule is made again, with less merged, shared and fused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, NoSchedule, SourceError
from collc.base.memory import without_collection
from collc.msccl.limits import (
    LIMITS,
    MOST_CHUNKS,
    bounded_scratch,
    check_merged_limits,
    exceeded_limits,
    longest_threadblock,
    residency_notes,
    size_notes,
)
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.execution import (
    MESSAGES_IN_FLIGHT,
    Blocked,
    busiest_link,
    chunks_per_message,
    deadlocking_message_sizes,
    fullest_pair,
    largest_size,
    replay_time,
    terminates,
)
from collc.msccl.lowering.five_operations import with_guarded_sends, with_local_sums
from collc.msccl.lowering.flows import flows_of, spread_flows
from collc.msccl.lowering.fuse import fusable_pairs
from collc.msccl.lowering.merge import merge
from collc.msccl.lowering.precheck import channels_per_instance
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.scratch_slots import allocate_scratch
from collc.msccl.lowering.select import exchanged_program, first_program
from collc.msccl.options import MscclOptions
from collc.msccl.program import Program
from collc.msccl.slots import with_common_slots
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

StageObserver = Callable[[str, Program], None]
"""Called with the name of each stage and the program after it."""

Announcer = Callable[[str], None]
"""Called before each stage, with its attempt and name, as in "attempt 2: assign"."""

_GOOD_SLOWDOWN: Final = Fraction(103, 100)
"""Time of a program, over the time that no program undercuts, at which no further attempt is made."""

_MOST_FOR_SPEED: Final = 400_000
"""Messages in all attempts together (40 s) after which a program that ends is not made again only to be faster. In a
hurry, none is made again to be faster, and none at all after these.
"""


@dataclass(frozen=True, slots=True)
class LoweringAttempt:
    """Settings of the stages for one attempt.

    merged: most chunks of one step. joined: whether a threadblock may serve a flow that ends and one that begins at its
    GPU, and fuse their steps; if not, each flow has threadblocks of its own, and there are as many flows that none has
    more messages on their way than a connection holds. in_turn: whether threadblocks wait for one another so that they
    send over a link in order. reuse: whether chunks share scratch slots.
    """

    merged: int
    joined: bool
    in_turn: bool = True
    reuse: bool = True


ATTEMPTS: Final = (
    LoweringAttempt(MOST_CHUNKS, joined=True, in_turn=False),
    LoweringAttempt(1, joined=True),
    LoweringAttempt(MOST_CHUNKS, joined=False),
    LoweringAttempt(2, joined=False),
    LoweringAttempt(1, joined=False),
    LoweringAttempt(MOST_CHUNKS, joined=False, in_turn=False),
    LoweringAttempt(1, joined=False, in_turn=False, reuse=False),
)
"""All attempts, from the program with the fewest steps and threadblocks to the one that waits least."""


def lower(
    module: Module,
    options: MscclOptions | None = None,
    observe: StageObserver | None = None,
    announce: Announcer | None = None,
    hurried: Callable[[], bool] = lambda: False,
) -> Program:
    """The MSCCL program of a module's schedule. observe, announce: called after and before each stage. hurried: whether
    the first program that ends is good enough, since a limit or a signal ended the search.

    Raises SourceError M0104 and M0105 if MSCCL cannot express the collective, M0107 if a switch multicasts or reduces,
    M0109 if the requested placement is impossible, M0110 and M0111 if a limit is exceeded; CheckFailed M0112 if every
    order of the steps that was tried could deadlock; NoSchedule S0207 if none was found soon in a hurry.
    """
    options, observe = options or MscclOptions(), observe or (lambda _stage, _program: None)
    announce = announce or (lambda _stage: None)
    with without_collection():
        # blocks of almost equal size, messages of several slots, then of single ones, which block less
        for common, several_slots in ((True, True), (False, True), (False, False)):
            if common and with_common_slots(module, options) is module.demand:
                continue
            announce("select")
            is_last = not several_slots
            start = first_program(module, options, several_slots=several_slots, common=common)
            is_last |= not common and all(message.count == 1 for message in start.messages)
            try:
                program = _lower(_StageRunner(start, module, options, observe, announce, hurried))
            except (CheckFailed, SourceError):
                if is_last:
                    raise
                continue
            notes = residency_notes(max((len(gpu.threadblocks) for gpu in program.gpus), default=0))
            if is_last or (program.sizes == start.sizes and not (common and notes)):
                program = bounded_scratch(program, sizes_given=options.sizes[1] is not None)
                return replace(program, notes=(*program.notes, *notes, *size_notes(program)))
        raise AssertionError("the last program is returned")


def _lower(runner: _StageRunner) -> Program:
    """The fastest program of all attempts for a program after `select`."""
    start = runner.start
    runner.observe("select", start)
    slowdown, program = runner.run_attempts()
    relayed = any(len(message.path) > 1 for message in start.messages)
    if slowdown > TOLERATED_SLOWDOWN and relayed and not runner.hurried():
        runner.announce("select")
        exchanged = exchanged_program(start, runner.module)
        if exchanged is not start:
            others = replace(runner, start=exchanged, merged={})
            slowdown, program = min((slowdown, program), others.run_attempts(), key=lambda pair: pair[0])
    return program


@dataclass(slots=True)
class _StageRunner:
    """Runs the stages after `select`. attempts: how many were made. merged: programs after `merge`, by the most chunks
    of a step.
    """

    start: Program
    module: Module
    options: MscclOptions
    observe: StageObserver
    announce: Announcer
    hurried: Callable[[], bool]
    attempts: int = 0
    merged: dict[int, Program] = field(default_factory=dict[int, Program])

    @property
    def model(self) -> LinkModel:
        """The link model of the schedule."""
        return self.module.model if self.module.schedule is None else self.module.schedule.model

    def run_attempts(self) -> tuple[Fraction, Program]:
        """The fastest program, and its time over its schedule's.

        Stops at one that no other could undercut by much. If all deadlock, a program for the sizes at which it does
        not. Raises what `lower` raises.
        """
        self.announce("merge")
        check_merged_limits(self.merge(MOST_CHUNKS), channels_per_instance(self.options))
        good = _GOOD_SLOWDOWN * self.least_time()
        problem: CollcError | None = None
        deadlocking: list[Program] = []
        best: tuple[int, Program] | None = None
        for attempt in self.distinct_attempts():
            self.attempts += 1
            try:
                program = self.fit(attempt)
                time = self.time_of(program)
            except SourceError as error:
                problem = problem or error
            else:
                if time is None:
                    deadlocking.append(program)
                elif best is None or time < best[0]:
                    best = time, program
            many = self.attempts * len(self.start.messages) > _MOST_FOR_SPEED
            if best and (best[0] <= good or many or self.hurried()):
                break
            if many and self.hurried():
                problem = _no_program_soon()
                break
        if best is not None:
            return Fraction(best[0], max(1, self.module.collective_time())), best[1]
        restricted = next(filter(None, map(_without_deadlock, deadlocking)), None)
        if restricted is None:
            raise problem or _deadlocks()
        return Fraction(1), restricted

    def distinct_attempts(self) -> Iterator[LoweringAttempt]:
        """The attempts in order, without those that would give the same program as an earlier one."""
        seen: set[LoweringAttempt] = set()
        for attempt in ATTEMPTS:
            same = replace(attempt, merged=len(self.merge(attempt.merged).messages))
            if same not in seen:
                seen.add(same)
                yield attempt

    def merge(self, most: int) -> Program:
        """The program with at most `most` chunks in a step."""
        if most not in self.merged:
            # A partial that is kept apart is added at once; merging would move its arrival behind that.
            apart = any(message.relayed >= 0 for message in self.start.messages)
            self.merged[most] = with_local_sums(merge(self.start, 1 if apart else most))
        return self.merged[most]

    def least_time(self) -> int:
        """Picoseconds that no program undercuts: of the schedule, or what its links and connections need."""
        network, model = self.module.network, self.model
        merged = self.merge(MOST_CHUNKS)  # links pay the latency of the fewest messages
        merged = replace(merged, messages=merged.messages * merged.instances)
        bounds = (bound(merged, network, model) for bound in (busiest_link, fullest_pair))
        blocks = max((message.count for message in self.start.messages), default=0) * self.start.chunk_bytes
        equal = max(1, int(self.module.demand.chunks.size.max(initial=1)))
        longer = max(Fraction(1), Fraction(blocks, equal))  # blocks of almost equal size: the largest one
        return max(1, int(self.module.collective_time() * longer), *bounds)

    def fit(self, attempt: LoweringAttempt) -> Program:
        """The program with as few flows as its limits allow. Raises SourceError M0110, M0111 if none keeps them."""
        limits, channels = LIMITS[self.options.profile], channels_per_instance(self.options)
        self.tell("merge")
        merged = self.merge(attempt.merged)
        self.observe("merge", merged)
        check_merged_limits(merged, channels)
        in_flight = MESSAGES_IN_FLIGHT[self.options.protocol]
        fusable = fusable_pairs(merged) if attempt.joined else None
        program, parts, most = merged, 1, limits.channels if attempt.joined else limits.steps
        while True:
            self.tell("assign")
            if attempt.joined:
                flows = flows_of(merged, parts)
            else:
                flows = spread_flows(merged, in_flight, limits.steps // parts, channels)
            steps = max(Counter(flows).values(), default=0)
            if steps <= limits.steps or parts == most:
                program = assign(merged, flows, channels, limits.per_channel, fusable)
                self.observe("assign", program)
                steps = longest_threadblock(program)
            if steps <= limits.steps or parts == most:
                program = self.finish(program, attempt)
                steps = longest_threadblock(program)
                if steps <= limits.steps or parts == most:
                    break
            parts = min(most, max(parts + parts // 4 + 1, -(-parts * steps // limits.steps)))
        exceeded = exceeded_limits(program)
        if exceeded:
            raise exceeded[0].error()
        return program

    def finish(self, program: Program, attempt: LoweringAttempt) -> Program:
        """The program after the stages that follow `assign`."""
        if attempt.reuse:
            self.tell("allocate")
            program = allocate_scratch(program)
            self.observe("allocate", program)
        self.tell("repeat")
        program = repeat(program)
        self.observe("repeat", program)
        self.tell("depend")
        program = with_guarded_sends(depend(program, by_messages=True, in_turn=attempt.in_turn))
        self.observe("depend", program)
        return program

    def time_of(self, program: Program) -> int | None:
        """The time of the program; None if it deadlocks at some size, and then at the largest."""
        if any(message.count > 1 for message in program.messages):
            self.tell("search for deadlocks")
            if not terminates(program, chunks_per_message(program, program.sizes[1])):
                return None
        self.tell("simulation")
        try:
            return replay_time(program, self.module.network, self.model)
        except Blocked:  # messages of one chunk block at all sizes or at none
            return None

    def tell(self, stage: str) -> None:
        """Announce a stage of the current attempt."""
        self.announce(f"attempt {self.attempts}: {stage}")


def _without_deadlock(program: Program) -> Program | None:
    """The program, which deadlocks at some size, for the sizes at which it cannot, or None if there are none.

    It deadlocks up to some number of chunks per message; with more, that is for smaller buffers, it does not.
    """
    most_deadlocking = deadlocking_message_sizes(program)[-1]
    largest = largest_size(program, most_deadlocking + 1)
    if most_deadlocking >= MOST_CHUNKS or largest < max(1, program.sizes[0]):
        return None
    note = f"for buffers up to {largest} bytes only: above, its threadblocks could deadlock"
    return replace(program, sizes=(program.sizes[0], largest), notes=(*program.notes, note))


def _no_program_soon() -> NoSchedule:
    message = "the search was stopped, and no order of the schedule's steps that MSCCL can run was found soon after"
    return NoSchedule(Diagnostic("S0207", message, hint="give it more time, or use fewer NPUs or chunks"))


def _deadlocks() -> CheckFailed:
    message = "the program's threadblocks could deadlock"
    return CheckFailed(Diagnostic("M0112", message, hint="use another schedule, or one chunk per block"))
