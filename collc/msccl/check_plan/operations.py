"""Reading the operations of a threadblock: what they move, signal and wait for (docs/msccl-contract.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.json_text import ALL_CHANNEL_TYPES, BUFFERS, CHANNEL_TYPES, Fields, PlanError, item_at
from collc.msccl.check_plan.model import (
    MAX_OP_BUFFERS,
    NAMES,
    PACKETS,
    PUTS,
    REFUSED,
    SCRATCH,
    SIGNALS,
    WAITS,
    Channel,
    DataMove,
    Operation,
    Plan,
    SlotRange,
    SwitchChannel,
)

MAX_OP_CHANNELS: Final = 8
MAX_BARRIERS: Final = 16
MAX_SEMAPHORES: Final = 16
MAX_MOVED: Final = 2**26
"""Chunks that all operations move together; a limit of the check, not of the runtime."""

_OVER_PORTS: Final = (*PUTS, "copy", "re", "rppkt")
"""Operations on data that a port channel may have."""
_ONE_EACH: Final = ("copy", *PUTS, "get", "ppkt")
"""Operations that move each source to the target at its place; all others store the sum of the sources."""


class Role(StrEnum):
    """What an entry of an operation must be."""

    PLAIN = "a local buffer"
    OTHERS = "a buffer of another gpu"
    OWN = "packets in its own scratch"
    REMOTE = "packets in the scratch of another gpu"


_PLAIN, _OTHERS, _OWN, _REMOTE = Role.PLAIN, Role.OTHERS, Role.OWN, Role.REMOTE

SHAPES: Final[dict[str, tuple[tuple[Role, ...], Role | None, tuple[Role, ...], Role | None]]] = {
    "copy": ((_PLAIN,), None, (_PLAIN,), None),
    **dict.fromkeys(PUTS, ((_PLAIN,), _PLAIN, (_OTHERS,), _OTHERS)),
    "get": ((_OTHERS,), _OTHERS, (_PLAIN,), _PLAIN),
    "re": ((_PLAIN,), _PLAIN, (_PLAIN,), None),
    "res": ((_PLAIN,), _PLAIN, (_PLAIN,), _OTHERS),
    "rre": ((_PLAIN,), _OTHERS, (_PLAIN,), None),
    "rres": ((_PLAIN,), _OTHERS, (_PLAIN,), _OTHERS),
    "cpkt": ((_PLAIN,), None, (_OWN,), None),
    "upkt": ((_OWN,), None, (_PLAIN,), None),
    "ppkt": ((_PLAIN,), _PLAIN, (_REMOTE,), _REMOTE),
    "rppkt": ((_OWN,), None, (_REMOTE,), _REMOTE),
    "repkt": ((_PLAIN, _OWN), _OWN, (_PLAIN,), None),
    "respkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _REMOTE), _REMOTE),
    "recpkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _OWN), None),
    "recspkt": ((_PLAIN, _OWN), _OWN, (_PLAIN, _OWN, _REMOTE), _REMOTE),
}
"""By operation: its first sources, what further ones are (None: there are none), its first targets, further ones."""

RemoteBuffer = tuple[int, int]
"""(owner, number of the buffer)."""


@dataclass(frozen=True)
class References:
    """The lists of a threadblock that its operations index, by channel type; and its switch channels."""

    channels: dict[str, list[Channel]] = field(default_factory=lambda: {kind: [] for kind in CHANNEL_TYPES})
    buffers: dict[str, list[RemoteBuffer]] = field(default_factory=lambda: {kind: [] for kind in CHANNEL_TYPES})
    switches: list[SwitchChannel] = field(default_factory=list[SwitchChannel])


class OperationReader:
    """Reads operations of one plan whose gpus have been read. Limits that are exceeded become findings (X0406)."""

    def __init__(self, plan: Plan, findings: Findings) -> None:
        self.plan: Plan = plan
        self.findings: Findings = findings
        self.moved: int = 0

    def read(self, item: Fields, tb: int, references: References) -> Operation:
        """One operation of the threadblock in row `tb`. Raises PlanError if it cannot be executed as written."""
        op = Operation(item.text("name"), tb, item.location)
        if op.name not in NAMES:
            why, instead = REFUSED.get(op.name, ("", f"one of {', '.join(NAMES)}"))
            raise item.error(f'operation "{op.name[:40]}"' + (f": {why}" if why else ""), instead, code="X0404")
        if "channel_type" in item.values:
            op.via = item.choice("channel_type", ALL_CHANNEL_TYPES)
        self._channels(op, item, references)
        _refuse_what_is_not_done(op, item)
        if op.name == "barrier":
            op.barrier = item.number("barrier_id"), item.number("num_threadblocks")
            rule = "the number of threadblocks that meet"
            _refuse_if(op.barrier[1] < 1, op, "num_threadblocks is 0", rule, code="X0402")
            self.limit(op.barrier[0] + 1, MAX_BARRIERS, "barriers of a gpu", op.location)
        if op.name.startswith("sem_"):
            numbers = item.items("semaphore_ids")
            for number in numbers:
                item_at(self.plan.semaphores[op.location.gpu], number, "semaphore", op.location)
            op.semaphores = [int(number) for number in numbers]
            self.limit(len(numbers), MAX_SEMAPHORES, "semaphores of an operation", op.location)
        if op.name != "flush":
            self._buffers(op, item, references)
        return op

    def limit(self, count: int, limit: int, what: str, location: FileLocation) -> None:
        """Add a finding if there are more of something than the runtime has room for."""
        if count > limit:
            self.findings.add(Finding("contract", "X0406", f"{count} {what}", location, f"at most {limit}"))

    def _channels(self, op: Operation, item: Fields, references: References) -> None:
        channels = references.channels.get(op.via, [])
        for number in item.items("channel_ids", optional=True):
            op.over.append(item_at(channels, number, "channel of the threadblock", op.location))
        self.limit(len(op.over), MAX_OP_CHANNELS, "channels of an operation", op.location)
        if op.name in (*SIGNALS, *WAITS, "flush"):
            _refuse_if(not op.over, op, f"{op.name} without channel_ids", "at least one")
            twice = len(set(op.over)) < len(op.over)
            _refuse_if(twice, op, f"{op.name} names a channel twice: two threads use it at once")
        if op.name in SIGNALS:
            op.signals = op.over
        if op.name in WAITS:
            op.waits = [(kind, peer, rank, number) for kind, rank, peer, number in op.over]

    def _buffers(self, op: Operation, item: Fields, references: References) -> None:
        entries = [item.items(name, optional=True) for name in ("src_buff", "dst_buff")]
        if op.via == "switch" or op.name in ("glres", "gstore"):
            op.moves = [self._over_switch(op, entries, references)]
            return
        sources, targets = ([self._slots(entry, op, references) for entry in side] for side in entries)
        most = max(len(sources), len(targets))
        self.limit(most, MAX_OP_BUFFERS, "buffers on one side of an operation", op.location)
        if op.name not in SHAPES:
            return
        roles = _roles_of_buffers(op, len(sources), len(targets))
        sizes = {slots.size for slots in sources + targets}
        _refuse_if(len(sizes) != 1, op, f"{op.name} with buffers of different sizes", "equal sizes")
        _refuse_other_effects(op, sources, targets)
        for side, wanted in zip((sources, targets), roles, strict=True):
            for number, (slots, role) in enumerate(zip(side, wanted, strict=True)):
                packets = role in (_OWN, _REMOTE)
                misplaced = slots.remote != (role in (_OTHERS, _REMOTE)) or (packets and slots.buffer != SCRATCH)
                _refuse_if(misplaced, op, f"{op.name} with a buffer in the wrong place", f"{role.value} there")
                side[number] = replace(slots, buffer=PACKETS) if packets else slots
        if op.name in _ONE_EACH:
            op.moves = [DataMove((source,), (target,)) for source, target in zip(sources, targets, strict=True)]
        else:
            op.moves = [DataMove(tuple(sources), tuple(targets))]

    def _over_switch(self, op: Operation, entries: list[list[Any]], references: References) -> DataMove:
        """The move of an operation over switch channels: with all gpus of these as sources or targets."""
        stores = op.name == "gstore"
        wrong = op.via != "switch" or op.name not in ("glres", "gstore") or [len(side) for side in entries] != [1, 1]
        text = f"{op.name} over {op.via or 'no'} channels, with {len(entries[0])} and {len(entries[1])} buffers"
        _refuse_if(wrong, op, text, "glres and gstore over switch channels, one buffer each side")
        source = [self._slots(entries[0][0], op, references)] if stores else self._of_all(entries[0][0], op, references)
        target = self._of_all(entries[1][0], op, references)
        wrong = source[0].size != target[0].size or (stores and source[0].remote)
        _refuse_if(wrong, op, f"{op.name} with buffers of different sizes, or a remote one")
        return DataMove(tuple(source), tuple(target))

    def _of_all(self, entry: object, op: Operation, references: References) -> list[SlotRange]:
        """The slots of all gpus of a switch channel."""
        item = Fields.of(entry, "buffer", op.location)
        channel = item_at(references.switches, item.values.get("switch_channel_id"), "switch channel", op.location)
        index, size = item.number("index"), item.number("size")
        ranges = [self._check_bounds(SlotRange(rank, channel.buffer, index, size), op) for rank in channel.ranks]
        return [replace(slots, caller=op.location.gpu if slots.gpu != op.location.gpu else -1) for slots in ranges]

    def _slots(self, entry: object, op: Operation, references: References) -> SlotRange:
        """The slots that an entry of src_buff or dst_buff names, inside their buffer (else X0405)."""
        item = Fields.of(entry, "buffer", op.location)
        index, size = item.number("index"), item.number("size")
        remote = "buffer_id" in item.values
        if remote:
            buffers = references.buffers.get(op.via, [])
            owner, buffer = item_at(buffers, item.values["buffer_id"], "remote buffer of the threadblock", op.location)
        else:
            owner, buffer = op.location.gpu, BUFFERS.index(item.choice("type", BUFFERS))
        return self._check_bounds(SlotRange(owner, buffer, index, size, op.location.gpu if remote else -1), op)

    def _check_bounds(self, slots: SlotRange, op: Operation) -> SlotRange:
        """The slots, if they are inside their buffer (else X0405)."""
        limit, index, size = self.plan.chunks[slots.gpu][slots.buffer], slots.index, slots.size
        text = f"{BUFFERS[slots.buffer]}[{index} .. {index + size - 1}] of gpu {slots.gpu} is outside the buffer"
        _refuse_if(size < 1 or index + size > limit, op, text, f"within its {limit} chunks", code="X0405")
        self.moved += size
        text = "operations move too many chunks to be checked"
        _refuse_if(self.moved > MAX_MOVED, op, text, f"at most {MAX_MOVED}", code="X0406")
        return slots


def _refuse_if(condition: bool, op: Operation, text: str, expected: str = "", *, code: str = "X0404") -> None:
    if condition:
        raise PlanError(code, text, op.location, expected)


def _refuse_what_is_not_done(op: Operation, item: Fields) -> None:
    """Raise PlanError (X0404) for what the runtime ignores, and for what the check cannot judge."""
    adds = item.values.get("reduce_op", "sum")
    _refuse_if(adds != "sum", op, f"reduce_op {str(adds)[:20]!a}: the runtime always adds", '"sum"')
    text = "tbg_info: collc cannot judge operations that several threadblocks share"
    _refuse_if("tbg_info" in item.values, op, text)
    text = f"{op.name} on memory channels: the runtime puts and never signals"
    _refuse_if(op.name in ("pws", "pwsf") and op.via != "port", op, text, "put, nop, signal")
    idle = op.name in (*SIGNALS, *WAITS) and op.via == "switch"
    _refuse_if(idle, op, f"{op.name} over switch channels does nothing", "memory or port channels")
    if op.name == "flush":
        text = f"flush over {op.via or 'no'} channels: the runtime flushes port channels of these numbers"
        _refuse_if(op.via != "port", op, text, "port channels")
        count = len(item.items("dst_buff", optional=True))
        text = f"flush of {len(op.over)} channels: the runtime counts the entries of dst_buff instead, {count}"
        _refuse_if(count < len(op.over), op, text, "an entry of dst_buff for each channel")


def _roles_of_buffers(op: Operation, sources: int, targets: int) -> list[list[Role]]:
    """The roles of the sources and the targets of an operation, given their numbers. Raises PlanError (X0404)."""
    first_source, source, first_target, target = SHAPES[op.name]
    text, rule = f"{op.name} with {sources} sources and {targets} targets", f"{len(first_source)} and "
    roles: list[list[Role]] = []
    for first, further, count in ((first_source, source, sources), (first_target, target, targets)):
        wrong = count < len(first) or (further is None and count > len(first))
        _refuse_if(wrong, op, text, f"{rule}{len(first_target)}, or more")
        roles.append([*first, *([further] if further is not None else []) * (count - len(first))])
    _refuse_if(op.name in _ONE_EACH and sources != targets, op, text, "as many")
    if op.via == "port":
        rule = "memory channels, or rppkt of packets in its own scratch"
        _refuse_if(op.name not in _OVER_PORTS, op, f"{op.name} over port channels", rule)
        wrong = op.name in (*PUTS, "rppkt") and len(op.over) != targets
        _refuse_if(wrong, op, f"{op.name} over {len(op.over)} channels to {targets} buffers", "one each")
    return roles


def _refuse_other_effects(op: Operation, sources: list[SlotRange], targets: list[SlotRange]) -> None:
    """Raise PlanError (X0404) if the runtime moves other slots than the plan names (section 6.5)."""
    swapped = op.name == "get" and any(a.index != b.index for a, b in zip(sources, targets, strict=True))
    text = "get with different indices: the runtime swaps the indices of src and dst"
    _refuse_if(swapped, op, text, "the same index on both sides, or a put of the other gpu")
    mixed = op.name in ("put", "ppkt") and op.via == "memory" and len({slots.buffer for slots in sources}) > 1
    text = f"{op.name} from buffers of several types: the runtime reads all from the first one's"
    _refuse_if(mixed, op, text, f"one {op.name} for each type")
