"""The tables of rarest-first spreading (rarest_first.py), and when links and the slots of switches are reserved.

D devices, K chunks, P paths, H hops of all paths, L links, S chunk sizes, C classes of slow paths, W words for a set of
chunks. All tables are parts of one array, `memory`; `SpreadLayout` has the first cell of each: a call counts the
references of all arrays that it is given, which would take most of the time.

Events wait in a heap of (time, number): number d * K + k: chunk k arrives at device d; D * K + d * K + k: a slot of
switch d holds chunk k; 2 * D * K + l: a path over link l may be able to start. Reserved intervals that are not over are
chains of nodes (the next one, start, end): for each link, ascending, none of which touches another; for each switch
with a limited buffer, one for each slot, by their ends.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import MutableSequence

import numpy as np

from collc.kernels.compiled import compiled_as, inline
from collc.ten.arrays import Int64Array

Memory = MutableSequence[int]
Events = list[tuple[int, int]]

MISSING, NEEDED, PLANNED, END, WORK, EVENTS, NODES, BEGUN = COUNTERS = range(8)
"""The first cells of `memory`: chunks that devices must still get; chunks that they need, with those that they may
relay; transfers planned; the last arrival; work done; events between two calls; nodes in use; whether it has begun."""

PASSING, REPEATING, MULTICASTING = 0, 1, 2
"""Kinds of devices: a switch that repeats sends what it holds one after another, one that multicasts at once."""


SpreadLayout = namedtuple(
    "SpreadLayout",
    "devices chunks paths hops links sizes classes words shift mask sends intervals turns in_turn is_limited "
    "is_summing inverted source slow non_minimal first link start busy total ports fastest over path serve_work "
    "fed_first fed used_first used offset_first offset ends kind rank switch buffer woken_first woken sums of_size "
    "wanted component weight have need held lacks lacking urgency duties idle received blocked "
    "blocked_all closed head bits rows row_port chosen seen stack_chunk stack_port touched",
)
"""Sizes, and where tables begin.

Constant tables: source, slow, non_minimal: [P], where a path begins, its class, 0: fast, and whether it is one of
the non-minimal ones. first: [P + 1], its hops; link: [H]; start, busy: [S * H]. total: [S * P]. ports: [D + 1],
the last links into each device; fastest: of each port, its fastest class; over: [ports + 1], its paths in
`path`. serve_work: [D], work of looking for what a device can get. fed_first, fed: the receivers of paths from
a device. used_first, used: the receivers of paths over a link. offset_first, offset: picoseconds after which paths
enter a link. ends: [L], the device at the end of a link. kind, rank: [D]; of equal devices the one of lower
rank comes first. switch: [D], number of a repeater. buffer: [D], slots of a limited buffer, or -1. woken_first,
woken: links over which a path may be able to start if a slot of a switch becomes free. sums: [D], whether a chunk
may come into a switch only once. of_size: [S * W], the chunks of each size. wanted: [D * W].
component: [C * D], by class the first device of the component, -1: none. weight: [C], what a component that
lacks a chunk adds to its urgency.

State: have, need: [D * W]. held, lacks: [D], how many chunks each has and needs. lacking: [C * D * W], what each
component lacks. urgency: [K]. duties: [D], chunks to pass on to other components. idle: [repeaters * K], slots that
hold a chunk and are not read. received: [D * W], what has come into each switch that sums. blocked: [S * P];
blocked_all: [P], the same table if S = 1; closed: [ports]; times before which a path, or every path of a port, cannot
start. head: [L + D + 1], the first node of a link or switch, -1: none; last, of those that are free. bits: [(most
paths into a device + most ports + 1) * W], rows, row_port: [most paths into a device], chosen, seen, stack_chunk,
stack_port: [most ports + 1], touched: [D]: scratch space.

in_turn: whether receivers choose by what they have to pass on. turns: 2 if non-minimal paths come after all others,
else 1. sends, intervals: of one time the most sends, and of each the most intervals that it reserves.
"""


def _with_size_array(cells: Int64Array, size: int) -> Int64Array:
    wider = np.zeros(size, np.int64)
    for cell in range(min(size, len(cells))):  # an assignment of slices takes three seconds to compile
        wider[cell] = cells[cell]
    return wider


@compiled_as(_with_size_array)
def with_size(cells: Memory, size: int) -> Memory:
    """The first `size` cells, with zeros behind them if there are fewer."""
    return [*cells[:size], *[0] * (size - len(cells))]


def with_room(layout: SpreadLayout, memory: Memory, nodes: Memory) -> Memory:
    """The nodes, with room for those that the sends of one time take."""
    free = layout.head + layout.links + layout.devices
    count, needed = len(nodes) // 3, memory[NODES] + min(layout.sends, memory[NEEDED]) * layout.intervals
    if needed <= count:
        return nodes
    more = max(2 * count, needed)
    nodes = with_size(nodes, 3 * more)
    for node in range(more - 1, count - 1, -1):
        nodes[3 * node] = memory[free]
        memory[free] = node
    return nodes


@inline
def _give_back(node: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> None:
    """Give a node back."""
    free = layout.head + layout.links + layout.devices
    nodes[3 * node] = memory[free]
    memory[free] = node
    memory[NODES] -= 1


def reserve(chain: int, begin: int, end: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> None:
    """Reserve a link, joining the interval with those that it overlaps or touches, or a slot of a switch.

    chain: the number of the link, or the number of links + that of the switch.
    """
    previous, node = -1, memory[layout.head + chain]
    while node >= 0 and nodes[3 * node + 2] < begin:
        previous, node = node, nodes[3 * node]
    if chain < layout.links:
        while node >= 0 and nodes[3 * node + 1] <= end:
            begin, end = min(begin, nodes[3 * node + 1]), max(end, nodes[3 * node + 2])
            behind = nodes[3 * node]
            _give_back(node, layout, memory, nodes)
            node = behind
    else:
        while node >= 0 and nodes[3 * node + 2] < end:
            previous, node = node, nodes[3 * node]
    free = layout.head + layout.links + layout.devices
    fresh = memory[free]
    memory[free] = nodes[3 * fresh]
    memory[NODES] += 1
    nodes[3 * fresh], nodes[3 * fresh + 1], nodes[3 * fresh + 2] = node, begin, end
    if previous >= 0:
        nodes[3 * previous] = fresh
    else:
        memory[layout.head + chain] = fresh


@inline
def _first_to_come(chain: int, now: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> int:
    """The first node of a chain that is not over, -1: none; gives back those before it."""
    node = memory[layout.head + chain]
    while node >= 0 and nodes[3 * node + 2] <= now:
        behind = nodes[3 * node]
        memory[layout.head + chain] = behind
        _give_back(node, layout, memory, nodes)
        node = behind
    return node


def _full_until(
    switch: int, begin: int, end: int, now: int, layout: SpreadLayout, memory: Memory, nodes: Memory
) -> int:
    """`begin` if a slot of a switch is free from begin to end; else a later time before which none is for as long."""
    first = node = _first_to_come(layout.links + switch, now, layout, memory, nodes)
    begun, ended = 0, 0
    while node >= 0:
        begun += nodes[3 * node + 1] < end
        ended += nodes[3 * node + 2] <= begin
        node = nodes[3 * node]
    if begun - ended < memory[layout.buffer + switch]:
        return begin
    for _ in range(begun - memory[layout.buffer + switch]):
        first = nodes[3 * first]
    return nodes[3 * first + 2]


def blocked_until(path: int, size: int, now: int, layout: SpreadLayout, memory: Memory, nodes: Memory) -> int:
    """A time before which a path cannot start with a chunk of a size; `now` if it can start now."""
    starts, busies = layout.start + size * layout.hops, layout.busy + size * layout.hops
    low, high = memory[layout.first + path], memory[layout.first + path + 1]
    for hop in range(low, high):
        start = memory[starts + hop]
        node = _first_to_come(memory[layout.link + hop], now, layout, memory, nodes)
        while node >= 0 and nodes[3 * node + 2] <= now + start:
            node = nodes[3 * node]
        if node >= 0 and nodes[3 * node + 1] < now + start + memory[busies + hop]:
            return nodes[3 * node + 2] - start
    if layout.is_limited:
        for hop in range(low, high - 1):
            switch, begin = memory[layout.ends + memory[layout.link + hop]], memory[starts + hop + 1]
            if memory[layout.buffer + switch] >= 0:
                end = begin + memory[busies + hop + 1]
                if layout.inverted:
                    begin, end = begin - memory[busies + hop], begin
                until = _full_until(switch, now + begin, now + end, now, layout, memory, nodes)
                if until > now + begin:
                    return until - begin
    return now
