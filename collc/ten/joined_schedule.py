"""A schedule that consists of the schedules of parts of a problem, each for one place in the network or for many.

So tensor-parallel groups in 1,000 nodes are one schedule, for one node, and 1,000 rows of numbers of devices and links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.link_model import LinkModel
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule, Transfers, require_memory_of


@dataclass(frozen=True, eq=False)
class RepeatedPart:
    """A module with a schedule that has one or more images in a larger network.

    device: int32[images, devices], the device of the network for each device of the module. link: int32[images, links].
    run: int32[images, runs], the run of the whole demand for each run of the module.
    """

    module: Module
    device: Int32Array
    link: Int32Array
    run: Int32Array

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule of the module."""
        assert self.module.schedule is not None
        return self.module.schedule

    @cached_property
    def used_links(self) -> BoolArray:
        """bool[links of the module]: those that transfers may use, and no others of which this is known."""
        used = np.zeros(self.module.network.link_count, np.bool_)
        if isinstance(self.schedule, FactoredSchedule):
            classes = self.schedule.translations.link_class
            used[classes[self.schedule.rows.link]] = True
            return used[classes]
        used[self.schedule.transfers.link] = True
        return used

    def transfers(self, demand: Demand) -> Transfers:
        """The transfers in all images, in the numbers of the whole. demand: the whole."""
        rows = self.schedule.transfers
        own = self.module.demand.first_chunk
        run = np.searchsorted(own, rows.chunk, "right") - 1
        shift = (demand.first_chunk[self.run] - own[:-1]).astype(np.int32)
        images = len(self.run)
        relayed = rows.relayed
        if relayed is not None:
            relayed = np.where(relayed >= 0, self.link[:, relayed], -1).astype(np.int32).reshape(-1)
        return Transfers.of(
            (shift[:, run] + rows.chunk).reshape(-1),
            self.link[:, rows.link].reshape(-1),
            np.tile(rows.start, images),
            np.tile(rows.reduce, images),
            relayed,
            None,
            None if rows.kept is None else np.tile(rows.kept, images),
        )


@dataclass(frozen=True, eq=False, repr=False)
class JoinedSchedule(Schedule):
    """Parts of which no two use a link. demand: all their runs."""

    model: LinkModel
    demand: Demand
    parts: tuple[RepeatedPart, ...]

    def __len__(self) -> int:
        return sum(len(part.schedule) * len(part.run) for part in self.parts)

    @property
    def row_count(self) -> int:
        """See Schedule."""
        return sum(part.schedule.row_count for part in self.parts)

    @cached_property
    def transfers(self) -> Transfers:
        """See Schedule."""
        require_memory_of(len(self))
        return Transfers.concatenate([part.transfers(self.demand) for part in self.parts])

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule. All transfers are listed at once."""
        for low in range(0, len(self), rows):
            yield self.transfers.select(slice(low, low + rows))

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule."""
        return int(self.run_times(network, demand).max(initial=0))

    def run_times(self, network: Network, demand: Demand) -> Int64Array:  # noqa: ARG002
        """See Schedule."""
        times = np.zeros(len(demand.runs), np.int64)
        for part in self.parts:
            times[part.run] = part.schedule.run_times(part.module.network, part.module.demand)
        return times
