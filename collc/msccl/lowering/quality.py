"""Measures of a final program, and the cause if it takes longer than its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from collc.base.units import decimal, format_bytes, format_time
from collc.base.wording import plural
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.execution import MESSAGES_IN_FLIGHT, busiest_link, fullest_pair, list_steps, replay_time
from collc.msccl.lowering.fuse import unfused_relays
from collc.msccl.options import Protocol
from collc.msccl.program import FUSED, Program
from collc.runtime.replay import longest_chain
from collc.ten.module import Module
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, slots=True)
class Quality:
    """Measures of a final program.

    steps: of the longest threadblock. threadblocks, scratch: of the GPU that has most (scratch in chunks).
    scratch_saved: chunks of all GPUs that sharing slots saves. fused: thousandths of the sends of received chunks that
    are one step with the receive. chain: most steps of which each needs the one before. replay, schedule: time of the
    program and of the schedule in picoseconds. busiest_link, fullest_pair: lower bounds in picoseconds, see `replay`.
    model: the link model of all these times.
    """

    steps: int
    threadblocks: int
    channels: int
    scratch: int
    scratch_saved: int
    fused: int
    chain: int
    replay: int
    schedule: int
    busiest_link: int
    fullest_pair: int
    model: LinkModel = LinkModel.PIPELINED

    def __str__(self) -> str:
        parts = [
            f"{plural(self.threadblocks, 'threadblock')} per GPU, {plural(self.steps, 'step')} each at most, "
            f"{plural(self.channels, 'channel')}",
            f"{plural(self.scratch, 'scratch chunk')} ({self.scratch_saved} saved)",
            f"{decimal(Fraction(self.fused, 10))} % of relays fused",
            f"longest chain {plural(self.chain, 'step')}",
            f"simulated {format_time(self.replay)} (schedule: {format_time(self.schedule)}), link model {self.model}",
        ]
        return ", ".join(parts)


TOLERATED_SLOWDOWN: Final = Fraction(110, 100)
"""Largest time of a program over its schedule's for which the report has no remark."""


def longer(time: int, schedule: int) -> str:
    """By how much a time exceeds that of a schedule: "12.3 % longer"."""
    return f"{decimal(Fraction(round(Fraction(1000 * (time - schedule), max(1, schedule))), 10))} % longer"


def slowdown_note(program: Program, found: Quality) -> str:
    """A note with the likely cause if the program's time is more than 10 % above its schedule's, else ""."""
    if found.replay <= TOLERATED_SLOWDOWN * found.schedule:
        return ""
    in_flight, enough = MESSAGES_IN_FLIGHT[program.protocol], TOLERATED_SLOWDOWN * found.schedule
    if program.instances > 1 and found.busiest_link > enough:
        cause = (
            f"its busiest link is occupied for {format_time(found.busiest_link)}, since each of the "
            f"{program.instances} instances pays the latency; use fewer 'instances' or larger chunks"
        )
    elif found.busiest_link > enough and any(message.count > 1 for message in program.messages):
        cause = (
            f"its busiest link is occupied for {format_time(found.busiest_link)}: a step moves at most {MOST_CHUNKS} "
            f"slots, here of {format_bytes(program.chunk_bytes)}, and each message pays the latency; use chunks whose "
            "sizes have a larger common divisor"
        )
    elif found.fullest_pair > enough:
        packets = " or 'protocol: \"LL\"', whose connections hold 8" if program.protocol is Protocol.SIMPLE else ""
        cause = (
            f"a connection holds {in_flight} messages, and even on all channels those of two GPUs take "
            f"{format_time(found.fullest_pair)}; use larger chunks, 'sizes' that end earlier{packets}"
        )
    elif any(len(message.path) > 1 for message in program.messages):
        cause = (
            "messages of several GPUs reach a switch together, and a file cannot say which of them leaves it first; "
            "use larger chunks"
        )
    else:
        cause = (
            f"its threadblocks wait for one another, and a connection holds {in_flight} messages; "
            "allow more 'channels', or use larger chunks"
        )
    return f"MSCCL: the program takes {longer(found.replay, found.schedule)} than its schedule: {cause}"


def quality(program: Program, module: Module) -> Quality:
    """Measure a final program of a module with a schedule.

    Raises ValueError if the module has no schedule.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    blocks = [tb for gpu in program.gpus for tb in gpu.threadblocks]
    steps = [step for tb in blocks for step in tb.steps]
    fused = sum(step.op in FUSED for step in steps)
    used = sum(gpu.scratch_chunks for gpu in program.gpus)
    model, schedule = module.schedule.model, module.collective_time()
    return Quality(
        steps=max((len(tb.steps) for tb in blocks), default=0),
        threadblocks=max((len(gpu.threadblocks) for gpu in program.gpus), default=0),
        channels=program.channels,
        scratch=max((gpu.scratch_chunks for gpu in program.gpus), default=0),
        scratch_saved=program.scratch_needed * program.instances - used,
        fused=1000 * fused // max(1, fused + unfused_relays(program)),
        chain=longest_chain(list_steps(program).waits),
        replay=replay_time(program, module.network, model),
        schedule=schedule,
        busiest_link=busiest_link(program, module.network, model),
        fullest_pair=fullest_pair(program, module.network, model),
        model=model,
    )
