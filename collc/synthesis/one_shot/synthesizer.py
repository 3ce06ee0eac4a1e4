"""Sums whose contributions travel by themselves: each goes down a tree of its own and is added on arrival.

On any connected network an All-Reduce then takes about as long as its longest shortest path, where a Reduce-Scatter and
an All-Gather cross the network twice. Every contribution loads links by itself, so that only small buffers gain; if
NPUs form the sums of those that are near first (levels.py), fewer contributions cross the links between these. NPUs
forward contributions as they came over a link, without their own: an NPU keeps apart what came last over each link, so
the next contribution to a chunk arrives there after the one before has been forwarded. Chunks of equal size and group
follow one another in each message, and messages cross switches without a pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.base.memory import require_for_search
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.synthesis.conditions import rates_required
from collc.synthesis.one_shot.levels import Contribution, Parts, contributions, divisions
from collc.synthesis.one_shot.sending import ChunkSet, Sending
from collc.synthesis.one_shot.trees import LinkTimes, Message, TreePlanner
from collc.synthesis.reductions.compose import obstacle_to_shared_sums
from collc.synthesis.task import Effort
from collc.ten.arrays import Int64Array
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers, require_memory_of

LINK_WORK = 20
"""Work of a link in the search for a tree, and on the path of a message, as WorkMeter counts it."""

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
    best: Sending | None = None
    for first in _orders(network, members, sets, effort):
        if effort.stop() or (best is not None and effort.work.is_used_up):
            break
        best = _repair(network, sets, first, effort, best) or best
    else:
        effort.work.finish()
    if best is None:
        stopped = effort.stop()
        raise _no_schedule("it was stopped before" if stopped else "contributions wait for one another too long")
    return best.transfers()


def _orders(
    network: Network, members: Sequence[Sequence[int]], sets: Sequence[ChunkSet], effort: Effort
) -> Iterator[Sequence[Message]]:
    """The messages that holders send, in two orders for each choice of stages; those that have far to go first."""
    times = [LinkTimes([len(part.chunks) * time for time in part.busy], part.total) for part in sets]
    for chosen in _choices(network, members, [np.array(part.total, np.int64) for part in sets]):
        effort.work.add(LINK_WORK * network.link_count * len(chosen))
        if effort.stop():
            return
        trees = TreePlanner(network, times).trees(chosen)
        in_turns = [
            tree[(turn + number) % len(tree)]
            for turn in range(max(map(len, trees), default=0))
            for number, tree in enumerate(trees)
            if turn < len(tree)
        ]
        in_turns.sort(key=lambda message: -message.remaining_time(sets[message.chunks].total))
        yield in_turns
        # To the receiver with the next number, to the one after it, ...: no two senders to the same one.
        yield sorted(in_turns, key=lambda message: (message.receiver - message.sender) % network.npu_count)


def _choices(
    network: Network, members: Sequence[Sequence[int]], total: Sequence[Int64Array]
) -> Iterator[list[Contribution]]:
    """The contributions of all sets of chunks, first all at once, then those within parts before those between."""
    graph = Digraph.of(network)
    divided: list[list[Parts]] = []
    for npus, length in zip(members, total, strict=True):
        group = np.array(npus, np.int32)
        divided.append([*divisions(npus, distances_to(graph, length, group)[:, group])])
    for number in range(max(map(len, divided), default=0)):
        yield [
            contribution
            for chunks, (npus, parts) in enumerate(zip(members, divided, strict=True))
            for contribution in contributions(chunks, npus, parts[min(number, len(parts) - 1)])
        ]


def _repair(
    network: Network, sets: Sequence[ChunkSet], first: Sequence[Message], effort: Effort, best: Sending | None
) -> Sending | None:
    """The messages when none overwrites another; None if they wait for one another too often, or longer than the best,
    or the search was stopped.
    """
    earliest: Mapping[Message, int] = {}
    links = _links_of(first)
    for _ in range(REPAIRS):
        effort.work.add(LINK_WORK * links)
        if effort.stop():
            return None
        sending = Sending(network, sets, first, earliest)
        if best is not None and sending.end >= best.end:
            return None
        late = sending.delays()
        if not late:
            return sending
        earliest = {**earliest, **late}
    return None


def _links_of(messages: Sequence[Message]) -> int:
    """The links of messages and of those that follow them."""
    return sum(len(message.links) + _links_of(message.following) for message in messages)


def _no_schedule(why: str) -> NoSchedule:
    return NoSchedule(Diagnostic("S0201", f"one_shot has no schedule: {why}", hint=_HINT))
