"""How the NPUs of a clique, a ring or a path exchange partials: messages in rounds, until each has the sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple


class PartialMessage(NamedTuple):
    """A partial from one NPU to another. came_from: the NPU from which the sender got it last, and kept it apart; -1:
    what the sender holds.
    """

    source: int
    target: int
    came_from: int = -1


Rounds = tuple[tuple[PartialMessage, ...], ...]
"""The messages of each round. All messages of a round leave before any of them arrives."""


def line_rounds(members: Iterable[int], near: Mapping[int, set[int]]) -> list[Rounds]:
    """The ways in which some NPUs can exchange partials, [] where they form no clique, ring or path.

    near: the neighbours of each among them. An even ring has two ways, which use its links in turns.
    """
    line = sorted(members)
    if all(len(near[npu]) == len(line) - 1 for npu in line):
        return [(tuple(PartialMessage(a, b) for a, b in permutations(line, 2)),)]
    order = _in_order(line, near)
    if order is None:
        return []
    closed = order[0] in near[order[-1]]
    if closed and len(order) % 2 == 0:
        return [tuple(neighbour_exchange(order[turn:] + order[:turn])) for turn in (0, 1)]
    return [tuple(running_messages(order, closed))]


def _in_order(line: list[int], near: Mapping[int, set[int]]) -> list[int] | None:
    """The NPUs of a path from one end to the other, or of a ring all round; None where they form neither."""
    ends = [npu for npu in line if len(near[npu]) == 1]
    if len(ends) not in (0, 2) or any(len(near[npu]) > 2 for npu in line):
        return None
    order = [min(ends or line)]
    while ahead := near[order[-1]] - set(order[-2:]):
        if min(ahead) == order[0]:
            break
        order.append(min(ahead))
    return order if len(order) == len(line) else None


def neighbour_exchange(order: list[int]) -> Iterator[tuple[PartialMessage, ...]]:
    """Neighbour exchange on an even ring: pairs swap, first the pairs at even positions, then those at odd ones, ...

    From the third round on an NPU sends what it received in the round before, so that each round adds the sum of one
    more pair (Chen et al., "Performance evaluation of allgather algorithms on terascale Linux cluster", 2005).
    """
    count = len(order)
    for number in range(count // 2):
        messages: list[PartialMessage] = []
        for first in range(number % 2, count, 2):
            a, b = first, (first + 1) % count
            for source, target, behind in ((a, b, a - 1), (b, a, b + 1)):
                came_from = order[behind % count] if number > 1 else -1
                messages.append(PartialMessage(order[source], order[target], came_from))
        yield tuple(messages)


def running_messages(order: list[int], closed: bool) -> Iterator[tuple[PartialMessage, ...]]:
    """On a path or an odd ring: what each NPU held at first runs on in both directions."""
    count = len(order)
    for number in range(count // 2 if closed else count - 1):
        messages: list[PartialMessage] = []
        for source in range(count):
            for step in (1, -1):
                target, behind, origin = source + step, source - step, source - step * number
                if closed or (min(target, origin) >= 0 and max(target, origin) < count):
                    came_from = order[behind % count] if number else -1
                    messages.append(PartialMessage(order[source], order[target % count], came_from))
        yield tuple(messages)
