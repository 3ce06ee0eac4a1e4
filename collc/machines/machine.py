"""A machine as files describe it: nodes with GPUs, switches and links, and the fabric between the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, NamedTuple

from collc.base.disjoint_sets import DisjointSets
from collc.machines.reading import MICROSECOND, ImportOptions, check_devices, flaw
from collc.source.host_lists import compressed_hosts


class Device(NamedTuple):
    """One device. node: the position of its node, -1 in the fabric and inside of a node. number: in its family."""

    node: int
    family: str
    number: int


class Wire(NamedTuple):
    """Parallel links between two devices. kind: the name of a LinkKind. both: whether in both directions."""

    source: Device
    target: Device
    kind: str
    lanes: int = 1
    both: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """Devices that are declared together. labels: their names in the file; () for none."""

    name: str
    count: int
    is_switch: bool
    labels: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class LinkKind:
    """Links of one rate and latency.

    name: of its rate in the program; its latency is NAME_latency. rate: bytes per second of one link. times:
    physical links that make one. latency: seconds. rate_source, latency_source: who says so, as a comment. assumed,
    assumed_rate: whether no file says the latency, the rate. share: a param of the program, the part of the
    rate that each direction has; "" if it has all.
    """

    name: str
    rate: Fraction
    rate_source: str
    latency: Fraction
    latency_source: str
    times: int = 1
    assumed: bool = True
    assumed_rate: bool = False
    share: str = ""


SHARED_PART: Final = "shared_part"
"""The param for links whose bandwidth both directions share."""


@dataclass(frozen=True, slots=True)
class Node:
    """The inside of a node. label: the name of its host. domain: of NVLinks, shared with other nodes; "" for none."""

    families: tuple[Family, ...]
    wires: tuple[Wire, ...]
    label: str = field(default="", compare=False)
    domain: str = field(default="", compare=False)


class Nic(NamedTuple):
    """A NIC that is no device of its own. gpu: which has it alone. tier: the family of the switches that it is cabled
    to. label: its names, with | between them.
    """

    gpu: Device
    tier: str
    label: str


@dataclass(frozen=True, slots=True)
class Machine:
    """What an importer found.

    kinds: in the order in which the program declares them. nodes: those with an inside of their own; () if the
    machine is one network. families, wires: of the fabric. nics: parts of it that fail as one. taken, dropped, assumed:
    sentences for the head of the program.
    """

    kinds: tuple[LinkKind, ...]
    nodes: tuple[Node, ...] = ()
    families: tuple[Family, ...] = ()
    wires: tuple[Wire, ...] = ()
    taken: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    assumed: str = ""
    nics: tuple[Nic, ...] = ()


def merge_wires(wires: list[Wire]) -> tuple[Wire, ...]:
    """The wires in order, those between the same devices joined: equal ones as lanes, opposite ones as `both`."""
    lanes: dict[Wire, int] = {}
    for wire in wires:
        key = Wire(wire.source, wire.target, wire.kind, 1, wire.both)
        if wire.both and (opposite := Wire(wire.target, wire.source, wire.kind)) in lanes:
            key = opposite
        lanes[key] = lanes.get(key, 0) + wire.lanes
    merged: list[Wire] = []
    for wire in list(lanes):
        source, target, kind, _, both = wire
        count = lanes.pop(wire, 0)
        if not both and count and lanes.get(opposite := Wire(target, source, kind, 1, both)) == count:
            del lanes[opposite]
            both = True
        if count:
            merged.append(Wire(source, target, kind, count, both))
    return tuple(sorted(merged))


_NVSWITCH: Final = "nvswitch"


def with_domains(machine: Machine) -> Machine:
    """The machine with one NVSwitch for each `Node.domain`; nodes without a domain keep theirs."""
    names = list(dict.fromkeys(node.domain for node in machine.nodes if node.domain))
    if not names:
        return machine
    nodes: list[Node] = []
    wires = list(machine.wires)
    for position, node in enumerate(machine.nodes):
        if not node.domain:
            nodes.append(node)
            continue
        shared = Device(-1, _NVSWITCH, names.index(node.domain))
        own: list[Wire] = []
        for wire in node.wires:
            if wire.target.family == _NVSWITCH:
                wires.append(wire._replace(source=wire.source._replace(node=position), target=shared))
            else:
                own.append(wire)
        families = tuple(family for family in node.families if family.name != _NVSWITCH)
        nodes.append(replace(node, families=families, wires=tuple(own)))
    families = (Family(_NVSWITCH, len(names), True, tuple(names)), *machine.families)
    return replace(machine, nodes=tuple(nodes), families=families, wires=merge_wires(wires))


def unjoined_parts(machine: Machine) -> str:
    """A sentence that names NPUs that no path joins to the first one; "" if there is none."""
    families = [(-1, "", family) for family in machine.families]
    families += [(at, node.label, family) for at, node in enumerate(machine.nodes) for family in node.families]
    parts = DisjointSets[Device]()
    wires = [(-1, machine.wires), *((at, node.wires) for at, node in enumerate(machine.nodes))]
    for at, inside in wires:
        for wire in inside:
            ends = (end if end.node >= 0 else end._replace(node=at) for end in (wire.source, wire.target))
            parts.join(*ends)
    roots: dict[Device, list[str]] = defaultdict(list)
    for at, host, family in families:
        for number in range(0 if family.is_switch else family.count):
            label = family.labels[number] if family.labels else f"{family.name}[{number}]"
            roots[parts.root(Device(at, family.name, number))].append(host or label)
    if len(roots) < 2:
        return ""
    _, *others = roots.values()
    lost = first_names(compressed_hosts(list(dict.fromkeys(name for names in others for name in names))))
    return f"no path joins all NPUs: the machine has {len(roots)} parts, and not in the first one are {lost}"


# Graphs: files that list NPUs, switches and edges with their rates


Edge = tuple[str, str, Fraction, Fraction | None, int]
"""Source, target, bytes per second, seconds (None: not said), lanes; in one direction."""

_ASSUMED_LATENCY: Final = (
    Fraction(7, 10) * MICROSECOND,
    "assumed: as of an NVLink between two GPUs (TACCL, NSDI 2023, table 1)",
)
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
        kind = kinds.get(key)
        if kind is None:
            name = f"link{len(kinds) or ''}"
            given = options.latencies.get(name)
            time, by = _ASSUMED_LATENCY if latency is None else (latency, "in the file")
            if given is not None:
                time, by = given, "given when imported"
            assumed, share = latency is None and given is None, SHARED_PART if number in shared else ""
            kind = kinds[key] = LinkKind(name, rate, said, time, by, assumed=assumed, share=share)
        wires.append(Wire(place[source], place[target], kind.name, lanes, both=False))
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
