"""Topology files of NCCL and RCCL, as `NCCL_TOPO_DUMP_FILE` writes and `NCCL_TOPO_FILE` reads them (graph/xml.h)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.machines.hosts import MODELS, Hop, Host, HostGpu, HostNic, Hosts, Peer, nvlink_rate, with_mesh, xgmi_rate
from collc.machines.kinds import ImportKind
from collc.machines.reading import (
    GIGA,
    Element,
    ImportOptions,
    check_links,
    element_span,
    flaw,
    option_error,
    parse_xml,
)

_LANES: Final = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""GT/s -> 100 Mb/s of one PCIe lane after coding."""

_INVISIBLE: Final = "fffffff:ffff:ff"
_SWITCH_CLASS, _CPU_CLASS, _NIC_CLASS = "0x068000", "0x068001", "0x02"
_GPU_CLASSES: Final = ("0x03", "0x1200")
"""Display controllers and processing accelerators."""


@dataclass(slots=True)
class _Reader:
    """What was read, by host. gpus: by bus id, the order and the partitions. link: the name of the links of GPUs.

    nics: the ports by card. silent_nics: of a template, which names no ports. bridges: by bus id, which is not unique.
    """

    source: SourceFile
    options: ImportOptions
    gpus: dict[str, dict[str, list[tuple[int, HostGpu]]]] = field(default_factory=lambda: defaultdict(dict))
    ranks: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    link: str = "nvlink"
    nics: dict[str, dict[str, list[HostNic]]] = field(default_factory=lambda: defaultdict(dict))
    silent_nics: dict[str, list[HostNic]] = field(default_factory=lambda: defaultdict(list))
    bridges: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    cpus: dict[str, list[Element]] = field(default_factory=lambda: defaultdict(list))
    without_rank: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def read_nccl(source: SourceFile, options: ImportOptions) -> Hosts:
    """The hosts of a file, and remarks on what differs from what NCCL takes from it.

    Raises SourceError X0601 with the line, UsageError X0602 if an option must say what the file does not.
    """
    root = parse_xml(source)
    if root.tag == "graphs":
        message = (
            "this is a graph file of NCCL (NCCL_GRAPH_DUMP_FILE): channels that it chose, not how devices are linked"
        )
        raise flaw(message, element_span(source, root), "give what NCCL_TOPO_DUMP_FILE writes")
    if root.tag != "system":
        span = element_span(source, root)
        raise flaw(f"an NCCL topology begins with <system>, not <{root.tag}>", span, "is it another kind of file?")
    if root.get("version") not in {"1", "2"}:
        message = f"version '{root.get('version')}' of <system>; 1 (NCCL) and 2 (RCCL) are known"
        raise flaw(message, element_span(source, root))
    reader = _Reader(source, options)
    for cpu in root:
        if cpu.tag != "cpu":
            raise flaw(f"<{cpu.tag}> inside <system>; <cpu> is expected", element_span(source, cpu))
        host = cpu.get("host_hash", "")
        name = f"cpu{cpu.get('numaid', str(len(reader.cpus[host])))}"
        reader.cpus[host].append(cpu)
        for child in cpu:
            _visit(reader, child, host, ((name, Fraction(0)),))
    hosts = [_host(reader, host) for host in reader.cpus]
    hosts = [host for host in hosts if host.gpus]
    if not hosts:
        hint = "import the file of a node with GPUs, written by NCCL on that node"
        raise flaw(f"{source.name} has no GPU", element_span(source, root), hint)
    if len(hosts) > 1 and all(any(gpu.switch_links for gpu in host.gpus) for host in hosts):
        reader.notes.append(f"NVSwitches join the {len(hosts)} hosts of {source.name}, as NCCL takes them")
        hosts = [replace(host, domain=f"NVSwitches of {source.name}") for host in hosts]
    if reader.without_rank and any(rank >= 0 for _, rank in reader.ranks):
        reader.notes.append(f"GPUs without a rank, which NCCL leaves out: {', '.join(reader.without_rank)}")
    if options.pcie and any(cpu.get("vendor") == "GenuineIntel" for cpus in reader.cpus.values() for cpu in cpus):
        reader.notes.append("the rates of paths through Intel CPUs, of which NCCL counts 5/6 between GPUs")
    return Hosts(hosts, list(dict.fromkeys(reader.notes)))


def _visit(reader: _Reader, element: Element, host: str, path: tuple[Hop, ...]) -> None:
    """Collects GPUs and NICs below an element. path: from its parent up to the CPU; its first rate is still open."""
    if element.tag == "nic":
        _nic(reader, element, host, path, "")
        return
    if element.tag == "pcilink":
        reader.notes.append("links between PCIe switches (pcilink) are left out")
        return
    if element.tag != "pci":
        hint = "a <cpu> contains <pci> and <nic>, a <pci> contains <pci>, <gpu> and <nic>"
        raise flaw(f"<{element.tag}> is not expected here", element_span(reader.source, element), hint)
    bus = element.get("busid")
    if not bus:
        raise flaw("a <pci> without busid", element_span(reader.source, element))
    up = ((path[0][0], _pcie_rate(reader, element)), *path[1:])
    gpus = [child for child in element if child.tag == "gpu"]
    below = [child for child in element if child.tag != "gpu"]
    device_class = element.get("class")
    if gpus or (device_class.startswith(_GPU_CLASSES) and not below):
        _add_gpus(reader, element, gpus, host, up)
        below = [child for child in below if child.tag == "nic"]
    elif not below and device_class.startswith(_NIC_CLASS):
        reader.silent_nics[host].append(HostNic(bus, up, None))
    elif not below and not device_class:
        hint = 'add class="0x030200" for a GPU, class="0x020000" for a NIC; or import what NCCL_TOPO_DUMP_FILE writes'
        raise flaw("nothing says what this device is", element_span(reader.source, element), hint)
    if any(child.tag == "pci" for child in below):
        reader.bridges[host, bus] += 1
        number = reader.bridges[host, bus]
        bridge = bus if number == 1 else f"{bus}#{number}"
        up = ((bridge, Fraction(0)), *up)
    for child in below:
        if child.tag == "nic":
            _nic(reader, child, host, up, bus)
        else:
            _visit(reader, child, host, up)


def _pcie_rate(reader: _Reader, element: Element) -> Fraction:
    """Bytes per second of the link to the parent."""
    text = element.get("link_speed")
    number = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", text)
    speed = f"{float(number[1]):g}" if number else ""
    if speed in _LANES:
        lane = _LANES[speed]
        if not re.fullmatch(r"\d+(\.5)? GT/s|\d+\.\d GT/s PCIe", text):
            reader.notes.append(f"link_speed '{text}' is taken as {speed} GT/s, but NCCL takes it as 8 GT/s")
    else:
        lane = _LANES["8"]
        reader.notes.append(f"link_speed '{text}' is taken as 8 GT/s, as NCCL does")
    width = _number(reader, element, "link_width", "0")
    return Fraction((width or 16) * lane, 80) * GIGA


def _number(reader: _Reader, element: Element, name: str, default: str) -> int:
    text = element.get(name, default)
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 2**31:
        message = f"'{name}' is a whole number of at least 0, not '{text[:40]}'"
        raise flaw(message, element_span(reader.source, element))
    return value


def _add_gpus(reader: _Reader, pci: Element, gpus: list[Element], host: str, path: tuple[Hop, ...]) -> None:
    """Adds the GPU of a <pci>. gpus: its elements, one for each partition (MLOPart) or rank; none in a template.

    Each of several becomes a GPU of its own, with its share of the links, as NCCL divides them (ncclTopoAddNvLinks).
    """
    bus, count = pci.get("busid"), max(len(gpus), 1)
    check_links(count * (count - 1))
    if bus in reader.gpus[host]:
        raise flaw(f"two GPUs have busid {bus}", element_span(reader.source, pci))
    labels = [bus] if count == 1 else [f"{bus}#{number}" for number in range(count)]
    if count > 1:
        reader.notes.append(
            f"{bus} has {count} partitions or ranks, each with its share of the links: {', '.join(labels)}"
        )
        path = tuple((name, rate / count if at == 0 else rate) for at, (name, rate) in enumerate(path))
    read: list[tuple[int, HostGpu]] = []
    for number, label in enumerate(labels):
        gpu = gpus[number] if gpus else None
        named = gpu if gpu is None or gpu.children else gpus[0]
        rate = _link_rate(reader, gpu) / count
        switch_links, peers, host_links = _links(reader, named, bus, rate, count, path[-1][0])
        if reader.options.switch_links is not None and not peers:
            switch_links = reader.options.switch_links
        others = tuple(other for other in labels if other != label)
        part = HostGpu(label, path, rate, switch_links, tuple(peers), tuple(host_links), others)
        read.append((_order(reader, pci, gpu, host, label), part))
    reader.gpus[host][bus] = read


def _links(
    reader: _Reader, gpu: Element | None, bus: str, rate: Fraction, shares: int, cpu: str
) -> tuple[int, list[Peer], list[Hop]]:
    """The links of a GPU to switches, to other GPUs by their bus id, and to its CPU.

    rate: of its share of one link. shares: how many GPUs share each link.
    """
    switch_links, peers, host_links = 0, dict[str, int](), list[Hop]()
    for link in () if gpu is None else gpu.children:
        if link.tag == "c2c":
            own = Fraction(_number(reader, link, "bw", "0") * _number(reader, link, "count", "1"), 1000) * GIGA
            host_links.append((cpu, own / shares))
            continue
        if link.tag not in {"nvlink", "xgmi"}:
            message = f"<{link.tag}> inside <gpu>; <nvlink> or <xgmi> is expected"
            raise flaw(message, element_span(reader.source, link))
        target, kind = link.get("target"), link.get("tclass")
        count = _number(reader, link, "count", "1")
        if not target:
            raise flaw(f"an <{link.tag}> without target", element_span(reader.source, link))
        if target == bus:
            reader.notes.append("NVLinks of a GPU to itself are left out")
        elif kind.startswith(_CPU_CLASS):
            host_links.append((cpu, count * rate))
        elif kind.startswith(_SWITCH_CLASS) or target == _INVISIBLE or not kind.startswith(_GPU_CLASSES):
            switch_links += count
        else:
            peers[target] = peers.get(target, 0) + count
    return switch_links, [Peer(*peer) for peer in peers.items()], host_links


def _order(reader: _Reader, pci: Element, gpu: Element | None, host: str, label: str) -> int:
    """What GPUs are sorted by: the rank or, if there is none, the number of the device."""
    if gpu is None or not gpu.get("rank"):
        reader.without_rank.append(label)
        known = sum(map(len, reader.gpus[host].values()))
        return 10**6 + (known if gpu is None else _number(reader, gpu, "dev", "0"))
    rank = _number(reader, gpu, "rank", "0")
    if (host, rank) in reader.ranks:
        raise flaw(f"two GPUs have rank {rank}", element_span(reader.source, gpu or pci))
    reader.ranks.add((host, rank))
    return rank


def _link_rate(reader: _Reader, gpu: Element | None) -> Fraction:
    """Bytes per second of one link of a GPU, in one direction."""
    if gpu is not None and gpu.get("gcn"):
        reader.link = "xgmi"
        return xgmi_rate(gpu.get("gcn"))
    if gpu is not None and gpu.get("sm"):
        return nvlink_rate(_number(reader, gpu, "sm", "0"))
    if reader.options.nvlink == 0 and (gpu is None or not gpu.children):
        return Fraction(0)
    if reader.options.gpu is None:
        message = f"{reader.source.name} does not say which GPUs these are"
        raise option_error(message, f"give the model: --gpu {'|'.join(MODELS)}")
    return nvlink_rate(MODELS[reader.options.gpu])


def _nic(reader: _Reader, nic: Element, host: str, path: tuple[Hop, ...], bus: str) -> None:
    """Collects the NICs of an element. bus: the address of the device that has it; "" if there is none."""
    if not nic.children:
        rate = next((rate for _, rate in path if rate), Fraction(16 * _LANES["8"], 80) * GIGA)
        silent = reader.silent_nics[host]
        silent.append(HostNic(f"NIC{len(silent)}", ((path[0][0], rate), *path[1:]), None))
    for net in nic:
        if net.tag != "net":
            raise flaw(f"<{net.tag}> inside <nic>; <net> is expected", element_span(reader.source, net))
        name = net.get("name") or f"net{len(reader.nics[host])}"
        speed = net.get("speed") or "0"
        if not re.fullmatch(r"-?\d{1,9}", speed):
            raise flaw(f"'speed' is in Mb/s, not '{speed[:40]}'", element_span(reader.source, net))
        rate = Fraction(int(speed) if int(speed) > 0 else 10_000, 8000) * GIGA
        if re.search("[1-9]", net.get("latency")):
            reader.notes.append("latencies of NICs, which NCCL cuts to whole microseconds, are left out")
        card = net.get("guid") or name
        if not path[0][1]:  # right below a CPU
            path = ((path[0][0], rate), *path[1:])
        reader.nics[host].setdefault(card, []).append(HostNic(name, path, rate, bus))


def _host(reader: _Reader, host: str) -> Host:
    parts = {bus: [part for _, part in numbered] for bus, numbered in reader.gpus[host].items()}
    lists = [gpu.peers for own in parts.values() for gpu in own]
    check_links(sum(len(parts.get(peer.label, ())) for peers in lists for peer in peers))
    ordered = sorted((pair for numbered in reader.gpus[host].values() for pair in numbered), key=lambda pair: pair[0])
    gpus = [
        replace(gpu, peers=tuple(peer for link in gpu.peers for peer in _peers_of(link, parts))) for _, gpu in ordered
    ]
    nics: list[HostNic] = []
    for ports in reader.nics[host].values():  # of one card
        rate = sum((port.rate or Fraction(0) for port in ports), Fraction(0))
        nics.append(HostNic("+".join(port.label for port in ports), ports[0].path, rate, ports[0].address))
    nics = nics or reader.silent_nics[host]
    if reader.options.nvlink == "dgx1" and not any(gpu.switch_links or gpu.peers for gpu in gpus):
        gpus = with_mesh(gpus)
    elif reader.options.mirror:
        links = {gpu.label: {peer.label: peer for peer in gpu.peers} for gpu in gpus}
        for a, peer in [(gpu.label, peer) for gpu in gpus for peer in gpu.peers if peer.label in links]:
            back = links[peer.label].get(a)
            if back is None or back.links < peer.links:
                links[peer.label][a] = peer._replace(label=a)
        gpus = [replace(gpu, peers=tuple(links[gpu.label].values())) for gpu in gpus]
    asked = reader.link == "nvlink" and reader.options.switch_links is None  # RCCL writes all XGMI links
    if len(gpus) > 1 and asked and not any(gpu.switch_links or gpu.peers for gpu in gpus):
        message = f"{reader.source.name} names no NVLink between different GPUs"
        raise option_error(
            message, "give the number from each GPU to NVSwitches: --nvlink 18; as in a DGX-1: --nvlink dgx1; none: 0"
        )
    counts = {(gpu.label, peer.label): peer.links for gpu in gpus for peer in gpu.peers}
    labels = {gpu.label for gpu in gpus}
    one_sided = [(a, b) for (a, b), count in counts.items() if b in labels and counts.get((b, a)) != count]
    if one_sided:
        where = " to ".join(one_sided[0])
        reader.notes.append(f"NVLinks in one direction only, as NCCL takes them (--mirror adds the other): {where}")
    cpus = reader.cpus[host]
    names = [f"cpu{cpu.get('numaid', str(at))}" for at, cpu in enumerate(cpus)]
    pairs = combinations(zip(names, cpus, strict=True), 2)
    links = [(a, b, Fraction(_cpu_rate(reader, cpu) * GIGA)) for (a, cpu), (b, _) in pairs]
    said = "as RCCL counts" if reader.link == "xgmi" else "as NCCL counts"
    return Host(tuple(gpus), tuple(nics), tuple(links), link=reader.link, rate_source=said)


def _peers_of(peer: Peer, parts: Mapping[str, Sequence[HostGpu]]) -> list[Peer]:
    """The partitions of the GPU that links lead to, which divide the links."""
    others = parts.get(peer.label, ())
    return [Peer(other.label, peer.links, len(others)) for other in others] or [peer]


def _cpu_rate(reader: _Reader, cpu: Element) -> int:
    """GB/s between two CPUs of a host (NCCL, graph/topo.cc)."""
    arch, vendor = cpu.get("arch"), cpu.get("vendor")
    if arch == "ppc64":
        return 32
    if arch == "arm64":
        return 6
    if vendor == "AuthenticAMD":
        return 16
    if vendor == "GenuineIntel":
        model = _number(reader, cpu, "modelid", "0") if _number(reader, cpu, "familyid", "6") >= 6 else 0
        return next((rate for least, rate in ((0xCF, 40), (0x8F, 22), (0x55, 10)) if model >= least), 6)
    return 9 if "Zhaoxin" in vendor or "Shanghai" in vendor else 6


KINDS: Final = (
    ImportKind(
        "nccl",
        "node",
        read_nccl,
        file="'NCCL_TOPO_DUMP_FILE=topo.xml' (NCCL, RCCL), '/var/run/nvidia-topologyd/virtualTopology.xml'",
        contains="GPUs, NVLinks or XGMI, PCIe, NICs of a node",
        options="'--gpu', '--nvlink 18' or '--nvlink dgx1' (the templates of clouds name no NVLinks), '--fabric', "
        "'-D nic=' (they name no ports of NICs)",
        xml="<system|<graphs",
    ),
)
