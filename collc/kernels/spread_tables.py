"""The tables of rarest-first spreading (rarest_first.py), its events, and when links are reserved.

D devices, K chunks, P paths, H hops of all paths, L links, S chunk sizes, C classes of slow paths, W words of 64 bits
for a set. All tables are parts of two arrays, `fixed` and `state`, and begin where `SpreadLayout` says: a call
counts the references of all arrays that it is given, which would take most of the time.

Events wait in a heap of (time, number): number d * K + k: chunk k arrives at device d; D * K + d * K + k: a slot of
switch d holds chunk k; 2 * D * K + l: a path over link l may be able to start. The reserved intervals of a link, but
those that are over, are a chain of nodes (the next one, start, end), ascending; none touches another.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

from collc.kernels.compiled import inlined

MISSING, NEEDED, PLANNED, END, WORK, HEAP, NODES, BEGUN = range(8)
"""Counters: chunks that devices must still get; chunks that they need, with those that they may relay; transfers
planned; the last arrival; work done; entries of the heap; nodes in use; whether the attempt has begun."""

COUNTERS = 8

PASSING, REPEATING, MULTICASTING = 0, 1, 2
"""Kinds of devices: a switch that repeats sends what it holds one after another, one that multicasts at once."""


class SpreadLayout(NamedTuple):
    """Sizes, and where tables begin.

    In `fixed`: source, slow, non_minimal: [P], where a path begins, its class, 0: fast, and whether it is one of
    the non-minimal ones. first: [P + 1], its hops; link: [H]; start, busy: [S * H]. total: [S * P]. ports: [D + 1],
    the last links into each device; fastest: of each port, its fastest class; over: [ports + 1], its paths in
    `path`. serve_work: [D], work of looking for what a device can get. fed_first, fed: the receivers of paths from
    a device. used_first, used: those of paths over a link. offset_first, offset: picoseconds after which paths
    enter a link. ends: [L], the device at the end of a link. kind, rank: [D]; of equal devices the one of lower
    rank comes first. switch: [D], number of a repeater. of_size: [S * W], the chunks of each size. wanted: [D * W].
    component: [C * D], by class the first device of the component, -1: none. weight: [C], what a component that
    lacks a chunk adds to its urgency. own: [C * D * W], what a component has at first.

    In `state`: counters. have, need: [D * W]. held, lacks: [D], how many chunks each has and needs. lacking: [C * D *
    W], what each component lacks. unsent: [C * W], what no component has sent to another. urgency: [K]. duties: [D],
    chunks to pass on to other components. idle: [repeaters * K], slots that hold a chunk and are not read. blocked:
    [S * P]; blocked_all: [P], the same table where S = 1; closed: [ports]; times before which a path, or every path of
    a port, cannot start. head: [L + 1], the first node of a link, -1: none; last, of those that are free. bits: [(most
    paths into a device + most ports + 1) * W], rows, row_port: [most paths into a device], chosen, seen, stack_chunk,
    stack_port: [most ports + 1], touched: [D]: scratch space.

    in_turn: whether receivers choose by what they have to pass on. fresh: whether what a component has at first goes
    to other components once before it goes again.
    """

    devices: int
    chunks: int
    paths: int
    hops: int
    links: int
    sizes: int
    classes: int
    words: int
    in_turn: bool
    fresh: bool
    source: int
    slow: int
    non_minimal: int
    first: int
    link: int
    start: int
    busy: int
    total: int
    ports: int
    fastest: int
    over: int
    path: int
    serve_work: int
    fed_first: int
    fed: int
    used_first: int
    used: int
    offset_first: int
    offset: int
    ends: int
    kind: int
    rank: int
    switch: int
    of_size: int
    wanted: int
    component: int
    weight: int
    own: int
    counters: int
    have: int
    need: int
    held: int
    lacks: int
    lacking: int
    unsent: int
    urgency: int
    duties: int
    idle: int
    blocked: int
    blocked_all: int
    closed: int
    head: int
    bits: int
    rows: int
    row_port: int
    chosen: int
    seen: int
    stack_chunk: int
    stack_port: int
    touched: int


def push_event(
    time: int, number: int, of: SpreadLayout, state: MutableSequence[int], heap: MutableSequence[int]
) -> None:
    """Add an event."""
    place = state[of.counters + HEAP]
    state[of.counters + HEAP] += 1
    while place > 0:
        above = (place - 1) >> 1
        if heap[2 * above] <= time:
            break
        heap[2 * place] = heap[2 * above]
        heap[2 * place + 1] = heap[2 * above + 1]
        place = above
    heap[2 * place] = time
    heap[2 * place + 1] = number


def pop_event(of: SpreadLayout, state: MutableSequence[int], heap: MutableSequence[int]) -> int:
    """Remove the first event; returns its number."""
    first = heap[1]
    state[of.counters + HEAP] -= 1
    count = state[of.counters + HEAP]
    time, number = heap[2 * count], heap[2 * count + 1]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and heap[2 * below + 2] < heap[2 * below]:
            below += 1
        if heap[2 * below] >= time:
            break
        heap[2 * place] = heap[2 * below]
        heap[2 * place + 1] = heap[2 * below + 1]
        place = below
    heap[2 * place] = time
    heap[2 * place + 1] = number
    return first


@inlined
def _free(node: int, of: SpreadLayout, state: MutableSequence[int], nodes: MutableSequence[int]) -> None:
    """Give a node back."""
    nodes[3 * node] = state[of.head + of.links]
    state[of.head + of.links] = node
    state[of.counters + NODES] -= 1


def reserve_link(
    link: int, begin: int, end: int, of: SpreadLayout, state: MutableSequence[int], nodes: MutableSequence[int]
) -> None:
    """Reserve a link, joining the interval with those that it overlaps or touches."""
    previous, node = -1, state[of.head + link]
    while node >= 0 and nodes[3 * node + 2] < begin:
        previous, node = node, nodes[3 * node]
    while node >= 0 and nodes[3 * node + 1] <= end:
        begin, end = min(begin, nodes[3 * node + 1]), max(end, nodes[3 * node + 2])
        behind = nodes[3 * node]
        _free(node, of, state, nodes)
        node = behind
    fresh = state[of.head + of.links]
    state[of.head + of.links] = nodes[3 * fresh]
    state[of.counters + NODES] += 1
    nodes[3 * fresh], nodes[3 * fresh + 1], nodes[3 * fresh + 2] = node, begin, end
    if previous >= 0:
        nodes[3 * previous] = fresh
    else:
        state[of.head + link] = fresh


def blocked_until(
    path: int,
    size: int,
    now: int,
    of: SpreadLayout,
    fixed: Sequence[int],
    state: MutableSequence[int],
    nodes: MutableSequence[int],
) -> int:
    """A time before which a path cannot start with a chunk of a size; `now` where it can start now."""
    for hop in range(fixed[of.first + path], fixed[of.first + path + 1]):
        link, start = fixed[of.link + hop], fixed[of.start + size * of.hops + hop]
        node = state[of.head + link]
        while node >= 0 and nodes[3 * node + 2] <= now:  # over for good
            behind = nodes[3 * node]
            state[of.head + link] = behind
            _free(node, of, state, nodes)
            node = behind
        at = now + start
        while node >= 0 and nodes[3 * node + 2] <= at:
            node = nodes[3 * node]
        if node >= 0 and nodes[3 * node + 1] < at + fixed[of.busy + size * of.hops + hop]:
            return nodes[3 * node + 2] - start
    return now
