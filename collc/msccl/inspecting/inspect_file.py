"""The contents of an MSCCL file: a row for each GPU, totals, and a picture of its threadblocks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic
from collc.msccl.check.connections import connect, waits_of
from collc.msccl.check.contract import check_selection
from collc.msccl.check.findings import Findings, diagnostics
from collc.msccl.check.model import BUFFERS, FileProgram, Profile
from collc.msccl.check.reader import read_file
from collc.msccl.file_kinds import kind_of_program
from collc.msccl.inspecting.inspect_plan import PlanInspection, inspect_plan
from collc.msccl.inspecting.picture import DRAWN_GPUS, DrawnGpu, DrawnStep, draw, ranges
from collc.msccl.interpreter.operations import READS_SOURCE, RECEIVES, SENDS, WRITES, StepKind
from collc.msccl.interpreter.replay import longest_chain

COLORS: Final = {
    "s": "#8fb4dc",
    "r": "#9fd5d0",
    "rcs": "#98cf8f",
    "rrs": "#fbbf77",
    "rrc": "#f5e08a",
    "rrcs": "#f0989a",
    "cpy": "#cfcfcf",
    "re": "#d3a9cb",
    "nop": "#f2f2f2",
}
"""Colours of operations, light enough for black letters."""


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

    def cells(self) -> tuple[str, ...]:
        """The cells of its row in a table with `COLUMNS`."""
        peers = ranges(self.sends_to), ranges(self.receives_from)
        counts = str(self.steps), str(self.longest), "/".join(map(str, self.chunks))
        return str(self.gpu), str(self.threadblocks), *peers, ranges(self.channels), *counts


_TOTALS: Final = (
    *("name", "coll", "proto", "nchunksperloop", "connections", "channels"),
    *("threadblocks", "steps", "messages", "scratch", "fused", "chain"),
)
COLUMNS: Final = ("gpu", "tbs", "to", "from", "channels", "steps", "longest", "i/o/s")
"""Headings of the table of GPUs: threadblocks, peers, channels, steps in all and in the longest threadblock, chunks."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """A file's rows and totals.

    messages: chunks sent over all connections. fused: share of the moving steps that receive and send at
    once (rcs, rrs, rrcs), in percent. chain: steps on the longest chain of program order, messages and
    dependencies, 0 if the program never ends. warnings: why the runtime may never select the file.
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
    warnings: tuple[Diagnostic, ...]

    def totals(self) -> dict[str, object]:
        """The totals of the file, by name."""
        return {name: getattr(self, name) for name in _TOTALS}

    def as_json(self) -> dict[str, object]:
        """The rows and totals, as `inspect --json` prints them."""
        return {**self.totals(), "gpus": [asdict(row) for row in self.gpus]}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows."""
        return COLUMNS, [row.cells() for row in self.gpus]

    def svg(self) -> str:
        """The threadblocks as rows of steps, coloured by operation; the first 16 GPUs of large files."""
        program, ranks = self.program, self.program.ngpus
        drawn = min(ranks, DRAWN_GPUS)
        some = f" (GPUs 0 .. {drawn - 1} of {ranks})" if drawn < ranks else ""
        what = f"{self.coll}, {ranks} GPUs, {self.threadblocks} threadblocks"
        name = self.name or "MSCCL program"
        return draw(f"{name}: {what}{some}", COLORS, [_group(program, gpu) for gpu in range(drawn)])


def inspection_of(path: Path, profile: Profile = "executor") -> Inspection | PlanInspection:
    """Inspect an MSCCL file or an MSCCL++ plan, which `file_kinds` distinguishes.

    Raises UsageError if it can't be opened, is a schedule or source text, CheckFailed if it can't be read.
    """
    return inspect_plan(path) if kind_of_program(path) == "mscclpp" else inspect_file(path, profile)


def inspect_file(path: Path, profile: Profile = "executor") -> Inspection:
    """Read a file and count. Raises UsageError if it can't be opened, CheckFailed if it can't be read."""
    findings = Findings()
    program = read_file(path, profile, findings)
    connections, kinds = connect(program), program.steps.kind
    check_selection(program, connections, findings)
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
        chain=_chain(program),
        program=program,
        warnings=tuple(message for message in diagnostics(findings, path) if message.warning),
    )


def _row(program: FileProgram, gpu: int) -> GpuRow:
    tbs = program.tbs
    rows = slice(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1]))
    steps = slice(int(tbs.first[rows.start]), int(tbs.first[rows.stop]))
    kinds = np.bincount(program.steps.kind[steps], minlength=len(StepKind))
    chunks = program.chunks[gpu].tolist()
    return GpuRow(
        gpu,
        rows.stop - rows.start,
        tuple(np.unique(tbs.send[rows][tbs.send[rows] >= 0]).tolist()),
        tuple(np.unique(tbs.recv[rows][tbs.recv[rows] >= 0]).tolist()),
        tuple(np.unique(tbs.chan[rows]).tolist()),
        steps.stop - steps.start,
        int(np.diff(tbs.first[rows.start : rows.stop + 1]).max(initial=0)),
        {kind.name.lower(): int(kinds[kind]) for kind in StepKind if kinds[kind]},
        int((program.steps.depid[steps] >= 0).sum()),
        (chunks[0], chunks[1], chunks[2]),
    )


def _chain(program: FileProgram) -> int:
    """Steps on the longest chain; 0 if the program cannot run."""
    waits = waits_of(program, connect(program))
    return 0 if -1 in (*waits.sender, *waits.receiver) or not _sound(program) else longest_chain(waits)


def _sound(program: FileProgram) -> bool:
    """Whether dependencies name existing threadblocks, and steps that send or receive have a peer."""
    steps, tbs = program.steps, program.tbs
    count = np.diff(program.gpu_first)[program.step_gpu]
    peers = (~SENDS[steps.kind] | (tbs.send[steps.tb] >= 0)) & (~RECEIVES[steps.kind] | (tbs.recv[steps.tb] >= 0))
    return bool((steps.depid < count).all() and peers.all())


def _group(program: FileProgram, gpu: int) -> DrawnGpu:
    chunks = ", ".join(f"{name}: {size}" for name, size in zip(BUFFERS, program.chunks[gpu].tolist(), strict=True))
    tbs, rows = program.tbs, list[tuple[str, list[DrawnStep]]]()
    for row in range(int(program.gpu_first[gpu]), int(program.gpu_first[gpu + 1])):
        ends = (("\u2192", tbs.send[row]), ("\u2190", tbs.recv[row]))
        peers = " ".join(f"{arrow} {peer}" for arrow, peer in ends if peer >= 0)
        steps = range(int(tbs.first[row]), int(tbs.first[row + 1]))
        rows.append((f"tb {tbs.id[row]}, channel {tbs.chan[row]}  {peers}", [_box(program, step) for step in steps]))
    return DrawnGpu(f"GPU {gpu} ({chunks})", rows)


def _box(program: FileProgram, step: int) -> DrawnStep:
    kind = StepKind(int(program.steps.kind[step]))
    awaited = bool(program.steps.hasdep[step])
    return DrawnStep(_short(program, step, kind), kind.name.lower(), awaited, _describe(program, step))


def _short(program: FileProgram, step: int, kind: StepKind) -> str:
    steps = program.steps
    if kind is StepKind.NOP:
        return "nop"
    buffer, offset = (steps.dstbuf, steps.dstoff) if WRITES[kind] else (steps.srcbuf, steps.srcoff)
    count = f"\u00d7{steps.cnt[step]}" if steps.cnt[step] > 1 else ""
    return f"{BUFFERS[buffer[step]]}{offset[step]}{count}"


def _describe(program: FileProgram, step: int) -> str:
    """The tooltip of a step."""
    steps = program.steps
    kind = StepKind(int(steps.kind[step]))
    parts = [f"step {program.position[step]}: {kind.name.lower()}"]
    if READS_SOURCE[kind]:
        parts.append(f"reads {BUFFERS[steps.srcbuf[step]]}[{steps.srcoff[step]}]")
    if WRITES[kind]:
        parts.append(f"writes {BUFFERS[steps.dstbuf[step]]}[{steps.dstoff[step]}]")
    if kind is not StepKind.NOP:
        parts.append(f"cnt {steps.cnt[step]}")
    if steps.depid[step] >= 0:
        parts.append(f"waits for tb {steps.depid[step]} step {steps.deps[step]}")
    return ", ".join(parts)
