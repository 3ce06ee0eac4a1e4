"""Open shops of unit tasks: when each message is on each generator, one at a time on both sides.

The hops of a message may come in any order, since the group is abelian. The least time is the largest load of a
generator or the most hops of a message, and it is always reached: a bipartite multigraph has as many edge colours as
its largest degree (König).

On an even ring of a Cayley graph, half of the NPUs may reach the opposite one in the other direction. In each
direction, slots circulate: in a step every slot moves one link, so that each link carries one slot. A slot carries one
message after another: when a message has left it at its target, the next one enters. The distances of the messages that
a slot carries form its sequence. NPUs are even or odd by their index along an axis, and slots have one of two
sequences, by the parity of the NPU where they begin. A message of even distance ends at an NPU of equal parity, one of
odd distance at an NPU of the other. Only even NPUs (in the other direction: odd ones) send the message over half the
ring, so that both directions carry equal loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collc.graph.edge_colouring import colour_edges
from collc.synthesis.symmetric.group import Group
from collc.ten.arrays import Int64Array


class Hops(NamedTuple):
    """int64[hops], by message and step: when a message makes a hop, and over which generator."""

    message: Int64Array
    step: Int64Array
    generator: Int64Array


def least_steps(counts: Int64Array) -> int:
    """The least time of int64[messages, generators] hops."""
    return max(int(counts.sum(axis=0).max(initial=0)), int(counts.sum(axis=1).max(initial=0)))


def open_shop(counts: Int64Array) -> Hops:
    """A plan of least_steps(counts) steps for int64[messages, generators] hops: a step (colour) for each hop (edge)."""
    message, generator = np.nonzero(counts)
    times = counts[message, generator]
    edges: list[tuple[int, int]] = np.repeat(np.column_stack([message, generator]), times, axis=0).tolist()
    rows = sorted((m, step, g) for (m, g), step in zip(edges, colour_edges(edges), strict=True))
    return Hops(*np.array(rows, np.int64).reshape(-1, 3).T)


Distances = list[int]
"""The sequence of a slot: the distances of the messages that it carries, in order."""


@dataclass(frozen=True, eq=False)
class RingMessages:
    """The messages that travel on circulating slots round a ring.

    axis: whose index decides the parity of NPUs. generators: of the two directions. sequences: of slots that begin at
    even NPUs, and of those that begin at odd ones (in the second direction: at odd, and at even ones). copy: which copy
    of the messages. hops: int64[messages + 2, generators], of all other messages and, in the last two rows, of a slot
    in each direction.
    """

    axis: int
    generators: tuple[int, int]
    sequences: tuple[Distances, Distances]
    copy: int
    hops: Int64Array

    def transfers(self, group: Group, direction: int, steps: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
        """The transfers of a direction whose slots move in some steps, as (step, generator, sender, target, half)."""
        generator = self.generators[direction]
        successors: list[int] = group.successors[generator].tolist()
        path = [0]
        for _ in range(max(max(sequence, default=0) for sequence in self.sequences)):
            path.append(successors[path[-1]])
        for begin, sequence in enumerate(self.sequences):
            moved = 0
            for distance in sequence:
                half = (begin + moved + direction) % 2
                for sender in path[:distance]:
                    yield steps[moved], generator, sender, path[distance], half
                    moved += 1


def find_ring_messages(group: Group, counts: Int64Array) -> RingMessages | None:
    """The ring that makes the open shop of int64[npus, copies, generators] hops shorter the most; None for no ring."""
    best, end = None, least_steps(counts[1:].reshape(-1, counts.shape[2]))
    for axis, size in enumerate(group.coordinates.sizes):
        if size % 2:
            continue
        for forth, by in enumerate(group.generators.tolist()):
            back = np.flatnonzero(group.generators == group.predecessors[forth, 0])
            if group.coordinates.index[axis, by] % 2 and len(back) and int(back[0]) > forth:
                ring = _ring_messages(group, counts, axis, (forth, int(back[0])))
                if ring is not None and least_steps(ring.hops) < end:
                    best, end = ring, least_steps(ring.hops)
    return best


def _ring_messages(group: Group, counts: Int64Array, axis: int, generators: tuple[int, int]) -> RingMessages | None:
    """The messages of one ring, if all of them go straight round it."""
    forth, back = generators
    ring = [0, int(group.generators[forth])]
    while ring[-1]:
        ring.append(int(group.successors[forth, ring[-1]]))
    size, half = len(ring) - 1, len(ring) // 2
    loads = counts.sum(axis=(0, 1))[[forth, back]]
    opposite = counts[ring[half]][:, [forth, back]]
    copy = int(np.argmax(opposite @ loads))
    hops = counts[ring[:size], copy]
    straight = np.arange(1, half)
    if bool((hops[1:half, forth] != straight).any() or (hops[:half:-1, back] != straight).any()):
        return None
    if opposite[copy].max() != half:
        return None
    sequences = balanced_sequences(size)
    if sequences is None:
        return None
    left = counts.copy()
    left[ring[1:-1], copy] = 0
    slots = np.zeros((2, counts.shape[2]), np.int64)
    slots[[0, 1], list(generators)] = max(map(sum, sequences))
    others = left[1:].reshape(-1, counts.shape[2])
    return RingMessages(axis, generators, sequences, copy, np.concatenate([others, slots]))


def balanced_sequences(size: int) -> tuple[Distances, Distances] | None:
    """The sequences of slots that begin at even and at odd NPUs of an even ring; None if there are none.

    Together they have each distance below half the ring once from even and once from odd NPUs, and half the ring
    once from an even one; their sums differ by one at most.
    """
    half = size // 2
    last = [half] if half % 2 else []
    need = (size * size // 4 + 1) // 2 - sum(last)
    need -= need % 2
    # The sequence from even NPUs consists of even distances from even NPUs (kind 0), of pairs of equal odd distances,
    # which lead to an odd NPU and back (1), and of even distances from odd NPUs (2), as (length, kind, distance).
    items = [(d, 0, d) for d in range(2, half + 1, 2)] + [(2 * d, 1, d) for d in range(1, half, 2)]
    items += [(d, 2, d) for d in range(2, half, 2)]
    mine: tuple[Distances, Distances, Distances] = ([], [], [])
    rest: tuple[Distances, Distances, Distances] = ([], [], [])
    for length, kind, distance in sorted(items, key=lambda item: (-item[0], item[1])):
        taken = length <= need
        need -= length if taken else 0
        (mine if taken else rest)[kind].append(distance)
    (here, odd, beyond), (other, left, back) = mine, rest
    if need or (beyond and not odd + last) or (other and not left):
        return None
    pairs = [d for d in odd[1:] for _ in range(2)]
    first = [*here, *odd[:1], *(beyond if odd else []), *odd[:1], *pairs, *last, *([] if odd else beyond)]
    second = [*back, *left[:1], *other, *left[:1], *(d for d in left[1:] for _ in range(2))]
    return first, second
