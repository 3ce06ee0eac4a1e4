"""The contents of an MSCCL++ plan."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from collc.msccl.check.findings import Findings
from collc.msccl.check.model import BUFFERS as PLAIN_BUFFERS
from collc.msccl.check_plan.model import SIGNALS, Operation, Plan, SlotRange
from collc.msccl.check_plan.reader import read_plan
from collc.msccl.inspecting.inspection import DrawnGpu, DrawnStep, Inspection, ranges

BUFFERS: Final = (*PLAIN_BUFFERS, "p")
"""Names of buffers by number; the last one holds packets."""

COLORS: Final = {
    **dict.fromkeys(("put", "pws", "get", "ppkt", "rppkt", "gstore"), 0),
    **dict.fromkeys(("re", "rre", "repkt", "recpkt"), 4),
    **dict.fromkeys(("res", "rres", "respkt", "recspkt", "glres"), 3),
    **dict.fromkeys(("copy", "cpkt", "upkt"), 6),
    **dict.fromkeys(("signal", "rlxsignal"), 2),
    **dict.fromkeys(("wait", "rlxwait"), 5),
    **dict.fromkeys(("sem_acquire", "sem_release", "barrier", "flush"), 1),
    "nop": -1,
}

COLUMNS: Final = {
    "gpu": "gpu",
    "tbs": "threadblocks",
    "signals": "signals",
    "waits": "waits_for",
    "channels": "channels",
    "ops": "operations",
    "longest": "longest",
    "sems": "semaphores",
    "i/o/s": "chunks",
}
"""Headings of the table of GPUs: threadblocks, peers that it signals and waits for, channels, operations in all and of
the longest threadblock, semaphores, chunks.
"""

_SHORT: Final = {
    "signal": "sig",
    "rlxsignal": "rsig",
    "rlxwait": "rwait",
    "sem_acquire": "acq",
    "sem_release": "rel",
    "barrier": "bar",
    "flush": "flush",
}


def inspect_plan(path: Path, _profile: str = "") -> Inspection:
    """Read a plan and count. Raises UsageError if it can't be opened, CheckFailed if it can't be read."""
    plan = read_plan(path, Findings())
    ops = [op for block in plan.threadblocks for op in block]
    totals = {
        "name": plan.name,
        "coll": plan.collective,
        "protocol": plan.protocol,
        "inplace": plan.inplace,
        "threadblocks": len(plan.threadblocks),
        "operations": len(ops),
        "signals": sum(len(op.signals) for op in ops),
        "scratch": sum(chunks[2] for chunks in plan.chunks),
    }
    gpus = [_row(plan, gpu) for gpu in range(len(plan.chunks))]
    return Inspection(plan.name, plan.collective, totals, gpus, COLUMNS, COLORS, partial(_drawn_gpu, plan))


def _row(plan: Plan, gpu: int) -> dict[str, object]:
    """A GPU. longest: most operations of one threadblock. chunks: input, output, scratch."""
    blocks = [ops for ops, owner in zip(plan.threadblocks, plan.gpu_of, strict=True) if owner == gpu]
    ops = [op for block in blocks for op in block]
    return {
        "gpu": gpu,
        "threadblocks": len(blocks),
        "signals": tuple(sorted({channel[2] for op in ops for channel in op.signals})),
        "waits_for": tuple(sorted({channel[1] for op in ops for channel in op.waits})),
        "channels": len({channel for op in ops for channel in op.over}),
        "operations": len(ops),
        "longest": max(map(len, blocks), default=0),
        "semaphores": len(plan.semaphores[gpu]),
        "chunks": plan.chunks[gpu],
    }


def _drawn_gpu(plan: Plan, gpu: int) -> DrawnGpu:
    rows: list[tuple[str, list[DrawnStep]]] = []
    for ops, owner in zip(plan.threadblocks, plan.gpu_of, strict=True):
        if owner == gpu:
            to = sorted({channel[2] for op in ops for channel in op.over})
            peers = f"  channels to {ranges(to)}" if to else ""
            rows.append((f"tb {len(rows)}{peers}", [_box(op) for op in ops]))
    chunks = ", ".join(f"{name}: {size}" for name, size in zip(PLAIN_BUFFERS, plan.chunks[gpu], strict=True))
    return DrawnGpu(f"GPU {gpu} ({chunks})", rows)


def _box(op: Operation) -> DrawnStep:
    moves = [f"{_slots(op, *move.sources)} to {_slots(op, *move.targets)}" for move in op.moves]
    peers = [f"with GPU {ranges(sorted({channel[2] for channel in op.over}))}"] if op.over else []
    numbers = [f"semaphores {ranges(sorted(op.semaphores))}"] if op.semaphores else []
    tip = ", ".join([f"{op.location.step}: {op.name}", *moves, *peers, *numbers])
    return DrawnStep(_label(op), op.name, op.name in (*SIGNALS, "sem_release"), tip)


def _label(op: Operation) -> str:
    if op.moves:
        target = op.moves[0].targets[-1]
        count = f"\u00d7{target.size}" if target.size > 1 else ""
        return f"{op.name} {BUFFERS[target.buffer]}{target.index}{count}"
    if op.semaphores:
        return f"{_SHORT[op.name]} {ranges(sorted(op.semaphores))}"
    peers = ranges(sorted({channel[2] for channel in op.over}))
    return f"{_SHORT.get(op.name, op.name)} {peers}".rstrip()


def _slots(op: Operation, *slots: SlotRange) -> str:
    """Slots as text; slots of another GPU name it."""
    return " + ".join(
        f"{BUFFERS[s.buffer]}[{s.index}]" + (f" of GPU {s.gpu}" if s.gpu != op.location.gpu else "") for s in slots
    )
