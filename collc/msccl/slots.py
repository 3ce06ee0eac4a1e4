"""Chunks of several sizes, cut to a common slot: a file divides every buffer into equal parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.wording import plural
from collc.msccl.limits import LAST_OFFSET, MOST_CHUNKS
from collc.msccl.options import MscclOptions
from collc.msccl.program import Message
from collc.ten.arrays import Int64Array
from collc.ten.demand import ChunkTable, Demand, Run
from collc.ten.module import Module

_MOST_MESSAGES: Final = 20_000
"""Messages of cut chunks above which those of a file have several slots each."""


def slot_bytes(demand: Demand) -> int:
    """The bytes of a slot: the greatest common divisor of the sizes of all chunks; 0 without chunks."""
    sizes = demand.chunks.size
    return int(np.gcd.reduce(sizes)) if len(sizes) else 0


def with_common_slots(module: Module, options: MscclOptions) -> Demand:
    """The demand of an All-Reduce with blocks of almost equal sizes, so that a power of two of slots fills the buffer.

    A runtime serves calls whose elements are a multiple of the slots, and usual sizes are powers of two: of 31 equal
    blocks none is served, of 512 slots, 16 or 17 for each block, all are. There are as few slots as keep the largest
    block within 3 % of an equal one, each of the bytes that hold the buffer. The demand itself if it is another
    collective or a custom one in the file, since only some NPUs take part or `options` say so, if it has a power of two
    of equal blocks, or if it would have more slots than steps can reach.
    """
    demand = module.demand
    sizes = demand.chunks.size
    count = len(sizes)
    is_custom = options.custom or len(demand.runs) != 1 or not np.array_equal(demand.runs[0].group, module.network.npus)
    if is_custom or not _is_all_reduce(demand.runs[0]) or not count & (count - 1) or len(np.unique(sizes)) > 1:
        return demand
    slots = 1 << count.bit_length()
    while 100 * count * -(-slots // count) > 103 * slots:
        slots *= 2
    if slots * options.instances > LAST_OFFSET + 1:
        return demand
    edges = np.arange(count + 1, dtype=np.int64) * slots // count
    (run,) = demand.runs
    size = np.diff(edges) * -(-int(sizes.sum()) // slots)
    return Demand((replace(run, pattern=replace(run.pattern.expand(), size=size)),))


def buffer_bytes(demand: Demand, parts: int) -> int:
    """The bytes of the buffer of a file. parts: chunks of the file, of one instance."""
    if len(demand.runs) == 1 and _is_all_reduce(demand.runs[0]):
        return int(demand.chunks.size.sum())
    return parts * slot_bytes(demand)


def cut_to_slots(demand: Demand) -> Demand:
    """The demand with every chunk cut into slots, which are neighbours; the demand itself if all chunks are equal.

    Raises SourceError M0104 if a rank's buffer would have more slots than steps can reach.
    """
    parts = _slots_of_chunks(demand)
    if int(parts.max(initial=0)) <= 1:
        return demand
    slot, longest = slot_bytes(demand), _longest_buffer(demand, parts)
    if longest > LAST_OFFSET + 1:
        sizes = np.unique(demand.chunks.size)
        message = (
            f"chunks of {len(sizes)} sizes ({sizes[0]} to {sizes[-1]} bytes) have slots of {plural(slot, 'byte')} in "
            f"common: a buffer has {longest} of them, more than the {LAST_OFFSET + 1} that a file can address"
        )
        raise SourceError(Diagnostic("M0104", message, hint="use sizes with a larger common divisor"))
    first = demand.first_chunk
    runs = [
        replace(run, pattern=_cut_table(table, parts[first[k] : first[k + 1]], slot))
        for k, (run, table) in enumerate(zip(demand.runs, demand.tables, strict=True))
    ]  # an All-Reduce stays one, however its buffer is cut
    return Demand(tuple(run if _is_all_reduce(run) else replace(run, standard=None) for run in runs))


def _is_all_reduce(run: Run) -> bool:
    return run.standard is not None and run.standard.kind == "all_reduce"


def cut_messages(messages: list[Message], demand: Demand, most: int = 1) -> list[Message]:
    """Messages of up to `most` neighbouring slots for each chunk, at the times of the chunk.

    demand: as it was before the cut.
    """
    parts = _slots_of_chunks(demand)
    if int(parts.max(initial=0)) <= 1:
        return messages
    first = np.concatenate([[0], np.cumsum(parts)]).tolist()
    return [
        replace(message, chunk=slot, count=min(most, first[message.chunk + 1] - slot))
        for message in messages
        for slot in range(first[message.chunk], first[message.chunk + 1], most)
    ]


def slots_together(messages: list[Message], demand: Demand) -> int:
    """How many slots messages should have so that there are not too many: 1, or else several that fill a step."""
    parts = _slots_of_chunks(demand)
    of_message = parts[[message.chunk for message in messages]]
    sizes = (MOST_CHUNKS // number for number in (MOST_CHUNKS, 10, 5, 2, 1))
    return next((size for size in sizes if int((-(-of_message // size)).sum()) <= _MOST_MESSAGES), MOST_CHUNKS)


def _slots_of_chunks(demand: Demand) -> Int64Array:
    """int64[chunks]: the number of slots of each chunk."""
    return demand.chunks.size // max(1, slot_bytes(demand))


def _longest_buffer(demand: Demand, parts: Int64Array) -> int:
    """Slots of the longest input or output of any NPU."""
    chunks, longest = demand.chunks, 0
    for conditions in (chunks.pre, chunks.post):
        of_set = np.bincount(conditions, parts, len(chunks.sets))
        of_npu = np.bincount(chunks.sets.members, np.repeat(of_set, chunks.sets.sizes))
        longest = max(longest, int(of_npu.max(initial=0)))
    return longest


def _cut_table(table: ChunkTable, parts: Int64Array, slot: int) -> ChunkTable:
    rows = np.repeat(np.arange(len(table)), parts)
    return replace(
        table,
        size=np.full(len(rows), slot, np.int64),
        pre=table.pre[rows],
        post=table.post[rows],
        op=table.op[rows],
        family=table.family[rows],
        index=table.index[rows],
    )
