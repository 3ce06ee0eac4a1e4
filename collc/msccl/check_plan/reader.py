"""From JSON to a plan: the shape of the file, its references, and the limits of the runtime.

The rules are those of docs/msccl-contract.md, section 6.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.json_text import PlanError, json_of
from collc.msccl.check_plan.model import (
    MAX_OP_BUFFERS,
    NAMES,
    SIGNALS,
    WAITS,
    Channel,
    DataMove,
    Operation,
    Plan,
    SlotRange,
)
from collc.msccl.check_plan.synchronisation import check_synchronisation

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
    except PlanError as error:
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
        nowhere = FileLocation()
        root = _object(top, "the plan", nowhere)
        gpus = [_object(gpu, "gpu", nowhere) for gpu in _list(root, "gpus", nowhere)]
        if not gpus:
            raise PlanError("X0402", "a plan without gpus", FileLocation(attribute="gpus"), "at least one")
        for rank, gpu in enumerate(gpus):
            if _int(gpu, "id", FileLocation(gpu=rank)) != rank:
                raise PlanError(
                    "X0402", f"the gpu at position {rank} has another id", FileLocation(gpu=rank), f"id {rank}"
                )
        inplace = root.get("inplace")
        if not isinstance(inplace, bool):
            at = FileLocation(attribute="inplace")
            raise PlanError("X0402", "inplace is missing or no boolean", at, "true or false")
        protocol = _text(root, "protocol", nowhere)
        if protocol not in ("Simple", "LL"):
            raise PlanError("X0402", f'protocol "{protocol}"', FileLocation(attribute="protocol"), "Simple or LL")
        plan = Plan(_text(root, "name", nowhere), _text(root, "collective", nowhere), protocol, inplace, [], [], [], [])
        if root.get("max_message_size") is not None:
            plan.largest = _int(root, "max_message_size", nowhere, 2**64)
            if (
                root.get("min_message_size") is not None
                and _int(root, "min_message_size", nowhere, 2**64) > plan.largest
            ):
                at = FileLocation(attribute="min_message_size")
                raise PlanError("X0402", "min_message_size is above max_message_size", at, f"at most {plan.largest}")
        names = ("input_chunks", "output_chunks", "scratch_chunks")
        for rank, gpu in enumerate(gpus):
            location = FileLocation(gpu=rank)
            sizes = [_int(gpu, name, location) for name in names]
            plan.chunks.append((sizes[0], sizes[1], sizes[2]))
            found = [_object(entry, "semaphore", location) for entry in _optional(gpu, "semaphores", location)]
            plan.semaphores.append([_int(entry, "init_value", location) for entry in found])
            self._limit(len(found), MAX_SEMAPHORES, "semaphores of a gpu", location)
            self._gpu(gpu, rank, len(gpus))
        chunks = sum(map(sum, plan.chunks))
        if chunks > MAX_CHUNKS:
            raise PlanError("X0406", f"{chunks} chunks in all buffers", nowhere, f"at most {MAX_CHUNKS} to be checked")
        for rank, gpu in enumerate(gpus):
            for number, entry in enumerate(_list(gpu, "threadblocks", FileLocation(gpu=rank))):
                location = FileLocation(gpu=rank, tb=number)
                self._threadblock(plan, _object(entry, "threadblock", location), location)
        check_synchronisation(plan, self.findings)
        if root.get("use_double_scratch_buffer") is True and protocol == "Simple":
            self._doubled(plan)
        return plan

    def _doubled(self, plan: Plan) -> None:
        """With two halves of scratch in turn, only packets reach the right one of another gpu.

        Source: docs/msccl-contract.md, section 6.4.
        """
        for op in (op for ops in plan.threadblocks for op in ops):
            slots = [slots for move in op.moves for slots in move.sources + move.targets]
            if any(one.gpu != op.location.gpu and one.buffer == BUFFERS["s"] for one in slots):
                text = "use_double_scratch_buffer: every other run, this is not the scratch that its owner uses"
                self.findings.add(
                    Finding("contract", "X0404", text, op.location, "one scratch buffer, or packets (LL)")
                )

    def _gpu(self, gpu: Object, rank: int, ranks: int) -> None:
        """Its channels, numbered by type in order, and the buffers of others that it may reach."""
        location = FileLocation(gpu=rank)
        flat: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        met: Counter[tuple[str, int]] = Counter()
        for entry in _list(gpu, "channels", location):
            item = _object(entry, "channel", location)
            kind = _channel_type(item, "channel_type", location)
            for peer in _list(item, "connected_to", location):
                if not _is_number(peer) or not 0 <= peer < ranks or peer == rank:
                    raise PlanError("X0403", f"channel to {peer}", location, f"another rank of 0 .. {ranks - 1}")
                flat[kind].append((kind, rank, peer, met[kind, peer]))
                met[kind, peer] += 1
        self.channels.append(flat)
        remote: list[tuple[int, int, tuple[str, ...]]] = []
        for entry in _optional(gpu, "remote_buffers", location):
            item = _object(entry, "remote buffer", location)
            owner = _int(item, "rank", location)
            if not 0 <= owner < ranks:
                raise PlanError("X0403", f"remote buffer of rank {owner}", location, f"0 .. {ranks - 1}")
            kinds = tuple(str(kind) for kind in _list(item, "access_channel_types", location))
            remote.append((owner, _buffer(item, location), kinds))
        self.remote.append(remote)

    def _threadblock(self, plan: Plan, entry: Object, location: FileLocation) -> None:
        if _int(entry, "id", location) != location.tb:
            raise PlanError("X0402", "threadblock ids are not 0, 1, ... in order", location, f"id {location.tb}")
        channels: dict[str, list[Channel]] = {kind: [] for kind in CHANNEL_TYPES}
        for item in _list(entry, "channels", location):
            group = _object(item, "channels", location)
            kind = _channel_type(group, "channel_type", location)
            mine = self.channels[location.gpu][kind]
            channels[kind] += [
                _at(mine, number, f"{kind} channel", location) for number in _list(group, "channel_ids", location)
            ]
        buffers: dict[str, list[tuple[int, int]]] = {kind: [] for kind in CHANNEL_TYPES}
        for item in _optional(entry, "remote_buffer_refs", location):
            group = _object(item, "remote buffer reference", location)
            kind = _channel_type(group, "access_channel_type", location)
            for number in _list(group, "remote_buffer_ids", location):
                owner, buffer, kinds = _at(self.remote[location.gpu], number, "remote buffer", location)
                if kind not in kinds:
                    raise PlanError("X0403", f"remote buffer {number} is not for {kind} channels", location)
                buffers[kind].append((owner, buffer))
        self._limit(sum(map(len, channels.values())), MAX_CHANNELS, "channels of a threadblock", location)
        self._limit(sum(map(len, buffers.values())), MAX_BUFFERS, "remote buffers of a threadblock", location)
        ops = _list(entry, "ops", location)
        self._limit(len(ops), MAX_OPS, "operations of a threadblock", location)
        row = len(plan.threadblocks)
        plan.gpu_of.append(location.gpu)
        plan.threadblocks.append([])
        for number, item in enumerate(ops):
            at = FileLocation(gpu=location.gpu, tb=location.tb, step=number)
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
        op.name = _text(item, "name", op.location)
        if op.name not in NAMES:
            raise PlanError("X0404", f'operation "{op.name}"', op.location, f"one of {', '.join(NAMES)}")
        if "channel_type" in item:
            op.via = _channel_type(item, "channel_type", op.location)
        for number in _optional(item, "channel_ids", op.location):
            op.over.append(_at(channels.get(op.via, []), number, "channel of the threadblock", op.location))
        self._limit(len(op.over), MAX_OP_CHANNELS, "channels of an operation", op.location)
        if op.name in (*SIGNALS, *WAITS, "flush"):
            if not op.over:
                raise PlanError("X0404", f"{op.name} without channel_ids", op.location, "at least one")
            if len(set(op.over)) < len(op.over):
                raise PlanError("X0404", f"{op.name} names a channel twice: two threads use it at once", op.location)
        if "tbg_info" in item:
            raise PlanError("X0404", "tbg_info: collc does not judge operations of several threadblocks", op.location)
        if op.name == "pws" and op.via != "port":
            raise PlanError(
                "X0404", "pws on memory channels: the runtime puts and never signals", op.location, "put, nop, signal"
            )
        op.signals = op.over if op.name in SIGNALS else []
        op.waits = [(kind, peer, rank, k) for kind, rank, peer, k in op.over] if op.name in WAITS else []
        if op.name == "barrier":
            if _int(item, "num_threadblocks", op.location) < 1:
                raise PlanError("X0402", "num_threadblocks is 0", op.location, "as many as meet there")
            op.barrier = _int(item, "barrier_id", op.location), _int(item, "num_threadblocks", op.location)
            self._limit(op.barrier[0] + 1, MAX_BARRIERS, "barriers of a gpu", op.location)
        if op.name.startswith("sem_"):
            values = plan.semaphores[op.location.gpu]
            numbers = _list(item, "semaphore_ids", op.location)
            for number in numbers:
                _at(values, number, "semaphore", op.location)
            op.semaphores = [int(number) for number in numbers]
            self._limit(len(numbers), MAX_SEMAPHORES, "semaphores of an operation", op.location)
        sources = [self._slots(plan, entry, op, buffers) for entry in _optional(item, "src_buff", op.location)]
        targets = [self._slots(plan, entry, op, buffers) for entry in _optional(item, "dst_buff", op.location)]
        self._limit(max(len(sources), len(targets)), MAX_OP_BUFFERS, "buffers on one side of an operation", op.location)
        self._moves(op, sources, targets)
        return op

    def _slots(
        self, plan: Plan, entry: object, op: Operation, buffers: dict[str, list[tuple[int, int]]]
    ) -> tuple[SlotRange, bool]:
        """The slots meant, and whether they are remote."""
        item = _object(entry, "buffer", op.location)
        index, size = _int(item, "index", op.location), _int(item, "size", op.location)
        remote = "buffer_id" in item
        if remote:
            owner, buffer = _at(
                buffers.get(op.via, []), item["buffer_id"], "remote buffer of the threadblock", op.location
            )
        else:
            owner, buffer = op.location.gpu, _buffer(item, op.location)
        limit = plan.chunks[owner][buffer]
        if size < 1 or index + size > limit:
            text = f"{'ios'[buffer]}[{index} .. {index + size - 1}] of gpu {owner} is outside the buffer"
            raise PlanError("X0405", text, op.location, f"within its {limit} chunks")
        self.moved += size
        if self.moved > MAX_MOVED:
            raise PlanError(
                "X0406", "operations move too many chunks to be checked", op.location, f"at most {MAX_MOVED}"
            )
        return SlotRange(owner, buffer, index, size), remote

    def _moves(
        self, op: Operation, sources: list[tuple[SlotRange, bool]], targets: list[tuple[SlotRange, bool]]
    ) -> None:
        """What the operation does with its buffers, as the runtime reads them."""
        if op.name not in ("copy", "put", "pws", "get", "re", "res", "rre", "rres"):
            return
        if len({slots.size for slots, _ in sources + targets}) != 1 or not sources or not targets:
            raise PlanError(
                "X0404", f"{op.name} with buffers of different sizes, or without any", op.location, "equal sizes"
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
            raise PlanError("X0404", f"{op.name} with local and remote buffers in the wrong places", op.location)
        if op.via == "port" and op.name not in ("put", "pws", "copy", "re"):
            raise PlanError("X0404", f"{op.name} over port channels", op.location, "memory channels")
        if op.via == "port" and len(op.over) != len(targets) and op.name in ("put", "pws"):
            raise PlanError(
                "X0404", f"{op.name} over {len(op.over)} channels to {len(targets)} buffers", op.location, "one each"
            )
        _traps(op, [slots for slots, _ in sources], [slots for slots, _ in targets])
        first = [slots for slots, _ in sources]
        to = tuple(slots for slots, _ in targets)
        if op.name in ("put", "pws", "get", "copy"):
            op.moves = [DataMove((a,), (b,)) for a, b in zip(first, to, strict=True)]
        else:
            op.moves = [DataMove(tuple(first), to)]

    def _limit(self, count: int, limit: int, what: str, location: FileLocation) -> None:
        if count > limit:
            self.findings.add(Finding("contract", "X0406", f"{count} {what}", location, f"at most {limit}"))


def _traps(op: Operation, sources: list[SlotRange], targets: list[SlotRange]) -> None:
    """What the runtime does otherwise than the file says (docs/msccl-contract.md, section 6.5)."""
    if op.name == "get" and any(a.index != b.index for a, b in zip(sources, targets, strict=True)):
        text = "get with different indices: the runtime takes the one of src for dst and the other way round"
        raise PlanError("X0404", text, op.location, "the same index on both sides, or a put of the other gpu")
    if op.name == "put" and op.via == "memory" and len({slots.buffer for slots in sources}) > 1:
        text = "put from buffers of several types over memory channels: the runtime reads all from the first one's"
        raise PlanError("X0404", text, op.location, "one put for each type")


def _object(value: object, what: str, location: FileLocation) -> Object:
    if not isinstance(value, dict):
        raise PlanError("X0402", f"{what} is no object", location)
    return cast("Object", value)


def _list(item: Object, name: str, location: FileLocation) -> list[Any]:
    value = item.get(name)
    if not isinstance(value, list):
        raise PlanError("X0402", f"{name} is missing or no list", replace(location, attribute=name))
    return cast("list[Any]", value)


def _optional(item: Object, name: str, location: FileLocation) -> list[Any]:
    return _list(item, name, location) if name in item else []


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _int(item: Object, name: str, location: FileLocation, limit: int = 2**32) -> int:
    value = item.get(name)
    if not _is_number(value) or not 0 <= (number := cast("int", value)) < limit:
        text = f"{name} is missing or no number of {limit.bit_length() - 1} bits"
        raise PlanError("X0402", text, replace(location, attribute=name))
    return number


def _text(item: Object, name: str, location: FileLocation) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value.isprintable():
        raise PlanError("X0402", f"{name} is missing or no printable text", replace(location, attribute=name))
    return value


def _channel_type(item: Object, name: str, location: FileLocation) -> str:
    kind = _text(item, name, location)
    if kind not in CHANNEL_TYPES:
        raise PlanError("X0402", f'{name} "{kind}"', replace(location, attribute=name), "memory or port")
    return kind


def _buffer(item: Object, location: FileLocation) -> int:
    name = _text(item, "type", location)
    if name not in BUFFERS:
        raise PlanError("X0402", f'buffer type "{name}"', location, "i, o or s")
    return BUFFERS[name]


def _at(items: list[T], number: object, what: str, location: FileLocation) -> T:
    if not _is_number(number) or not 0 <= (position := cast("int", number)) < len(items):
        told = f"0 .. {len(items) - 1}" if items else "none, as there are none"
        raise PlanError("X0403", f"there is no {what} {str(number)[:20]}", location, told)
    return items[position]
