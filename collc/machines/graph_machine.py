"""The machine of a graph: a file that lists NPUs, switches and edges with their rates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from collc.machines.machine import SHARED_PART, Device, Family, LinkKind, Machine, Wire, merge_wires
from collc.machines.reading import MICRO, ImportOptions, check_devices, flaw

Edge = tuple[str, str, Fraction, Fraction | None, int]
"""Source, target, bytes per second, seconds (None: not said), lanes; in one direction."""

_ASSUMED: Final = (Fraction(7, 10) * MICRO, "assumed: that of an NVLink between two GPUs (TACCL, NSDI 2023, table 1)")
MOST_KINDS: Final = 1000


def graph_machine(
    npus: Sequence[str],
    switches: Sequence[str],
    edges: Sequence[Edge],
    options: ImportOptions,
    said: str,
    shared: Collection[int] = (),
) -> Machine:
    """The machine of a graph, without its self-loops.

    said: who says the rates. shared: edges that share theirs with the opposite one.
    """
    check_devices(len(npus) + len(switches))
    place = {name: Device(-1, "npu", at) for at, name in enumerate(npus)}
    place |= {name: Device(-1, "switch", at) for at, name in enumerate(switches)}
    kinds: dict[tuple[Fraction, Fraction | None, bool], LinkKind] = {}
    wires: list[Wire] = []
    loops = list(dict.fromkeys(source for source, target, *_ in edges if source == target))
    for number, (source, target, rate, latency, lanes) in enumerate(edges):
        if source == target:
            continue
        key = (rate, latency, number in shared)
        if key not in kinds:
            kind = _kind(len(kinds), rate, latency, options, said)
            kinds[key] = replace(kind, share=SHARED_PART) if number in shared else kind
        wires.append(Wire(place[source], place[target], kinds[key].name, lanes, both=False))
    families = [Family("npu", len(npus), False, tuple(npus))]
    if switches:
        families.append(Family("switch", len(switches), True, tuple(switches)))
    if len(kinds) > MOST_KINDS:
        raise flaw(f"{len(kinds):,} different rates and latencies; {MOST_KINDS:,} are the most")
    dropped = (f"edges from a node to itself ({first_names(loops)})",) if loops else ()
    return Machine(tuple(kinds.values()), families=tuple(families), wires=merge_wires(wires), dropped=dropped)


def first_names(names: Sequence[str]) -> str:
    """Up to eight names, and how many more there are."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _kind(number: int, rate: Fraction, latency: Fraction | None, options: ImportOptions, said: str) -> LinkKind:
    name = "link" if not number else f"link{number}"
    given = options.latencies.get(name)
    if given is not None:
        return LinkKind(name, rate, said, given, "given when imported", assumed=False)
    if latency is not None:
        return LinkKind(name, rate, said, latency, "in the file", assumed=False)
    return LinkKind(name, rate, said, *_ASSUMED)
