"""The contents of an MSCCL file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from collc.msccl.check.collectives import canonical
from collc.msccl.check.contract import check_contract, check_selection
from collc.msccl.check.findings import Findings, diagnostics
from collc.msccl.check.model import BUFFERS, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.inspecting.inspection import DrawnGpu, DrawnStep, Inspection
from collc.msccl.interpreter.operations import READS_SOURCE, RECEIVES, SENDS, WRITES, StepKind
from collc.msccl.interpreter.replay import longest_chain

COLORS: Final = {"s": 0, "r": 5, "rcs": 2, "rrs": 1, "rrc": 4, "rrcs": 3, "cpy": 6, "re": 7, "nop": -1}

COLUMNS: Final = {
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
    gpus = [_row(program, gpu) for gpu in range(program.ngpus)]
    warnings = tuple(message for message in diagnostics(findings, path) if message.warning)
    name, drawn = program.name or "MSCCL program", partial(_drawn_gpu, program)
    return Inspection(name, program.coll, totals, gpus, COLUMNS, COLORS, drawn, warnings)


def _row(program: FileProgram, gpu: int) -> dict[str, object]:
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


def _drawn_gpu(program: FileProgram, gpu: int) -> DrawnGpu:
    chunks = ", ".join(f"{name}: {size}" for name, size in zip(BUFFERS, program.chunks[gpu].tolist(), strict=True))
    tbs, rows = program.tbs, list[tuple[str, list[DrawnStep]]]()
    for row in range(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1])):
        ends = (("\u2192", tbs.send[row]), ("\u2190", tbs.recv[row]))
        peers = " ".join(f"{arrow} {peer}" for arrow, peer in ends if peer >= 0)
        steps = range(int(tbs.first[row]), int(tbs.first[row + 1]))
        rows.append((f"tb {tbs.id[row]}, channel {tbs.chan[row]}  {peers}", [_box(program, step) for step in steps]))
    return DrawnGpu(f"GPU {gpu} ({chunks})", rows)


def _box(program: FileProgram, step: int) -> DrawnStep:
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
