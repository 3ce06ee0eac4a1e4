"""Bipartite matching by augmenting paths (Kuhn), greedy in the order of the items.

Sets of items that can be matched at once form a matroid. So where items are matched one after another, and none is
dropped again, the items that come first are matched whenever any matching has them, and the matching is a maximum one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def prioritised_matching(offers: Sequence[int], classes: Iterable[int]) -> list[int]:
    """For each port the bit of the item that it is matched to, or 0: a maximum matching that has the first classes.

    offers: for each port the items that it can be matched to, a bit set. classes: bit sets of items, those to match
    first before others; within a class, lower bits come first.
    """
    chosen = [0] * len(offers)
    reach = 0
    left = 0
    for offer in offers:
        reach |= offer
        left += offer != 0
    for alike in classes:
        pool = alike & reach
        while pool and left:
            bit = pool & -pool
            pool ^= bit
            left -= _augment_bit(bit, offers, chosen, set())
        if not left:
            break
    return chosen


def _augment_bit(bit: int, offers: Sequence[int], chosen: list[int], seen: set[int]) -> bool:
    """Whether one more item can be matched; items that are matched already may move to other ports."""
    for port, offer in enumerate(offers):
        if offer & bit and port not in seen:
            seen.add(port)
            if not chosen[port] or _augment_bit(chosen[port], offers, chosen, seen):
                chosen[port] = bit
                return True
    return False


def extend_matching(offers: Sequence[int], chosen: list[int], classes: Sequence[int]) -> None:
    """Makes a matching of bit sets a maximum one, in place, by an augmenting path from each idle port.

    offers, classes: as in `prioritised_matching`. chosen: the bit of each port, or 0. Ports that are matched stay
    matched, though perhaps to another item; a path ends in the first item by class that is free.
    """
    for port, offer in enumerate(offers):
        if offer and not chosen[port]:
            _augment_port(port, offers, chosen, classes, set())


def _augment_port(port: int, offers: Sequence[int], chosen: list[int], classes: Sequence[int], seen: set[int]) -> bool:
    seen.add(port)
    free = offers[port]
    for bit in chosen:
        free &= ~bit
    if free:
        chosen[port] = first_by_class(free, classes)
        return True
    for other, bit in enumerate(chosen):
        if other not in seen and offers[port] & bit and _augment_port(other, offers, chosen, classes, seen):
            chosen[port] = bit
            return True
    return False


def first_by_class(items: int, classes: Iterable[int]) -> int:
    """The lowest bit of the first class that has any of some items; of the items where no class has."""
    for alike in classes:
        found = items & alike
        if found:
            return found & -found
    return items & -items
