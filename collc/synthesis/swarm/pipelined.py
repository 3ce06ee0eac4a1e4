"""Swarms where a chunk arrives after its link is free again.

Decisions in the rhythm of whole transfers are better than those at every moment when some link is free, just before
chunks arrive: so a schedule that stores is made, and then each lane starts as soon as it can.
"""

from __future__ import annotations

from dataclasses import replace

from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.rounds import Found


def stored(problem: SwarmProblem) -> SwarmProblem:
    """The problem with links that are taken until arrival: what solves it solves the problem itself."""
    lanes = problem.lanes
    busy = [
        [
            tuple(end - start for start, end in zip(starts, (*starts[1:], total), strict=True))
            for starts, total in zip(rows, totals, strict=True)
        ]
        for rows, totals in zip(lanes.start, lanes.total, strict=True)
    ]
    return replace(problem, lanes=replace(lanes, busy=busy))


def earlier(problem: SwarmProblem, found: Found) -> Found:
    """The same lanes, each as soon as its source has the chunk and its links are free, in the order of their starts.

    Only where nothing is planned already and switches neither keep chunks nor have few places; else as found.
    """
    lanes, network = problem.lanes, problem.conditions.task.network
    if problem.taken or lanes.hosts or bool((network.buffers >= 0).any()):
        return found
    column: list[int] = problem.conditions.column.tolist()
    free = [0] * network.link_count
    there = {(device, row): time for time, device, row in problem.later}
    starts: list[int] = []
    end = 0
    for row, lane in zip(found.row, found.lane, strict=True):
        size, links = column[row], lanes.links[lane]
        offsets, busies = lanes.start[size][lane], lanes.busy[size][lane]
        waits = (free[link] - offset for link, offset in zip(links, offsets, strict=True))
        start = max(there.get((lanes.source[lane], row), 0), 0, *waits)
        for link, offset, busy in zip(links, offsets, busies, strict=True):
            free[link] = start + offset + busy
        arrival = there[lanes.target[lane], row] = start + lanes.total[size][lane]
        starts.append(start)
        end = max(end, arrival)
    return replace(found, start=starts, end=end) if end < found.end else found
