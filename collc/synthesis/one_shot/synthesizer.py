"""Sums whose contributions travel by themselves: each goes down a tree of its own and is added on arrival.

On any connected network an All-Reduce then takes about as long as its longest shortest path, where a Reduce-Scatter and
an All-Gather cross the network twice. Every contribution loads links by itself, so that only small buffers gain. NPUs
forward contributions as they came over a link, without their own: an NPU keeps apart what came last over each link, so
the next contribution to a chunk arrives there after the one before has been forwarded. Chunks of equal size and group
follow one another in each message, and messages cross switches without a pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.base.memory import require_for_search
from collc.synthesis.conditions import rates_required
from collc.synthesis.one_shot.sending import ChunkSet, Sending
from collc.synthesis.one_shot.trees import ContributionSet, Message, TreePlanner
from collc.synthesis.reductions.compose import obstacle_to_shared_sums
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import Clock, RowSchedule, Transfers, require_memory_of

LINK_WORK = 20
"""Work of a link in the search for a tree, and of sending a message, as WorkMeter counts it."""

MESSAGE_BYTES = 1000
"""Memory of a message."""

REPAIRS = 16
"""How often messages are sent anew, those later that would overwrite others; 7 are the most that small buffers need."""


def one_shot(module: Module, effort: Effort) -> Module:
    """The module with a schedule of its reductions.

    Raises SourceError if a chunk is not reduced for all who contribute to it, something is planned already or a switch
    has a limited buffer; NoSchedule if contributions wait for one another too often, as those of large buffers do.
    """
    if reason := obstacle(module):
        raise SourceError(Diagnostic("S0310", f"one_shot {reason}", hint=_HINT))
    with rates_required():
        clock = Clock.of(module.network, module.demand, module.model)
    return replace(module, schedule=RowSchedule(module.model, _plan_transfers(module, clock, effort)))


_HINT = "'synthesize auto' chooses a synthesizer that fits"


def obstacle(module: Module) -> str:
    """Why the synthesizer does not fit a module, as in "is for sums ..."; "" if it fits."""
    if not (reason := obstacle_to_shared_sums(module)) and module.network.has_limited_buffers:
        return f"does not count slots of switches, and those of {module.network.name} are limited"
    return reason


def _plan_transfers(module: Module, clock: Clock, effort: Effort) -> Transfers:
    network, table = module.network, module.demand.chunks
    kinds, kind_of = np.unique(np.stack([table.pre, clock.size_of], axis=1), axis=0, return_inverse=True)
    members: list[list[int]] = [table.sets[pre].tolist() for pre, _ in kinds.tolist()]
    sets: list[ChunkSet] = []
    for number, size in enumerate(kinds[:, 1].tolist()):
        chunks = np.flatnonzero(kind_of.reshape(-1) == number).astype(np.int32)
        sets.append(ChunkSet(chunks, clock.busy[network.kind, size].tolist(), clock.total[network.kind, size].tolist()))
    messages = sum(len(npus) ** 2 for npus in members)
    require_for_search(MESSAGE_BYTES * messages, f"{messages:,} messages")
    require_memory_of(sum(len(part.chunks) * len(npus) ** 2 for part, npus in zip(sets, members, strict=True)))
    effort.work.add(LINK_WORK * network.link_count * sum(map(len, members)))
    if effort.stop():
        raise _no_schedule("it was stopped before")
    contributions = [
        ContributionSet(npus, [len(part.chunks) * time for time in part.busy], part.total)
        for npus, part in zip(members, sets, strict=True)
    ]
    trees = TreePlanner(network, contributions).trees()
    first = [
        tree[(turn + number) % len(tree)]
        for turn in range(max(map(len, trees), default=0))
        for number, tree in enumerate(trees)
        if turn < len(tree)
    ]
    earliest: Mapping[Message, int] = {}
    for _ in range(REPAIRS):
        effort.work.add(LINK_WORK * messages)
        if effort.stop():
            raise _no_schedule("it was stopped before")
        sending = Sending(network, sets, first, earliest)
        late = sending.delays()
        if not late:
            effort.work.finish()
            return sending.transfers()
        earliest = {**earliest, **late}
    raise _no_schedule("contributions wait for one another, as those of large buffers do")


def _no_schedule(why: str) -> NoSchedule:
    return NoSchedule(Diagnostic("S0201", f"one_shot has no schedule: {why}", hint=_HINT))
