"""Packets: payload and flag, in scratch. The flag is the number of the launch, so that readers wait for them.

Each packet is written once in a launch: a reader could not tell a second one. With two scratch buffers a launch uses
the one that the launch before did not, and a packet is written where two launches before lay another one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check_plan.model import PACKETS, Operation, Plan

Packet = tuple[int, int]
"""(gpu, number) of a packet chunk."""


def packets_read(op: Operation) -> list[Packet]:
    """The packets that an operation waits for."""
    return [(s.gpu, s.index + k) for m in op.moves for s in m.sources if s.buffer == PACKETS for k in range(s.size)]


def packets_written(op: Operation) -> list[Packet]:
    """The packets that an operation writes."""
    return [(s.gpu, s.index + k) for m in op.moves for s in m.targets if s.buffer == PACKETS for k in range(s.size)]


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
