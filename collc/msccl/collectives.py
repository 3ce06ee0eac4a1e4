"""Collectives as MSCCL knows them: their names, chunks per loop, buffers, and which buffers coincide in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.options import Profile
from collc.ten.demand import ChunkTable, Demand, Op, Run
from collc.ten.network import Network

_NAMES: Final[dict[str, tuple[str, str | None]]] = {
    "all_gather": ("allgather", "allgather"),
    "reduce_scatter": ("reducescatter", "reduce_scatter"),
    "all_reduce": ("allreduce", "allreduce"),
    "all_to_all": ("alltoall", "alltoall"),
    "broadcast": ("broadcast", "broadcast"),
    "reduce": ("reduce", "reduce"),
    "gather": ("gather", None),
    "scatter": ("scatter", None),
}
"""Name in the standard library -> name for the executor, and for the old runtime."""

_GATHERS: Final = {"all_gather", "gather"}
_SCATTERS: Final = {"reduce_scatter", "scatter"}
_ALIKE: Final = {"all_reduce", "broadcast", "reduce"}


@dataclass(frozen=True, slots=True)
class Collective:
    """What a file does.

    kind: name in the standard library, or "custom". coll: name in the file. block: chunks of one
    rank's part. chunks_per_loop: chunks of the buffer that the runtime counts. root: rank or -1.
    pads: whether every rank declares whole buffers, used or not, as the old runtime compares them.
    """

    kind: str
    coll: str
    ranks: int
    block: int
    chunks_per_loop: int
    root: int = -1
    op: Op = Op.COPY
    pads: bool = False

    @property
    def has_in_place(self) -> bool:
        """Whether there is a way to run it in place."""
        return self.kind != "custom"

    @property
    def unit(self) -> int:
        """Chunks in a row of which each instance can have a part in a row of its own, the same on all ranks.

        They lie in one order wherever they are: the chunks of a rank's part, or of the whole buffer where input
        and output are laid out alike; of a custom collective, only single chunks.
        """
        if self.kind == "custom":
            return 1
        return max(1, self.chunks_per_loop if self.kind in _ALIKE else self.block)

    def bases(self, rank: int) -> tuple[int, int]:
        """Where input and output of a rank begin in the memory that they share in place, in chunks.

        Equal for All-Reduce, All-to-All, broadcast and reduce; All-Gather and gather: the input is the
        rank's block of the output; Reduce-Scatter and scatter: the other way round. At ranks other
        than the root, where only one of the buffers is in use, it does not matter.
        """
        offset = rank * self.block
        return (offset if self.kind in _GATHERS else 0, offset if self.kind in _SCATTERS else 0)


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """The slots of the chunks: by rank, chunk number -> slot, in order of declaration."""

    inputs: tuple[dict[int, int], ...]
    outputs: tuple[dict[int, int], ...]


def ranks_of_sets(network: Network, chunks: ChunkTable) -> list[list[int]]:
    """The ranks of the members of each of the chunks' holder sets."""
    rank = np.full(network.npu_count, -1, np.int64)
    rank[network.npus] = np.arange(len(network.npus))
    found: list[list[int]] = []
    for number in range(len(chunks.sets)):
        members: list[int] = [int(npu) for npu in rank[chunks.sets[number]]]
        found.append(members)
    return found


def layout_of(network: Network, demand: Demand) -> BufferLayout:
    """Input slots for the chunks of each NPU's preconditions, output slots for those of its postconditions."""
    chunks = demand.chunks
    members = ranks_of_sets(network, chunks)
    inputs: list[dict[int, int]] = [{} for _ in network.npus]
    outputs: list[dict[int, int]] = [{} for _ in network.npus]
    for sets, slots in ((chunks.pre, inputs), (chunks.post, outputs)):
        for chunk, number in enumerate(sets):
            for rank in members[int(number)]:
                slots[rank][chunk] = len(slots[rank])
    return BufferLayout(tuple(inputs), tuple(outputs))


def chunk_bytes(demand: Demand) -> int:
    """The size that all chunks share.

    Raises SourceError M0104 where they differ: MSCCL cuts a buffer into equal parts.
    """
    sizes = np.unique(demand.chunks.size)
    if len(sizes) > 1:
        message = f"chunks of {len(sizes)} sizes ({sizes[0]} to {sizes[-1]} bytes) cannot be said in an MSCCL file"
        hint = "make all chunks equal"
        raise SourceError(Diagnostic("M0104", message, hint=hint))
    return int(sizes[0]) if len(sizes) else 0


def collective_of(network: Network, demand: Demand, layout: BufferLayout, profile: Profile) -> Collective:
    """What the demand is to MSCCL.

    Raises SourceError M0105 where it has no name there, M0106 where the ranks are not all NPUs in order.
    """
    ranks = len(network.npus)
    run = next(iter(demand.runs)) if len(demand.runs) == 1 else None
    named = _named(run, profile)
    if run is not None and named is not None and np.array_equal(run.group, network.npus):
        kind, coll = named
        block = run.standard.chunks if run.standard else 1
        total = len(run.pattern) // ranks if kind == "all_to_all" else len(run.pattern)
        per_loop = block if kind in {"gather", "scatter"} else total
        root = run.standard.root if run.standard else -1
        op = run.standard.op if run.standard else Op.COPY
        pads = profile is Profile.OLD and kind in {"broadcast", "reduce"}
        return Collective(kind, coll, ranks, block, per_loop, root, op, pads)
    if profile is Profile.OLD:
        op = _one_reduction(demand)
        largest = max((len(slots) for slots in (*layout.inputs, *layout.outputs)), default=0)
        return Collective("custom", "custom", ranks, largest, largest, op=op, pads=True)
    raise _unnamed(network, demand, named is not None)


def _one_reduction(demand: Demand) -> Op:
    """The reduction of a custom collective: the call names one for the whole buffer."""
    ops = [Op(op) for op in np.unique(demand.chunks.op).tolist() if op != Op.COPY]
    if len(ops) > 1:
        names = " and ".join(op.name.lower() for op in ops)
        message = f"a call of the runtime does one kind of reduction, and this schedule has {names}"
        raise SourceError(Diagnostic("M0105", message, hint="give each kind a schedule of its own"))
    return ops[0] if ops else Op.COPY


def _named(run: Run | None, profile: Profile) -> tuple[str, str] | None:
    if run is None or run.standard is None or run.standard.kind not in _NAMES:
        return None
    names = _NAMES[run.standard.kind]
    name = names[0] if profile is Profile.EXECUTOR else names[1]
    return None if name is None else (run.standard.kind, name)


def _unnamed(network: Network, demand: Demand, named: bool) -> SourceError:
    custom = "write 'emit msccl(profile: \"old\")' for a custom collective of the old runtime"
    if len(demand.runs) > 1:
        message = f"an MSCCL file does one collective, and this schedule has {len(demand.runs)} runs"
        return SourceError(
            Diagnostic("M0105", message, hint=f"give each run a schedule and a topology of its own, or {custom}")
        )
    if named:
        message = f"an MSCCL file needs all {len(network.npus)} NPUs of {network.name} in their order as its group"
        hint = f"run it over all NPUs, make a topology of the group alone, or {custom}"
        return SourceError(Diagnostic("M0106", message, hint=hint))
    message = f"'{next(iter(demand.runs)).collective}' is no collective that the MSCCL executor knows"
    hint = f"it knows {', '.join(_NAMES)}; or {custom}"
    return SourceError(Diagnostic("M0105", message, hint=hint))
