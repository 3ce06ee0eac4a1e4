"""GPUs that the network and the collective cannot tell apart, exchanged in a schedule.

Where messages of several GPUs reach a switch at the same time, a file cannot say which of them goes on first: where it
is simulated, that of the lower rank does. So the roles of such GPUs are exchanged until that is the order of the
schedule, or one that takes no longer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from math import prod
from random import Random
from typing import Final

import numpy as np

from collc.graph.automorphisms import Automorphisms
from collc.msccl.lowering.eager import eager_run
from collc.msccl.program import Message
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.coordinates import declared_coordinates
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

_MOST_EXCHANGES: Final = 300
"""Random exchanges that are tried at most."""

_MOST_SIMULATED: Final = 20_000
"""Messages in all simulations of random exchanges together."""

_Before = Counter[tuple[int, int]]
"""How often a message of one device should go before one of another that comes to a link at the same time."""


def exchanged_messages(
    messages: tuple[Message, ...], chunk_bytes: int, network: Network, demand: Demand, model: LinkModel, enough: int
) -> tuple[Message, ...]:
    """The messages with GPUs exchanged so that, if each leaves as soon as what it carries is there, they end early.

    enough: picoseconds, a time at which no better exchange is looked for. The messages themselves where no exchange
    takes less time.
    """
    alike = AlikeGpus(network, demand)
    if not alike.classes:
        return messages

    def time_of(image: Int32Array) -> int:
        return eager_run(alike.moved(messages, image), chunk_bytes, network, model).time

    image = alike.identity
    first = best = time_of(image)
    before = _wanted_order(messages, chunk_bytes, network, model)
    ordered = image
    for size, blocks in alike.classes:
        if best <= enough:
            break
        ordered = _in_order(ordered, size, blocks, before)
        time = time_of(ordered)
        if time < best:
            image, best = ordered, time
    random = Random(0)
    swaps = [(size, pair) for size, blocks in alike.classes for pair in combinations(blocks, 2)]
    for _ in range(min(_MOST_EXCHANGES, _MOST_SIMULATED // len(messages))):
        if best <= enough:
            break
        changed = image
        for _ in range(random.randint(1, 3)):
            size, pair = random.choice(swaps)
            changed = _swapped(len(image), size, *pair)[changed]
        time = time_of(changed)
        if time <= best:
            image, best = changed, time
    return alike.moved(messages, image) if best < first else messages


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


def _wanted_order(messages: tuple[Message, ...], chunk_bytes: int, network: Network, model: LinkModel) -> _Before:
    """Which devices should go first where their messages come to a link together, in the order of the schedule."""
    run = eager_run(messages, chunk_bytes, network, model, as_scheduled=True)
    offsets, links, begin = run.hops.offsets.tolist(), run.hops.link.tolist(), run.hops.begin.tolist()
    arrived = run.hops.arrived.tolist()
    coming = defaultdict[tuple[int, int], "list[tuple[int, int]]"](list)
    for number, message in enumerate(messages):
        for hop in range(offsets[number] + 1, offsets[number + 1]):
            coming[links[hop], arrived[hop - 1]].append((begin[hop], int(network.npus[message.source])))
    found: _Before = Counter()
    for together in coming.values():
        together.sort()
        found.update((a, b) for (_, a), (_, b) in combinations(together, 2) if a != b)
    return found


def _in_order(image: Int32Array, size: int, blocks: list[int], before: _Before) -> Int32Array:
    """A permutation with blocks in another order: those whose messages should go first have the lower numbers.

    Each time the block follows that is wanted later than as few of the others as possible (Eades, Lin and Smyth, 1993).
    """
    weight: _Before = Counter()
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
