"""Earliest-arrival search (PCCL 4.2) in exact time, for links and chunks of any kind and for switches with limits.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py); collc/kernels/pccl_timelines.py
holds when links and buffer slots are occupied. Times are picoseconds or, if all transfers take equal time, steps.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from heapq import heappop, heappush

from collc.kernels.compiled import compiled_as, without_references
from collc.kernels.pccl_timelines import (
    Buffers,
    Links,
    PlannedTransfers,
    full_until,
    has_room,
    last_free,
    next_free,
    occupy,
    record,
    reserve,
    with_room,
)
from collc.kernels.row_heap import clear_rows

UNREACHABLE = 1 << 60

WORK = 4
"""`work[0]` of `plan_by_times` that takes plain Python about a microsecond: 1 for each device from which a search
begins or that it visits, each link out of it, each look-up of a free time or of slots, each departure that is compared,
and each planned transfer.
"""


TimedNetwork = namedtuple(
    "TimedNetwork",
    "offsets links tails heads busy total to row_of multicast keeps slots npus inverted",
)
"""A network, and how long chunks of each size take on it.

offsets, links: links out of each device (CSR). tails, heads: where each link begins and ends. busy[size][link],
total[size][link]: how long a chunk occupies a link, and until it arrives. to[size][row][device]: from a device to a
target, UNREACHABLE where no path leads. row_of: the row of each device that is a target. multicast, keeps, slots:
of each switch, whether it sends a chunk over several links at once, whether a chunk that is in it may leave more
than once, and its buffer slots, -1 for no limit. npus: devices below this number are NPUs, others switches.
inverted: the schedule will run backwards, so a slot is occupied from when the link of the arrival is free to when
the departure begins.
"""


TimedConditions = namedtuple("TimedConditions", "size release holder_offsets holders wanting_offsets wanting tie_seeds")
"""Who holds each chunk and who wants it, CSR by condition; those who want it nearest first.

size: of each chunk, as the network numbers sizes. release: when the holders have it. tie_seeds: bits that reorder
devices of equal least arrival.
"""


TimedScratch = namedtuple(
    "TimedScratch",
    "owner since tree visitor left_until last_until departure avoided not_before search arrival via start path "
    "begun left before heap",
)
"""Memory of the search, by device; all -1 at first.

owner: the condition whose tree the device is in; since: when it got that chunk; tree: the devices of the tree.
visitor: the last condition whose chunk went through a switch; left_until, last_until: when its last stay ended, and
the latest end of any stay; departure: its last departure, the number of an entry in a list.
avoided: the last target for which a switch had to be entered late, counted; not_before: how late.
search: the last search that reached the device; arrival: when, over link via, which the chunk enters at start.
path: links of a path, the last first.
begun, left, before: of each departure from a switch its start and end, and the number of the one before, 0: none.
heap: devices to look at: (least arrival at the target, time left to it, device ^ seed).
"""


@compiled_as(clear_rows)
def _clear(heap: list[tuple[int, int, int]]) -> None:
    heap.clear()


def plan_by_times(
    order: Sequence[int],
    non_minimal: Sequence[int],
    network: TimedNetwork,
    conditions: TimedConditions,
    links: Links,
    buffers: Buffers,
    planned: PlannedTransfers,
    scratch: TimedScratch,
    work: MutableSequence[int],
) -> tuple[Links, Buffers, PlannedTransfers]:
    """Plans the conditions in order, around what is reserved; returns links, buffers and planned transfers.

    work: what was done, to which this adds, and at how much no further target is looked for; then how many searches and
    targets there were, as the scratch memory knows them.
    non_minimal: for each size, how near a target must be to be reached over any hops; others are reached over hops
    that come nearer.
    """
    owner, since, tree = scratch.owner, scratch.since, scratch.tree
    bits = 0
    while len(network.offsets) - 1 >> bits:
        bits += 1
    search, targets = work[2], work[3]
    for condition in order:
        size = conditions.size[condition]
        tie_seed = conditions.tie_seeds[condition] & ((1 << bits) - 1)
        count = departures = 0
        for i in range(conditions.holder_offsets[condition], conditions.holder_offsets[condition + 1]):
            device = conditions.holders[i]
            tree[count] = device
            count += 1
            owner[device] = condition
            since[device] = conditions.release[condition]
        for i in range(conditions.wanting_offsets[condition], conditions.wanting_offsets[condition + 1]):
            target = conditions.wanting[i]
            if owner[target] == condition:
                continue
            if work[0] >= work[1]:
                return links, buffers, planned
            targets += 1
            while True:
                search += 1
                found, later = _search(
                    condition, size, target, tie_seed, non_minimal[size], count, search, targets,
                    network, links, buffers, scratch, work,
                )  # fmt: skip
                if found == target:
                    break
                if found < 0:
                    raise OverflowError("a chunk arrives later than UNREACHABLE")
                # Every path is blocked at a switch: give the chunk up there, or enter it when a slot is free.
                if owner[found] == condition:
                    owner[found] = -1
                    count = _drop(tree, count, found)
                else:
                    scratch.avoided[found] = targets
                    scratch.not_before[found] = later
            hops = _trace_path(condition, size, target, network, links, scratch)
            work[0] += hops
            if not has_room(links, buffers, planned, hops, scratch.arrival[target]):
                links, buffers, planned = with_room(links, buffers, planned, hops, scratch.arrival[target])
            count, departures = _book(
                condition, size, hops, count, departures, network, links, buffers, planned, scratch
            )
    work[2], work[3] = search, targets
    return links, buffers, planned


@without_references
def _search(  # noqa: C901, PLR0912, PLR0915 - one loop, since in plain Python each call costs as much as its work
    condition: int, size: int, target: int, tie_seed: int, non_minimal: int, count: int, search: int, targets: int,
    network: TimedNetwork, links: Links, buffers: Buffers, scratch: TimedScratch, work: MutableSequence[int],
) -> tuple[int, int]:  # fmt: skip
    """Looks for the path of earliest arrival by A*: (target, 0), or a switch that is full and until when.

    count: devices of the tree. search, targets: the numbers of this search, and of its target.
    """
    offsets, out, _tails, heads, busy, totals, to, row_of, multicast, keeps, slots, npus, _inverted = network
    (
        owner, since, tree, visitor, _, last_until, departure, avoided, not_before, searched, arrivals, via, starts,
        _, _, _, _, heap,
    ) = scratch  # fmt: skip
    left, length, total = to[size][row_of[target]], busy[size], totals[size]
    _clear(heap)
    entries, nearest, spent = 0, UNREACHABLE, count + 1
    for i in range(count):
        device = tree[i]
        searched[device] = search
        arrivals[device] = since[device]
        nearest = min(nearest, left[device])
        if left[device] < UNREACHABLE:
            entries += 1
            heappush(heap, (since[device] + left[device], left[device], device ^ tie_seed))
    any_hop, blocked, later, best = nearest <= non_minimal, -1, 0, UNREACHABLE
    while entries > 0:
        least, here, key = heappop(heap)
        entries -= 1
        if least >= best:
            break
        device = key ^ tie_seed
        time = arrivals[device]
        if time + here < least:
            continue
        full, spent = UNREACHABLE, spent + 1 + offsets[device + 1] - offsets[device]
        farthest = UNREACHABLE if any_hop else here
        for i in range(offsets[device], offsets[device + 1]):
            link = out[i]
            head = heads[link]
            there = left[head]
            if there >= farthest or owner[head] == condition:
                continue
            arrival = time + total[link]
            if arrival + there >= best or (searched[head] == search and arrival >= arrivals[head]):
                continue
            earliest, spent = time, spent + 1
            if head >= npus:
                if avoided[head] == targets:
                    earliest = max(earliest, not_before[head] - total[link])
                if visitor[head] == condition and not keeps[head - npus]:
                    earliest = max(earliest, last_until[head] - total[link])
            start = next_free(links, link, earliest, length[link])
            if device >= npus:
                switch = device - npus
                if visitor[device] == condition and not multicast[switch]:
                    start = _between_departures(links, link, start, length[link], departure[device], scratch, work)
                if slots[switch] >= 0:
                    spent += 1
                    until = _full_until(condition, device, start, length, total, link, network, links, buffers, scratch)
                    if until >= 0:
                        full = min(full, until)
                        continue
            arrival = start + total[link]
            if arrival + there >= best or (searched[head] == search and arrival >= arrivals[head]):
                continue
            searched[head], arrivals[head] = search, arrival
            via[head], starts[head] = link, start
            if there == 0:
                best = arrival
            else:
                entries += 1
                heappush(heap, (arrival + there, there, head ^ tie_seed))
        if full < UNREACHABLE:
            blocked, later = device, full
    work[0] += spent
    return (target, 0) if best < UNREACHABLE else (blocked, later)


@without_references
def _between_departures(
    links: Links, link: int, start: int, length: int, departure: int, scratch: TimedScratch,
    work: MutableSequence[int],
) -> int:  # fmt: skip
    """The first start from `start` on at which a switch does not send the chunk over another link."""
    moved = True
    while moved:
        moved = False
        at = departure
        while at > 0:
            low, high, at = scratch.begun[at], scratch.left[at], scratch.before[at]
            work[0] += 1
            if start < high and low < start + length:
                start = next_free(links, link, high, length)
                moved = True
    return start


@without_references
def _full_until(
    condition: int, device: int, start: int, length: Sequence[int], total: Sequence[int], link: int,
    network: TimedNetwork, links: Links, buffers: Buffers, scratch: TimedScratch,
) -> int:  # fmt: skip
    """-1 if a switch has a slot for the chunk until it departs at `start`; else when the chunk may arrive first."""
    low, least, tail = scratch.left_until[device], length[link], 0
    high = start if network.inverted else start + length[link]
    if scratch.owner[device] != condition:
        came, entered = scratch.via[device], scratch.start[device]
        low = entered + total[came]
        if network.tails[came] < network.npus:
            low = last_free(links, came, entered, start - total[came], length[came]) + total[came]
        if network.inverted:
            low, high, least, tail = low - length[came], start, length[came], length[came]
    if low >= high:
        return -1
    until = full_until(buffers, device - network.npus, low, high, least)
    return until + tail if until >= 0 else -1


@without_references
def _trace_path(
    condition: int, size: int, target: int, network: TimedNetwork, links: Links, scratch: TimedScratch
) -> int:
    """Writes the links to the target to `path`, the last first; a hop from an NPU into a switch with a limit is as late
    as possible. Returns how many links these are.
    """
    tails, busy, total, path, hops = network.tails, network.busy[size], network.total[size], scratch.path, 1
    path[0] = scratch.via[target]
    device = tails[path[0]]
    start = scratch.start[target]
    while scratch.owner[device] != condition:
        link = scratch.via[device]
        if device >= network.npus and network.slots[device - network.npus] >= 0 and tails[link] < network.npus:
            scratch.start[device] = last_free(links, link, scratch.start[device], start - total[link], busy[link])
        start = scratch.start[device]
        path[hops] = link
        hops += 1
        device = tails[link]
    return hops


@without_references
def _book(
    condition: int, size: int, hops: int, count: int, departures: int, network: TimedNetwork, links: Links,
    buffers: Buffers, planned: PlannedTransfers, scratch: TimedScratch,
) -> tuple[int, int]:  # fmt: skip
    """Reserves links and buffer slots for `path`, and adds its devices to the tree; how many that has then, and how
    many departures there are.
    """
    npus, busy, total = network.npus, network.busy[size], network.total[size]
    visitor, left_until, last_until = scratch.visitor, scratch.left_until, scratch.last_until
    came, entered = -1, 0
    for i in range(hops - 1, -1, -1):
        link = scratch.path[i]
        tail, head = network.tails[link], network.heads[link]
        start = scratch.start[head]
        end, arrival = start + busy[link], start + total[link]
        reserve(links, link, start, end)
        record(planned, condition, link, start)
        if tail >= npus:
            # Backwards, a departure is an arrival, and its slot is occupied from when it begins.
            low, high = left_until[tail], max(left_until[tail], start if network.inverted else end)
            left_until[tail] = high
            last_until[tail] = max(high, end, last_until[tail])
            departures += 1
            scratch.begun[departures], scratch.left[departures] = start, end
            scratch.before[departures], scratch.departure[tail] = scratch.departure[tail], departures
            if network.inverted and came >= 0:
                low, high = entered + total[came] - busy[came], start
            if network.slots[tail - npus] >= 0 and low < high:
                occupy(buffers, tail - npus, low, high)
        if head >= npus:
            if visitor[head] != condition:
                visitor[head] = condition
                last_until[head] = 0
                scratch.departure[head] = 0
            left_until[head] = arrival
            last_until[head] = max(arrival, last_until[head])
        if head < npus or network.keeps[head - npus]:
            scratch.owner[head] = condition
            scratch.since[head] = arrival
            scratch.tree[count] = head
            count += 1
        came, entered = link, start
    return count, departures


@without_references
def _drop(tree: MutableSequence[int], count: int, gone: int) -> int:
    """Takes a device out of the first `count` of a tree; how many are left."""
    kept = 0
    for i in range(count):
        if tree[i] != gone:
            tree[kept] = tree[i]
            kept += 1
    return kept
