"""The transfers of a model that the solver found, without those that are of no use."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from collc.smt.encoding import DeadlineEncoding
from collc.smt.problem import ChunkGoal, ScheduleProblem
from collc.ten.schedule import Transfers


@dataclass(frozen=True, slots=True)
class _FoundTransfer:
    """A transfer of the model. edge: its number. start, link_free, arrival: picoseconds."""

    start: int
    edge: int
    chunk: int
    link_free: int
    arrival: int
    reduce: bool


def transfers_of(encoding: DeadlineEncoding, true: frozenset[str]) -> Transfers:
    """The transfers of a model; `true`: the names of its true constants.

    On networks without switches, of chunks that are copied only the transfers on the paths to NPUs that want them are
    kept. The order in time of an inverted problem is reversed.
    """
    problem = encoding.problem
    by_chunk: dict[int, list[_FoundTransfer]] = defaultdict(list)
    for name in true & encoding.transfers.keys():
        possible = encoding.transfers[name]
        goal, edge = problem.goals[possible.chunk], problem.edges[possible.edge]
        start, arrival = encoding.times.at[possible.start], encoding.times.at[possible.arrival]
        reduce = goal.reduced and possible.reduces in true
        free = start + problem.busy_of(goal, edge)
        by_chunk[possible.chunk].append(_FoundTransfer(start, possible.edge, possible.chunk, free, arrival, reduce))
    kept: list[_FoundTransfer] = []
    for chunk, transfers in by_chunk.items():
        goal, ordered = problem.goals[chunk], sorted(transfers, key=lambda transfer: (transfer.start, transfer.edge))
        kept += ordered if goal.reduced or problem.rules else _needed_transfers(problem, goal, ordered)
    return _on_links(problem, kept)


def _needed_transfers(
    problem: ScheduleProblem, goal: ChunkGoal, transfers: list[_FoundTransfer]
) -> list[_FoundTransfer]:
    """The transfers of a copied chunk, by start, that lie on paths to NPUs that want it."""
    first: dict[int, _FoundTransfer] = {}  # by NPU, the first to arrive
    for transfer in sorted(transfers, key=lambda transfer: transfer.arrival):
        first.setdefault(problem.edges[transfer.edge].target, transfer)
    needed: dict[int, _FoundTransfer] = {}
    for wanting in sorted(goal.post - goal.pre):
        npu = wanting
        while npu not in goal.pre and npu not in needed:
            needed[npu] = first[npu]
            npu = problem.edges[first[npu].edge].source
    return list(needed.values())


def _on_links(problem: ScheduleProblem, transfers: list[_FoundTransfer]) -> Transfers:
    """Give each transfer a link of its edge that is free."""
    free: dict[int, list[int]] = {}
    rows: list[tuple[int, int, int, bool]] = []
    end = max((transfer.arrival for transfer in transfers), default=0)
    for transfer in sorted(transfers, key=lambda transfer: (transfer.start, transfer.edge, transfer.chunk)):
        links = problem.edges[transfer.edge].links
        until = free.setdefault(transfer.edge, [0] * len(links))
        lane = next(number for number, time in enumerate(until) if time <= transfer.start)
        until[lane] = transfer.link_free
        start = end - transfer.arrival if problem.inverted else transfer.start
        rows.append((transfer.chunk, links[lane], start, transfer.reduce or problem.inverted))
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    chunk, link = (np.array(column, np.int32) for column in columns[:2])
    return Transfers.of(chunk, link, np.array(columns[2], np.int64), np.array(columns[3], np.bool_))
