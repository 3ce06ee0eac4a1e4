"""From a scheduled module to an MSCCL program that fits its runtime and always ends.

    messages -> select -> merge -> assign (with fusion) -> place -> repeat -> depend

Each stage is a function from program to program. If what comes out breaks a limit or could block, or
takes much longer than its schedule, the stages run again with chunks split over more channels, or with
less merged, shared and fused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from typing import Final

from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError
from collc.msccl.collectives import Layout, chunk_bytes, collective_of, layout_of
from collc.msccl.limits import (
    LIMITS,
    MOST_CHUNKS,
    check_merged_limits,
    exceeded_limits,
    longest_threadblock,
    residency_notes,
)
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.attempts import LoweringAttempt, attempts, wider
from collc.msccl.lowering.deadlock import deadlocking_message_sizes, largest_size
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.fuse import relays
from collc.msccl.lowering.merge import merge
from collc.msccl.lowering.messages import messages_of
from collc.msccl.lowering.precheck import channels_per_instance, precheck
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.replay import busiest_link, fullest_pair, replay_time
from collc.msccl.lowering.scratch_slots import allocate_scratch
from collc.msccl.lowering.select import select
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.program import ARRIVES, LEAVES, Program
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

StageObserver = Callable[[str, Program], None]
"""Is told the name of each stage and the program after it."""


_MOST_SHARES: Final = 8
"""Channels that it may take to keep the chunks of a block apart."""

_SMALL: Final = 20_000
"""Messages up to which another way to share threadblocks is tried for its own sake."""

_TRIED: Final = 60_000
"""Messages of one instance that may be lowered in all, in one way after another, for a program that is slow."""

_GOOD: Final = Fraction(103, 100)
"""A program's time over its schedule's with which to be content."""

_GAIN: Final = Fraction(97, 100)
"""What another way must reach of the time of the best before it is taken."""


def lower(module: Module, options: MscclOptions | None = None, observe: StageObserver | None = None) -> Program:
    """The MSCCL program of a module's schedule.

    Raises SourceError M0104 .. M0106 where MSCCL cannot say the collective, M0107 where a switch
    multicasts or reduces, M0109 where the placement that was asked for is impossible, M0110 and M0111
    where a limit is broken; CheckFailed M0112 where every order of the steps could block.
    """
    options = options or MscclOptions()
    observe = observe or (lambda _stage, _program: None)
    start = selected(module, options)
    observe("select", start)
    stages = _StageRunner(start, options, observe)
    check_merged_limits(stages.merge(MOST_CHUNKS), channels_per_instance(options))
    problem: SourceError | None = None
    blocked: Program | None = None
    best: tuple[Fraction, Program] | None = None
    for attempt in _ways(stages, module):
        if attempt.policy.shares > 1 and best is not None and best[0] <= TOLERATED_SLOWDOWN:
            break
        try:
            program = stages.leanest(attempt)
        except SourceError as error:
            problem = problem or error
            continue
        sizes = deadlocking_message_sizes(program)
        if sizes:
            blocked = blocked or _narrowed(program, sizes[-1])
            continue
        slowness, content = _slowness(program, module)
        if best is None or slowness < best[0] * _GAIN or slowness <= TOLERATED_SLOWDOWN < best[0]:
            best = (slowness, program)
        if content:
            break
    found = best[1] if best is not None else blocked
    if found is None:
        raise problem or _blocks()
    most = max((len(gpu.threadblocks) for gpu in found.gpus), default=0)
    return replace(found, notes=(*found.notes, *residency_notes(most)))


def _ways(stages: _StageRunner, module: Module) -> Iterator[LoweringAttempt]:
    """The ways to run the stages, without those that differ in nothing.

    Where a link is taken for its latency too, instances wait for links, and no connections help them.
    """
    ways, start, options = attempts(stages.options), stages.start, stages.options
    model = module.schedule.model if module.schedule else module.model
    if options.instances == 1 or model is not LinkModel.STORE:
        most = _TRIED // max(1, len(start.messages))
        ways = chain(ways, islice(wider(options, channels_per_instance(options)), most))
    seen: set[LoweringAttempt] = set()
    for attempt in ways:
        same = replace(attempt, merged=len(stages.merge(attempt.merged).messages))
        if same not in seen:
            seen.add(same)
            yield attempt


def selected(module: Module, options: MscclOptions) -> Program:
    """The program after `select`: steps that belong to no threadblock yet.

    Raises SourceError as `lower` does, but for limits.
    """
    precheck(module.network, module.demand, options)
    layout = layout_of(module.network, module.demand)
    collective = collective_of(module.network, module.demand, layout, options.profile)
    messages, again = messages_of(module)
    empty = Program(
        name=module.name,
        collective=collective,
        profile=options.profile,
        protocol=options.protocol,
        placement=Placement.OUT,
        sizes=options.sizes,
        chunk_bytes=chunk_bytes(module.demand),
        instances=options.instances,
        channels=1,
        messages=tuple(messages),
        gpus=(),
    )
    if collective.root >= 0:
        empty = replace(empty, name=f"{module.name} root {collective.root}")
    placement, note = _placement(empty, layout, options)
    notes = [note] if note else []
    if collective.root >= 0:
        notes.append(f"for root {collective.root} alone: the runtime takes the file for any root")
    if again:
        notes.append(f"{again} messages are sent again by GPUs where a switch passes a chunk on more than once")
    return select(replace(empty, placement=placement, notes=tuple(notes)), layout)


def _placement(program: Program, layout: Layout, options: MscclOptions) -> tuple[Placement, str]:
    """Where the program is right: what was asked for, or else as much as can be, and why not more."""
    obstacle = _obstacle(program, layout)
    if options.placement is None:
        return (Placement.OUT, f"out of place only: {obstacle}") if obstacle else (Placement.BOTH, "")
    if obstacle and options.placement.in_place:
        message = f"'placement: \"{options.placement.value}\"' is impossible: {obstacle}"
        raise SourceError(Diagnostic("M0109", message, hint="use 'placement: \"out\"', or another schedule"))
    return options.placement, ""


def _obstacle(program: Program, layout: Layout) -> str:
    """Why the program cannot run in place, or "": a result lands where another chunk still waits to leave."""
    collective = program.collective
    if not collective.has_in_place:
        return "a custom collective has no in-place form"
    if collective.kind != "all_to_all":
        return ""
    last_read = {
        (m.source, layout.inputs[m.source][m.chunk]): (m.start, LEAVES)
        for m in program.messages
        if m.chunk in layout.inputs[m.source]
    }
    for message in program.messages:
        slot = layout.outputs[message.target].get(message.chunk)
        if slot is not None and last_read.get((message.target, slot), (-1, 0)) > (message.arrival, ARRIVES):
            return f"block {slot} of rank {message.target} arrives before the one that it replaces has left"
    return ""


@dataclass(frozen=True, slots=True)
class _StageRunner:
    """The stages after `select`, to be run in several ways. merged: by the most chunks of a step."""

    start: Program
    options: MscclOptions
    observe: StageObserver
    merged: dict[int, Program] = field(default_factory=dict[int, Program])

    def merge(self, most: int) -> Program:
        """The program with at most so many chunks in a step."""
        if most not in self.merged:
            self.merged[most] = merge(self.start, most)
        return self.merged[most]

    def leanest(self, attempt: LoweringAttempt) -> Program:
        """The program on few channels, or with a channel for each chunk of a block where that fuses much more."""
        program = self.fitted(attempt)
        block, messages = self.start.collective.block, len(self.start.messages)
        if attempt.merged > 1 or attempt.policy.shares > 1 or not 1 < block <= _MOST_SHARES or messages > _SMALL:
            return program
        apart = replace(attempt, policy=replace(attempt.policy, shares=block))
        try:
            spread = self.fitted(apart)
        except SourceError:
            return program
        return spread if 2 * relays(spread) < relays(program) else program

    def fitted(self, attempt: LoweringAttempt) -> Program:
        """The program with its chunks spread over as few flows as its limits allow.

        Raises SourceError M0110, M0111 where no number of them keeps to the limits.
        """
        limits, channels = LIMITS[self.options.profile], channels_per_instance(self.options)
        merged = self.merge(attempt.merged)
        self.observe("merge", merged)
        check_merged_limits(merged, channels)
        shares = attempt.policy.shares
        while True:
            program = assign(merged, replace(attempt.policy, shares=shares), channels, limits.per_channel)
            self.observe("assign", program)
            if longest_threadblock(program) <= limits.steps or shares >= limits.channels:
                program = self.finished(program, attempt)
            steps = longest_threadblock(program)
            if steps <= limits.steps or shares >= limits.channels:
                break
            shares = min(limits.channels, max(shares + 1, -(-shares * steps // limits.steps)))
        broken = exceeded_limits(program)
        if broken:
            raise broken[0].error()
        return program

    def finished(self, program: Program, attempt: LoweringAttempt) -> Program:
        """The program after the stages that follow `assign`."""
        if attempt.reuse:
            program = allocate_scratch(program)
            self.observe("allocate", program)
        program = repeat(program)
        self.observe("repeat", program)
        program = depend(program, by_messages=True, in_turn=attempt.in_turn)
        self.observe("depend", program)
        return program


def _slowness(program: Program, module: Module) -> tuple[Fraction, bool]:
    """The program's own time over its schedule's, and whether no other way could do much better."""
    if module.schedule is None or len(program.messages) > _SMALL:
        return Fraction(1), True
    model = module.schedule.model
    schedule = max(1, module.schedule.collective_time(module.network, module.demand))
    time = replay_time(program, module.network, model)
    least = max(schedule, *(bound(program, module.network, model) for bound in (busiest_link, fullest_pair)))
    return Fraction(time, schedule), time <= _GOOD * least


def _narrowed(program: Program, blocks_at: int) -> Program | None:
    """The program for sizes at which it always ends, if there are any."""
    largest = largest_size(program, blocks_at + 1)
    if blocks_at >= MOST_CHUNKS or largest < max(1, program.sizes[0]):
        return None
    note = f"for buffers up to {largest} bytes only: above, its threadblocks could wait for one another for ever"
    return replace(program, sizes=(program.sizes[0], largest), notes=(*program.notes, note))


def _blocks() -> CheckFailed:
    message = "the program's threadblocks could wait for one another for ever"
    return CheckFailed(Diagnostic("M0112", message, hint="use another schedule, or one chunk per block"))
