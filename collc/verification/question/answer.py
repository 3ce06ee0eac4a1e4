"""From a model of a question back to a schedule, without the transfers that nobody needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers
from collc.verification.question.encoding import Encoding
from collc.verification.question.problem import Goal, Passing, Problem
from collc.verification.schedule_check import verify_schedule

_TRIMMED: Final = 300
"""Transfers of reductions up to which each is left out for a try."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A transfer. edge: its number. start, free, arrival: picoseconds."""

    start: int
    edge: int
    chunk: int
    free: int
    arrival: int
    reduce: bool


def schedule_of(encoding: Encoding, true: frozenset[str]) -> Module:
    """The module with the schedule that a model stands for."""
    problem = encoding.problem
    by_chunk: dict[int, list[_Move]] = defaultdict(list)
    for name in true & encoding.sends.keys():
        send = encoding.sends[name]
        start, goal, edge = encoding.times.at[send.begin], problem.goals[send.chunk], problem.edges[send.edge]
        free, arrival = start + problem.busy_of(goal, edge), encoding.times.at[send.end]
        reduce = goal.reduced and f"r{name[1:]}" in true
        by_chunk[send.chunk].append(_Move(start, send.edge, send.chunk, free, arrival, reduce))
    moves: list[_Move] = []
    for chunk, found in by_chunk.items():
        goal, ordered = problem.goals[chunk], sorted(found, key=lambda move: (move.start, move.edge))
        moves += ordered if goal.reduced else _needed(problem, goal, ordered)
    module = _with(problem, _transfers(problem, moves))
    if any(goal.reduced for goal in problem.goals) and len(moves) <= _TRIMMED and verify_schedule(module).ok:
        return _trimmed(problem, module)
    return module


def _with(problem: Problem, transfers: Transfers) -> Module:
    module = problem.module
    model = module.schedule.model if module.schedule is not None else module.model
    return replace(module.with_schedule(RowSchedule(model, transfers), "z3"), model=model, seed=None, planned=None)


def _needed(problem: Problem, goal: Goal, moves: list[_Move]) -> list[_Move]:
    """The transfers of a copy, by start, that lie on the way to where it is wanted."""
    origin: list[int | None] = []
    read: dict[int, int] = {}
    came: dict[int, list[int]] = defaultdict(list)
    for number, move in enumerate(moves):
        edge = problem.edges[move.edge]
        origin.append(_read(problem, goal, edge.source, move, moves, came[edge.source], read))
        came[edge.target].append(number)
    needed: set[int] = set()
    for npu in sorted(goal.post - goal.pre):
        at: int | None = min(came[npu], key=lambda number: moves[number].arrival)
        while at is not None and at not in needed:
            needed.add(at)
            at = origin[at]
    return [moves[number] for number in sorted(needed)]


def _read(
    problem: Problem,
    goal: Goal,
    source: int,
    move: _Move,
    moves: list[_Move],
    came: Iterable[int],
    read: dict[int, int],
) -> int | None:
    """Which arrival a departure passes on (None: what the device held at first); `read`: until when each is read."""
    if source in goal.pre:
        return None
    way = problem.passing.get(source, Passing.FREE)
    there = [number for number in came if moves[number].arrival <= move.start]
    if way is Passing.FREE:
        return min(there, key=lambda number: moves[number].arrival)
    idle = [number for number in there if read.get(number, -1) <= move.start]
    if way is Passing.ONCE and not problem.limited(source):
        idle = [number for number in there if number not in read]
    if problem.limited(source):
        taken = max(idle, key=lambda number: (moves[number].arrival, problem.edges[moves[number].edge].links))
    else:
        # One that is in use already, if any, so that few arrivals are needed.
        taken = max(idle, key=lambda number: (number in read, -moves[number].arrival))
    read[taken] = move.free
    return taken


def _transfers(problem: Problem, moves: list[_Move]) -> Transfers:
    """Each on a link of its own edge; turned round in time where the problem is."""
    free: dict[int, list[int]] = {}
    rows: list[tuple[int, int, int, bool]] = []
    end = max((move.arrival for move in moves), default=0)
    for move in sorted(moves, key=lambda move: (move.start, move.edge, move.chunk)):
        links = problem.edges[move.edge].links
        until = free.setdefault(move.edge, [0] * len(links))
        lane = next(number for number, time in enumerate(until) if time <= move.start)
        until[lane] = move.free
        start = end - move.arrival if problem.inverted else move.start
        rows.append((move.chunk, links[lane], start, move.reduce or problem.inverted))
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    chunk, link = (np.array(column, np.int32) for column in columns[:2])
    return Transfers.of(chunk, link, np.array(columns[2], np.int64), np.array(columns[3], np.bool_))


def _trimmed(problem: Problem, module: Module) -> Module:
    """Leave out transfers, the last ones first, as long as the schedule stays right."""
    assert module.schedule is not None
    kept = module.schedule.transfers
    for row in reversed(range(len(kept))):
        rest = np.delete(np.arange(len(kept)), row)
        fewer = Transfers(kept.chunk[rest], kept.link[rest], kept.start[rest], kept.reduce[rest])
        if verify_schedule(_with(problem, fewer)).ok:
            kept = fewer
    return _with(problem, kept)
