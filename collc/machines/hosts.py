"""A host as drivers describe it: GPUs and NICs at the leaves of PCIe trees, and NVLinks; and the node that it gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from collc.base.reading import read_text
from collc.base.resources import standard_library
from collc.graph.digraph import Digraph, weakly_connected
from collc.machines.machine import Device, Family, LinkKind, Node, Wire, merge_wires
from collc.machines.reading import GIGA, MICROSECOND, ImportOptions, flaw

Hop = tuple[str, Fraction]
"""The bridge or CPU at the other end of a PCIe link, and the link's bytes per second."""

NVLINK_LATENCY: Final = (
    Fraction(7, 10) * MICROSECOND,
    "assumed: GPU to GPU, measured on V100 (TACCL, NSDI 2023, table 1)",
)
SWITCH_LATENCY: Final = (
    Fraction(35, 100) * MICROSECOND,
    "assumed: half of GPU to GPU through an NVSwitch, measured on DGX-2 (TACCL, NSDI 2023, table 1)",
)
PCIE_LATENCY: Final = (Fraction(5, 10) * MICROSECOND, "assumed: half of NCCL's figure for a hop over PCIe (LL, 1.0 us)")


# Models of GPUs: what files name by a compute capability or not at all


MODELS: Final = {"p100": 60, "v100": 70, "a100": 80, "a40": 86, "h100": 90, "h200": 90, "b200": 100, "b300": 103}
"""Compute capability ("sm") of each model, by which NCCL tells models apart."""


@cache
def link_rates() -> Mapping[str, Fraction]:
    """Bytes per second of one link between two GPUs in one direction, by the names of `std.links`."""
    from collc.source.parsing.expressions import QuantityLiteral
    from collc.source.parsing.parse import parse
    from collc.source.parsing.syntax import Let

    rates: dict[str, Fraction] = {}
    for node in parse(read_text(standard_library()["links"])).statements:
        if isinstance(node, Let) and isinstance(node.value, QuantityLiteral):
            rates[node.name.name] = node.value.value
    return rates


def nvlink_rate(sm: int) -> Fraction:
    """Bytes per second of one NVLink in one direction, as NCCL counts. sm: compute capability of the GPU."""
    rates = {int(name[9:]): rate for name, rate in link_rates().items() if name.startswith("nvlink_sm")}
    return rates[max(least for least in rates if least <= sm)]


def xgmi_rate(gcn: str) -> Fraction:
    """Bytes per second of one XGMI link in one direction, as RCCL counts.

    gcn: the architecture as in a dump of RCCL: gfx942:sramecc+:xnack-, or its old number, of which only that of gfx90a
    differs from the name.
    """
    name = "gfx90a" if gcn == "910" else f"gfx{gcn.removeprefix('gfx')}"
    rates = {stem[5:]: rate for stem, rate in link_rates().items() if stem.startswith("xgmi_")}
    return rates[max((stem for stem in rates if name.startswith(stem)), key=len, default="gfx9")]


def links_of(sm: int) -> int:
    """The most NVLinks of a GPU."""
    return next((limit for least, limit in ((90, 18), (80, 12), (70, 6)) if sm >= least), 4)


CUBE_MESH: Final = (
    (0, 2, 1, 1, 2, 0, 0, 0),
    (2, 0, 1, 2, 0, 1, 0, 0),
    (1, 1, 0, 2, 0, 0, 2, 0),
    (1, 2, 2, 0, 0, 0, 0, 1),
    (2, 0, 0, 0, 0, 2, 1, 1),
    (0, 1, 0, 0, 2, 0, 1, 2),
    (0, 0, 2, 0, 1, 1, 0, 2),
    (0, 0, 0, 1, 1, 2, 2, 0),
)
"""NVLinks between the eight V100 of a DGX-1, by their numbers."""


_NAMES: Final = {"nvlink": "NVLinks", "xgmi": "XGMI links"}


class Peer(NamedTuple):
    """Links to another GPU. label: of that GPU. links: their number. shares: into how many each of them is divided."""

    label: str
    links: int
    shares: int = 1


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU, or a partition of one. path: hops up to the CPU. switch_links: NVLinks to switches. peers: to other GPUs.

    host_links: (CPU, bytes per second) of links other than PCIe. nvlink: bytes per second of one NVLink. partitions:
    the labels of the other partitions of the GPU.
    """

    label: str
    path: tuple[Hop, ...]
    nvlink: Fraction
    switch_links: int = 0
    peers: tuple[Peer, ...] = ()
    host_links: tuple[Hop, ...] = ()
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostNic:
    """A NIC.

    path: hops up to the CPU. rate: bytes per second of its ports; None if no file says it. address: on PCIe, "" if the
    label is it or no file says it.
    """

    label: str
    path: tuple[Hop, ...]
    rate: Fraction | None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What one node contains. cpu_links: between pairs of CPUs, bytes per second. link: name of the links of GPUs.

    assumed_pcie: why the rates of PCIe are what they are, if no file says them. rate_source: of the links of GPUs.
    domain: the name of the NVLink domain of several hosts that it is in; "" if its NVSwitches join its GPUs only.
    """

    gpus: tuple[HostGpu, ...]
    nics: tuple[HostNic, ...]
    cpu_links: tuple[tuple[str, str, Fraction], ...] = ()
    link: str = "nvlink"
    rate_source: str = "as NCCL counts"
    assumed_pcie: str = ""
    domain: str = ""


class Hosts(NamedTuple):
    """The nodes that a file describes, and remarks on what it says."""

    hosts: list[Host]
    remarks: list[str]


@dataclass(slots=True)
class Kinds:
    """The kinds of links of a machine, named by what they are and, if there are several, by their rate."""

    options: ImportOptions
    found: dict[tuple[str, Fraction, int], LinkKind] = field(default_factory=dict[tuple[str, Fraction, int], LinkKind])

    def name(
        self,
        stem: str,
        rate: Fraction,
        source: str,
        latency: tuple[Fraction, str],
        *,
        times: int = 1,
        assumed_rate: bool = False,
    ) -> str:
        """The name of a kind of links, which is added if it is new."""
        key = (stem, rate, times)
        if key not in self.found:
            taken = [kind for kind in self.found if kind[0] == stem]
            text = f"{float(rate * times / GIGA):g}".replace(".", "_").replace("-", "_").replace("+", "")
            name = stem if not taken else f"{stem}_{text}"
            assumed = name not in self.options.latencies
            time, said = latency if assumed else (self.options.latencies[name], "given when imported")
            given = self.options.rates.get(name)
            if given is not None:
                rate, times, source, assumed_rate = given, 1, "given when imported", False
            self.found[key] = LinkKind(name, rate, source, time, said, times, assumed, assumed_rate)
        return self.found[key].name


@dataclass(frozen=True, slots=True)
class Port:
    """A device that attaches a node to the fabric. rate: bytes per second, or None. label, address: of the NIC."""

    device: Device
    rate: Fraction | None
    label: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Inside:
    """A node and its ports to the fabric. dropped: what it leaves out. unused: labels of NICs that no GPU uses."""

    node: Node
    ports: tuple[Port, ...]
    dropped: tuple[str, ...]
    unused: frozenset[str] = frozenset()


def with_mesh(gpus: Sequence[HostGpu]) -> list[HostGpu]:
    """The eight GPUs of a DGX-1 with its NVLinks, in their order. Raises SourceError X0601 for another number."""
    if len(gpus) != len(CUBE_MESH):
        raise flaw(f"--nvlink dgx1 is for a node of {len(CUBE_MESH)} GPUs, and this one has {len(gpus)}")
    return [
        replace(gpu, peers=tuple(Peer(gpus[at].label, count) for at, count in enumerate(row) if count))
        for gpu, row in zip(gpus, CUBE_MESH, strict=True)
    ]


def inside_of(host: Host, kinds: Kinds, *, with_ports: bool) -> Inside:
    """The node of a host. with_ports: whether a fabric will use the NICs; else they are dropped."""
    by_nvlink, joined = _nvlinks(host, kinds)
    has_pcie = any(gpu.path for gpu in host.gpus)
    keep = has_pcie and (kinds.options.pcie if kinds.options.pcie is not None else not joined)
    unused: list[str] = []
    dropped: list[str] = []
    unseen = sorted({peer.label for gpu in host.gpus for peer in gpu.peers} - {gpu.label for gpu in host.gpus})
    if unseen:
        dropped.append(f"NVLinks to GPUs that are not in the file: {', '.join(unseen)}")
    families = [Family("gpu", len(host.gpus), False, tuple(gpu.label for gpu in host.gpus))]
    if any(wire.target.family == "nvswitch" for wire in by_nvlink):
        families.append(Family("nvswitch", 1, True))
    wires = list(by_nvlink)
    if not with_ports and host.nics:
        dropped.append("NICs, which lead out of the node (--fabric says where to)")
    if keep:
        tree = _PcieTree(host, kinds, with_ports=with_ports)
        families += tree.families
        wires += tree.wires
        ports = tree.ports
    else:
        if has_pcie and len(host.gpus) > 1:
            dropped.append(f"paths between GPUs over PCIe, since {_NAMES[host.link]} join all GPUs (--pcie keeps them)")
        ports = _ports_of_gpus(host, families, wires, kinds) if with_ports else []
        used = {port.label for port in ports}
        unused = [nic.label for nic in host.nics if with_ports and nic.label not in used]
        if unused:
            dropped.append(f"NICs that are nearest to no GPU: {', '.join(unused)} (--pcie keeps them)")
    node = Node(tuple(families), merge_wires(wires), domain=host.domain)
    return Inside(node, tuple(ports), tuple(dropped), frozenset(unused))


def _nvlinks(host: Host, kinds: Kinds) -> tuple[list[Wire], bool]:
    """The NVLinks, and whether they join all GPUs."""
    number = {gpu.label: at for at, gpu in enumerate(host.gpus)}
    wires: list[Wire] = []
    edges: list[tuple[int, int]] = []  # the switches are one vertex more
    for at, gpu in enumerate(host.gpus):
        if gpu.switch_links:
            said = f"links of a GPU to switches, {gpu.switch_links} times the rate of one, {host.rate_source}"
            kind = kinds.name(host.link, gpu.nvlink, said, SWITCH_LATENCY, times=gpu.switch_links)
            wires.append(Wire(Device(-1, "gpu", at), Device(-1, "nvswitch", 0), kind))
            edges.append((at, len(host.gpus)))
        for peer in gpu.peers:
            if peer.label in number and peer.label != gpu.label:
                said = f"one link between two GPUs, {host.rate_source}"
                kind = kinds.name(host.link, gpu.nvlink / peer.shares, said, NVLINK_LATENCY)
                other = Device(-1, "gpu", number[peer.label])
                wires.append(Wire(Device(-1, "gpu", at), other, kind, peer.links, both=False))
                edges.append((at, number[peer.label]))
        for label in gpu.partitions:
            said = "between two partitions of a GPU, as NCCL counts"
            kind = kinds.name("partition_link", link_rates()["gpu_partitions"], said, NVLINK_LATENCY)
            wires.append(Wire(Device(-1, "gpu", at), Device(-1, "gpu", number[label]), kind, both=False))
            edges.append((at, number[label]))
    label = weakly_connected(Digraph(len(host.gpus) + 1, *np.array(edges, np.int32).reshape(-1, 2).T))
    return wires, len(np.unique(label[:-1])) == 1


def distance(path: Sequence[Hop], other: Sequence[Hop]) -> int:
    """Hops up to the nearest common bridge or CPU from both sides; a large number if there is none."""
    names = [name for name, _ in other]
    return min((at + names.index(name) for at, (name, _) in enumerate(path) if name in names), default=1000)


def nearest_nics(host: Host) -> list[int]:
    """For each GPU the NIC that is nearest on PCIe; of several, the one that serves the fewest GPUs so far."""
    served = [0] * len(host.nics)
    chosen: list[int] = []
    for gpu in host.gpus:
        best = min(range(len(host.nics)), key=lambda at: (distance(gpu.path, host.nics[at].path), served[at], at))
        served[best] += 1
        chosen.append(best)
    return chosen


def _ports_of_gpus(host: Host, families: list[Family], wires: list[Wire], kinds: Kinds) -> list[Port]:
    """If each GPU has a NIC of its own, the GPUs are the ports; else the NICs are devices between."""
    if not host.nics:
        return []
    chosen = nearest_nics(host)
    users: dict[int, list[int]] = defaultdict(list)
    for gpu, nic in enumerate(chosen):
        users[nic].append(gpu)

    def rate_of(gpu: int, nic: int) -> Fraction:
        """Bytes per second of the path between, up to the nearest common bridge and down again."""
        paths = host.gpus[gpu].path, host.nics[nic].path
        common = {name for name, _ in paths[0]} & {name for name, _ in paths[1]}
        ends = [next((k for k, (name, _) in enumerate(path) if name in common), len(path)) for path in paths]
        return min(rate for path, end in zip(paths, ends, strict=True) for _, rate in path[: end + 1])

    if len(users) == len(host.gpus):
        ports: list[Port] = []
        for gpu, nic in enumerate(chosen):
            rate = host.nics[nic].rate
            # A rate of PCIe that is only assumed must not narrow one that is known.
            narrow = rate if rate is None or host.assumed_pcie else min(rate, rate_of(gpu, nic))
            ports.append(Port(Device(-1, "gpu", gpu), narrow, host.nics[nic].label, host.nics[nic].address))
        return ports
    used = sorted(users)
    families.append(Family("nic", len(used), True, tuple(host.nics[nic].label for nic in used)))
    for position, nic in enumerate(used):
        for gpu in users[nic]:
            said = host.assumed_pcie or "from a GPU to its NIC: the narrowest PCIe link on the way"
            kind = kinds.name("pcie", rate_of(gpu, nic), said, PCIE_LATENCY, assumed_rate=bool(host.assumed_pcie))
            wires.append(Wire(Device(-1, "gpu", gpu), Device(-1, "nic", position), kind))
    return [
        Port(Device(-1, "nic", position), host.nics[nic].rate, host.nics[nic].label)
        for position, nic in enumerate(used)
    ]


class _PcieTree:
    """The bridges and CPUs over GPUs and NICs as switches. families, wires: of them; ports: the NICs."""

    def __init__(self, host: Host, kinds: Kinds, *, with_ports: bool) -> None:
        self.wires: list[Wire] = []
        self._kinds, self._assumed = kinds, host.assumed_pcie
        paths = [device.path for device in (*host.gpus, *(host.nics if with_ports else ())) if device.path]
        cpus = list(dict.fromkeys(path[-1][0] for path in paths))
        bridges = list(dict.fromkeys(name for path in paths for name, _ in path[:-1]))
        self._place = {name: Device(-1, "cpu", at) for at, name in enumerate(cpus)}
        self._place |= {name: Device(-1, "bridge", at) for at, name in enumerate(bridges)}
        self.families = [Family("bridge", len(bridges), True, tuple(bridges))] if bridges else []
        if cpus:
            self.families.append(Family("cpu", len(cpus), True, tuple(cpus)))
        for at, gpu in enumerate(host.gpus):
            self._climb(Device(-1, "gpu", at), gpu.path)
            for cpu, rate in gpu.host_links:
                if cpu in self._place:
                    kind = kinds.name("host_link", rate, "from a GPU to its CPU", PCIE_LATENCY)
                    self.wires.append(Wire(Device(-1, "gpu", at), self._place[cpu], kind))
        self.ports: list[Port] = []
        if with_ports and host.nics:
            self.families.append(Family("nic", len(host.nics), True, tuple(nic.label for nic in host.nics)))
            for at, nic in enumerate(host.nics):
                self._climb(Device(-1, "nic", at), nic.path)
                self.ports.append(Port(Device(-1, "nic", at), nic.rate, nic.label))
        for a, b, rate in host.cpu_links:
            if a in self._place and b in self._place:
                said = host.assumed_pcie or "between two CPUs, as NCCL counts"
                kind = kinds.name("cpu_link", rate, said, PCIE_LATENCY, assumed_rate=bool(host.assumed_pcie))
                self.wires.append(Wire(self._place[a], self._place[b], kind))
        self.wires = list(dict.fromkeys(self.wires))

    def _climb(self, device: Device, path: Sequence[Hop]) -> None:
        for name, rate in path:
            if rate > 0:
                said = self._assumed or "PCIe, width times the rate of a lane as NCCL counts"
                kind = self._kinds.name("pcie", rate, said, PCIE_LATENCY, assumed_rate=bool(self._assumed))
                self.wires.append(Wire(device, self._place[name], kind))
            device = self._place[name]
