"""Networks and demands for tests, built without the language, as a second opinion on the standard library."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.network import DeviceFamily, LinkKind, Network

GiB = 2**30
MiB = 2**20
DEFAULT = LinkKind(500_000, Fraction(50 * GiB))

DGX1_LANES = [
    [0, 2, 1, 1, 2, 0, 0, 0],
    [2, 0, 1, 2, 0, 1, 0, 0],
    [1, 1, 0, 2, 0, 0, 2, 0],
    [1, 2, 2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2, 1, 1],
    [0, 1, 0, 0, 2, 0, 1, 2],
    [0, 0, 2, 0, 1, 1, 0, 2],
    [0, 0, 0, 1, 1, 2, 2, 0],
]


def network(
    npus: int,
    links: Iterable[tuple[int, int] | tuple[int, int, LinkKind]],
    switches: int = 0,
    buffers: list[int] | None = None,
    multicast: bool = False,
    name: str = "net",
    shape: tuple[int, ...] | None = None,
) -> Network:
    """Links are (source, target) or (source, target, kind); switches are numbered after the NPUs."""
    rows = [(link[0], link[1], link[2] if len(link) > 2 else DEFAULT) for link in links]
    kinds = tuple(dict.fromkeys(kind for _, _, kind in rows)) or (DEFAULT,)
    shape = shape or (npus,)
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    families = [DeviceFamily("npu", shape, 0, strides)]
    if switches:
        families.append(DeviceFamily("switch", (switches,), npus, (1,)))
    return Network(
        name=name,
        npu_count=npus,
        families=tuple(families),
        present=np.ones(npus + switches, np.bool_),
        buffers=np.array(buffers if buffers is not None else [-1] * switches, np.int64),
        multicast=np.full(switches, multicast, np.bool_),
        reduces=np.zeros(switches, np.bool_),
        source=np.array([r[0] for r in rows], np.int32),
        target=np.array([r[1] for r in rows], np.int32),
        kind=np.array([kinds.index(r[2]) for r in rows], np.int32),
        kinds=kinds,
    )


def ring(n: int, kind: LinkKind = DEFAULT, one_way: bool = False) -> Network:
    links = []
    for i in range(n):
        links.append((i, (i + 1) % n, kind))
        if not one_way and n > 2:
            links.append(((i + 1) % n, i, kind))
    return network(n, links, name=f"ring{n}")


def grid(*sizes: int, kind: LinkKind = DEFAULT, wrap: bool = False) -> Network:
    """Mesh or torus; the last size counts fastest; `grid(3, 3)` is the 3x3 mesh."""
    count = int(np.prod(sizes))
    ids = np.arange(count).reshape(sizes)
    links = []
    for axis, size in enumerate(sizes):
        ahead = np.moveaxis(ids, axis, 0)
        pairs = [(ahead[k], ahead[k + 1]) for k in range(size - 1)]
        if wrap and size > 2:
            pairs.append((ahead[size - 1], ahead[0]))
        for a, b in pairs:
            for u, v in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
                links += [(u, v, kind), (v, u, kind)]
    return network(count, links, shape=sizes, name="torus" if wrap else "mesh")


def fully_connected(n: int, kind: LinkKind = DEFAULT) -> Network:
    return network(n, [(a, b, kind) for a in range(n) for b in range(n) if a != b], name=f"fc{n}")


def hypercube(dimensions: int, kind: LinkKind = DEFAULT) -> Network:
    n = 2**dimensions
    return network(n, [(a, a ^ (1 << d), kind) for a in range(n) for d in range(dimensions)], name="hypercube")


def switched(n: int, kind: LinkKind = DEFAULT, buffer: int = -1, multicast: bool = False) -> Network:
    links = [pair for i in range(n) for pair in ((i, n, kind), (n, i, kind))]
    return network(n, links, switches=1, buffers=[buffer], multicast=multicast, name=f"switched{n}")


def dgx1() -> Network:
    kind = LinkKind(700_000, Fraction(25 * 10**9))
    links = [(a, b, kind) for a in range(8) for b in range(8) for _ in range(DGX1_LANES[a][b])]
    return network(8, links, name="dgx1")


def dragonfly(groups: int, size: int, local: LinkKind, wide: LinkKind) -> Network:
    links = [
        (g * size + a, g * size + b, local) for g in range(groups) for a in range(size) for b in range(size) if a != b
    ]
    used = [0] * groups
    for a in range(groups):
        for b in range(a + 1, groups):
            u, v = a * size + used[a] % size, b * size + used[b] % size
            used[a] += 1
            used[b] += 1
            links += [(u, v, wide), (v, u, wide)]
    return network(groups * size, links, name="dragonfly")


def demand_of(
    rows: list[tuple[int, list[int], list[int], Op]],
    names: list[tuple[int, ...]] | None = None,
    group: Iterable[int] | None = None,
    collective: str = "custom",
    standard: Standard | None = None,
) -> Demand:
    """Rows are (bytes, precondition holders, postcondition holders, op). group: all holders if it is missing."""
    keys: dict[tuple[int, ...], int] = {}
    pre = [keys.setdefault(tuple(sorted(set(r[1]))), len(keys)) for r in rows]
    post = [keys.setdefault(tuple(sorted(set(r[2]))), len(keys)) for r in rows]
    index = names or [(k,) for k in range(len(rows))]
    width = len(index[0]) if index else 1
    table = ChunkTable(
        size=np.array([r[0] for r in rows], np.int64),
        pre=np.array(pre, np.int32),
        post=np.array(post, np.int32),
        op=np.array([r[3] for r in rows], np.int8),
        family=np.zeros(len(rows), np.int32),
        index=np.array(index, np.int32).reshape(len(rows), width),
        families=(ChunkFamily("x", width),),
        sets=HolderSets.of([list(k) for k in keys]),
    )
    members = sorted({npu for row in rows for npu in (*row[1], *row[2])}) if group is None else list(group)
    return Demand((Run(collective, np.array(members, np.int32), table, standard),))


def all_gather(group: list[int], chunk: int = MiB, chunks: int = 1) -> Demand:
    n = len(group)
    rows = [(chunk, [group[i]], group, Op.COPY) for i in range(n) for _ in range(chunks)]
    names = [(i, c) for i in range(n) for c in range(chunks)]
    return demand_of(rows, names, group, "all_gather", Standard("all_gather", chunk * n * chunks, chunks))


def reduce_scatter(group: list[int], chunk: int = MiB, chunks: int = 1, op: Op = Op.SUM) -> Demand:
    n = len(group)
    rows = [(chunk, group, [group[i]], op) for i in range(n) for _ in range(chunks)]
    names = [(i, c) for i in range(n) for c in range(chunks)]
    return demand_of(
        rows, names, group, "reduce_scatter", Standard("reduce_scatter", chunk * n * chunks, chunks, -1, op)
    )


def all_reduce(group: list[int], chunk: int = MiB, chunks: int = 1, op: Op = Op.SUM) -> Demand:
    n = len(group)
    rows = [(chunk, group, group, op) for _ in range(n) for _ in range(chunks)]
    names = [(i, c) for i in range(n) for c in range(chunks)]
    return demand_of(rows, names, group, "all_reduce", Standard("all_reduce", chunk * n * chunks, chunks, -1, op))


def all_to_all(group: list[int], chunk: int = MiB, chunks: int = 1) -> Demand:
    n = len(group)
    names = [(i, j, c) for i in range(n) for j in range(n) for c in range(chunks)]
    rows = [(chunk, [group[i]], [group[j]], Op.COPY) for i, j, _ in names]
    return demand_of(rows, names, group, "all_to_all", Standard("all_to_all", chunk * n * chunks, chunks))


def broadcast(group: list[int], chunk: int = MiB, chunks: int = 1, root: int = 0) -> Demand:
    rows = [(chunk, [group[root]], group, Op.COPY) for _ in range(chunks)]
    return demand_of(rows, None, group, "broadcast", Standard("broadcast", chunk * chunks, chunks, root))


def reduce(group: list[int], chunk: int = MiB, chunks: int = 1, root: int = 0, op: Op = Op.SUM) -> Demand:
    rows = [(chunk, group, [group[root]], op) for _ in range(chunks)]
    return demand_of(rows, None, group, "reduce", Standard("reduce", chunk * chunks, chunks, root, op))


def scatter(group: list[int], chunk: int = MiB, chunks: int = 1, root: int = 0) -> Demand:
    names = [(i, c) for i in range(len(group)) for c in range(chunks)]
    rows = [(chunk, [group[root]], [group[i]], Op.COPY) for i, _ in names]
    return demand_of(rows, names, group, "scatter", Standard("scatter", chunk * len(names), chunks, root))


def gather(group: list[int], chunk: int = MiB, chunks: int = 1, root: int = 0) -> Demand:
    names = [(i, c) for i in range(len(group)) for c in range(chunks)]
    rows = [(chunk, [group[i]], [group[root]], Op.COPY) for i, _ in names]
    return demand_of(rows, names, group, "gather", Standard("gather", chunk * len(names), chunks, root))
