"""What a swarm brings to NPUs that do not want it, nor pass it on, is left out."""

from __future__ import annotations

from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.rounds import Found


def pruned(problem: SwarmProblem, found: Found) -> Found:
    """The lanes that lead, in the end, to someone who wants the chunk."""
    lanes, conditions = problem.lanes, problem.conditions
    ends: list[int] = conditions.task.network.target.tolist()
    column: list[int] = conditions.column.tolist()
    used = {(npu, row) for row in range(len(conditions)) for npu in conditions.row(row)[1].tolist()}
    kept: list[tuple[int, int, int]] = []
    end = 0
    for row, lane, start in reversed(list(zip(found.row, found.lane, found.start, strict=True))):
        if any((ends[link], row) in used for link in lanes.links[lane]):
            used.add((lanes.source[lane], row))
            kept.append((row, lane, start))
            end = max(end, start + lanes.total[column[row]][lane])
    rows, numbers, starts = (list(reversed(part)) for part in zip(*kept, strict=True))
    return Found(rows, numbers, starts, end)
