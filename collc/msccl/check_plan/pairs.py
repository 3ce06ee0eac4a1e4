"""Pairs of channels: each channel of a gpu has a counterpart at its peer (docs/msccl-contract.md, section 6.1)."""

from __future__ import annotations

from collections import Counter

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import Channel, Plan


def check_pairs(plan: Plan, channels: list[dict[str, list[Channel]]], findings: Findings) -> None:
    """Add to the findings (X0403) channels that no counterpart signals, or one of another type.

    channels: the channels of each gpu by type. The k-th channel of gpu r to gpu p is paired with the k-th of p to r,
    memory channels before port channels. The executor adds counterparts that are missing, which no operation uses.
    """
    listed = [channel for of_gpu in channels for of_type in of_gpu.values() for channel in of_type]
    count = Counter((kind, rank, peer) for kind, rank, peer, _ in listed)
    awaited = {channel: op for ops in plan.threadblocks for op in reversed(ops) for channel in op.waits}
    for (kind, peer, rank, number), op in awaited.items():
        there = count[kind, peer, rank]
        if number >= there:
            text = f"waits on its {kind} channel {number} to gpu {peer}, which lists only {there} to gpu {rank}"
            rule = f"a counterpart in the channels of gpu {peer}"
            findings.add(Finding("contract", "X0403", text, op.location, rule))
    for rank, peer in sorted({(rank, peer) for kind, rank, peer in count if kind == "port"}):
        here, there = count["memory", rank, peer], count["memory", peer, rank]
        if here != there:
            text = f"{here} memory channels to gpu {peer} precede its port channels, and {there} those back"
            location = FileLocation(gpu=rank, attribute="channels")
            findings.add(Finding("contract", "X0403", text, location, "equal numbers: channels are paired in order"))
