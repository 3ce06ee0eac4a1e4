"""Schedules for the link model `pipelined`, in which a link is free again before the chunk has arrived.

Choosing at every time at which some link becomes free, just before chunks arrive, gives longer schedules than choosing
when whole transfers end. So a schedule is made for the link model `store`, and its transfers are then moved earlier.
"""

from __future__ import annotations

from dataclasses import replace

from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.rarest_first import PathTransfers


def as_stored(problem: SwarmProblem) -> SwarmProblem:
    """The problem with links that are busy until arrival. Its solutions are solutions of the problem itself."""
    paths = problem.paths
    busy = [
        [
            tuple(end - start for start, end in zip(starts, (*starts[1:], total), strict=True))
            for starts, total in zip(rows, totals, strict=True)
        ]
        for rows, totals in zip(paths.start, paths.total, strict=True)
    ]
    return replace(problem, paths=replace(paths, busy=busy))


def moved_earlier(problem: SwarmProblem, planned: PathTransfers) -> PathTransfers:
    """The same transfers in the same order, each as soon as its source has the chunk and its links are free.

    Returns `planned` itself where links are reserved, switches may repeat chunks or have a limited buffer (an earlier
    arrival could exceed it), or the end would not be earlier.
    """
    paths, network = problem.paths, problem.conditions.task.network
    if problem.reserved or paths.repeaters or network.has_limited_buffers:
        return planned
    column: list[int] = problem.conditions.column.tolist()
    free = [0] * network.link_count
    arrived = {(device, row): time for time, device, row in problem.later}
    starts: list[int] = []
    end = 0
    for row, path in zip(planned.row, planned.path, strict=True):
        size, links = column[row], paths.links[path]
        offsets, busies = paths.start[size][path], paths.busy[size][path]
        waits = (free[link] - offset for link, offset in zip(links, offsets, strict=True))
        start = max(arrived.get((paths.source[path], row), 0), 0, *waits)
        for link, offset, busy in zip(links, offsets, busies, strict=True):
            free[link] = start + offset + busy
        arrival = arrived[paths.target[path], row] = start + paths.total[size][path]
        starts.append(start)
        end = max(end, arrival)
    return replace(planned, start=starts, end=end) if end < planned.end else planned
