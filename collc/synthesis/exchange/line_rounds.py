"""How the NPUs of a clique, a ring or a path exchange partials: messages in rounds, until each has the sum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple


class PartialMessage(NamedTuple):
    """A partial from one NPU to another. came_from: the NPU from which the sender got it last, and kept it apart; -1:
    what the sender holds. kept: whether the receiver only keeps it apart, and adds it to nothing.
    """

    source: int
    target: int
    came_from: int = -1
    kept: bool = False


Rounds = tuple[tuple[PartialMessage, ...], ...]
"""The messages of each round. All messages of a round leave before any of them arrives."""


def line_rounds(members: Iterable[int], near: Mapping[int, set[int]], *, in_turns: bool = False) -> list[Rounds]:
    """The ways in which some NPUs can exchange partials, [] if they form no clique, ring or path.

    near: the neighbours of each among them. in_turns: of an odd ring, the two ways that use its links in turns, in
    place of the one that is shorter by a round and uses all of them. An even ring has two ways that use them in turns.
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
    if in_turns and is_odd_ring(order, near):
        return [tuple(odd_ring_exchange(order, turn)) for turn in (0, 1)]
    return [tuple(running_messages(order, closed))]


def is_odd_ring(members: Collection[int], near: Mapping[int, set[int]]) -> bool:
    """Whether connected NPUs form a ring of five, seven, ... near: the neighbours of each among them."""
    return len(members) % 2 == 1 and len(members) > 3 and all(len(near[npu]) == 2 for npu in members)


def _in_order(line: list[int], near: Mapping[int, set[int]]) -> list[int] | None:
    """The NPUs of a path from one end to the other, or of a ring all round; None if they form neither."""
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


def odd_ring_exchange(order: list[int], turn: int) -> Iterator[tuple[PartialMessage, ...]]:
    """Neighbour exchange on an odd ring, in (n + 1) / 2 rounds. Turns 0 and 1 use different links in each round.

    It is the exchange of an even ring on which a twin of the first NPU follows the last one; the first NPU does the
    work of its twin. What arrives at one of the two, the other one forwards. In turn 0 they are a pair at first, so
    both of them have the first's own partial, and nothing else. In turn 1 the first swaps with its successor, and the
    twin, which has nothing to give, gets the partial of the last NPU. The first keeps that apart, since it goes to its
    successor alone. In round 2 the last NPU sends all that it holds, so that its partial is also added up at the first,
    and runs on once more, with a pair. Therefore those who get it once more keep apart what came first.
    """
    count = len(order)
    rounds = (count + 1) // 2
    for number in range(rounds):
        messages: list[PartialMessage] = []
        for low in range((number + 1 + turn) % 2, count + 1, 2):
            high = (low + 1) % (count + 1)
            for source, target in ((low, high), (high, low)):
                if _is_spared(source, target, number, turn, count):
                    continue
                behind = {0: -1, count: 1}.get(source, 2 * source - target)
                holds = number < 2 or (turn and number == 2 and source >= count - 1)
                again = (source, target) == ((count - 1, count) if number == 0 else (number - 2, number - 1))
                kept = bool(turn) and number != 1 and again and number + 2 < rounds
                came_from = -1 if holds else order[behind % count]
                messages.append(PartialMessage(order[source % count], order[target % count], came_from, kept))
        yield tuple(messages)


def _is_spared(source: int, target: int, number: int, turn: int, count: int) -> bool:
    """Whether nothing is sent in a round: between the first NPU and its twin, by the twin when it has nothing, and in
    the last round by one of the neighbours of the first, if both would bring the same.

    source, target: positions, `count` for the twin. number: of the round.
    """
    if {source, target} == {0, count} or (turn and number == 0 and source == count):
        return True
    last = number == (count - 1) // 2 and number > 0
    return last and number % 2 != turn and (source, target) == ((1, 0) if turn else (count - 1, count))
