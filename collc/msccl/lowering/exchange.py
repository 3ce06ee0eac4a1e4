"""GPUs that the network and the collective cannot tell apart, exchanged in the messages of a schedule.

If messages of several GPUs reach a switch at once, a file cannot say which of them leaves first; if a file is
simulated, the message of the lowest rank does. So among GPUs that are alike, the one whose messages arrive first in
the schedule gets the lowest rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from collc.graph.automorphisms import Automorphisms
from collc.graph.coordinates import declared_coordinates
from collc.msccl.program import Message
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand
from collc.ten.network import Network


def exchange_alike_gpus(messages: tuple[Message, ...], network: Network, demand: Demand) -> tuple[Message, ...]:
    """The messages between other GPUs, over the images of their links, in order of start.

    Blocks of GPUs with common first coordinates are exchanged too, such as nodes. The messages themselves if GPUs that
    are alike have them in order already.
    """
    automorphisms = Automorphisms(network)
    npus = np.arange(network.npu_count, dtype=np.int32)
    lateness = [0] * len(npus)
    for message in messages:
        lateness[int(network.npus[message.source])] += message.arrival
    image = npus
    for size, blocks in _alike_blocks(network, demand, automorphisms):
        late = dict.fromkeys(blocks, 0)
        for npu, time in zip(image.tolist(), lateness, strict=True):
            if npu // size in late:
                late[npu // size] += time
        moved = npus.copy()
        for new, old in zip(blocks, sorted(blocks, key=late.__getitem__), strict=True):
            moved[old * size : (old + 1) * size] = npus[new * size : (new + 1) * size]
        image = moved[image]
    extended = automorphisms.extend(image)
    if np.array_equal(image, npus) or extended is None:
        return messages
    rank_of = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
    rank, link = [rank_of[npu] for npu in image[network.npus].tolist()], extended[1].tolist()
    exchanged = [
        replace(m, source=rank[m.source], target=rank[m.target], path=tuple(link[hop] for hop in m.path))
        for m in messages
    ]
    return tuple(sorted(exchanged, key=lambda m: (m.start, m.path, m.chunk)))


def _alike_blocks(network: Network, demand: Demand, automorphisms: Automorphisms) -> Iterator[tuple[int, list[int]]]:
    """(NPUs of a block, the numbers of two or more blocks that can be exchanged), small blocks first."""
    held = _holder_sets(network, demand)
    coordinates = declared_coordinates(network)
    sizes = () if coordinates is None else coordinates.sizes
    for size in (prod(sizes[axis + 1 :]) for axis in reversed(range(len(sizes) or 1))):
        classes: list[list[int]] = []
        for block in range(network.npu_count // size):
            members = slice(block * size, (block + 1) * size)
            for blocks in classes:
                first = slice(blocks[0] * size, (blocks[0] + 1) * size)
                if held[first] == held[members] and automorphisms.extend(_swap(network, first, members)) is not None:
                    blocks.append(block)
                    break
            else:
                classes.append([block])
        yield from ((size, blocks) for blocks in classes if len(blocks) > 1)


def _holder_sets(network: Network, demand: Demand) -> list[list[int]]:
    """For each NPU, the numbers of the holder sets of chunks that it is a member of."""
    held: list[list[int]] = [[] for _ in range(network.npu_count)]
    sets = demand.chunks.sets
    for number in range(len(sets)):
        for npu in map(int, sets[number]):
            held[npu].append(number)
    return held


def _swap(network: Network, first: slice, second: slice) -> Int32Array:
    """int32[npus]: the permutation that exchanges two blocks."""
    image = np.arange(network.npu_count, dtype=np.int32)
    image[first], image[second] = image[second].copy(), image[first].copy()
    return image
