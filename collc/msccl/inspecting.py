"""What a file for a runtime contains: totals, a row for each GPU, and its threadblocks for a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import Diagnostic
from collc.msccl.check.collectives import canonical
from collc.msccl.check.contract import check_contract, check_selection
from collc.msccl.check.findings import Findings, diagnostics
from collc.msccl.check.model import BUFFERS, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.check_plan.model import SIGNALS, Operation, Plan, SlotRange
from collc.msccl.check_plan.reader import read_plan
from collc.runtime.operations import READS_SOURCE, RECEIVES, SENDS, WRITES, StepKind
from collc.runtime.replay import longest_chain


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step: its label, its kind, whether other steps wait for it, and its tooltip."""

    text: str
    kind: str
    awaited: bool
    tip: str


@dataclass(frozen=True, slots=True)
class DrawnGpu:
    """A GPU: its heading, and its threadblocks as (label, boxes)."""

    heading: str
    rows: Sequence[tuple[str, Sequence[DrawnStep]]]


@dataclass(frozen=True, eq=False)
class Inspection:
    """The contents of a file.

    name, coll: of the file and its collective. totals: by name. gpus: by GPU, each a value by name; peers and channels
    are ascending numbers. columns: heading of the table -> name of the value. colors: number of the colour by kind of
    step; -1: none. drawn: the threadblocks of a GPU. warnings: why the runtime may never select the file.
    """

    name: str
    coll: str
    totals: Mapping[str, Any]
    gpus: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    colors: Mapping[str, int]
    drawn: Callable[[int], DrawnGpu]
    warnings: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The rows and totals, as `inspect --json` prints them."""
        return {**self.totals, "gpus": list(self.gpus)}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows."""
        rows = [tuple(_cell(name, row[name]) for name in self.columns.values()) for row in self.gpus]
        return tuple(self.columns), rows


def _cell(name: str, value: Any) -> str:  # noqa: ANN401
    if isinstance(value, int):
        return str(value)
    return "/".join(map(str, value)) if name == "chunks" else ranges(value)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `0-3 5 8-9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return " ".join("-".join(map(str, bounds)) for bounds in parts)


_STEP_COLORS: Final = {"s": 0, "r": 5, "rcs": 2, "rrs": 1, "rrc": 4, "rrcs": 3, "cpy": 6, "re": 7, "nop": -1}

_FILE_COLUMNS: Final = {
    "gpu": "gpu",
    "tbs": "threadblocks",
    "to": "sends_to",
    "from": "receives_from",
    "channels": "channels",
    "steps": "steps",
    "longest": "longest",
    "i/o/s": "chunks",
}
"""Headings of the table of GPUs: threadblocks, peers, channels, steps in all and in the longest threadblock, chunks."""


def inspect_file(path: Path, profile: Profile = "executor") -> Inspection:
    """Read an MSCCL file and count. Raises UsageError if it can't be opened, CheckFailed if it can't be read.

    messages: chunks sent over all connections. fused: share of the moving steps that receive and send at once (rcs,
    rrs, rrcs), in percent. chain: steps on the longest chain of program order, messages and dependencies, 0 if the
    program never ends or its contract is broken.
    """
    findings = Findings()
    program = read_file(path, profile, findings)
    kinds, mistakes = program.steps.kind, Findings()
    check_contract(program, mistakes, canonical(program.coll))
    check_selection(program, findings)
    moving = SENDS[kinds] | RECEIVES[kinds]
    both = SENDS[kinds] & RECEIVES[kinds]
    totals = {
        "name": program.name,
        "coll": program.coll,
        "proto": program.proto,
        "nchunksperloop": program.nchunksperloop,
        "connections": len(program.connections),
        "channels": len(np.unique(program.tbs.chan)),
        "threadblocks": len(program.tbs),
        "steps": len(program.steps),
        "messages": int(program.steps.cnt[SENDS[kinds]].sum()),
        "scratch": int(program.chunks[:, 2].sum()),
        "fused": int(100 * both.sum() // max(1, int(moving.sum()))),
        "chain": 0 if mistakes.broken else longest_chain(program.waits),
    }
    gpus = [_file_row(program, gpu) for gpu in range(program.ngpus)]
    warnings = tuple(message for message in diagnostics(findings, path) if message.warning)
    name, drawn = program.name or "MSCCL program", partial(_file_gpu, program)
    return Inspection(name, program.coll, totals, gpus, _FILE_COLUMNS, _STEP_COLORS, drawn, warnings)


def _file_row(program: FileProgram, gpu: int) -> dict[str, object]:
    """A GPU. longest: most steps of one threadblock. kinds: how many steps of each operation. chunks: i, o, s."""
    tbs = program.tbs
    rows = slice(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1]))
    steps = slice(int(tbs.first[rows.start]), int(tbs.first[rows.stop]))
    kinds = np.bincount(program.steps.kind[steps], minlength=len(StepKind))
    return {
        "gpu": gpu,
        "threadblocks": rows.stop - rows.start,
        "sends_to": tuple(np.unique(tbs.send[rows][tbs.send[rows] >= 0]).tolist()),
        "receives_from": tuple(np.unique(tbs.recv[rows][tbs.recv[rows] >= 0]).tolist()),
        "channels": tuple(np.unique(tbs.chan[rows]).tolist()),
        "steps": steps.stop - steps.start,
        "longest": int(np.diff(tbs.first[rows.start : rows.stop + 1]).max(initial=0)),
        "kinds": {kind.name.lower(): int(kinds[kind]) for kind in StepKind if kinds[kind]},
        "dependencies": int((program.steps.depid[steps] >= 0).sum()),
        "chunks": tuple(program.chunks[gpu].tolist()),
    }


def _file_gpu(program: FileProgram, gpu: int) -> DrawnGpu:
    chunks = ", ".join(f"{name}: {size}" for name, size in zip(BUFFERS, program.chunks[gpu].tolist(), strict=True))
    tbs, rows = program.tbs, list[tuple[str, list[DrawnStep]]]()
    for row in range(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1])):
        ends = (("\u2192", tbs.send[row]), ("\u2190", tbs.recv[row]))
        peers = " ".join(f"{arrow} {peer}" for arrow, peer in ends if peer >= 0)
        steps = range(int(tbs.first[row]), int(tbs.first[row + 1]))
        rows.append(
            (f"tb {tbs.id[row]}, channel {tbs.chan[row]}  {peers}", [_step_box(program, step) for step in steps])
        )
    return DrawnGpu(f"GPU {gpu} ({chunks})", rows)


def _step_box(program: FileProgram, step: int) -> DrawnStep:
    steps, kind = program.steps, StepKind(int(program.steps.kind[step]))
    name, label, count = kind.name.lower(), "nop", int(steps.cnt[step])
    details = [f"step {program.position[step]}: {name}"]
    if READS_SOURCE[kind]:
        details.append(f"reads {BUFFERS[steps.srcbuf[step]]}[{steps.srcoff[step]}]")
    if WRITES[kind]:
        details.append(f"writes {BUFFERS[steps.dstbuf[step]]}[{steps.dstoff[step]}]")
    if kind is not StepKind.NOP:
        details.append(f"cnt {count}")
        buffer, offset = (steps.dstbuf, steps.dstoff) if WRITES[kind] else (steps.srcbuf, steps.srcoff)
        label = f"{BUFFERS[buffer[step]]}{offset[step]}" + (f"\u00d7{count}" if count > 1 else "")
    if steps.depid[step] >= 0:
        details.append(f"waits for tb {steps.depid[step]} step {steps.deps[step]}")
    return DrawnStep(label, name, bool(steps.hasdep[step]), ", ".join(details))


_BUFFERS: Final = (*BUFFERS, "p")
"""Names of buffers by number; the last one holds packets."""

_OP_COLORS: Final = {
    **dict.fromkeys(("put", "pws", "pwsf", "get", "ppkt", "rppkt", "gstore"), 0),
    **dict.fromkeys(("re", "rre", "repkt", "recpkt"), 4),
    **dict.fromkeys(("res", "rres", "respkt", "recspkt", "glres"), 3),
    **dict.fromkeys(("copy", "cpkt", "upkt"), 6),
    **dict.fromkeys(("signal", "rlxsignal"), 2),
    **dict.fromkeys(("wait", "rlxwait"), 5),
    **dict.fromkeys(("sem_acquire", "sem_release", "barrier", "flush"), 1),
    "nop": -1,
}

_PLAN_COLUMNS: Final = {
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
    gpus = [_plan_row(plan, gpu) for gpu in range(len(plan.chunks))]
    return Inspection(plan.name, plan.collective, totals, gpus, _PLAN_COLUMNS, _OP_COLORS, partial(_plan_gpu, plan))


def _plan_row(plan: Plan, gpu: int) -> dict[str, object]:
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


def _plan_gpu(plan: Plan, gpu: int) -> DrawnGpu:
    rows: list[tuple[str, list[DrawnStep]]] = []
    for ops, owner in zip(plan.threadblocks, plan.gpu_of, strict=True):
        if owner == gpu:
            to = sorted({channel[2] for op in ops for channel in op.over})
            peers = f"  channels to {ranges(to)}" if to else ""
            rows.append((f"tb {len(rows)}{peers}", [_operation_box(op) for op in ops]))
    chunks = ", ".join(f"{name}: {size}" for name, size in zip(BUFFERS, plan.chunks[gpu], strict=True))
    return DrawnGpu(f"GPU {gpu} ({chunks})", rows)


def _operation_box(op: Operation) -> DrawnStep:
    moves = [f"{_slots(op, *move.sources)} to {_slots(op, *move.targets)}" for move in op.moves]
    peers = [f"with GPU {ranges(sorted({channel[2] for channel in op.over}))}"] if op.over else []
    numbers = [f"semaphores {ranges(sorted(op.semaphores))}"] if op.semaphores else []
    tip = ", ".join([f"{op.location.step}: {op.name}", *moves, *peers, *numbers])
    return DrawnStep(_label(op), op.name, op.name in (*SIGNALS, "sem_release"), tip)


def _label(op: Operation) -> str:
    if op.moves:
        target = op.moves[0].targets[-1]
        count = f"\u00d7{target.size}" if target.size > 1 else ""
        return f"{op.name} {_BUFFERS[target.buffer]}{target.index}{count}"
    if op.semaphores:
        return f"{_SHORT[op.name]} {ranges(sorted(op.semaphores))}"
    peers = ranges(sorted({channel[2] for channel in op.over}))
    return f"{_SHORT.get(op.name, op.name)} {peers}".rstrip()


def _slots(op: Operation, *slots: SlotRange) -> str:
    """Slots as text; slots of another GPU name it."""
    return " + ".join(
        f"{_BUFFERS[s.buffer]}[{s.index}]" + (f" of GPU {s.gpu}" if s.gpu != op.location.gpu else "") for s in slots
    )
