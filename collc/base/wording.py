"""Parts of messages: suggestions for misspelled names, lists and plurals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

SHOWN: Final = 8
"""How many things of one kind a message or a report lists at most; it counts the others."""


def _distance(a: str, b: str, limit: int) -> int:
    """The Damerau-Levenshtein distance of two names (optimal string alignment), or limit + 1 if it is more."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    first = last = 0  # what both begin or end with makes no difference
    while first < min(len(a), len(b)) and a[first] == b[first]:
        first += 1
    a, b = a[first:], b[first:]
    while last < min(len(a), len(b)) and a[-1 - last] == b[-1 - last]:
        last += 1
    a, b = a[: len(a) - last], b[: len(b) - last]
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            best = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, before[j - 2] + 1)
            new.append(best)
        if min(new) > limit and min(row) > limit:
            return limit + 1
        before, row = row, new
    return min(row[-1], limit + 1)


def closest_name(name: str, known: Iterable[str], edits: int = 2) -> str | None:
    """The known name closest to a misspelled one; None if none is within one edit (short names) or `edits` edits."""
    limit = 1 if len(name) <= 4 else edits
    if len(name) > 100:
        return None
    word, letters = name.lower(), set(name.lower())
    best: tuple[int, str] | None = None
    for other in set(known):
        # An edit changes the length by one at most, and the set of letters by two.
        if abs(len(other) - len(name)) > limit or other == name or len(letters ^ set(other.lower())) > 2 * limit:
            continue
        edits_and_name = _distance(word, other.lower(), limit), other
        if edits_and_name[0] <= limit and (best is None or edits_and_name < best):
            best = edits_and_name
    return None if best is None else best[1]


def nearest(name: str, known: Iterable[str], most: int) -> list[str]:
    """At most `most` of the known names, in order of their distance to a misspelled one, then alphabetically."""
    word, letters = name.lower(), Counter(name.lower())

    def least(other: str) -> int:  # an edit adds, removes or replaces one letter at most
        own = Counter(other.lower())
        return max((letters - own).total(), (own - letters).total())

    best: list[tuple[int, str]] = []
    for edits, other in sorted((least(other), other) for other in known):
        limit = best[-1][0] if len(best) == most else max(len(name), len(other))
        if edits > limit:
            break
        best = sorted([*best, (_distance(word, other.lower(), limit), other)])[:most]
    return [other for _, other in best]


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The hint for an unknown name: the closest known one, or `otherwise`."""
    close = closest_name(name, known)
    return f"did you mean '{close}'?" if close is not None else otherwise


def phrase(names: Iterable[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {joint} {items[-1]}" if items else "none"


def in_short(names: Sequence[str]) -> str:
    """`a, b, c`; of more than three, the first, the last, and how many there are: `a .. e (5)`."""
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} .. {names[-1]} ({len(names)})"


def plural(count: int, noun: str) -> str:
    """`1 chunk`, `3 chunks`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def in_one_line(text: str) -> str:
    """The text for a comment of a program: what cannot be printed, as a line break in a file name, is `?`."""
    return "".join(c if c.isprintable() else "?" for c in text)
