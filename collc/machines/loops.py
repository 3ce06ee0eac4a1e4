"""Loops for lists of links: what repeats becomes a range and a formula for each index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import isqrt
from typing import Final, NamedTuple

Index = tuple[int, ...]
Pair = tuple[Index, Index]

NAMES: Final = ("i", "j", "k", "m")
MOST_TRIED: Final = 64
"""Pairs of a step and a size up to which dimensions of a torus are looked for."""


class Loop(NamedTuple):
    """Links that one statement declares.

    ranges: (variable, range) of each loop variable. source, target: the index expressions. condition: "" for none.
    """

    ranges: tuple[tuple[str, str], ...]
    source: tuple[str, ...]
    target: tuple[str, ...]
    condition: str = ""


def loops(pairs: Sequence[Pair]) -> list[Loop] | None:
    """Loops that yield just these pairs of indices; None if a list of them is as short.

    There are no more loops than links that each of them stands for on average.

    pairs: different ones; the sources have the same number of indices, and so have the targets.
    """
    whole = _one_loop(pairs)
    if whole is not None:
        return [whole]
    return _pairs_in_blocks(pairs) or _loops_of_torus(pairs) or _loops_by_run(pairs) or _loops_by_first_index(pairs)


def _pairs_in_blocks(pairs: Sequence[Pair]) -> list[Loop] | None:
    """A loop over all pairs of a step and its multiples in equal blocks of a family, as in groups of a dragonfly."""
    edges = {(source[0], target[0]) for source, target in pairs if len(source) == len(target) == 1}
    steps = {b - a for a, b in edges}
    if len(edges) != len(pairs) or min(steps) < 1:
        return None
    step, count = min(steps), max(max(edge) for edge in edges) + 1
    size = max(steps) + step
    if count % size or size % step or len(edges) != count * (size // step - 1) // 2:
        return None
    if any((b - a) % step or a // size != b // size for a, b in edges):
        return None
    ranges = (("i", f"0..{count}"), ("j", f"i + {step}..(i // {size} + 1) * {size}"))
    return [Loop(ranges, ("i",), ("j",), f"(j - i) % {step} == 0" if step > 1 else "")]


def _loops_by_run(pairs: Sequence[Pair]) -> list[Loop] | None:
    """A loop for each run of the first index of the sources, if some of these have no links."""
    if not pairs[0][0]:
        return None
    runs = _runs(sorted({source[0] for source, _ in pairs}))
    if not 1 < len(runs) <= isqrt(len(pairs)):
        return None
    by_run = [_one_loop([pair for pair in pairs if start <= pair[0][0] < stop]) for start, stop in runs]
    every = [loop for loop in by_run if loop is not None]
    return every if len(every) == len(by_run) else None


def _loops_by_first_index(pairs: Sequence[Pair]) -> list[Loop] | None:
    """Loops over the first index of the sources, if all that have it are linked alike, as with some that fail."""
    if not pairs[0][0]:
        return None
    linked: dict[int, list[Pair]] = defaultdict(list)
    for source, target in pairs:
        linked[source[0]].append((source[1:], target))
    same: dict[tuple[Pair, ...], list[int]] = defaultdict(list)
    for first, rest in linked.items():
        same[tuple(sorted(rest))].append(first)
    nested: list[Loop] = []
    most = isqrt(len(pairs))
    for rest, firsts in same.items():
        inner = loops(rest) if len(nested) < most else None
        if inner is None:
            return None
        for start, stop in _runs(sorted(firsts)):
            span = (("n", f"{start}..{stop}"),) if stop - start > 1 else ()
            name = "n" if span else str(start)
            nested += [loop._replace(ranges=(*span, *loop.ranges), source=(name, *loop.source)) for loop in inner]
    taken = any("n" in (name for name, _ in loop.ranges[1:]) for loop in nested)
    return nested if len(nested) <= most and not taken else None


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last + 1)."""
    starts = [
        position for position in range(len(numbers)) if not position or numbers[position] != numbers[position - 1] + 1
    ]
    return [(numbers[a], numbers[b - 1] + 1) for a, b in pairwise([*starts, len(numbers)])]


def _loops_of_torus(pairs: Sequence[Pair]) -> list[Loop] | None:
    """A loop for each dimension of a torus whose places are the first index; the other indices are the same."""
    edges = {(source[0], target[0]) for source, target in pairs if source and target and source[1:] == target[1:]}
    tails = {source[1:] for source, _ in pairs}
    tail = _box(list(tails)) if next(iter(tails)) else []
    if tail is None or len(edges) * len(tails) != len(pairs):
        return None
    count = max(max(edge) for edge in edges) + 1
    ups, downs = {b - a for a, b in edges if b > a}, {b - a for a, b in edges if b < a}
    if len(ups) * (len(downs) + 1) > MOST_TRIED:
        return None
    names = _names(tail, NAMES[1:])
    ranges, rest = (("i", f"0..{count}"), *_ranges(tail, names)), _expressions(tail, names)
    written: list[Loop] = []
    for step in sorted(ups):
        for size in sorted({2 * step, *(step - (b - a) for a, b in edges if b < a)}, reverse=True):
            two = size == 2 * step  # places in this dimension, with one link
            wanted = {
                (at, at // size * size + (at + step) % size) for at in range(count) if not two or at % size < step
            }
            if count % size == 0 and wanted <= edges:
                edges -= wanted
                block = f"i // {size} * {size} + " if size < count else ""
                target = (f"i + {step}" if two else f"{block}(i + {step}) % {size}", *rest)
                written.append(Loop(ranges, ("i", *rest), target, f"i % {size} < {step}" if two else ""))
    return None if edges else written


def _one_loop(pairs: Sequence[Pair]) -> Loop | None:
    of_source: dict[Index, list[Index]] = defaultdict(list)
    for source, target in pairs:
        of_source[source].append(target)
    box = _box(list(of_source))
    if box is None:
        return _triangle(of_source)
    names = _names(box, NAMES)
    if all(len(targets) == 1 for targets in of_source.values()):
        values = [(source, targets[0]) for source, targets in of_source.items()]
        columns = range(len(values[0][1]))
        wanted = [[(source, target[column]) for source, target in values] for column in columns]
        texts = [next(_value_formulas(column, box, names), None) for column in wanted]
        formulas = tuple(text for text in texts if text is not None)
        if len(formulas) < len(texts):
            return _of_a_table(values, box, names)
        return Loop(_ranges(box, names), _expressions(box, names), formulas)
    return _every_pair(of_source, box, names) or _triangle(of_source)


def _box(indices: Sequence[Index]) -> list[range] | None:
    """The ranges of which the indices are all combinations; None if they are not."""
    box = [range(min(column), max(column) + 1) for column in zip(*indices, strict=True)]
    size = 1
    for span in box:
        size *= len(span)
    return box if size == len(set(indices)) else None


def _names(box: Sequence[range], names: Sequence[str]) -> list[str]:
    """A variable for each range; "" if it has one value only."""
    free = iter(names)
    return [next(free) if len(span) > 1 else "" for span in box]


def _ranges(box: Sequence[range], names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, f"{span.start}..{span.stop}") for span, name in zip(box, names, strict=True) if name)


def _expressions(box: Sequence[range], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name or str(span.start) for span, name in zip(box, names, strict=True))


def _of_a_table(values: Sequence[Pair], box: Sequence[range], names: Sequence[str]) -> Loop | None:
    """A loop over rows [first, end, targets ...], if the targets depend on one index and change seldom."""
    for axis, span in enumerate(box):
        table: dict[int, Index] = {}
        if not names[axis] or any(table.setdefault(source[axis], target) != target for source, target in values):
            continue
        starts = [place for place in span if place == span.start or table[place] != table[place - 1]]
        if len(starts) * 4 > len(values):
            continue
        rows = [[a, b, *table[a]] for a, b in pairwise([*starts, span.stop])]
        ranges = [("at", f"[{', '.join(map(str, rows))}]"), (names[axis], "at[0]..at[1]")]
        ranges += [kept for kept in _ranges(box, names) if kept[0] != names[axis]]
        targets = tuple(f"at[{2 + column}]" for column in range(len(rows[0]) - 2))
        return Loop(tuple(ranges), _expressions(box, names), targets)
    return None


def _value_formulas(wanted: Sequence[tuple[Index, int]], box: Sequence[range], names: Sequence[str]) -> Iterator[str]:
    """Expressions that have the wanted value for each source."""
    first = wanted[0][1]
    if all(value == first for _, value in wanted):
        yield str(first)
    for axis, name in enumerate(names):
        if not name:
            continue
        table: dict[int, int] = {}
        if any(table.setdefault(source[axis], value) != value for source, value in wanted):
            continue
        yield from _of_one(table, name)
    variables = [axis for axis, name in enumerate(names) if name]
    for high, low in product(variables, repeat=2):
        if high != low:
            count = len(box[low])
            if all(value == source[high] * count + source[low] - box[low].start for source, value in wanted):
                shift = f" - {box[low].start}" if box[low].start else ""
                yield f"{count} * {names[high]} + {names[low]}{shift}"


def _of_one(table: dict[int, int], name: str) -> Iterator[str]:
    """Expressions of one variable. table: its values, and those wanted."""
    items = sorted(table.items())
    shift = items[0][1] - items[0][0]
    if all(value - key == shift for key, value in items):
        yield name if not shift else f"{name} {'+' if shift > 0 else '-'} {abs(shift)}"
    width = sum(value == items[0][1] for _, value in items)
    for key_step in {width, *(b[0] - a[0] for a, b in pairwise(items) if b[1] < a[1])}:
        if key_step > 1 and all(value == key // key_step for key, value in items):
            yield f"{name} // {key_step}"
    count = max(table.values()) + 1
    for shift in (0, 1, count - 1):
        if count > 1 and all(value == (key + shift) % count for key, value in items):
            yield f"({name} + {shift}) % {count}" if shift else f"{name} % {count}"


def _every_pair(of_source: dict[Index, list[Index]], box: list[range], names: Sequence[str]) -> Loop | None:
    """A loop over all pairs of a source and a target, or of two different ones of the same devices."""
    targets = {target for heads in of_source.values() for target in heads}
    other = _box(list(targets))
    if other is None:
        return None
    free = _names(other, [name for name in NAMES if name not in names])
    loop = Loop(_ranges(box, names) + _ranges(other, free), _expressions(box, names), _expressions(other, free))
    if all(len(heads) == len(targets) for heads in of_source.values()):
        return loop
    same = box == other and sum(bool(name) for name in names) == 1
    if same and all(len(heads) == len(targets) - 1 and source not in heads for source, heads in of_source.items()):
        return loop._replace(condition=" != ".join(name for name in (*names, *free) if name))
    return None


def _triangle(of_source: dict[Index, list[Index]]) -> Loop | None:
    """A loop over all pairs of two devices of a family, each once."""
    if any(len(target) != len(source) for source, heads in of_source.items() for target in heads):
        return None
    devices = sorted({*of_source, *(target for heads in of_source.values() for target in heads)})
    box = _box(devices)
    if box is None or sum(len(span) > 1 for span in box) != 1:
        return None
    position = {device: at for at, device in enumerate(devices)}
    if any(len(of_source.get(device, ())) != len(devices) - 1 - at for device, at in position.items()):
        return None
    if any(position[target] <= position[source] for source, heads in of_source.items() for target in heads):
        return None
    first, second = _names(box, NAMES[:1]), _names(box, NAMES[1:2])
    start, stop = next((span.start, span.stop) for span in box if len(span) > 1)
    ranges = (("i", f"{start}..{stop}"), ("j", f"i + 1..{stop}"))
    return Loop(ranges, _expressions(box, first), _expressions(box, second))
