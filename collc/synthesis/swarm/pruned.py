"""Removes transfers to NPUs that neither want the chunk nor pass it on."""

from __future__ import annotations

from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.rarest_first import PathTransfers


def pruned(problem: SwarmProblem, planned: PathTransfers) -> PathTransfers:
    """The transfers whose chunk goes, perhaps over further ones, to an NPU that wants it."""
    paths, conditions = problem.paths, problem.conditions
    ends: list[int] = conditions.task.network.target.tolist()
    column: list[int] = conditions.column.tolist()
    used = {(npu, row) for row in range(len(conditions)) for npu in conditions.row(row)[1].tolist()}
    kept: list[tuple[int, int, int]] = []
    end = 0
    for row, path, start in reversed(list(zip(planned.row, planned.path, planned.start, strict=True))):
        if any((ends[link], row) in used for link in paths.links[path]):
            used.add((paths.source[path], row))
            kept.append((row, path, start))
            end = max(end, start + paths.total[column[row]][path])
    rows, numbers, starts = (list(reversed(part)) for part in zip(*kept, strict=True))
    return PathTransfers(rows, numbers, starts, end)
