"""Link-chunk matching in steps, where all transfers take equal time.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py); tables are flat. D devices; L
links, sorted by target (and by number where that is the same); K chunks, in an order that keeps those of near holders
together.

A device knows what others had before a step, so its steps need not wait for those of all others: they are done tile by
tile, several steps at a time (collc/synthesis/tacos/tiles.py). Everything that a destination changes is its own, so
the tiles of a wave may be split among threads.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from collc.kernels.compiled import inlined


class StepNetwork(NamedTuple):
    """Constants of the network.

    first: [D + 1], the links into each device. source, number: [L], of each link, as the network has them. name: [K],
    the number of each chunk in the result. begin: [tiles * depth + 1], device: [D * depth]; tile k does its step t for
    device[begin[k * depth + t] : begin[k * depth + t + 1]]. depth: steps that a tile does at most. shift, mask: chunk c
    is bit c & mask of entry c >> shift of a set of chunks, which has `width` entries; in plain Python an entry is a
    flag (shift 0), in compiled code 8 bits (shift 3). none: marks a link that takes no chunk.
    """

    first: Sequence[int]
    source: Sequence[int]
    number: Sequence[int]
    name: Sequence[int]
    begin: Sequence[int]
    device: Sequence[int]
    depth: int
    shift: int
    mask: int
    width: int
    none: int


class StepProgress(NamedTuple):
    """What changes.

    order: [D * K], the chunks of each device, as they came. length: [(depth + 1) * D], how many it has before step s,
    in row s mod (depth + 1). closed: [D * width], the chunks that a device does not need any more. cursor: [L], what
    lies before it in the source's order is closed forever, or in the window of the link.

    For the rule of fewest alternatives only. have: [D * width], the chunks that a device had before this step. window:
    [L * size], the first open chunks of the source's order; seen: [L], how many of them there are.
    """

    order: MutableSequence[int]
    length: MutableSequence[int]
    closed: MutableSequence[int]
    cursor: MutableSequence[int]
    have: MutableSequence[int]
    window: MutableSequence[int]
    seen: MutableSequence[int]


def fifo_tiles(
    network: StepNetwork, progress: StepProgress, low: int, high: int, start: int, steps: int,
    table: MutableSequence[int],
) -> int:  # fmt: skip
    """Does `steps` steps of the tiles low .. high - 1: every link takes what its source got first of what its target
    lacks. Returns how many chunks are taken.

    start: the first step. table: [all steps * L], gets the chunk that each link takes in each step. What one device
    does in a step is not a function of its own: a call would cost as much.
    """
    first, source, number, name, begin, devices, depth, shift, mask, width, none = network
    order, length, closed, cursor, _, _, _ = progress
    count, links, chunks = len(first) - 1, len(source), len(name)
    taken = 0
    for tile in range(low, high):
        for step in range(start, start + steps):
            before, after = step % (depth + 1) * count, (step + 1) % (depth + 1) * count
            row = step * links
            part = tile * depth + step - start
            for place in range(begin[part], begin[part + 1]):
                device = devices[place]
                base, shut = device * chunks, device * width
                had = length[before + device]
                size = had
                for link in range(first[device], first[device + 1]):
                    sender, at = source[link], cursor[link]
                    last, queue = length[before + sender], sender * chunks
                    found = none
                    while at < last:
                        chunk = order[queue + at]
                        at += 1
                        entry, bit = shut + (chunk >> shift), 1 << (chunk & mask)
                        if closed[entry] & bit == 0:
                            closed[entry] |= bit
                            order[base + size] = chunk
                            size += 1
                            found = name[chunk]
                            break
                    cursor[link] = at
                    table[row + number[link]] = found
                taken += size - had
                length[after + device] = size
    return taken


def fewest_steps(
    network: StepNetwork, progress: StepProgress, start: int, steps: int, table: MutableSequence[int]
) -> int:
    """As fifo_tiles for all devices, but of the first such chunks, as many as a window has, each link takes the one
    that the fewest of the target's links could bring.
    """
    first, source, number, name, _, _, depth, shift, mask, width, none = network
    order, length, closed, cursor, have, window, seen = progress
    count, links, chunks = len(first) - 1, len(source), len(name)
    room = len(window) // links
    taken = 0
    for step in range(start, start + steps):
        before, after = step % (depth + 1) * count, (step + 1) % (depth + 1) * count
        for device in range(count):
            shut = device * width
            size = length[before + device]
            for link in range(first[device], first[device + 1]):
                sender = source[link]
                fill_window(
                    order, closed, cursor, window, seen, link, room, shut, sender * chunks, length[before + sender],
                    shift, mask,
                )  # fmt: skip
                best, fewest = -1, 1 << 30
                for place in range(link * room, link * room + seen[link]):
                    chunk = window[place]
                    holders = 0
                    for other in range(first[device], first[device + 1]):
                        holders += have[source[other] * width + (chunk >> shift)] >> (chunk & mask) & 1
                    if holders < fewest:
                        best, fewest = chunk + 0, holders
                table[step * links + number[link]] = none if best < 0 else name[best]
                if best >= 0:
                    closed[shut + (best >> shift)] |= 1 << (best & mask)
                    order[device * chunks + size] = best
                    size += 1
            taken += size - length[before + device]
            length[after + device] = size
        for device in range(count):
            base = device * chunks
            for place in range(base + length[before + device], base + length[after + device]):
                chunk = order[place]
                have[device * width + (chunk >> shift)] |= 1 << (chunk & mask)
    return taken


@inlined
def fill_window(
    order: Sequence[int], closed: Sequence[int], cursor: MutableSequence[int], window: MutableSequence[int],
    seen: MutableSequence[int], link: int, room: int, shut: int, queue: int, last: int, shift: int, mask: int,
) -> None:  # fmt: skip
    """Takes what is closed out of the window of a link, and fills it up from the source's order.

    room: chunks of a window. shut: where the set of the target begins in `closed`. queue: where the chunks of the
    source begin in `order`; last: how many it has.
    """
    base = link * room
    kept = 0
    for place in range(base, base + seen[link]):
        chunk = window[place]
        if closed[shut + (chunk >> shift)] >> (chunk & mask) & 1 == 0:
            window[base + kept] = chunk
            kept += 1
    at = cursor[link]
    while kept < room and at < last:
        chunk = order[queue + at]
        at += 1
        if closed[shut + (chunk >> shift)] >> (chunk & mask) & 1 == 0:
            window[base + kept] = chunk
            kept += 1
    cursor[link] = at
    seen[link] = kept
