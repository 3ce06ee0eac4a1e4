"""Millions of equal chunks of a custom collective, planned as few large ones, and sent one after another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array, ranges, unique_rows
from collc.ten.bundled_schedule import BundledSchedule
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, eq=False)
class Bundles:
    """The bundles of a demand: chunks of one size, with the same holders before and after.

    module: as given, with a chunk for each bundle, which has the name of its first chunk. size: int64[bundles], bytes
    of each of its chunks. first, chunks: as in `BundledSchedule`.
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
        of_kind, position = np.repeat(np.arange(len(kinds)), bundles), ranges(np.zeros_like(bundles), bundles)
        first = (np.cumsum(number) - number)[of_kind] + position * number[of_kind] // bundles[of_kind]
        leader, number = chunks[first], np.diff(first, append=len(table))
        size = table.size[leader]
        needed = network.occupancy(size) * number
        for whole in (size * number, (size + 1) * number):  # as long on every link as the chunks one after another
            if (network.occupancy(whole) >= needed).all() and (needed > 0).all():
                ends = {"pre": table.pre[leader], "post": table.post[leader], "op": table.op[leader]}
                names = {"family": table.family[leader], "index": table.index[leader]}
                demand = Demand((replace(run, pattern=replace(table, size=whole, **ends, **names)),))
                return Bundles(replace(module, demand=demand), size, np.append(first, len(table)), chunks)
        return None

    def unpack(self, built: Module, demand: Demand) -> Module:
        """The module with a schedule of the chunks. built: `module` with a schedule. demand: of the chunks."""
        assert built.schedule is not None
        rows, network = built.schedule.transfers, built.network
        sizes, column = np.unique(self.size, return_inverse=True)
        distance = network.occupancy(sizes)[network.kind[rows.link], column.reshape(-1)[rows.chunk]]
        schedule = BundledSchedule(built.schedule.model, rows, distance, self.first, self.chunks)
        return replace(built, demand=demand, schedule=schedule)
