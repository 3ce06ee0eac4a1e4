"""All-to-All on a large Cayley graph, in phases: what goes over a generator as often goes together, as a bundle.

The group is abelian, so that a message may make its hops in any order. Generators of which no message uses two are an
axis, as the two directions of a ring. The messages are divided into as many classes as axes; class k uses axes k,
k + 1, .. in turn, so that each axis serves one class at a time, and all are busy. Of a class, those that make n hops
over a generator are a bundle, whose n hops take a link each for as long as there are messages in it. A generator serves
first what has most hops to go, so that at its end every bundle makes its last hop.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.kernels.compiled import MOST_PLAIN, STEP_TIME
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import GeneratorTimes
from collc.ten.arrays import Int32Array, Int64Array, ranges
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.factored_schedule import ChunkNumbers
from collc.ten.link_model import LinkModel
from collc.ten.schedule import Transfers

MOST_EXPANDED: Final = 30_000_000
"""Rows of bundles that an All-to-All may have, and transfers of one NPU, or of lost paths, if they are listed."""


def exchange_in_bundles(
    group: Group, hops: Int64Array, model: LinkModel, numbers: ChunkNumbers, times: GeneratorTimes
) -> FactoredBundles:
    """The schedule in which messages from NPU 0 make int64[npus, copies, generators] hops, and its translations.

    Raises SourceError S0203 if it may have too many rows.
    """
    messages = hops.reshape(-1, hops.shape[2])
    axes, most = _axes_of(messages), messages.max(axis=0)
    rows = len(axes) * int((most * (most + 1) // 2).sum())
    if rows > MOST_EXPANDED:
        message = f"an All-to-All of {group.count:,} NPUs needs {rows:,} rows, more than the limit of {MOST_EXPANDED:,}"
        hint = "use fewer NPUs, or a network of more dimensions"
        raise SourceError(Diagnostic("S0203", message, hint=hint))
    divisions = [_classes_of(messages, axes)]
    if int((messages.sum(axis=0) * times.busy).max()) < int((messages @ times.total).max()):
        divisions.append([np.arange(len(messages))])  # hops count more than loads: no class waits for an axis
    plans = [_Plan.of(group, messages, times, axes, classes) for classes in divisions]
    return min(plans, key=lambda plan: plan.end).schedule(model, numbers)


def _axes_of(hops: Int64Array) -> list[list[int]]:
    """The generators of each axis. hops: int64[messages, generators]."""
    used = hops > 0
    several = used[np.count_nonzero(used, axis=1) > 1].astype(np.float32)
    together = several.T @ several > 0
    axes: list[list[int]] = []
    for generator in range(hops.shape[1]):
        fitting = [axis for axis in axes if not together[generator, axis].any()]
        if fitting:
            fitting[0].append(generator)
        else:
            axes.append([generator])
    return axes


def _classes_of(hops: Int64Array, axes: list[list[int]]) -> list[Int64Array]:
    """The messages of each class; of some divisions that whose largest loads of an axis are least together."""
    count = len(axes)
    along = np.stack([hops[:, axis].sum(axis=1) for axis in axes])
    divisions = [(weight @ along) % count for weight in (np.ones(count, np.int64), np.arange(1, count + 1))]

    def largest_loads(division: Int64Array) -> float:
        loads = np.stack([np.bincount(division, own, minlength=count) for own in along])
        return float(loads.max(axis=1).sum())

    best = min(divisions, key=largest_loads)
    return [np.flatnonzero(best == number) for number in range(count)]


@dataclass(eq=False)
class _Plan:
    """A plan that grows.

    hops: int64[messages, generators].
    """

    group: Group
    hops: Int64Array
    times: GeneratorTimes

    def __post_init__(self) -> None:
        index = self.group.coordinates.index
        self._step = index[:, self.group.generators].astype(np.int64)
        self._index = np.zeros((len(index), len(self.hops)), np.int64)
        self._ready = np.zeros(len(self.hops), np.int64)
        self._free = np.zeros(self.hops.shape[1], np.int64)
        self._rows: list[tuple[Int64Array, Int32Array, Int64Array]] = []
        self._members: list[tuple[Int64Array, Int64Array]] = []
        self._sizes: list[Int64Array] = [np.zeros(1, np.int64)]
        self._bundles = 0

    @staticmethod
    def of(
        group: Group, hops: Int64Array, times: GeneratorTimes, axes: list[list[int]], classes: list[Int64Array]
    ) -> _Plan:
        """The plan in which each class uses the axes in turn, beginning with the one of its number."""
        plan = _Plan(group, hops, times)
        for phase in range(len(axes)):
            for number, messages in enumerate(classes):
                for generator in axes[(number + phase) % len(axes)]:
                    plan.send(messages, generator)
        return plan

    @property
    def end(self) -> int:
        """Picoseconds until all messages have come."""
        return int(self._ready.max())

    def send(self, messages: Int64Array, generator: int) -> None:
        """Send those of some messages that use a generator as soon as it is free, and the messages have come."""
        moving = messages[self.hops[messages, generator] > 0]
        if not len(moving):
            return
        busy, total = int(self.times.busy[generator]), int(self.times.total[generator])
        moving = moving[np.lexsort((self._ready[moving], -self.hops[moving, generator]))]
        count = self.hops[moving, generator]
        first = np.flatnonzero(np.append(True, np.diff(count) != 0))
        size, left = np.diff(np.append(first, len(count))), count[first]
        starts, after = _starts(left, size * busy, total), np.cumsum(left)
        bundle = np.repeat(np.arange(len(first)), size)
        behind = (np.arange(len(count)) - first[bundle]) * busy
        begin = int((self._ready[moving] - behind - starts[(after - left)[bundle]]).max())
        begin = max(int(self._free[generator]), begin)
        self._free[generator] = begin + int((starts[after - 1] + size * busy).max())
        self._rows.append(
            (np.repeat(np.arange(len(left)), left) + self._bundles, self._links(generator, left), begin + starts)
        )
        self._bundles += len(left)
        self._members.append((moving, self._elements(moving)))
        self._sizes.append(size)
        self._ready[moving] = begin + behind + starts[(after - 1)[bundle]] + total
        self._index[:, moving] += self._step[:, generator, None] * count

    def _links(self, generator: int, left: Int64Array) -> Int32Array:
        """int32: the links of the hops of each bundle. left: int64[bundles], descending, how many."""
        path = np.zeros(int(left[0]), np.int32)
        for hop in range(1, len(path)):
            path[hop] = self.group.successors[generator, path[hop - 1]]
        return self.group.link[generator, path[ranges(np.zeros(len(left), np.int64), left)]]

    def _elements(self, messages: Int64Array) -> Int64Array:
        """int64: the elements of the group that take NPU 0 to where messages are."""
        element = np.zeros(len(messages), np.int64)
        for size, index in zip(self.group.coordinates.sizes, self._index, strict=True):
            element = element * size + index[messages] % size
        return element

    def schedule(self, model: LinkModel, numbers: ChunkNumbers) -> FactoredBundles:
        """The schedule of all that was sent."""
        bundle, link, start = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        rows = Transfers.of(bundle.astype(np.int32), link, start)
        message, element = (np.concatenate(column) for column in zip(*self._members, strict=True))
        return FactoredBundles(
            model,
            self.group.translations(),
            numbers,
            rows,
            self.times.busy[self.group.generator_of[rows.link]],
            np.cumsum(np.concatenate(self._sizes)),
            numbers.of_representative(*np.divmod(message, numbers.parts)),
            element.astype(np.int32),
        )


def _starts(left: Int64Array, length: Int64Array, total: int) -> Int64Array:
    """int64: when each hop of each bundle starts, on a generator that is free from 0 on.

    left: int64[bundles], descending, hops of each. length: int64[bundles], picoseconds that a hop of each takes. total:
    picoseconds until the first of a bundle has come.
    """
    if STEP_TIME * int(left.sum()) <= MOST_PLAIN:
        return _starts_of_most_left(left.tolist(), length.tolist(), total)
    last = np.cumsum(length)[np.searchsorted(-left, -np.arange(int(left[0]) + 1), "right") - 1]
    taken = np.maximum(last, total)  # by a round, in which bundles with n hops to go or more make one
    round_ = np.cumsum(taken[::-1])[::-1] - taken
    bundle = np.repeat(np.arange(len(left)), left)
    to_go = left[bundle] - ranges(np.zeros(len(left), np.int64), left)
    return round_[to_go] + (np.cumsum(length) - length)[bundle]


def _starts_of_most_left(left: list[int], length: list[int], total: int) -> Int64Array:
    """The starts if a generator serves, of the bundles that have come, that with most hops to go; see `_starts`."""
    after = [*accumulate(left)]
    starts, now = [0] * after[-1], 0
    ready = [(-hops, bundle) for bundle, hops in enumerate(left)]
    moving: deque[tuple[int, tuple[int, int]]] = deque()
    while ready or moving:
        while moving and (not ready or moving[0][0] <= now):
            time, entry = moving.popleft()
            now = max(now, time)
            heappush(ready, entry)
        to_go, bundle = heappop(ready)
        starts[after[bundle] + to_go] = now
        if to_go < -1:
            moving.append((now + total, (to_go + 1, bundle)))
        now += length[bundle]
    return np.array(starts, np.int64)
