"""Packets: payload and flag, in scratch. The flag is the number of the launch, so that readers wait for them.

Each packet is written once in a launch: a reader could not tell a second one. With two scratch buffers a launch uses
the one that the launch before did not, and a packet is written where two launches before lay another one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import PACKETS, Operation, Plan

Packet = tuple[int, int]
"""(gpu, number) of a packet chunk."""


def packets_read(op: Operation) -> list[Packet]:
    """The packets that an operation waits for."""
    return [(s.gpu, s.index + k) for m in op.moves for s in m.sources if s.buffer == PACKETS for k in range(s.size)]


def packets_written(op: Operation) -> list[Packet]:
    """The packets that an operation writes."""
    return [(s.gpu, s.index + k) for m in op.moves for s in m.targets if s.buffer == PACKETS for k in range(s.size)]


def check_packets(plan: Plan, findings: Findings) -> None:
    """Add to the findings packets without the scratch for them, or written twice, and scratch that is used both ways.

    All are X0417.
    """
    ops = [op for ops in plan.threadblocks for op in ops]
    users = [op for op in ops if packets_read(op) or packets_written(op)]
    if users and plan.protocol != "LL":
        text = f"{len(users)} operations on packets, which need twice the scratch that the protocol {plan.protocol} has"
        findings.add(Finding("contract", "X0417", text, users[0].location, '"protocol": "LL"'))
    written: dict[Packet, Operation] = {}
    for op in users:
        for packet in packets_written(op):
            if packet in written:
                text = f"packet {packet[1]} of gpu {packet[0]} is written twice in a launch"
                also = (("the other operation", written[packet].location),)
                findings.add(Finding("contract", "X0417", text, op.location, "one packet for each write", also=also))
            written[packet] = op
    _check_layout(ops, findings)


def _check_layout(ops: list[Operation], findings: Findings) -> None:
    """Packet k covers the bytes of the plain chunks 2k and 2k + 1."""
    plain: dict[Packet, FileLocation] = {}
    for op in ops:
        for slots in (slots for move in op.moves for slots in move.sources + move.targets if slots.buffer == 2):
            plain.update({(slots.gpu, slots.index + k): op.location for k in range(slots.size)})
    if not plain:
        return
    for op in ops:
        for gpu, number in packets_read(op) + packets_written(op):
            for chunk in (2 * number, 2 * number + 1):
                if (gpu, chunk) in plain:
                    use = "which other operations use without packets"
                    text = f"packet {number} of gpu {gpu} lies on chunk {chunk} of the scratch, {use}"
                    also = (("the other operation", plain[gpu, chunk]),)
                    rule = "plain chunks at 2 x (packets) or later"
                    findings.add(Finding("contract", "X0417", text, op.location, rule, also=also))
                    return


@dataclass
class PacketUse:
    """The accesses of packets in one execution, as events.

    written: the event of each write, and its operation. read: those of its reads.
    """

    written: dict[Packet, tuple[int, Operation]] = field(default_factory=dict["Packet", "tuple[int, Operation]"])
    read: dict[Packet, list[tuple[int, Operation]]] = field(default_factory=lambda: defaultdict(list))


def find_reused_packets(
    plan: Plan, use: PacketUse, ends: list[int], started: list[int], finished: list[int], findings: Findings
) -> None:
    """Report packets that a later launch may overwrite before they were read (X0414).

    started: for each event, the gpus whose programs have begun before, as bits; finished: those that end after it.
    """
    for packet, (event, op) in use.written.items():
        begun = started[event] | (started[ends[op.location.gpu]] if plan.doubled else 0)
        for then, reader in use.read[packet]:
            if not finished[then] & begun:
                text = (
                    f"{op.name} may overwrite packet {packet[1]} of gpu {packet[0]}, which {reader.name} of an earlier "
                )
                text += "run still needs"
                also = (("the operation that reads it", reader.location),)
                rule = "data or a signal of that gpu in each run" + ("" if plan.doubled else ", or two scratch buffers")
                findings.add(Finding("race", "X0414", text, op.location, rule, also=also))
                break
