"""All-Gather on a Cayley graph: how the chunks of NPU 0 spread, with each generator used by one transfer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from collc.graph.digraph import Digraph, weakly_connected
from collc.kernels.compiled import MOST_PLAIN, STEP_TIME, is_long, numbers, runs_compiled, version_of, zeros
from collc.kernels.symmetric_gather import MODULUS, SpreadGraph, SpreadState, spread_chunks
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import GeneratorTimes, RepresentativePlan, start_early
from collc.synthesis.task import COMPILED_TIMES, Effort
from collc.ten.arrays import Int32Array, Int64Array

SEARCHED_TRANSFERS: Final = 4_000
"""Transfers that the searches plan together, unless they are fewer than two for each deadline."""

SLACKS: Final = (0, 3, 10, 20)
"""Deadlines of slow generators, in percent above the bound."""


def plan_all_gather(group: Group, chunks: int, times: GeneratorTimes, goal: int, effort: Effort) -> RepresentativePlan:
    """The best plan of several searches, in steps or picoseconds as `times`; they end if `goal` is met.

    Raises SourceError if the generators do not lead to all NPUs.
    """
    best: RepresentativePlan | None = None
    work = (group.count - 1) * chunks * len(group.generators)
    for plan in _plans(group, chunks, times, goal, effort):
        effort.work.add(work // (COMPILED_TIMES if is_long(STEP_TIME * work) else 1))
        if best is None or plan.end < best.end:
            best = plan
            effort.progress(min(1.0, goal / max(1, best.end)), "symmetric")
        if best.end <= goal or effort.stop():
            break
    assert best is not None
    return best


def _plans(group: Group, chunks: int, times: GeneratorTimes, goal: int, effort: Effort) -> Iterator[RepresentativePlan]:
    """Plans of searches with several deadlines and orders of targets; in picoseconds, first one from steps."""
    transfers = (group.count - 1) * chunks
    if times.step is None:
        group.span()
        yield start_early(group, _search(group, chunks, GeneratorTimes.steps(group), 0, 0), times, stays=True)
        if STEP_TIME * transfers * len(group.generators) > MOST_PLAIN:
            return
    deadlines = [goal + goal * slack // 100 for slack in (SLACKS if len(set(times.total.tolist())) > 1 else SLACKS[:1])]
    for number in range(max(2, effort.trials, SEARCHED_TRANSFERS // (transfers * len(deadlines)))):
        for deadline in deadlines:
            yield _search(group, chunks, times, deadline, effort.seed * 1_000_003 + number if number else 0)


def _search(group: Group, chunks: int, times: GeneratorTimes, deadline: int, seed: int) -> RepresentativePlan:
    """The plan that the kernel makes with a seed."""
    transfers = (group.count - 1) * chunks
    compile_it = runs_compiled(spread_chunks, STEP_TIME * transfers * len(group.generators))
    spread = version_of(spread_chunks, compile_it)
    faster = times.total[:, None] > times.total
    coset = np.empty((0, group.count), np.int32)
    if bool(faster.any()):
        coset = np.stack([_cosets(group, np.flatnonzero(row)) for row in faster])
    tables: list[Any] = [group.predecessors, group.successors, times.busy, times.total, coset]
    graph = SpreadGraph(*(numbers(np.ascontiguousarray(table).reshape(-1), compile_it) for table in tables))
    types = np.int8, np.int32, np.int32, np.int32
    cursor = numbers(np.array([0, 0, seed % MODULUS]), compile_it)
    state = SpreadState(*[zeros(group.count * chunks, compile_it, dtype) for dtype in types], cursor=cursor)
    rows = zeros(4 * transfers, compile_it)
    end = spread(graph, state, deadline, rows)
    table = np.asarray(rows, np.int64).reshape(-1, 4).T
    return RepresentativePlan(end, table[0], *table[1:].astype(np.int32))


def _cosets(group: Group, generators: Int64Array) -> Int32Array:
    """int32[npus]: the lowest number of the NPUs that some generators join to each."""
    source = np.tile(np.arange(group.count, dtype=np.int32), len(generators))
    return weakly_connected(Digraph(group.count, source, group.successors[generators].reshape(-1)))
