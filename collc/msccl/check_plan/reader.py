"""From JSON to a plan: the shape of the file, its references, and the limits of the runtime.

The rules are those of docs/msccl-contract.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from collc.msccl.check.findings import Finding, Findings, Place
from collc.msccl.check_plan.model import MAX_OP_BUFFERS, NAMES, SIGNALS, WAITS, Channel, Move, Operation, Plan, Slots
from collc.msccl.check_plan.text import Mistake, json_of
from collc.msccl.check_plan.turns import check_turns

BUFFERS: Final = {"i": 0, "o": 1, "s": 2}
CHANNEL_TYPES: Final = ("memory", "port")
MAX_OPS: Final = 64
MAX_CHANNELS: Final = 16
MAX_BUFFERS: Final = 16
MAX_OP_CHANNELS: Final = 8
MAX_BARRIERS: Final = 16
MAX_SEMAPHORES: Final = 16
MAX_CHUNKS: Final = 2**24
MAX_MOVED: Final = 2**26
"""Chunks of all operations together. This and the one before are limits of the check, not of the runtime."""

Object = dict[str, Any]
T = TypeVar("T")


def read_plan(path: Path, findings: Findings) -> Plan | None:
    """The plan, or None where it can't be understood. Raises OSError if the file can't be read."""
    try:
        return _Reader(findings).plan(json_of(path, findings))
    except Mistake as error:
        findings.add(error.finding, breaks=True)
    return None


class _Reader:
    def __init__(self, findings: Findings) -> None:
        self.findings: Findings = findings
        self.channels: list[dict[str, list[Channel]]] = []
        self.remote: list[list[tuple[int, int, tuple[str, ...]]]] = []
        self.moved: int = 0

    def plan(self, top: object) -> Plan:
        """The whole plan; raises Mistake."""
        nowhere = Place()
        root = _object(top, "the plan", nowhere)
        gpus = [_object(gpu, "gpu", nowhere) for gpu in _list(root, "gpus", nowhere)]
        if not gpus:
            raise Mistake("X0402", "a plan without gpus", Place(attribute="gpus"), "at least one")
        for rank, gpu in enumerate(gpus):
            if _int(gpu, "id", Place(gpu=rank)) != rank:
                raise Mistake("X0402", f"the gpu at position {rank} has another id", Place(gpu=rank), f"id {rank}")
        inplace = root.get("inplace")
        if not isinstance(inplace, bool):
            at = Place(attribute="inplace")
            raise Mistake("X0402", "inplace is missing or no boolean", at, "true or false")
        protocol = _text(root, "protocol", nowhere)
        if protocol not in ("Simple", "LL"):
            raise Mistake("X0402", f'protocol "{protocol}"', Place(attribute="protocol"), "Simple or LL")
        plan = Plan(_text(root, "name", nowhere), _text(root, "collective", nowhere), protocol, inplace, [], [], [], [])
        if root.get("max_message_size") is not None:
            plan.largest = _int(root, "max_message_size", nowhere, 2**64)
            if (
                root.get("min_message_size") is not None
                and _int(root, "min_message_size", nowhere, 2**64) > plan.largest
            ):
                at = Place(attribute="min_message_size")
                raise Mistake("X0402", "min_message_size is above max_message_size", at, f"at most {plan.largest}")
        names = ("input_chunks", "output_chunks", "scratch_chunks")
        for rank, gpu in enumerate(gpus):
            place = Place(gpu=rank)
            sizes = [_int(gpu, name, place) for name in names]
            plan.chunks.append((sizes[0], sizes[1], sizes[2]))
            found = [_object(entry, "semaphore", place) for entry in _optional(gpu, "semaphores", place)]
            plan.semaphores.append([_int(entry, "init_value", place) for entry in found])
            self._limit(len(found), MAX_SEMAPHORES, "semaphores of a gpu", place)
            self._gpu(gpu, rank, len(gpus))
        chunks = sum(map(sum, plan.chunks))
        if chunks > MAX_CHUNKS:
            raise Mistake("X0406", f"{chunks} chunks in all buffers", nowhere, f"at most {MAX_CHUNKS} to be checked")
        for rank, gpu in enumerate(gpus):
            for number, entry in enumerate(_list(gpu, "threadblocks", Place(gpu=rank))):
                place = Place(gpu=rank, tb=number)
                self._threadblock(plan, _object(entry, "threadblock", place), place)
        check_turns(plan, self.findings)
        if root.get("use_double_scratch_buffer") is True and protocol == "Simple":
            self._doubled(plan)
        return plan

    def _doubled(self, plan: Plan) -> None:
        """With two halves of scratch in turn, only packets reach the right one of another gpu.

        Source: docs/msccl-contract.md, section 6.4.
        """
        for op in (op for ops in plan.threadblocks for op in ops):
            slots = [slots for move in op.moves for slots in move.sources + move.targets]
            if any(one.gpu != op.place.gpu and one.buffer == BUFFERS["s"] for one in slots):
                text = "use_double_scratch_buffer: every other run, this is not the scratch that its owner uses"
                self.findings.add(Finding("contract", "X0404", text, op.place, "one scratch buffer, or packets (LL)"))

    def _gpu(self, gpu: Object, rank: int, ranks: int) -> None:
        """Its channels, numbered by type in order, and the buffers of others that it may reach."""
        place = Place(gpu=rank)
        flat: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        met: Counter[tuple[str, int]] = Counter()
        for entry in _list(gpu, "channels", place):
            item = _object(entry, "channel", place)
            kind = _channel_type(item, "channel_type", place)
            for peer in _list(item, "connected_to", place):
                if not _is_number(peer) or not 0 <= peer < ranks or peer == rank:
                    raise Mistake("X0403", f"channel to {peer}", place, f"another rank of 0 .. {ranks - 1}")
                flat[kind].append((kind, rank, peer, met[kind, peer]))
                met[kind, peer] += 1
        self.channels.append(flat)
        remote: list[tuple[int, int, tuple[str, ...]]] = []
        for entry in _optional(gpu, "remote_buffers", place):
            item = _object(entry, "remote buffer", place)
            owner = _int(item, "rank", place)
            if not 0 <= owner < ranks:
                raise Mistake("X0403", f"remote buffer of rank {owner}", place, f"0 .. {ranks - 1}")
            kinds = tuple(str(kind) for kind in _list(item, "access_channel_types", place))
            remote.append((owner, _buffer(item, place), kinds))
        self.remote.append(remote)

    def _threadblock(self, plan: Plan, entry: Object, place: Place) -> None:
        if _int(entry, "id", place) != place.tb:
            raise Mistake("X0402", "threadblock ids are not 0, 1, ... in order", place, f"id {place.tb}")
        channels: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        for item in _list(entry, "channels", place):
            group = _object(item, "channels", place)
            kind = _channel_type(group, "channel_type", place)
            mine = self.channels[place.gpu][kind]
            channels[kind] += [
                _at(mine, number, f"{kind} channel", place) for number in _list(group, "channel_ids", place)
            ]
        buffers: dict[str, list[tuple[int, int]]] = {kind: [] for kind in CHANNEL_TYPES}
        for item in _optional(entry, "remote_buffer_refs", place):
            group = _object(item, "remote buffer reference", place)
            kind = _channel_type(group, "access_channel_type", place)
            for number in _list(group, "remote_buffer_ids", place):
                owner, buffer, kinds = _at(self.remote[place.gpu], number, "remote buffer", place)
                if kind not in kinds:
                    raise Mistake("X0403", f"remote buffer {number} is not for {kind} channels", place)
                buffers[kind].append((owner, buffer))
        self._limit(sum(map(len, channels.values())), MAX_CHANNELS, "channels of a threadblock", place)
        self._limit(sum(map(len, buffers.values())), MAX_BUFFERS, "remote buffers of a threadblock", place)
        ops = _list(entry, "ops", place)
        self._limit(len(ops), MAX_OPS, "operations of a threadblock", place)
        row = len(plan.threadblocks)
        plan.gpu_of.append(place.gpu)
        plan.threadblocks.append([])
        for number, item in enumerate(ops):
            at = Place(gpu=place.gpu, tb=place.tb, step=number)
            operation = self._operation(plan, _object(item, "operation", at), Operation("", row, at), channels, buffers)
            plan.threadblocks[row].append(operation)

    def _operation(
        self,
        plan: Plan,
        item: Object,
        op: Operation,
        channels: dict[str, list[Channel]],
        buffers: dict[str, list[tuple[int, int]]],
    ) -> Operation:
        op.name = _text(item, "name", op.place)
        if op.name not in NAMES:
            raise Mistake("X0404", f'operation "{op.name}"', op.place, f"one of {', '.join(NAMES)}")
        if "channel_type" in item:
            op.via = _channel_type(item, "channel_type", op.place)
        for number in _optional(item, "channel_ids", op.place):
            op.over.append(_at(channels.get(op.via, []), number, "channel of the threadblock", op.place))
        self._limit(len(op.over), MAX_OP_CHANNELS, "channels of an operation", op.place)
        if op.name in (*SIGNALS, *WAITS, "flush"):
            if not op.over:
                raise Mistake("X0404", f"{op.name} without channel_ids", op.place, "at least one")
            if len(set(op.over)) < len(op.over):
                raise Mistake("X0404", f"{op.name} names a channel twice: two threads use it at once", op.place)
        if "tbg_info" in item:
            raise Mistake("X0404", "tbg_info: collc does not judge operations of several threadblocks", op.place)
        if op.name == "pws" and op.via != "port":
            raise Mistake(
                "X0404", "pws on memory channels: the runtime puts and never signals", op.place, "put, nop, signal"
            )
        op.signals = op.over if op.name in SIGNALS else []
        op.waits = [(kind, peer, rank, k) for kind, rank, peer, k in op.over] if op.name in WAITS else []
        if op.name == "barrier":
            if _int(item, "num_threadblocks", op.place) < 1:
                raise Mistake("X0402", "num_threadblocks is 0", op.place, "as many as meet there")
            op.barrier = _int(item, "barrier_id", op.place), _int(item, "num_threadblocks", op.place)
            self._limit(op.barrier[0] + 1, MAX_BARRIERS, "barriers of a gpu", op.place)
        if op.name.startswith("sem_"):
            values = plan.semaphores[op.place.gpu]
            numbers = _list(item, "semaphore_ids", op.place)
            for number in numbers:
                _at(values, number, "semaphore", op.place)
            op.semaphores = [int(number) for number in numbers]
            self._limit(len(numbers), MAX_SEMAPHORES, "semaphores of an operation", op.place)
        sources = [self._slots(plan, entry, op, buffers) for entry in _optional(item, "src_buff", op.place)]
        targets = [self._slots(plan, entry, op, buffers) for entry in _optional(item, "dst_buff", op.place)]
        self._limit(max(len(sources), len(targets)), MAX_OP_BUFFERS, "buffers on one side of an operation", op.place)
        self._moves(op, sources, targets)
        return op

    def _slots(
        self, plan: Plan, entry: object, op: Operation, buffers: dict[str, list[tuple[int, int]]]
    ) -> tuple[Slots, bool]:
        """The slots meant, and whether they are remote."""
        item = _object(entry, "buffer", op.place)
        index, size = _int(item, "index", op.place), _int(item, "size", op.place)
        remote = "buffer_id" in item
        if remote:
            owner, buffer = _at(
                buffers.get(op.via, []), item["buffer_id"], "remote buffer of the threadblock", op.place
            )
        else:
            owner, buffer = op.place.gpu, _buffer(item, op.place)
        limit = plan.chunks[owner][buffer]
        if size < 1 or index + size > limit:
            text = f"{'ios'[buffer]}[{index} .. {index + size - 1}] of gpu {owner} is outside the buffer"
            raise Mistake("X0405", text, op.place, f"within its {limit} chunks")
        self.moved += size
        if self.moved > MAX_MOVED:
            raise Mistake("X0406", "operations move too many chunks to be checked", op.place, f"at most {MAX_MOVED}")
        return Slots(owner, buffer, index, size), remote

    def _moves(self, op: Operation, sources: list[tuple[Slots, bool]], targets: list[tuple[Slots, bool]]) -> None:
        """What the operation does with its buffers, as the runtime reads them."""
        if op.name not in ("copy", "put", "pws", "get", "re", "res", "rre", "rres"):
            return
        if len({slots.size for slots, _ in sources + targets}) != 1 or not sources or not targets:
            raise Mistake(
                "X0404", f"{op.name} with buffers of different sizes, or without any", op.place, "equal sizes"
            )
        reads, writes = [far for _, far in sources], [far for _, far in targets]
        shape = {
            "copy": len(sources) == len(targets) == 1 and not any(reads + writes),
            "put": len(sources) == len(targets) and not any(reads) and all(writes),
            "get": len(sources) == len(targets) and all(reads) and not any(writes),
            "re": len(targets) == 1 and not any(reads + writes),
            "res": not any(reads) and not writes[0] and all(writes[1:]),
            "rre": len(targets) == 1 and not reads[0] and all(reads[1:]) and not writes[0],
            "rres": not reads[0] and all(reads[1:]) and not writes[0] and all(writes[1:]),
        }
        if not shape["put" if op.name == "pws" else op.name]:
            raise Mistake("X0404", f"{op.name} with local and remote buffers in the wrong places", op.place)
        if op.via == "port" and op.name not in ("put", "pws", "copy", "re"):
            raise Mistake("X0404", f"{op.name} over port channels", op.place, "memory channels")
        if op.via == "port" and len(op.over) != len(targets) and op.name in ("put", "pws"):
            raise Mistake(
                "X0404", f"{op.name} over {len(op.over)} channels to {len(targets)} buffers", op.place, "one each"
            )
        _traps(op, [slots for slots, _ in sources], [slots for slots, _ in targets])
        first = [slots for slots, _ in sources]
        to = tuple(slots for slots, _ in targets)
        if op.name in ("put", "pws", "get", "copy"):
            op.moves = [Move((a,), (b,)) for a, b in zip(first, to, strict=True)]
        else:
            op.moves = [Move(tuple(first), to)]

    def _limit(self, count: int, limit: int, what: str, place: Place) -> None:
        if count > limit:
            self.findings.add(Finding("contract", "X0406", f"{count} {what}", place, f"at most {limit}"))


def _traps(op: Operation, sources: list[Slots], targets: list[Slots]) -> None:
    """What the runtime does otherwise than the file says (docs/msccl-contract.md, section 6.5)."""
    if op.name == "get" and any(a.index != b.index for a, b in zip(sources, targets, strict=True)):
        text = "get with different indices: the runtime takes the one of src for dst and the other way round"
        raise Mistake("X0404", text, op.place, "the same index on both sides, or a put of the other gpu")
    if op.name == "put" and op.via == "memory" and len({slots.buffer for slots in sources}) > 1:
        text = "put from buffers of several types over memory channels: the runtime reads all from the first one's"
        raise Mistake("X0404", text, op.place, "one put for each type")


def _object(value: object, what: str, place: Place) -> Object:
    if not isinstance(value, dict):
        raise Mistake("X0402", f"{what} is no object", place)
    return cast("Object", value)


def _list(item: Object, name: str, place: Place) -> list[Any]:
    value = item.get(name)
    if not isinstance(value, list):
        raise Mistake("X0402", f"{name} is missing or no list", replace(place, attribute=name))
    return cast("list[Any]", value)


def _optional(item: Object, name: str, place: Place) -> list[Any]:
    return _list(item, name, place) if name in item else []


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _int(item: Object, name: str, place: Place, limit: int = 2**32) -> int:
    value = item.get(name)
    if not _is_number(value) or not 0 <= (number := cast("int", value)) < limit:
        text = f"{name} is missing or no number of {limit.bit_length() - 1} bits"
        raise Mistake("X0402", text, replace(place, attribute=name))
    return number


def _text(item: Object, name: str, place: Place) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value.isprintable():
        raise Mistake("X0402", f"{name} is missing or no printable text", replace(place, attribute=name))
    return value


def _channel_type(item: Object, name: str, place: Place) -> str:
    kind = _text(item, name, place)
    if kind not in CHANNEL_TYPES:
        raise Mistake("X0402", f'{name} "{kind}"', replace(place, attribute=name), "memory or port")
    return kind


def _buffer(item: Object, place: Place) -> int:
    name = _text(item, "type", place)
    if name not in BUFFERS:
        raise Mistake("X0402", f'buffer type "{name}"', place, "i, o or s")
    return BUFFERS[name]


def _at(items: list[T], number: object, what: str, place: Place) -> T:
    if not _is_number(number) or not 0 <= (position := cast("int", number)) < len(items):
        told = f"0 .. {len(items) - 1}" if items else "none, as there are none"
        raise Mistake("X0403", f"there is no {what} {str(number)[:20]}", place, told)
    return items[position]
