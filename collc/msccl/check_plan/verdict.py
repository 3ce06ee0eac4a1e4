"""The whole check of one MSCCL++ plan: contract, result, deadlock and races."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from collc.diagnostics import Diagnostic
from collc.msccl.check.collectives import (
    KNOWN,
    REDUCING,
    ROOTED,
    Layout,
    buffer_sizes,
    canonical,
    layout,
    wanted_copy,
    wanted_sums,
)
from collc.msccl.check.findings import CHECKS, Check, Finding, Findings, Place, diagnostics, unreadable
from collc.msccl.check.values import UNDEFINED, Values
from collc.msccl.check_plan.events import History, run_plan
from collc.msccl.check_plan.model import Operation, Plan, Slots
from collc.msccl.check_plan.reader import read_plan

Answer = Literal["ok", "failed", "skipped"]
BLOCK: Final = 1024
"""Questions answered in one pass over the events."""


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What is in a plan. root: -1 if the collective has none, or none was found."""

    name: str
    coll: str
    protocol: str
    ranks: int
    threadblocks: int
    operations: int
    inplace: bool
    root: int


@dataclass(frozen=True)
class PlanVerdict:
    """The answer of every check, and why; `summary` is None where the plan can't be read."""

    path: Path
    checks: dict[Check, Answer]
    findings: tuple[Finding, ...]
    diagnostics: tuple[Diagnostic, ...]
    summary: PlanSummary | None

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return "failed" not in self.checks.values()


def check_plan(path: Path, *, collective: str | None = None, root: int | None = None) -> PlanVerdict:
    """Read an MSCCL++ execution plan and interpret it. Plans of packets (protocol LL) are only read.

    Raises UsageError if the file can't be opened.
    """
    findings = Findings()
    ran: set[Check] = {"contract"}
    summary: PlanSummary | None = None
    try:
        plan = read_plan(path, findings)
    except OSError as error:
        raise unreadable(path, error) from error
    if plan is not None:
        coll = canonical(collective or plan.collective)
        found = _interpret(plan, coll, root, findings, ran) if plan.protocol == "Simple" else -1
        operations = sum(map(len, plan.threadblocks))
        sizes = len(plan.chunks), len(plan.threadblocks), operations
        summary = PlanSummary(plan.name, coll, plan.protocol, *sizes, plan.inplace, found)
    answers: dict[Check, Answer] = {}
    for check in CHECKS:
        answers[check] = "failed" if check in findings.failed else "ok" if check in ran else "skipped"
    return PlanVerdict(path, answers, tuple(findings.kept), diagnostics(findings, path), summary)


def _interpret(plan: Plan, coll: str, root: int | None, findings: Findings, ran: set[Check]) -> int:
    """Deadlock, then races and the result; returns the root."""
    history = run_plan(plan)
    ran.add("deadlock")
    _leftovers(history, findings)
    for op in history.halted:
        findings.add(Finding("deadlock", "X0410", f"{op.name} waits for ever", op.place, "every wait ends"))
    if history.halted:
        return -1
    candidates = [root] if root is not None else list(range(len(plan.chunks))) if coll in ROOTED else [-1]
    if coll not in KNOWN:
        candidates = [-1]
    outcomes = [(candidate, *_execute(plan, history, coll, candidate)) for candidate in candidates]
    best = next((outcome for outcome in outcomes if not outcome[2]), outcomes[0])
    ran.add("race")
    _races(history, best[1], findings)
    if coll in KNOWN:
        ran.add("result")
        for rank, slot, text in best[2]:
            message = f"output chunk {slot} of rank {rank} {text}"
            findings.add(Finding("result", "X0411", message, Place(gpu=rank), f"what {coll} wants"))
    return best[0]


def _leftovers(history: History, findings: Findings) -> None:
    if history.halted:
        return
    for (kind, sender, receiver, _), count in history.left:
        text = f"{count} signals to gpu {receiver} ({kind}) that nobody waits for: the next run starts with them"
        findings.add(Finding("contract", "X0407", text, Place(gpu=sender), "one wait a signal"))
    for gpu, number in history.spent:
        text = f"semaphore {number} does not end at its initial value"
        findings.add(Finding("contract", "X0407", text, Place(gpu=gpu), "as many releases as acquires"))


def _total(plan: Plan, coll: str) -> int:
    """Chunks of the total buffer, as `collectives` counts them."""
    inputs = max((chunks[0] for chunks in plan.chunks), default=0)
    outputs = max((chunks[1] for chunks in plan.chunks), default=0)
    if coll == "allgather":
        return inputs * len(plan.chunks) or outputs
    if coll == "scatter":
        return outputs or inputs // len(plan.chunks)
    return inputs or outputs


def _place(plan: Plan, coll: str, root: int) -> tuple[Layout, int]:
    total = _total(plan, coll)
    chunks = np.array(plan.chunks, np.int64).reshape(-1, 3)
    sizes = buffer_sizes(coll, max(1, len(chunks)), total)
    if sizes is not None:
        chunks[:, 0], chunks[:, 1] = np.maximum(chunks[:, 0], sizes[0]), np.maximum(chunks[:, 1], sizes[1])
    return layout(coll, chunks, total, inplace=plan.inplace, root=max(0, root)), total


def _execute(plan: Plan, history: History, coll: str, root: int) -> tuple[Layout, list[tuple[int, int, str]]]:
    """Run the operations on symbols: the memory's layout, and (rank, slot, what is wrong)."""
    where, total = _place(plan, coll, root)
    ranks = len(plan.chunks)
    width = max(1, total * ranks)
    values = Values(ranks, width)
    memory = [UNDEFINED] * where.size
    sizes = buffer_sizes(coll, ranks, total)
    for rank in range(ranks):
        for chunk in range(max(plan.chunks[rank][0], sizes[0] if sizes else 0)):
            memory[int(where.base[rank, 0]) + chunk] = values.input(rank, chunk)
    for op, _ in history.done:
        for move in op.moves:
            data = _read(memory, where, move.sources[0])
            for source in move.sources[1:]:
                data = [values.add(a, b) for a, b in zip(data, _read(memory, where, source), strict=True)]
            for target in move.targets:
                start = _start(where, target)
                memory[start : start + target.size] = data
    wrong: list[tuple[int, int, str]] = []
    for rank in range(ranks):
        base = int(where.base[rank, 1])
        for slot, want in enumerate(_wanted(coll, rank, ranks, total, root, values)):
            got = memory[base + slot]
            if got != want:
                text = f"ends with {values.describe(got)}, not {values.describe(want)}"
                wrong.append((rank, slot, f"{text} {values.difference(got, want)}".rstrip()))
    return where, wrong


def _wanted(coll: str, rank: int, ranks: int, total: int, root: int, values: Values) -> list[int]:
    if coll in REDUCING:
        chunks = wanted_sums(coll, rank, ranks, total, root)
        everyone = (1 << ranks) - 1
        return [values.number((((chunk, everyone),), ())) for chunk in chunks or ()]
    if coll not in KNOWN:
        return []
    return [values.input(*item) for item in wanted_copy(coll, rank, ranks, total, root) or ()]


def _start(where: Layout, slots: Slots) -> int:
    return int(where.base[slots.gpu, slots.buffer]) + slots.index


def _read(memory: list[int], where: Layout, slots: Slots) -> list[int]:
    start = _start(where, slots)
    return memory[start : start + slots.size]


def _races(history: History, where: Layout, findings: Findings) -> None:
    """Accesses of one slot, one of them writing, that no nop, barrier, signal or semaphore orders."""
    written: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    asked: list[tuple[int, int]] = []
    events = [(event, op) for op, event in history.done if op.moves]
    for number, (_, op) in enumerate(events):
        sources, targets = _touched(op, where)
        for slot in sources - targets:
            if slot in written:
                asked.append((written[slot], number))
            read.setdefault(slot, []).append(number)
        for slot in targets:
            asked += [(earlier, number) for earlier in read.pop(slot, [])]
            if slot in written:
                asked.append((written[slot], number))
            written[slot] = number
    _after_the_end(history, findings)
    pairs = sorted({(a, b) for a, b in asked if a != b})
    for first, second in _unordered(history, [(events[a][0], events[b][0]) for a, b in pairs], pairs):
        one, other = events[first][1], events[second][1]
        text = f"nothing orders {one.name} and {other.name}, which touch the same chunk of memory, one writing"
        also = (("the other operation", other.place),)
        hint = "a nop between operations of one threadblock, a signal and a wait between gpus"
        findings.add(Finding("race", "X0412", text, one.place, "an order of the two", hint, also=also))


def _after_the_end(history: History, findings: Findings) -> None:
    """Accesses of another gpu's input or output that may come after that gpu's program is over."""
    far = [
        (event, history.ends[gpu], op, gpu)
        for op, event in history.done
        for gpu in sorted({slots.gpu for move in op.moves for slots in move.sources + move.targets if slots.buffer < 2})
        if gpu != op.place.gpu
    ]
    names = [(number, number) for number in range(len(far))]
    for number, _ in _unordered(history, [(event, end) for event, end, _, _ in far], names):
        _, _, op, gpu = far[number]
        text = f"{op.name} may still touch the buffers of gpu {gpu} when that gpu's program is over"
        hint = "a nop and a signal after it, and a wait at the other end"
        findings.add(Finding("race", "X0413", text, op.place, "an order of the two", hint))


def _touched(op: Operation, where: Layout) -> tuple[set[int], set[int]]:
    """Places of the memory that an operation reads, and that it writes (with another value)."""
    sources, targets = set[int](), set[int]()
    for move in op.moves:
        for slots in move.sources:
            sources.update(range(_start(where, slots), _start(where, slots) + slots.size))
        alone = move.targets == move.sources or (len(move.sources) == 1 and _same(where, move.sources, move.targets))
        for slots in () if alone else move.targets:
            targets.update(range(_start(where, slots), _start(where, slots) + slots.size))
    return sources, targets


def _same(where: Layout, sources: tuple[Slots, ...], targets: tuple[Slots, ...]) -> bool:
    return all(_start(where, target) == _start(where, sources[0]) for target in targets)


def _unordered(history: History, asked: list[tuple[int, int]], names: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The names of those (before, after) events of which the first does not lead to the second."""
    loose: list[tuple[int, int]] = []
    for begin in range(0, len(asked), BLOCK):
        block = asked[begin : begin + BLOCK]
        starts: dict[int, int] = {}
        for bit, (first, _) in enumerate(block):
            starts[first] = starts.get(first, 0) | 1 << bit
        reached: list[int] = []
        for event, before in enumerate(history.before):
            mask = starts.get(event, 0)
            for earlier in before:
                mask |= reached[earlier]
            reached.append(mask)
        for bit, (_, second) in enumerate(block):
            if not reached[second] >> bit & 1:
                loose.append(names[begin + bit])
    return loose
