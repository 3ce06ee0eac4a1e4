"""Collectives of MSCCL: their names, `nchunksperloop`, buffers, and which memory is shared in place.

The rules are those of docs/msccl-contract.md, sections 2 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.options import Profile
from collc.ten.demand import ChunkTable, Demand, Op
from collc.ten.network import Network
from collc.ten.standard_collectives import shapes

_FILE_NAMES: Final[dict[str, tuple[str, str | None]]] = {
    "all_gather": ("allgather", "allgather"),
    "reduce_scatter": ("reducescatter", "reduce_scatter"),
    "all_reduce": ("allreduce", "allreduce"),
    "all_to_all": ("alltoall", "alltoall"),
    "broadcast": ("broadcast", "broadcast"),
    "reduce": ("reduce", "reduce"),
    "gather": ("gather", None),
    "scatter": ("scatter", None),
}
"""Name in the standard library -> names in files of the executor and RCCL, and of the old runtime; None: none."""


@dataclass(frozen=True, slots=True)
class Collective:
    """The collective that a file computes.

    kind: name in the standard library, or "custom". coll: name in the file. block: chunks of one rank's part.
    chunks_per_loop: chunks of the buffer that the runtime counts (`nchunksperloop` of one instance). root: rank, or
    -1 for none. pad_buffers: whether every rank declares whole buffers, used or not, since the old runtime compares
    their sizes.
    """

    kind: str
    coll: str
    ranks: int
    block: int
    chunks_per_loop: int
    root: int = -1
    op: Op = Op.COPY
    pad_buffers: bool = False

    @property
    def has_in_place(self) -> bool:
        """Whether it can run in place at all."""
        return self.kind != "custom"

    @property
    def ends(self) -> tuple[str, str]:
        """Who holds a block at the start and at the end; each member its own in a custom collective."""
        return (shapes()[self.kind].start, shapes()[self.kind].end) if self.has_in_place else ("sender", "receiver")

    @property
    def contiguous_chunks(self) -> int:
        """Number of neighbouring chunks that are neighbours, in the same order, in all buffers of all ranks.

        These are the chunks of a rank's part, or of the whole buffer if input and output have the same layout. In a
        custom collective only single chunks are. An instance can have a contiguous part of them (`repeat`).
        """
        if self.kind == "custom":
            return 1
        return max(1, self.chunks_per_loop if "block" not in self.ends and "sender" not in self.ends else self.block)

    def in_place_bases(self, rank: int) -> tuple[int, int]:
        """Offsets in chunks of the input and the output of a rank in the memory that they share in place.

        Both are 0 for All-Reduce, All-to-All, broadcast and reduce. For All-Gather and gather the input is the rank's
        block of the output, for Reduce-Scatter and scatter the output is the rank's block of the input. At ranks
        other than the root only one of the two buffers is used, so the offsets have no effect there.
        """
        offset, (start, end) = rank * self.block, self.ends
        return (offset if start == "block" else 0, offset if end == "block" else 0)


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """The slots of the chunks in the input and the output of each rank: by rank, chunk number -> offset."""

    inputs: tuple[dict[int, int], ...]
    outputs: tuple[dict[int, int], ...]


def ranks_of_sets(network: Network, chunks: ChunkTable) -> list[list[int]]:
    """For each holder set of the chunks, the ranks of its members."""
    rank = np.full(network.npu_count, -1, np.int64)
    rank[network.npus] = np.arange(len(network.npus))
    return [rank[chunks.sets[number]].tolist() for number in range(len(chunks.sets))]


def layout_of(network: Network, demand: Demand) -> BufferLayout:
    """The buffer layout of a demand.

    The input of each rank holds the chunks of its preconditions and the output those of its postconditions, in order
    of declaration.
    """
    chunks = demand.chunks
    members = ranks_of_sets(network, chunks)
    inputs: list[dict[int, int]] = [{} for _ in network.npus]
    outputs: list[dict[int, int]] = [{} for _ in network.npus]
    for sets, slots in ((chunks.pre, inputs), (chunks.post, outputs)):
        numbers: list[int] = sets.tolist()
        for chunk, number in enumerate(numbers):
            for rank in members[number]:
                slots[rank][chunk] = len(slots[rank])
    return BufferLayout(tuple(inputs), tuple(outputs))


def collective_of(
    network: Network, demand: Demand, layout: BufferLayout, profile: Profile, *, custom: bool = False
) -> Collective:
    """The collective of MSCCL that a demand is. custom: `custom`, also if it has a name.

    Raises SourceError M0105 if MSCCL has no name for it; ValueError for the executor if there are several runs, or one
    whose group is not all NPUs in order.
    """
    ranks = len(network.npus)
    run = next(iter(demand.runs)) if len(demand.runs) == 1 else None
    kind = run.standard.kind if run is not None and run.standard is not None and not custom else ""
    coll = _FILE_NAMES.get(kind, (None, None))[profile is Profile.OLD]
    if run is not None and coll is not None and np.array_equal(run.group, network.npus):
        block = run.standard.chunks if run.standard else 1
        total = len(run.pattern) // ranks if shapes()[kind].pairs else len(run.pattern)
        per_loop = block if kind in {"gather", "scatter"} else total
        root = run.standard.root if run.standard else -1
        op = run.standard.op if run.standard else Op.COPY
        pad_buffers = profile is Profile.OLD and kind in {"broadcast", "reduce"}
        return Collective(kind, coll, ranks, block, per_loop, root, op, pad_buffers)
    if profile is Profile.OLD:
        op = _one_reduction(demand)
        largest = max((len(slots) for slots in (*layout.inputs, *layout.outputs)), default=0)
        return Collective("custom", "custom", ranks, largest, largest, op=op, pad_buffers=True)
    if coll is not None or run is None:
        raise ValueError(f"{network.name} is not the communicator of one run: see communicators_of")
    runtime = {Profile.RCCL: "RCCL", Profile.RUN: "collc's own runtime"}.get(profile, "the MSCCL executor")
    message = f"'{run.collective}' is not a collective of {runtime}"
    hint = f"it has {', '.join(_FILE_NAMES)}; or write 'emit msccl(profile: \"old\")' for a custom collective"
    raise SourceError(Diagnostic("M0105", message, hint=hint))


def _one_reduction(demand: Demand) -> Op:
    """The operator of the reductions of a custom collective, COPY if there are none.

    Raises SourceError M0105 if there are several: a call of the runtime names one for the whole buffer.
    """
    ops = [Op(op) for op in np.unique(demand.chunks.op).tolist() if op != Op.COPY]
    if len(ops) > 1:
        names = " and ".join(op.name.lower() for op in ops)
        message = f"a call of the runtime has one reduction operator, and this schedule has {names}"
        raise SourceError(Diagnostic("M0105", message, hint="write a schedule for each operator"))
    return ops[0] if ops else Op.COPY
