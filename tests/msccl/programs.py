"""MSCCL programs written by hand for tests, as plain rows, and the text of their files.

Nothing of collc is used here: what a file looks like is said a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STEP = ("s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep")


@dataclass
class Block:
    """A threadblock: its peers and channel, and its steps as dicts of attributes."""

    send: int = -1
    recv: int = -1
    chan: int = 0
    steps: list[dict[str, object]] = field(default_factory=list)

    def add(self, kind, src=("i", 0), dst=("o", 0), cnt=1, dep=(-1, -1), hasdep=0):
        row = (len(self.steps), kind, *src, *dst, cnt, *dep, hasdep)
        self.steps.append(dict(zip(STEP, row, strict=True)))
        return self


@dataclass
class Gpu:
    chunks: tuple[int, int, int]
    tbs: list[Block] = field(default_factory=list)


@dataclass
class File:
    coll: str
    nchunksperloop: int
    gpus: list[Gpu]
    nchannels: int = 1
    proto: str = "Simple"
    inplace: int = 0
    outofplace: int = 1
    min_bytes: int = 0
    max_bytes: int = 0
    name: str = "by hand"

    def algo(self) -> dict[str, object]:
        return {
            "name": self.name,
            "nchunksperloop": self.nchunksperloop,
            "nchannels": self.nchannels,
            "ngpus": len(self.gpus),
            "proto": self.proto,
            "coll": self.coll,
            "minBytes": self.min_bytes,
            "maxBytes": self.max_bytes,
            "inplace": self.inplace,
            "outofplace": self.outofplace,
        }

    def text(self) -> str:
        out = [tag("algo", self.algo())]
        for number, gpu in enumerate(self.gpus):
            i, o, s = gpu.chunks
            out.append("  " + tag("gpu", {"id": number, "i_chunks": i, "o_chunks": o, "s_chunks": s}))
            for identity, tb in enumerate(gpu.tbs):
                out.append("    " + tag("tb", {"id": identity, "send": tb.send, "recv": tb.recv, "chan": tb.chan}))
                out += ["      " + tag("step", step)[:-1] + "/>" for step in tb.steps]
                out.append("    </tb>")
            out.append("  </gpu>")
        return "\n".join([*out, "</algo>", ""])


def tag(name: str, attributes: dict[str, object]) -> str:
    return f"<{name} " + " ".join(f'{key}="{value}"' for key, value in attributes.items()) + ">"


def write(path, file: File | str):
    path.write_text(file if isinstance(file, str) else file.text())
    return path


def ring_all_gather(n: int = 4, both: bool = True) -> File:
    """One threadblock a gpu: a copy of the own chunk (needed out of place), then round the ring."""
    gpus = []
    for rank in range(n):
        tb = Block((rank + 1) % n, (rank - 1) % n)
        copy = Block().add("cpy", ("i", 0), ("o", rank))
        tb.add("s", ("i", 0), ("o", rank))
        for step in range(1, n):
            slot = (rank - step) % n
            tb.add("rcs" if step < n - 1 else "r", ("o", slot), ("o", slot))
        gpus.append(Gpu((1, n, 0), [tb, copy]))
    return File("allgather", n, gpus, inplace=int(both))


def ring_all_reduce(n: int = 4, inplace: bool = True) -> File:
    """As lean as by hand: s, rrs ..., rrcs, rcs ..., r; in place (i = o)."""
    gpus = []
    for rank in range(n):
        tb = Block((rank + 1) % n, (rank - 1) % n)
        tb.add("s", ("i", rank), ("i", rank))
        for step in range(1, n):
            slot = (rank - step) % n
            tb.add("rrs" if step < n - 1 else "rrcs", ("i", slot), ("o", slot))
        for step in range(n - 1):
            slot = (rank - step) % n
            tb.add("rcs" if step < n - 2 else "r", ("o", slot), ("o", slot))
        gpus.append(Gpu((n, n, 0), [tb]))
    return File("allreduce", n, gpus, inplace=int(inplace), outofplace=1)


def ring_reduce_scatter(n: int = 4) -> File:
    """Right in place and out of place: only the last step writes."""
    gpus = []
    for rank in range(n):
        tb = Block((rank + 1) % n, (rank - 1) % n)
        tb.add("s", ("i", (rank - 1) % n), ("i", 0))
        for step in range(2, n + 1):
            slot = (rank - step) % n
            tb.add("rrs" if step < n else "rrc", ("i", slot), ("o", 0))
        gpus.append(Gpu((n, 1, 0), [tb]))
    return File("reducescatter", n, gpus, inplace=1)


def all_to_all(n: int = 4, cnt: int = 1, max_bytes: int = 0) -> File:
    """Everybody to everybody, one threadblock a peer, both ways; cnt chunks for each."""
    gpus = []
    for rank in range(n):
        tbs = []
        for away in range(1, n):
            to, of = (rank + away) % n, (rank - away) % n
            tb = Block(to, of, 0).add("s", ("i", to * cnt), ("o", rank * cnt), cnt)
            tbs.append(tb.add("r", ("i", of * cnt), ("o", of * cnt), cnt))
        tbs.append(Block().add("cpy", ("i", rank * cnt), ("o", rank * cnt), cnt))
        gpus.append(Gpu((n * cnt, n * cnt, 0), tbs))
    return File("alltoall", n * cnt, gpus, max_bytes=max_bytes)


def exchange(cnt: int = 8, **options) -> File:
    """Two peers that both send everything before they receive: hangs at big sizes (section 5)."""
    gpus = []
    for rank in range(2):
        tb = (
            Block(1 - rank, 1 - rank).add("s", ("i", 0), ("o", 0), cnt).add("r", ("o", 0), ("o", (1 - rank) * cnt), cnt)
        )
        gpus.append(Gpu((cnt, 2 * cnt, 0), [tb, Block().add("cpy", ("i", 0), ("o", rank * cnt), cnt)]))
    return File("allgather", 2 * cnt, gpus, **options)


def star_all_gather_by_scratch(n: int = 3) -> File:
    """Rank 0 takes everybody's chunk through one scratch slot and passes it on: dependencies order the slot's reuse.

    Threadblock 0: copy of the own chunk. Threadblock p: from and to peer p; what it receives goes to
    scratch slot 0, is copied to the output by threadblock n, and only then may the next one use it.
    """
    hub = [Block().add("cpy", ("i", 0), ("o", 0), hasdep=1)]
    keeper = Block()
    for peer in range(1, n):
        tb = Block(peer, peer)
        dep = (n, peer - 2) if peer > 1 else (-1, -1)
        tb.add("r", ("i", 0), ("s", 0), dep=dep, hasdep=1)
        keeper.add("cpy", ("s", 0), ("o", peer), dep=(peer, 0), hasdep=1)
        hub.append(tb)
    for peer in range(1, n):
        tb = hub[peer]
        tb.add("nop", ("i", -1), ("o", -1), 0, dep=(0, 0))
        tb.add("s", ("o", 0), ("o", 0), n, dep=(n, n - 2))
    hub.append(keeper)
    gpus = [Gpu((1, n, 1), hub)]
    for _ in range(1, n):
        tb = Block(0, 0).add("s", ("i", 0), ("s", 0)).add("r", ("o", 0), ("o", 0), n)
        gpus.append(Gpu((1, n, 0), [tb]))
    return File("allgather", n, gpus)


def chain_broadcast(n: int = 4, root: int = 1, cnt: int = 2) -> File:
    gpus = []
    for rank in range(n):
        at = (rank - root) % n
        tb = Block((rank + 1) % n if at < n - 1 else -1, (rank - 1) % n if at else -1)
        tbs = [tb]
        if at == 0:
            tb.add("s", ("i", 0), ("o", 0), cnt)
            tbs.append(Block().add("cpy", ("i", 0), ("o", 0), cnt))
        else:
            tb.add("rcs" if at < n - 1 else "r", ("o", 0), ("o", 0), cnt)
        gpus.append(Gpu((cnt, cnt, 0), tbs))
    return File("broadcast", cnt, gpus, inplace=1)


def chain_reduce(n: int = 4, root: int = 2, cnt: int = 2) -> File:
    gpus = []
    for rank in range(n):
        at = (rank - root - 1) % n
        tb = Block((rank + 1) % n if at < n - 1 else -1, (rank - 1) % n if at else -1)
        kind = "s" if at == 0 else "rrs" if at < n - 1 else "rrc"
        gpus.append(Gpu((cnt, cnt, 0), [tb.add(kind, ("i", 0), ("o", 0), cnt)]))
    return File("reduce", cnt, gpus, inplace=1)


def direct_gather(n: int = 4, root: int = 1) -> File:
    gpus = []
    for rank in range(n):
        tbs = [Block(root, -1).add("s", ("i", 0), ("o", rank))]
        if rank == root:
            tbs = [Block(-1, peer).add("r", ("i", 0), ("o", peer)) for peer in range(n) if peer != root]
            tbs.append(Block().add("cpy", ("i", 0), ("o", root)))
        gpus.append(Gpu((1, n if rank == root else 0, 0), tbs))
    return File("gather", 1, gpus, inplace=1)


def direct_scatter(n: int = 4, root: int = 1) -> File:
    gpus = []
    for rank in range(n):
        tbs = [Block(-1, root).add("r", ("i", 0), ("o", 0))]
        if rank == root:
            tbs = [Block(peer, -1).add("s", ("i", peer), ("o", 0)) for peer in range(n) if peer != root]
            tbs.append(Block().add("cpy", ("i", root), ("o", 0)))
        gpus.append(Gpu((n if rank == root else 0, 1, 0), tbs))
    return File("scatter", 1, gpus, inplace=1)


def direct_all_reduce(n: int = 3) -> File:
    """Out of place: chunks to their owner by scratch, `re` of all, back again."""
    gpus = []
    for rank in range(n):
        tbs, adder = [], Block().add("cpy", ("i", rank), ("o", rank))
        for number, away in enumerate(range(1, n)):
            to, of = (rank + away) % n, (rank - away) % n
            tb = Block(to, of).add("s", ("i", to), ("s", 0)).add("r", ("i", 0), ("s", number), hasdep=1)
            tbs.append(tb)
            adder.add("re", ("s", number), ("o", rank), dep=(number, 1), hasdep=int(away == n - 1))
        for tb, away in zip(tbs, range(1, n), strict=True):
            of = (rank - away) % n
            tb.add("s", ("o", rank), ("o", rank), dep=(n - 1, n - 1)).add("r", ("i", 0), ("o", of))
        gpus.append(Gpu((n, n, n - 1), [*tbs, adder]))
    return File("allreduce", n, gpus, inplace=0)


GOOD = {
    "ring all-gather": ring_all_gather,
    "ring all-reduce": ring_all_reduce,
    "ring reduce-scatter": ring_reduce_scatter,
    "all-to-all": all_to_all,
    "all-to-all of 3": lambda: all_to_all(3, 5, 2**20),
    "exchange": lambda: exchange(8, max_bytes=2**20),
    "scratch": star_all_gather_by_scratch,
    "broadcast": chain_broadcast,
    "reduce": chain_reduce,
    "gather": direct_gather,
    "scatter": direct_scatter,
    "direct all-reduce": direct_all_reduce,
}
