"""Whether the traces of a collective leave the right data on every rank.

The names of nodes say which chunk they carry (`traces.py`), and their data dependencies where it comes from: a send
carries what its rank holds at first, and what the nodes of the same chunk that it depends on have brought. A relay
carries only what the last receive from a rank has brought, and a receive with `keep` brings nothing to anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from collc.base.diagnostics import Diagnostic, Note
from collc.base.wording import SHOWN
from collc.chakra.messages import nodes_in_order
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces, chunk_in, is_kept, origin_in
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network


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
    """The contributions that each node carries, as bit sets of ranks; of a copied chunk 1 for the chunk itself.

    chunks: of each node. before: by node, the nodes that it depends on. ranks: of each node. sender: of each receive.
    """

    traces: Traces
    chunks: list[str]
    wanted: Mapping[str, Wanted]
    before: list[list[int]]
    ranks: list[int]
    sender: dict[int, int]
    value: list[int]
    errors: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def complete_value(self, chunk: str) -> int:
        """The value of a complete chunk."""
        wanted = self.wanted[chunk]
        return wanted.pre if wanted.reduction else 1

    def combined_value(self, chunk: str, rank: int, nodes: list[int], last: int) -> int:
        """What a rank holds of a chunk after some nodes. A complete value replaces, partials are added.

        last: the node to which errors belong.
        """
        wanted, kind = self.wanted[chunk], self.traces.kind
        held = wanted.pre >> rank & 1
        if any(self.value[node] == self.complete_value(chunk) and kind[node] != NodeType.COMP for node in nodes):
            return self.complete_value(chunk)
        if not wanted.reduction:
            return max([held, *(self.value[node] for node in nodes)])
        value = held << rank
        stored = [node for node in nodes if kind[node] != NodeType.COMP]
        if len(stored) + held > 1:
            what = f"it replaces the partial of chunk {chunk} that rank {rank} holds; nothing adds them"
            self.add_error(stored[-1], what)
        for node in nodes:
            twice = value & self.value[node]
            if twice:
                self.add_error(last, f"the contribution of rank {twice.bit_length() - 1} to chunk {chunk} occurs twice")
            value |= self.value[node]
        return value

    def add_error(self, node: int, what: str) -> None:
        """Note an error at a node."""
        if len(self.errors) < SHOWN:
            self.errors.append(Diagnostic("X0512", f"{self.traces.label(node)}: {what}"))

    def execute(self, node: int) -> None:
        """Find the value of a node from those of the nodes that it depends on."""
        traces, value, chunk, rank = self.traces, self.value, self.chunks[node], self.ranks[node]
        kind = traces.kind
        come = [other for other in self.before[node] if self.chunks[other] == chunk and kind[other] != NodeType.SEND]
        producers = [other for other in come if not is_kept(traces.names[other])]
        origin = origin_in(traces.names[node])
        if kind[node] == NodeType.RECV:
            sender = self.sender[node]
            if self.chunks[sender] != chunk:
                self.add_error(node, f"chunk {self.chunks[sender]} arrives, not {chunk}")
            value[node] = value[sender]
        elif kind[node] == NodeType.SEND:
            if origin >= 0:
                relayed = (k for k in come if kind[k] == NodeType.RECV and self.ranks[self.sender[k]] == origin)
                last = max(relayed, default=-1)
                value[node] = value[last] if last >= 0 else 0
            else:
                value[node] = self.combined_value(chunk, rank, producers, node)
            if not value[node]:
                self.add_error(node, f"rank {rank} does not hold chunk {chunk} when it sends it")
        elif len(producers) == 1:
            value[node] = value[producers[0]]
        else:
            self.add_error(node, f"it reduces {len(producers)} receives of chunk {chunk}, not one")

    def check_ends(self) -> None:
        """Every rank holds what it must hold when all nodes are done."""
        traces, chunks = self.traces, self.chunks
        reduced = {
            other
            for node in np.flatnonzero(traces.kind == NodeType.COMP).tolist()
            for other in self.before[node]
            if chunks[node] == chunks[other]
        }
        arrived: dict[tuple[str, int], list[int]] = {}
        for node in np.flatnonzero(traces.kind != NodeType.SEND).tolist():
            if chunks[node] and node not in reduced and not is_kept(traces.names[node]):
                arrived.setdefault((chunks[node], self.ranks[node]), []).append(node)
        for chunk, wanted in self.wanted.items():
            for rank in (rank for rank in range(wanted.post.bit_length()) if wanted.post >> rank & 1):
                nodes = arrived.get((chunk, rank), [])
                last = nodes[-1] if nodes else int(traces.first[rank])
                missing = self.complete_value(chunk) & ~self.combined_value(chunk, rank, nodes, last)
                if missing and len(self.errors) < SHOWN:
                    of = f" the contribution of rank {missing.bit_length() - 1} to" if wanted.reduction else ""
                    message = f"{traces.prefix}: rank {rank} ends without{of} chunk {chunk}"
                    self.errors.append(Diagnostic("X0512", message, notes=(Note("it must hold it at the end"),)))


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
    before: list[list[int]] = [[] for _ in range(len(traces))]
    pairs: list[list[int]] = np.stack([traces.before, traces.after], axis=1).tolist()
    for first, second in pairs:
        before[second].append(first)
    ranks: list[int] = np.repeat(np.arange(traces.ranks), np.diff(traces.first)).tolist()
    sender = dict(zip(receives.tolist(), sends.tolist(), strict=True))
    values = _Values(traces, chunks, wanted, before, ranks, sender, [0] * len(traces))
    for node in nodes_in_order(traces, sends, receives):
        if chunks[node]:
            values.execute(node)
    values.check_ends()
    return values.errors
