"""Messages round an even ring of a Cayley graph, where every second NPU goes the other way to the opposite NPU.

Each way round, a train of cars drives from NPU to NPU, a link a step. A message rides in one car from its source
to its target, where the next one gets on. By the parity of NPUs along an axis there are two kinds of cars, and what
rides in a car is a word of distances: an even one leads to an NPU of the same parity, an odd one to the other.
Only the even NPUs (backwards: the odd) have a message over half the ring, so that both trains carry equal loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.shop import least_steps
from collc.ten.arrays import Int64Array

Word = list[int]


@dataclass(frozen=True, eq=False)
class Words:
    """What rides round a ring of NPUs.

    axis: whose parity tells the halves of the NPUs apart. generators: there and back. words: the distances that
    ride in cars that begin at even NPUs, and at odd ones (backwards: at odd ones, and at even ones).
    copy: of the messages. shop: int64[messages + 2, generators], the hops of all other messages and of both trains.
    """

    axis: int
    generators: tuple[int, int]
    words: tuple[Word, Word]
    copy: int
    shop: Int64Array

    def rows(self, group: Group, train: int, when: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
        """The transfers of a train that drives at some steps, as (step, generator, sender, target, half)."""
        generator = self.generators[train]
        ahead: list[int] = group.ahead[generator].tolist()
        way = [0]
        for _ in range(max(max(word, default=0) for word in self.words)):
            way.append(ahead[way[-1]])
        for begin, word in enumerate(self.words):
            place = 0
            for distance in word:
                half = (begin + place + train) % 2
                for sender in way[:distance]:
                    yield when[place], generator, sender, way[distance], half
                    place += 1


def find_words(group: Group, counts: Int64Array) -> Words | None:
    """The ring that makes the open shop of int64[npus, copies, generators] hops shorter; None where there is none."""
    best, end = None, least_steps(counts[1:].reshape(-1, counts.shape[2]))
    for axis, size in enumerate(group.sizes):
        if size % 2 or group.bits[axis]:
            continue
        for there, by in enumerate(group.generators.tolist()):
            back = np.flatnonzero(group.generators == group.inverse(by))
            if group.coordinate(by, axis) % 2 and len(back) and int(back[0]) > there:
                found = _words(group, counts, axis, (there, int(back[0])))
                if found is not None and least_steps(found.shop) < end:
                    best, end = found, least_steps(found.shop)
    return best


def _words(group: Group, counts: Int64Array, axis: int, generators: tuple[int, int]) -> Words | None:
    """The words of one ring, if all its messages go straight."""
    there, back = generators
    ring = [0, int(group.generators[there])]
    while ring[-1]:
        ring.append(int(group.ahead[there, ring[-1]]))
    size, half = len(ring) - 1, len(ring) // 2
    loads = counts.sum(axis=(0, 1))[[there, back]]
    opposite = counts[ring[half]][:, [there, back]]
    copy = int(np.argmax(opposite @ loads))
    hops = counts[ring[:size], copy]
    straight = np.arange(1, half)
    if bool((hops[1:half, there] != straight).any() or (hops[:half:-1, back] != straight).any()):
        return None
    if opposite[copy].max() != half:
        return None
    words = balanced_words(size)
    if words is None:
        return None
    left = counts.copy()
    left[ring[1:-1], copy] = 0
    trains = np.zeros((2, counts.shape[2]), np.int64)
    trains[[0, 1], list(generators)] = max(map(sum, words))
    shop = np.concatenate([left[1:].reshape(-1, counts.shape[2]), trains])
    return Words(axis, generators, words, copy, shop)


def balanced_words(size: int) -> tuple[Word, Word] | None:
    """The words of a train round an even ring, for cars that begin at even and at odd NPUs.

    Together they have each distance below half the ring once from even and once from odd NPUs, and half the ring
    once from an even one; their lengths differ by one at most.
    """
    half = size // 2
    last = [half] if half % 2 else []
    need = (size * size // 4 + 1) // 2 - sum(last)
    need -= need % 2
    # What fills the word of even NPUs: loops there, pairs of odd distances there and back, loops at odd NPUs.
    items = [(d, 0, d) for d in range(2, half + 1, 2)] + [(2 * d, 1, d) for d in range(1, half, 2)]
    items += [(d, 2, d) for d in range(2, half, 2)]
    mine: tuple[Word, Word, Word] = ([], [], [])
    rest: tuple[Word, Word, Word] = ([], [], [])
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
