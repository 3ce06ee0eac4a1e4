"""The traps of each format: units, what a file leaves out, and what looks like something else."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction

import pytest

from collc.base.diagnostics import SourceError, UsageError
from collc.machines.hosts import links_of, nvlink_rate
from collc.machines.readers.infiniband import read_ibnetdiscover
from collc.machines.reading import ImportOptions
from tests.machines import formats
from tests.machines.formats import links
from tests.machines.test_errors import GRAPH, IB, IBLINK, NODE, SMI, TACCL

GB = 10**9
NVSWITCH = '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>'


def head(program):
    return " ".join(program.partition("\n\n")[0].split("\n# "))


def rates(network):
    return {float(rate) / GB for _, _, rate, _ in links(network)}


def nccl(cpus):
    """A topology file of CPUs: (attributes, the devices below)."""
    rows = [f'<cpu numaid="{at}" host_hash="0x1" {given}>{inside}</cpu>' for at, (given, inside) in enumerate(cpus)]
    return "\n".join(['<system version="1">', *rows, "</system>", ""])


def gpu(number, inside="", bus="{:04x}:00:00.0", speed='link_speed="32.0 GT/s PCIe" link_width="16"', given=""):
    name = bus.format(number + 1)
    return f'<pci busid="{name}" class="0x030200" {speed}><gpu dev="{number}" sm="90" {given}>{inside}</gpu></pci>\n'


# NCCL


@pytest.mark.parametrize(
    ("sm", "rate", "most"),
    [(52, 20, 4), (60, 18, 4), (69, 18, 4), (70, 20, 6), (79, 20, 6), (80, 20, 12), (86, 12, 12), (89, 20, 12),
     (90, 20.6, 18), (99, 20.6, 18), (100, 40.1, 18), (103, 40.1, 18)],
)  # fmt: skip
def test_rates_of_nvlinks_by_compute_capability(sm, rate, most):
    assert nvlink_rate(sm) == Fraction(str(rate)) * GB
    assert links_of(sm) == most


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [("2.5 GT/s PCIe", 16, 3), ("5.0 GT/s PCIe", 16, 6), ("8.0 GT/s PCIe", 16, 12), ("16.0 GT/s PCIe", 16, 24),
     ("32.0 GT/s PCIe", 16, 48), ("64.0 GT/s PCIe", 16, 96), ("16 GT/s", 8, 12), ("16.0 GT/s PCIe", 0, 24),
     ("", 0, 12), ("Unknown", 16, 12)],
)  # fmt: skip
def test_rates_of_pcie(imported, speed, width, rate):
    given = f'link_speed="{speed}" link_width="{width}"'
    text = nccl([("", gpu(0, speed=given) + gpu(1, speed=given))])
    assert rates(imported(text, nvlink=0)[0]) == {rate}


def test_the_slower_end_of_a_chain_of_bridges_rules(imported):
    """A GPU on Gen5 below a bridge on Gen3 with a NIC of 400 Gb/s beside it."""
    nic = '<pci busid="b:{0}" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="n{0}"'
    nic += ' speed="400000"/></nic></pci>'
    inside = "".join(
        f'<pci busid="a:{at}" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
        + gpu(at, NVSWITCH, speed='link_speed="8.0 GT/s PCIe" link_width="16"')
        + nic.format(at)
        + "</pci>"
        for at in range(2)
    )
    network, _ = imported(nccl([("", inside)]), fabric="switch")
    assert rates(network) == {370.8, 12}


@pytest.mark.parametrize(
    ("given", "rate"),
    [('arch="ppc64"', 32), ('arch="arm64"', 6), ('arch="x86_64" vendor="AuthenticAMD"', 16),
     ('vendor="GenuineIntel" familyid="6" modelid="207"', 40), ('vendor="GenuineIntel" familyid="6" modelid="143"', 22),
     ('vendor="GenuineIntel" familyid="6" modelid="85"', 10), ('vendor="GenuineIntel" familyid="6" modelid="63"', 6),
     ('vendor="CentaurHauls"', 6)],
)  # fmt: skip
def test_rates_between_cpus(imported, given, rate):
    network, program = imported(nccl([(given, gpu(0)), (given, gpu(1))]), nvlink=0, pcie=True)
    assert rates(network) == {48, rate}
    assert ("NCCL counts 5/6 between GPUs" in head(program)) == ("Intel" in given)


@pytest.mark.parametrize(("speed", "rate"), [("400000", 48), ("200000", 25), ("0", 1.25), ("-1", 1.25), ("", 1.25)])
def test_nics_are_in_megabits(imported, speed, rate):
    network, _ = imported(NODE.replace("400000", speed), fabric="switch")
    assert rates(network) == {370.8, rate}


def test_latencies_of_nics_are_left_out(imported):
    _, program = imported(NODE.replace('speed="400000"', 'speed="400000" latency="1"'), fabric="switch")
    assert "latencies of NICs, which NCCL cuts to whole microseconds" in head(program)
    assert "latencies" not in imported(NODE.replace('speed="400000"', 'latency="0" speed="400000"'), fabric="switch")[1]


def test_links_to_a_cpu_are_its_own(imported):
    """c2c is MB/s times a count; NVLinks of tclass 0x068001 lead to the CPU of the GPU."""
    inside = [gpu(0, '<c2c bw="9000" count="5"/>'), gpu(1, '<nvlink target="x" count="3" tclass="0x068001"/>')]
    network, program = imported(nccl([("", "".join(inside))]), nvlink=0)
    assert rates(network) == {48, 45, 61.8}
    assert "host_link" in program


@pytest.mark.parametrize(
    "link",
    ['target="fffffff:ffff:ff" tclass="0x068000"', 'target="fffffff:ffff:ff" tclass="0x030200"',
     'target="0000:c1:00.0" tclass="0x068000"', 'target="0000:c1:00.0" tclass=""', 'target="0000:c1:00.0"'],
)  # fmt: skip
def test_far_ends_that_are_switches(imported, link):
    """Also if a VM hides the far end, and if its class cannot be read; several switches are one."""
    text = nccl([("", gpu(0, f'<nvlink {link} count="18"/>') + gpu(1, NVSWITCH))])
    network, _ = imported(text)
    assert (network.npu_count, network.switch_count) == (2, 1)
    assert rates(network) == {370.8}


def test_several_switches_are_one(imported):
    inside = [
        gpu(at, "".join(f'<nvlink target="0000:c{n}:00.0" count="3" tclass="0x068000"/>' for n in range(6)))
        for at in range(4)
    ]
    network, _ = imported(nccl([("", "".join(inside))]))
    assert network.switch_count == 1
    assert rates(network) == {370.8}


def test_nvswitches_of_a_file_of_several_hosts_join_them(imported):
    hosts = "".join(
        f'<cpu numaid="0" host_hash="0x{h}">'
        + "".join(gpu(at, NVSWITCH, given=f'rank="{4 * h + at}"') for at in range(4))
        + "</cpu>\n"
        for h in range(2)
    )
    network, program = imported(f'<system version="1">{hosts}</system>', nodes=("tray1", "tray2"))
    assert (network.npu_count, network.switch_count) == (8, 1)
    assert "NVSwitches join the 2 hosts" in head(program)
    assert network.real_name(4) == "tray2/0001:00:00.0"  # the same address in both hosts
    assert Counter(links(network).values()) == {1: 16}


def test_one_sided_nvlinks_are_named_and_mirrored(imported):
    text = formats.nccl_node(3, lanes=[[0, 4, 0], [0, 0, 4], [4, 4, 0]])
    found, program = imported(text)
    assert "NVLinks in one direction only, as NCCL takes them (--mirror adds the other)" in head(program)
    assert sum(links(found).values()) == 16
    mirrored, program = imported(text, mirror=True)
    assert "one direction" not in program
    assert {(a, b): n for (a, b, *_), n in links(mirrored).items()} == {
        (a, b): 4 for a in range(3) for b in range(3) if a != b
    }


def test_templates_of_v100_have_the_links_of_a_dgx1(imported, std):
    text = formats.nccl_node(8, sm=70)
    with pytest.raises(UsageError) as caught:
        imported(text)
    assert "--nvlink dgx1" in caught.value.diagnostics[0].hint
    found, _ = imported(text, nvlink="dgx1", definitions={"nvlink": "25GB/s"})
    assert links(found) == links(std("dgx1()"))
    with pytest.raises(SourceError, match="is for a node of 8 GPUs, and this one has 4"):
        imported(formats.nccl_node(4, sm=70), nvlink="dgx1")


def test_gpus_without_a_rank_are_named(imported):
    _, program = imported(NODE.replace(' rank="1"', ""))
    assert "GPUs without a rank, which NCCL leaves out: 0000:11:00.0" in head(program)
    assert "rank" not in imported(NODE.replace(' rank="1"', "").replace(' rank="0"', ""))[1]


def test_the_order_is_that_of_ranks_else_of_devices(imported):
    text = NODE.replace('rank="0"', 'rank="x"').replace('rank="1"', 'rank="0"').replace('rank="x"', 'rank="1"')
    assert imported(text)[0].real_name(0) == "0000:11:00.0"
    text = NODE.replace(' rank="0"', "").replace(' rank="1"', "").replace('dev="0" sm', 'dev="7" sm')
    assert imported(text)[0].real_name(0) == "0000:11:00.0"


def test_ports_of_one_card_are_one_nic(imported):
    text = NODE.replace('guid="0x1"/>', 'guid="0x1" port="1"/><net name="mlx5_9" speed="400000" guid="0x1" port="2"/>')
    network, program = imported(text, fabric="switch", definitions={"nic": "100GB/s"})
    assert network.npu_count == 2
    assert "mlx5_9" not in head(program)


def test_links_between_pcie_switches_are_named(imported):
    text = NODE.replace(
        '   <pci busid="0000:10', '   <pcilink target="ffff:ff:01.0" speed="LOC"/>\n   <pci busid="0000:10'
    )
    assert "links between PCIe switches (pcilink) are left out" in head(imported(text)[1])


def test_two_levels_of_pcie_switches_stay(imported):
    """NCCL makes one of them; a file of them has both."""
    pci = '<pci busid="{}" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
    inside = pci.format("a") + pci.format("b") + gpu(0) + "</pci>" + pci.format("c") + gpu(1) + "</pci></pci>"
    network, _ = imported(nccl([("", inside)]), nvlink=0)
    assert [network.real_name(device) for device in range(2, 6)] == ["b", "a", "c", "cpu0"]


def test_channels_of_nccl_are_no_topology(imported):
    with pytest.raises(SourceError, match="this is a graph file of NCCL"):
        imported('<graphs version="1"><graph id="0"/></graphs>', kind="nccl")


def test_comments_are_skipped(imported):
    assert imported(NODE.replace(" <cpu", " <!-- <gpu> -->\n <cpu"))[0].npu_count == 2


def test_nics_that_are_nearest_to_no_gpu_are_named(imported):
    """A storage NIC on the CPU: not used, also if the fabric has a cable to it."""
    text = NODE.replace(" </cpu>", '  <nic><net name="mlx5_2" speed="100000" guid="0x9"/></nic>\n </cpu>')
    network, program = imported(text, fabric="switch")
    assert "NICs that are nearest to no GPU: mlx5_2 (--pcie keeps them)" in head(program)
    assert network.switch_count == 2
    hosts = [(host, f"mlx5_{at}", 0) for host in ("n1", "n2") for at in range(3)]
    network, program = imported(formats.ibnetdiscover(["leaf"], [], hosts), node=("nccl", text))
    assert network.npu_count == 4
    assert "mlx5_2 (--pcie keeps them)" in head(program)
    assert "no GPU" not in imported(text, fabric="switch", pcie=True)[1]


def test_nodes_of_one_gpu_drop_nothing(imported):
    for count in (1, 2):
        rates = {"nic": "50GB/s"} | ({"nvlink": "100GB/s"} if count > 1 else {})
        _, program = imported("SwitchName=leaf Nodes=n[1-2]\n", gpus_per_node=count, definitions=rates)
        assert "PCIe" not in program


# Templates of clouds


def azure(groups, nvlinks="", speed='link_speed="32.0 GT/s PCIe" link_width="16"'):
    """Groups of (GPUs, NICs) below bridges with made-up addresses, one CPU each."""
    rows, seen = [], [0, 0]
    for at, (gpus, nics) in enumerate(groups):
        inside = "".join(gpu(seen[0] + k, nvlinks, speed=speed) for k in range(gpus))
        for k in range(nics):
            number = seen[1] + k
            inside += f'<pci busid="01{number:02}:00:02.0" class="0x020700" {speed}><nic><net name="mlx5_{number}" '
            inside += f'speed="200000" guid="0x{number + 1}"/></nic></pci>\n'
        seen = [seen[0] + gpus, seen[1] + nics]
        bridge = f'<pci busid="ffff:ff:0{at}.0" class="0x060400" {speed}>{inside}</pci>'
        rows.append(('arch="x86_64" vendor="AuthenticAMD"', bridge))
    return nccl(rows)


def test_ndv2(imported):
    """8 V100, no NVLink in the file, one NIC in all."""
    inside = ["".join(gpu(4 * half + k) for k in range(4)) for half in range(2)]
    inside[0] += '<pci busid="0100:00:02.0" class="0x020700"><nic><net name="mlx5_0" speed="100000"/></nic></pci>'
    text = nccl([("", part) for part in inside]).replace('sm="90"', 'sm="70"')
    network, program = imported(text, nvlink="dgx1", fabric="switch", nodes=("a", "b"))
    assert network.npu_count == 16
    assert 'switch nic labels "mlx5_0"' in program  # all eight share it


@pytest.mark.parametrize(("groups", "sm", "count"), [([(2, 2)] * 4, 80, 12), ([(1, 1)] * 8, 90, 18)])
def test_ndv4_and_ndv5(imported, groups, sm, count):
    text = azure(groups).replace('sm="90"', f'sm="{sm}"')
    with pytest.raises(UsageError, match="names no NVLink"):
        imported(text)
    network, program = imported(text, nvlink=count, fabric="rails", nodes=("a", "b"))
    assert network.npu_count == 16
    assert network.switch_count == 2 + 8 + 1  # a NIC of its own for each GPU
    assert "nearest to no GPU" not in program


def test_ncv4(imported):
    """4 A100 on PCIe: no link speed, NVLinks of each GPU to itself, an Ethernet port below a CPU."""
    inside = gpu(
        0, '<nvlink target="0001:00:00.0" count="12" tclass="0x030200"/>', speed='link_speed="" link_width="0"'
    )
    inside += "".join(
        gpu(at, f'<nvlink target="{at + 1:04x}:00:00.0" count="12" tclass="0x030200"/>', speed='link_speed=""')
        for at in range(1, 4)
    )
    text = nccl([("", inside + '<nic><net name="eth0" speed="100000" gdr="0"/></nic>')]).replace('sm="90"', 'sm="80"')
    with pytest.raises(UsageError, match="names no NVLink between different GPUs"):
        imported(text)
    network, program = imported(text, nvlink=0)
    assert "NVLinks of a GPU to itself are left out" in head(program)
    assert rates(network) == {12}


# Matrices


@pytest.mark.parametrize("code", ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC"])
def test_codes_of_nvidia_smi(imported, code):
    """What two GPUs share: a bridge, one level of bridges more, a CPU, or nothing."""
    network, _ = imported(formats.nvidia_smi([["X", code], [code, "X"]]), gpu="h100")
    cpus = sum(family.name == "cpu" and family.count for family in network.families)
    assert cpus == (2 if code in {"SYS", "SOC"} else 1)
    bridges = sum(family.name == "bridge" and family.count for family in network.families)
    assert bridges == {"PIX": 1, "PXB": 3}.get(code, 2)
    assert rates(network) == {48}


def test_the_nic_of_a_gpu_has_the_best_code(imported):
    codes = [["X", "NV18", "SYS", "PXB", "NODE"], ["NV18", "X", "PIX", "SYS", "SYS"], ["SYS", "PIX", "X", "SYS", "SYS"],
             ["PXB", "SYS", "SYS", "X", "NODE"], ["NODE", "SYS", "SYS", "NODE", "X"]]  # fmt: skip
    rates = {"nic": "50GB/s"}
    _, program = imported(
        formats.nvidia_smi(codes, nics=3), gpu="h100", fabric="rails", nodes=("a", "b"), definitions=rates
    )
    assert "NICs that are nearest to no GPU: mlx5_2" in head(program)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("2PU1\t", "the header has no column GPU1"),
        ("", "the header has no column GPU1"),
        ("GPU1\tGPU2\t", "'0-47' in column GPU2"),
    ],
)
def test_a_damaged_header_of_nvidia_smi_loses_no_gpu(imported, column, said):
    text = formats.nvidia_smi([["X", "NV18"], ["NV18", "X"]]).replace("GPU1\t", column, 1)
    with pytest.raises(SourceError, match=said):
        imported(text, gpu="h100")


def test_nics_of_nvidia_smi_may_have_any_name(imported):
    """A bond between the GPUs, say: older versions list names of devices."""
    text = formats.nvidia_smi([["X", "NV18", "PIX"], ["NV18", "X", "SYS"], ["PIX", "SYS", "X"]], nics=1)
    fabric = {"gpu": "h100", "fabric": "rails", "nodes": ("a", "b"), "definitions": {"nic": "50GB/s"}}
    network, _ = imported(text, **fabric)
    named, _ = imported(text.replace("NIC0\t", "mlx5_bond_0\t"), **fabric)
    assert named.link_count == network.link_count
    assert rates(named) == rates(network)


def test_permissions_of_nvidia_smi_are_no_links(imported):
    text = formats.nvidia_smi([["X", "OK"], ["OK", "X"]])
    with pytest.raises(SourceError, match="topo -p2p', which says what is permitted") as caught:
        imported(text, gpu="h100")
    assert caught.value.diagnostics[0].hint == "give the output of 'nvidia-smi topo -m'"


def test_weights_of_rocm_smi_are_no_bandwidths(imported):
    given = {"xgmi": "50GB/s"}
    found, _ = imported(formats.rocm_smi(4), definitions=given)
    other, _ = imported(formats.rocm_smi(4).replace("15  ", "72  "), definitions=given)
    assert links(found) == links(other)


def amd_text(types, hops, bandwidth="50000-100000"):
    bus = [f"0000:{at + 1:02x}:00.0" for at in range(len(types))]

    def table(title, cell):
        rows = [f"{title} TABLE:", " " * 14 + " ".join(f"{name:<13}" for name in bus)]
        return [
            *rows,
            *(f"{a} " + " ".join(f"{cell(i, j)!s:<13}" for j in range(len(bus))) for i, a in enumerate(bus)),
            "",
        ]

    rows = table("ACCESS", lambda _i, _j: "ENABLED") + table("WEIGHT", lambda i, j: 0 if i == j else 15)
    rows += table("HOPS", lambda i, j: hops[i][j]) + table("LINK TYPE", lambda i, j: types[i][j])
    rows += table("NUMA BW", lambda i, j: bandwidth if types[i][j] == "XGMI" else "N/A")
    rows += table("CACHE COHERENCY", lambda i, j: "SELF" if i == j else "C")
    return "\n".join([*rows, "Legend:", " SELF = Current GPU", " ENABLED / DISABLED = Link is enabled or disabled", ""])


def test_a_row_of_amd_smi_that_is_not_there(imported):
    """Without the last row of the hops, two hops of XGMI were taken for a link."""
    text = amd_text([["SELF", "XGMI"], ["XGMI", "SELF"]], [[0, 1], [1, 0]]).split("\n")
    hops = text.index("HOPS TABLE:")
    with pytest.raises(SourceError, match=r"section 'HOPS' has no row of 0000:02:00\.0"):
        imported("\n".join([*text[: hops + 3], *text[hops + 4 :]]))


def test_tables_of_amd_smi(imported):
    """The least of the bandwidths is that of one link, in MB/s; what takes two hops or PCIe is no link."""
    types = [["SELF", "XGMI", "XGMI"], ["XGMI", "SELF", "PCIE"], ["XGMI", "PCIE", "SELF"]]
    hops = [[0, 1, 2], [1, 0, 3], [2, 3, 0]]
    text = amd_text(types, hops)
    network, program = imported(text, pcie=False)
    assert {(a, b, rate) for a, b, rate, _ in links(network)} == {(0, 1, 50 * GB), (1, 0, 50 * GB)}
    assert "(amd-smi)" in program  # told from the content
    closed = text.replace("ENABLED       ENABLED       ENABLED", "ENABLED       DISABLED      ENABLED", 1)
    assert len(links(imported(closed, pcie=False)[0])) == 1
    with pytest.raises(UsageError, match="does not say the bandwidth of XGMI"):
        imported(amd_text(types, hops, "N/A"))
    with pytest.raises(SourceError, match="'WIRE' is not a type of link"):
        imported(text.replace("XGMI", "WIRE", 1))
    with pytest.raises(SourceError, match="has 2 columns, and there are 3 GPUs"):
        imported(text.replace("XGMI          XGMI", "XGMI", 1))


def test_two_hops_of_xgmi_are_no_link_in_json(imported):
    gpus = [
        {"bdf": f"g{a}", "links": [
            {"bdf": f"g{b}", "link_type": "XGMI", "num_hops": 1 if abs(a - b) == 1 else 2, "bandwidth": "64000-64000"}
            for b in range(3) if b != a]}
        for a in range(3)
    ]  # fmt: skip
    network, _ = imported(json.dumps(gpus), kind="amd-smi", pcie=False)
    assert {(a, b) for a, b, *_ in links(network)} == {(0, 1), (1, 0), (1, 2), (2, 1)}


# InfiniBand


@pytest.mark.parametrize(
    ("text", "gigabits"),
    [("1xHDR", 50), ("2xHDR", 100), ("4xHDR", 200), ("8xHDR", 400), ("12xHDR", 600), ("4xNDR", 400), ("4xXDR", 800),
     ("4xEDR", 100), ("4xFDR", 56), ("4xFDR10", 40), ("4xQDR", 32), ("4xDDR", 16), ("4xSDR", 8)],
)  # fmt: skip
def test_widths_and_speeds(imported, text, gigabits):
    """Per lane; SDR to QDR lose a fifth to coding."""
    network, _ = imported(IB.replace("4xNDR", text), gpus_per_node=1)
    assert rates(network) == {gigabits / 8}


def test_both_ends_of_a_cable_are_one_and_parallel_cables_are_lanes(imported):
    text = formats.ibnetdiscover(["a", "b"], [(0, 1)] * 3, [("n1", "x", 0), ("n2", "x", 1)])
    network, _ = imported(text, gpus_per_node=1)
    assert Counter(links(network).values()) == {1: 4, 3: 2}


@pytest.mark.parametrize("width", ["???", "4x??", "??"])
def test_unknown_widths_are_asked_for(imported, width):
    with pytest.raises(SourceError, match="a width and speed as in '4xHDR' is expected"):
        imported(IB.replace("4xNDR", width, 1), gpus_per_node=1)


def test_aggregation_nodes_and_routers_are_left_out(imported):
    hosts = [("n1", "x", 0), ("n2", "x", 0), ("Mellanox Technologies Aggregation Node", "", 0)]
    network, program = imported(formats.ibnetdiscover(["leaf"], [], hosts), gpus_per_node=1)
    assert network.npu_count == 2
    assert "aggregation nodes (SHARP) and routers" in head(program)


@pytest.mark.parametrize(
    "line", ['SW  41  1 0x98a1 4x HDR - CA 7 1 0xb1 ( "leaf" - "n1 mlx5_0" )', "DR path slid 0; dlid 0; 0,1"]
)
def test_other_forms_of_ibnetdiscover_are_refused(imported, line):
    """-p prints ports as a table."""
    with pytest.raises(SourceError) as caught:
        imported(f"{IB}\n{line}\n", gpus_per_node=1)
    assert caught.value.diagnostics[0].hint == "as ibnetdiscover prints them without -p"


def test_lines_with_more_fields_are_read(imported):
    """-f adds fields behind the width and speed."""
    plain, _ = imported(IB, gpus_per_node=1)
    full, _ = imported(IB.replace("4xNDR", "4xNDR s=128 w=2 v=4"), gpus_per_node=1)
    assert links(plain) == links(full)


def test_hosts_are_the_first_words_of_descriptions():
    from collc.base.diagnostics import SourceFile

    fabric = read_ibnetdiscover(SourceFile("f", IB.replace("n1 mlx5_0", "n1 HCA-1 extra")), ImportOptions())
    assert {(one.host, one.port) for one in fabric.attachments} == {("n1", "HCA-1"), ("n2", "mlx5_0")}


def test_forms_of_iblinkinfo(imported):
    """Down ports, records of CAs, which repeat cables and begin with a guid, and what could be faster."""
    plain, _ = imported(IBLINK, gpus_per_node=1)
    ca = "CA: n1 mlx5_0:\n      0x00000000000000b1    100    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>"
    ca += '       0    1[  ] "leaf" ( )\n'
    more, _ = imported(IBLINK.replace('"n2 mlx5_0" ( )', '"n2 mlx5_0" ( Could be 212.5 Gbps)') + ca, gpus_per_node=1)
    assert links(plain) == links(more)
    wide = IBLINK.replace("4X 106.25", "2X 53.125")
    assert rates(imported(wide, gpus_per_node=1)[0]) == {12.5}
    line = '0x98a1 "leaf" 0 1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==> 0xb1 7 1[  ] "n1 mlx5_0" ( )\n'
    with pytest.raises(SourceError) as caught:
        imported(line, kind="iblinkinfo", gpus_per_node=1)
    assert caught.value.diagnostics[0].hint == "give the output of iblinkinfo without -l"


def test_two_devices_of_one_name_are_found(imported):
    with pytest.raises(SourceError, match="port 1 of n1 mlx5_0 has two cables") as caught:
        imported(IBLINK.replace("n2 mlx5_0", "n1 mlx5_0"), gpus_per_node=1)
    assert caught.value.diagnostics[0].span is not None


# Slurm


def test_keys_of_any_case_padded_numbers_and_comments(imported):
    text = "SWITCHNAME=a nodes=n[08-10,12] # a comment\n"
    network, program = imported(text, gpus_per_node=1, definitions={"nic": "50GB/s"})
    assert [network.real_name(at).partition("/")[0] for at in range(4)] == ["n08", "n09", "n10", "n12"]
    assert 'labels ["n[08-10]", "n12"]' in program


def test_hosts_below_several_switches(imported):
    """In files written by hand: one switch for each rail, and switches with two parents."""
    text = "SwitchName=r0 Nodes=n[1-4]\nSwitchName=r1 Nodes=n[1-4]\nSwitchName=s0 Switches=r[0-1]\n"
    text += "SwitchName=s1 Switches=r[0-1]\n"
    given = {"nvlink": "100GB/s", "nic": "50GB/s", "uplink": "100GB/s"}
    network, program = imported(text, gpus_per_node=2, definitions=given)
    assert "NIC k of a host that is below several switches is on the k-th of them, as n1" in head(program)
    leaves = {a: b for a, b, rate, _ in links(network) if a < 8 and rate == 50 * GB}
    assert [leaves[at] for at in range(4)] == [12, 13, 12, 13]
    assert sum(rate == 100 * GB and a >= 12 for a, _, rate, _ in links(network)) == 8
    with pytest.raises(SourceError, match="host n1 has 2 cables to the fabric, its node has 4 NICs"):
        imported(text, gpus_per_node=4, definitions=given)


def test_a_topology_yaml_wins(tmp_path, capsys):
    from collc.command.cli import main

    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1-2]\n")
    words = ["import", str(tmp_path / "topology.conf"), "--gpus-per-node", "1", "-D", "nic=50GB/s"]
    assert main(words) == 0
    assert "topology.yaml" not in capsys.readouterr().err
    (tmp_path / "topology.yaml").write_text("- topology: a\n  flat: true\n")
    assert main(words) == 0
    assert "there is a topology.yaml beside it" in capsys.readouterr().err


# Other tools


def test_astra_counts_gibibytes_nanoseconds_and_two_hops_of_a_switch(imported):
    text = "topology: [ FullyConnected, Ring, Switch ]\nnpus_count: [ 3, 4, 2 ]\nbandwidth: [ 1, 2, 3 ]\n"
    text += "latency: [ 5, 6, 7 ]\n"
    network, _ = imported(text)
    found = {(a, b): (rate, latency) for a, b, rate, latency in links(network)}
    assert found[0, 2] == (2**30, 5000)
    assert found[0, 3] == (2 * 2**30, 6000)  # the first dimension is the fastest
    assert found[0, 9] == (2 * 2**30, 6000)
    assert (0, 6) not in found
    assert [latency for (a, b), (rate, latency) in found.items() if rate == 3 * 2**30] == [7000] * 48


def test_places_of_nodes_of_old_networkx(imported):
    """Version 1 wrote the places of nodes as the ends of edges."""
    given = {"npu": "t=gpu", "capacity": "bw=GB/s"}
    old = GRAPH.replace('"source": "a", "target": "b"', '"source": 0, "target": 1')
    assert links(imported(old, **given)[0]) == links(imported(GRAPH, **given)[0])


def test_edges_from_a_node_to_itself_are_dropped(imported):
    given = {"npu": "t=gpu", "capacity": "bw=GB/s"}
    data = json.loads(GRAPH)
    key = "edges" if "edges" in data else "links"
    data[key].append(data[key][0] | {"target": data[key][0]["source"]})
    network, program = imported(json.dumps(data), **given)
    assert links(network) == links(imported(GRAPH, **given)[0])
    assert f"Dropped: edges from a node to itself ({data[key][0]['source']})." in head(program)


@pytest.mark.parametrize("ids", [(1, "1"), (1, 1), ("a", "a"), (1, 1.0)])
def test_nodes_of_one_name_are_refused(imported, ids):
    nodes = [{"id": number, "t": "gpu"} for number in (*ids, "c")]
    text = json.dumps({"nodes": nodes, "edges": [{"source": ids[0], "target": "c", "bw": 5}]})
    with pytest.raises(SourceError, match="two nodes with the id"):
        imported(text, npu="t=gpu", capacity="bw=GB/s")


@pytest.mark.parametrize("space", [' xmlns="http://graphml.graphdrawing.org/xmlns"', ""])
@pytest.mark.parametrize("kind", ["directed", "undirected"])
def test_undirected_edges_have_all_of_their_capacity_both_ways(imported, space, kind):
    text = f'<graphml{space}><key id="k" for="edge" attr.name="c" attr.type="double"/><graph edgedefault="{kind}">'
    text += '<node id="a"/><node id="b"/><edge source="a" target="b"><data key="k">2</data></edge></graph></graphml>'
    network, _ = imported(text, npu="all", capacity="c=GB/s")
    wanted = {(0, 1): 2 * GB} | ({(1, 0): 2 * GB} if kind == "undirected" else {})
    assert {(a, b): rate for a, b, rate, _ in links(network)} == wanted


def test_matrices_of_taccl_and_sccl_are_by_target(imported):
    text = TACCL.replace("[[0, 1], [1, 0]]", "[[0, 1], [0, 0]]")
    assert [(a, b) for a, b, *_ in links(imported(text, chunk=10**6)[0])] == [(1, 0)]
    text = json.dumps({"msccl_type": "topology", "name": "b", "links": [[0, 3], [0, 0]], "switches": []})
    assert list(links(imported(text, definitions={"link": "25GB/s"})[0])) == [(1, 0, 25 * GB, 700_000)]


def test_beta_is_of_one_chunk(imported):
    for chunk, rate in ((10**6, 10**6 / 46e-6), (2**15, 2**15 / 46e-6)):
        found = next(iter(links(imported(TACCL, chunk=chunk)[0])))
        assert float(found[2]) == pytest.approx(rate)
        assert found[3] == 700_000


def test_what_taccl_says_of_other_nodes_is_named(imported):
    data = json.loads(TACCL) | {"remote_alpha": 1.7, "remote_beta": 106, "nics_per_node": 1}
    said = head(imported(json.dumps(data), chunk=10**6)[1])
    assert "links between nodes (remote_alpha, remote_beta, nics_per_node)" in said
    assert "scaled" not in said


def test_scaled_numbers_of_taccl_are_found(imported):
    data = json.loads(TACCL) | {"invbws": [[0, 470], [470, 0]]}
    assert "invbws, which are not alpha + beta" in head(imported(json.dumps(data), chunk=10**6)[1])
    data = json.loads(TACCL) | {"invbws": [[0, 46.7], [46.7, 0]]}
    assert "invbws" not in imported(json.dumps(data), chunk=10**6)[1]


def test_machines_that_taccl_knows_are_named(imported):
    with pytest.raises(SourceError, match="names a machine that TACCL contains"):
        imported(json.dumps({"name": "NDv2", "node_betas_list": [1], "links": []}), kind="taccl", chunk=10**6)


def test_switches_of_sccl_are_refused(imported):
    text = json.dumps({"msccl_type": "topology", "links": [[0, 1], [1, 0]], "switches": [[[0], [1], 1, "s"]]})
    with pytest.raises(SourceError, match="'switches' limit sums of links"):
        imported(text, definitions={"link": "25GB/s"})


def test_parameters_of_te_ccl_are_no_topology(imported):
    text = json.dumps({"TopologyParams": {"name": "DGX2", "chassis": 2, "chunk_size": 1e-3, "alpha": [1, 2]}})
    with pytest.raises(SourceError, match="cannot be recognized by its content"):
        imported(text)


@pytest.mark.parametrize(("rate", "bytes_per_second"), [("8Gbps", GB), ("1GBps", GB), ("1GiBps", 2**30), ("1e9", GB)])
def test_bits_and_bytes_of_simgrid(imported, rate, bytes_per_second):
    text = '<platform version="4.1"><zone id="z" routing="Full"><host id="a" speed="1f"/><host id="b" speed="1f"/>'
    text += f'<link id="l" bandwidth="{rate}" latency="1us" sharing_policy="SPLITDUPLEX"/>'
    text += '<route src="a" dst="b"><link_ctn id="l"/></route></zone></platform>'
    assert {one[2] for one in links(imported(text)[0])} == {bytes_per_second}


def test_a_router_of_simgrid_is_the_end_of_all_links_that_meet_there(imported):
    """The second route passes the router of the first one without naming it."""
    text = '<platform version="4.1"><zone id="z" routing="Full"><host id="a"/><host id="b"/><router id="r"/>'
    text += "".join(
        f'<link id="{name}" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>' for name in "kl"
    )
    text += '<route src="r" dst="b"><link_ctn id="l"/></route>'
    text += '<route src="a" dst="b"><link_ctn id="k"/><link_ctn id="l"/></route></zone></platform>'
    network, program = imported(text)
    assert {(a, b) for a, b, *_ in links(network)} == {(0, 2), (2, 0), (1, 2), (2, 1)}
    assert 'switch switch labels "r"' in program


def test_every_assumed_latency_is_a_param(imported):
    """No file of drivers has a latency from GPU to GPU that can be used."""
    for text, given in (
        (NODE, {"fabric": "switch"}),
        (SMI, {"gpu": "a100"}),
        (TACCL.replace('"alpha": 0.7, ', ""), {"chunk": 1000}),
    ):
        network, program = imported(text, **given)
        names = {line.split()[1].rstrip(":") for line in program.splitlines() if line.startswith("param ")}
        used = {word.rstrip(")}") for word in program.split() if word.rstrip(")}").endswith("_latency")}
        assert {name for name in used if f"latency: {name}" in program} <= names
        assert network.link_count > 0
