"""When links carry what: from a schedule, or from a simulation of any file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from collc.simulation.engine import Simulation
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import MOST_LISTED, Clock


@dataclass(frozen=True, eq=False)
class LinkUse:
    """What is on the links of a network, one row for each time that a link is occupied, in order of begin.

    link: int32. begin, free, arrive: int64, picoseconds at which a chunk or message enters the link, at which the link
    is free again, and at which it has arrived. size: int64, bytes. item: int32, the number of the chunk or message.
    item_name: its name. owner: int32, the NPU that decides the colour. owners: what these are, in words. reduce, kept:
    bool, whether what arrives is added, or only kept apart. time: picoseconds of all. holders: the NPUs that hold an
    item at the start; None if that is not known.
    """

    network: Network
    link: Int32Array
    begin: Int64Array
    free: Int64Array
    arrive: Int64Array
    size: Int64Array
    item: Int32Array
    item_name: Callable[[int], str]
    owner: Int32Array
    owners: str
    reduce: BoolArray
    kept: BoolArray
    time: int
    holders: Callable[[int], Int32Array] | None = None

    def __len__(self) -> int:
        return len(self.link)

    def name(self, row: int) -> str:
        """The name of what a row carries."""
        return self.item_name(int(self.item[row]))

    def effect(self, row: int) -> str:
        """What the receiver does with what arrives, for the end of a phrase; empty if it is a copy."""
        return " (added to what the target holds)" if self.reduce[row] else " (kept apart)" if self.kept[row] else ""

    @cached_property
    def bytes_per_link(self) -> Int64Array:
        """int64[links]."""
        return self._sum_per_link(self.size)

    @cached_property
    def busy_per_link(self) -> Int64Array:
        """int64[links], picoseconds."""
        return self._sum_per_link(self.free - self.begin)

    def _sum_per_link(self, values: Int64Array) -> Int64Array:
        sums = np.zeros(self.network.link_count, np.int64)
        np.add.at(sums, self.link, values)
        return sums

    def utilisation(self, spans: int) -> NDArray[np.float64]:
        """float64[spans]: the mean share of all links that is occupied in each of equal parts of the time."""
        if not len(self) or not self.time:
            return np.zeros(0)
        ends = self.time * np.arange(spans + 1) / spans
        occupied = [float(np.clip(end - self.begin, 0, self.free - self.begin).sum()) for end in ends]
        return np.diff(occupied) * spans / (self.time * self.network.link_count)


def use_of_schedule(module: Module) -> LinkUse:
    """The transfers of a schedule, at its times, without transfers of links or chunks that do not exist.

    Raises ValueError if there is no schedule or links have no bandwidth.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    network, demand = module.network, module.demand
    rows = module.schedule.transfers
    known = (rows.link >= 0) & (rows.link < network.link_count) & (rows.chunk >= 0)
    rows = rows.select(known & (rows.chunk < len(demand.chunks)))
    clock = Clock.of(network, demand, module.schedule.model)
    arrive = rows.start + clock.total_of(rows)
    return LinkUse(
        network=network,
        link=rows.link,
        begin=rows.start,
        free=rows.start + clock.busy_of(rows),
        arrive=arrive,
        size=demand.chunks.size[rows.chunk],
        item=rows.chunk,
        item_name=demand.chunk_name,
        owner=_owners(demand)[rows.chunk],
        owners="where a sum ends" if bool(rows.reduce.any()) else "where a chunk begins",
        reduce=rows.adds,
        kept=rows.keeps,
        time=int(arrive.max(initial=0)),
        holders=lambda chunk: demand.chunks.sets[int(demand.chunks.pre[chunk])],
    )


def drawn_use(module: Module) -> tuple[LinkUse | None, str]:
    """The transfers of a schedule and ""; or None and why they cannot be drawn, in words."""
    if module.schedule is None:
        return None, "there is no schedule"
    if len(module.schedule) > MOST_LISTED:
        return None, f"{len(module.schedule)} transfers are too many to draw; the network and the checks are shown"
    try:
        return use_of_schedule(module), ""
    except ValueError as error:
        return None, str(error)


def _owners(demand: Demand) -> Int32Array:
    """int32[chunks]: the NPU where a chunk begins; of a sum, the one where it ends, or else its first index."""
    chunks = demand.chunks
    sets = chunks.sets
    first = np.full(len(sets), -1, np.int64)
    filled = np.flatnonzero(sets.sizes)
    first[filled] = sets.members[sets.offsets[:-1][filled]]
    alone = sets.sizes == 1
    index = chunks.index[:, 0] if chunks.index.shape[1] else np.zeros(len(chunks), np.int32)
    summed = chunks.op != Op.COPY
    ends = np.where(alone[chunks.post], first[chunks.post], index)
    begins = np.where(alone[chunks.pre], first[chunks.pre], index)
    return np.where(summed, ends, begins).astype(np.int32)


def use_of_simulation(simulation: Simulation) -> LinkUse:
    """The messages of a simulation that is aware of congestion; colours are by sender."""
    hops = simulation.hops
    task = np.repeat(np.arange(len(simulation.graph)), np.diff(hops.offsets))
    order = np.argsort(hops.begin, kind="stable")
    task, link, begin = task[order], hops.link[order], hops.begin[order] * simulation.unit
    network = simulation.network

    def message_name(number: int) -> str:
        ends = (int(simulation.graph.source[number]), int(simulation.graph.target[number]))
        return f"message {network.shown_name(ends[0])} to {network.shown_name(ends[1])}"

    return LinkUse(
        network=network,
        link=link.astype(np.int32),
        begin=begin,
        free=begin + hops.busy[order] * simulation.unit,
        arrive=begin + hops.delay[order] * simulation.unit,
        size=simulation.graph.size[task],
        item=task.astype(np.int32),
        item_name=message_name,
        owner=simulation.graph.source[task].astype(np.int32),
        owners="that sends",
        reduce=np.zeros(len(task), np.bool_),
        kept=np.zeros(len(task), np.bool_),
        time=simulation.time_ps,
    )
