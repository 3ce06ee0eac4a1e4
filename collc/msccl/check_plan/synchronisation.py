"""Barriers and the threads that use channels: mistakes that do not depend on the order of events."""

from __future__ import annotations

from collections import defaultdict

from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check_plan.model import Channel, Operation, Plan


def check_synchronisation(plan: Plan, findings: Findings) -> None:
    """Add to the findings barriers for another number of threadblocks than use them (X0408), and channels that several
    threads of a threadblock use at once (X0404).
    """
    barriers: dict[tuple[int, int], list[Operation]] = defaultdict(list)
    for ops in plan.threadblocks:
        _threads(ops, findings)
        for op in ops:
            if op.barrier is not None:
                barriers[op.location.gpu, op.barrier[0]].append(op)
    for (_, number), meeting in barriers.items():
        count = len({op.tb for op in meeting})
        wrong = next((op for op in meeting if op.barrier is not None and op.barrier[1] != count), None)
        if wrong is not None and wrong.barrier is not None:
            text = f"barrier {number} is for {wrong.barrier[1]} threadblocks, and {count} of its gpu use it"
            findings.add(Finding("contract", "X0408", text, wrong.location, "the same threadblocks each time"))


def _threads(ops: list[Operation], findings: Findings) -> None:
    """Thread k serves the k-th channel of an operation; between two threads that use one channel there must be a nop.

    Over ports, puts and signals are queued by these threads alike (docs/msccl-contract.md, section 6.2).
    """
    last: dict[tuple[bool, Channel], int] = {}
    for op in ops:
        if op.name == "nop" or op.barrier is not None:
            last = {}
        queued = op.over if op.via == "port" and op.name == "put" else op.signals
        for kind in (queued, op.waits):
            for thread, channel in enumerate(kind):
                before = last.setdefault((kind is queued, channel), thread)
                if before != thread:
                    text = f"{op.name} uses the channel to gpu {op.over[thread][2]} in thread {thread}"
                    text += f", while thread {before} may still use it"
                    findings.add(Finding("contract", "X0404", text, op.location, "a nop between the two"))
