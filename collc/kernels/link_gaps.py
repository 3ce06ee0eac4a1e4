"""When links are free beside the transfers of a plan, for kernels that repair it (plan_repair.py).

All transfers on a link take equally long, so a gap counts if a transfer fits in it. `low` and `high` are the begins and
ends of gaps, those of a link one behind the other, ascending; the last gap of a link has no end. `table` says of each
link where its gaps begin (0: nobody has asked for them yet), how many they are, for how many there is room, and which
of them was found last: the next search begins there, as chunks are sent in the order of their times.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence

from collc.kernels.compiled import without_references

Memory = MutableSequence[int]

NEVER = 1 << 62
"""Later than all."""

Layout = namedtuple(
    "Layout",
    "count present end moves near onwards tried width room mirror keys "
    "sizes strides index images class_of taken window class_bounds idle busy dropped_bounds dropped added_bounds added "
    "opposite weak alive steps number_of windows rank by_rank move_routes route_bounds route_class route_element "
    "nearest onward since parent target move_of "
    "chunk owner closed lack_bounds lack_element lack_message hold_bounds hold_element hold_since send_on begin_bounds "
    "begin_element lacks known fastest queue_at queue_end queue queued waiting left "
    "route links start table size low high",
)
"""Numbers, and where the arrays begin that are one behind the other in the memory of a kernel.

count: of elements. present: of links that are not missing, whose numbers are lower. end: of the plan. moves, near,
onwards: lengths of `steps`, `nearest` and `onward`. tried: how many moves are tried at first. width: links of a route
at most. room: places for gaps. mirror: a time, and `opposite` the opposite of each link: whatever takes a link takes
its opposite too, backwards in time from then on; -1 for none. keys: how many chunks some elements lack.

sizes, strides: of the axes. index: [axes * elements], of each element along each axis. images: [classes * elements],
the link to which each element takes the first one of each class. class_of, taken, window: of each link. class_bounds,
idle, busy: from when until when links of each class are idle in the plan, ascending, the last one without end (CSR).
dropped, added: starts on each link that are no longer, and that have been added, ascending (CSR). alive: of each
element, 0 if it is missing. weak: how much later what it sends counts than it arrives, so that others rather pass
chunks on; NEVER if it is to do so only if nobody else can.

steps, windows: of each move. number_of: the move of each step, -1 for none. rank, by_rank: the place of each move among
the fastest, and the move of each place. move_routes: the first route of each move, and the end. route_class,
route_element: the links of each route from element 0 (CSR).
nearest: the fastest moves. onward: those that are tried from who has got a chunk. since: [parts * elements], when each
has each chunk in the plan, -1 for never. parent, target, move_of: of each message.

Of chunks that some elements lack: chunk, owner; lack_element, lack_message: who lacks it, and the message that is lost
(CSR); closed: whether only those have it that got it otherwise than in the plan, which hold_element and hold_since list
(CSR). send_on: the move by which the only holder will send the chunk on, and begin_element: from where it may rather
come, if that delays nothing (CSR).

For one chunk, of each element: lacks, the message that it lacks or -1; known, since when it has got the chunk or -1;
fastest, the time of the fastest move to it from one that has got the chunk; queue_at, queue_end, the moves in `queue`
from it that are not offered yet. queued: how much of `queue` is in use. waiting: how many offers there are. left: how
many lack the chunk. route, links, start: of one route. table, size, low, high: of the
gaps; size: how many places are taken, more than there are if those were too few.
"""


@without_references
def _open_link(at: Layout, memory: Memory, link: int) -> None:
    """List the gaps of a link: its class is idle then, or something has been dropped; and nothing has been added."""
    number, taken = memory[at.class_of + link], memory[at.taken + link]
    k, last = memory[at.class_bounds + number], memory[at.class_bounds + number + 1]
    gone, gone_end = memory[at.dropped_bounds + link], memory[at.dropped_bounds + link + 1]
    new, new_end = memory[at.added_bounds + link], memory[at.added_bounds + link + 1]
    first = place = memory[at.size]
    memory[at.size] += 2 * (last - k + gone_end - gone + new_end - new) + 6
    if memory[at.size] > at.room:
        first, place, k, gone, new = 0, 0, last - 1, gone_end, new_end
    low = high = memory[at.idle + k] if gone == gone_end else min(memory[at.idle + k], memory[at.dropped + gone])
    while low < NEVER:
        if gone < gone_end and (k == last or memory[at.dropped + gone] < memory[at.idle + k]):
            begin = memory[at.dropped + gone]
            end = begin + taken
            gone += 1
        elif k < last:
            begin, end = memory[at.idle + k], memory[at.busy + k]
            k += 1
        else:
            begin, end = NEVER, NEVER
        if begin <= high < NEVER:
            high = end
            continue
        while new < new_end and memory[at.added + new] < high:
            if memory[at.added + new] - low >= taken:
                memory[at.low + place], memory[at.high + place] = low, memory[at.added + new]
                place += 1
            low = memory[at.added + new] + taken
            new += 1
        if high - low >= taken:
            memory[at.low + place], memory[at.high + place] = low, high
            place += 1
        low, high = begin, end
    memory[at.table + 4 * link], memory[at.table + 4 * link + 1] = first, place - first
    memory[at.table + 4 * link + 2] = 3 * (place - first) // 2 + 4
    if first:
        memory[at.size] = first + memory[at.table + 4 * link + 2]


@without_references
def _gap_at(at: Layout, memory: Memory, link: int, end: int) -> int:
    """The first gap of a link that does not end before `end`."""
    row = at.table + 4 * link
    first = memory[row]
    last = first + memory[row + 1] - 1
    middle, step = min(first + memory[row + 3], last), 1
    while first < last:
        if memory[at.high + middle] < end:
            first = middle + 1
            middle = min(first + step, (first + last) // 2)
        else:
            last = middle
            middle = max(last - step, (first + last) // 2)
        step *= 2
    memory[row + 3] = first - memory[row]
    return first


@without_references
def earliest_arrival(at: Layout, memory: Memory, hops: int, ready: int) -> int:
    """Writes the earliest starts on the links of a route, one after another; returns the arrival."""
    arrival = ready
    for hop in range(hops):
        link = memory[at.links + hop]
        if memory[at.table + 4 * link] == 0:
            _open_link(at, memory, link)
        gap = _gap_at(at, memory, link, arrival + memory[at.taken + link])
        start = max(arrival, memory[at.low + gap])
        memory[at.start + hop] = start
        arrival = start + memory[at.window + link]
    return arrival


@without_references
def reserve_links(at: Layout, memory: Memory, hops: int) -> None:
    """Take the links of a route, and their opposites if there is a mirror."""
    for hop in range(hops):
        link, start = memory[at.links + hop], memory[at.start + hop]
        _reserve(at, memory, link, start)
        if at.mirror >= 0:
            opposite = memory[at.opposite + link]
            if memory[at.table + 4 * opposite] == 0:
                _open_link(at, memory, opposite)
            _reserve(at, memory, opposite, at.mirror - start - memory[at.window + link])


@without_references
def _reserve(at: Layout, memory: Memory, link: int, start: int) -> None:
    """Take a link: what is left of the gap counts if a transfer fits in it."""
    taken, end = memory[at.taken + link], start + memory[at.taken + link]
    gap = _gap_at(at, memory, link, end)
    before, after = start - memory[at.low + gap] >= taken, memory[at.high + gap] - end >= taken
    if before and after:
        gap = _with_room(at, memory, link, gap)
        place = memory[at.table + 4 * link] + memory[at.table + 4 * link + 1]
        memory[at.table + 4 * link + 1] += 1
        while place > gap:
            memory[at.low + place] = memory[at.low + place - 1]
            memory[at.high + place] = memory[at.high + place - 1]
            place -= 1
        memory[at.high + gap], memory[at.low + gap + 1] = start, end
    elif before:
        memory[at.high + gap] = start
    elif after:
        memory[at.low + gap] = end
    else:
        memory[at.table + 4 * link + 1] -= 1
        for place in range(gap, memory[at.table + 4 * link] + memory[at.table + 4 * link + 1]):
            memory[at.low + place] = memory[at.low + place + 1]
            memory[at.high + place] = memory[at.high + place + 1]


@without_references
def _with_room(at: Layout, memory: Memory, link: int, gap: int) -> int:
    """Makes room for one more gap of a link; returns the number of a gap then."""
    first, size = memory[at.table + 4 * link], memory[at.table + 4 * link + 1]
    if size < memory[at.table + 4 * link + 2]:
        return gap
    start = memory[at.size]
    memory[at.size] += 2 * size + 4
    if memory[at.size] > at.room:
        memory[at.table + 4 * link + 1] = 0
        return gap
    memory[at.table + 4 * link], memory[at.table + 4 * link + 2] = start, 2 * size + 4
    for place in range(size):
        memory[at.low + start + place] = memory[at.low + first + place]
        memory[at.high + start + place] = memory[at.high + first + place]
    return gap - first + start
