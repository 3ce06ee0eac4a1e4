"""Runs of standard collectives, chunk by chunk as stdlib/collectives.coll says."""

from __future__ import annotations

import numpy as np

from collc.ten.demand import ChunkFamily, ChunkTable, HolderSets, Op, Run, Standard

REDUCING = {"reduce_scatter", "all_reduce", "reduce"}
ROOTED = {"broadcast", "reduce", "scatter", "gather", "send_recv", "multicast"}
KINDS = [*sorted({"all_gather", "all_to_all", "all_to_allv"} | REDUCING | ROOTED)]


def standard_run(kind: str, group: list[int], chunks: int, root: int, op: Op, chunk_size: int) -> Run:
    """A run of a collective; chunk_size: bytes of a chunk (of all_to_allv, of its smallest)."""
    n = len(group)
    at_root = [group[root]]
    rows: list[tuple[list[int], int, list[int], list[int]]] = []
    if kind in ("all_to_all", "all_to_allv"):
        chunks = 1 if kind == "all_to_allv" else chunks
        for i in range(n):
            for j in range(n):
                size = chunk_size + (i if kind == "all_to_allv" else 0)
                rows += [([i, j, c], size, [group[i]], [group[j]]) for c in range(chunks)]
    elif kind in ("broadcast", "reduce", "send_recv", "multicast"):
        pre = group if kind == "reduce" else at_root
        post = {"broadcast": group, "reduce": at_root, "send_recv": [group[-1]], "multicast": group[1:]}[kind]
        rows = [([c], chunk_size, pre, post) for c in range(chunks)]
    else:
        ends = {
            "all_gather": lambda i: ([group[i]], group),
            "reduce_scatter": lambda i: (group, [group[i]]),
            "all_reduce": lambda _i: (group, group),
            "scatter": lambda i: (at_root, [group[i]]),
            "gather": lambda i: ([group[i]], at_root),
        }[kind]
        rows = [([i, c], chunk_size, *ends(i)) for i in range(n) for c in range(chunks)]
    totals: dict[int, int] = {}
    for index, size, *_ in rows:
        sender = index[0] if kind.startswith("all_to_all") else 0
        totals[sender] = totals.get(sender, 0) + size
    op = op if kind in REDUCING else Op.COPY
    standard = Standard(kind, max(totals.values()), chunks, root if kind in ROOTED else -1, op)
    sets = HolderSets.of([side for *_, pre, post in rows for side in (pre, post)])
    count, width = len(rows), len(rows[0][0])
    numbers = np.arange(2 * count, dtype=np.int32)
    table = ChunkTable(
        size=np.array([row[1] for row in rows], np.int64),
        pre=numbers[::2],
        post=numbers[1::2],
        op=np.full(count, int(op), np.int8),
        family=np.zeros(count, np.int32),
        index=np.array([row[0] for row in rows], np.int32),
        families=(ChunkFamily("x", width),),
        sets=sets,
    )
    return Run(kind, np.array(group, np.int32), table, standard)
