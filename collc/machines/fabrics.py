"""The network between nodes: switches and their cables, blocks, rings and tori of hosts; and the machine of both."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final

from collc.base.diagnostics import Span
from collc.base.wording import phrase, plural
from collc.machines.hosts import Inside, Kinds, Port
from collc.machines.machine import Device, Family, Machine, Nic, Wire, first_names, merge_wires
from collc.machines.reading import MICROSECOND, ImportOptions, check_devices, flaw, option_error
from collc.source.host_lists import compressed_hosts

NIC_LATENCY: Final = (
    Fraction(85, 100) * MICROSECOND,
    "assumed: half of NIC to NIC through a switch, measured on InfiniBand (TACCL, NSDI 2023, table 1)",
)
HOP_LATENCY: Final = (Fraction(3, 10) * MICROSECOND, "assumed: between two switches; no file says it")
_ASSUMED_UPLINK: Final = "assumed: one spine, and from each leaf a cable with the bandwidth of all its NICs"
_TIERS: Final = ("leaf", "spine", "core")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A cable from a host to a switch. port: the name of its NIC; "" if the file names hosts only.

    rate: bytes per second; None if the file does not say it. switch: its name in the file. guid: of the NIC, "" if the
    file has none.
    """

    host: str
    port: str
    switch: str
    rate: Fraction | None
    guid: str = ""


@dataclass(frozen=True, slots=True)
class Fabric:
    """Switches by name, cables between them (both directions; bytes per second, None if unknown), attachments.

    ordered: whether the order of hosts and switches is that of their places. assumed_cables: whether no file says the
    cables between switches and their bandwidth. assumed: what else is, as a sentence. unnamed: hosts that stand for a
    port each, since no file names them.
    """

    switches: tuple[str, ...]
    cables: tuple[tuple[str, str, Fraction | None], ...]
    attachments: tuple[Attachment, ...]
    dropped: tuple[str, ...] = ()
    ordered: bool = False
    assumed_cables: bool = False
    assumed: str = ""
    unnamed: tuple[str, ...] = ()

    @property
    def hosts(self) -> list[str]:
        """The names of the attached hosts, in the order of the file or with their numbers in ascending order."""
        names = list(dict.fromkeys(attachment.host for attachment in self.attachments))
        return names if self.ordered else sorted(names, key=natural)


def part_of_fabric(fabric: Fabric, hosts: Collection[str]) -> Fabric:
    """The fabric with these of its hosts, and of its switches those on the shortest paths between them."""
    kept = tuple(attachment for attachment in fabric.attachments if attachment.host in hosts)
    beside: dict[str, dict[str, None]] = defaultdict(dict)
    for a, b, _ in fabric.cables:
        beside[a][b] = beside[b][a] = None
    leaves = list(dict.fromkeys(attachment.switch for attachment in kept))
    used = set(leaves)
    for first in range(0, len(leaves), 256):  # some at a time, since memory grows with their number
        used |= _on_shortest_paths(beside, leaves[first : first + 256], set(leaves))
    cables = tuple(cable for cable in fabric.cables if cable[0] in used and cable[1] in used)
    return replace(
        fabric, switches=tuple(name for name in fabric.switches if name in used), cables=cables, attachments=kept
    )


def _on_shortest_paths(
    beside: Mapping[str, Collection[str]], sources: Sequence[str], targets: Collection[str]
) -> set[str]:
    """The switches on the shortest paths from sources to targets. Bit k of a number stands for the k-th source."""
    level = {name: 1 << number for number, name in enumerate(sources)}
    seen = dict(level)
    levels: list[dict[str, int]] = []  # by distance: of each switch the sources that are so far from it
    while level:
        levels.append(level)
        reached: dict[str, int] = defaultdict(int)
        for name, bits in level.items():
            for other in beside.get(name, ()):
                reached[other] |= bits
        level = {name: new for name, bits in reached.items() if (new := bits & ~seen.get(name, 0))}
        for name, bits in level.items():
            seen[name] = seen.get(name, 0) | bits
    used: set[str] = set()
    farther: dict[str, int] = {}  # of each switch the sources from which a path to a target leads over it
    for level in reversed(levels):
        nearer: dict[str, int] = {}
        for name, bits in level.items():
            led = bits if name in targets else 0
            for other in beside.get(name, ()):
                led |= bits & farther.get(other, 0)
            if led:
                nearer[name] = led
        used.update(nearer)
        farther = nearer
    return used


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts node2 before node10: of a number its length and digits, which may be too many for an int."""
    parts = re.split(r"(\d+)", name)
    return [
        (len(digits.lstrip("0")), digits.lstrip("0")) if number % 2 else (-1, digits)
        for number, digits in enumerate(parts)
    ]


def machine_of(insides: Sequence[Inside], fabric: Fabric, kinds: Kinds) -> Machine:
    """The machine of nodes on a fabric. insides: of each host, in the order of `fabric.hosts`.

    Raises SourceError X0601 if the ports of a host do not fit the NICs of its node, UsageError X0602 if no
    bandwidth is known.
    """
    check_devices(sum(family.count for inside in insides for family in inside.node.families) + len(fabric.switches))
    place, families = _tiers(fabric)
    node = {host: at for at, host in enumerate(fabric.hosts)}
    by_host: dict[str, list[Attachment]] = defaultdict(list)
    for attachment in fabric.attachments:
        by_host[attachment.host].append(attachment)
    wires: list[Wire] = []
    nics: list[Nic] = []
    idle: dict[str, list[str]] = defaultdict(list)  # NICs without a cable -> hosts
    for host, attachments in by_host.items():
        inside = insides[node[host]]
        plugged = [attachment for attachment in attachments if attachment.port not in inside.unused]
        matched = _match_ports(host, inside.ports, plugged)
        cabled = {port for port, _ in matched}
        if lost := [port.label for port in inside.ports if port not in cabled]:
            idle[phrase(lost)].append(host)
        for port, attachment in matched:
            rate = _least(port.rate, attachment.rate, kinds.options.rates.get("nic"))
            if rate is None:
                raise option_error(f"no bandwidth is known of the NICs of {host}", "give it: -D nic=400Gb/s")
            kind = kinds.name("nic", rate, "from a node to the fabric: the NIC, its cable or PCIe", NIC_LATENCY)
            device = port.device._replace(node=node[host])
            wires.append(Wire(device, place[attachment.switch], kind))
            if device.family != "nic":  # a device of its own
                names = [attachment.port or port.label, *((port.label,) if not kinds.options.gpus_per_node else ())]
                names += [port.address, attachment.guid] if kinds.options.addresses else []
                label = "|".join(name for name in dict.fromkeys(names) if name)
                nics.append(Nic(device, place[attachment.switch].family, label))
    unknown = [cable for cable in fabric.cables if cable[2] is None]
    given = kinds.options.rates.get("uplink")
    if unknown and given is None:
        a, b, _ = unknown[0]
        raise option_error(f"no bandwidth is known between switches ({a} and {b})", "give it: -D uplink=400Gb/s")
    for a, b, known in fabric.cables:
        rate = given if known is None else known
        assert rate is not None
        said = _ASSUMED_UPLINK if fabric.assumed_cables else "a cable between two switches"
        kind = kinds.name("uplink", rate, said, HOP_LATENCY, assumed_rate=fabric.assumed_cables)
        wires.append(Wire(place[a], place[b], kind))
    nodes = tuple(replace(inside.node, label=host) for inside, host in zip(insides, fabric.hosts, strict=True))
    without = [
        f"NICs that have no cable in the file of the fabric: {lost} of {first_names(compressed_hosts(lacking))}"
        for lost, lacking in ((lost, sorted(hosts, key=natural)) for lost, hosts in idle.items())
    ]
    dropped = dict.fromkeys([*(text for inside in insides for text in inside.dropped), *fabric.dropped, *without])
    unnamed = [host for host in fabric.unnamed if host in by_host]
    said = f"each port that only the driver named is a host: {first_names(unnamed)}" if unnamed else ""
    return Machine(
        tuple(kinds.found.values()),
        nodes,
        families,
        merge_wires(wires),
        dropped=tuple(dropped),
        assumed="; ".join(text for text in (fabric.assumed, said) if text),
        nics=tuple(nics),
    )


def _least(*rates: Fraction | None) -> Fraction | None:
    """The least of the rates that are known."""
    return min((rate for rate in rates if rate is not None), default=None)


def _match_ports(host: str, ports: Sequence[Port], attachments: Sequence[Attachment]) -> list[tuple[Port, Attachment]]:
    """Each cable of a host with the port of the node that it is plugged into."""
    if len(attachments) == 1 and not attachments[0].port:
        return [(port, attachments[0]) for port in ports]
    by_label = {port.label: port for port in ports}
    if all(one.port in by_label for one in attachments):
        return [(by_label[one.port], one) for one in attachments]
    if len(ports) != len(attachments):
        cables, nics = plural(len(attachments), "cable"), plural(len(ports), "NIC")
        message = f"host {host} has {cables} to the fabric, its node has {nics}"
        names = ", ".join(one.port for one in attachments[:8] if one.port)
        hint = f"give a file of the node with the NICs {names} (--node), or as many GPUs (--gpus-per-node)"
        raise flaw(message, hint=hint if names else "which NIC is on which switch is clear only if they are as many")
    ordered = sorted(attachments, key=lambda one: natural(one.port))
    return list(zip(ports, ordered, strict=True))


def _tiers(fabric: Fabric) -> tuple[dict[str, Device], tuple[Family, ...]]:
    """The devices of the switches, in tiers by their distance from the hosts."""
    tier = {one.switch: 0 for one in fabric.attachments}
    joined: dict[str, list[str]] = defaultdict(list)
    for a, b, _ in fabric.cables:
        joined[a].append(b)
        joined[b].append(a)
    queue = list(tier)
    for name in queue:
        for other in joined[name]:
            if other not in tier:
                tier[other] = tier[name] + 1
                queue.append(other)
    names: dict[int, list[str]] = defaultdict(list)
    known = [one for one in fabric.switches if one in tier]
    for name in known if fabric.ordered else sorted(known, key=natural):
        names[tier[name]].append(name)
    place: dict[str, Device] = {}
    families: list[Family] = []
    for level, members in sorted(names.items()):
        family = _TIERS[level] if level < len(_TIERS) else f"tier{level}"
        place |= {name: Device(-1, family, at) for at, name in enumerate(members)}
        families.append(Family(family, len(members), True, tuple(members)))
    return place, tuple(families)


def fabric_without_file(hosts: Sequence[str], insides: Sequence[Inside], options: ImportOptions) -> Fabric:
    """All NICs of all nodes on one switch; for `--fabric rails`, NIC k of every node on leaf switch k, and the leaves
    on a spine with the bandwidth of all their NICs.
    """
    rails = options.fabric == "rails"
    attachments = [
        Attachment(host, port.label, f"leaf{k}" if rails else "fabric", None)
        for host, inside in zip(hosts, insides, strict=True)
        for k, port in enumerate(inside.ports)
    ]
    if not rails:
        return Fabric(("fabric",), (), tuple(attachments))
    counts = {len(inside.ports) for inside in insides}
    if len(counts) > 1:
        raise flaw(f"--fabric rails needs as many NICs in each node; there are {sorted(counts)}")
    count = counts.pop()
    nic = options.rates.get("nic")
    cables: list[tuple[str, str, Fraction | None]] = []
    for k in range(count if len(hosts) > 1 and count > 1 else 0):
        rates = [_least(inside.ports[k].rate, nic) for inside in insides]
        known = [rate for rate in rates if rate is not None]
        cables.append((f"leaf{k}", "spine", sum(known, Fraction(0)) if len(known) == len(rates) else None))
    switches = (*(f"leaf{k}" for k in range(count)), *(("spine",) if cables else ()))
    return Fabric(switches, tuple(cables), tuple(attachments), assumed_cables=True)


JOINS: Final = ("nvlink", "switch", "nic")
"""What joins the hosts of a block (nvlink, switch), ring or torus (switch, nic)."""

_CABLE_LATENCY: Final = (
    2 * NIC_LATENCY[0],
    "assumed: NIC to NIC, measured through a switch of InfiniBand (TACCL, NSDI 2023, table 1)",
)


@dataclass(frozen=True, slots=True)
class HostGroup:
    """A block, ring or torus. sizes: of a ring or torus, the first dimension fastest; () for a block.

    places: of the hosts in a torus that has places without one; () if all have.
    """

    name: str
    hosts: tuple[str, ...]
    sizes: tuple[int, ...]
    span: Span
    places: tuple[int, ...] = ()

    def cables(self) -> list[tuple[int, int]]:
        """Pairs of hosts, by their numbers, that are neighbours in a ring or torus."""
        number = {place: at for at, place in enumerate(self.places or range(len(self.hosts)))}
        return [(number[a], number[b]) for a, b in neighbours(self.sizes) if a in number and b in number]


@dataclass(frozen=True, slots=True)
class HostGroups:
    """The groups of a file. what: block, ring or torus."""

    what: str
    groups: tuple[HostGroup, ...]
    dropped: tuple[str, ...] = ()

    @property
    def hosts(self) -> list[str]:
        """The hosts in the order of the file, which is that of their places."""
        return [host for group in self.groups for host in group.hosts]

    def remark(self) -> str:
        """A sentence that names the groups."""
        said = [f"{self.what} {group.name} is {', '.join(compressed_hosts(group.hosts))}" for group in self.groups[:16]]
        return phrase([*said, f"{len(self.groups) - 16} more"] if len(self.groups) > 16 else said)


def checked_groups(what: str, groups: Sequence[HostGroup], dropped: Sequence[str], part: str | None) -> HostGroups:
    """Groups without hosts that are there twice; part: the name of the ring or torus to take, None for the only one.

    Raises SourceError X0601 with the line of what is wrong, UsageError X0602 if one of several must be chosen.
    """
    seen: dict[str, str] = {}
    for group in groups:
        if not group.hosts:
            raise flaw(f"{what} {group.name} names no host", group.span, "name its hosts, or leave it out")
        for host in group.hosts:
            if host in seen:
                raise flaw(f"{host} is in {what} {seen[host]} and in {what} {group.name}", group.span)
            seen[host] = group.name
        if group.sizes and not group.places and prod(group.sizes) != len(group.hosts):
            shape = " x ".join(map(str, group.sizes))
            raise flaw(f"{what} {group.name} has {shape} places and {len(group.hosts)} hosts", group.span)
    names = [group.name for group in groups]
    twice = next((group for at, group in enumerate(groups) if group.name in names[:at]), None)
    if twice is not None:
        raise flaw(f"{what} {twice.name} occurs twice", twice.span)
    chosen = [group for group in groups if part is None or group.name == part or what == "block"]
    if what != "block" and len(chosen) != 1:
        raise option_error(
            f"the file has {what} {phrase(names)}, and no file says how they are connected", f"--part {names[0]}"
        )
    return HostGroups(what, tuple(chosen), tuple(dropped))


def join_of(found: HostGroups, given: str | None, gpus: int | None) -> str:
    """What joins the hosts: of JOINS. given: by the option. Raises UsageError X0602 if it is needed and missing."""
    if found.what == "block":
        if given not in {"nvlink", "switch"}:
            hint = "--joined-by nvlink (a block is one NVLink domain) or --joined-by switch (a block is a leaf switch)"
            raise option_error("a block says which hosts belong together, not what links them", hint)
        return given
    if given is None and gpus == 1:
        return "nic"
    if given not in {"nic", "switch"}:
        hint = "--joined-by nic (NIC k to NIC k of the next host) or --joined-by switch (each host has a switch)"
        raise option_error(f"a {found.what} says which hosts are neighbours, not what links them", hint)
    return given


def neighbours(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of places, each once, of a ring or torus, the first dimension fastest; two places have one cable."""
    pairs: list[tuple[int, int]] = []
    places = [place[::-1] for place in product(*(range(size) for size in reversed(sizes)))]
    number = {place: k for k, place in enumerate(places)}
    for place in places:
        for axis, size in enumerate(sizes):
            if size > 2 or place[axis] + 1 < size:
                neighbour = (*place[:axis], (place[axis] + 1) % size, *place[axis + 1 :])
                pairs.append((number[place], number[neighbour]))
    return pairs


def switched_groups(found: HostGroups) -> Fabric:
    """A leaf switch for each block, all on one spine; or a switch for each host, cabled to those of its neighbours."""
    if found.what != "block":
        group = found.groups[0]
        cables = [(group.hosts[a], group.hosts[b], None) for a, b in group.cables()]
        own = [Attachment(host, "", host, None) for host in group.hosts]
        return Fabric(group.hosts, tuple(cables), tuple(own), found.dropped, ordered=True)
    names = [group.name for group in found.groups]
    spine = "spine" if "spine" not in names else "spine of the blocks"
    below = [Attachment(host, "", group.name, None) for group in found.groups for host in group.hosts]
    above = [(name, spine, None) for name in names] if len(names) > 1 else []
    return Fabric((*names, *([spine] if above else [])), tuple(above), tuple(below), found.dropped, ordered=True)


def cabled_groups(found: HostGroups, insides: Sequence[Inside], kinds: Kinds) -> Machine:
    """NIC k of each host of a ring or torus cabled to NIC k of its neighbours. insides: of the hosts in order."""
    group = found.groups[0]
    if len({len(inside.ports) for inside in insides}) > 1:
        raise flaw("--joined-by nic needs as many NICs in each node")
    wires: list[Wire] = []
    for a, b in group.cables():
        for port, other in zip(insides[a].ports, insides[b].ports, strict=True):
            known = [rate for rate in (port.rate, other.rate, kinds.options.rates.get("nic")) if rate is not None]
            if not known:
                raise option_error(f"no bandwidth is known of the NICs of {group.hosts[a]}", "give it: -D nic=400Gb/s")
            kind = kinds.name("nic", min(known), "a cable from a NIC to that of the next host", _CABLE_LATENCY)
            wires.append(Wire(port.device._replace(node=a), other.device._replace(node=b), kind))
    nodes = tuple(replace(inside.node, label=host) for inside, host in zip(insides, group.hosts, strict=True))
    dropped = dict.fromkeys([*(text for inside in insides for text in inside.dropped), *found.dropped])
    return Machine(tuple(kinds.found.values()), nodes, (), merge_wires(wires), dropped=tuple(dropped))
