"""The `.coll` program of a machine: what repeats becomes a template and loops, what was assumed becomes a param.

What is repeated in a list of links becomes a loop with a formula for each index.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import isqrt
from typing import Final, NamedTuple

from collc.base.diagnostics import SourceFile
from collc.base.units import decimal, format_rate, format_time
from collc.base.wording import in_one_line, phrase
from collc.machines.machine import SHARED_PART, Device, Family, LinkKind, Machine, Node, Wire
from collc.source.formatting.format import format_source
from collc.source.formatting.layout import WIDTH
from collc.source.host_lists import compressed_hosts, is_host_range

PICOSECONDS: Final = 10**12
GIGA: Final = 10**9
_ROWS: Final = "# rows"
_SHARED_SOURCE: Final = (
    "assumed: both directions of some links share the bandwidth, so that each has this part of it at all times; 1 if"
    " only one is busy"
)


def program_text(
    machine: Machine, name: str, origin: str, imports: Sequence[str] = (), measured: Collection[str] = ()
) -> str:
    """The program, in canonical layout. name: of the topology. origin: the first sentence of the comment on top.

    imports: files with measured values; measured: the names of these, as `nvlink_bandwidth` and `nvlink_latency`.
    """
    if len(machine.nodes) == 1 and not machine.families and not machine.wires:  # one network
        node = machine.nodes[0]
        machine = replace(machine, nodes=(), families=node.families, wires=node.wires)
    lines = [*_head(machine, origin, measured), "", *(f'import "{path}"' for path in imports)]
    if any(kind.share for kind in machine.kinds):
        lines += [*_comment(_SHARED_SOURCE), f"param {SHARED_PART}: float = 0.5"]
    for kind in machine.kinds:
        lines += _kind_lines(kind, measured)
    groups = _copies(machine.nodes, name)
    for group in groups:
        lines += ["", f"topology {group.template} {{", *_body(group.node.families, group.node.wires, {}, {}), "}"]
    lines += ["", f"topology {name} {{"]
    place = {node: (group, at) for group in groups for at, node in enumerate(group.positions)}
    for group in groups:
        count = f"[{len(group.positions)}]" if len(group.positions) > 1 else ""
        labels = _labels([machine.nodes[at].label for at in group.positions])
        lines.append(f"use {group.template} as {group.copy}{count}{labels}")
    counts = {(group.copy, family.name): family.count for group in groups for family in group.node.families}
    lines += [*_body(machine.families, machine.wires, place, counts), "}"]
    tables = [line for line in lines if line.startswith(_ROWS)]
    lines = [_ROWS if line.startswith(_ROWS) else line for line in lines]
    first, *others = format_source(SourceFile(f"{name}.coll", "\n".join(lines) + "\n")).split(f"    {_ROWS}\n")
    return first + "".join(_row_lines(table) + text for table, text in zip(tables, others, strict=True))


def _row_lines(table: str) -> str:
    """The loop over many rows, in the canonical layout of a topology's body."""
    link, _, text = table.removeprefix(f"{_ROWS} ").partition(" @ ")
    rows = [row.split(", ") for row in text.strip("[]").split("], [")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [", ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    inner = ",\n".join(f"        [{row}]" for row in cells)
    return f"    for at in [\n{inner}\n    ] {{\n        {link}\n    }}\n"


def _head(machine: Machine, origin: str, measured: Collection[str]) -> list[str]:
    assumed = [name for kind in machine.kinds if kind.assumed and (name := f"{kind.name}_latency") not in measured]
    assumed += [SHARED_PART] if any(kind.share for kind in machine.kinds) else []
    assumed += [kind.name for kind in machine.kinds if kind.assumed_rate and f"{kind.name}_bandwidth" not in measured]
    parts = [origin]
    if machine.taken:
        parts.append(f"Taken as it stands: {'; '.join(machine.taken)}.")
    if assumed:
        todo = "since no file says it; measure it and write it here, or set it with -D"
        parts.append(f"Assumed, {todo}: {phrase(assumed)}.")
    if machine.assumed:
        parts.append(f"Assumed: {machine.assumed}.")
    if machine.dropped:
        parts.append(f"Dropped: {'; '.join(machine.dropped)}.")
    lines: list[str] = []
    for part in parts:
        lines += [*_comment(part), "#"]
    return lines[:-1]


def _comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(in_one_line(text), WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


def _kind_lines(kind: LinkKind, measured: Collection[str]) -> list[str]:
    rate = _exact_rate(kind.rate)
    if kind.times > 1:
        rate = f"{kind.times} * {rate}"
    if kind.share:
        rate = f"{kind.share} * {rate}"
    word, type_ = ("param", ": rate") if kind.assumed_rate else ("let", "")
    lines = [*_comment(kind.rate_source), f"{word} {kind.name}{type_} = {rate}"]
    if f"{kind.name}_bandwidth" in measured:
        lines = [
            *_comment(f"measured; the files say {rate}: {kind.rate_source}"),
            f"let {kind.name} = {kind.name}_bandwidth",
        ]
    if f"{kind.name}_latency" in measured:
        return lines
    word, type_ = ("param", ": time") if kind.assumed else ("let", "")
    latency = format_time(kind.latency * PICOSECONDS)
    return [*lines, *_comment(kind.latency_source), f"{word} {kind.name}_latency{type_} = {latency}"]


def _exact_rate(rate: Fraction) -> str:
    """The rate as an expression that is exact, in GB/s if that is short."""
    if (rate / 1000_000).denominator == 1:
        return decimal(rate / GIGA) + "GB/s"
    if (rate * 1000).denominator == 1:
        return format_rate(rate)
    return f"{rate.numerator}B/s / {rate.denominator}"


@dataclass(frozen=True, slots=True)
class _Copies:
    """Nodes that are alike. template, copy: their names in the program. positions: of the nodes in the machine."""

    template: str
    copy: str
    node: Node
    positions: tuple[int, ...]


def _copies(nodes: Sequence[Node], name: str) -> list[_Copies]:
    positions_of: dict[Node, list[int]] = defaultdict(list)
    for position, node in enumerate(nodes):
        positions_of[node].append(position)
    alike: dict[Node, list[int]] = {}
    for positions in positions_of.values():  # with the labels that are the same in all of them
        families = [
            equal[0] if all(other.labels == equal[0].labels for other in equal) else replace(equal[0], labels=())
            for equal in zip(*(nodes[position].families for position in positions), strict=True)
        ]
        alike[replace(nodes[positions[0]], families=tuple(families))] = positions
    numbers = [""] if len(alike) == 1 else map(str, range(len(alike)))
    return [
        _Copies(f"{name}_node{number}", f"node{number}", node, tuple(positions))
        for number, (node, positions) in zip(numbers, alike.items(), strict=True)
    ]


_Places = dict[int, tuple[_Copies, int]]
_Counts = dict[tuple[str, str], int]


def _body(families: Sequence[Family], wires: Sequence[Wire], place: _Places, counts: _Counts) -> list[str]:
    """The devices and links of a topology. place: of the nodes that it uses; counts: sizes of their families."""
    lines: list[str] = []
    for family in sorted(families, key=lambda one: one.is_switch):
        size = f"[{family.count}]" if family.count > 1 else ""
        lines.append(f"{'switch' if family.is_switch else 'npu'} {family.name}{size}{_labels(family.labels)}")
    counts = counts | {("", family.name): family.count for family in families}
    groups: dict[tuple[object, ...], list[Pair]] = defaultdict(list)
    for wire in wires:
        ends = [_reference(device, place, counts) for device in (wire.source, wire.target)]
        key = (ends[0][0], ends[1][0], wire.kind, wire.lanes, wire.both)
        groups[key].append((ends[0][1], ends[1][1]))
    for (source, target, kind, lanes, both), pairs in groups.items():
        arrow = "<->" if both else "->"
        tail = f"(bandwidth: {kind}, latency: {kind}_latency)"
        lines += _statements(str(source), f" {arrow} ", str(target), tail, int(str(lanes)), pairs)
    return lines


def _labels(names: Sequence[str]) -> str:
    """The names that devices have in the file, as ` labels "node[1-4]"`; a device without one is `?`."""
    if not any(names):
        return ""
    clean = ["".join(c if c.isprintable() and c not in '"\\' else "?" for c in name) or "?" for name in names]
    clean = [name.replace("[", "(").replace("]", ")") if is_host_range(name) else name for name in clean]
    texts = [f'"{text}"' for text in compressed_hosts(clean)]
    return f" labels {texts[0]}" if len(texts) == 1 else f" labels [{', '.join(texts)}]"


def _reference(device: Device, place: _Places, counts: _Counts) -> tuple[str, Index]:
    """A device as text with {} for each index, and these indices."""
    if device.node < 0:
        if counts["", device.family] == 1:
            return device.family, ()
        return device.family + "[{}]", (device.number,)
    group, position = place[device.node]
    path, index = (f"{group.copy}[{{}}]", (position,)) if len(group.positions) > 1 else (group.copy, ())
    if counts[group.copy, device.family] == 1:
        return f"{path}.{device.family}", index
    return f"{path}.{device.family}[{{}}]", (*index, device.number)


def _statements(source: str, arrow: str, target: str, tail: str, lanes: int, pairs: list[Pair]) -> list[str]:
    """The links between devices of two families."""
    repeat = [("lane", f"0..{lanes}")] if lanes > 1 else []
    written = loops(pairs)
    if written is None:
        ends = len(pairs[0][0])
        rows = ", ".join(f"[{', '.join(map(str, (*a, *b)))}]" for a, b in pairs)
        ranges = [("at", f"[{rows}]"), *repeat]
        indices = [f"at[{k}]" for k in range(ends + len(pairs[0][1]))]
        link = f"link {source.format(*indices[:ends])}{arrow}{target.format(*indices[ends:])} {tail}"
        if len(pairs) > WIDTH and not repeat:  # many lines, of which the formatter takes 0.1 ms each
            return [f"{_ROWS} {link} @ {rows}"]
        return [_loop(ranges, "", link)]
    return [
        _loop(
            [*loop.ranges, *repeat],
            loop.condition,
            f"link {source.format(*loop.source)}{arrow}{target.format(*loop.target)} {tail}",
        )
        for loop in written
    ]


def _loop(ranges: Sequence[tuple[str, str]], condition: str, link: str) -> str:
    if not ranges:
        return link
    text = ", ".join(f"{name} in {values}" for name, values in ranges)
    return f"for {text}{' if ' + condition if condition else ''} {{ {link} }}"


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
