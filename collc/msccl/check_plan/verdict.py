"""The whole check of one MSCCL++ plan: contract, result, deadlock and races."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from collc.base.wording import plural
from collc.msccl.check.collectives import KNOWN, ExpectedResult, canonical
from collc.msccl.check.findings import Check, FileLocation, Finding, Findings, Verdict, check_root, diagnostics
from collc.msccl.check.results import CollectiveCall, SymbolicState, WrongOutput, check_outputs, find_root, is_right
from collc.msccl.check_plan.events import History, run_plan
from collc.msccl.check_plan.json_text import locate
from collc.msccl.check_plan.memory import address, check_addresses, check_counts, memory_of, total_chunks
from collc.msccl.check_plan.model import Nodes, Plan
from collc.msccl.check_plan.races import find_races
from collc.msccl.check_plan.reader import MAX_CHUNKS, parse_plan
from collc.runtime.collectives import ROOTED, buffer_sizes

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
    findings, ran, summary = Findings(), set[Check](), None
    plan = parse_plan(path, findings, nodes)
    ran.add("contract")
    if plan is not None:
        check_root(root, len(plan.chunks), path)
        coll = canonical(collective or plan.collective)
        _check_name(plan, coll, findings)
        _check_offsets(plan, coll, findings)
        call = CollectiveCall(coll, len(plan.chunks), total_chunks(plan, coll), -1, plan.inplace, expected)
        root_used = _check_execution(plan, call, root, findings, ran) if _is_checkable(plan, call, findings) else -1
        chunks = max((max(sizes[:2]) for sizes in plan.chunks), default=0)
        sizes = len(plan.chunks), len(plan.threadblocks), len(plan.operations), chunks
        summary = PlanSummary(plan.name, coll, plan.protocol, *sizes, plan.inplace, root_used)
    locate(findings, path)
    return Verdict(path, findings.answers(ran), tuple(findings.kept), diagnostics(findings, path), summary)


def _check_execution(plan: Plan, call: CollectiveCall, root: int | None, findings: Findings, ran: set[Check]) -> int:
    """Check deadlock, races and the result. Returns the root, -1 if there is none."""
    history = run_plan(plan)
    ran.add("deadlock")
    for op in history.halted:
        findings.add(Finding("deadlock", "X0410", f"{op.name} waits forever", op.location, "every wait ends"))
    if history.halted:
        return -1
    _check_leftovers(history, findings)
    if call.coll not in ROOTED or call.expected is not None:
        root = -1
    elif root is None:
        root = find_root(call, lambda tried: execute_plan(plan, history, tried), len(plan.operations))
    call = replace(call, root=root)
    if not check_addresses(plan, memory_of(plan, call.coll, root), findings):
        return root
    state = execute_plan(plan, history, call)
    ran.add("race")
    find_races(plan, history, state.layout, findings)
    if call.expected is not None or call.coll in KNOWN:
        ran.add("result")
        _check_result(history, call, state, findings)
    return root


def execute_plan(plan: Plan, history: History, call: CollectiveCall) -> SymbolicState:
    """Execute the operations on symbols. Returns the memory after them."""
    layout = memory_of(plan, call.coll, call.root)
    if not check_addresses(plan, layout, Findings()):
        history = replace(history, done=[])
    sizes = (call.expected is None and buffer_sizes(call.coll, call.ranks, call.total)) or (0, 0)
    inputs, outputs = ([max(chunks[side], sizes[side]) for chunks in plan.chunks] for side in (0, 1))
    state = SymbolicState.initial(call, layout, inputs, outputs)
    memory, add = state.memory, state.values.add
    for op, _ in history.done:
        for move in op.moves:
            first, *others = (
                slice(address(layout, slots), address(layout, slots) + slots.size) for slots in move.sources
            )
            data = memory[first]
            for source in others:
                data = list(map(add, data, memory[source]))
            for target in move.targets:
                start = address(layout, target)
                memory[start : start + target.size] = data
    return state


def _check_result(history: History, call: CollectiveCall, state: SymbolicState, findings: Findings) -> None:
    """Report wrong output chunks (X0411) at the operations that wrote them last."""
    if is_right(call, state):
        return
    last: dict[int, FileLocation] = {}
    for op, _ in history.done:
        for target in (target for move in op.moves for target in move.targets):
            start = address(state.layout, target)
            last.update(dict.fromkeys(range(start, start + target.size), op.location))

    def location_of(miss: WrongOutput) -> FileLocation:
        slot = int(state.layout.base[miss.rank, 1]) + miss.slot
        return (last.get(slot) if miss.slot < state.outputs[miss.rank] else None) or FileLocation(gpu=miss.rank)

    check_outputs(call, state, "X0411", location_of, findings)


def _check_name(plan: Plan, coll: str, findings: Findings) -> None:
    """A caller selects a plan by the collective that it names, so it must compute that one (X0416)."""
    named = canonical(plan.collective)
    if named in KNOWN and coll in KNOWN and named != coll:
        text = f'collective is "{plan.collective}": a caller selects the plan for that'
        findings.add(Finding("contract", "X0416", text, FileLocation(attribute="collective"), coll), breaks=True)


def _is_checkable(plan: Plan, call: CollectiveCall, findings: Findings) -> bool:
    """Whether the plan has the ranks and chunks of the collective, and buffers small enough to be checked."""
    if findings.broken:
        return False
    last = max((rank for rank, _ in call.expected.outputs), default=-1) if call.expected is not None else -1
    if last >= call.ranks:
        text = f"the plan has {call.ranks} gpus, but the collective has rank {last}"
        findings.add(Finding("contract", "X0403", text, FileLocation(), f"{last + 1} gpus"), breaks=True)
        return False
    longest = max((max(sizes[:2]) for sizes in plan.chunks), default=0)
    if call.expected is not None and longest != call.expected.width:
        wanted = plural(call.expected.width, "chunk")
        text = f"the longest buffer has {plural(longest, 'chunk')}, but the collective has {wanted}"
        findings.add(Finding("contract", "X0406", text, FileLocation(), wanted))
    chunks = call.ranks * sum(buffer_sizes(call.coll, max(1, call.ranks), call.total) or ())
    if chunks > MAX_CHUNKS:
        text, most = f"{call.coll} of {call.ranks} gpus has buffers of {chunks} chunks", f"at most {MAX_CHUNKS}"
        findings.add(Finding("contract", "X0406", text, FileLocation(), f"{most} to be checked"), breaks=True)
        return False
    return call.expected is not None or check_counts(plan, call.coll, findings)


def _check_offsets(plan: Plan, coll: str, findings: Findings) -> None:
    """Warn of sizes in the range of the plan that exceed the offsets of the runtime (X0409)."""
    counted = max(chunks[1 if coll == "allgather" else 0] for chunks in plan.chunks)
    longest = max(max(chunks) for chunks in plan.chunks)
    most = OFFSETS * counted // max(1, longest)
    if counted and (plan.largest is None or plan.largest > most):
        text = f"buffers of more than {most} bytes would be cut wrongly: the runtime's offsets have 32 bits"
        hint = f'"max_message_size": {most}'
        findings.add(Finding("contract", "X0409", text, FileLocation(), hint=hint, warning=True))


def _check_leftovers(history: History, findings: Findings) -> None:
    """Signals and semaphores are as they were when the next launch begins (X0407)."""
    for (kind, sender, receiver, _), count in history.left:
        text = f"{count} signals to gpu {receiver} ({kind}) that nobody waits for: the next run starts with them"
        findings.add(Finding("contract", "X0407", text, FileLocation(gpu=sender), "one wait for each signal"))
    for gpu, number in history.spent:
        text = f"semaphore {number} does not end at its initial value"
        findings.add(Finding("contract", "X0407", text, FileLocation(gpu=gpu), "as many releases as acquires"))
