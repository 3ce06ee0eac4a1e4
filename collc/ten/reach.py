"""Whether every chunk can get to where it is wanted at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import Demand, Op, Run
from collc.ten.network import Network

MAX_LISTED = 1_000_000
"""Chunks of a run that are listed to find the one that is told."""

ALL_TO_ALL = frozenset({"all_gather", "reduce_scatter", "all_reduce", "all_to_all"})


@dataclass(frozen=True, slots=True, eq=False)
class Unreachable:
    """A chunk that cannot get to an NPU.

    run: number of the run. chunk: number in the demand, None in a run of more than MAX_LISTED chunks.
    source, target: NPUs. side: int32, devices; where forward, all that `source` reaches, else all that
    reach `target`, whichever are fewer: no link leaves, or enters, them.
    """

    run: int
    chunk: int | None
    source: int
    target: int
    side: Int32Array
    forward: bool


def reached(network: Network, start: Iterable[int], backward: bool = False) -> BoolArray:
    """bool[devices]: the devices that can be reached from some, or, backward, from which they can be."""
    offsets, links = network.in_links if backward else network.out_links
    ends = (network.source if backward else network.target)[links]
    seen = np.zeros(network.device_count, np.bool_)
    front = np.unique(np.fromiter(start, np.int64))
    seen[front] = True
    while len(front):
        low = offsets[front].astype(np.int64)
        counts = offsets[front + 1] - low
        at = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        found = ends[at + np.repeat(low, counts)]
        front = np.unique(found[~seen[found]]).astype(np.int64)
        seen[front] = True
    return seen


def unreachable(network: Network, demand: Demand) -> Unreachable | None:
    """The first chunk that cannot get to an NPU where it is wanted, None where all can.

    Runs of the standard library that connect all members are not expanded.
    """
    for number, run in enumerate(demand.runs):
        found = _unreachable(network, demand, number, run)
        if found is not None:
            return found
    return None


def _unreachable(network: Network, demand: Demand, number: int, run: Run) -> Unreachable | None:
    group = run.group
    standard = run.standard
    if standard is not None and standard.kind in ALL_TO_ALL and len(group):
        pair = _parted(network, group)
        if pair is not None and len(run.pattern) > MAX_LISTED:
            return _told(network, number, None, (pair[0],), pair[1])
        return _cut_off(network, demand, number) if pair is not None else None
    table = run.pattern.expand()
    if len(table) == 0:
        return None
    involved = np.unique(table.sets.members)
    if len(involved) == 0 or _parted(network, involved.astype(np.int32)) is None:
        return None
    return _cut_off(network, demand, number)


def _parted(network: Network, group: Int32Array) -> tuple[int, int] | None:
    """A member that does not reach another, and that other; None where all reach each other."""
    first = int(group[0])
    away = group[~reached(network, [first])[group]]
    if len(away):
        return first, int(away[0])
    cut_off = group[~reached(network, [first], backward=True)[group]]
    return (int(cut_off[0]), first) if len(cut_off) else None


def _cut_off(network: Network, demand: Demand, number: int) -> Unreachable | None:
    """The first chunk of a run that cannot get to an NPU, None where all can."""
    table = demand.runs[number].pattern.expand()
    first = int(demand.first_chunk[number])
    ahead: dict[tuple[int, ...], BoolArray] = {}
    seen: set[tuple[int, int, bool]] = set()
    for chunk, (pre, post, op) in enumerate(
        zip(table.pre.tolist(), table.post.tolist(), table.op.tolist(), strict=True)
    ):
        reduced = op != Op.COPY
        if (pre, post, reduced) in seen:
            continue
        seen.add((pre, post, reduced))
        holders = table.sets[pre].tolist()
        for sources in [(h,) for h in holders] if reduced else [tuple(holders)]:
            if sources not in ahead:
                ahead[sources] = reached(network, sources)
            missing = [t for t in table.sets[post].tolist() if not ahead[sources][t]]
            if missing and sources:
                return _told(network, number, first + chunk, sources, missing[0])
    return None


def _told(network: Network, run: int, chunk: int | None, sources: tuple[int, ...], target: int) -> Unreachable:
    ahead = np.flatnonzero(reached(network, sources)).astype(np.int32)
    behind = np.flatnonzero(reached(network, [target], backward=True)).astype(np.int32)
    forward = len(ahead) <= len(behind)
    return Unreachable(run, chunk, sources[0], target, ahead if forward else behind, forward)
