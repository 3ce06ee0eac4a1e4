"""Earliest-arrival search (PCCL 4.2) where every transfer takes one step.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py). The steps at which a link is
free are a set: bit `step & mask` of word `step >> shift` of the link is 1. Compiled code has words of 64 bits, plain
Python one word of any number of bits for each link.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

from collc.kernels.compiled import trailing_zeros

NEVER = 1 << 29
"""More steps than any schedule takes: the distance where no path leads."""

WORK = 6
"""`work[0]` of `plan_by_steps` that takes plain Python about a microsecond."""

DEVICE_WORK, LINK_WORK, TRANSFER_WORK = 6, 3, 3
"""Work for a device that a search visits, a link whose free step is looked up, and a planned transfer; every device
from which a search begins is 1.
"""


class StepNetwork(NamedTuple):
    """Links, numbered by source: the links out of device u are offsets[u] .. offsets[u + 1] - 1.

    number: of each link in the network. heads, tails: where each link ends and begins. to[row][device]: steps from a
    device to a target, NEVER where no path leads. row_of: the row of each device that is a target. nearer_offsets,
    nearer: links that the search tries out of device u if only hops that come nearer to target row r are allowed, CSR
    at r * stride + u; they may include others, which the search skips. farthest: the largest distance in `to`.
    """

    offsets: Sequence[int]
    number: Sequence[int]
    heads: Sequence[int]
    tails: Sequence[int]
    to: Sequence[Any]
    row_of: Sequence[int]
    links: Sequence[int]
    nearer_offsets: Sequence[int]
    nearer: Sequence[int]
    stride: int
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

    words, shift, mask: of the sets of free steps. room: steps that the tables hold. free: the sets, one link after
    another. first_free: for each link, words before this one are empty. table: step-by-link table, flat, with the chunk
    at step * links + link.
    """

    words: int
    shift: int
    mask: int
    room: int
    free: MutableSequence[int]
    first_free: MutableSequence[int]
    table: MutableSequence[int]


class StepScratch(NamedTuple):
    """Memory of the search; all by device but the last two.

    owner: the condition whose tree the device is in. since: when it got that chunk. tree: the devices of the tree.
    arrival: when the search reaches it, plus the offset of that search, so that what earlier searches wrote is larger.
    via: over which link. entry_device, entry_below: entries of stacks. stack: the top entry of each stack.
    filled: words of `shift` bits, those of stacks that have entries are 1.
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

    last: the last step that is used so far. offset: of the last search, 0 at first. non_minimal: a target at most so
    many steps away is reached over any hops, others over hops that come nearer. work: its first entry grows by the
    work that was done, WORK for about a microsecond.
    Returns the first position that is not planned, and `last` and `offset` after it.
    """
    links, words, shift, mask = len(network.heads), tables.words, tables.shift, tables.mask
    free, first_free, table = tables.free, tables.first_free, tables.table
    owner, since, tree, arrival, via = scratch.owner, scratch.since, scratch.tree, scratch.arrival, scratch.via
    tails, number, devices = network.tails, network.number, len(network.offsets) - 1
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
            tree[count] = device
            count += 1
            owner[device] = condition
            since[device] = 0
        for i in range(conditions.wanting_offsets[condition], conditions.wanting_offsets[condition + 1]):
            device = conditions.wanting[i]
            if owner[device] == condition:
                continue
            offset -= NEVER
            work[0] += count + _search(
                count, device, conditions.tie_seeds[condition], non_minimal, offset, network, tables, scratch
            )
            while owner[device] != condition:
                work[0] += TRANSFER_WORK
                link, step = via[device], arrival[device] - offset - 1
                word = link * words + (step >> shift)
                free[word] ^= 1 << (step & mask)
                if free[word] == 0:
                    while first_free[link] < words and free[link * words + first_free[link]] == 0:
                        first_free[link] += 1
                table[step * links + number[link]] = conditions.chunk[condition]
                if step > last:
                    last = step
                owner[device] = condition
                since[device] = step + 1
                tree[count] = device
                count += 1
                device = tails[link]
    return position, last, offset


def _search(  # noqa: C901, PLR0912, PLR0915 - one loop, since in plain Python each call costs as much as its work
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
    words, shift, mask, _room, free, first_free, _table = tables
    _owner, since, _tree, arrivals, via, entry_device, entry_below, stack, filled = scratch
    row = network.row_of[target]
    heads, left = network.heads, network.to[row]
    nearest, entries, lowest, top = _begin(count, left, offset, shift, mask, scratch)
    any_hop = nearest <= non_minimal
    offsets, links, start = network.nearer_offsets, network.nearer, network.stride * row
    if any_hop:
        offsets, links, start = network.offsets, network.links, 0
    best, work = NEVER, 0
    word = lowest >> shift
    while word <= top >> shift:
        bits = filled[word]
        if bits == 0:
            word += 1
            continue
        rank = (word << shift) + trailing_zeros(bits)
        if rank >= best:
            break
        entry = stack[rank]
        device = entry_device[entry]
        stack[rank] = entry_below[entry]
        if entry_below[entry] < 0:
            filled[word] = bits & (bits - 1)
        time = arrivals[device] - offset
        if time == 0:
            time = since[device]
        here = left[device]
        if time + here != rank:
            continue
        low, high, turn, work = offsets[start + device], offsets[start + device + 1], 1, work + DEVICE_WORK
        if tie_seed >> (device & 31) & 1:
            low, high, turn = high - 1, low - 1, -1
        cell, bit, soonest = time >> shift, time & mask, offset + time + 1
        for i in range(low, high, turn):
            link = links[i]
            head = heads[link]
            there = left[head]
            if arrivals[head] <= soonest or time + 1 + there >= best or (there >= here and not any_hop):
                continue
            arrival, work = time + 1, work + LINK_WORK
            gaps = free[link * words + cell] >> bit
            if gaps & 1 == 0:
                if gaps:
                    arrival += trailing_zeros(gaps)
                else:
                    arrival = _next_free(free, max(first_free[link], cell + 1), link * words, words, shift) + 1
                if arrival + there >= best or arrival + offset >= arrivals[head]:
                    continue
            arrivals[head], via[head] = arrival + offset, link
            if head == target:
                best = arrival
                continue
            rank = arrival + there
            bits, flag = filled[rank >> shift], 1 << (rank & mask)
            entry_device[entries] = head
            entry_below[entries] = stack[rank] if bits & flag else -1
            stack[rank] = entries
            filled[rank >> shift] = bits | flag
            entries += 1
            if rank > top:
                top = rank
    for i in range(word, (top >> shift) + 1):
        filled[i] = 0
    return work


def _begin(
    count: int, left: Sequence[int], offset: int, shift: int, mask: int, scratch: StepScratch
) -> tuple[int, int, int, int]:
    """Puts the tree on the stacks; returns the least distance of any device, entries used, lowest and highest stack."""
    _owner, since, tree, arrival, _via, entry_device, entry_below, stack, filled = scratch
    nearest = lowest = NEVER
    entries = top = 0
    for i in range(count):
        device = tree[i]
        here = left[device]
        arrival[device] = offset  # nothing arrives earlier, so the tree is not reached again
        if here < NEVER:
            rank = since[device] + here
            bits, flag = filled[rank >> shift], 1 << (rank & mask)
            entry_device[entries] = device
            entry_below[entries] = stack[rank] if bits & flag else -1
            stack[rank] = entries
            filled[rank >> shift] = bits | flag
            entries += 1
            if here < nearest:
                nearest = here
            if rank > top:
                top = rank
            if rank < lowest:
                lowest = rank
    return nearest, entries, lowest, top


def _next_free(free: Sequence[int], word: int, start: int, words: int, shift: int) -> int:
    """The first free step of a link from some word on; its words begin at `start`."""
    while word < words and free[start + word] == 0:
        word += 1
    return (word << shift) + (trailing_zeros(free[start + word]) if word < words else 0)
