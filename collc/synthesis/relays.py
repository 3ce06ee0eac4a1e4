"""The devices that must pass a chunk on though they do not want it, so that it reaches all that want it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph, strongly_connected
from collc.graph.paths import Edge, nearest_path
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network


class Relays:
    """The relays of each chunk of a demand, on a graph of the devices of a network.

    From the holders of a chunk on, every device that wants it and is next to a reached one is reached. If this ends
    too early, the shortest path to a device that wants the chunk is added (the Steiner tree heuristic of Takahashi and
    Matsuyama). Each chunk that a device relays makes the edges into it longer by 1/16 of their length.
    """

    def __init__(
        self,
        network: Network,
        demand: Demand,
        graph: Digraph,
        length: Int64Array,
        count: Callable[[int], None] = lambda _edges: None,
    ) -> None:
        """length: int64[edges], picoseconds. count: called with how many edges a search has looked at; it may raise."""
        self._count = count
        self._network, self._demand, self._graph, self._length = network, demand, graph, length
        self._known: dict[tuple[int, int], list[int]] = {}
        self._connected: dict[int, bool] = {}
        self._loads = [0] * graph.vertex_count

    def of(self, chunk: int) -> list[int]:
        """The relays of a chunk, ascending. Raises SourceError S0103 if no path leads to a device that wants it."""
        table = self._demand.chunks
        key = pre, post = int(table.pre[chunk]), int(table.post[chunk])
        if key not in self._known:
            holders, wanting = table.sets[pre], table.sets[post]
            if post not in self._connected:
                self._connected[post] = self._are_connected(wanting)
            ends = holders.tolist(), wanting.tolist()
            is_inside = self._connected[post] and not set(ends[0]).isdisjoint(ends[1])
            self._known[key] = [] if is_inside else self._on_paths(*ends, chunk)
        return self._known[key]

    def _are_connected(self, members: Int32Array) -> bool:
        """Whether every member reaches every other one over edges between members."""
        inside = np.zeros(self._graph.vertex_count, np.bool_)
        inside[members] = True
        graph = self._graph.with_edges(inside[self._graph.source] & inside[self._graph.target])
        component = strongly_connected(graph)[members]
        return bool((component == component[:1]).all())

    def _on_paths(self, holders: list[int], wanting: list[int], chunk: int) -> list[int]:
        tree, missing, relays = set(holders), set(wanting) - set(holders), set[int]()
        front: list[int] = [*holders]
        while missing:
            while front:
                near = set[int]().union(*(self._next_to[device] & missing for device in front))
                missing -= near
                tree |= near
                front = sorted(near)
            if missing:
                looked_at = len(tree)

                def out_edges(device: int) -> list[Edge]:
                    nonlocal looked_at
                    looked_at += len(self._edges[device])
                    return self._edges[device]

                path = nearest_path(out_edges, tree, missing)
                self._count(looked_at)
                if path is None:
                    raise self._no_path_error(min(missing), chunk)
                relays |= set(path[1:-1])
                tree.update(path)
                missing.discard(path[-1])
                front = path
        for device in relays:
            self._load(device)
        return sorted(relays)

    def _load(self, device: int) -> None:
        """Counts a chunk that a device relays."""
        self._loads[device] += 1
        for edges, position in self._edges_into[device]:
            edge = edges[position][2]
            edges[position] = device, int(self._length[edge]) * (16 + self._loads[device]) // 16, edge

    @cached_property
    def _edges(self) -> list[list[Edge]]:
        """For each device the edges out of it, with their lengths for the next chunk."""
        edges: list[list[Edge]] = [[] for _ in range(self._graph.vertex_count)]
        sources: list[int] = self._graph.source.tolist()
        ends = zip(sources, self._graph.target.tolist(), self._length.tolist(), strict=True)
        for edge, (source, target, length) in enumerate(ends):
            edges[source].append((target, length, edge))
        return edges

    @cached_property
    def _next_to(self) -> list[set[int]]:
        """For each device those to which edges lead."""
        return [{target for target, _, _ in edges} for edges in self._edges]

    @cached_property
    def _edges_into(self) -> list[list[tuple[list[Edge], int]]]:
        """For each device the lists of edges in which edges into it are, and their positions there."""
        into: list[list[tuple[list[Edge], int]]] = [[] for _ in self._edges]
        for edges in self._edges:
            for position, (target, _, _) in enumerate(edges):
                into[target].append((edges, position))
        return into

    def _no_path_error(self, device: int, chunk: int) -> SourceError:
        name, chunk_name = self._network.shown_name(device), self._demand.chunk_name(chunk)
        message = f"no path of links leads to {name}, which must receive chunk {chunk_name}"
        return SourceError(Diagnostic("S0103", message, hint="add links, or leave the NPU out of the group"))
