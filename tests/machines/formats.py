"""Writers of the formats that `collc import` reads, made from networks; written from what the tools document."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import networkx as nx
import numpy as np

from collc.source.elaboration.elaborate import load_topology
from collc.ten.network import Network


def network_of(text, name="pod", folder=None, **definitions):
    path = folder / "imported.coll"
    path.write_text(text)
    return load_topology(path, name, definitions)


def links(network: Network, rename=None):
    """How often each (source, target, rate, latency) is there; rename: device -> any key."""
    key = rename or (lambda device: device)
    kinds = [(kind.bandwidth, kind.latency) for kind in network.kinds]
    rows = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True)
    return Counter((key(a), key(b), *kinds[kind]) for a, b, kind in rows)


def busid(number):
    return f"0000:{0x10 + number:02x}:00.0"


def nccl_node(gpus, *, sm=90, switch_links=0, lanes=None, nics=(), attributes=""):
    """A topology file. lanes: matrix of direct NVLinks. nics: (name, Mb/s) one beside each GPU."""
    rows = ['<system version="1">', ' <cpu numaid="0" host_hash="0x1" arch="x86_64" vendor="AuthenticAMD">']
    for at in range(gpus):
        rows.append(f'  <pci busid="ffff:ff:{at:02x}.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">')
        rows.append(f'   <pci busid="{busid(at)}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">')
        rows.append(f'    <gpu dev="{at}" sm="{sm}" rank="{at}" gdr="1"{attributes}>')
        if switch_links:
            rows.append(f'     <nvlink target="fffffff:ffff:ff" count="{switch_links}" tclass="0x068000"/>')
        rows += [
            f'     <nvlink target="{busid(other)}" count="{count}" tclass="0x030200"/>'
            for other, count in enumerate(lanes[at] if lanes is not None else ())
            if count
        ]
        rows.append("    </gpu></pci>")
        if at < len(nics):
            name, speed = nics[at]
            rows.append(f'   <pci busid="0001:{at:02x}:00.0" class="0x020700" link_speed="64 GT/s" link_width="16">')
            rows.append(f'    <nic><net name="{name}" dev="{at}" speed="{speed}" guid="0x{at + 1}"/></nic></pci>')
        rows.append("  </pci>")
    return "\n".join([*rows, " </cpu>", "</system>", ""])


def nvidia_smi(codes, nics=0, ansi=False):
    """A matrix of `nvidia-smi topo -m`. codes: of GPUs and NICs, rows of words."""
    count = len(codes) - nics
    names = [f"GPU{at}" for at in range(count)] + [f"NIC{at}" for at in range(nics)]
    header = "\t".join(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    rows = [f"\x1b[4m{header}\x1b[0m" if ansi else header]
    for name, row in zip(names, codes, strict=True):
        tail = ["0-47", "0", "N/A"] if name.startswith("GPU") else []
        rows.append("\t".join([name, *(f" {code} " if code == "X" else code for code in row), *tail]))
    rows += ["", "Legend:", "", "  X    = Self", "  NV#  = Connection traversing a bonded set of # NVLinks", ""]
    rows += ["NIC Legend:", "", *(f"  NIC{at}: mlx5_{at}" for at in range(nics)), ""]
    return "\n".join(rows)


def rocm_smi(gpus):
    """`rocm-smi --showtopo` of GPUs that are all linked to one another."""

    def section(title, cell):
        rows = [f"========================== {title} =========================="]
        rows.append("       " + "".join(f"GPU{at:<10}" for at in range(gpus)))
        rows += [f"GPU{a}   " + "".join(f"{cell(a, b):<13}" for b in range(gpus)) for a in range(gpus)]
        return [*rows, ""]

    rows = ["============================ ROCm System Management Interface ============================"]
    rows += section("Weight between two GPUs", lambda a, b: 0 if a == b else 15)
    rows += section("Hops between two GPUs", lambda a, b: 0 if a == b else 1)
    rows += section("Link Type between two GPUs", lambda a, b: 0 if a == b else "XGMI")
    rows += [f"GPU[{at}]\t\t: (Topology) Numa Node: 0" for at in range(gpus)]
    return "\n".join(
        [*rows, "================================== End of ROCm SMI Log ===================================", ""]
    )


def guid(number):
    return f"{number:016x}"


def ibnetdiscover(switches, cables, hosts, speed="4xNDR"):
    """cables: pairs of switches (numbers), repeated for lanes. hosts: (host, NIC, switch)."""
    ports = Counter()
    ends = [[] for _ in range(len(switches) + len(hosts))]

    def plug(a, b):
        numbers = []
        for one in (a, b):
            ports[one] += 1
            numbers.append(ports[one])
        ends[a].append((numbers[0], b, numbers[1]))
        ends[b].append((numbers[1], a, numbers[0]))

    for a, b in cables:
        plug(a, b)
    for at, (_, _, switch) in enumerate(hosts):
        plug(switch, len(switches) + at)
    names = [*switches, *(f"{host} {nic}" for host, nic, _ in hosts)]
    letter = ["S"] * len(switches) + ["H"] * len(hosts)
    rows = ["#", "# Topology file: generated on Mon Jun  1 12:00:00 2026", "#"]
    for at, name in enumerate(names):
        kind = "Switch" if letter[at] == "S" else "Ca"
        rows += ["", "vendid=0x2c9", f"{'switch' if kind == 'Switch' else 'ca'}guid=0x{at + 1:x}"]
        rows.append(f'{kind}\t{len(ends[at])} "{letter[at]}-{guid(at + 1)}"\t\t# "{name}" base port 0 lid {at} lmc 0')
        for port, other, far in ends[at]:
            own = f"({at + 1:x})" if kind == "Ca" else ""
            rows.append(
                f'[{port}]{own}\t"{letter[other]}-{guid(other + 1)}"[{far}]\t\t# "{names[other]}" lid 1 {speed}'
            )
    return "\n".join([*rows, ""])


def iblinkinfo(switches, cables, hosts, gbps="106.25"):
    """The same fabric as `iblinkinfo` prints it."""
    ports = Counter()
    rows_of = [[] for _ in switches]
    for a, b in cables:
        ports[a] += 1
        ports[b] += 1
        for one, other in ((a, b), (b, a)):
            own, far = f"{one:>6} {ports[one]:>4}[  ]", f"{other:>6} {ports[other]:>4}[  ]"
            rows_of[one].append(f'  {own} ==( 4X {gbps} Gbps Active/  LinkUp)==> {far} "{switches[other]}" ( )')
    for at, (host, nic, switch) in enumerate(hosts):
        ports[switch] += 1
        link = f"  {switch:>6} {ports[switch]:>4}[  ] ==( 4X {gbps} Gbps Active/  LinkUp)==> {100 + at:>6} {1:>4}[  ]"
        rows_of[switch].append(f'{link} "{host} {nic}" ( )')
    rows = []
    for at, name in enumerate(switches):
        rows += [f"Switch: 0x{at + 1:016x} {name}:", *rows_of[at]]
        rows.append(f'  {at:>6}   40[  ] ==(                Down/ Polling)==>             [  ] "" ( )')
    return "\n".join([*rows, ""])


def matrix_of(network: Network, value):
    table = np.zeros((network.npu_count, network.npu_count), object)
    rows = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True)
    for a, b, kind in rows:
        table[b][a] = value(table[b][a], network.kinds[kind])
    return table.tolist()


def gigabytes(kind):
    return float(Fraction(kind.bandwidth) / 10**9)


def simgrid(network: Network):
    """A platform: NPUs as hosts, switches as routers, and a route of one link for each pair that is linked."""
    rows = ['<?xml version="1.0"?><platform version="4.1">', '<zone id="z" routing="Floyd">']
    rows += [f'<host id="d{at}" speed="1Gf"/>' for at in range(network.npu_count)]
    rows += [f'<router id="d{at}"/>' for at in range(network.npu_count, network.device_count)]
    for at, (a, b, rate, latency) in enumerate(one for one in links(network) if one[0] < one[1]):
        speed = f'bandwidth="{float(rate / 10**9)}GBps" latency="{latency / 1e6}us"'
        rows.append(f'<link id="l{at}" {speed} sharing_policy="SPLITDUPLEX"/>')
        rows.append(f'<route src="d{a}" dst="d{b}"><link_ctn id="l{at}"/></route>')
    return "\n".join([*rows, "</zone></platform>", ""])


def same(one: Network, other: Network):
    """Whether networks are equal but for the numbers of switches."""
    if one.npu_count != other.npu_count or one.switch_count != other.switch_count:
        return False
    graphs = []
    for network in (one, other):
        graph = nx.MultiDiGraph()
        graph.add_nodes_from((at, {"npu": at if at < network.npu_count else -1}) for at in range(network.device_count))
        for (a, b, rate, latency), count in links(network).items():
            graph.add_edge(a, b, kind=(rate, latency, count))
        graphs.append(graph)
    edges = nx.algorithms.isomorphism.categorical_multiedge_match("kind", None)
    nodes = nx.algorithms.isomorphism.categorical_node_match("npu", None)
    return nx.is_isomorphic(*graphs, node_match=nodes, edge_match=edges)
