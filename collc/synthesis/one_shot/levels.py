"""The stages in which a sum is formed: all contributions at once, or first those of NPUs that are near one another.

With a stage for the GPUs of each node, every GPU has the sum of its node, and the nodes exchange one partial each in
place of one for each GPU. That takes longer paths, and loads the links between the nodes less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from collc.base.disjoint_sets import DisjointSets
from collc.ten.arrays import Int64Array

MOST_DIVISIONS: Final = 3
"""Divisions of the NPUs that are tried, those with the fewest messages."""

Parts = Sequence[Sequence[int]]
"""The NPUs of each part, ascending."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """A partial of the chunks of a set. holders: the NPUs that all have it. targets: those that add it to theirs.

    stage: the partial has all that comes to its holders in earlier stages.
    """

    chunks: int
    holders: Sequence[int]
    targets: Sequence[int]
    stage: int = 0


def contributions(chunks: int, members: Sequence[int], parts: Parts) -> list[Contribution]:
    """The contributions of members: within each part, and then the sums of the parts, if there are several."""
    alone = [[member] for member in members]
    found = [Contribution(chunks, one, _difference(part, one)) for part in parts for one in alone if one[0] in part]
    if len(parts) > 1:
        found += [Contribution(chunks, part, _difference(members, part), 1) for part in parts]
    return [one for one in found if one.targets]


def divisions(members: Sequence[int], distance: Int64Array) -> Iterator[Parts]:
    """The members as one part, then in parts: members nearer than others are joined, and what that joins.

    distance: int64[members, members], picoseconds.
    """
    yield [members]
    both = np.maximum(distance, distance.T)
    rows, columns = np.triu_indices(len(members), 1)
    pairs = sorted(zip(both[rows, columns].tolist(), rows.tolist(), columns.tolist(), strict=True))
    joined, parts, found = DisjointSets[int](), len(members), list[Parts]()
    for _, near in groupby(pairs, key=lambda pair: pair[0]):
        before = parts
        for _, row, column in near:
            parts -= joined.root(row) != joined.root(column)
            joined.join(row, column)
        if 1 < parts < before:
            of_root: dict[int, list[int]] = {}
            for number, member in enumerate(members):
                of_root.setdefault(joined.root(number), []).append(member)
            found.append([*of_root.values()])
    yield from sorted(found, key=_message_count)[:MOST_DIVISIONS]


def _message_count(parts: Parts) -> int:
    """Partials that arrive in both stages."""
    members = sum(map(len, parts))
    return sum(len(part) * (len(part) - 1) + members - len(part) for part in parts)


def _difference(members: Sequence[int], others: Sequence[int]) -> list[int]:
    left = set(others)
    return [member for member in members if member not in left]
