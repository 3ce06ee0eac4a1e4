"""Programs on which `auto` has failed once, and programs near them: `python -m benchmarks auto --paper` and the like.

Each set is a table of names, networks, runs and link models. Their numbers begin at NAMED.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from benchmarks.large_programs import MI250
from benchmarks.random_programs import Program, Run

NAMED: Final = 300_000
"""The number of the first program; each set begins at a multiple of SET."""

SET: Final = 1_000

LINK: Final = "bandwidth: 50GB/s, latency: 0.5us"
MESHES: Final = {side: f"mesh2d({side}, {side}, {LINK})" for side in (8, 16, 32, 64)}
TORUS: Final = f"torus3d(10, 10, 10, {LINK})"
UNEVEN: Final = """topology t {
    npu gpu[20]
    switch node[3]
    switch rail[8]
    for g in 0..8 { link gpu[g] <-> node[0] (bandwidth: 450GB/s, latency: 0.35us) }
    for g in 8..16 { link gpu[g] <-> node[1] (bandwidth: 450GB/s, latency: 0.35us) }
    for g in 16..20 { link gpu[g] <-> node[2] (bandwidth: 450GB/s, latency: 0.35us) }
    for g in 0..20 { link gpu[g] <-> rail[g % 8] (bandwidth: 50GB/s, latency: 0.7us) }
}"""
MI250_NODE: Final = MI250.replace("npu gpu[4, 16]", "npu gpu[1, 16]").replace("0..4", "0..1")
SWITCHES: Final = """topology t {
    npu n[5]
    switch fast
    switch slow
    for i in 0..5 { link n[i] <-> fast (bandwidth: (1 + i) * 20GB/s, latency: 0.5us) }
    for i in 0..3 { link n[i] <-> slow (bandwidth: 25GB/s, latency: 1us) }
}"""

OVERLAPPING: Final = (
    "reduce_scatter([t[2], t[1]], size: 199982B)",
    "all_gather([t[2], t[4], t[6], t[5], t[8]], size: 15728640B, chunks: 3)",
    "broadcast([t[8], t[6], t[7], t[2], t[0], t[5], t[3]], size: 1048576B, root: 5)",
    "all_to_all([t[7], t[3], t[1], t[0]], size: 12B, chunks: 3)",
)
"""Four runs over groups that share NPUs."""


def tensor_parallel(nodes: int) -> tuple[str, ...]:
    return tuple(f"all_reduce(t.gpu[{node}, *], size: 64MiB)" for node in range(nodes))


def data_parallel() -> tuple[str, ...]:
    return tuple(f"all_reduce(t.gpu[*, {rail}], size: 64MiB)" for rail in range(8))


def pipeline_pairs(nodes: int) -> tuple[str, ...]:
    """From every second node to the next one."""
    pairs = [(node, gpu) for node in range(0, nodes, 2) for gpu in range(8)]
    return tuple(f"broadcast([t.gpu[{node}, {gpu}], t.gpu[{node + 1}, {gpu}]], size: 64MiB)" for node, gpu in pairs)


Row = tuple[str, str, tuple[str, ...], str]
"""Name, network, runs without `run`, link model. A network is a call, or the whole text of a topology `t`."""


def _one(name: str, network: str, collective: str, size: str, model: str = "pipelined", chunks: int = 1) -> Row:
    return name, network, (f"{collective}(t.npus, size: {size}, chunks: {chunks})",), model


def _paper() -> list[Row]:
    rows = [_one(f"all_gather mesh {side}", MESHES[side], "all_gather", "1GiB", "store") for side in (8, 16, 32, 64)]
    rows += [_one(f"all_reduce mesh {side}", MESHES[side], "all_reduce", "1GiB", "store") for side in (8, 16, 32)]
    rows += [_one(f"all_to_all mesh {side}", MESHES[side], "all_to_all", "1GiB", "store") for side in (8, 16, 32)]
    rows += [_one(f"{kind} torus 10^3", TORUS, kind, "1000MiB", "store") for kind in COLLECTIVES]
    rows += [_one(f"{kind} hypercube 256", f"hypercube(8, {LINK})", kind, "1GiB", "store") for kind in COLLECTIVES]
    return rows


COLLECTIVES: Final = ("all_gather", "all_reduce", "all_to_all")
CLUSTERS: Final = ("dgx_h100(6)", "dgx_h100(16)", "dgx_h100(128)", "dgx_a100(8)", "fat_tree(8, 50GB/s, 0.5us)")


def _clusters() -> list[Row]:
    rows = [
        _one(f"broadcast {network}", network, "broadcast", "1GiB", chunks=256)
        for network in ("dgx_h100(6)", "dgx_a100(8)", "dgx_h100(16)")
    ]
    rows += [_one(f"{kind} {network[:13]}", network, kind, "960MiB") for network in CLUSTERS for kind in COLLECTIVES]
    rows += [
        _one(f"{kind} MI250 x4", MI250, kind, "64MiB", chunks=4) for kind in ("all_gather", "all_reduce", "broadcast")
    ]
    return rows


def _groups() -> list[Row]:
    rows: list[Row] = []
    for nodes in (4, 16, 128, 1024):
        network, gpus = f"dgx_h100({nodes})", 8 * nodes
        rows += [
            (f"TP {gpus} GPUs", network, tensor_parallel(nodes), "pipelined"),
            (f"DP {gpus} GPUs", network, data_parallel(), "pipelined"),
            (f"TP + DP {gpus} GPUs", network, (*tensor_parallel(nodes), *data_parallel()), "pipelined"),
        ]
    rows += [
        ("pairs 32 GPUs", "dgx_h100(4)", pipeline_pairs(4), "pipelined"),
        ("pairs + DP 32 GPUs", "dgx_h100(4)", (*pipeline_pairs(4), *data_parallel()), "pipelined"),
        ("four overlapping", "torus3d(3, 3, 1, bandwidth: 300GB/s, latency: 0.3us)", OVERLAPPING, "store"),
        ("half of 64 GPUs", "dgx_h100(8)", ("all_reduce(t.gpu[0..4, *], size: 1GiB)",), "pipelined"),
    ]
    return rows


LOST: Final = {
    "mesh 8, a link": (f"mesh2d(8, 8, {LINK}) without {{ link 0 <-> 1 }}", 64),
    "torus 8, an NPU": (f"torus2d(8, 8, {LINK}) without {{ npu 9 }}", 63),
    "torus 10^3, an NPU": (f"{TORUS} without {{ npu 555 }}", 999),
    "torus 10^3, a link": (f"{TORUS} without {{ link 0 <-> 1 }}", 1000),
    "dgx_h100(16), a NIC": ("dgx_h100(16) without { link gpu[0, 0] <-> leaf[0] }", 128),
    "dgx_h100(16), a GPU": ("dgx_h100(16) without { npu gpu[0, 0] }", 127),
    "dgx_h100(128), a NIC": ("dgx_h100(128) without { link gpu[0, 0] <-> leaf[0] }", 1024),
}
"""Networks and their NPUs; the buffer of each collective has 1 MiB for each."""


def _failures() -> list[Row]:
    return [
        _one(f"{kind} {name}", network, kind, f"{npus}MiB", "store" if LINK in network else "pipelined")
        for name, (network, npus) in LOST.items()
        for kind in COLLECTIVES
    ]


def _small() -> list[Row]:
    rows = [
        _one(
            "dragonfly 4 x 5", "dragonfly(4, 5, local: 50GB/s, global: 50GB/s, latency: 0.5us)", "all_reduce", "1280B"
        ),
        _one("dgx_h100(6), a NIC", "dgx_h100(6) without { link gpu[0, 0] <-> leaf[0] }", "all_reduce", "1536B"),
        _one("nodes of 8, 8, 4", UNEVEN, "all_reduce", "1280B"),
        _one("MI250 node", MI250_NODE, "all_reduce", "1KiB"),
        _one("torus 4, an NPU", f"torus2d(4, 4, {LINK}) without {{ npu 5 }}", "all_reduce", "960B"),
        _one("mesh 4, a link", f"mesh2d(4, 4, {LINK}) without {{ link 0 <-> 1 }}", "all_reduce", "1KiB"),
        ("group of 48", "dgx_h100(8)", ("all_reduce(t.gpu[0..6, *], size: 1536B)",), "pipelined"),
        _one("unequal switches", SWITCHES, "all_reduce", "40MiB", chunks=4),
    ]
    for kind in ("all_gather", "all_reduce", "all_to_all"):
        rows += [
            _one(f"{kind} mesh 8", MESHES[8], kind, "4KiB"),
            _one(f"{kind} torus 8", f"torus2d(8, 8, {LINK})", kind, "4KiB"),
            _one(f"{kind} dgx_h100(8)", "dgx_h100(8)", kind, "4KiB"),
        ]
    return rows


SETS: Final = {"paper": _paper, "clusters": _clusters, "groups": _groups, "failures": _failures, "small": _small}
"""The rows of each set; their order gives the numbers."""


@cache
def named_programs(name: str) -> dict[int, Program]:
    """The programs of a set by number."""
    first = NAMED + SET * [*SETS].index(name)
    found: dict[int, Program] = {}
    for number, (kind, network, runs, model) in enumerate(SETS[name](), first):
        topology = network if network.startswith("topology") else f"topology t = {network}"
        found[number] = Program(kind, name, topology, tuple(Run(run.partition("(")[0], run) for run in runs), model)
    return found
