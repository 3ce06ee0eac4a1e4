"""Networks and demands of the benchmarks, beside those of tests/support.py."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.network import LinkKind, Network
from tests.support import GiB, MiB, network

HALF = Fraction(1, 2)


def two_switches(first: int, second: int) -> Network:
    """switched(first) * switched(second): links of 300 and 25 GiB/s, 0.25 us."""
    fast, slow = (LinkKind(250_000, Fraction(rate * GiB)) for rate in (300, 25))
    n = first * second
    links: list[tuple[int, int, LinkKind]] = []
    for npu in range(n):
        for switch, kind in ((n + npu // first, fast), (n + second + npu % first, slow)):
            links += [(npu, switch, kind), (switch, npu, kind)]
    return network(n, links, switches=first + second)


def all_gather_demand(npus: int, chunks: int = 1, size: int = MiB) -> Demand:
    """An All-Gather as arrays, for networks of tens of thousands of NPUs."""
    ids = np.arange(npus, dtype=np.int32)
    count = npus * chunks
    owner = np.repeat(ids, chunks)
    index = np.stack([owner, np.tile(np.arange(chunks, dtype=np.int32), npus)], axis=1)
    sets = HolderSets(np.append(np.arange(npus + 1), 2 * npus).astype(np.int64), np.tile(ids, 2))
    table = ChunkTable(
        np.full(count, size), owner, np.full(count, npus, np.int32), np.zeros(count, np.int8),
        np.zeros(count, np.int32), index, (ChunkFamily("x", 2),), sets,
    )  # fmt: skip
    return Demand((Run("all_gather", ids, table, Standard("all_gather", size * count, chunks)),))


def all_reduce_demand(npus: int, size: int = MiB) -> Demand:
    """An All-Reduce as arrays, one chunk an NPU."""
    ids = np.arange(npus, dtype=np.int32)
    none, sets = np.zeros(npus, np.int32), HolderSets(np.array([0, npus], np.int64), ids)
    table = ChunkTable(
        np.full(npus, size), none, none, np.ones(npus, np.int8), none, np.stack([ids, none], axis=1),
        (ChunkFamily("x", 2),), sets,
    )  # fmt: skip
    return Demand((Run("all_reduce", ids, table, Standard("all_reduce", size * npus, 1, -1, Op.SUM)),))


def all_to_all_demand(npus: int, size: int = MiB) -> Demand:
    """An All-to-All as arrays, one chunk a pair."""
    ids = np.arange(npus, dtype=np.int32)
    count = npus * npus
    source, target = np.repeat(ids, npus), np.tile(ids, npus)
    table = ChunkTable(
        np.full(count, size), source, target, np.zeros(count, np.int8), np.zeros(count, np.int32),
        np.stack([source, target, np.zeros(count, np.int32)], axis=1), (ChunkFamily("x", 3),),
        HolderSets(np.arange(npus + 1, dtype=np.int64), ids),
    )  # fmt: skip
    return Demand((Run("all_to_all", ids, table, Standard("all_to_all", size * npus, 1)),))


def mixed_all_to_all_demand(npus: int) -> Demand:
    """An All-to-All whose chunks have 0.5, 1 or 2 MiB, by turns."""
    (run,) = all_to_all_demand(npus).runs
    sizes = (1 << 19) << (np.arange(npus * npus) % 3)
    table = replace(run.pattern.expand(), size=sizes)
    return Demand((Run("custom", run.group, table),))


def program_of(network: str, kind: str, size: int, chunks: int, synthesizer: str) -> str:
    """The text of a program with one run over all NPUs; its size in bytes is rounded down to what chunks divide."""
    parts = f"len(t.npus) * {chunks}"
    lines = (
        "import std.clusters",
        "import std.topologies",
        "import std.collectives",
        f"topology t = {network}",
        "schedule s on t {",
        f"    run {kind}(t.npus, size: {parts} * ({size}B // ({parts})), chunks: {chunks})",
        f"    synthesize {synthesizer}",
        "}",
    )
    return "\n".join(lines)
