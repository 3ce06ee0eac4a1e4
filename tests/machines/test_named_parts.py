"""Imported machines name their NICs and nodes: `failures any nic` works, and `collc fallback` takes these names."""

from __future__ import annotations

import json

import pytest

import collc
from collc.application.fallbacks.finding import find_fallbacks
from collc.base.diagnostics import SourceFile, UsageError
from collc.source.elaboration.elaborate import load_program
from tests.machines import formats

NODES = 2
HOSTS = [(f"host{n}", f"mlx5_{at}", at) for n in range(NODES) for at in range(2)]
RATES = {"nvlink": "450GB/s", "nic": "50GB/s", "uplink": "50GB/s"}
RUN = "run all_gather(pod.npus, size: 60MiB)"


def fabric(hosts=HOSTS) -> str:
    return formats.ibnetdiscover(["leaf0", "leaf1", "spine"], [(0, 2), (1, 2)], hosts)


def node(gpus: int = 2) -> tuple[str, str]:
    return "nccl", formats.nccl_node(gpus, switch_links=18, nics=[(f"mlx5_{at}", 400_000) for at in range(gpus)])


def parts_of(program: str, failures: str) -> dict[str, tuple[str, int]]:
    """For each part its label and how many links it has itself."""
    text = f"{program}\nimport std.collectives\nschedule s on pod {{ {RUN} failures {failures} }}"
    (request,) = load_program(SourceFile("p", text)).schedules
    assert request.failures is not None
    return {part.name: (part.label, len(part.links)) for part in request.failures.parts}


def test_nics_have_the_names_of_the_machine(imported) -> None:
    _, program = imported(fabric(), node=node(), definitions=RATES)
    assert "part nic[n in 0..2, i in 0..2]" in program
    assert parts_of(program, "any nic") == {
        f"nic[{n}, {i}]": (f"host{n}/mlx5_{i}", 2) for n in range(NODES) for i in range(2)
    }
    _, program = imported(fabric(), node=node(), definitions=RATES, addresses=True)
    labels = [label for label, _ in parts_of(program, "any nic").values()]
    assert labels[3] == f"host1/mlx5_1|0001:01:00.0|{formats.guid(7)}"


def test_unlike_nodes_are_parts_of_one_name(imported) -> None:
    two = [*HOSTS, ("more0", "mlx5_0", 0)]
    one = formats.nccl_node(1, switch_links=18, nics=[("mlx5_0", 400_000)])
    hosts = [*(formats.nccl_node(2, switch_links=18, nics=[(f"mlx5_{k}", 400_000) for k in range(2)]),) * 2, one]
    _, program = imported(*hosts, fabric=("ibnetdiscover", fabric(two)), definitions=RATES)
    found = parts_of(program, "any 1 of (nics, nodes)")
    assert [name for name in found if name.startswith("nic")] == [
        "nic[0, 0]", "nic[0, 1]", "nic[1, 0]", "nic[1, 1]", "nic[2, 0]",
    ]  # fmt: skip
    assert found["nic[2, 0]"] == ("more0/mlx5_0", 2)
    assert {"node[0]", "node[1]", "node[2]"} <= {*found}


def test_failures_are_found_by_the_names_of_the_machine(imported, tmp_path) -> None:
    _, program = imported(fabric(), node=node(), definitions=RATES, addresses=True)
    text = (
        f"{program}\nimport std.collectives\nschedule s on pod {{ {RUN} failures any 1 of (nics, nodes, gpus, leaf) }}"
    )
    collc.compile(text, output=tmp_path / "out", synthesizer="pccl")
    index = tmp_path / "out" / "fallbacks.json"
    own = formats.guid(7)
    for name in (
        "nic[1, 1]", "host1/mlx5_1", "host1/0001:01:00.0", "host1/00000001:01:00.0", own, own.upper(), f"0x{own}",
        f"{own[:4]}:{own[4:8]}:{own[8:12]}:{own[12:]}",
    ):  # fmt: skip
        (found,) = find_fallbacks(index, [name], None, None, None).fallbacks
        assert found.plan == "s-without-nic-0-0", name
        assert found.ranks == find_fallbacks(index, ["nic[1, 1]"], None, None, None).fallbacks[0].ranks
    for name, plan in (("host1", "node-0"), ("leaf1", "leaf-0"), ("host0/0000:10:00.0", "node-0-gpu-0")):
        assert find_fallbacks(index, [name], None, None, None).fallbacks[0].plan == f"s-without-{plan}"
    for name in ("mlx5_1", "0001:01:00.0"):  # both hosts have it
        with pytest.raises(UsageError, match="has no plan"):
            find_fallbacks(index, [name], None, None, None)
    status = {"rank": 3, "host": "10.0.0.1", "nvml_dev": 1, "status": {"unresponsive": True, "considered_dead": False}}
    (tmp_path / "ras.json").write_text(json.dumps({"communicators": [{"size": 4, "missing_ranks": [status]}]}))
    assert find_fallbacks(index, [], tmp_path / "ras.json", None, None).dead == ("node[1].gpu[1]",)
    event = {"event": "PEER_DEAD", "peer": {"host": "host0", "nvml_devs": [0, 1]}}
    (tmp_path / "ras.json").write_text(json.dumps(event))
    report = find_fallbacks(index, [], tmp_path / "ras.json", None, None)
    assert report.fallbacks[0].plan == "s-without-node-0"
