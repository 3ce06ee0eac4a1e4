"""NVLink domains of several hosts: the NVSwitches of their nodes become one switch of the fabric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collc.machines.machine import Device, Family, Machine, Node, Wire, merge_wires

_SWITCH = "nvswitch"


def are_one_domain(nodes: Sequence[Node]) -> bool:
    """Whether NVLinks join all nodes."""
    return nodes[0].domain != "" and {node.domain for node in nodes} == {nodes[0].domain}


def with_domains(machine: Machine) -> Machine:
    """The machine with one NVSwitch for each `Node.domain`; nodes without a domain keep theirs."""
    names = list(dict.fromkeys(node.domain for node in machine.nodes if node.domain))
    if not names:
        return machine
    nodes: list[Node] = []
    wires = list(machine.wires)
    for at, node in enumerate(machine.nodes):
        if not node.domain:
            nodes.append(node)
            continue
        shared = Device(-1, _SWITCH, names.index(node.domain))
        own: list[Wire] = []
        for wire in node.wires:
            if wire.target.family == _SWITCH:
                wires.append(wire._replace(source=wire.source._replace(node=at), target=shared))
            else:
                own.append(wire)
        families = tuple(family for family in node.families if family.name != _SWITCH)
        nodes.append(replace(node, families=families, wires=tuple(own)))
    families = (Family(_SWITCH, len(names), True, tuple(names)), *machine.families)
    return replace(machine, nodes=tuple(nodes), families=families, wires=merge_wires(wires))
