"""Blocks, rings and tori of hosts in Slurm's files, which say what is near; an option says by which links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final

from collc.base.diagnostics import Span
from collc.base.wording import phrase
from collc.machines.fabrics import NIC_LATENCY, Attachment, Fabric
from collc.machines.hosts import Inside, Kinds
from collc.machines.machine import Device, Machine, Wire, merge_wires
from collc.machines.reading import flaw, option_error
from collc.source.host_lists import compressed_hosts

JOINS: Final = ("nvlink", "switch", "nic")
"""What joins the hosts of a block (nvlink, switch), ring or torus (switch, nic)."""

_CABLE_LATENCY: Final = (
    2 * NIC_LATENCY[0],
    "assumed: NIC to NIC, measured through a switch of InfiniBand (TACCL, NSDI 2023, table 1)",
)
_SHOWN: Final = 16


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
        said = [f"{self.what} {one.name} is {', '.join(compressed_hosts(one.hosts))}" for one in self.groups[:_SHOWN]]
        return phrase([*said, f"{len(self.groups) - _SHOWN} more"] if len(self.groups) > _SHOWN else said)


def checked_groups(what: str, groups: Sequence[HostGroup], dropped: Sequence[str], part: str | None) -> HostGroups:
    """Groups without hosts that are there twice; part: the name of the ring or torus to take, None for the only one.

    Raises SourceError X0601 with the line of what is wrong, UsageError X0602 if one of several must be chosen.
    """
    seen: dict[str, str] = {}
    for group in groups:
        if not group.hosts:
            raise flaw(f"{what} {group.name} names no host", group.span)
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
    found: list[tuple[int, int]] = []
    for place in product(*(range(size) for size in reversed(sizes))):
        at = place[::-1]
        for axis, size in enumerate(sizes):
            if size > 2 or at[axis] + 1 < size:
                other = (*at[:axis], (at[axis] + 1) % size, *at[axis + 1 :])
                found.append((_number(at, sizes), _number(other, sizes)))
    return found


def _number(place: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(one * prod(sizes[:axis]) for axis, one in enumerate(place))


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
        for one, other in zip(insides[a].ports, insides[b].ports, strict=True):
            known = [rate for rate in (one.rate, other.rate, kinds.options.rates.get("nic")) if rate is not None]
            if not known:
                raise option_error(f"no bandwidth is known of the NICs of {group.hosts[a]}", "give it: -D nic=400Gb/s")
            kind = kinds.name("nic", min(known), "a cable from a NIC to that of the next host", _CABLE_LATENCY)
            wires.append(Wire(_in(one.device, a), _in(other.device, b), kind))
    nodes = tuple(replace(inside.node, label=host) for inside, host in zip(insides, group.hosts, strict=True))
    dropped = dict.fromkeys([*(text for inside in insides for text in inside.dropped), *found.dropped])
    return Machine(tuple(kinds.found.values()), nodes, (), merge_wires(wires), dropped=tuple(dropped))


def _in(device: Device, node: int) -> Device:
    return device._replace(node=node)
