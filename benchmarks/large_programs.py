"""Programs on the networks of machines and clusters with 64 to 256 NPUs: All-Gather, All-Reduce, All-to-All and
broadcast, of 64 MiB with 4 chunks and of 1 MiB with one. Their numbers begin at LARGE.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Final

from benchmarks.random_programs import Program, Run

LARGE: Final = 200_000
"""The number of the first program."""

MI250_LANES: Final = (
    "[0,4,0,0,2,0,0,0,1,0,0,0,0,0,0,0],[4,0,0,0,0,1,0,0,0,1,1,0,0,0,0,0],[0,0,0,4,0,0,1,0,0,1,1,0,0,0,0,0],"
    "[0,0,4,0,0,0,0,2,0,0,0,1,0,0,0,0],[2,0,0,0,0,4,1,0,0,0,0,0,0,0,0,0],[0,1,0,0,4,0,1,1,0,0,0,0,0,0,0,0],"
    "[0,0,1,0,1,1,0,4,0,0,0,0,0,0,0,0],[0,0,0,2,0,1,4,0,0,0,0,0,0,0,0,0],[1,0,0,0,0,0,0,0,0,4,0,0,2,0,0,0],"
    "[0,1,1,0,0,0,0,0,4,0,0,0,0,1,0,0],[0,1,1,0,0,0,0,0,0,0,0,4,0,0,1,0],[0,0,0,1,0,0,0,0,0,0,4,0,0,0,0,2],"
    "[0,0,0,0,0,0,0,0,2,0,0,0,0,4,1,0],[0,0,0,0,0,0,0,0,0,1,0,0,4,0,1,1],[0,0,0,0,0,0,0,0,0,0,1,0,1,1,0,4],"
    "[0,0,0,0,0,0,0,0,0,0,0,2,0,1,4,0]"
)
"""Lanes of 50 GB/s between the 16 dies of a node of MI250, as AMD publishes them."""

MI250: Final = f"""topology t {{
    npu gpu[4, 16]
    switch ib
    let m = [{MI250_LANES}]
    for a in 0..4, b in 0..16, c in 0..16 if m[b][c] > 0 {{
        link gpu[a, b] -> gpu[a, c] (bandwidth: m[b][c] * 50GB/s, latency: 0.7us)
    }}
    for a in 0..4, b in 0..16 {{ link gpu[a, b] <-> ib (bandwidth: 16GB/s, latency: 1us) }}
}}"""


def _rails(nodes: int, buffer: int) -> str:
    """Nodes of eight NPUs on a switch each, and rails, with limited buffers."""
    return f"""topology t {{
    npu n[{nodes}, 8]
    switch node[{nodes}] (buffer: {buffer})
    switch rail[8] (buffer: {buffer})
    for a in 0..{nodes}, i in 0..8 {{ link n[a, i] <-> node[a] (bandwidth: 300GB/s, latency: 0.35us) }}
    for a in 0..{nodes}, i in 0..8 {{ link n[a, i] <-> rail[i] (bandwidth: 50GB/s, latency: 1us) }}
}}"""


LINK: Final = "bandwidth: 50GB/s, latency: 1us"
RATES: Final = "local: 450GB/s, rail: 50GB/s, local_latency: 0.35us, rail_latency: 0.85us"
LEAVES: Final = "bandwidth: 50GB/s, uplink: 50GB/s, latency: 0.5us"

NETWORKS: Final[tuple[tuple[str, str, int], ...]] = (
    ("dgx_h100 8 x 8", "topology t = dgx_h100(8)", 64),
    ("rail_optimized 8 x 8", f"topology t = rail_optimized(8, 8, {RATES}, spines: 2)", 64),
    ("rail_only 8 x 8", f"topology t = rail_only(8, 8, {RATES})", 64),
    ("leaf_spine 8 x 8, 2", f"topology t = leaf_spine(8, 8, 2, {LEAVES})", 64),
    ("torus2d 8 x 8", f"topology t = torus2d(8, 8, {LINK})", 64),
    ("torus3d 4 x 4 x 4", f"topology t = torus3d(4, 4, 4, {LINK})", 64),
    ("mesh2d 8 x 8", f"topology t = mesh2d(8, 8, {LINK})", 64),
    ("MI250 4 x 16", MI250, 64),
    ("rails, buffers, 64", _rails(8, 16), 64),
    ("gb200_nvl72", "topology t = gb200_nvl72()", 72),
    ("dgx_h100 16 x 8", "topology t = dgx_h100(16)", 128),
    ("fat_tree 8", f"topology t = fat_tree(8, {LINK})", 128),
    ("torus3d 8 x 4 x 4", f"topology t = torus3d(8, 4, 4, {LINK})", 128),
    ("rails, buffers, 128", _rails(16, 16), 128),
    ("torus2d 16 x 16", f"topology t = torus2d(16, 16, {LINK})", 256),
    ("mesh2d 16 x 16", f"topology t = mesh2d(16, 16, {LINK})", 256),
    ("rail_optimized 32 x 8", f"topology t = rail_optimized(32, 8, {RATES}, spines: 2)", 256),
    ("leaf_spine 16 x 16, 4", f"topology t = leaf_spine(16, 16, 4, {LEAVES})", 256),
)
"""Name, network, NPUs."""

COLLECTIVES: Final = ("all_gather", "all_reduce", "all_to_all", "broadcast")
VARIANTS: Final = ((1 << 20, 4), (1 << 14, 1))
"""Bytes for each of 64 NPUs, and chunks."""


@cache
def large_programs() -> dict[int, Program]:
    """By number; both link models take turns."""
    found: dict[int, Program] = {}
    every = itertools.product(enumerate(NETWORKS), enumerate(VARIANTS), enumerate(COLLECTIVES))
    for number, ((place, network), (variant, (block, chunks)), (kind, collective)) in enumerate(every, LARGE):
        name, topology, npus = network
        blocks = 72 if npus == 72 else 64
        run = Run(collective, f"{collective}(t.npus, size: {block * blocks}B, chunks: {chunks})")
        model = ("store", "pipelined")[(place + variant + kind) % 2]
        found[number] = Program(name, "up to 72 NPUs" if npus <= 72 else "128 to 256", topology, (run,), model)
    return found
