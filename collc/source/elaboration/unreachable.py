"""Whether paths lead every chunk to all NPUs that want it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.base.diagnostics import Note, SourceError, Span
from collc.graph.digraph import Digraph, reachable_vertices, strongly_connected
from collc.source.elaboration.topology_values import Topology
from collc.source.problems import fail
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network

Ends = tuple[tuple[int, ...], int]
"""NPUs that hold a chunk, and one that none of them reaches."""

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
    if _pair_without_path(graph, network.npus) is None:
        return None
    for number in _runs_between_components(demand, strongly_connected(graph)):
        run = demand.runs[number]
        chunk: int | None = None
        ends: Ends | None = None
        if run.standard is not None and run.standard.shape.without_root and len(run.group):
            ends = _pair_without_path(graph, run.group)
            if ends is None:
                continue
        if ends is None or len(run.pattern) <= MAX_LISTED:
            chunk, ends = _chunk_without_path(graph, demand, number)
            if ends is None:
                continue
        sources, target = ends
        ahead = np.flatnonzero(reachable_vertices(graph, sources)).astype(np.int32)
        behind = np.flatnonzero(reachable_vertices(graph.reverse(), [target])).astype(np.int32)
        forward = len(ahead) <= len(behind)
        return UnreachableChunk(number, chunk, sources[0], target, ahead if forward else behind, forward)
    return None


def _runs_between_components(demand: Demand, component: Int32Array) -> list[int]:
    """The runs whose chunks may have no path: but not of standard collectives inside of a component.

    component: int32[devices], the strongly connected component of each.
    """
    runs = demand.by_family
    numbers = [
        rows[
            (component[family.groups] != component[family.groups[:, :1]]).any(axis=1) | (family.first.standard is None)
        ]
        for family, rows in zip(runs.families, runs.numbers(), strict=True)
    ]
    return np.sort(np.concatenate(numbers)).tolist()


def _pair_without_path(graph: Digraph, group: Int32Array) -> Ends | None:
    """A member that does not reach another one, and that other one; None if all reach each other."""
    first = int(group[0])
    not_reached = group[~reachable_vertices(graph, [first])[group]]
    if len(not_reached):
        return (first,), int(not_reached[0])
    not_reaching = group[~reachable_vertices(graph.reverse(), [first])[group]]
    return ((int(not_reaching[0]),), first) if len(not_reaching) else None


def _chunk_without_path(graph: Digraph, demand: Demand, run: int) -> tuple[int | None, Ends | None]:
    """The first such chunk of a run, with its ends; None, None if there is none."""
    table = demand.runs[run].pattern.expand()
    known: dict[tuple[int, ...], BoolArray] = {}
    rows = zip(table.pre.tolist(), table.post.tolist(), (table.op != Op.COPY).tolist(), strict=True)
    tried: set[tuple[int, int, bool]] = set()
    for chunk, row in enumerate(rows):
        if row in tried:
            continue
        tried.add(row)
        pre, post, reduced = row
        holders = table.sets[pre].tolist()
        for sources in [(holder,) for holder in holders] if reduced else [tuple(holders)]:
            if sources not in known:
                known[sources] = reachable_vertices(graph, sources)
            missing = [target for target in table.sets[post].tolist() if not known[sources][target]]
            if missing and sources:
                return int(demand.first_chunk[run]) + chunk, (sources, missing[0])
    return None, None


def unreachable_error(problem: UnreachableChunk, topology: Topology, demand: Demand, span: Span) -> SourceError:
    """The error E0412 for a chunk without a path, at the run that has it."""
    network = topology.network
    source, target = network.shown_name(problem.source), network.shown_name(problem.target)
    names = [network.shown_name(int(d)) for d in problem.side[:8]]
    if len(problem.side) > 8:
        names.append(f"{len(problem.side) - 8} more")
    leads = "no link leads from {} to another device" if problem.forward else "no link leads from another device to {}"
    cut = leads.format(f"{{{', '.join(names)}}}")
    if len(names) == 1:
        cut = f"no link leaves {names[0]}" if problem.forward else f"no link leads to {names[0]}"
    what = f"the chunks of {source} can't get to {target}"
    if problem.chunk is not None:
        what = f"chunk {demand.chunk_name(problem.chunk).partition(':')[2]} can't get to {target} from {source}"
    message = f"{demand.runs[problem.run].collective} is impossible on '{topology.name}': {what}"
    return fail("E0412", message, span, Note(cut))
