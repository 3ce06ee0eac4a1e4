"""Tasks that wait for one another, and messages that queue at links, event by event.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py). A message takes its hops one
after another, all of it at a time; each link carries one message after another, in the order in which they reach it.

Events are (time, order, number) in a heap. number k: task k starts, or has taken the hops that `hop` says (a local
task: it is done); number -1 - l: link l is free. Events of one time happen in order of `order`, which is the rank of
the task (`ranked`), or counts the events as they are created, as ASTRA-sim does.

Nodes of traces in ASTRA-sim (not `ranked`) have more rules. A node that has all that it depends on is issued. A receive
is then done when its message arrives; if that has happened, by an event of its own. Nodes of one rank that one node
frees are issued in the order of iteration of a hash set of C++, as ASTRA-sim's feeder does. Compute nodes of one rank
that end together are done together, when the first of them is.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from collc.kernels.compiled import inline, without_references

Events = list[tuple[int, int, int]]

START, SENT, DONE = 0, 1, 2
"""Phases of a task that others wait for: it starts, its message has left the sender, it is done."""


COMPUTE, MESSAGE = range(-2, 0)
"""Nodes of traces that are no receives."""

BUCKETS: Final = (
    13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153, 2938679,
    5967347, 12117689,
)  # fmt: skip
"""How many buckets a hash set of libstdc++ has, one number after another as it grows; one element in each."""

TaskTable = namedtuple(
    "TaskTable", "duration hops link busy delay edges followers start_rank hop_rank parallel first id sender rank"
)
"""n tasks with H hops in all, on L links. Times in one unit, picoseconds or nanoseconds.

duration: [n], of a task without hops. hops: [n + 1], where the hops of each task begin. link, busy, delay: [H],
the link of a hop, how long the message occupies it, and how long it takes to its other end.
parallel: [L], the next of the links among which a message takes the one that is free first, in a circle; the link
itself if it is alone.
edges: [3 n + 1], followers: who waits for phase p of task k, from edges[3 k + p] on.
start_rank, hop_rank: [n], orders of the events of a task if `ranked`, each at least 0; [0] otherwise.
first: the tasks that are issued at the beginning, in order.
id, sender, rank: [n], of nodes of traces in ASTRA-sim: the id, the message of a receive, or COMPUTE or MESSAGE, and the
rank; [0] for other tasks.
"""


class TaskProgress(NamedTuple):
    """What has happened so far.

    waits: [n], the phases that a task still waits for. ready, asked: [n], the last of those that have happened, SENT
    left out in `asked`; `asked` is later when a task reached its current link. start, end: [n], -1 before.
    begin, taken: [H], when a message enters a link, and which. hop: [n], the hops that a task has taken after its next
    event, or while it waits for a link. free, freed_order: [L], time and order of the event that frees a link;
    expected: [L], 1 if that event is in the heap. first, last: [L], the queue of a link, -1: empty; behind: [n], who is
    next in the same queue. Links among which messages choose have one queue, that of the last in number.
    waited: [L], time that messages waited for a link. issued: [n], a stack of tasks to start now, the first of them on
    top; counters: [4], the number of events so far, of tasks on the stack, of tasks done and of events in the heap.
    Of traces: sizes, [ranks], numbers of BUCKETS; latest, [most buckets], -1: scratch; together, [a power of two above
    the number of compute nodes], -1: a hash table with the last of the compute nodes of a rank that end at one time.
    """

    waits: MutableSequence[int]
    ready: MutableSequence[int]
    asked: MutableSequence[int]
    start: MutableSequence[int]
    end: MutableSequence[int]
    begin: MutableSequence[int]
    taken: MutableSequence[int]
    hop: MutableSequence[int]
    free: MutableSequence[int]
    freed_order: MutableSequence[int]
    expected: MutableSequence[int]
    first: MutableSequence[int]
    last: MutableSequence[int]
    behind: MutableSequence[int]
    waited: MutableSequence[int]
    issued: MutableSequence[int]
    counters: MutableSequence[int]
    sizes: MutableSequence[int]
    latest: MutableSequence[int]
    together: MutableSequence[int]


@without_references
def run_tasks(table: TaskTable, progress: TaskProgress, events: Events, ranked: bool) -> int:
    """Runs all tasks that can run. Returns how many are done. events: an empty heap, an array has n + L + 1 rows."""
    duration, hops, link, parallel, sender = table.duration, table.hops, table.link, table.parallel, table.sender
    waits, asked, start, end, hop_of = progress.waits, progress.asked, progress.start, progress.end, progress.hop
    free, freed, last, counters = progress.free, progress.freed_order, progress.last, progress.counters
    traced = len(sender) > 0
    _begin(table, progress, events, ranked)
    now, order = 0, -1
    while counters[1] > 0 or counters[3] > 0:
        now, order, number = _next(table, progress, events, now, order)
        if number < 0:
            _serve(table, progress, events, -1 - number, now, ranked)
            continue
        hop = hop_of[number]
        if hop == 0:
            start[number] = now
            _release(table, progress, events, number, START, now, now, ranked)
        if hop < hops[number + 1] - hops[number]:
            on = _free_link(parallel, free, freed, link[hops[number] + hop], now, order)
            asked[number] = now if hop > 0 else asked[number]
            if on < 0 or last[_queue_of(parallel, on)] >= 0:
                _queue(table, progress, events, link[hops[number] + hop], number)
            else:
                _enter(table, progress, events, number, on, now, ranked)
        elif hop == 0 and (traced or duration[number] > 0):
            hop_of[number] = 1
            if waits[number] == 0 and not _joins(table, progress, number, now):
                _push(table, progress, events, now + duration[number], number, ranked)
        else:
            end[number] = now
            counters[2] += 1
            _finish(table, progress, events, number, now, ranked)
    return counters[2]


@inline
def _add(progress: TaskProgress, events: Events, time: int, order: int, number: int) -> None:
    """Adds an event."""
    progress.counters[3] += 1
    heappush(events, (time, order, number))


@inline
def _begin(table: TaskTable, progress: TaskProgress, events: Events, ranked: bool) -> None:
    """Issues the first tasks; a receive that waits for its message only has been issued then."""
    for k in range(len(table.first) - 1, -1, -1):
        task = table.first[k]
        if progress.waits[task] == 0:
            _issue(table, progress, events, task, 0, ranked)
        else:
            progress.start[task], progress.hop[task] = 0, 1


@inline
def _next(table: TaskTable, progress: TaskProgress, events: Events, now: int, order: int) -> tuple[int, int, int]:
    """What happens next: a task on the stack, at this moment, or else the first event.

    A node of a trace that comes onto the stack again is done.
    """
    counters = progress.counters
    if counters[1] > 0:
        counters[1] -= 1
        return now, order, progress.issued[counters[1]]
    counters[3] -= 1
    now, order, number = heappop(events)
    if number >= 0 and len(table.sender) > 0 and table.sender[number] == COMPUTE:
        _issue_chain(progress, number)
    return now, order, number


@inline
def _joins(table: TaskTable, progress: TaskProgress, number: int, now: int) -> bool:
    """Whether a compute node ends together with another one of its rank, and then puts it behind that."""
    duration, rank, start = table.duration, table.rank, progress.start
    behind, together = progress.behind, progress.together
    if len(rank) == 0 or table.sender[number] != COMPUTE:
        return False
    time = now + duration[number]
    slot, joined = (time * 1_000_003 + rank[number]) & (len(together) - 1), False
    while together[slot] >= 0 and not joined:
        other = together[slot]
        joined = rank[other] == rank[number] and start[other] + duration[other] == time
        if joined:
            behind[other] = number
        else:
            slot = (slot + 1) & (len(together) - 1)
    together[slot], behind[number] = number, -1
    return joined


@inline
def _issue_chain(progress: TaskProgress, number: int) -> None:
    """Puts the compute nodes that end together with one on the stack, the next of them on top."""
    behind, issued, counters = progress.behind, progress.issued, progress.counters
    count, other = 0, behind[number]
    while other >= 0:
        count, other = count + 1, behind[other]
    other = behind[number]
    for k in range(counters[1] + count - 1, counters[1] - 1, -1):
        issued[k], other = other, behind[other]
    counters[1] += count


@inline
def _order_as_set(table: TaskTable, progress: TaskProgress, begin: int) -> None:
    """Orders the nodes on the stack from `begin` on, in which they came into a set, so that the first of it is on top.

    In the list of such a set, a new bucket goes to the front, and an element of another one before those of its
    bucket. A set that is full grows: its elements come into more buckets, in the order of the list.
    """
    rank, behind, issued, latest = table.rank, progress.behind, progress.issued, progress.latest
    count = progress.counters[1] - begin
    here, placed = rank[issued[begin]], 0
    while placed < count:
        for k in range(placed // 2):  # the list from the front, of a set that grows
            other = begin + placed - 1 - k
            issued[begin + k], issued[other] = issued[other], issued[begin + k]
        progress.sizes[here] += placed > 0
        buckets = BUCKETS[progress.sizes[here]]
        placed, back, front = min(count, buckets), -1, -1
        for k in range(begin, begin + placed):
            node = issued[k]
            bucket = table.id[node] % buckets
            after = latest[bucket] if latest[bucket] >= 0 else front
            if after < 0:
                back, behind[node] = node, -1
            else:
                behind[after], behind[node] = node, behind[after]
            front = node if after == front else front
            latest[bucket] = node
        node = back
        for k in range(begin, begin + placed):
            latest[table.id[node] % buckets] = -1
            issued[k], node = node, behind[node]


@inline
def _queue_of(parallel: Sequence[int], on: int) -> int:
    """The link whose queue a link serves: the last of those among which messages choose."""
    queue, other = on, parallel[on]
    while other != on:
        queue, other = max(queue, other), parallel[other]
    return queue


@inline
def _free_link(
    parallel: Sequence[int], free: Sequence[int], freed: Sequence[int], wanted: int, now: int, order: int
) -> int:
    """The first idle link from the wanted one on; -1 if all are occupied."""
    on, soonest, left = wanted, -1, True
    while left:
        if soonest < 0 and not (now < free[on] or (now == free[on] and order < freed[on])):
            soonest = on
        on = parallel[on]
        left = soonest < 0 and on != wanted
    return soonest


@inline
def _enter(
    table: TaskTable, progress: TaskProgress, events: Events, number: int, on: int, now: int, ranked: bool
) -> None:
    """A message enters a link, which is idle."""
    hop = progress.hop[number]
    here = table.hops[number] + hop
    counters, free = progress.counters, progress.free
    progress.begin[here], progress.taken[here] = now, on
    progress.waited[on] += now - progress.asked[number]
    progress.hop[number] = hop + 1
    _push(table, progress, events, now + table.delay[here], number, ranked)
    free[on] = now + table.busy[here]
    if not ranked:
        progress.freed_order[on] = counters[0]
        counters[0] += 1
    if progress.last[_queue_of(table.parallel, on)] >= 0:
        _expect(progress, events, on)
    if hop == 0:
        _release(table, progress, events, number, SENT, free[on], now, ranked)


@inline
def _serve(table: TaskTable, progress: TaskProgress, events: Events, on: int, now: int, ranked: bool) -> None:
    """The next message enters a link that is free, unless another link has served the queue."""
    progress.expected[on] = 0
    first, last, behind = progress.first, progress.last, progress.behind
    queue = _queue_of(table.parallel, on)
    number = first[queue]
    if number >= 0 and now >= progress.free[on]:
        first[queue], last[queue] = behind[number], last[queue] if behind[number] >= 0 else -1
        _enter(table, progress, events, number, on, now, ranked)


@inline
def _finish(table: TaskTable, progress: TaskProgress, events: Events, number: int, now: int, ranked: bool) -> None:
    """A task is done; one without hops has nothing to send."""
    if table.hops[number + 1] == table.hops[number]:
        _release(table, progress, events, number, SENT, now, now, ranked)
    begin = progress.counters[1]
    _release(table, progress, events, number, DONE, now, now, ranked)
    if len(table.sender) > 0:
        begin += progress.counters[1] > begin and table.sender[progress.issued[begin]] == number
        if progress.counters[1] > begin + 1:
            _order_as_set(table, progress, begin)


@inline
def _queue(table: TaskTable, progress: TaskProgress, events: Events, wanted: int, number: int) -> None:
    """A message waits for a link. Only if one does, there is an event that frees the link."""
    parallel, last, behind = table.parallel, progress.last, progress.behind
    queue = _queue_of(parallel, wanted)
    if last[queue] < 0:
        progress.first[queue] = number
        on, more = wanted, True
        while more:
            _expect(progress, events, on)
            on = parallel[on]
            more = on != wanted
    else:
        behind[last[queue]] = number
    last[queue], behind[number] = number, -1


@inline
def _expect(progress: TaskProgress, events: Events, on: int) -> None:
    """Adds the event that frees a link, unless it is there."""
    if progress.expected[on] == 0:
        progress.expected[on] = 1
        _add(progress, events, progress.free[on], progress.freed_order[on], -1 - on)


@inline
def _push(table: TaskTable, progress: TaskProgress, events: Events, time: int, number: int, ranked: bool) -> None:
    """Adds the event that a task has taken a hop."""
    if ranked:
        _add(progress, events, time, table.hop_rank[number], number)
    else:
        _add(progress, events, time, progress.counters[0], number)
        progress.counters[0] += 1


@inline
def _issue(table: TaskTable, progress: TaskProgress, events: Events, number: int, now: int, ranked: bool) -> None:
    """Lets a task start that waits for nothing any more: as an event, or at once, as ASTRA-sim does."""
    ready, counters = progress.ready, progress.counters
    if ranked:
        _add(progress, events, ready[number], table.start_rank[number], number)
    elif ready[number] > now:
        _add(progress, events, ready[number], counters[0], number)
        counters[0] += 1
    else:
        progress.issued[counters[1]] = number
        counters[1] += 1


@without_references
def _release(
    table: TaskTable, progress: TaskProgress, events: Events, number: int, phase: int, time: int, now: int, ranked: bool
) -> None:
    """A phase of a task happens at `time`, now or later: those that wait for it wait for one thing less."""
    waits, ready, asked = progress.waits, progress.ready, progress.asked
    for edge in range(table.edges[3 * number + phase + 1] - 1, table.edges[3 * number + phase] - 1, -1):
        task = table.followers[edge]
        if time > ready[task]:
            ready[task] = time
        if phase != SENT and time > asked[task]:
            asked[task] = time
        waits[task] -= 1
        if waits[task] == 0 or (waits[task] == 1 and _awaits_message(table, progress, task)):
            _issue(table, progress, events, task, now, ranked)


@inline
def _awaits_message(table: TaskTable, progress: TaskProgress, task: int) -> bool:
    """Whether a task is a receive of a trace in ASTRA-sim whose message has not arrived."""
    return len(table.sender) > 0 and table.sender[task] >= 0 and progress.end[table.sender[task]] < 0
