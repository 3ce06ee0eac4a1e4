"""Earliest-arrival search (PCCL 4.2) in which every transfer takes one step.

For Numba on arrays (collc/kernels/compiled.py); collc/kernels/pccl_plain_steps.py is the same in plain Python. The
steps at which a link is free are a set: bit `step & MASK` of word `step >> SHIFT` of the link is 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

from collc.kernels.compiled import inlined, trailing_zeros

NEVER = 1 << 29
"""More steps than any schedule takes: the distance where no path leads."""

SHIFT, MASK = 6, 63
"""Words have 64 bits."""

WORK = 6
"""Work that takes plain Python about a microsecond."""

DEVICE_WORK, LINK_WORK, TRANSFER_WORK = 6, 3, 3
"""Work for a device that a search visits, a link whose free step is looked up, and a planned transfer; every device
from which a search begins is 1.
"""


class StepNetwork(NamedTuple):
    """Links, numbered by source: the links out of device u are offsets[u] .. offsets[u + 1] - 1.

    number: of each link in the network. heads, tails: where each link ends and begins. to[row][device]: steps from a
    device to a target, NEVER where no path leads. row_of: the row of each device that is a target. farthest: the
    largest distance in `to`.
    """

    offsets: Sequence[int]
    number: Sequence[int]
    heads: Sequence[int]
    tails: Sequence[int]
    to: Sequence[Any]
    row_of: Sequence[int]
    farthest: int


class StepConditions(NamedTuple):
    """Who holds each chunk and who wants it, CSR by condition; those who want it nearest first.

    chunk: of each condition. tie_seeds: bits that decide, by device, whether its links are tried in reverse order.
    """

    chunk: Sequence[int]
    holder_offsets: Sequence[int]
    holders: Sequence[int]
    wanting_offsets: Sequence[int]
    wanting: Sequence[int]
    tie_seeds: Sequence[int]


class StepTables(NamedTuple):
    """What is planned.

    words: of each set of free steps. room: steps that the tables hold. free: the sets, one link after another.
    first_free: for each link, words before this one are empty. table: step-by-link table, flat, with the chunk at
    step * links + link.
    """

    words: int
    room: int
    free: MutableSequence[int]
    first_free: MutableSequence[int]
    table: MutableSequence[int]


class StepScratch(NamedTuple):
    """Memory of the search; all by device but the last two.

    owner: the condition whose tree the device is in. since: when it got that chunk. tree: the devices of the tree.
    arrival: when the search reaches it, plus the offset of that search, so that what earlier searches wrote is larger.
    via: over which link. entry_device, entry_below: entries of stacks. stack: the top entry of each stack.
    filled: bits of words, those of stacks that have entries are 1.
    """

    owner: MutableSequence[int]
    since: MutableSequence[int]
    tree: MutableSequence[int]
    arrival: MutableSequence[int]
    via: MutableSequence[int]
    entry_device: MutableSequence[int]
    entry_below: MutableSequence[int]
    stack: MutableSequence[int]
    filled: MutableSequence[int]


def plan_by_steps(
    order: Sequence[int],
    position: int,
    last: int,
    offset: int,
    non_minimal: int,
    network: StepNetwork,
    conditions: StepConditions,
    tables: StepTables,
    scratch: StepScratch,
    work: MutableSequence[int],
) -> tuple[int, int, int]:
    """Plans the conditions order[position:] in that order, as far as the room of the tables is sure to do.

    last: the last step that is used so far. offset: of the last search, 0 at first. non_minimal: a target at most this
    many steps away is reached over any hops, others over hops that come nearer. work: its first entry grows by the
    work that was done, WORK for about a microsecond.
    Returns the first position that is not planned, and `last` and `offset` after it.
    """
    devices = len(network.offsets) - 1
    while position < len(order):
        condition = order[position]
        wanting = conditions.wanting_offsets[condition + 1] - conditions.wanting_offsets[condition]
        # After the last step all links are free, and a tree has each device once, which bounds what the tree takes.
        if last + min(devices, wanting * network.farthest) + 2 >= tables.room:
            break
        position += 1
        count = 0
        for i in range(conditions.holder_offsets[condition], conditions.holder_offsets[condition + 1]):
            device = conditions.holders[i]
            scratch.tree[count] = device
            count += 1
            scratch.owner[device] = condition
            scratch.since[device] = 0
        for i in range(conditions.wanting_offsets[condition], conditions.wanting_offsets[condition + 1]):
            target = conditions.wanting[i]
            if scratch.owner[target] == condition:
                continue
            offset -= NEVER
            work[0] += count + _search(
                count, target, conditions.tie_seeds[condition], non_minimal, offset, network, tables, scratch
            )
            last = max(last, scratch.arrival[target] - offset - 1)
            grown = _taken_path(count, target, condition, conditions.chunk[condition], offset, network, tables, scratch)
            work[0] += TRANSFER_WORK * (grown - count)
            count = grown
    return position, last, offset


@inlined
def _taken_path(
    count: int,
    device: int,
    condition: int,
    chunk: int,
    offset: int,
    network: StepNetwork,
    tables: StepTables,
    scratch: StepScratch,
) -> int:
    """Takes the links of the path that a search has found to a device, and adds its devices to the tree of `count`;
    how many that has then.
    """
    links, words, free, first_free = len(network.heads), tables.words, tables.free, tables.first_free
    while scratch.owner[device] != condition:
        link, step = scratch.via[device], scratch.arrival[device] - offset - 1
        word = link * words + (step >> SHIFT)
        free[word] ^= 1 << (step & MASK)
        if free[word] == 0:
            while first_free[link] < words and free[link * words + first_free[link]] == 0:
                first_free[link] += 1
        tables.table[step * links + network.number[link]] = chunk
        scratch.owner[device] = condition
        scratch.since[device] = step + 1
        scratch.tree[count] = device
        count += 1
        device = network.tails[link]
    return count


def _search(
    count: int,
    target: int,
    tie_seed: int,
    non_minimal: int,
    offset: int,
    network: StepNetwork,
    tables: StepTables,
    scratch: StepScratch,
) -> int:
    """Finds the path of earliest arrival from the first `count` devices of the tree to the target, by A*.

    Devices lie on stacks, one for each step at which the target may be reached over them at best. Fills arrival and
    via. Returns the work done.
    """
    arrivals, filled, left = scratch.arrival, scratch.filled, network.to[network.row_of[target]]
    nearest, entries, lowest, top = _begin(count, left, offset, scratch)
    best, work = NEVER, 0
    word = lowest >> SHIFT
    while word <= top >> SHIFT:
        if filled[word] == 0:
            word += 1
            continue
        rank = (word << SHIFT) + trailing_zeros(filled[word])
        if rank >= best:
            break
        device = _taken(rank, scratch)
        time = arrivals[device] - offset
        if time == 0:
            time = scratch.since[device]
        here = left[device]
        if time + here != rank:
            continue
        low, high, turn, work = network.offsets[device], network.offsets[device + 1], 1, work + DEVICE_WORK
        if tie_seed >> (device & 31) & 1:
            low, high, turn = high - 1, low - 1, -1
        for link in range(low, high, turn):
            head = network.heads[link]
            there = left[head]
            if arrivals[head] <= offset + time + 1 or time + 1 + there >= best:
                continue
            if there >= here and nearest > non_minimal:
                continue
            arrival, work = _next_free(link, time, tables) + 1, work + LINK_WORK
            if arrival + there >= best or arrival + offset >= arrivals[head]:
                continue
            arrivals[head], scratch.via[head] = arrival + offset, link
            if head == target:
                best = arrival
                continue
            _put(head, arrival + there, entries, scratch)
            entries, top = entries + 1, max(top, arrival + there)
    for i in range(word, (top >> SHIFT) + 1):
        filled[i] = 0
    return work


def _begin(count: int, left: Sequence[int], offset: int, scratch: StepScratch) -> tuple[int, int, int, int]:
    """Puts the tree on the stacks; returns the least distance of any device, entries used, lowest and highest stack."""
    nearest = lowest = NEVER
    entries = top = 0
    for i in range(count):
        device = scratch.tree[i]
        here = left[device]
        scratch.arrival[device] = offset  # nothing arrives earlier, so the tree is not reached again
        if here < NEVER:
            rank = scratch.since[device] + here
            _put(device, rank, entries, scratch)
            entries += 1
            nearest, lowest, top = min(nearest, here), min(lowest, rank), max(top, rank)
    return nearest, entries, lowest, top


@inlined
def _put(device: int, rank: int, entry: int, scratch: StepScratch) -> None:
    """Puts a device on the stack of a rank, as a new entry."""
    bits, flag = scratch.filled[rank >> SHIFT], 1 << (rank & MASK)
    scratch.entry_device[entry] = device
    scratch.entry_below[entry] = scratch.stack[rank] if bits & flag else -1
    scratch.stack[rank] = entry
    scratch.filled[rank >> SHIFT] = bits | flag


@inlined
def _taken(rank: int, scratch: StepScratch) -> int:
    """Takes the last device off the stack of the lowest rank."""
    entry = scratch.stack[rank]
    below = scratch.entry_below[entry]
    scratch.stack[rank] = below
    if below < 0:
        bits = scratch.filled[rank >> SHIFT]
        scratch.filled[rank >> SHIFT] = bits & (bits - 1)
    return scratch.entry_device[entry]


@inlined
def _next_free(link: int, time: int, tables: StepTables) -> int:
    """The first free step of a link from some time on."""
    free, word = tables.free, time >> SHIFT
    start = link * tables.words
    gaps = free[start + word] >> (time & MASK)
    if gaps:
        return time + trailing_zeros(gaps)
    word = max(tables.first_free[link], word + 1)
    while word < tables.words and free[start + word] == 0:
        word += 1
    return (word << SHIFT) + (trailing_zeros(free[start + word]) if word < tables.words else 0)
