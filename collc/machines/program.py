"""The `.coll` program of a machine: what repeats becomes a template and loops, what was assumed becomes a param.

What is repeated in a list of links becomes a loop with a formula for each index.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.base.units import decimal, format_rate, format_time
from collc.base.wording import in_one_line, phrase
from collc.machines.loops import Index, Pair, loops
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
    lines += _body(machine.families, machine.wires, place, counts)
    lines += [*_node_parts(groups), *_nic_parts(machine, groups), "}"]
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


def _node_parts(groups: Sequence[_Copies]) -> Iterator[str]:
    """A name for all nodes, if they have several."""
    base = 0
    for group in groups if len(groups) > 1 else ():
        many = len(group.positions) > 1
        copy = f"{group.copy}[n - {base}]" if many and base else f"{group.copy}[n]" if many else group.copy
        switches = [f"switch {copy}.{family.name}" for family in group.node.families if family.is_switch]
        after = base + len(group.positions)
        yield f"part node[n in {base}..{after}] = {{ {', '.join([f'npu {copy}', *switches])} }}"
        base = after


def _nic_parts(machine: Machine, groups: Sequence[_Copies]) -> Iterator[str]:
    """The NICs as parts that fail as one, by node and GPU: all links of the GPU to switches of the fabric."""
    names = {(nic.gpu.node, nic.gpu.number): nic.label for nic in machine.nics}
    tiers = [family for family in machine.families if family.name in {nic.tier for nic in machine.nics}]
    base = 0
    for group in groups if tiers else ():
        gpus = next(family.count for family in group.node.families if family.name == "gpu")
        many, after = len(group.positions) > 1, base + len(group.positions)
        copy = f"{group.copy}[n - {base}]" if many and base else f"{group.copy}[n]" if many else group.copy
        gpu = f"{copy}.gpu[i]" if gpus > 1 else f"{copy}.gpu"
        links = ", ".join(f"link {gpu} <-> {tier.name}{'[*]' if tier.count > 1 else ''}" for tier in tiers)
        labels = [names.get((node, number), "") for node in group.positions for number in range(gpus)]
        alike = [{*labels[number::gpus]} - {""} for number in range(gpus)]  # a NIC without a cable has no label
        labels = ["".join(own) for own in alike] if all(len(own) < 2 for own in alike) else labels
        yield f"part nic[n in {base}..{after}, i in 0..{gpus}] = {{ {links} }}{_labels(labels)}"
        base = after
