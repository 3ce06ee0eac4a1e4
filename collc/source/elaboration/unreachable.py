"""Whether paths lead every chunk to all NPUs that want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph, reachable_vertices
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import Demand, Op, Run
from collc.ten.network import Network

MAX_LISTED: Final = 1_000_000
"""Chunks of a run up to which they are listed to find the one without a path."""


@dataclass(frozen=True, slots=True, eq=False)
class UnreachableChunk:
    """A chunk that no path leads to an NPU which wants it.

    run: number of the run. chunk: number in the demand; None in a run of more than MAX_LISTED chunks.
    source, target: NPUs, a holder and one that wants the chunk. side: int32, devices. If `forward`, those that `source`
    reaches, and no link leaves them; otherwise those that reach `target`, and no link enters them. The smaller of the
    two sets.
    """

    run: int
    chunk: int | None
    source: int
    target: int
    side: Int32Array
    forward: bool


def unreachable_chunk(network: Network, demand: Demand) -> UnreachableChunk | None:
    """The first chunk without a path to an NPU that wants it; None if there is none.

    Runs of standard collectives between all pairs are not expanded if all members reach each other.
    """
    graph = Digraph.of(network)
    for number, run in enumerate(demand.runs):
        found = _in_run(graph, demand, number, run)
        if found is not None:
            return found
    return None


def _in_run(graph: Digraph, demand: Demand, number: int, run: Run) -> UnreachableChunk | None:
    """The first such chunk of a run."""
    group = run.group
    standard = run.standard
    if standard is not None and standard.shape.without_root and len(group):
        pair = _pair_without_path(graph, group)
        if pair is not None and len(run.pattern) > MAX_LISTED:
            return _with_side(graph, number, None, (pair[0],), pair[1])
        return _among_all(graph, demand, number) if pair is not None else None
    table = run.pattern.expand()
    if len(table) == 0:
        return None
    involved = np.unique(table.sets.members)
    if len(involved) == 0 or _pair_without_path(graph, involved.astype(np.int32)) is None:
        return None
    return _among_all(graph, demand, number)


def _pair_without_path(graph: Digraph, group: Int32Array) -> tuple[int, int] | None:
    """A member that does not reach another one, and that other one; None if all reach each other."""
    first = int(group[0])
    not_reached = group[~reachable_vertices(graph, [first])[group]]
    if len(not_reached):
        return first, int(not_reached[0])
    not_reaching = group[~reachable_vertices(graph.reverse(), [first])[group]]
    return (int(not_reaching[0]), first) if len(not_reaching) else None


def _among_all(graph: Digraph, demand: Demand, number: int) -> UnreachableChunk | None:
    """The first such chunk of a run, of which all chunks are tried."""
    table = demand.runs[number].pattern.expand()
    first = int(demand.first_chunk[number])
    known: dict[tuple[int, ...], BoolArray] = {}
    tried: set[tuple[int, int, bool]] = set()
    rows = zip(table.pre.tolist(), table.post.tolist(), table.op.tolist(), strict=True)
    for chunk, (pre, post, op) in enumerate(rows):
        reduced = op != Op.COPY
        if (pre, post, reduced) in tried:
            continue
        tried.add((pre, post, reduced))
        holders = table.sets[pre].tolist()
        for sources in [(holder,) for holder in holders] if reduced else [tuple(holders)]:
            if sources not in known:
                known[sources] = reachable_vertices(graph, sources)
            missing = [target for target in table.sets[post].tolist() if not known[sources][target]]
            if missing and sources:
                return _with_side(graph, number, first + chunk, sources, missing[0])
    return None


def _with_side(graph: Digraph, run: int, chunk: int | None, sources: tuple[int, ...], target: int) -> UnreachableChunk:
    """The chunk with the smaller of the two sets of devices that no link leaves, or enters."""
    ahead = np.flatnonzero(reachable_vertices(graph, sources)).astype(np.int32)
    behind = np.flatnonzero(reachable_vertices(graph.reverse(), [target])).astype(np.int32)
    forward = len(ahead) <= len(behind)
    return UnreachableChunk(run, chunk, sources[0], target, ahead if forward else behind, forward)
