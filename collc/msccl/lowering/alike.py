"""GPUs that the network and the collective cannot tell apart, exchanged in a schedule.

Where messages of several GPUs reach a switch at the same time, a file cannot say which of them leaves first: in the
simulation, that of the lower rank does. So the roles of such GPUs are exchanged until that is the order of the
schedule, or one that takes no longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod
from random import Random
from typing import Final

import numpy as np

from collc.graph.automorphisms import Automorphisms
from collc.msccl.lowering.eager import EagerRuns
from collc.msccl.lowering.ties import Before, critical_ties, wanted_order
from collc.msccl.program import Message
from collc.simulation.engine import COMPILED, Simulation, expect_many
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.coordinates import declared_coordinates
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

_MOST_SIMULATED: Final = 4_000_000
"""Messages and their hops in all simulations of exchanges together."""

_FIRST_SIMULATED: Final = 100_000
"""Messages and their hops in simulations until which an exchange is looked for that is better than tolerated."""

_TIED_SHARE: Final = 0.8
"""Share of exchanges that begin with GPUs whose messages tie where the run loses time."""

_PATIENCE: Final = 200
"""Exchanges without a gain after which the search begins again."""

_EXCHANGES_AT_ONCE: Final = (1, 1, 2, 3)

_Swap = tuple[int, tuple[int, int]]
"""NPUs of a block, and the numbers of two blocks that are exchanged."""


def exchanged_messages(
    messages: tuple[Message, ...],
    chunk_bytes: int,
    network: Network,
    demand: Demand,
    model: LinkModel,
    good: int,
    tolerated: int,
) -> tuple[Message, ...]:
    """The messages with GPUs exchanged so that, if each leaves as soon as what it carries is there, they end early.

    good, tolerated: picoseconds, times at which no better exchange is looked for, the latter after some tries. The
    messages themselves where no exchange takes less time.
    """
    alike = AlikeGpus(network, demand)
    if not alike.classes:
        return messages
    search = _ExchangeSearch(messages, EagerRuns(messages, chunk_bytes, network, model), network, alike)
    image = search.best_image(good, tolerated)
    return messages if image is None else alike.moved(messages, image)


@dataclass(frozen=True, slots=True)
class _Tried:
    """An exchange, as the image of each NPU, and the run with it."""

    image: Int32Array
    run: Simulation


class _ExchangeSearch:
    """Tries exchanges: first those that bring messages that tie into the order of the schedule, then random ones.

    An exchange changes no time but that of messages that tie, so all are simulated as the same tasks in other orders.
    """

    def __init__(self, messages: tuple[Message, ...], runs: EagerRuns, network: Network, alike: AlikeGpus) -> None:
        self._messages, self._runs, self._network, self._alike = messages, runs, network, alike
        self._swaps = [(size, pair) for size, blocks in alike.classes for pair in combinations(blocks, 2)]
        self._known = set(self._swaps)
        self._random = Random(0)
        self._simulated = 0

    def best_image(self, good: int, tolerated: int) -> Int32Array | None:
        """The image of each NPU; None where no exchange takes less time."""
        plain = self._tried(self._alike.identity)
        begin = best = self._ordered(plain, good)
        while self._is_searched(best, good, tolerated):
            here, tied, failures = begin, self._tied(begin), 0
            while failures < _PATIENCE and self._is_searched(best, good, tolerated):
                tried = self._changed(here.image, tied)
                failures = 0 if tried.run.time < here.run.time else failures + 1
                if tried.run.time <= here.run.time:
                    here, tied = tried, self._tied(tried)
                best = min(best, here, key=lambda tried: tried.run.time)
        return best.image if best.run.time < plain.run.time else None

    def _is_searched(self, best: _Tried, good: int, tolerated: int) -> bool:
        """Whether a better exchange is still looked for."""
        if self._simulated >= COMPILED:
            expect_many()
        enough = good if self._simulated < _FIRST_SIMULATED else max(good, tolerated)
        return best.run.time > enough and self._simulated < _MOST_SIMULATED

    def _tried(self, image: Int32Array) -> _Tried:
        run = self._runs.run(image[self._network.npus])
        self._simulated += len(self._messages) + len(run.hops.link)
        return _Tried(image, run)

    def _ordered(self, plain: _Tried, good: int) -> _Tried:
        """The best after blocks of each size are exchanged so that ties come in the order of the schedule."""
        before = wanted_order(self._messages, self._runs, self._network)
        best, ordered = plain, plain.image
        for size, blocks in self._alike.classes:
            if best.run.time <= good:
                break
            ordered = _in_order(ordered, size, blocks, before)
            best = min(best, self._tried(ordered), key=lambda tried: tried.run.time)
        return best

    def _changed(self, image: Int32Array, tied: list[_Swap]) -> _Tried:
        """An image with a few random exchanges more, the first mostly one of `tied`."""
        for number in range(self._random.choice(_EXCHANGES_AT_ONCE)):
            from_tie = number == 0 and tied and self._random.random() < _TIED_SHARE
            size, pair = self._random.choice(tied if from_tie else self._swaps)
            image = _swapped(len(image), size, *pair)[image]
        return self._tried(image)

    def _tied(self, tried: _Tried) -> list[_Swap]:
        """Exchanges of blocks of which one lost a tie to the other where a run loses time."""
        found: list[_Swap] = []
        npus = self._network.npus
        for late, early in critical_ties(self._runs, tried.run, len(self._messages)):
            a, b = (int(tried.image[npus[self._messages[number].source]]) for number in (late, early))
            for size in dict.fromkeys(size for size, _ in self._alike.classes):
                swap = size, (min(a // size, b // size), max(a // size, b // size))
                if swap in self._known:
                    found.append(swap)
        return found


class AlikeGpus:
    """Blocks of neighbouring NPUs that can be exchanged. All permutations are int32[npus], the image of each NPU."""

    def __init__(self, network: Network, demand: Demand) -> None:
        self._network = network
        self._automorphisms = Automorphisms(network)
        self._kinds = _kinds(network, demand)
        self.identity = np.arange(network.npu_count, dtype=np.int32)

    @cached_property
    def classes(self) -> list[tuple[int, list[int]]]:
        """(NPUs of a block, the numbers of blocks that can be exchanged, at least two), small blocks first."""
        return [
            (size, blocks)
            for size in _block_sizes(self._network)
            for blocks in self._classes_of(size)
            if len(blocks) > 1
        ]

    def _classes_of(self, size: int) -> list[list[int]]:
        found = defaultdict[bytes, "list[list[int]]"](list)
        for block in range(len(self.identity) // size):
            similar = found[self._kinds[block * size : (block + 1) * size].tobytes()]
            for blocks in similar:
                if self._is_automorphism(_swapped(len(self.identity), size, blocks[0], block)):
                    blocks.append(block)
                    break
            else:
                similar.append([block])
        return [blocks for similar in found.values() for blocks in similar]

    def _is_automorphism(self, image: Int32Array) -> bool:
        return self._automorphisms.extended(image) is not None

    def moved(self, messages: tuple[Message, ...], image: Int32Array) -> tuple[Message, ...]:
        """The messages between the images of their GPUs, over the images of their links."""
        extended = self._automorphisms.extended(image)
        assert extended is not None  # products of automorphisms are automorphisms
        rank_of = np.full(len(image), -1, np.int64)
        rank_of[self._network.npus] = np.arange(len(self._network.npus))
        rank = rank_of[image[self._network.npus]].tolist()
        links = extended[1].tolist()
        return tuple(
            replace(
                message,
                source=rank[message.source],
                target=rank[message.target],
                path=tuple(links[link] for link in message.path),
            )
            for message in messages
        )


def _kinds(network: Network, demand: Demand) -> Int64Array:
    """int64[npus]: a number that NPUs share that are in the same sets of holders, are both present or both absent, and
    have equally many links of each kind.
    """
    sets = demand.chunks.sets
    rows = [[int(present)] for present in network.present[: network.npu_count]]
    for number in range(len(sets)):
        for npu in map(int, sets[number]):
            rows[npu].append(number)
    for ends in (network.source, network.target):
        table = np.zeros((network.device_count, len(network.kinds)), np.int64)
        np.add.at(table, (ends, network.kind), 1)
        for npu in range(network.npu_count):
            rows[npu] += [-1, *table[npu].tolist()]
    names: dict[tuple[int, ...], int] = {}
    return np.array([names.setdefault(tuple(row), len(names)) for row in rows], np.int64)


def _block_sizes(network: Network) -> Iterator[int]:
    """1, and the sizes of the blocks of NPUs with the same first coordinates, if these are numbered one by one."""
    coordinates = declared_coordinates(network)
    sizes = () if coordinates is None else coordinates.sizes
    yield from (prod(sizes[axis + 1 :]) for axis in reversed(range(len(sizes) or 1)))


def _swapped(npus: int, size: int, a: int, b: int) -> Int32Array:
    """The permutation that exchanges two blocks of `size` NPUs."""
    image = np.arange(npus, dtype=np.int32)
    one, other = slice(a * size, (a + 1) * size), slice(b * size, (b + 1) * size)
    image[one], image[other] = image[other].copy(), image[one].copy()
    return image


def _in_order(image: Int32Array, size: int, blocks: list[int], before: Before) -> Int32Array:
    """A permutation with blocks in another order: those whose messages should go first have the lower numbers.

    Each time the block follows that is wanted later than as few of the others as possible (Eades, Lin and Smyth, 1993).
    """
    weight: Before = Counter()
    for (a, b), count in before.items():
        pair = int(image[a]) // size, int(image[b]) // size
        if pair[0] != pair[1] and pair[0] in blocks and pair[1] in blocks:
            weight[pair] += count
    excess = dict.fromkeys(blocks, 0)
    for (a, b), count in weight.items():
        excess[a] -= count
        excess[b] += count
    moved = np.arange(len(image), dtype=np.int32)
    for number in blocks:
        block = min(excess, key=lambda block: (excess[block], block))
        del excess[block]
        for other in excess:
            excess[other] -= weight[block, other] - weight[other, block]
        moved[block * size : (block + 1) * size] = np.arange(number * size, (number + 1) * size)
    return moved[image]
