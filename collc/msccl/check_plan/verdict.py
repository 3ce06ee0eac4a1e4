"""The whole check of one MSCCL++ plan: contract, result, deadlock and races."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.msccl.check.collectives import (
    KNOWN,
    REDUCING,
    ROOTED,
    ExpectedResult,
    MemoryLayout,
    buffer_sizes,
    canonical,
    wanted_copy,
    wanted_sums,
)
from collc.msccl.check.findings import Check, FileLocation, Finding, Findings, Verdict, diagnostics
from collc.msccl.check.values import UNDEFINED, SymbolicValues
from collc.msccl.check_plan.channels import Nodes
from collc.msccl.check_plan.events import History, run_plan
from collc.msccl.check_plan.json_text import locate
from collc.msccl.check_plan.memory import address, check_counts, memory_of, total_chunks
from collc.msccl.check_plan.model import PUTS, Plan, SlotRange
from collc.msccl.check_plan.races import SCRATCH, find_races
from collc.msccl.check_plan.reader import MAX_CHUNKS, parse_plan

OFFSETS: Final = 2**32 - 1
"""The largest offset in bytes."""


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The contents of a plan in numbers.

    chunks: of its longest input or output. root: -1 if the collective has none, or none was found.
    """

    name: str
    coll: str
    protocol: str
    ranks: int
    threadblocks: int
    operations: int
    chunks: int
    inplace: bool
    root: int


def check_plan(
    path: Path,
    *,
    collective: str | None = None,
    root: int | None = None,
    expected: ExpectedResult | None = None,
    nodes: Nodes | None = None,
) -> Verdict[PlanSummary]:
    """Check an MSCCL++ execution plan.

    collective: what the plan must compute, default: the collective that it names. root: default: the rank with which
    the result is right. expected: the result of a collective without a name. nodes: of the ranks; None: not known, and
    memory channels may go between any two. Raises UsageError if the file can't be opened, root is not a rank of it, or
    nodes do not fit its ranks.
    """
    findings = Findings()
    ran: set[Check] = {"contract"}
    summary: PlanSummary | None = None
    plan = parse_plan(path, findings, nodes)
    if plan is not None:
        if root is not None and not 0 <= root < len(plan.chunks):
            raise UsageError(Diagnostic("X0203", f"root {root} is not a rank of {path}: it has {len(plan.chunks)}"))
        coll = canonical(collective or plan.collective)
        _chosen(plan, coll, findings)
        _offsets(plan, coll, findings)
        _overwritten(plan, findings)
        _from_buffers(plan, findings)
        call = _PlanCall(plan, coll, root, expected)
        found = _interpret(call, findings, ran) if _checkable(call, findings) else -1
        operations = sum(map(len, plan.threadblocks))
        chunks = max((max(sizes[:2]) for sizes in plan.chunks), default=0)
        sizes = len(plan.chunks), len(plan.threadblocks), operations, chunks
        summary = PlanSummary(plan.name, coll, plan.protocol, *sizes, plan.inplace, found)
    locate(findings, path)
    return Verdict(path, findings.answers(ran), tuple(findings.kept), diagnostics(findings, path), summary)


@dataclass(frozen=True, slots=True)
class _PlanCall:
    """A plan and the collective that it must compute. root: None if it is to be found. expected: as in `check_plan`."""

    plan: Plan
    coll: str
    root: int | None
    expected: ExpectedResult | None

    @property
    def known(self) -> bool:
        """Whether the result is defined."""
        return self.expected is not None or self.coll in KNOWN


@dataclass(frozen=True, slots=True)
class _FinalState:
    """The memory after a symbolic execution. last: the operation that wrote each chunk last.

    total: chunks of the total buffer. sizes: input and output chunks of the collective, if it has a name.
    """

    plan: Plan
    layout: MemoryLayout
    total: int
    sizes: tuple[int, int] | None
    values: SymbolicValues
    memory: list[int]
    last: list[FileLocation | None]

    def output(self, rank: int, slot: int) -> int:
        """The value of an output chunk."""
        return self.memory[self.at(rank, slot)] if slot < _room(self.plan, rank, self.sizes) else UNDEFINED

    def at(self, rank: int, slot: int) -> int:
        """The position of an output chunk in the memory."""
        return int(self.layout.base[rank, 1]) + slot


def _interpret(call: _PlanCall, findings: Findings, ran: set[Check]) -> int:
    """Check deadlock, races and the result. Returns the root, -1 if there is none."""
    plan = call.plan
    history = run_plan(plan)
    ran.add("deadlock")
    _leftovers(history, findings)
    for op in history.halted:
        findings.add(Finding("deadlock", "X0410", f"{op.name} waits forever", op.location, "every wait ends"))
    if history.halted:
        return -1
    state = _execute(call, history, call.root if call.root is not None else -1)
    candidates = [call.root if call.root is not None else -1]
    if call.root is None and call.expected is None and call.coll in ROOTED:
        candidates = _likely_roots(call, state)
    root, wrong = candidates[0], list[Finding]()
    for number, candidate in enumerate(candidates):
        if plan.inplace and call.coll in ("gather", "scatter"):
            state = _execute(call, history, candidate)
        found = _judge(call, state, candidate)
        if not number or not found:
            root, wrong = candidate, found
        if not found:
            break
    ran.add("race")
    find_races(plan, history, state.layout, findings)
    if call.known:
        ran.add("result")
        for finding in wrong:
            findings.add(finding)
    return root


def _likely_roots(call: _PlanCall, state: _FinalState) -> list[int]:
    """Ranks that can be the root, from the first output chunks of an execution with any root; at least one."""
    ranks, total, values = len(call.plan.chunks), state.total, state.values
    if call.coll in ("broadcast", "scatter"):
        first = state.output(0, 0)
        parts = values.parts(first)[0] if first != UNDEFINED else ()
        likely = [parts[0][1].bit_length() - 1] if parts else []
    elif call.coll == "reduce":
        whole = values.number((((0, (1 << ranks) - 1),), ()))
        likely = [rank for rank in range(ranks) if state.output(rank, 0) == whole]
    else:
        likely = [
            rank
            for rank in range(ranks)
            if all(state.output(rank, k * total) == values.input(k, 0) for k in range(ranks) if k != rank)
        ]
    return likely or [0]


def _chosen(plan: Plan, coll: str, findings: Findings) -> None:
    """A caller selects a plan by the collective that it names, so it must compute that one (X0416)."""
    named = canonical(plan.collective)
    if named in KNOWN and coll in KNOWN and named != coll:
        text = f'collective is "{plan.collective}": a caller selects the plan for that'
        findings.add(Finding("contract", "X0416", text, FileLocation(attribute="collective"), coll), breaks=True)


def _checkable(call: _PlanCall, findings: Findings) -> bool:
    """Whether the plan has the ranks and chunks of the collective, and buffers small enough to be checked."""
    if findings.broken:
        return False
    ranks = len(call.plan.chunks)
    last = max((rank for rank, _ in call.expected.outputs), default=-1) if call.expected is not None else -1
    if last >= ranks:
        text = f"the plan has {ranks} gpus, but the collective has rank {last}"
        findings.add(Finding("contract", "X0403", text, FileLocation(), f"{last + 1} gpus"), breaks=True)
        return False
    sizes = buffer_sizes(call.coll, max(1, ranks), total_chunks(call.plan, call.coll))
    chunks = ranks * sum(sizes or ())
    if chunks > MAX_CHUNKS:
        text = f"{call.coll} of {ranks} gpus has buffers of {chunks} chunks"
        findings.add(
            Finding("contract", "X0406", text, FileLocation(), f"at most {MAX_CHUNKS} to be checked"), breaks=True
        )
        return False
    return call.expected is not None or check_counts(call.plan, call.coll, findings)


def _offsets(plan: Plan, coll: str, findings: Findings) -> None:
    """Warn of sizes in the range of the plan that exceed the offsets of the runtime (X0409)."""
    counted = max(chunks[1 if coll == "allgather" else 0] for chunks in plan.chunks)
    longest = max(max(chunks) for chunks in plan.chunks)
    most = OFFSETS * counted // max(1, longest)
    if counted and (plan.largest is None or plan.largest > most):
        text = f"buffers of more than {most} bytes would be cut wrongly: the runtime's offsets have 32 bits"
        hint = f'"max_message_size": {most}'
        findings.add(Finding("contract", "X0409", text, FileLocation(), hint=hint, warning=True))


def _overwritten(plan: Plan, findings: Findings) -> None:
    """Warn of a plan out of place that writes to the input buffer, which changes the caller's data."""
    ops = [op for ops in plan.threadblocks for op in ops]
    wrote = [op for op in ops if any(slots.buffer == 0 for move in op.moves for slots in move.targets)]
    if wrote and not plan.inplace:
        text = f"out of place, {len(wrote)} operations write to the input buffer, which belongs to the caller"
        hint = '"inplace": true, or scratch'
        findings.add(Finding("contract", "X0120", text, wrote[0].location, "o or s", hint, warning=True))


def _from_buffers(plan: Plan, findings: Findings) -> None:
    """Warn of puts over ports from input or output, for which a tensor must begin its allocation (X0122)."""
    ops = [op for ops in plan.threadblocks for op in ops if op.via == "port" and op.name in PUTS]
    bare = [op for op in ops if any(move.sources[0].buffer < SCRATCH for move in op.moves)]
    if bare:
        text = f"{len(bare)} operations send input or output over ports: the runtime leaves out where a tensor begins "
        text += "in its allocation"
        findings.add(Finding("contract", "X0122", text, bare[0].location, "scratch", warning=True))


def _leftovers(history: History, findings: Findings) -> None:
    if history.halted:
        return
    for (kind, sender, receiver, _), count in history.left:
        text = f"{count} signals to gpu {receiver} ({kind}) that nobody waits for: the next run starts with them"
        findings.add(Finding("contract", "X0407", text, FileLocation(gpu=sender), "one wait for each signal"))
    for gpu, number in history.spent:
        text = f"semaphore {number} does not end at its initial value"
        findings.add(Finding("contract", "X0407", text, FileLocation(gpu=gpu), "as many releases as acquires"))


def _execute(call: _PlanCall, history: History, root: int) -> _FinalState:
    """Execute the operations on symbols."""
    plan = call.plan
    layout, total = memory_of(plan, call.coll, root)
    ranks = len(plan.chunks)
    sizes = None if call.expected is not None else buffer_sizes(call.coll, ranks, total)
    inputs = [max(chunks[0], sizes[0] if sizes else 0) for chunks in plan.chunks]
    values = SymbolicValues(ranks, max(1, *inputs, call.expected.width if call.expected is not None else total * ranks))
    memory = [UNDEFINED] * layout.size
    for rank, count in enumerate(inputs):
        for chunk in range(count):
            memory[int(layout.base[rank, 0]) + chunk] = values.input(rank, chunk)
    last: list[FileLocation | None] = [None] * layout.size
    for op, _ in history.done:
        for move in op.moves:
            data = _read(memory, layout, move.sources[0])
            for source in move.sources[1:]:
                data = [values.add(a, b) for a, b in zip(data, _read(memory, layout, source), strict=True)]
            for target in move.targets:
                start = address(layout, target)
                memory[start : start + target.size] = data
                last[start : start + target.size] = [op.location] * target.size
    return _FinalState(plan, layout, total, sizes, values, memory, last)


def _judge(call: _PlanCall, state: _FinalState, root: int) -> list[Finding]:
    """The wrong output chunks, located at the operations that wrote them last."""
    values, wrong = state.values, list[Finding]()
    for rank in range(len(call.plan.chunks)):
        room = _room(call.plan, rank, state.sizes)
        for slot, wants in _wanted_values(call, rank, state.total, root, values):
            got = state.output(rank, slot)
            if got not in wants:
                writer = (state.last[state.at(rank, slot)] if slot < room else None) or FileLocation(gpu=rank)
                details = values.difference(got, wants[0])
                text = f"output chunk {slot} of rank {rank} ends with {values.describe(got)}"
                text += f" ({details})" if details else ""
                expected = f"{values.describe(wants[0])}, as {call.coll} wants"
                wrong.append(Finding("result", "X0411", text, writer, expected))
    return wrong


def _room(plan: Plan, rank: int, sizes: tuple[int, int] | None) -> int:
    """Output chunks of a rank."""
    return max(plan.chunks[rank][1], sizes[1] if sizes else 0)


def _wanted_values(
    call: _PlanCall, rank: int, total: int, root: int, values: SymbolicValues
) -> list[tuple[int, list[int]]]:
    """The output chunks of a rank that must hold something, each with the values that are right."""
    ranks, coll = len(call.plan.chunks), call.coll
    if call.expected is not None:
        found: list[tuple[int, list[int]]] = []
        for slot in call.expected.slots(rank):
            want = call.expected.outputs[rank, slot]
            copies = [values.input(*one) for one in sorted(want.contributions)]
            found.append((slot, [values.sum_of(want.contributions)] if want.reduced else copies))
        return found
    wants: list[int] = []
    if coll in REDUCING:
        everyone = (1 << ranks) - 1
        chunks = wanted_sums(coll, rank, ranks, total, root) or ()
        wants = [values.number((((chunk, everyone),), ())) for chunk in chunks]
    elif coll in KNOWN:
        wants = [values.input(*item) for item in wanted_copy(coll, rank, ranks, total, root) or ()]
    return [(slot, [want]) for slot, want in enumerate(wants)]


def _read(memory: list[int], layout: MemoryLayout, slots: SlotRange) -> list[int]:
    start = address(layout, slots)
    return memory[start : start + slots.size]
