"""The problem that rarest-first spreading solves: chunks as bit sets, switch paths, and what is reserved already."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.digraph import Digraph
from collc.synthesis.conditions import Conditions
from collc.synthesis.relays import Relays
from collc.synthesis.swarm.switch_paths import SwitchPaths, switch_paths_of
from collc.synthesis.timeline import Intervals, Timeline, link_timelines, slots_used

CELL_BYTES: Final = 40
"""Memory for each chunk and device: sets while they are renumbered, transfers, and slots."""


@dataclass(frozen=True, eq=False)
class SwarmProblem:
    """Chunks to spread. Sets of chunks are ints, in which bit k is row k of `conditions`.

    have, need, welcome: per-device bit sets: chunks held at the start; chunks it must receive; chunks it may relay.
    sizes: by column of the clock, the chunks of that size.
    later: (picoseconds, device, row) of chunks that a holder has only later (Task.release).
    reserved: by link, when it is busy with what is planned already. slots_used: by switch with a limited buffer, when
    a slot of it is occupied by that.
    """

    conditions: Conditions
    paths: SwitchPaths
    have: list[int]
    need: list[int]
    welcome: list[int]
    sizes: list[int]
    later: list[tuple[int, int, int]]
    reserved: dict[int, Timeline]
    slots_used: dict[int, Intervals]

    @property
    def missing_count(self) -> int:
        """How many chunks the devices must get, summed over all devices."""
        return sum(bits.bit_count() for bits in self.need)


def swarm_problem(conditions: Conditions) -> SwarmProblem:
    """The problem of some conditions, in which no device gets a chunk but those that want it and necessary relays.

    Raises SourceError if no path leads to an NPU, or if the tables would need more memory than is left; NoSchedule
    if there are too many switch paths.
    """
    network, clock = conditions.task.network, conditions.clock
    paths = switch_paths_of(conditions.task, clock)
    count, devices = len(conditions), network.device_count
    require_for_search(CELL_BYTES * devices * count, f"{count:,} chunks on {devices:,} devices")
    have = [0] * network.device_count
    need = [0] * network.device_count
    later: list[tuple[int, int, int]] = []
    sizes = [0] * clock.total.shape[1]
    relays = _relays(paths, conditions)
    release: list[int] = conditions.release.tolist()
    for row, (column, chunk) in enumerate(zip(conditions.column.tolist(), conditions.chunk.tolist(), strict=True)):
        bit = 1 << row
        sizes[column] |= bit
        holders, wanting = conditions.row(row)
        for device in holders.tolist():
            if release[row]:
                later.append((release[row], device, row))
            else:
                have[device] |= bit
        for device in [*wanting.tolist(), *relays.of(chunk)]:
            need[device] |= bit
    welcome = [0] * network.device_count
    planned = conditions.task.reserved
    reserved = link_timelines(planned, clock)
    return SwarmProblem(
        conditions, paths, have, need, welcome, sizes, later, reserved, slots_used(conditions.task, clock)
    )


def with_all_relays(problem: SwarmProblem) -> SwarmProblem | None:
    """The problem in which every NPU may get every chunk to pass it on; None if all NPUs want all chunks."""
    everything = (1 << len(problem.conditions)) - 1
    late = [0] * len(problem.have)
    for _, device, row in problem.later:
        late[device] |= 1 << row
    welcome = list(problem.welcome)
    for npu in problem.conditions.task.network.npus.tolist():
        welcome[npu] = everything & ~(problem.have[npu] | problem.need[npu] | late[npu])
    return replace(problem, welcome=welcome) if any(welcome) else None


def _relays(paths: SwitchPaths, conditions: Conditions) -> Relays:
    """What finds relays over the fastest path from each NPU to each other one."""
    fastest: dict[tuple[int, int], int] = {}
    for source, target, time in zip(paths.source, paths.target, paths.total[-1], strict=True):
        if source not in paths.repeaters:
            fastest[source, target] = min(time, fastest.get((source, target), time))
    ends = np.array(list(fastest), np.int32).reshape(-1, 2)
    network = conditions.task.network
    graph = Digraph(network.device_count, ends[:, 0], ends[:, 1])
    return Relays(network, conditions.task.demand, graph, np.array(list(fastest.values()), np.int64))
