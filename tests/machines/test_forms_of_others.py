"""Forms of files that the tools of other vendors, drivers and clouds write: each as its source describes it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import prod

import pytest

from collc.application.machines.importing import import_machine
from collc.base.diagnostics import SourceError, UsageError
from collc.machines.hosts import xgmi_rate
from collc.machines.reading import ImportOptions
from tests.machines import formats
from tests.machines.formats import links, same
from tests.machines.test_errors import SMI
from tests.machines.test_pitfalls import head

GB = 10**9


def rates(network):
    """How many directed links have each rate in GB/s."""
    counts = Counter()
    for (_, _, rate, _), number in links(network).items():
        counts[float(rate) / GB] += number
    return counts


# RCCL, as its src/graph/topo.h, xml.h and src/misc/archinfo.cc have it


def rccl(gpus, *, gcn="gfx942:sramecc+:xnack-", lanes=1, inside=""):
    """A dump of RCCL: GPUs below bridges that all have one bus id, as some dumps have it, all linked by XGMI."""
    rows = ['<system version="2">', '<cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="17">']
    for at in range(gpus):
        links_ = "".join(
            f'<xgmi target="0000:{other + 1:02x}:00.0" count="{lanes}" tclass="0x120000"/>'
            for other in range(gpus)
            if other != at and lanes
        )
        rows.append('<pci busid="0000:c5:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">')
        rows.append(
            f'<pci busid="0000:{at + 1:02x}:00.0" class="0x120000" link_speed="32.0 GT/s PCIe" link_width="16">'
        )
        rows.append(f'<gpu dev="{at}" sm="94" gcn="{gcn}" arch="38911" rank="{at}" gdr="1">{links_}</gpu></pci>')
        rows.append(f"{inside}</pci>")
    return "\n".join([*rows, "</cpu></system>", ""])


@pytest.mark.parametrize(
    ("gcn", "rate"),
    [("906", 24), ("908", 24), ("910", 36), ("gfx90a:sramecc+:xnack-", 36), ("940", 48), ("gfx942", 48), ("gfx950", 48),
     ("gfx1100", 24)],
)  # fmt: skip
def test_rates_of_xgmi_by_architecture(imported, gcn, rate):
    assert xgmi_rate(gcn) == rate * GB
    network, program = imported(rccl(4, gcn=gcn, lanes=2))
    assert rates(network) == {rate: 4 * 3 * 2}
    assert "as RCCL counts" in program


def test_a_dump_of_rccl_without_xgmi_has_pcie_only(imported):
    """The bridges are three, though they have one bus id: each GPU has its own link to the CPU."""
    network, _ = imported(rccl(3, lanes=0))
    assert (network.npu_count, network.switch_count) == (3, 4)
    assert rates(network) == {48: 6, 24: 6}


# Partitions of GPUs (NCCL, src/graph/topo.cc, ncclTopoAddGpuSub, ncclTopoAddNvLinks)


def partitioned(gpus, link, parts=2):
    rows = ['<system version="1">', '<cpu numaid="0" arch="arm64">']
    for at in range(gpus):
        rows.append(f'<pci busid="0002:{at:02x}:00.0" class="0x030200" link_speed="64.0 GT/s PCIe" link_width="16">')
        rows += [
            f'<gpu dev="{at}" sm="100" mlopart="{part}" rank="{at * parts + part}">{link(at)}'
            '<c2c bw="56000" count="5"/></gpu>'
            for part in range(parts)
        ]
        rows.append("</pci>")
    return "\n".join([*rows, "</cpu></system>", ""])


def test_partitions_share_the_links_of_their_gpu(imported):
    """18 NVLinks of 40.1 GB/s, half of them for each; 2,618 GB/s between the two (MLOPART_LOC_BW)."""
    text = partitioned(2, lambda _: '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>')
    network, program = imported(text)
    assert (network.npu_count, network.switch_count) == (4, 1)
    assert rates(network) == {360.9: 8, 2618: 4}
    assert "0002:00:00.0 has 2 partitions or ranks" in head(program)
    whole, _ = imported(text, pcie=True)
    assert rates(whole) == {360.9: 8, 2618: 4, 96 / 2: 8, 56 * 5 / 2: 8}


def test_links_between_partitioned_gpus_are_divided_at_both_ends(imported):
    text = partitioned(2, lambda at: f'<nvlink target="0002:{1 - at:02x}:00.0" count="6" tclass="0x030200"/>')
    network, _ = imported(text)
    # From each of 2 partitions 6 links to each of 2 others, in both directions; all of it is 6 links of 40.1 GB/s.
    assert rates(network) == {40.1 / 4: 2 * 2 * 6 * 2, 2618: 4}


def test_ranks_that_share_a_gpu_without_a_partition_are_kept(imported):
    """NCCL takes the links of the first <gpu> of a bus id."""
    link = '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>'
    text = partitioned(1, lambda _: link).replace('mlopart="0" ', "").replace('mlopart="1" ', "")
    second = text.rindex(link)
    for given in (text, text[:second] + text[second + len(link) :].replace('<c2c bw="56000" count="5"/>', "", 1)):
        network, _ = imported(given)
        assert rates(network) == {360.9: 4, 2618: 2}


# Templates of clouds (Azure/azhpc-images, aws/aws-ofi-nccl: topology/*.xml)


def template(nic='<pci busid="0000:{0}0:1b.0" class="0x020000" link_speed="8 GT/s" link_width="16"/>'):
    rows = ['<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">']
    for at in range(2):
        rows.append(f'<pci busid="ffff:ff:0{at}.0" class="0x060400" link_speed="8 GT/s" link_width="16">')
        rows += [
            f'<pci busid="0000:{at}0:1{name}.0" class="0x030200" link_speed="8 GT/s" link_width="16"/>' for name in "cd"
        ]
        rows.append(nic.format(at) + "</pci>")
    return "\n".join([*rows, "</cpu></system>", ""])


@pytest.mark.parametrize(
    "nic",
    ['<pci busid="0000:{0}0:1b.0" class="0x020000" link_speed="8 GT/s" link_width="16"/>',
     '<pci busid="0000:{0}0:1b.0" class="0x020700"/>',
     '<pci busid="0000:{0}0:1b.0" class="0x020700" link_speed="" link_width="16"><nic/></pci>', "<nic/>"],
)  # fmt: skip
def test_nics_of_templates_have_no_ports(imported, nic):
    settings = {"gpu": "a100", "nvlink": 12, "fabric": "rails"}
    network, _ = imported(template(nic), definitions={"nic": "100Gb/s"}, **settings)
    assert rates(network) == {240: 8, 12: 8, 12.5: 4}
    with pytest.raises(UsageError, match="no bandwidth is known of the NICs of node0"):
        imported(template(nic), **settings)


def test_a_device_without_a_class_is_asked_for(imported):
    with pytest.raises(SourceError, match="nothing says what this device is") as caught:
        imported('<system version="1">\n<cpu numaid="0">\n<pci busid="0000:00:16.0"/>\n</cpu></system>', gpu="a40")
    assert caught.value.diagnostics[0].span.line == 3
    assert 'class="0x030200" for a GPU' in caught.value.diagnostics[0].hint


# nvidia-smi and rocm-smi


LIST = "".join(f"GPU {at}: NVIDIA A100-SXM4-80GB (UUID: GPU-{at})\n" for at in range(4))
QUERY = "==============NVSMI LOG==============\n\nAttached GPUs : 4\n" + "".join(
    f"\nGPU 00000000:0{at}:00.0\n    Product Name                          : NVIDIA A100-SXM4-80GB\n" for at in range(4)
)


@pytest.mark.parametrize("models", [LIST, QUERY])
def test_models_beside_the_matrix(imported, models):
    given, _ = imported(SMI, gpu="a100")
    for files in ((SMI, models), (models, SMI), (models + SMI,), ("\ufeff" + SMI, "\ufeff" + models)):
        network, program = imported(*files)
        assert links(imported(*files, kind="nvidia-smi")[0]) == links(given)
        assert links(network) == links(given)
        assert "the GPUs are a100 (--gpu a100)" in head(program)
    nodes, _ = imported(template(), models, nvlink=12, fabric="rails", definitions={"nic": "100Gb/s"})
    assert nodes.npu_count == 4


def test_models_that_do_not_fit(imported):
    with pytest.raises(UsageError, match="does not say which GPUs these are") as asked:
        imported(SMI)
    assert "nvidia-smi -L" in asked.value.diagnostics[0].hint
    with pytest.raises(UsageError, match="names NVIDIA T1000, whose NVLinks are not known"):
        imported(SMI, LIST.replace("A100-SXM4-80GB", "T1000"))
    network, _ = imported(SMI, LIST.replace("A100-SXM4-80GB", "T1000"), gpu="a40")  # as the hint says
    assert network.npu_count == 2
    with pytest.raises(UsageError, match="names the model of GPUs, and no file says how they are linked"):
        imported(LIST)
    with pytest.raises(SourceError, match="GPUs of several models: a100, h100"):
        imported(SMI, LIST.replace("A100-SXM4-80GB", "H100 PCIe").replace("H100 PCIe", "A100-SXM4-80GB", 1))
    with pytest.raises(UsageError, match="files of several models: a100 and h100"):
        imported(SMI, LIST, LIST.replace("A100", "H100"))


def test_rocm_smi_of_gpus_on_pcie_needs_no_rate_of_xgmi(imported):
    text = formats.rocm_smi(2).replace("XGMI", "PCIE")
    network, _ = imported(text, definitions={"pcie": "20GB/s"})
    assert rates(network) == {20: 4}


def test_gpus_without_nvlinks_need_no_model(imported):
    """TITAN V: nothing of its matrix depends on the model, which collc does not know."""
    codes = [["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]]
    network, program = imported(formats.nvidia_smi(codes))
    assert set(rates(network)) == {12}
    assert "assumed: 16 lanes of PCIe Gen3 as NCCL counts" in program
    with pytest.raises(UsageError, match="which GPUs these are"):
        imported(formats.nvidia_smi(codes), nvlink="dgx1")
    silent = template("").replace('link_speed="8 GT/s"', 'link_speed="16 GT/s"')
    assert imported(silent, nvlink=0)[0].npu_count == imported(silent, nvlink=0, gpu="a100")[0].npu_count


# InfiniBand (dumps in NVIDIA/topograph, net files in linux-rdma/ibsim)


DRIVER = "MT4129 ConnectX7   Mellanox Technologies"


def test_ports_that_the_driver_named_are_hosts_of_their_own(imported):
    hosts = [("n1", "mlx5_0", 0), (DRIVER, "", 0), (DRIVER, "", 0)]
    network, program = imported(formats.ibnetdiscover(["leaf"], [], hosts), gpus_per_node=1)
    assert network.npu_count == 3
    assert "each port that only the driver named is a host: 0000000000000003, 0000000000000004" in head(program)
    chosen, program = imported(formats.ibnetdiscover(["leaf"], [], hosts), gpus_per_node=1, nodes=("n1",))
    assert chosen.npu_count == 1
    assert "driver" not in head(program)


def test_groups_and_messages_of_ibnetdiscover_are_no_cables(imported):
    """Lines of -g, messages on standard error, a loopback cable, a SHARP node without a record of its own."""
    text = formats.ibnetdiscover(["leaf"], [], [("n1", "mlx5_0", 0), ("n2", "mlx5_0", 0)])
    own = formats.guid(1)
    ports = (
        f'[30]\t"S-{own}"[31]\t# "leaf" lid 2 4xHDR\n[31]\t"S-{own}"[30]\t# "leaf" lid 2 4xHDR\n'
        '[41]\t"H-00000000000000ff"[1](ff)\t# "Mellanox Technologies Aggregation Node" lid 9 4xHDR\n'
    )
    messages = (
        "src/query_smp.c:195; umad (DR path slid 0; dlid 0) bad status 110; Connection timed out\nibwarn: [7] x\n"
    )
    grouped = f"{messages}Chassis 1 (guid 0x2)\n\nNon-Chassis Nodes\n{text.replace('[1]', ports + '[1]', 1)}"
    network, program = imported(grouped, gpus_per_node=1)
    assert same(network, imported(text, gpus_per_node=1)[0])
    for said in ("could not reach", "from a device to itself", "aggregation nodes (SHARP)"):
        assert said in head(program)


@pytest.mark.parametrize(("printed", "rate"), [("10.0", 4), ("10.0 Gbps (FDR10)@", 5), ("14.0625", 7)])
def test_rates_that_iblinkinfo_prints(imported, printed, rate):
    """QDR and FDR10 are both printed as 10.0; QDR loses a fifth to its coding."""
    text = formats.iblinkinfo(["leaf"], [], [("n1", "mlx5_0", 0), ("n2", "mlx5_0", 0)], gbps=printed)
    network, _ = imported(text.replace("@ Gbps", ""), gpus_per_node=1)
    assert set(rates(network)) == {rate}


def test_nodes_are_host_lists_and_other_leaves_go(imported):
    """Three leaves below two spines: the hosts of two leaves keep these and both spines."""
    hosts = [(f"n{at:02}", "mlx5_0", at // 4) for at in range(12)]
    text = formats.ibnetdiscover(
        ["a", "b", "c", "s", "t"], [(leaf, spine) for leaf in range(3) for spine in (3, 4)], hosts
    )
    network, program = imported(text, gpus_per_node=1, nodes=("n[02-03]", "n05"))
    assert (network.npu_count, network.switch_count) == (3, 4)
    assert "3 nodes with 3 GPUs, 2 leaf switches and 2 spine switches" in head(program)
    alone, _ = imported(text, gpus_per_node=1, nodes=("n[08-11]",))
    assert (alone.npu_count, alone.switch_count) == (4, 1)
    with pytest.raises(UsageError, match=r"--nodes: '3-1' is not a range of hosts"):
        imported(text, gpus_per_node=1, nodes=("n[3-1]",))
    with pytest.raises(UsageError, match="hosts in one list"):
        imported(text, gpus_per_node=1, nodes=("n[1-999999999]",))


IBSIM = """# ibsim
Switch\t8 "Switch1"
[1]\t"Hca1"[1]\tw=12
[2]\t"Switch2"[3]
[3]\t"Switch2"[4]

Switch 8 "Switch2"
[1]\t"Hca2"[1]
[3]\t"Switch1"[2]
[4]\t"Switch1"[3]

Hca\t2 "Hca1"
[1]\t"Switch1"[1]

Hca\t2 "Hca2"
[1]\t"Switch2"[1]
"""


def test_net_files_of_ibsim(imported):
    rates_of = {"nic": "50GB/s", "uplink": "25GB/s"}
    network, program = imported(IBSIM, gpus_per_node=1, definitions=rates_of)
    assert (network.npu_count, network.switch_count) == (2, 2)
    assert rates(network) == {50: 4, 25: 4}
    assert "widths of links (w=)" in head(program)
    with pytest.raises(UsageError, match="no bandwidth is known of the NICs of Hca1"):
        imported(IBSIM, gpus_per_node=1)
    with pytest.raises(SourceError, match="1 cable to the fabric, its node has 8 NICs") as caught:
        imported(IBSIM, gpus_per_node=8, definitions={**rates_of, "nvlink": "450GB/s"})
    assert "as many GPUs (--gpus-per-node)" in caught.value.diagnostics[0].hint
    with pytest.raises(SourceError, match="Switch2 has no record of its own"):
        imported(IBSIM.replace('Switch 8 "Switch2"', 'Switch 8 "Switch3"'), gpus_per_node=1, definitions=rates_of)


def test_rates_of_links_that_a_machine_has_not_are_remarks(tmp_path):
    """The hint of the first message names NVLinks, which nodes of one GPU have not."""
    (tmp_path / "net").write_text(IBSIM)
    given, remarks = {"nic": "50GB/s", "uplink": "25GB/s", "nvlink": "450GB/s", "xgmi_latency": "1us"}, []
    options = ImportOptions((tmp_path / "net",), gpus_per_node=1, definitions=given)
    import_machine(options, remarks.append)
    said = "is not used, since this machine has no such links"
    assert remarks == [f"-D nvlink=450GB/s {said}", f"-D xgmi_latency=1us {said}"]


# Machines in parts


@pytest.mark.parametrize(("joined", "parts"), [("SwitchName=root Switches=a,b\n", 1), ("", 2)])
def test_parts_that_nothing_joins_are_named(tmp_path, joined, parts):
    (tmp_path / "t.conf").write_text(f"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-6]\n{joined}")
    remarks = []
    given = {"nvlink": "450GB/s", "nic": "50GB/s"} | ({"uplink": "50GB/s"} if joined else {})
    options = ImportOptions((tmp_path / "t.conf",), gpus_per_node=2, definitions=given)
    program = import_machine(options, remarks.append)
    said = "no path joins all NPUs: the machine has 2 parts, and not in the first one are n[3-6]"
    assert remarks == ([said] if parts > 1 else [])
    assert (said in head(program)) == (parts > 1)


# SimGrid (src/kernel/routing/{Torus,FatTree,Dragonfly}Zone.cpp)


def platform(body):
    return f'<?xml version="1.0"?>\n<platform version="4.1"><zone id="w" routing="Full">\n{body}\n</zone></platform>\n'


def cluster(shape, parameters, count, more=""):
    attributes = f'id="c" prefix="n" suffix="" radical="0-{count - 1}" speed="1Gf" bw="1GBps" lat="1us"'
    return platform(f'<cluster {attributes} topology="{shape}" topo_parameters="{parameters}" {more}/>')


@pytest.mark.parametrize(
    ("sizes", "expression"), [("5", "ring(5"), ("4,3", "torus2d(4, 3"), ("3,4,5", "torus3d(3, 4, 5")]
)
def test_a_torus_of_simgrid(imported, std, sizes, expression):
    count = prod(map(int, sizes.split(",")))
    network, _ = imported(cluster("TORUS", sizes, count))
    assert same(network, std(f"{expression}, bandwidth: 1GB/s, latency: 1us)"))


@pytest.mark.parametrize("numbers", ["2;4,4;1,2;1,2", "3;2,3,2;1,2,3;1,1,2", "1;5;2;1"])
def test_a_fat_tree_of_simgrid(imported, numbers):
    """A generalized fat tree: of each level as many switches as its digits give, each with its cables down and up."""
    _, *lists = ([int(number) for number in part.split(",")] for part in numbers.split(";"))
    children, parents, cables = lists
    levels = len(children)
    network, _ = imported(cluster("FAT_TREE", numbers, prod(children)))
    assert network.npu_count == prod(children)
    counts = [prod(parents[:level]) * prod(children[level:]) for level in range(levels + 1)]
    assert network.switch_count == sum(counts[1:])
    degrees = Counter()
    for (a, _, _, _), number in links(network).items():
        degrees[a] += number
    wanted = Counter()
    for level, count in enumerate(counts):
        down = children[level - 1] * cables[level - 1] if level else 0
        up = parents[level] * cables[level] if level < levels else 0
        wanted[down + up] += count
    assert Counter(degrees.values()) == wanted


def test_a_dragonfly_of_simgrid(imported):
    """3 groups of 4 chassis of 5 blades of 2 nodes; 4, 3 and 1 links between groups, chassis and blades."""
    network, program = imported(cluster("DRAGONFLY", "3,4;4,3;5,1;2", 120, 'limiter_link="1GBps"'))
    assert (network.npu_count, network.switch_count) == (120, 60)
    assert rates(network) == {1: 2 * (120 + 12 * 10), 3: 2 * 3 * 5 * 6, 4: 2 * 3}
    assert "limiter_link, which bounds" in head(program)
    assert program.count("\n") < 50  # 231 with a line for each of the 210 pairs in chassis and groups


@pytest.mark.parametrize(
    ("shape", "parameters", "message"),
    [("TORUS", "3,3", "topo_parameters is for 9 hosts, and there are 8"), ("TORUS", "", "is numbers as in"),
     ("TORUS", "2,0", "a number of topo_parameters is 0"), ("TORUS", "999999,999999", "devices exceed the limit"),
     ("FAT_TREE", "2;1000,1000;999999,1;1,1", "devices exceed the limit"),
     ("FAT_TREE", "1;1000;99999;1", "99,999,000 links exceed the limit"),
     ("DRAGONFLY", "1,1;1,1;99999,1;1", "4,999,850,001 links exceed the limit"),
     ("FAT_TREE", "2;2,4;1", "are levels;children;parents;cables"), ("DRAGONFLY", "2;2;2;1", "are groups, chassis"),
     ("DRAGONFLY", "4,1;1,1;2,1;1", "4 groups need as many blades in each, and there are 2"),
     ("VIVALDI", "1", "FLAT, TORUS, FAT_TREE, DRAGONFLY can")],
)  # fmt: skip
def test_clusters_that_cannot_be(imported, shape, parameters, message):
    with pytest.raises(SourceError) as caught:
        imported(cluster(shape, parameters, 8))
    found = caught.value.diagnostics[0]
    assert message in f"{found.message} {found.hint}"


def test_routes_between_zones_join_the_routers_of_clusters(imported):
    """Two clusters, one with a backbone, and a link between their routers."""
    common = 'suffix=".x" radical="0-3" speed="1Gf" bw="1GBps" lat="1us"'
    body = f"""<cluster id="a" prefix="a" {common}/>
<cluster id="b" prefix="b" {common} bb_bw="2GBps" bb_lat="1us"/>
<link id="l" bandwidth="3GBps" latency="5us" sharing_policy="SPLITDUPLEX"/>
<zoneRoute src="a" dst="b" gw_src="aa_router.x" gw_dst="bb_router.x"><link_ctn id="l"/></zoneRoute>"""
    network, _ = imported(platform(body))
    assert (network.npu_count, network.switch_count) == (8, 4)
    # A link of each host, the backbone and its two ends at the router, the link between the routers.
    assert rates(network) == {1: 16, 2: 3, 3: 2}
    apart, program = imported(platform(body[: body.index("<zoneRoute")]))
    assert (apart.npu_count, apart.switch_count) == (8, 3)
    assert "no path joins all NPUs" in head(program)
    with pytest.raises(SourceError, match="a route leads to ax"):
        imported(platform(body.replace("aa_router", "ax")))


def test_links_that_limit_each_flow_may_be_loopbacks(imported):
    body = """<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/>
<link id="l" bandwidth="1GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
<link id="own" bandwidth="9GBps" latency="1us" sharing_policy="FATPIPE"/>
<route src="a" dst="a"><link_ctn id="own"/></route>
<route src="a" dst="b"><link_ctn id="l"/></route>"""
    network, program = imported(platform(body))
    assert rates(network) == {1: 2}
    assert "routes from a host to itself" in head(program)


def star(parts, more=""):
    """A zone with routing Cluster, as its parts and a backbone of 9 GB/s."""
    backbone = '<router id="r"/><backbone id="b" bandwidth="9GBps" latency="3us"/>'
    return platform(f'<zone id="c" routing="Cluster">{parts}{backbone}</zone>{more}')


CABINETS = "".join(f'<cabinet id="k" prefix="n" radical="{ids}" bw="1GBps" lat="1us"/>' for ids in ("0-2", "3"))
HOST_LINKS = "".join(
    f'<host id="n{at}"/><link id="l{at}{name}" bandwidth="1GBps" latency="1us" sharing_policy="{policy}"/>{other}'
    f'<host_link id="n{at}" up="l{at}_UP" down="l{at}_DOWN"/>'
    for at, (name, policy, other) in enumerate(
        [("", "SPLITDUPLEX", "")] * 2
        + [("_UP", "SHARED", f'<link id="l{at}_DOWN" bandwidth="1GBps" latency="1us"/>') for at in (2, 3)]
    )
)


@pytest.mark.parametrize("parts", [CABINETS, HOST_LINKS], ids=["cabinets", "links of hosts"])
def test_a_zone_with_routing_cluster_is_a_cluster(imported, parts):
    """StarZone: hosts with links of their own to a backbone; routes of other zones end at its router."""
    flat = '<cluster id="c" prefix="n" radical="0-3" bw="1GBps" lat="1us" bb_bw="9GBps" bb_lat="3us" router_id="r"/>'
    more = (
        '<host id="z"/><link id="l" bandwidth="2GBps" sharing_policy="SPLITDUPLEX"/>'
        '<zoneRoute src="c" dst="z" gw_src="r" gw_dst="z"><link_ctn id="l"/></zoneRoute>'
    )
    for added in ("", more):
        assert same(imported(star(parts, added))[0], imported(platform(flat + added))[0])


def test_a_link_of_a_host_that_both_directions_share(imported):
    shared = '<host id="n"/><link id="l" bandwidth="1GBps" latency="1us"/><host_link id="n" up="l" down="l"/>'
    network, _ = imported(star(shared))
    assert rates(network) == {0.5: 2, 9: 1}
    for wrong, said in (
        (shared + '<host id="m"/><host_link id="m" up="l" down="l"/>', "not for a link of this host alone"),
        (shared.replace('down="l"', 'down="k"'), "there is no link k"),
        (shared.replace('"1us"', '"1us" sharing_policy="FATPIPE"'), "not for a link of this host alone"),
        (shared + '<cabinet id="k" prefix="" radical="0-1" bw="1GBps" lat="1us"/>' * 2, "0 occurs twice"),
    ):
        with pytest.raises(SourceError, match=said):
            imported(star(wrong))
    again = star('<cabinet id="k" prefix="m" radical="0-1" bw="1GBps" lat="1us"/>').replace('id="r"', 'id="q"')
    again = again[again.index('<zone id="c"') : again.rindex("</zone>")]
    with pytest.raises(SourceError, match="c occurs twice"):
        imported(star(shared, again))


def test_blank_lines_before_the_declaration_of_xml(imported):
    text = cluster("TORUS", "5", 5)
    assert same(imported("\n \n" + text)[0], imported(text)[0])
    with pytest.raises(SourceError) as caught:
        imported("\n\n" + text.replace('"TORUS"', '"TREE"'))
    assert caught.value.diagnostics[0].span.start == 2 + text.index("<cluster")


@pytest.mark.parametrize(
    ("text", "rate"), [("1e-6PBps", 1), ("0.000001EBps", 1000), ("8e-9Zbps", 1000), ("0.5e-9YiBps", 2**79 / 1e18)]
)
def test_rates_of_simgrid_have_all_prefixes(imported, text, rate):
    body = f'<host id="a"/><host id="b"/><link id="l" bandwidth="{text}" sharing_policy="SPLITDUPLEX"/>'
    network, _ = imported(platform(body + '<route src="a" dst="b"><link_ctn id="l"/></route>'))
    assert list(rates(network)) == [pytest.approx(rate)]


def test_settings_and_traces_of_simgrid_are_left_out(imported):
    more = '<config><prop id="a" value="b"/></config><trace id="t">0 1</trace><trace_connect trace="t" element="a"/>'
    text = cluster("TORUS", "5", 5)
    network, program = imported(text.replace("<zone", f"{more}<zone", 1))
    assert same(network, imported(text)[0])
    assert "settings and traces of the simulation" in head(program)


def test_hosts_that_share_their_only_link(imported):
    """One link between each two of three hosts: a bus, which no links between devices stand for."""
    ends = ("a", "b"), ("a", "c"), ("b", "c")
    routes = "".join(f'<route src="{a}" dst="{b}"><link_ctn id="l"/></route>' for a, b in ends)
    hosts = "".join(f'<host id="{name}"/>' for name in "abc")
    with pytest.raises(SourceError, match="share all their links"):
        imported(platform(f'{hosts}<link id="l" bandwidth="1GBps"/>{routes}'))


def test_links_of_a_cluster_that_both_directions_share(imported):
    network, program = imported(cluster("TORUS", "5", 5, 'sharing_policy="SHARED"'))
    assert {rate for _, _, rate, _ in links(network)} == {Fraction(GB, 2)}
    assert "param shared_part: float = 0.5" in program


# Small files that stand for much, and names that occur twice


def test_partitions_are_limited(imported):
    """Each is linked to all others of its GPU, and links between GPUs once for each pair of partitions."""
    one = partitioned(1, lambda _: '<nvlink target="fffffff:ffff:ff" count="18" tclass="0x068000"/>', parts=1500)
    with pytest.raises(SourceError, match="2,248,500 links exceed the limit of 1,000,000"):
        imported(one)
    links_ = "".join(f'<nvlink target="0002:{other:02x}:00.0" count="1" tclass="0x030200"/>' for other in range(40))
    with pytest.raises(SourceError, match="links exceed the limit of 1,000,000"):
        imported(partitioned(40, lambda _: links_, parts=26))


def test_nics_without_ports_are_told_apart(imported):
    """Each GPU has one below its own CPU link; they were all called cpu0, and all links led to one GPU."""
    nic = '<pci busid="0000:{0}0:1b.0" class="0x020000" link_speed="8 GT/s" link_width="16"><nic/></pci>'
    network, program = imported(
        template(nic), gpu="a100", nvlink=12, fabric="rails", definitions={"nic": "100Gb/s"}, nodes=("a", "b")
    )
    assert "no cable" not in head(program)
    assert rates(network)[12.5] == 2 * 2 * 2


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('<cluster id="c" prefix="a" radical="0-3,2" bw="1GBps" lat="1us"/>', "a2"),
        (2 * '<cluster id="c" prefix="a" radical="0" bw="1GBps" lat="1us"/>', "a0"),
        ("".join(f'<cluster id="c" prefix="{p}" radical="0" bw="1GBps" lat="1us"/>' for p in "ab"), "c"),
        (
            "".join(f'<cluster id="{p}" prefix="{p}" radical="0" bw="1GBps" lat="1us" router_id="r"/>' for p in "ab"),
            "r",
        ),
    ],
)
def test_names_of_a_platform_occur_once(imported, body, name):
    """Two clusters of one name had one switch."""
    with pytest.raises(SourceError, match=f"{name} occurs twice"):
        imported(platform(body))


def test_a_route_between_zones_names_its_gateways(imported):
    route = '<link id="l" bandwidth="1GBps" latency="1us"/><zoneRoute src="A" dst="B"><link_ctn id="l"/></zoneRoute>'
    with pytest.raises(SourceError, match="a <zoneRoute> without gw_src and gw_dst"):
        imported(platform('<host id="a"/>' + route))


def test_hosts_whose_names_begin_as_those_of_the_driver(imported):
    """A driver writes the number of the device, of four or five digits."""
    text = formats.ibnetdiscover(["leaf"], [], [("MT01", "mlx5_0", 0), ("MT02", "mlx5_0", 0)])
    program = imported(text, gpus_per_node=1)[1]
    assert "MT01" in program
    assert "MT02" in program
