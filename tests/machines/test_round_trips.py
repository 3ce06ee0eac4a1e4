"""Files in each format, made from machines of the standard library, give these machines again."""

from __future__ import annotations

import json

import networkx as nx
import pytest

from tests.cpu_time import at_most
from tests.machines import formats
from tests.machines.formats import links, same

MACHINES = ["dgx1()", "dgx_a100(2)", "dgx_h100(2)", "mi300x_node()", "gb200_nvl72()", "fat_tree(4, 100GB/s, 1us)"]
MACHINES += ["rail_optimized(2, 4, 450GB/s, 50GB/s, 0.35us, 1us, spines: 2)"]
LATENCIES = {"nvlink_latency": "0.35us", "nic_latency": "0.85us", "uplink_latency": "0.3us"}


def test_dgx_h100_from_nccl(imported, std):
    found, program = imported(formats.nccl_node(8, switch_links=18), definitions={"nvlink": "450GB/s"})
    assert same(found, std("dgx_h100(1)"))
    assert "for i in 0..8" in program


def test_rates_of_nvlinks_are_those_of_nccl(imported):
    for sm, count, rate in ((70, 6, 120), (80, 12, 240), (90, 18, 370.8), (100, 18, 721.8)):
        found, _ = imported(formats.nccl_node(4, sm=sm, switch_links=count))
        assert {float(kind.bandwidth) for kind in found.kinds} == {rate * 1e9}


def test_dgx1_from_nccl(imported, std):
    wanted = std("dgx1()")
    lanes = formats.matrix_of(wanted, lambda count, _: count + 1)
    found, _ = imported(formats.nccl_node(8, sm=70, lanes=lanes), definitions={"nvlink": "25GB/s"})
    assert links(found) == links(wanted)


@pytest.mark.parametrize(
    ("machine", "sm", "nic", "nvlink"), [("dgx_h100", 90, 400_000, 450), ("dgx_a100", 80, 200_000, 300)]
)
@pytest.mark.parametrize("nodes", [2, 4])
def test_nodes_on_rails_from_nccl(imported, std, machine, sm, nic, nvlink, nodes):
    """PCIe of 48 GB/s is narrower than a NIC of 50 GB/s, which the option overrides."""
    text = formats.nccl_node(8, sm=sm, switch_links=18, nics=[(f"mlx5_{at}", nic) for at in range(8)])
    rates = {"nvlink": f"{nvlink}GB/s", "nic": f"{nic // 1000}Gb/s", "uplink": f"{nic * nodes // 1000}Gb/s"}
    found, program = imported(*[text] * nodes, fabric="rails", definitions=rates | LATENCIES)
    assert same(found, std(f"{machine}({nodes})"))
    assert f"use pod_node as node[{nodes}]" in program


def test_a_fabric_of_infiniband(imported, std):
    """The same machine: its nodes from NCCL, its leaves and spine from what the fabric manager prints."""
    leaves = [f"leaf{at}" for at in range(8)]
    cables = [(leaf, 8) for leaf in range(8) for _ in range(2)]
    hosts = [(f"node{n}", f"mlx5_{at}", at) for n in range(2) for at in range(8)]
    node = formats.nccl_node(8, switch_links=18, nics=[(f"mlx5_{at}", 400_000) for at in range(8)])
    found, _ = imported(
        formats.ibnetdiscover([*leaves, "spine"], cables, hosts),
        node=("nccl", node),
        definitions={"nvlink": "450GB/s", "nic": "50GB/s", "uplink": "50GB/s"} | LATENCIES,
    )
    again, _ = imported(
        formats.iblinkinfo([*leaves, "spine"], cables, hosts),
        node=("nccl", node),
        definitions={"nvlink": "450GB/s", "nic": "50GB/s", "uplink": "50GB/s"} | LATENCIES,
    )
    wanted = std("dgx_h100(2)")
    assert same(found, again)
    assert found.npu_count == wanted.npu_count
    lanes = sum(count for (a, b, *_), count in links(found).items() if min(a, b) >= 16 and max(a, b) >= 16)
    assert lanes == 2 * 2 * 8  # two cables of 50 GB/s each, both ways, and the library has one link of 100 GB/s


def test_a_matrix_of_nvidia_smi(imported, std):
    nv = [["X" if a == b else "NV18" for b in range(8)] for a in range(8)]
    found, _ = imported(formats.nvidia_smi(nv, ansi=True), gpu="h100", definitions={"nvlink": "450GB/s"})
    assert same(found, std("dgx_h100(1)"))
    lanes = formats.matrix_of(std("dgx1()"), lambda count, _: count + 1)
    mesh = [["X" if a == b else f"NV{lanes[a][b]}" if lanes[a][b] else "SYS" for b in range(8)] for a in range(8)]
    found, _ = imported(formats.nvidia_smi(mesh), gpu="v100", definitions={"nvlink": "25GB/s"})
    assert links(found) == links(std("dgx1()"))


def test_mi300x_from_rocm_and_amd_smi(imported, std):
    wanted = links(std("mi300x_node()"))
    found, program = imported(formats.rocm_smi(8), definitions={"xgmi": "64GB/s"})
    assert links(found) == wanted
    assert "for i in 0..8, j in 0..8 if i != j" in program or "j in i + 1..8" in program
    bdf = [f"0000:{at:02x}:00.0" for at in range(8)]
    gpus = [
        {"gpu": a, "bdf": bdf[a], "links": [
            {"gpu": b, "bdf": bdf[b], "link_type": "XGMI", "num_hops": 1, "bandwidth": "64000-64000"}
            for b in range(8) if b != a
        ]}
        for a in range(8)
    ]  # fmt: skip
    found, _ = imported(json.dumps(gpus), kind="amd-smi")
    assert links(found) == wanted
    keys = {f"(Topology) Link type between DRM devices {a} and {b}": "XGMI" for a in range(8) for b in range(a)}
    found, _ = imported(json.dumps({"system": keys}), definitions={"xgmi": "64GB/s"})
    assert links(found) == wanted


@pytest.mark.parametrize("expression", MACHINES)
@pytest.mark.parametrize("form", ["edges", "links", "graphml"])
def test_graphs_of_networkx(imported, std, tmp_path, expression, form):
    wanted = std(expression)
    graph = nx.MultiDiGraph()
    for device in range(wanted.device_count):
        graph.add_node(f"d{device}", kind="gpu" if device < wanted.npu_count else "switch")
    rows = zip(wanted.source.tolist(), wanted.target.tolist(), wanted.kind.tolist(), strict=True)
    for a, b, kind in rows:
        one = wanted.kinds[kind]
        graph.add_edge(f"d{a}", f"d{b}", bw=formats.gigabytes(one), delay=one.latency / 1e6)
    if form == "graphml":
        nx.write_graphml(graph, tmp_path / "graph.xml")
        text = (tmp_path / "graph.xml").read_text()
    else:
        text = json.dumps(nx.node_link_data(graph, edges=form))
    found, _ = imported(text, npu="kind=gpu", capacity="bw=GB/s", latency="delay=us")
    assert links(found) == links(wanted)


def test_taccl_and_sccl(imported, std):
    wanted = std("dgx1()")
    lanes = formats.matrix_of(wanted, lambda count, _: count + 1)
    betas = [[40 if count else 0 for count in row] for row in lanes]  # 1 MB / 25 GB/s
    text = json.dumps({"name": "box", "gpus_per_node": 8, "alpha": 0.7, "links": lanes, "betas": betas, "invbws": []})
    found, _ = imported(text, chunk=10**6)
    assert links(found) == links(wanted)
    text = json.dumps({"msccl_type": "topology", "name": "box", "links": lanes, "switches": []})
    found, _ = imported(text, definitions={"link": "25GB/s"})
    assert links(found) == links(wanted)


def test_a_network_file_of_astra_sim(imported, std):
    text = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 200.0, 50.0 ]\nlatency: [ 500.0, 1000.0 ]\n"
    found, _ = imported(text)
    ring, switch = "ring(4, bandwidth: 200GiB/s, latency: 500ns)", "switched(2, bandwidth: 50GiB/s, latency: 1us)"
    assert links(found) == links(std(f"{ring} * {switch}"))


def test_a_cluster_and_routes_of_simgrid(imported, std):
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">'
    cluster = '<cluster id="c" prefix="node" suffix="" radical="0-7" speed="1Gf" bw="25GBps" lat="1us"/></platform>'
    found, _ = imported(head + cluster)
    wanted = std("switched(8, bandwidth: 25GB/s, latency: 1us)")
    assert same(found, wanted)
    rows = [head, '<zone id="z" routing="Full">']
    rows += [
        f'<host id="h{at}" speed="1Gf"/>\n<link id="l{at}" bandwidth="200Gbps" latency="1us"'
        ' sharing_policy="SPLITDUPLEX"/>'
        for at in range(8)
    ]
    rows += [
        f'<route src="h{a}" dst="h{b}"><link_ctn id="l{a}"/><link_ctn id="l{b}"/></route>'
        for a in range(8)
        for b in range(a)
    ]
    found, _ = imported("\n".join([*rows, "</zone></platform>"]))
    assert same(found, wanted)


def test_a_tree_of_slurm(imported):
    conf = "# tree\nSwitchName=leaf1 Nodes=gpu[01-04]\nSwitchName=leaf2 Nodes=gpu[05-08] LinkSpeed=200\n"
    conf += "switchname=root Switches=leaf[1-2]\n"
    yaml = """- topology: main
  cluster_default: true
  tree:
    switches:
      - {switch: root, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "gpu[01-04]"}
      - {switch: leaf2, nodes: "gpu[05-08]"}
"""
    rates = {"nvlink": "450GB/s", "nic": "400Gb/s", "uplink": "1600Gb/s"}
    one, program = imported(conf, gpus_per_node=8, definitions=rates)
    other, _ = imported(yaml, gpus_per_node=8, definitions=rates)
    assert links(one) == links(other)
    assert one.npu_count == 64
    assert one.switch_count == 8 + 2 + 1
    assert 'use pod_node as node[8] labels "gpu[01-08]"' in program
    assert one.real_name(9) == "gpu02/GPU1"
    assert "LinkSpeed" in program  # as dropped


def test_512_nodes_are_one_use(imported):
    """A large fabric in a program of some lines, in time that grows with the cables."""
    hosts = [(f"node{n:03}", f"mlx5_{at}", n // 16) for n in range(128) for at in range(8)]
    leaves = [f"leaf{at}" for at in range(8)]
    cables = [(leaf, 8 + spine) for leaf in range(8) for spine in range(8) for _ in range(4)]
    text = formats.ibnetdiscover([*leaves, *(f"spine{at}" for at in range(8))], cables, hosts)
    node = formats.nccl_node(8, switch_links=18, nics=[(f"mlx5_{at}", 400_000) for at in range(8)])
    found, program = imported(text, node=("nccl", node))
    assert found.npu_count == 1024
    body = [line for line in program.splitlines() if line and not line.lstrip().startswith("#")]
    assert len(body) < 40


@pytest.mark.slow
def test_a_matrix_of_a_thousand_gpus(imported):
    """A million codes in 4 MB: 1.4 s of CPU for the whole import (12.5 s with a search for each column by name)."""
    matrix = formats.nvidia_smi([["X" if a == b else "NV18" for b in range(1000)] for a in range(1000)])
    with at_most(5):
        found, _ = imported(matrix, gpu="h100", definitions={"nvlink": "450GB/s"})
    assert found.npu_count == 1000
