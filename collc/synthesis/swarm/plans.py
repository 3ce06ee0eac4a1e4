"""Plans of swarm, and what shortens them: transfers that are of no use go, others start earlier.

Choosing at every time at which some link becomes free, just before chunks arrive, gives longer schedules for the link
model `pipelined` than choosing when whole transfers end. So a schedule is made for the link model `store`, and its
transfers are then moved earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from collc.synthesis.swarm.problem import SwarmProblem


@dataclass(frozen=True, slots=True)
class PathTransfers:
    """Chunks sent over switch paths, in order of start: rows of the conditions, paths, starts; and the last arrival."""

    row: list[int]
    path: list[int]
    start: list[int]
    end: int


def prune(problem: SwarmProblem, planned: PathTransfers) -> PathTransfers:
    """The transfers whose chunk goes, perhaps over further ones, to an NPU that wants it."""
    paths, conditions = problem.paths, problem.conditions
    column: list[int] = conditions.column.tolist()
    links = conditions.task.network.link_count
    used = {(npu, row) for row in range(len(conditions)) for npu in conditions.row(row)[1].tolist()}
    kept: list[tuple[int, int, int]] = []
    end = 0
    for row, path, start in reversed(list(zip(planned.row, planned.path, planned.start, strict=True))):
        if any(link < links and (paths.ends[link], row) in used for link in paths.links[path]):
            used.add((paths.source[path], row))
            kept.append((row, path, start))
            end = max(end, start + paths.total[column[row]][path])
    rows, numbers, starts = (list(reversed(part)) for part in zip(*kept, strict=True))
    return PathTransfers(rows, numbers, starts, end)


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

    Returns `planned` itself if links are reserved, switches may repeat chunks or have a limited buffer (an earlier
    arrival could exceed it), or the end would not be earlier.
    """
    paths, network = problem.paths, problem.conditions.task.network
    if problem.reserved or paths.repeaters or network.has_limited_buffers:
        return planned
    column: list[int] = problem.conditions.column.tolist()
    free = [0] * len(paths.ends)
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
