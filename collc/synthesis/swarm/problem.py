"""The problem that rarest-first spreading solves: chunks as bit sets, switch paths, and what is reserved already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.digraph import Digraph
from collc.synthesis.conditions import Conditions
from collc.synthesis.relays import Relays
from collc.synthesis.swarm.switch_paths import SwitchPaths, switch_paths_of
from collc.synthesis.timeline import Intervals, Timeline, link_timelines, slots_used
from collc.ten.arrays import BoolArray

CELL_BYTES: Final = 40
"""Memory for each chunk and device: sets while they are renumbered, transfers, and slots."""


@dataclass(frozen=True, eq=False)
class SwarmProblem:
    """Chunks to spread; chunk k is row k of `conditions`.

    have, need, welcome: bool[devices, chunks], what each device holds at the start, must receive, and may relay.
    sizes: bool[columns of the clock, chunks], the chunks of each size.
    later: (picoseconds, device, row) of chunks that a holder has only later (Task.release).
    reserved: by link, when it is busy with what is planned already. slots_used: by switch with a limited buffer, when
    a slot of it is occupied by that.
    """

    conditions: Conditions
    paths: SwitchPaths
    have: BoolArray
    need: BoolArray
    welcome: BoolArray
    sizes: BoolArray
    later: list[tuple[int, int, int]]
    reserved: dict[int, Timeline]
    slots_used: dict[int, Intervals]

    @property
    def missing_count(self) -> int:
        """How many chunks the devices must get, summed over all devices."""
        return int(self.need.sum())


def swarm_problem(conditions: Conditions, spend: Callable[[int], None]) -> SwarmProblem:
    """The problem of some conditions, in which no device gets a chunk but those that want it and necessary relays.

    spend: `count` of Relays.

    Raises SourceError if no path leads to an NPU, or if the tables would need more memory than is left; NoSchedule
    if there are too many switch paths.
    """
    network, clock = conditions.task.network, conditions.clock
    paths = switch_paths_of(conditions.task, clock)
    count, devices = len(conditions), network.device_count
    require_for_search(CELL_BYTES * devices * count, f"{count:,} chunks on {devices:,} devices")
    have, need, welcome = np.zeros((3, devices, count), np.bool_)
    later: list[tuple[int, int, int]] = []
    relays = _relays(paths, conditions, spend)
    release: list[int] = conditions.release.tolist()
    for row, chunk in enumerate(conditions.chunk.tolist()):
        holders, wanting = conditions.row(row)
        if release[row]:
            later += [(release[row], device, row) for device in holders.tolist()]
        else:
            have[holders, row] = True
        need[[*wanting.tolist(), *relays.of(chunk)], row] = True
    sizes: BoolArray = np.equal(conditions.column, np.arange(len(clock.total[0]))[:, None])
    reserved = link_timelines(conditions.task.reserved, clock)
    return SwarmProblem(
        conditions, paths, have, need, welcome, sizes, later, reserved, slots_used(conditions.task, clock)
    )


def with_all_relays(problem: SwarmProblem) -> SwarmProblem | None:
    """The problem in which every NPU may get every chunk to pass it on; None if all NPUs want all chunks."""
    npus = problem.conditions.task.network.npus
    welcome = problem.welcome.copy()
    welcome[npus] = ~(problem.have | problem.need)[npus]
    for _, device, row in problem.later:
        welcome[device, row] = False
    return replace(problem, welcome=welcome) if welcome.any() else None


def _relays(paths: SwitchPaths, conditions: Conditions, count: Callable[[int], None]) -> Relays:
    """What finds relays over the fastest path from each NPU to each other one."""
    fastest: dict[tuple[int, int], int] = {}
    for source, target, time in zip(paths.source, paths.target, paths.total[-1], strict=True):
        if source not in paths.repeaters:
            fastest[source, target] = min(time, fastest.get((source, target), time))
    ends = np.array(list(fastest), np.int32).reshape(-1, 2)
    network = conditions.task.network
    graph = Digraph(network.device_count, ends[:, 0], ends[:, 1])
    length = np.array(list(fastest.values()), np.int64)
    return Relays(network, conditions.task.demand, graph, length, count)
