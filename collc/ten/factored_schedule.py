"""A factored schedule: the transfers of one representative NPU, which stand for all their translations.

Translations are commuting automorphisms of the devices and links of a network that leave no NPU where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule, Transfers, require_memory_of

MOST_NUMBERED: Final = 2**31
"""Chunks up to which all can have numbers."""


@dataclass(frozen=True, eq=False)
class Translations:
    """A product of cyclic groups of automorphisms; only the translation by 0 leaves an NPU where it is.

    An element is a number from 0 to count - 1; its index along an axis is element // stride % size, and the last axis
    has stride 1. Elements are added axis by axis.

    sizes: int, elements along each axis. npu_count: of the network.
    device: int32[axes, devices], the image of each device under the generator of each axis. link: int32[axes, links].
    """

    sizes: tuple[int, ...]
    npu_count: int
    device: Int32Array
    link: Int32Array

    @property
    def count(self) -> int:
        """Elements."""
        return prod(self.sizes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How much an element grows with its index along each axis."""
        return tuple(prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    @cached_property
    def orbits(self) -> Int32Array:
        """int32[orbits, count]: the NPU to which each element takes the representative of each orbit.

        Representatives are the lowest NPUs of their orbits, ascending; orbits[k, 0] is the k-th.
        """
        label = _lowest_images(self.sizes, self.device)[: self.npu_count]
        first = np.flatnonzero(label == np.arange(self.npu_count))
        return np.stack([self.device_images(int(npu)) for npu in first])

    @cached_property
    def orbit_of(self) -> Int32Array:
        """int32[npus]: the row of each NPU in `orbits`."""
        orbit = np.empty(self.npu_count, np.int32)
        orbit[self.orbits] = np.arange(len(self.orbits), dtype=np.int32)[:, None]
        return orbit

    @cached_property
    def element_of(self) -> Int32Array:
        """int32[npus]: the element that takes the representative of its orbit to each NPU."""
        element = np.empty(self.npu_count, np.int32)
        element[self.orbits] = np.arange(self.count, dtype=np.int32)
        return element

    @cached_property
    def link_class(self) -> Int32Array:
        """int32[links]: the lowest link of the orbit of each link, which stands for its class."""
        return _lowest_images(self.sizes, self.link)

    @cached_property
    def link_share(self) -> Int32Array:
        """int32[links]: how many elements map each link to itself, so that translations share it."""
        size = np.bincount(self.link_class, minlength=self.link.shape[1])
        return (self.count // np.maximum(1, size[self.link_class])).astype(np.int32)

    @cached_property
    def class_row(self) -> Int32Array:
        """int32[links]: the row of the class of each link in `class_links`."""
        is_lowest = self.link_class == np.arange(len(self.link_class))
        return (np.cumsum(is_lowest, dtype=np.int32) - 1)[self.link_class]

    @cached_property
    def class_links(self) -> Int32Array:
        """int32[classes, count]: the link to which each element takes the lowest link of each class, by that link."""
        lowest = np.flatnonzero(self.link_class == np.arange(len(self.link_class)))
        return np.stack([_images(self.sizes, self.link, int(link)) for link in lowest])

    @cached_property
    def class_order(self) -> Int32Array:
        """int32[classes, count]: the elements in the order of the links in `class_links`."""
        return np.argsort(self.class_links, axis=1, kind="stable").astype(np.int32)

    @cached_property
    def link_element(self) -> Int32Array:
        """int32[links]: the lowest element that takes the lowest link of its class to each link."""
        element = np.empty(self.link.shape[1], np.int32)
        for images in self.class_links:
            element[images[::-1]] = np.arange(self.count, dtype=np.int32)[::-1]
        return element

    def device_images(self, device: int) -> Int32Array:
        """int32[count]: the device to which each element takes a device."""
        return _images(self.sizes, self.device, device)

    def link_images(self, link: int) -> Int32Array:
        """int32[count]: the link to which each element takes a link."""
        return self.class_links[self.class_row[link], self.sums(int(self.link_element[link]))]

    def sorted_images(self, link: int) -> tuple[Int32Array, Int32Array]:
        """(int32[count], int32[count]): the images of a link, ascending, and the elements that take it there."""
        row = self.class_row[link]
        order = self.class_order[row]
        return self.class_links[row, order], self.difference(order, int(self.link_element[link]))

    def moved_links(self, link: Int32Array, element: Int32Array) -> Int32Array:
        """int32[n]: the link to which an element takes a link, for each pair of both."""
        return self.class_links[self.class_row[link], self.sum(self.link_element[link], element)]

    def elements_to(self, link: Int32Array, image: Int32Array) -> Int32Array:
        """int32[n]: the element that takes each link to another one of its class; the lowest of several."""
        return self.difference(self.link_element[image], self.link_element[link])

    def rows_over(self, link: Int32Array, wanted: Int32Array) -> tuple[Int64Array, Int32Array]:
        """(rows, elements): each row of `link` with each element that takes its link to one of those wanted.

        No other element may take the link there.
        """
        classes = self.class_row[link]
        order = np.argsort(classes, kind="stable")
        low, high = (np.searchsorted(classes[order], self.class_row[wanted], side) for side in ("left", "right"))
        size = high - low
        image = np.repeat(wanted, size)
        row = order[np.arange(len(image)) + np.repeat(low - (np.cumsum(size) - size), size)]
        return row, self.elements_to(link[row], image)

    def phases(self, link: int) -> Int32Array:
        """int32[count]: the turn of each element among those that take a link to the same link, from 0."""
        images = self.link_images(link)
        order = np.argsort(images, kind="stable")
        share = int(self.link_share[link])
        phase = np.empty(self.count, np.int32)
        phase[order] = np.arange(self.count, dtype=np.int32) % share
        return phase

    def sums(self, element: int) -> Int32Array:
        """int32[count]: each element plus another one."""
        total = np.zeros(1, np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            index = (np.arange(size, dtype=np.int32) + element // stride) % size * stride
            total = (total[:, None] + index.astype(np.int32)).reshape(-1)
        return total

    def negative(self, element: int) -> int:
        """The element that gives 0 when it is added to another one."""
        return sum(-(element // stride) % size * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    def sum(self, left: Int32Array, right: Int32Array | int) -> Int32Array:
        """int32[n]: left plus right, element by element."""
        total = np.zeros(len(left), np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            total += (left // stride + right // stride) % size * np.int32(stride)
        return total

    def difference(self, left: Int32Array, right: Int32Array | int) -> Int32Array:
        """int32[n]: left minus right, element by element."""
        total = np.zeros(len(left), np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            total += (left // stride - right // stride) % size * np.int32(stride)
        return total


def _images(sizes: tuple[int, ...], generators: Int32Array, start: int) -> Int32Array:
    """int32[count]: if each element takes a number, by repeated doubling along each axis."""
    images = np.array([start], np.int32)
    for size, generator in zip(sizes, generators, strict=True):
        row, power = images[:, None], generator
        while row.shape[1] < size:
            row = np.concatenate([row, power[row]], axis=1)[:, :size]
            power = power[power]
        images = row.reshape(-1)
    return images


def _lowest_images(sizes: tuple[int, ...], generators: Int32Array) -> Int32Array:
    """int32[n]: the lowest number to which any element takes each number."""
    label = np.arange(generators.shape[1], dtype=np.int32)
    for size, generator in zip(sizes, generators, strict=True):
        power, covered = generator, 1
        while covered < size:
            label = np.minimum(label, label[power])
            power, covered = power[power], covered * 2
    return label


@dataclass(frozen=True, eq=False)
class ChunkNumbers:
    """How the chunks of a standard collective over all NPUs are numbered, by the ranks of one or two NPUs and a part.

    rank: int32[npus], -1 for those that take no part. pairs: whether a chunk goes from one NPU to another
    (All-to-All). parts: chunks of a block.
    """

    rank: Int32Array
    pairs: bool
    parts: int

    @staticmethod
    def of(demand: Demand) -> ChunkNumbers | None:
        """The numbers of the chunks of a demand; None unless it is one All-Gather, Reduce-Scatter, All-Reduce or
        All-to-All.
        """
        run = demand.runs[0] if len(demand.runs) == 1 else None
        standard = None if run is None else run.standard
        if run is None or standard is None or not standard.shape.without_root:
            return None
        rank = np.full(int(run.group.max(initial=-1)) + 1, -1, np.int32)
        rank[run.group] = np.arange(len(run.group), dtype=np.int32)
        return ChunkNumbers(rank, standard.shape.pairs, standard.chunks)

    @cached_property
    def members(self) -> int:
        """NPUs that take part."""
        return int((self.rank >= 0).sum())

    def number(self, block: Int32Array, target: Int32Array | None, part: int | Int32Array) -> Int32Array:
        """int32: the chunk of each NPU's block; with pairs, of the block that it sends to each target."""
        row = self.rank[block].astype(np.int64)
        if target is not None:
            row = row * self.members + self.rank[target]
        return (row * self.parts + part).astype(np.int32)

    def of_representative(self, target: Int32Array, part: Int32Array) -> Int32Array:
        """int32: the chunks of the first representative; with pairs, of the block that it sends to each target."""
        row = self.rank[target].astype(np.int64) if self.pairs else 0
        return (row * self.parts + part).astype(np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSchedule(Schedule):
    """Transfers of the chunks of representative NPUs; each translation of one moves its NPUs, its chunk and its link.

    rows: the transfers of representatives, none of which relays what its sender keeps apart. Their chunks are numbered
    among those of representatives, by orbit, rank of the NPU that a block is for (All-to-All) and part.
    turn: int64[rows], picoseconds; if several translations of a transfer use the same link, they follow each other on
    it at this distance, in the order of `Translations.phases`. numbers: of the chunks.
    """

    model: LinkModel
    translations: Translations
    numbers: ChunkNumbers
    rows: Transfers
    turn: Int64Array

    def __len__(self) -> int:
        return len(self.rows) * self.translations.count

    @property
    def row_count(self) -> int:
        """See Schedule."""
        return len(self.rows)

    @cached_property
    def transfers(self) -> Transfers:
        """See Schedule. Blocks are sorted, and each begins after the one before."""
        require_memory_of(len(self))
        parts = list(self.blocks())
        return _in_order(parts) if len(parts) > 1 else Transfers.concatenate(parts) if not parts else parts[0]

    @property
    def turns(self) -> Int32Array | Int64Array:
        """int[rows]: how many transfers follow each other on each link that translations of a row use."""
        return self.translations.link_share[self.rows.link]

    @property
    def last_start(self) -> Int64Array:
        """int64[rows]: picoseconds, when the last of those transfers starts."""
        return self.rows.start + self.turn * (self.turns - 1)

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule; all chunks have the size that the collective says."""
        if not len(self.rows):
            return 0
        total = network.occupancy(np.array([chunk_size(demand)], np.int64))[:, 0] + network.latencies
        return int((self.last_start + total[network.kind[self.rows.link]]).max())

    @property
    def representative_chunks(self) -> int:
        """The chunks of representatives."""
        return len(self.translations.orbits) * self._chunks_of_one

    @property
    def _chunks_of_one(self) -> int:
        """The chunks of one representative."""
        return (self.numbers.members if self.numbers.pairs else 1) * self.numbers.parts

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule. If translations take turns, there is one block.

        Raises SourceError S0203 if there are more chunks than 32 bits number.
        """
        self.require_numbers()
        per = len(self.rows) if bool(self.turn.any()) else max(1, rows // self.translations.count)
        low = 0
        start = self.rows.start
        while low < len(self.rows):
            high = min(low + per, len(self.rows))
            while high < len(self.rows) and start[high] == start[high - 1]:
                high += 1
            yield self._expand(low, high)
            low = high

    def require_numbers(self) -> None:
        """Raise SourceError S0203 if there are more chunks than 32 bits number."""
        count = self.representative_chunks * self.translations.count
        if count > MOST_NUMBERED:
            message = f"the transfers of {count:,} chunks cannot be listed: the limit is {MOST_NUMBERED:,} chunks"
            hint = "leave out what needs a list of all transfers, such as files"
            raise SourceError(Diagnostic("S0203", message, hint=hint))

    def _expand(self, low: int, high: int) -> Transfers:
        """All translations of the transfers low .. high - 1, sorted."""
        count, known = self.translations.count, -1
        chunks = np.empty(0, np.int32)
        link, chunk = np.empty((2, high - low, count), np.int32)
        start = np.repeat(self.rows.start[low:high, None], count, axis=1)
        for k, (row_link, row_chunk) in enumerate(
            zip(self.rows.link[low:high].tolist(), self.rows.chunk[low:high].tolist(), strict=True)
        ):
            if row_chunk != known or not len(chunks):
                chunks, known = self._chunk_images(row_chunk), row_chunk
            if not 0 <= row_link < self.translations.link.shape[1]:
                link[k], chunk[k] = row_link, chunks
                continue
            # Rows that start at different times are sorted then, and need not be sorted again.
            link[k], element = self.translations.sorted_images(row_link)
            chunk[k] = chunks[element]
            turn = int(self.turn[low + k])
            if turn:
                start[k] += self.translations.phases(row_link)[element].astype(np.int64) * turn
        reduce = np.repeat(self.rows.reduce[low:high], count)
        return Transfers.of(chunk.reshape(-1), link.reshape(-1), start.reshape(-1), reduce)

    def _chunk_images(self, chunk: int) -> Int32Array:
        """int32[count]: the chunk to which each element takes one of a representative; -1 if there is none."""
        orbit, rest = divmod(chunk, self._chunks_of_one)
        if not 0 <= orbit < len(self.translations.orbits):
            return np.full(self.translations.count, -1, np.int32)
        target, part = divmod(rest, self.numbers.parts)
        own, other = self.translations.orbits[orbit], self._npus(target) if self.numbers.pairs else None
        return self.numbers.number(own, other, part)

    def _npus(self, rank: int) -> Int32Array:
        """int32[count]: the NPU to which each element takes the NPU of a rank."""
        translations, npu = self.translations, int(np.argmax(self.numbers.rank == rank))
        return translations.orbits[translations.orbit_of[npu], translations.sums(int(translations.element_of[npu]))]


def _in_order(parts: list[Transfers]) -> Transfers:
    """Transfers that are sorted as they follow each other."""
    return Transfers(
        np.concatenate([part.chunk for part in parts]),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.reduce for part in parts]),
    )


def chunk_size(demand: Demand) -> int:
    """Bytes of each chunk of a demand that `ChunkNumbers` numbers."""
    run = demand.runs[0]
    assert run.standard is not None
    return run.standard.size // (len(run.group) * run.standard.chunks)
