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
from collc.msccl.limits import LIMITS, MOST_CHUNKS, excesses, foreseen, longest
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.attempts import Attempt, attempts, wider
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.foresee import channels_of, foresee
from collc.msccl.lowering.fuse import relays
from collc.msccl.lowering.merge import merge
from collc.msccl.lowering.messages import messages_of
from collc.msccl.lowering.place import place
from collc.msccl.lowering.progress import blocked_sizes, largest_size
from collc.msccl.lowering.quality import TOLERATED
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.replay import busiest_link, fullest_pair, replay_time
from collc.msccl.lowering.select import select
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.program import ARRIVES, LEAVES, Program
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

Watch = Callable[[str, Program], None]
"""Is told the name of each stage and the program after it."""


_MOST_SHARES: Final = 8
"""Channels that it may take to keep the chunks of a block apart."""

_PROCESSORS: Final = 132
"""Multiprocessors of an H100 SXM (NVIDIA H100 whitepaper); all threadblocks must be on the GPU at once."""

_SMALL: Final = 20_000
"""Messages up to which another way to share threadblocks is tried for its own sake."""

_TRIED: Final = 60_000
"""Messages of one instance that may be lowered in all, in one way after another, for a program that is slow."""

_GOOD: Final = Fraction(103, 100)
"""A program's time over its schedule's with which to be content."""

_GAIN: Final = Fraction(97, 100)
"""What another way must reach of the time of the best before it is taken."""


def lower(module: Module, options: MscclOptions | None = None, watch: Watch | None = None) -> Program:
    """The MSCCL program of a module's schedule.

    Raises SourceError M0104 .. M0106 where MSCCL cannot say the collective, M0107 where a switch
    multicasts or reduces, M0109 where the placement that was asked for is impossible, M0110 and M0111
    where a limit is broken; CheckFailed M0112 where every order of the steps could block.
    """
    options = options or MscclOptions()
    watch = watch or (lambda _stage, _program: None)
    start = selected(module, options)
    watch("select", start)
    stages = _Stages(start, options, watch)
    foreseen(stages.merge(MOST_CHUNKS), channels_of(options))
    problem: SourceError | None = None
    blocked: Program | None = None
    best: tuple[Fraction, Program] | None = None
    for attempt in _ways(stages, module):
        if attempt.policy.colors > 1 and best is not None and best[0] <= TOLERATED:
            break
        try:
            program = stages.leanest(attempt)
        except SourceError as error:
            problem = problem or error
            continue
        sizes = blocked_sizes(program)
        if sizes:
            blocked = blocked or _narrowed(program, sizes[-1])
            continue
        slowness, content = _slowness(program, module)
        if best is None or slowness < best[0] * _GAIN or slowness <= TOLERATED < best[0]:
            best = (slowness, program)
        if content:
            break
    found = best[1] if best is not None else blocked
    if found is None:
        raise problem or _blocks()
    return replace(found, notes=(*found.notes, *_remarks(found)))


def _ways(stages: _Stages, module: Module) -> Iterator[Attempt]:
    """The ways to run the stages, without those that differ in nothing.

    Where a link is taken for its latency too, instances wait for links, and no connections help them.
    """
    ways, start, options = attempts(stages.options), stages.start, stages.options
    model = module.schedule.model if module.schedule else module.model
    if options.instances == 1 or model is not LinkModel.STORE:
        most = _TRIED // max(1, len(start.messages))
        ways = chain(ways, islice(wider(options, channels_of(options)), most))
    seen: set[Attempt] = set()
    for attempt in ways:
        same = replace(attempt, merged=len(stages.merge(attempt.merged).messages))
        if same not in seen:
            seen.add(same)
            yield attempt


def selected(module: Module, options: MscclOptions) -> Program:
    """The program after `select`: steps that belong to no threadblock yet.

    Raises SourceError as `lower` does, but for limits.
    """
    foresee(module.network, module.demand, options)
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
    if obstacle and options.placement.inside:
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
class _Stages:
    """The stages after `select`, to be run in several ways. merged: by the most chunks of a step."""

    start: Program
    options: MscclOptions
    watch: Watch
    merged: dict[int, Program] = field(default_factory=dict[int, Program])

    def merge(self, most: int) -> Program:
        """The program with at most so many chunks in a step."""
        if most not in self.merged:
            self.merged[most] = merge(self.start, most)
        return self.merged[most]

    def leanest(self, attempt: Attempt) -> Program:
        """The program on few channels, or with a channel for each chunk of a block where that fuses much more."""
        program = self.fitted(attempt)
        block, messages = self.start.collective.block, len(self.start.messages)
        if attempt.merged > 1 or attempt.policy.colors > 1 or not 1 < block <= _MOST_SHARES or messages > _SMALL:
            return program
        apart = replace(attempt, policy=replace(attempt.policy, colors=block))
        try:
            spread = self.fitted(apart)
        except SourceError:
            return program
        return spread if 2 * relays(spread) < relays(program) else program

    def fitted(self, attempt: Attempt) -> Program:
        """The program with its chunks spread over as few lanes as its limits allow.

        Raises SourceError M0110, M0111 where no number of them keeps to the limits.
        """
        limits, channels = LIMITS[self.options.profile], channels_of(self.options)
        merged = self.merge(attempt.merged)
        self.watch("merge", merged)
        foreseen(merged, channels)
        colors = attempt.policy.colors
        while True:
            program = assign(merged, replace(attempt.policy, colors=colors), channels, limits.per_channel)
            self.watch("assign", program)
            if longest(program) <= limits.steps or colors >= limits.channels:
                program = self.finished(program, attempt)
            steps = longest(program)
            if steps <= limits.steps or colors >= limits.channels:
                break
            colors = min(limits.channels, max(colors + 1, -(-colors * steps // limits.steps)))
        broken = excesses(program)
        if broken:
            raise broken[0].error()
        return program

    def finished(self, program: Program, attempt: Attempt) -> Program:
        """The program after the stages that follow `assign`."""
        if attempt.reuse:
            program = place(program)
            self.watch("place", program)
        program = repeat(program)
        self.watch("repeat", program)
        program = depend(program, by_messages=True, in_turn=attempt.in_turn)
        self.watch("depend", program)
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


def _remarks(program: Program) -> list[str]:
    most = max((len(gpu.threadblocks) for gpu in program.gpus), default=0)
    if most <= _PROCESSORS:
        return []
    return [f"{most} threadblocks must run on a GPU at once: more than the {_PROCESSORS} multiprocessors of an H100"]


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
