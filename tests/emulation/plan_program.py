"""MSCCL++ plans as the executor loads them: references resolved, operations divided by what runs them.

Between two block-wide synchronisations, operations are *moves* of data, which all threads share and nothing orders, and
*entries* of lists of channels or semaphores: thread k serves entry k, so those of one position are in order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.emulation.values import Memory, Refused

Json = Any
LANES = 16


class Cells(NamedTuple):
    """Where data is: its first cell; of packets (LL), each cell is followed by the number of its launch."""

    start: int
    packets: bool = False

    def every(self, count: int) -> list[int]:
        stride = 2 if self.packets else 1
        return [*range(self.start, self.start + stride * count, stride)]


@dataclass
class Move:
    """Cells that are added (or copied) to all targets, by the cell. op: position of the operation, name: its own."""

    op: int
    name: str
    sources: list[Cells]
    targets: list[Cells]
    cells: int

    @property
    def waits(self) -> bool:
        """Whether it waits for packets."""
        return any(source.packets for source in self.sources)


@dataclass
class Entry:
    """What thread k does with entry k: signal, wait, acquire, release, or a put that a proxy executes later.

    kind: with `relaxed`, data is not ordered; "rppkt" waits for the packets that it puts. key: of the counter.
    port: (rank, channel) of the proxy's queue, or None.
    """

    op: int
    kind: str
    key: tuple[Any, ...]
    relaxed: bool = False
    port: tuple[int, int] | None = None
    put: Move | None = None
    flush: bool = False


@dataclass
class Segment:
    """barrier: (gpu, id, number of blocks) that ends it, or None."""

    moves: list[Move] = field(default_factory=list)
    lanes: dict[int, list[Entry]] = field(default_factory=dict)
    barrier: tuple[int, int, int] | None = None


@dataclass
class Plan:
    coll: str
    inplace: bool
    chunks: list[tuple[int, int, int]]
    gpus: list[Json]
    packets: bool = False
    halves: bool = False

    @property
    def scratch(self) -> int:
        """How many times the scratch of the plan is allocated."""
        return (2 if self.packets else 1) * (2 if self.halves else 1)


def load(text: bytes | str) -> Plan:
    """Raises Refused if the plan has no such structure."""
    try:
        plan = json.loads(text)
        gpus = plan["gpus"]
        if [gpu["id"] for gpu in gpus] != [*range(len(gpus))]:
            raise Refused("gpus are not in order")
        chunks = [(gpu["input_chunks"], gpu["output_chunks"], gpu["scratch_chunks"]) for gpu in gpus]
        if any(type(n) is not int or n < 0 for row in chunks for n in row):
            raise Refused("chunks are no numbers")
        packets, halves = plan["protocol"] == "LL", bool(plan.get("use_double_scratch_buffer"))
        return Plan(plan["collective"], bool(plan["inplace"]), chunks, gpus, packets, halves)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def segments_of(plan: Plan, memory: Memory, rank: int, block: Json, half: int = 0) -> list[Segment]:
    """What a threadblock does, between its synchronisations. Raises Refused for what has no meaning.

    half: of the scratch, 0 or 1, if the plan takes them in turn.
    """
    try:
        return _Block(plan, memory, rank, block, half).segments()
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise Refused(f"{type(error).__name__}: {error}") from error


def channels_of(gpu: Json, kind: str) -> list[tuple[int, int]]:
    """(peer, number among the channels to that peer), of all channels of a type: memory is counted before port."""
    rows: dict[str, list[int]] = {"memory": [], "port": []}
    for entry in gpu["channels"]:
        if entry["channel_type"] in rows:
            rows[entry["channel_type"]] += entry["connected_to"]
    before = rows["memory"] if kind == "port" else []
    mine = rows[kind]
    return [(peer, before.count(peer) + mine[:k].count(peer)) for k, peer in enumerate(mine)]


class _Block:
    def __init__(self, plan: Plan, memory: Memory, rank: int, block: Json, half: int) -> None:
        self.plan, self.memory, self.rank, self.block, self.half = plan, memory, rank, block, half
        self.gpu = plan.gpus[rank]
        self.op = -1
        self.channels = {kind: self._channels(kind) for kind in ("memory", "port")}

    def _channels(self, kind: str) -> list[tuple[int, tuple[int, int]]]:
        """By position in the threadblock's list: (number in the gpu, (peer, number to the peer))."""
        all_of = channels_of(self.gpu, kind)
        ids = [k for row in self.block["channels"] if row["channel_type"] == kind for k in row["channel_ids"]]
        return [(k, all_of[_position(k, all_of)]) for k in ids]

    def segments(self) -> list[Segment]:
        found = [Segment()]
        for number, op in enumerate(self.block["ops"]):
            self.op = number
            if op["name"] == "nop":
                found.append(Segment())
            elif op["name"] == "barrier":
                found[-1].barrier = (self.rank, op["barrier_id"], op["num_threadblocks"])
                found.append(Segment())
            else:
                self._operation(found[-1], op)
        return found

    def _operation(self, into: Segment, op: Json) -> None:
        name = op["name"]
        if name in ("signal", "wait", "rlxsignal", "rlxwait"):
            for lane, entry in enumerate(self._channel_entries(op)):
                into.lanes.setdefault(lane, []).append(entry)
        elif name in ("sem_acquire", "sem_release"):
            for lane, number in enumerate(op["semaphore_ids"]):
                _position(number, self.gpu["semaphores"])
                entry = Entry(self.op, name, ("semaphore", self.rank, number))
                into.lanes.setdefault(lane, []).append(entry)
        elif name == "flush":
            for lane, (number, (peer, k)) in enumerate(self._flushed(op)):
                entry = Entry(self.op, "flush", ("channel", self.rank, peer, k), port=(self.rank, number), flush=True)
                into.lanes.setdefault(lane, []).append(entry)
        elif name in ("put", "pws", "pwsf") and op["channel_type"] == "port":
            self._port_put(into, op)
        elif name == "rppkt" and op.get("channel_type") == "port":
            self._port_packets(into, op)
        elif name in _MOVES:
            wanted = "switch" if name in ("glres", "gstore") else "memory"
            if op.get("channel_type", wanted) != wanted:
                raise Refused(f"{name} over {op['channel_type']}")
            into.moves += _MOVES[name](self, op)
        else:
            raise Refused(f"operation {name}")

    def _flushed(self, op: Json) -> list[tuple[int, tuple[int, int]]]:
        """The channels of a flush: as many as dst_buff has entries, whatever the list of channels says."""
        channels = self.channels[op["channel_type"]]
        if op["channel_type"] != "port":
            raise Refused("flush of memory channels")
        return [channels[_position(at, channels)] for at in op["channel_ids"][: len(op.get("dst_buff", ()))]]

    def _channel_entries(self, op: Json) -> list[Entry]:
        kind, name = op["channel_type"], op["name"].removeprefix("rlx")
        relaxed = op["name"].startswith("rlx") and kind == "memory"
        entries: list[Entry] = []
        for at in op["channel_ids"]:
            number, (peer, k) = self.channels[kind][_position(at, self.channels[kind])]
            ends = (self.rank, peer) if name == "signal" else (peer, self.rank)
            port = (self.rank, number) if kind == "port" and name == "signal" else None
            entries.append(Entry(self.op, name, ("channel", *ends, k), relaxed, port))
        return entries

    def _port_put(self, into: Segment, op: Json) -> None:
        sources, targets = op["src_buff"], op["dst_buff"]
        if not len(sources) == len(targets) == len(op["channel_ids"]):
            raise Refused("a put over ports has lists of several lengths")
        for lane, (source, target, at) in enumerate(zip(sources, targets, op["channel_ids"], strict=True)):
            number, (peer, k) = self.channels["port"][_position(at, self.channels["port"])]
            ends = [self._queued(source)], [self._remote(target, "port", peer)]
            move = Move(self.op, op["name"], *ends, self._cells(source))
            if self._cells(target) != move.cells:
                raise Refused("a put of two sizes")
            key = ("channel", self.rank, peer, k)
            flush = op["name"] == "pwsf"
            entry = Entry(self.op, op["name"], key, False, (self.rank, number), move, flush)
            into.lanes.setdefault(lane, []).append(entry)

    def _queued(self, buff: Json) -> Cells:
        """A local source that a proxy reads: it does not know the half."""
        return Cells(self.memory.at(self.rank, buff["type"], buff["index"], buff["size"]))

    def _port_packets(self, into: Segment, op: Json) -> None:
        """Packets that are waited for, and put as they are, one channel for each destination."""
        (source,), targets = op["src_buff"], op["dst_buff"]
        if len(targets) != len(op["channel_ids"]) or {buff["size"] for buff in targets} != {source["size"]}:
            raise Refused("rppkt over ports of several lengths or sizes")
        for lane, (target, at) in enumerate(zip(targets, op["channel_ids"], strict=True)):
            number, (peer, k) = self.channels["port"][_position(at, self.channels["port"])]
            ends = [self._local(source, packets=True)], [self._remote(target, "port", peer, packets=True)]
            put = Move(self.op, "rppkt", *ends, self._cells(source))
            entry = Entry(self.op, "rppkt", ("channel", self.rank, peer, k), port=(self.rank, number), put=put)
            into.lanes.setdefault(lane, []).append(entry)

    def _cells(self, buff: Json) -> int:
        return buff["size"] * self.memory.cells

    def _shift(self, packets: bool) -> int:
        """Cells before the half of the scratch that is in use: half of the own scratch, also in that of another."""
        size = self.memory.scratch[self.rank] * self.memory.cells // self.plan.scratch
        return self.half * size * (2 if self.plan.packets else 1) if self.plan.halves or packets else 0

    def _local(self, buff: Json, kind: str | None = None, packets: bool = False) -> Cells:
        kind = kind or buff["type"]
        if packets and (kind != "s" or not self.plan.packets):
            raise Refused("packets outside of the scratch of a plan for LL")
        start = self.memory.at(self.rank, kind, buff["index"], buff["size"])
        return self._in_half(start, self.rank, self._cells(buff), packets) if kind == "s" else Cells(start)

    def _in_half(self, start: int, rank: int, cells: int, packets: bool) -> Cells:
        """Packets take twice the room; accesses of the own scratch and packets know the half."""
        first = self.memory.region(rank, "s").start
        found = Cells(first + (start - first) * (2 if packets else 1) + self._shift(packets), packets)
        if found.every(cells)[-1] + packets >= first + self.memory.scratch[rank] * self.memory.cells:
            raise Refused("packets beyond the scratch")
        return found

    def _remote(self, buff: Json, kind: str = "memory", peer: int | None = None, packets: bool = False) -> Cells:
        rows = self.block["remote_buffer_refs"]
        ids = [k for row in rows if row["access_channel_type"] == kind for k in row["remote_buffer_ids"]]
        listed = self.gpu["remote_buffers"]
        number = ids[_position(buff["buffer_id"], ids)]
        remote = listed[_position(number, listed)]
        if kind not in remote["access_channel_types"] or (peer is not None and remote["rank"] != peer):
            raise Refused("a remote buffer of another peer or type of channel")
        if packets and (remote["type"] != "s" or not self.plan.packets):
            raise Refused("packets outside of the scratch of a plan for LL")
        start = self.memory.at_other(self.rank, remote["rank"], remote["type"], buff["index"], buff["size"])
        return self._in_half(start, remote["rank"], self._cells(buff), packets=True) if packets else Cells(start)

    def _multicast(self, buff: Json) -> list[Cells]:
        """The cells of all ranks of a switch channel."""
        groups = [
            (row["buffer_type"], one["ranks"])
            for row in self.gpu["channels"]
            if row["channel_type"] == "switch"
            for one in row["rank_groups"]
        ]
        rows = self.block["channels"]
        ids = [k for row in rows if row["channel_type"] == "switch" for k in row["channel_ids"]]
        number = ids[_position(buff["switch_channel_id"], ids)]
        kind, ranks = groups[_position(number, groups)]
        if self.rank not in ranks:
            raise Refused("a switch channel without the own rank")
        return [Cells(self.memory.at(rank, kind, buff["index"], buff["size"])) for rank in ranks]

    def switch(self, op: Json) -> list[Move]:
        """glres: the sum of all ranks to all ranks; gstore: from here to all ranks."""
        (source,), (target,) = op["src_buff"], op["dst_buff"]
        if source["size"] != target["size"]:
            raise Refused(f"{op['name']} of two sizes")
        starts = self._multicast(source) if op["name"] == "glres" else [self._local(source)]
        return [Move(self.op, op["name"], starts, self._multicast(target), self._cells(source))]

    def packets(self, op: Json) -> list[Move]:
        """Which operands are packets: of the own scratch (own), or of that of others (remote)."""
        name, sources, targets = op["name"], op["src_buff"], op["dst_buff"]
        if len({buff["size"] for buff in (*sources, *targets)}) != 1:
            raise Refused(f"{name} of several sizes")
        own = lambda buff: self._local(buff, packets=True)  # noqa: E731
        remote = lambda buff: self._remote(buff, packets=True)  # noqa: E731
        cells = self._cells(sources[0])
        if name == "ppkt":
            kind = sources[0]["type"]
            return [
                Move(self.op, name, [self._local(source, kind)], [remote(target)], cells)
                for source, target in zip(sources, targets, strict=True)
            ]
        plain_source, plain_target = (
            name not in ("upkt", "rppkt"),
            name in ("upkt", "repkt", "respkt", "recpkt", "recspkt"),
        )
        starts = [self._local(sources[0]) if plain_source else own(sources[0]), *map(own, sources[1:])]
        ends = [self._local(targets[0])] if plain_target else []
        rest = targets[1:] if plain_target else targets
        kept = 1 if name in ("cpkt", "recpkt", "recspkt") else 0
        ends += [*map(own, rest[:kept]), *map(remote, rest[kept:])]
        return [Move(self.op, name, starts, ends, cells)]

    def pairs(self, op: Json) -> list[Move]:
        """put, copy and get: source k to target k. All sources of a put are in the first one's buffer."""
        name, sources, targets = op["name"], op["src_buff"], op["dst_buff"]
        if len(sources) != len(targets) or (name == "copy" and len(sources) != 1):
            raise Refused(f"{name} of {len(sources)} to {len(targets)}")
        moves: list[Move] = []
        for source, target in zip(sources, targets, strict=True):
            if source["size"] != target["size"]:
                raise Refused(f"{name} of two sizes")
            if name == "get":  # the kernel exchanges the offsets
                start = self._remote({**source, "index": target["index"]})
                end = self._local({**target, "index": source["index"]})
            else:
                start = self._local(source, sources[0]["type"])
                end = self._remote(target) if name in ("put", "pws") else self._local(target)
            moves.append(Move(self.op, name, [start], [end], self._cells(source)))
        return moves

    def sums(self, op: Json) -> list[Move]:
        """re, res, rre, rres: the sum of all sources to all targets; the first of both is local."""
        name, sources, targets = op["name"], op["src_buff"], op["dst_buff"]
        if len({buff["size"] for buff in (*sources, *targets)}) != 1 or (name in ("re", "rre") and len(targets) != 1):
            raise Refused(f"{name} of several sizes")
        further = self._remote if name in ("rre", "rres") else self._local
        starts = [self._local(sources[0]), *(further(buff) for buff in sources[1:])]
        ends = [self._local(targets[0]), *(self._remote(buff) for buff in targets[1:])]
        return [Move(self.op, name, starts, ends, self._cells(sources[0]))]


def _position(at: int, rows: list[Any]) -> int:
    if type(at) is not int or not 0 <= at < len(rows):
        raise Refused(f"no position {at} of {len(rows)}")
    return at


_MOVES = {
    **dict.fromkeys(("put", "pws", "copy", "get"), _Block.pairs),
    **dict.fromkeys(("re", "res", "rre", "rres"), _Block.sums),
    **dict.fromkeys(("glres", "gstore"), _Block.switch),
    **dict.fromkeys(("cpkt", "upkt", "ppkt", "rppkt", "repkt", "respkt", "recpkt", "recspkt"), _Block.packets),
}
