"""The programs of the campaign: every topology of the standard library, every collective, and options of files.

Case k is drawn from its number alone. Topologies and collectives take turns, so that all pairs occur.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

LINK = "bandwidth: 50GB/s, latency: 0.5us"

TOPOLOGIES: dict[str, int] = {
    f"ring(5, {LINK})": 5,
    f"ring(4, {LINK}, one_way: true)": 4,
    f"line(4, {LINK})": 4,
    f"fully_connected(6, {LINK})": 6,
    f"switched(6, {LINK})": 6,
    f"mesh2d(3, 3, {LINK})": 9,
    f"torus2d(4, 3, {LINK})": 12,
    f"mesh3d(2, 2, 2, {LINK})": 8,
    f"torus3d(3, 2, 2, {LINK})": 12,
    f"hypercube(3, {LINK})": 8,
    "dragonfly(3, 3, local: 50GB/s, global: 25GB/s, latency: 0.5us)": 9,
    f"fat_tree(4, {LINK})": 16,
    "leaf_spine(2, 4, 2, bandwidth: 50GB/s, uplink: 100GB/s, latency: 0.5us)": 8,
    "rail_only(2, 4, local: 300GB/s, rail: 50GB/s, local_latency: 0.35us, rail_latency: 0.85us)": 8,
    "rail_optimized(2, 3, local: 300GB/s, rail: 50GB/s, local_latency: 0.35us, rail_latency: 0.85us)": 6,
    "dgx1()": 8,
    "dgx_a100(2)": 16,
    "dgx_h100(1)": 8,
    "dgx_h100(2)": 16,
    "mi300x_node()": 8,
    "tpu_v4_slice(2, 2, 2)": 8,
    "tpu_v5p_slice(3, 2, 1)": 6,
    "gb200_nvl72()": 72,
}
"""Topology -> number of its NPUs."""

NVLS = """
topology nvls_node(size: int = 4) {
    npu gpu[size]
    switch nvswitch (multicast: true, reduce: true)
    for i in 0..size { link gpu[i] <-> nvswitch (bandwidth: 450GB/s, latency: 0.35us) }
}
topology nvls_nodes(count: int = 2, size: int = 4) {
    npu gpu[count, size]
    switch nvswitch[count] (multicast: true, reduce: true)
    switch rail[size]
    for n in 0..count, i in 0..size {
        link gpu[n, i] <-> nvswitch[n] (bandwidth: 450GB/s, latency: 0.35us)
        link gpu[n, i] <-> rail[i] (bandwidth: 50GB/s, latency: 2us)
    }
}
"""
"""Switches that add and multicast, in one node or several."""

NODES: dict[str, tuple[int, int]] = {
    "nvls_node(size: 4)": (1, 4),
    "nvls_node(size: 8)": (1, 8),
    "nvls_nodes(2, 4)": (2, 4),
    "nvls_nodes(3, 2)": (3, 2),
    "nvls_nodes(2, 8)": (2, 8),
}
"""Topologies of plans alone -> how many nodes, and GPUs of each."""

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
)
ROOTED = ("broadcast", "reduce", "gather", "scatter")
SWITCHES = ("switched", "fat_tree", "leaf_spine", "rail_", "dgx_", "gb200", "nvls_")
LARGE = 32
"""With more NPUs, one chunk and one instance."""


@dataclass(frozen=True)
class Case:
    """text: the program, which writes one file or plan. collective: as files name it. root: -1 if there is none."""

    number: int
    text: str
    plan: bool
    profile: str
    root: int
    collective: str
    name: str


def case(number: int, *, plan: bool) -> Case:
    draw = random.Random(f"{number} {plan}")
    sizes = TOPOLOGIES | {name: nodes * gpus for name, (nodes, gpus) in NODES.items() if plan}
    topologies = list(sizes)
    topology = topologies[number % len(topologies)]
    collective = COLLECTIVES[(number % len(topologies) + number // len(topologies)) % len(COLLECTIVES)]
    npus = sizes[topology]
    members = _members(draw, npus)
    chunks = draw.choice((1, 1, 2, 3, 4)) if npus <= LARGE else 1
    root = draw.randrange(len(members)) if collective in ROOTED else -1
    options = _plan_options(draw, topology, len(members)) if plan else _file_options(draw)
    if npus > LARGE:
        options.pop("instances", None)
    size = f"{len(members) * chunks * draw.choice((1, 64, 1024))}KiB"
    arguments = f"g, size: {size}, chunks: {chunks}" + (f", root: {root}" if root >= 0 else "")
    emitted = ", ".join(
        ['"plan.json"' if plan else '"file.xml"', *(f"{name}: {value}" for name, value in options.items())]
    )
    direct = not topology.startswith(SWITCHES) and draw.random() < 0.3
    synthesize = "    synthesize tacos(seed: 1)\n" if direct else ""
    text = (
        "import std.topologies\nimport std.clusters\nimport std.collectives\n"
        f"{NVLS if topology in NODES else ''}\ntopology t = {topology}\n"
        f"group g = [{', '.join(f't[{k}]' for k in members)}]\n\n"
        f"schedule s on t {{\n    run {collective}({arguments})\n{synthesize}"
        f"    emit {'mscclpp' if plan else 'msccl'}({emitted})\n}}\n"
    )
    profile = options.get("profile", '"executor"').strip('"')
    shown = f"{topology.split('(')[0]} {npus} {collective} x{chunks} of {len(members)}: {emitted}"
    return Case(number, text, plan, profile, root, collective.replace("_", ""), shown)


def _members(draw: random.Random, npus: int) -> list[int]:
    """All NPUs in order, mostly; or in another order; or some of them."""
    members = [*range(npus)]
    kind = draw.random()
    if kind > 0.7:
        draw.shuffle(members)
    return members[: max(2, npus // 2)] if kind > 0.9 else members


def _file_options(draw: random.Random) -> dict[str, str]:
    options = {
        "protocol": draw.choice(('"Simple"', '"LL"', '"LL128"')),
        "instances": draw.choice(("1", "1", "2", "3")),
        "profile": draw.choice(('"executor"', '"executor"', '"old"', '"rccl"')),
    }
    if draw.random() < 0.3:
        options["placement"] = draw.choice(('"in"', '"out"', '"both"'))
    if draw.random() < 0.3:
        options["sizes"] = draw.choice(("1KiB .. 1MiB", "1MiB .. 64MiB", "0B .. 256KiB", "64MiB .. 4GiB"))
    return options


def _plan_options(draw: random.Random, topology: str, members: int) -> dict[str, str]:
    options = {"instances": draw.choice(("1", "1", "2", "3")), "protocol": draw.choice(('"Simple"', '"LL"'))}
    if draw.random() < 0.5:
        options["placement"] = draw.choice(('"in"', '"out"'))
    nodes, gpus = NODES.get(topology, (0, 0))
    if nodes > 1 and members == nodes * gpus and draw.random() < 0.7:
        options["gpus_per_node"] = str(gpus)
    elif draw.random() < 0.5:
        options["gpus_per_node"] = str(draw.choice([size for size in (1, 2, 4, 8) if members % size == 0]))
    return options
