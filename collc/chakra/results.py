"""Whether the traces of a collective leave the right data on every rank.

The names of nodes say which chunk they carry (`traces.py`), and their data dependencies where it comes from: a send
carries what its rank holds at first, and what the nodes of the same chunk that it depends on have brought. A relay
carries only what the last receive from a rank has brought, and a receive with `keep` brings nothing to anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from collc.base.diagnostics import Diagnostic, Note
from collc.chakra.messages import nodes_in_order
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces, chunk_in, is_kept, origin_in
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network

MOST_ERRORS = 20
"""Messages about one set of traces."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A chunk: ranks that hold it at first, and that must hold it at the end (bit sets); whether it is a reduction."""

    pre: int
    post: int
    reduction: bool


def wanted_by(demand: Demand, network: Network) -> dict[str, Wanted]:
    """The chunks of a demand, by name."""
    table = demand.chunks
    rank_of = {int(npu): rank for rank, npu in enumerate(network.npus)}
    sets = [sum(1 << rank_of[int(npu)] for npu in table.sets[number]) for number in range(len(table.sets))]
    return {
        demand.chunk_name(chunk): Wanted(
            sets[int(table.pre[chunk])], sets[int(table.post[chunk])], bool(table.op[chunk] != Op.COPY)
        )
        for chunk in range(len(table))
    }


def node_chunks(traces: Traces) -> list[str] | None:
    """The chunk of each node, "" for compute that reduces nothing; None if names do not say it."""
    chunks = [chunk_in(name, kind) for name, kind in zip(traces.names, traces.kind.tolist(), strict=True)]
    for chunk, kind in zip(chunks, traces.kind.tolist(), strict=True):
        if chunk is None and kind != NodeType.COMP:
            return None
    return [chunk or "" for chunk in chunks]


@dataclass
class _Values:
    """The contributions that each node carries, as bit sets of ranks; of a copied chunk 1 for the chunk itself."""

    traces: Traces
    chunks: list[str]
    wanted: Mapping[str, Wanted]
    value: list[int] = field(default_factory=list[int])
    errors: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def full(self, chunk: str) -> int:
        """The value of a complete chunk."""
        wanted = self.wanted[chunk]
        return wanted.pre if wanted.reduction else 1

    def held_value(self, chunk: str, rank: int) -> int:
        """The value that a rank has at first."""
        wanted = self.wanted[chunk]
        mine = wanted.pre >> rank & 1
        return mine << rank if wanted.reduction else mine

    def combined_value(self, chunk: str, rank: int, nodes: list[int], at: int) -> int:
        """What a rank holds of a chunk after some nodes. A complete value replaces, partials are added."""
        full, value = self.full(chunk), self.held_value(chunk, rank)
        kind = self.traces.kind
        if any(self.value[node] == full and kind[node] != NodeType.COMP for node in nodes):
            return full
        if not self.wanted[chunk].reduction:
            return max([value, *(self.value[node] for node in nodes)])
        stored = [node for node in nodes if kind[node] != NodeType.COMP]
        if len(stored) + (value != 0) > 1:
            self.add_error(
                stored[-1], f"it replaces the partial of chunk {chunk} that rank {rank} holds; nothing adds them"
            )
        for node in nodes:
            twice = value & self.value[node]
            if twice:
                self.add_error(at, f"the contribution of rank {twice.bit_length() - 1} to chunk {chunk} occurs twice")
            value |= self.value[node]
        return value

    def add_error(self, node: int, what: str) -> None:
        """Note an error at a node."""
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(Diagnostic("X0512", f"{self.traces.label(node)}: {what}"))


def result_errors(
    traces: Traces, sends: Int32Array, receives: Int32Array, chunks: list[str], wanted: Mapping[str, Wanted]
) -> list[Diagnostic]:
    """What is wrong with the data that the traces leave (X0512); [] if every rank ends with what it must hold.

    sends, receives: int32[messages], as `matched_messages` gives them; the traces have no cycle.
    chunks: of every node. wanted: all chunks.
    """
    unknown = next((node for node, chunk in enumerate(chunks) if chunk and chunk not in wanted), None)
    if unknown is not None:
        return [Diagnostic("X0512", f"{traces.label(unknown)}: the collective has no chunk {chunks[unknown]}")]
    values = _Values(traces, chunks, wanted, [0] * len(traces))
    sender = dict(zip(receives.tolist(), sends.tolist(), strict=True))
    before = _dependencies(traces)
    ranks = np.repeat(np.arange(traces.ranks), np.diff(traces.first)).tolist()
    for node in nodes_in_order(traces, sends, receives):
        chunk, kind = chunks[node], traces.kind[node]
        if not chunk:
            continue
        come = [other for other in before[node] if chunks[other] == chunk and traces.kind[other] != NodeType.SEND]
        producers = [other for other in come if not is_kept(traces.names[other])]
        origin = origin_in(traces.names[node])
        if kind == NodeType.SEND:
            if origin >= 0:
                relayed = (k for k in come if traces.kind[k] == NodeType.RECV and ranks[sender[k]] == origin)
                last = max(relayed, default=-1)
                values.value[node] = values.value[last] if last >= 0 else 0
            else:
                values.value[node] = values.combined_value(chunk, ranks[node], producers, node)
            if not values.value[node]:
                values.add_error(node, f"rank {ranks[node]} does not hold chunk {chunk} when it sends it")
        elif kind == NodeType.RECV:
            if chunks[sender[node]] != chunk:
                values.add_error(node, f"chunk {chunks[sender[node]]} arrives, not {chunk}")
            values.value[node] = values.value[sender[node]]
        elif len(producers) == 1:
            values.value[node] = values.value[producers[0]]
        else:
            values.add_error(node, f"it reduces {len(producers)} receives of chunk {chunk}, not one")
    _check_ends(values, ranks, before)
    return values.errors


def _check_ends(values: _Values, ranks: list[int], before: list[list[int]]) -> None:
    """Every rank holds what it must hold when all nodes are done."""
    traces = values.traces
    reduced = {
        other
        for node in np.flatnonzero(traces.kind == NodeType.COMP).tolist()
        for other in before[node]
        if values.chunks[node] == values.chunks[other]
    }
    arrived: dict[tuple[str, int], list[int]] = {}
    for node in np.flatnonzero(traces.kind != NodeType.SEND).tolist():
        if values.chunks[node] and node not in reduced and not is_kept(traces.names[node]):
            arrived.setdefault((values.chunks[node], ranks[node]), []).append(node)
    for chunk, wanted in values.wanted.items():
        for rank in _ranks(wanted.post):
            nodes = arrived.get((chunk, rank), [])
            last = nodes[-1] if nodes else int(traces.first[rank])
            missing = values.full(chunk) & ~values.combined_value(chunk, rank, nodes, last)
            if missing:
                of = f" the contribution of rank {missing.bit_length() - 1} to" if wanted.reduction else ""
                message = f"{traces.prefix}: rank {rank} ends without{of} chunk {chunk}"
                if len(values.errors) < MOST_ERRORS:
                    values.errors.append(Diagnostic("X0512", message, notes=(Note("it must hold it at the end"),)))


def _ranks(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _dependencies(traces: Traces) -> list[list[int]]:
    """By node, the nodes that it depends on."""
    found: list[list[int]] = [[] for _ in range(len(traces))]
    pairs: list[list[int]] = np.stack([traces.before, traces.after], axis=1).tolist()
    for before, after in pairs:
        found[after].append(before)
    return found
