"""`gb200_nvl72` and `rail_optimized` through each format that can express them; a schedule from each kind of file.

TACCL, SCCL and ROCm's files have no switches as devices, and Slurm's trees one parent for each host: they express
neither machine. A fabric manager sees no NVLinks, and ASTRA-sim's products have no rails with a spine.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from collc.api.compiling import compile_text
from collc.api.schedules import verify
from collc.base.diagnostics import SourceFile
from collc.command.cli import main
from collc.machines.kinds import import_kinds, kind_of
from tests.machines import formats
from tests.machines.formats import links, same
from tests.machines.test_errors import ASTRA, IB, IBLINK, NODE, RATES, SIMGRID, SLURM, SMI, TACCL

NVL72 = {"nvlink": "900GB/s", "nvlink_latency": "0.35us"}
RAILS = "rail_optimized(2, 4, 450GB/s, 50GB/s, 0.35us, 0.85us, spines: {})"
RAIL_RATES = {
    "nvlink": "450GB/s", "nvlink_latency": "0.35us", "nic": "50GB/s", "nic_latency": "0.85us",
    "uplink": "100GB/s", "uplink_latency": "0.85us",
}  # fmt: skip
NICS = [(f"mlx5_{at}", 400_000) for at in range(4)]


def matrix(gpus, nics=0):
    """The codes of GPUs on NVSwitches, each with a NIC of its own."""
    rows = [["X" if a == b else "NV18" for b in range(gpus)] for a in range(gpus)]
    rows = [row + ["PIX" if at == nic else "SYS" for nic in range(nics)] for at, row in enumerate(rows)]
    return rows + [["PIX" if at == nic else "SYS" for at in range(gpus)] + ["X"] * nics for nic in range(nics)]


NVL72_FILES = {
    "nccl": (formats.nccl_node(72, sm=100, switch_links=18), {"definitions": NVL72}),
    "nvidia-smi": (formats.nvidia_smi(matrix(72)), {"gpu": "b200", "definitions": NVL72}),
    "slurm": (
        "BlockName=rack Nodes=gpu[01-18]\n",
        {"gpus_per_node": 4, "joined_by": "nvlink", "definitions": NVL72},
    ),
    "simgrid": (
        '<platform version="4.1"><cluster id="c" prefix="n" suffix="" radical="0-71" speed="1Gf" bw="900GBps"'
        ' lat="350ns"/></platform>',
        {},
    ),
}


@pytest.mark.parametrize("kind", NVL72_FILES)
def test_gb200_nvl72(imported, std, kind):
    text, settings = NVL72_FILES[kind]
    found, program = imported(text, kind=kind, **settings)
    assert links(found) == links(std("gb200_nvl72()"))
    assert program.count("<->") <= 1  # in a loop


def test_gb200_nvl72_of_astra_sim(imported, std):
    text = "topology: [ Switch ]\nnpus_count: [ 72 ]\nbandwidth: [ 900 ]\nlatency: [ 350 ]\n"
    assert links(imported(text)[0]) == links(std("gb200_nvl72(nvlink: 900GiB/s)"))


@pytest.mark.parametrize("kind", ["nccl", "nvidia-smi"])
def test_rails_of_files_of_nodes(imported, std, kind):
    node = formats.nccl_node(4, switch_links=18, nics=NICS) if kind == "nccl" else formats.nvidia_smi(matrix(4, 4), 4)
    found, _ = imported(node, node, kind=kind, gpu="h100", fabric="rails", definitions=RAIL_RATES)
    assert same(found, std(RAILS.format(1)))


@pytest.mark.parametrize("writer", [formats.ibnetdiscover, formats.iblinkinfo])
def test_rails_of_a_fabric(imported, std, writer):
    switches = [*(f"leaf{at}" for at in range(4)), "spine0", "spine1"]
    cables = [(leaf, spine) for leaf in range(4) for spine in (4, 5)]
    hosts = [(f"node{n}", f"mlx5_{at}", at) for n in range(2) for at in range(4)]
    node = ("nccl", formats.nccl_node(4, switch_links=18, nics=NICS))
    rates = {name: value for name, value in RAIL_RATES.items() if name != "uplink"}
    found, _ = imported(writer(switches, cables, hosts), node=node, definitions=rates)
    assert same(found, std(RAILS.format(2)))


def test_rails_of_blocks_of_slurm(imported, std):
    text = "BlockName=a Nodes=n1\nBlockName=b Nodes=n2\n"
    found, _ = imported(text, gpus_per_node=4, joined_by="nvlink", fabric="rails", definitions=RAIL_RATES)
    assert same(found, std(RAILS.format(1)))


@pytest.mark.parametrize("machine", [RAILS.format(2), "gb200_nvl72()", "fat_tree(4, 100GB/s, 1us)", "dgx_h100(2)"])
def test_routers_of_simgrid(imported, std, machine):
    wanted = std(machine)
    assert links(imported(formats.simgrid(wanted))[0]) == links(wanted)


PAIR = {"directed": False, "multigraph": False, "nodes": [{"id": "a"}, {"id": "b"}]}
AMD = [
    {"gpu": a, "bdf": f"0000:0{a}:00.0", "links": [
        {"gpu": b, "bdf": f"0000:0{b}:00.0", "link_type": "XGMI", "num_hops": 1, "bandwidth": "64000-64000"}
        for b in range(4) if b != a
    ]}
    for a in range(4)
]  # fmt: skip
BLOCKS = "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\n"
TORUS = '- topology: t\n  torus3d: {toruses: [{name: t, dims: {x: 2, y: 2, z: 1}, nodes: "n[1-4]"}]}\n'
SMALL = [
    ("nccl", NODE, {}),
    ("nvidia-smi", SMI, {"gpu": "a100"}),
    ("rocm-smi", formats.rocm_smi(4), {"definitions": {"xgmi": "50GB/s"}}),
    ("amd-smi", json.dumps(AMD), {}),
    ("ibnetdiscover", IB, {"gpus_per_node": 1}),
    ("iblinkinfo", IBLINK, {"gpus_per_node": 1}),
    ("slurm", SLURM, {"gpus_per_node": 1, "definitions": {"nic": "50GB/s"}}),
    ("slurm", BLOCKS, {"gpus_per_node": 1, "definitions": RATES, "joined_by": "nvlink", "fabric": "rails"}),
    ("slurm", "RingName=r Nodes=n[1-4]\n", {"gpus_per_node": 1, "definitions": {"nic": "50GB/s"}}),
    ("slurm", TORUS, {"gpus_per_node": 1, "definitions": {"nic": "50GB/s"}}),
    ("astra", ASTRA, {}),
    ("networkx", json.dumps(PAIR | {"links": [{"source": "a", "target": "b", "bw": 5}]}),
     {"npu": "all", "capacity": "bw=GB/s"}),
    ("taccl", TACCL, {"chunk": 10**6}),
    ("sccl", json.dumps({"msccl_type": "topology", "name": "b", "links": [[0, 1], [1, 0]], "switches": []}),
     {"definitions": {"link": "25GB/s"}}),
    ("simgrid", SIMGRID, {}),
]  # fmt: skip


def test_each_kind_has_a_small_file_and_a_place_in_the_manual():
    assert {kind for kind, _, _ in SMALL} == {
        kind.name for kind in import_kinds().values() if kind.describes != "model"
    }
    page = (Path(__file__).parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")
    rows = [f"| `{kind.name}` | {kind.file} | {kind.contains} | {kind.options} |" for kind in import_kinds().values()]
    shown = [row for row in page.splitlines() if row.startswith("| `")]
    assert shown[: len(rows)] == [re.sub("'(.*?)'", r"`\1`", row).replace("|  |", "| |") for row in rows]


def test_the_help_lists_all_kinds(capsys):
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    text = "".join(capsys.readouterr().out.split())
    shown = [f"{kind.name}({kind.file})".replace("'", "").replace(" ", "") for kind in import_kinds().values()]
    assert [one for one in shown if one not in text] == []


@pytest.mark.parametrize(("kind", "text"), [row[:2] for row in SMALL], ids=[row[0] for row in SMALL])
def test_the_content_tells_the_kind(kind, text):
    assert kind_of(SourceFile("f", text)) == kind


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("kind", "text", "settings"), SMALL, ids=[f"{at}-{row[0]}" for at, row in enumerate(SMALL)])
def test_a_verified_schedule_from_each_kind(imported, kind, text, settings):
    found, program = imported(text, kind=kind, **settings)
    run = "schedule s on pod { run all_gather(pod.npus, size: 1MiB) }"
    report = compile_text(f"import std.collectives\n{program}\n{run}\n").schedules[0]
    assert report.npus == found.npu_count
    assert report.time_ps is not None
    assert report.bound_ps is not None
    assert report.time_ps >= report.bound_ps > 0
    assert verify(report).ok
