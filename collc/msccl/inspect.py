"""What is in an MSCCL file, for people: a row per GPU, totals, and a picture of its threadblocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import numpy as np

from collc.diagnostics import CheckFailed
from collc.msccl.check.connections import connect
from collc.msccl.check.findings import Findings, diagnostics, unreadable
from collc.msccl.check.model import BUFFERS, READS_SOURCE, RECEIVES, SENDS, WRITES, FileProgram, Kind
from collc.msccl.check.reader import Profile, Reader
from collc.msccl.check.replay import UNLIMITED, replay, waits

COLORS: Final = {
    Kind.S: "#4c78a8",
    Kind.R: "#72b7b2",
    Kind.RCS: "#54a24b",
    Kind.RRS: "#f58518",
    Kind.RRC: "#eeca3b",
    Kind.RRCS: "#e45756",
    Kind.CPY: "#b0b0b0",
    Kind.RE: "#b279a2",
    Kind.NOP: "#e8e8e8",
}
DRAWN_GPUS: Final = 16
_CELL: Final = 46
_ROW: Final = 22
_LABEL: Final = 210


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU: its threadblocks, the peers that it sends to and receives from, its channels and steps.

    longest: most steps of one threadblock. kinds: how many steps of each operation. chunks: i, o, s.
    """

    gpu: int
    threadblocks: int
    sends_to: tuple[int, ...]
    receives_from: tuple[int, ...]
    channels: tuple[int, ...]
    steps: int
    longest: int
    kinds: dict[str, int]
    dependencies: int
    chunks: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Inspection:
    """A file's rows and totals.

    messages: chunks sent over all connections. fused: share of the moving steps that receive and send at
    once (rcs, rrs, rrcs), in percent. chain: steps on the longest chain of program order, messages and
    dependencies, 0 if the program never ends.
    """

    name: str
    coll: str
    proto: str
    nchunksperloop: int
    gpus: tuple[GpuRow, ...]
    connections: int
    channels: int
    threadblocks: int
    steps: int
    messages: int
    scratch: int
    fused: int
    chain: int
    program: FileProgram


def inspect_file(path: Path, profile: Profile = "executor") -> Inspection:
    """Read a file and count. Raises UsageError where it can't be opened, CheckFailed where it can't be read."""
    findings = Findings()
    try:
        program = Reader(profile, findings).read(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if program is None:
        raise CheckFailed(*(told for told in diagnostics(findings, path) if not told.warning))
    connections, kinds = connect(program), program.steps.kind
    moving = SENDS[kinds] | RECEIVES[kinds]
    both = SENDS[kinds] & RECEIVES[kinds]
    return Inspection(
        name=program.name,
        coll=program.coll,
        proto=program.proto,
        nchunksperloop=program.nchunksperloop,
        gpus=tuple(_row(program, gpu) for gpu in range(program.ngpus)),
        connections=len(connections),
        channels=len(np.unique(program.tbs.chan)),
        threadblocks=len(program.tbs),
        steps=len(program.steps),
        messages=int(program.steps.cnt[SENDS[kinds]].sum()),
        scratch=int(program.chunks[:, 2].sum()),
        fused=int(100 * both.sum() // max(1, int(moving.sum()))),
        chain=_longest_chain(program),
        program=program,
    )


def _row(program: FileProgram, gpu: int) -> GpuRow:
    tbs = program.tbs
    rows = slice(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1]))
    steps = slice(int(tbs.first[rows.start]), int(tbs.first[rows.stop]))
    kinds = np.bincount(program.steps.kind[steps], minlength=len(Kind))
    chunks = program.chunks[gpu].tolist()
    return GpuRow(
        gpu,
        rows.stop - rows.start,
        tuple(np.unique(tbs.send[rows][tbs.send[rows] >= 0]).tolist()),
        tuple(np.unique(tbs.recv[rows][tbs.recv[rows] >= 0]).tolist()),
        tuple(np.unique(tbs.chan[rows]).tolist()),
        steps.stop - steps.start,
        int(np.diff(tbs.first[rows.start : rows.stop + 1]).max(initial=0)),
        {kind.name.lower(): int(kinds[kind]) for kind in Kind if kinds[kind]},
        int((program.steps.depid[steps] >= 0).sum()),
        (chunks[0], chunks[1], chunks[2]),
    )


def _longest_chain(program: FileProgram) -> int:
    """Longest path over steps; 0 where a run with endless FIFOs does not end."""
    program_waits = waits(program, connect(program))
    if -1 in program_waits.sender or -1 in program_waits.receiver or not _sound(program):
        return 0
    order, halted = replay(program_waits, [1] * len(program.steps), UNLIMITED)
    if halted:
        return 0
    depth = [0] * len(program.steps)
    sent: dict[int, deque[int]] = {}
    for step in order:
        first = program_waits.first[program_waits.tb[step]]
        before = depth[step - 1] if step > first else 0
        on = program_waits.needs_tb[step]
        if on >= 0:
            source = program_waits.sets.index(True, program_waits.first[on] + program_waits.needs_step[step])
            before = max(before, depth[source])
        if program_waits.receives[step] >= 0:
            before = max(before, sent[program_waits.receives[step]].popleft())
        depth[step] = before + 1
        if program_waits.sends[step] >= 0:
            sent.setdefault(program_waits.sends[step], deque()).append(depth[step])
    return max(depth, default=0)


def _sound(program: FileProgram) -> bool:
    """Whether dependencies name threadblocks that exist, and moving steps stand where there is a peer."""
    steps, tbs = program.steps, program.tbs
    count = np.diff(program.gpu_first)[program.step_gpu]
    peers = (~SENDS[steps.kind] | (tbs.send[steps.tb] >= 0)) & (~RECEIVES[steps.kind] | (tbs.recv[steps.tb] >= 0))
    return bool((steps.depid < count).all() and peers.all())


def svg(inspection: Inspection) -> str:
    """The threadblocks as rows of steps, coloured by operation; the first 16 GPUs of large files."""
    program = inspection.program
    drawn = min(program.ngpus, DRAWN_GPUS)
    last = int(program.gpu_first[drawn])
    longest = int(np.diff(program.tbs.first[: last + 1]).max(initial=0))
    width = max(_LABEL + longest * _CELL + 20, 640)
    height = 70 + drawn * 26 + last * _ROW + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(10, 22, _title(inspection, drawn), 15),
        *_legend(),
        *_gpus(program, drawn),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _title(inspection: Inspection, drawn: int) -> str:
    ranks = inspection.program.ngpus
    some = f" (GPUs 0 .. {drawn - 1} of {ranks})" if drawn < ranks else ""
    name = inspection.name or "MSCCL program"
    return f"{name}: {inspection.coll}, {ranks} GPUs, {inspection.threadblocks} threadblocks{some}"


def _legend() -> Iterator[str]:
    for place, (kind, color) in enumerate(COLORS.items()):
        yield f'<rect x="{10 + place * 62}" y="34" width="14" height="14" fill="{color}" stroke="#555"/>'
        yield _text(28 + place * 62, 46, kind.name.lower(), 12)


def _gpus(program: FileProgram, drawn: int) -> Iterator[str]:
    y = 70
    for gpu in range(drawn):
        chunks = ", ".join(f"{name}: {size}" for name, size in zip(BUFFERS, program.chunks[gpu].tolist(), strict=True))
        yield _text(10, y + 15, f"GPU {gpu} ({chunks})", 13)
        y += 26
        for row in range(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1])):
            yield from _threadblock(program, row, y)
            y += _ROW


def _threadblock(program: FileProgram, row: int, y: int) -> Iterator[str]:
    tbs = program.tbs
    peers = [f"{arrow} {peer}" for arrow, peer in (("\u2192", tbs.send[row]), ("\u2190", tbs.recv[row])) if peer >= 0]
    yield _text(24, y + 14, f"tb {tbs.id[row]}, channel {tbs.chan[row]}  {' '.join(peers)}", 11)
    for place, step in enumerate(range(int(tbs.first[row]), int(tbs.first[row + 1]))):
        x = _LABEL + place * _CELL
        kind = Kind(int(program.steps.kind[step]))
        border = "#000" if program.steps.hasdep[step] else "#999"
        box = f'width="{_CELL - 3}" height="{_ROW - 4}" fill="{COLORS[kind]}" stroke="{border}"'
        yield f'<g><rect x="{x}" y="{y}" {box}/><title>{escape(_describe(program, step))}</title>'
        yield f"{_text(x + 3, y + 13, _short(program, step, kind), 9)}</g>"


def _short(program: FileProgram, step: int, kind: Kind) -> str:
    steps = program.steps
    if kind is Kind.NOP:
        return "nop"
    buffer, offset = (steps.dstbuf, steps.dstoff) if WRITES[kind] else (steps.srcbuf, steps.srcoff)
    count = f"\u00d7{steps.cnt[step]}" if steps.cnt[step] > 1 else ""
    return f"{BUFFERS[buffer[step]]}{offset[step]}{count}"


def _describe(program: FileProgram, step: int) -> str:
    """A step in words, for the tooltip."""
    steps = program.steps
    kind = Kind(int(steps.kind[step]))
    parts = [f"step {program.position[step]}: {kind.name.lower()}"]
    if READS_SOURCE[kind]:
        parts.append(f"reads {BUFFERS[steps.srcbuf[step]]}[{steps.srcoff[step]}]")
    if WRITES[kind]:
        parts.append(f"writes {BUFFERS[steps.dstbuf[step]]}[{steps.dstoff[step]}]")
    if kind is not Kind.NOP:
        parts.append(f"cnt {steps.cnt[step]}")
    if steps.depid[step] >= 0:
        parts.append(f"waits for tb {steps.depid[step]} step {steps.deps[step]}")
    return ", ".join(parts)


def _text(x: int, y: int, text: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'
