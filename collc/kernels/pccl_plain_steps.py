"""Earliest-arrival search in which every transfer takes one step, for plain Python.

It finds what `plan_by_steps` (collc/kernels/pccl_steps.py) finds compiled, and counts the same work, in about half the
time that plain Python takes for that code: a heap, and bytes that are searched, take the place of its sets of bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from collc.kernels.pccl_steps import DEVICE_WORK, LINK_WORK, NEVER, TRANSFER_WORK, StepConditions, StepNetwork

Turned = tuple[list[int], list[int]]
"""Some links, as the network numbers them and backwards."""


CELL_BITS = 40
"""Bits of a cell of the step-by-link table, below the bits of its chunk."""


class PlainTables(NamedTuple):
    """What is planned, and memory of the search.

    free: a byte for each step of a link, 1 if the link is free; as many steps for each. planned: for each transfer, its
    chunk << CELL_BITS | step * links + link, with links as in the network of the search. owner: the condition whose
    tree a device is in. since: when it got that chunk. via: over which link the search reaches it. every: the links out
    of a device. nearer[row][device]: those that come nearer to target row r, None until a search needs them. bits: of
    the number of a device, or of an entry of the heap.
    """

    free: Sequence[bytearray]
    planned: list[int]
    owner: list[int]
    since: list[int]
    via: list[int]
    every: Sequence[Turned]
    nearer: Sequence[list[Turned | None]]
    bits: int


def plain_tables(network: StepNetwork) -> PlainTables:
    """Empty tables; `plan_in_plain_steps` makes the room for steps."""
    links, devices = len(network.heads), len(network.offsets) - 1
    ranges = [range(network.offsets[device], network.offsets[device + 1]) for device in range(devices)]
    every = [(list(out), list(reversed(out))) for out in ranges]
    nearer: list[list[Turned | None]] = [[None] * devices for _ in network.to]
    free, memory = [bytearray() for _ in range(links)], ([-1] * devices, [0] * devices, [0] * devices)
    return PlainTables(free, [], *memory, every, nearer, (links + devices).bit_length())


def plan_in_plain_steps(
    order: Sequence[int],
    last: int,
    reach: int,
    non_minimal: int,
    network: StepNetwork,
    conditions: StepConditions,
    tables: PlainTables,
) -> tuple[int, int]:
    """Plans conditions in their order; returns the last step that is used, and the work, WORK for about a microsecond.

    last: the last step that is used so far, -1 for none. reach: the most steps that a condition takes after that.
    non_minimal: as in `plan_by_steps`.
    """
    wanting_offsets, holder_offsets = conditions.wanting_offsets, conditions.holder_offsets
    free, planned, owner, since, via, *_ = tables
    tails, links = network.tails, len(network.heads)
    work, unreached = 0, [NEVER] * len(owner)
    for condition in order:
        if len(free[0]) <= last + reach:
            _make_room(free, last + reach)
        tree = list(conditions.holders[holder_offsets[condition] : holder_offsets[condition + 1]])
        for device in tree:
            owner[device] = condition
            since[device] = 0
        chunk, tie_seed = conditions.chunk[condition] << CELL_BITS, conditions.tie_seeds[condition]
        for target in conditions.wanting[wanting_offsets[condition] : wanting_offsets[condition + 1]]:
            if owner[target] == condition:
                continue
            arrivals, device, held = unreached.copy(), target, len(tree)
            work += held + _search(tree, target, tie_seed, non_minimal, arrivals, network, tables)
            last = max(last, arrivals[target] - 1)
            while owner[device] != condition:
                link, arrival = via[device], arrivals[device]
                step = arrival - 1
                free[link][step] = 0
                planned.append(chunk + step * links + link)
                owner[device] = condition
                since[device] = arrival
                tree.append(device)
                device = tails[link]
            work += TRANSFER_WORK * (len(tree) - held)
    return last, work


def _make_room(free: Sequence[bytearray], step: int) -> None:
    """Lets every link have that step, and as many again, so that this is seldom needed."""
    more = b"\1" * (2 * (step + 1) - len(free[0]))
    for i in range(len(free)):
        free[i].extend(more)


def _search(  # noqa: C901, PLR0912, PLR0915 - one loop, since in plain Python each call costs as much as its work
    tree: list[int],
    target: int,
    tie_seed: int,
    non_minimal: int,
    arrivals: list[int],
    network: StepNetwork,
    tables: PlainTables,
) -> int:
    """Finds the path of earliest arrival from the tree to the target, by A*; fills arrivals and via, returns the work.

    The heap orders devices by when the target may be reached over them at best, the last that came first.
    """
    free, _, _, since, via, known, nearer, bits = tables
    row = network.row_of[target]
    heads, left = network.heads, network.to[row]
    heap: list[int] = []
    same: list[int] = []
    one, shift, nearest = 1 << bits, 2 * bits, NEVER
    age, low = 1 << shift, one - 1
    for device in tree:
        arrivals[device] = 0  # nothing arrives earlier, so the tree is not reached again
        here = left[device]
        if here < NEVER:
            age -= one
            heappush(heap, since[device] + here << shift | age | device)
            if here < nearest:
                nearest = here
    if nearest > non_minimal:
        known = nearer[row]
    rank, best, work = since[tree[0]] + left[tree[0]], NEVER, 0
    if len(tree) == 1:
        heap, same = [], tree.copy()
    while same or heap:
        if same:
            device = same.pop()
        else:
            key = heappop(heap)
            rank, device = key >> shift, key & low
        if rank >= best:
            break
        time, here = arrivals[device] or since[device], left[device]
        if time + here != rank:
            continue
        soonest, work, links = time + 1, work + DEVICE_WORK, known[device]
        if links is None:
            forward = [link for link in tables.every[device][0] if left[heads[link]] < here]
            links = nearer[row][device] = forward, forward[::-1]
        for link in links[tie_seed >> (device & 31) & 1]:
            head = heads[link]
            reached = arrivals[head]
            if reached <= soonest:
                continue
            there = left[head]
            if soonest + there >= best:
                continue
            work += LINK_WORK
            arrival = free[link].find(1, time) + 1
            least = arrival + there
            if arrival >= reached or least >= best:
                continue
            arrivals[head] = arrival
            via[head] = link
            if there == 0:
                best = arrival
            elif least == rank:
                same.append(head)
            else:
                age -= one
                heappush(heap, least << shift | age | head)
    return work
