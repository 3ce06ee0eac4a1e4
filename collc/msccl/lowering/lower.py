"""From a scheduled module to an MSCCL program that keeps the limits of its runtime and cannot deadlock.

    messages -> select -> merge -> assign (with fusion) -> allocate -> repeat -> depend

Each stage is a function from program to program. A program that exceeds a limit, could deadlock or takes much longer
than its schedule is made again: with its chunks divided among more channels, or with less merged, shared and fused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Final

from collc.base.collection import without_collection
from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError
from collc.msccl.limits import (
    LIMITS,
    MOST_CHUNKS,
    Limits,
    check_merged_limits,
    exceeded_limits,
    longest_threadblock,
    residency_notes,
)
from collc.msccl.lowering.assign import assign, steps_of_gpu
from collc.msccl.lowering.attempts import (
    EAGER_ATTEMPTS,
    IN_TURN_ATTEMPTS,
    SPREAD_ATTEMPTS,
    LoweringAttempt,
    leaner_attempts,
    wider_attempts,
)
from collc.msccl.lowering.deadlock import (
    MESSAGES_IN_FLIGHT,
    chunks_per_message,
    deadlocking_message_sizes,
    largest_size,
)
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.five_operations import with_guarded_sends, with_local_sums
from collc.msccl.lowering.flows import flows_of, spread_flows
from collc.msccl.lowering.merge import merge
from collc.msccl.lowering.precheck import channels_per_instance
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.replay import Blocked, busiest_link, fullest_pair, replay_time
from collc.msccl.lowering.scratch_memory import bounded_scratch
from collc.msccl.lowering.scratch_slots import allocate_scratch
from collc.msccl.lowering.select import eager_program, first_program
from collc.msccl.options import MscclOptions, Profile
from collc.msccl.program import Program
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

StageObserver = Callable[[str, Program], None]
"""Called with the name of each stage and the program after it."""

Announcer = Callable[[str], None]
"""Called before each stage, with its attempt and name, as in "attempt 2: assign"."""

_LARGE_PROGRAM: Final = 20_000
"""Messages above which a program is not merged, and made a few times for speed only."""

_MOST_LARGE_ATTEMPTS: Final = 3
"""Attempts of which the fastest is taken for a large program."""

_MEASURED_MESSAGES: Final = 200_000
"""Most messages of a program whose time is measured, so that it can be made again for speed alone."""

_RETRIED_MESSAGES: Final = 60_000
"""Most messages in all attempts together that are made for speed alone; counted for one instance."""

_GOOD_SLOWDOWN: Final = Fraction(103, 100)
"""Time of a program, over the time that no program undercuts, at which no further attempt is made."""

_WORTHWHILE_GAIN: Final = Fraction(97, 100)
"""Time of a further attempt, over the best so far, below which it replaces the best."""


def lower(
    module: Module,
    options: MscclOptions | None = None,
    observe: StageObserver | None = None,
    announce: Announcer | None = None,
) -> Program:
    """The MSCCL program of a module's schedule. observe, announce: called after and before each stage.

    Raises SourceError M0104 and M0105 if MSCCL cannot express the collective, M0107 if a switch multicasts or
    reduces, M0109 if the requested placement is impossible, M0110 and M0111 if a limit is exceeded; CheckFailed M0112
    if every order of the steps that was tried could deadlock.
    """
    with without_collection():
        options = options or MscclOptions()
        observe, announce = observe or (lambda _stage, _program: None), announce or (lambda _stage: None)
        announce("select")
        start = first_program(module, options, several_slots=True)
        stages = _StageRunner(start, module, options, observe, announce)
        if not _has_several_slots(start):
            return _run_attempts(stages)
        try:
            found = _run_attempts(stages)
        except (CheckFailed, SourceError):
            found = None
        if found is None or found.sizes != start.sizes:
            announce("select")  # single slots block less
            found = _run_attempts(_StageRunner(first_program(module, options), module, options, observe, announce))
        return found


def _has_several_slots(start: Program) -> bool:
    return any(message.count > 1 for message in start.messages)


def _run_attempts(stages: _StageRunner) -> Program:
    start, module, options = stages.start, stages.module, stages.options
    stages.observe("select", start)
    stages.check_limits()
    problem: SourceError | None = None
    restricted: Program | None = None
    best: tuple[Fraction, Program] | None = None
    for number, attempt in enumerate(_attempts(stages, module), 1):
        if attempt.policy.shares > 1 and best is not None and best[0] <= TOLERATED_SLOWDOWN:
            break
        try:
            program = stages.announce_attempt(number).fit(attempt)
        except SourceError as error:
            problem = problem or error
            continue
        if program is None:
            continue
        judged = stages.announce_attempt(number).judge(program)
        if isinstance(judged, int):
            restricted = restricted or _without_deadlock(program, judged)
            continue
        slowdown, final = judged
        if best is None or slowdown < best[0] * _WORTHWHILE_GAIN:
            best = (slowdown, program)
        if final or (number >= _MOST_LARGE_ATTEMPTS and len(start.messages) > _LARGE_PROGRAM):
            break
    found = best[1] if best is not None else restricted
    if found is None:
        raise problem or _deadlocks()
    found = bounded_scratch(found, sizes_given=options.sizes[1] is not None)
    most = max((len(gpu.threadblocks) for gpu in found.gpus), default=0)
    return replace(found, notes=(*found.notes, *residency_notes(most)))


def _attempts(stages: _StageRunner, module: Module) -> Iterator[LoweringAttempt]:
    """The attempts in order, without those that would give the same program as an earlier one.

    With instances and the link model `store`, each instance pays the latency of a link; more connections then do not
    help, so only the attempts against deadlock are made.
    """
    order, start, options = leaner_attempts(stages.options), stages.start, stages.options
    model = module.schedule.model if module.schedule else module.model
    over_switches = any(len(message.path) > 1 for message in start.messages)
    if len(start.messages) > _LARGE_PROGRAM:
        order = chain((IN_TURN_ATTEMPTS[-1], SPREAD_ATTEMPTS[0], EAGER_ATTEMPTS[-1]), order)
    else:
        if options.instances == 1 or model is not LinkModel.STORE:
            most = _RETRIED_MESSAGES // max(1, len(start.messages))
            order = chain(order, SPREAD_ATTEMPTS, islice(wider_attempts(options, channels_per_instance(options)), most))
        if over_switches:
            order = chain(islice(order, 1), EAGER_ATTEMPTS, order)
    seen: set[LoweringAttempt] = set()
    for attempt in order:
        eager = attempt.eager and stages.begin(eager=True) is not start
        merged = len(stages.merge(attempt.merged, eager=eager).messages)
        same = replace(attempt, merged=merged, eager=eager)
        if same not in seen:
            seen.add(same)
            yield attempt


@dataclass(frozen=True, slots=True)
class _StageRunner:
    """Runs the stages after `select`.

    eager: the program before `merge` with messages as early as they can be, once it was wanted. merged: programs after
    `merge`, by the most chunks of a step and whether messages are early. assigned: hashes of the programs after
    `assign` and the attempts that made them.
    """

    start: Program
    module: Module
    options: MscclOptions
    observe: StageObserver
    announce: Announcer
    eager: list[Program] = field(default_factory=list[Program])
    merged: dict[tuple[int, bool], Program] = field(default_factory=dict[tuple[int, bool], Program])
    assigned: set[tuple[int, bool, bool]] = field(default_factory=set[tuple[int, bool, bool]])

    def announce_attempt(self, number: int) -> _StageRunner:
        """The runner, announcing stages as those of an attempt; both share the merged programs."""

        def announce(stage: str) -> None:
            self.announce(f"attempt {number}: {stage}")

        return replace(self, announce=announce)

    def begin(self, *, eager: bool) -> Program:
        """The program after `select`; `eager`: with messages as early as they can be, if that is possible."""
        if eager and not self.eager:
            self.announce("select")
            self.eager.append(eager_program(self.start, self.module) or self.start)
        return self.eager[0] if eager else self.start

    def merge(self, most: int, *, eager: bool = False) -> Program:
        """The program with at most `most` chunks in a step."""
        if (most, eager) not in self.merged:
            start = self.begin(eager=eager)
            # A partial that is kept apart is added at once; merging would move its arrival behind that.
            apart = any(message.relayed >= 0 for message in start.messages)
            self.merged[most, eager] = with_local_sums(merge(start, 1 if apart else most))
        return self.merged[most, eager]

    def check_limits(self) -> None:
        """Raise SourceError M0111 if the program exceeds limits however it is merged."""
        channels = channels_per_instance(self.options)
        if len(self.start.messages) > _LARGE_PROGRAM:
            try:
                return check_merged_limits(self.start, channels)
            except SourceError:
                pass
        self.announce("merge")
        return check_merged_limits(self.merge(MOST_CHUNKS), channels)

    def fit(self, attempt: LoweringAttempt) -> Program | None:
        """The program with its chunks divided into as few shares as its limits allow.

        None: an earlier attempt gave the same program. Raises SourceError M0110, M0111 if no number of shares keeps
        the limits.
        """
        limits, channels = LIMITS[self.options.profile], channels_per_instance(self.options)
        fuses = self.options.profile is not Profile.RCCL
        self.announce("merge")
        merged = self.merge(attempt.merged, eager=attempt.eager)
        self.observe("merge", merged)
        check_merged_limits(merged, channels)
        if attempt.policy.spread:
            return self.spread(merged, attempt)
        shares = attempt.policy.shares
        while True:
            self.announce("assign")
            policy = replace(attempt.policy, shares=shares, fuse=attempt.policy.fuse and fuses)
            flows = flows_of(merged, shares, policy.paths)
            steps = max(Counter(flows).values(), default=0)
            if steps > limits.steps and shares < limits.channels:
                shares = _more_shares(shares, steps, limits)
                continue
            if len(merged.messages) > _LARGE_PROGRAM and shares < limits.channels:
                # One GPU says what the others would: assigning all of them takes seconds.
                steps = steps_of_gpu(merged, policy, max(merged.gpus, key=lambda gpu: len(gpu.steps)), flows)
                if steps > limits.steps:
                    shares = _more_shares(shares, steps, limits)
                    continue
            program = assign(merged, policy, channels, limits.per_channel, flows)
            self.observe("assign", program)
            if longest_threadblock(program) <= limits.steps or shares >= limits.channels:
                if self.is_known(program, attempt):
                    return None
                program = self.finish(program, attempt)
            steps = longest_threadblock(program)
            if steps <= limits.steps or shares >= limits.channels:
                break
            shares = _more_shares(shares, steps, limits)
        return _within_limits(program)

    def spread(self, merged: Program, attempt: LoweringAttempt) -> Program | None:
        """The program with as many flows as it has messages on their way; as `fit`."""
        limits, channels = LIMITS[self.options.profile], channels_per_instance(self.options)
        most, in_flight = limits.steps, MESSAGES_IN_FLIGHT[self.options.protocol]
        while True:
            self.announce("assign")
            flows = spread_flows(merged, in_flight, most, channels)
            program = assign(merged, attempt.policy, channels, limits.per_channel, flows)
            self.observe("assign", program)
            if self.is_known(program, attempt):
                return None
            program = self.finish(program, attempt)
            steps = longest_threadblock(program)
            if steps <= limits.steps or most == 1:
                return _within_limits(program)
            most = most * limits.steps // steps  # the rest is for the steps that wait

    def judge(self, program: Program) -> int | tuple[Fraction, bool]:
        """The result of `_slowdown`, or the most chunks of a message with which the program deadlocks."""
        if not _is_measured(program, self.module) or any(message.count > 1 for message in program.messages):
            self.announce("search for deadlocks")
            message_sizes = deadlocking_message_sizes(program)
            if message_sizes:
                return message_sizes[-1]
        self.announce("simulation")
        try:
            return _slowdown(program, self)
        except Blocked:  # messages of one chunk block at all sizes or at none
            return chunks_per_message(program, program.sizes[0])

    def is_known(self, program: Program, attempt: LoweringAttempt) -> bool:
        """Whether an earlier attempt had the same program after `assign` and continues as this one; records it."""
        if len(program.messages) > _LARGE_PROGRAM:
            return False
        key = hash((program.messages, program.gpus)), attempt.reuse, attempt.in_turn
        known = key in self.assigned
        self.assigned.add(key)
        return known

    def finish(self, program: Program, attempt: LoweringAttempt) -> Program:
        """The program after the stages that follow `assign`."""
        if attempt.reuse:
            self.announce("allocate")
            program = allocate_scratch(program)
            self.observe("allocate", program)
        self.announce("repeat")
        program = repeat(program)
        self.observe("repeat", program)
        self.announce("depend")
        program = with_guarded_sends(depend(program, by_messages=True, in_turn=attempt.in_turn))
        self.observe("depend", program)
        return program


def _within_limits(program: Program) -> Program:
    """The program. Raises SourceError M0111 if it exceeds a limit."""
    exceeded = exceeded_limits(program)
    if exceeded:
        raise exceeded[0].error()
    return program


def _more_shares(shares: int, steps: int, limits: Limits) -> int:
    """The shares with which a threadblock of `steps` steps with `shares` shares may have as many as a runtime runs."""
    return min(limits.channels, max(shares + 1, -(-shares * steps // limits.steps)))


def _is_measured(program: Program, module: Module) -> bool:
    return module.schedule is not None and len(program.messages) <= _MEASURED_MESSAGES


def _slowdown(program: Program, stages: _StageRunner) -> tuple[Fraction, bool]:
    """The program's own time over its schedule's, and whether no other attempt could do much better.

    Large programs are not measured: 1 and True.
    """
    module = stages.module
    if module.schedule is None or not _is_measured(program, module):
        return Fraction(1), True
    model = module.schedule.model
    schedule = max(1, module.collective_time())
    time = replay_time(program, module.network, model)
    # Other attempts may merge more, so that links pay the latency of fewer messages.
    fewest = stages.merged.get((MOST_CHUNKS, False))
    merged = program if fewest is None else replace(program, messages=fewest.messages * program.instances)
    least = max(schedule, *(bound(merged, module.network, model) for bound in (busiest_link, fullest_pair)))
    good = TOLERATED_SLOWDOWN if len(program.messages) > _LARGE_PROGRAM else _GOOD_SLOWDOWN
    return Fraction(time, schedule), time <= good * least


def _without_deadlock(program: Program, most_deadlocking: int) -> Program | None:
    """The program for the sizes at which it cannot deadlock, or None if there are none.

    most_deadlocking: the most chunks per message at which it deadlocks; with more, that is for smaller buffers, it
    does not.
    """
    largest = largest_size(program, most_deadlocking + 1)
    if most_deadlocking >= MOST_CHUNKS or largest < max(1, program.sizes[0]):
        return None
    note = f"for buffers up to {largest} bytes only: above, its threadblocks could deadlock"
    return replace(program, sizes=(program.sizes[0], largest), notes=(*program.notes, note))


def _deadlocks() -> CheckFailed:
    message = "the program's threadblocks could deadlock"
    return CheckFailed(Diagnostic("M0112", message, hint="use another schedule, or one chunk per block"))
