"""The problem that link-chunk matching solves: which device wants which chunk, over which links.

A chunk is wanted by the NPUs of its postcondition and by the relays that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.synthesis.conditions import rates_required
from collc.synthesis.relays import Relays
from collc.synthesis.task import Task
from collc.synthesis.timeline import Timeline, link_timelines
from collc.ten.arrays import Int32Array, Int64Array, ranges
from collc.ten.demand import HolderSets
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel


@dataclass(frozen=True, eq=False)
class CopyProblem:
    """Chunks to copy over direct links. K chunks, numbered 0 .. K - 1 here.

    chunk: int32[K], their numbers in the demand. pre, want: int32[K], rows of `sets`: who holds a chunk at the start,
    and who must get it (holders may be among them).
    busy, total: int64[kinds, sizes], picoseconds that a transfer keeps its link busy, and until the chunk has arrived.
    size_of: int32[K], columns of these. release: int64[K], picoseconds before which holders do not have the chunk.
    reserved: by link, when it is busy with what is planned already.
    """

    network: Network
    model: LinkModel
    chunk: Int32Array
    pre: Int32Array
    want: Int32Array
    sets: HolderSets
    busy: Int64Array
    total: Int64Array
    size_of: Int32Array
    release: Int64Array
    reserved: dict[int, Timeline]

    @property
    def count(self) -> int:
        """Number of chunks."""
        return len(self.chunk)

    @property
    def devices(self) -> int:
        """Devices of the network, removed ones included."""
        return self.network.device_count

    @cached_property
    def uniform(self) -> bool:
        """Whether all transfers take equal time, no link is reserved and all holders have their chunks at once."""
        kinds = np.unique(self.network.kind)
        total, busy = self.total[kinds], self.busy[kinds]
        same = total.size > 0 and bool((total == total.flat[0]).all() and (busy == total.flat[0]).all())
        return same and not self.reserved and not self.release.any()

    @cached_property
    def step(self) -> int:
        """Picoseconds of each transfer if the problem is uniform."""
        return int(self.total[self.network.kind[0], 0])

    @cached_property
    def missing_count(self) -> int:
        """How many chunks the devices must get, summed over all devices; at least one transfer each."""
        pairs, count = np.unique(np.stack([self.pre, self.want]), axis=1, return_counts=True)
        lacking = (len(self.sets.difference(want, pre)) for pre, want in pairs.T.tolist())
        return sum(chunks * devices for chunks, devices in zip(count.tolist(), lacking, strict=True))

    @cached_property
    def initial_copies(self) -> tuple[Int32Array, Int32Array]:
        """Who holds what at the start: (device, chunk), ascending."""
        sizes = self.sets.sizes[self.pre]
        chunk = np.repeat(np.arange(self.count, dtype=np.int32), sizes)
        device = self.sets.members[ranges(self.sets.offsets[self.pre], self.sets.offsets[self.pre + 1])]
        order = np.lexsort((chunk, device))
        return device[order], chunk[order]


def copy_problem(task: Task, count: Callable[[int], None] = lambda _edges: None) -> CopyProblem:
    """The problem of a task, with the relays that it needs. count: as in Relays.

    Raises SourceError if a postcondition cannot be reached, the network has switches, or links have no bandwidth or
    latency.
    """
    network = task.network
    ends = max(int(network.source.max(initial=-1)), int(network.target.max(initial=-1)))
    if ends >= network.npu_count:
        message = f"tacos matches chunks to direct links, and {network.name} has switches"
        hint = "write 'on unwound(...)' to replace the switches by direct links, or 'synthesize pccl()'"
        raise SourceError(Diagnostic("S0301", message, hint=hint))
    with rates_required():
        clock = Clock.of(network, task.demand, task.model)
    chunk = task.chunks.astype(np.int32)
    columns, size_of = np.unique(clock.size_of[chunk], return_inverse=True)
    length = clock.total.max(axis=1, initial=0)[network.kind]
    want, sets = _wanted_sets(task, chunk, Relays(network, task.demand, Digraph.of(network), length, count))
    return CopyProblem(
        network=network,
        model=task.model,
        chunk=chunk,
        pre=task.demand.chunks.pre[chunk],
        want=want,
        sets=sets,
        busy=clock.busy[:, columns],
        total=clock.total[:, columns],
        size_of=size_of.astype(np.int32).reshape(-1),
        release=np.zeros(len(chunk), np.int64) if task.release is None else task.release[chunk],
        reserved=link_timelines(task.reserved, clock),
    )


def _wanted_sets(task: Task, chunk: Int32Array, relays: Relays) -> tuple[Int32Array, HolderSets]:
    """`want` and `sets` of a CopyProblem."""
    table = task.demand.chunks
    sets: list[Int32Array] = [table.sets[number] for number in range(len(table.sets))]
    number_of: dict[tuple[int, int], int] = {}
    want = table.post[chunk].copy()
    for row, pair in enumerate(zip(table.pre[chunk].tolist(), want.tolist(), strict=True)):
        if pair not in number_of:
            number_of[pair] = pair[1]
            if relaying := relays.of(int(chunk[row])):
                number_of[pair] = len(sets)
                wanting: list[int] = table.sets[pair[1]].tolist()
                sets.append(np.array(sorted({*wanting, *relaying}), np.int32))
        want[row] = number_of[pair]
    if len(sets) == len(table.sets):
        return want, table.sets
    return want, HolderSets(np.cumsum([0, *map(len, sets)]), np.concatenate(sets))
