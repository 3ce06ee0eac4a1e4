"""Link-chunk matching in steps, first come, first served, if all transfers take equal time.

For Numba on arrays; tables are flat. D devices; L links, sorted by target (and by number if that is the same); K
chunks, in an order that keeps those of near holders together.

A device knows what others had before a step, so its steps need not wait for those of all others: they are done tile by
tile, several steps at a time (collc/synthesis/tacos/tiles.py). Everything that a destination changes is its own, so
the tiles of a wave may be split among threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array, StepTable, UInt8Array


class StepNetwork(NamedTuple):
    """Constants of the network.

    first: [D + 1], the links into each device. source, number: [L], of each link, as the network has them. name: [K],
    the number of each chunk in the result. begin: [tiles * depth + 1], device: [D * depth]; tile k does its step t for
    device[begin[k * depth + t] : begin[k * depth + t + 1]]. depth: steps that a tile does at most. width: bytes of a
    set of chunks; chunk c is bit c & 7 of byte c >> 3. none: marks a link that takes no chunk.
    """

    first: Int32Array
    source: Int32Array
    number: Int32Array
    name: NDArray[Any]
    begin: Int64Array
    device: Int32Array
    depth: int
    width: int
    none: int


class StepProgress(NamedTuple):
    """What changes.

    order: [D * K], the chunks of each device, as they came. length: [(depth + 1) * D], how many it has before step s,
    in row s mod (depth + 1). closed: [D * width], the chunks that a device does not need any more. cursor: [L], what
    lies before it in the source's order is closed forever.
    """

    order: NDArray[Any]
    length: Int32Array
    closed: UInt8Array
    cursor: Int32Array


def fifo_tiles(
    network: StepNetwork, progress: StepProgress, low: int, high: int, start: int, steps: int,
    table: StepTable,
) -> int:  # fmt: skip
    """Does `steps` steps of the tiles low .. high - 1: every link takes what its source got first of what its target
    lacks. Returns how many chunks are taken.

    start: the first step. table: [all steps * L], gets the chunk that each link takes in each step. What one device
    does in a step is not a function of its own: a call would cost as much.
    """
    first, source, number, name, begin, devices, depth, width, none = network
    order, length, closed, cursor = progress
    count, links, chunks = len(first) - 1, len(source), len(name)
    taken = 0
    for tile in range(low, high):
        for step in range(start, start + steps):
            before, after = step % (depth + 1) * count, (step + 1) % (depth + 1) * count
            row = step * links
            cell = tile * depth + step - start
            for place in range(begin[cell], begin[cell + 1]):
                device = devices[place]
                base, shut = device * chunks, device * width
                had = length[before + device]
                size = had
                for link in range(first[device], first[device + 1]):
                    sender, turn = source[link], cursor[link]
                    last, queue = length[before + sender], sender * chunks
                    taken_chunk = none
                    while turn < last:
                        chunk = order[queue + turn]
                        turn += 1
                        entry, bit = shut + (chunk >> 3), 1 << (chunk & 7)
                        if closed[entry] & bit == 0:
                            closed[entry] |= bit
                            order[base + size] = chunk
                            size += 1
                            taken_chunk = name[chunk]
                            break
                    cursor[link] = turn
                    table[row + number[link]] = taken_chunk
                taken += size - had
                length[after + device] = size
    return taken
