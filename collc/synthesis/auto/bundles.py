"""Millions of equal chunks of a custom collective, planned as few large ones, and sent one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array, unique_rows
from collc.ten.bundled_schedule import BundledSchedule
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, Op, Run
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, eq=False)
class Bundles:
    """The bundles of a demand: chunks of one size, with the same holders before and after.

    module: as given, with a chunk for each bundle. size: int64[bundles], bytes of each of its chunks. first, chunks: as
    in `BundledSchedule`.
    """

    module: Module
    size: Int64Array
    first: Int64Array
    chunks: Int32Array

    @staticmethod
    def of(module: Module, least: int, most: int) -> Bundles | None:
        """At most `most` bundles, as many for all kinds of chunks; None for fewer than `least` chunks, and if what is
        right for a bundle need not be right for its chunks.
        """
        network, run = module.network, module.demand.runs[0]
        limited = network.has_endpoints or network.has_limited_buffers or bool(network.reduces.any())
        if len(module.demand.runs) > 1 or run.standard is not None or len(run.pattern) < least or limited:
            return None
        table = module.demand.chunks
        if module.model is not LinkModel.PIPELINED or module.schedule is not None or (table.op != Op.COPY).any():
            return None
        kinds, kind = unique_rows([table.size, table.pre, table.post])
        if len(kinds) > most:
            return None
        chunks, number = np.argsort(kind, kind="stable").astype(np.int32), np.bincount(kind)
        bundles = np.minimum(number, most // len(kinds))
        last = np.cumsum(bundles)
        of_kind = np.repeat(np.arange(len(kinds)), bundles)
        position = np.arange(len(of_kind)) - (last - bundles)[of_kind]
        first = (np.cumsum(number) - number)[of_kind] + position * number[of_kind] // bundles[of_kind]
        first = np.append(first, len(table))
        size, pre, post = kinds[of_kind].T
        whole = _whole_sizes(network, size, np.diff(first))
        return None if whole is None else Bundles(_module_of(module, run, whole, pre, post), size, first, chunks)

    def unpack(self, built: Module, demand: Demand) -> Module:
        """The module with a schedule of the chunks. built: `module` with a schedule. demand: of the chunks."""
        assert built.schedule is not None
        rows, network = built.schedule.transfers, built.network
        sizes, column = np.unique(self.size, return_inverse=True)
        distance = network.occupancy(sizes)[network.kind[rows.link], column.reshape(-1)[rows.chunk]]
        schedule = BundledSchedule(built.schedule.model, rows, distance, self.first, self.chunks)
        return replace(built, demand=demand, schedule=schedule)


def _whole_sizes(network: Network, size: Int64Array, number: Int64Array) -> Int64Array | None:
    """int64[bundles]: bytes that occupy every link at least as long as the chunks one after another, at most a byte
    more for each; None if there are no such.
    """
    rows, row = unique_rows([size, number])
    size, number = rows.T
    needed = network.occupancy(size) * number
    for whole in (size * number, (size + 1) * number):
        if (network.occupancy(whole) >= needed).all() and (needed > 0).all():
            return whole[row]
    return None


def _module_of(module: Module, run: Run, size: Int64Array, pre: Int64Array, post: Int64Array) -> Module:
    """The module with a chunk of each size, from one holder set to another."""
    count = len(size)
    table = ChunkTable(
        size=size,
        pre=pre.astype(np.int32),
        post=post.astype(np.int32),
        op=np.full(count, Op.COPY, np.int8),
        family=np.zeros(count, np.int32),
        index=np.arange(count, dtype=np.int32)[:, None],
        families=(ChunkFamily("bundle", 1),),
        sets=module.demand.chunks.sets,
    )
    return replace(module, demand=Demand((replace(run, pattern=table),)))
