"""The rules for whole plans that need no execution (docs/msccl-contract.md, section 6). Each is a function in `RULES`.

A rule takes a plan whose operations can be executed as written, and adds what breaks it to the findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import plural
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import PACKETS, PUTS, SCRATCH, Channel, Nodes, Operation, Packet, Plan

MAX_REGIONS: Final = 512
"""The proxy numbers memory with 9 bits."""
OWN_REGIONS: Final = 3
"""Input, output and scratch."""
MAX_PORTS: Final = 1024
"""The proxy numbers semaphores with 10 bits."""
INFINIBAND: Final = 8
"""InfiniBand devices per node that the runtime knows by name; a rank takes the one of its number in the node."""


def check_pairs(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0403) channels that no counterpart signals, or one of another type.

    The k-th channel of gpu r to gpu p is paired with the k-th of p to r,
    memory channels before port channels. The executor adds counterparts that are missing, which no operation uses.
    """
    listed = [channel for of_gpu in plan.channels for of_type in of_gpu.values() for channel in of_type]
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


def check_groups(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0403) groups that their members do not list alike: they wait for one another forever.

    The executor sets the groups of a gpu up one after the other, each together with all its members.
    """
    for rank, mine in enumerate(plan.switches):
        for peer in sorted({other for channel in mine for other in channel.ranks if other > rank}):
            here = [channel for channel in mine if peer in channel.ranks]
            there = [channel for channel in plan.switches[peer] if rank in channel.ranks]
            if here != there:
                text = f"gpus {rank} and {peer} list other switch channels, or list them in another order"
                location = FileLocation(gpu=rank, attribute="channels")
                findings.add(Finding("contract", "X0403", text, location, "the same groups in the same order"))


def check_ports(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0406) gpus with more ports, or memory for them, than the proxy has numbers for."""
    for rank, (mine, buffers) in enumerate(zip(plan.channels, plan.remote, strict=True)):
        ports, regions = len(mine["port"]), OWN_REGIONS + sum("port" in kinds for _, _, kinds in buffers)
        location = FileLocation(gpu=rank, attribute="channels")
        if ports > MAX_PORTS:
            findings.add(
                Finding("contract", "X0406", f"{ports} port channels of a gpu", location, f"at most {MAX_PORTS}")
            )
        if ports and regions > MAX_REGIONS:
            text = f"{regions} memory regions for the ports of a gpu: {OWN_REGIONS} and its remote buffers"
            location = FileLocation(gpu=rank, attribute="remote_buffers")
            findings.add(Finding("contract", "X0406", text, location, f"at most {MAX_REGIONS}"))


def check_nodes(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0418) memory and switches that a gpu uses across nodes, the first of each gpu.

    Raises UsageError X0208 if nodes do not divide the ranks.
    """
    nodes = plan.nodes
    if nodes is None:
        return
    node = _node_of_ranks(nodes, len(plan.chunks))
    for rank, mine in enumerate(plan.channels):
        location = FileLocation(gpu=rank, attribute="channels")
        for peer, what in _mapped_gpus(plan, rank):
            if node[peer] != node[rank]:
                text = f"{what} of gpu {rank} (node {node[rank]}) to gpu {peer} (node {node[peer]})"
                findings.add(Finding("contract", "X0418", text, location, "port channels between nodes"))
                break
        peers = [peer for _, _, peer, _ in mine["port"] if node[peer] != node[rank]]
        if isinstance(nodes, int) and peers and nodes > INFINIBAND:
            text = f"ports between nodes of {nodes} gpus: the runtime supports {INFINIBAND} InfiniBand devices per node"
            findings.add(Finding("contract", "X0418", text, location, f"at most {INFINIBAND} gpus in a node"))


def _node_of_ranks(nodes: Nodes, ranks: int) -> list[int]:
    if not isinstance(nodes, int):
        return list(nodes)
    if ranks % nodes and nodes < ranks:
        message = f"{plural(ranks, 'gpu')} do not divide into nodes of {nodes}"
        raise UsageError(Diagnostic("X0208", message, hint="let --gpus-per-node divide the number of gpus"))
    return [rank // nodes for rank in range(ranks)]


def _mapped_gpus(plan: Plan, rank: int) -> Iterator[tuple[int, str]]:
    """Gpus whose memory a gpu maps, or with which it shares a switch, and how."""
    for _, _, peer, _ in plan.channels[rank]["memory"]:
        yield peer, "a memory channel"
    for owner, _, kinds in plan.remote[rank]:
        if "memory" in kinds:
            yield owner, "a remote buffer for memory channels"
    for switch in plan.switches[rank]:
        for peer in switch.ranks:
            yield peer, "a switch channel"


def check_synchronisation(plan: Plan, findings: Findings) -> None:
    """Add to the findings barriers for another number of threadblocks than use them (X0408), and channels that several
    threads of a threadblock use at once (X0404).
    """
    barriers: dict[tuple[int, int], list[Operation]] = defaultdict(list)
    for ops in plan.threadblocks:
        _check_threads(ops, findings)
        for op in ops:
            if op.barrier is not None:
                barriers[op.location.gpu, op.barrier[0]].append(op)
    for (_, number), meeting in barriers.items():
        count = len({op.tb for op in meeting})
        wrong = next((op for op in meeting if op.barrier is not None and op.barrier[1] != count), None)
        if wrong is not None and wrong.barrier is not None:
            text = f"barrier {number} is for {wrong.barrier[1]} threadblocks, and {count} of its gpu use it"
            findings.add(Finding("contract", "X0408", text, wrong.location, "the same threadblocks each time"))


def _check_threads(ops: list[Operation], findings: Findings) -> None:
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


def check_packets(plan: Plan, findings: Findings) -> None:
    """Add to the findings packets without the scratch for them, or written twice, and scratch that is used both ways.

    All are X0417.
    """
    ops = plan.operations
    users = [op for op in ops if op.packets_read or op.packets_written]
    if users and plan.protocol != "LL":
        text = f"{len(users)} operations on packets, which need twice the scratch that the protocol {plan.protocol} has"
        findings.add(Finding("contract", "X0417", text, users[0].location, '"protocol": "LL"'))
    written: dict[Packet, Operation] = {}
    for op in users:
        for packet in op.packets_written:
            if packet in written:
                text = f"packet {packet[1]} of gpu {packet[0]} is written twice in a launch"
                also = (("the other operation", written[packet].location),)
                findings.add(Finding("contract", "X0417", text, op.location, "one packet for each write", also=also))
            written[packet] = op
    _check_packet_layout(ops, findings)


def _check_packet_layout(ops: list[Operation], findings: Findings) -> None:
    """Packet k covers the bytes of the plain chunks 2k and 2k + 1."""
    plain: dict[Packet, FileLocation] = {}
    for op in ops:
        for slots in (slots for move in op.moves for slots in move.sources + move.targets if slots.buffer == 2):
            plain.update({(slots.gpu, slots.index + k): op.location for k in range(slots.size)})
    if not plain:
        return
    for op in ops:
        for gpu, number in op.packets_read + op.packets_written:
            for chunk in (2 * number, 2 * number + 1):
                if (gpu, chunk) in plain:
                    use = "which other operations use without packets"
                    text = f"packet {number} of gpu {gpu} lies on chunk {chunk} of the scratch, {use}"
                    also = (("the other operation", plain[gpu, chunk]),)
                    rule = "plain chunks at 2 x (packets) or later"
                    findings.add(Finding("contract", "X0417", text, op.location, rule, also=also))
                    return


def check_remote_memory(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0404) memory of another gpu that settings make another one than the plan names.

    See docs/msccl-contract.md, sections 6.4 and 6.5.
    """

    def refuse(op: Operation, text: str, expected: str) -> None:
        findings.add(Finding("contract", "X0404", text, op.location, expected))

    scratch = [chunks[SCRATCH] for chunks in plan.chunks]
    for op in plan.operations:
        touched = [slots for move in op.moves for slots in move.sources + move.targets]
        remote = [slots for slots in touched if slots.remote]
        here = op.location.gpu
        other = next((s.gpu for s in remote if s.buffer == PACKETS and scratch[s.gpu] != scratch[here]), None)
        if plan.doubled and other is not None:
            text = f"use_double_scratch_buffer: the second one begins after {scratch[here]} chunks on gpu {here}, "
            text += f"which writes packets to gpu {other}, and there after {scratch[other]}"
            refuse(op, text, "as many scratch chunks on both")
        if plan.doubled and any(slots.buffer == SCRATCH for slots in (touched if op.via == "port" else remote)):
            text = "use_double_scratch_buffer: every other run, this is not the scratch that its owner uses"
            refuse(op, text, "one scratch buffer, or packets (LL)")
        if plan.reused and any(slots.buffer != SCRATCH for slots in remote):
            refuse(op, "reuse_resources: the buffer of another gpu may be that of an earlier call", "scratch")


def check_overwritten_inputs(plan: Plan, findings: Findings) -> None:
    """Warn (X0120) of a plan out of place that writes to the input buffer, which changes the caller's data."""
    wrote = [op for op in plan.operations if any(slots.buffer == 0 for move in op.moves for slots in move.targets)]
    if wrote and not plan.inplace:
        text = f"out of place, {len(wrote)} operations write to the input buffer, which belongs to the caller"
        hint = '"inplace": true, or scratch'
        findings.add(Finding("contract", "X0120", text, wrote[0].location, "o or s", hint, warning=True))


def check_sources_of_ports(plan: Plan, findings: Findings) -> None:
    """Warn of puts over ports from input or output, for which a tensor must begin its allocation (X0122)."""
    ops = [op for op in plan.operations if op.via == "port" and op.name in PUTS]
    bare = [op for op in ops if any(move.sources[0].buffer < SCRATCH for move in op.moves)]
    if bare:
        text = f"{len(bare)} operations send input or output over ports: the runtime leaves out where a tensor begins "
        text += "in its allocation"
        findings.add(Finding("contract", "X0122", text, bare[0].location, "scratch", warning=True))


def check_flushing_puts(plan: Plan, findings: Findings) -> None:
    """Warn (X0124) of `pwsf`, which runtimes up to MSCCL++ 0.10 execute as `pws`, without a flush."""
    ops = [op for op in plan.operations if op.name == "pwsf"]
    if ops:
        text = f"{len(ops)} operations are pwsf, which MSCCL++ flushes since June 2026 only"
        findings.add(Finding("contract", "X0124", text, ops[0].location, "pws, then flush", warning=True))


RULES: Final[tuple[Callable[[Plan, Findings], None], ...]] = (
    check_pairs,
    check_groups,
    check_ports,
    check_nodes,
    check_packets,
    check_synchronisation,
    check_remote_memory,
    check_overwritten_inputs,
    check_sources_of_ports,
    check_flushing_puts,
)
