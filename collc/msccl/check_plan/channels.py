"""Channels of a plan: their pairs, the groups of switches, nodes, ports, and the threads that use them.

The rules are those of docs/msccl-contract.md, sections 6.1 to 6.3.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, cast

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import plural
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.json_text import (
    BUFFERS,
    JsonObject,
    PlanError,
    is_number,
    list_of,
    number_of,
    object_of,
    text_of,
)
from collc.msccl.check_plan.model import Channel, Operation, Plan, SwitchChannel

Nodes = int | Sequence[int]
"""How many consecutive ranks are a node, or the node of each rank."""

RemoteBuffer = tuple[int, int, tuple[str, ...]]
"""(owner, number of the buffer, types of channels)."""

MAX_REGIONS: Final = 512
"""The proxy numbers memory with 9 bits."""
OWN_REGIONS: Final = 3
"""Input, output and scratch."""
MAX_PORTS: Final = 1024
"""The proxy numbers semaphores with 10 bits."""
INFINIBAND: Final = 8
"""InfiniBand devices per node that the runtime knows by name; a rank takes the one of its number in the node."""


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


def switch_channels_of(item: JsonObject, ranks: int, location: FileLocation) -> list[SwitchChannel]:
    """The switch channels of an entry of a gpu's channels, one for each group (X0402, X0403)."""
    name = text_of(item, "buffer_type", location)
    if name not in BUFFERS:
        raise PlanError("X0402", f'buffer_type "{name}"', location, "i, o or s")
    found: list[SwitchChannel] = []
    for entry in list_of(item, "rank_groups", location):
        group = object_of(entry, "rank group", location)
        members = list_of(group, "ranks", location)
        if not members or not all(is_number(one) and 0 <= cast("int", one) < ranks for one in members):
            raise PlanError("X0403", f"rank group {str(members)[:40]}", location, f"ranks of 0 .. {ranks - 1}")
        if len(set(members)) < len(members) or location.gpu not in members:
            text = f"rank group {str(members)[:40]} has a rank twice, or lacks gpu {location.gpu} itself"
            raise PlanError("X0403", text, location, "each of its ranks once, its own rank included")
        if number_of(group, "size", location) != len(members):
            raise PlanError("X0402", "size of a rank group is not the number of its ranks", location, f"{len(members)}")
        found.append(SwitchChannel(BUFFERS[name], tuple(members)))
    return found


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
                at = FileLocation(gpu=rank, attribute="channels")
                findings.add(Finding("contract", "X0403", text, at, "the same groups in the same order"))


def check_ports(channels: list[dict[str, list[Channel]]], remote: list[list[RemoteBuffer]], findings: Findings) -> None:
    """Add to the findings (X0406) gpus with more ports, or memory for them, than the proxy has numbers for.

    channels: of each gpu by type. remote: its remote buffers.
    """
    for rank, (mine, buffers) in enumerate(zip(channels, remote, strict=True)):
        ports, regions = len(mine["port"]), OWN_REGIONS + sum("port" in kinds for _, _, kinds in buffers)
        at = FileLocation(gpu=rank, attribute="channels")
        if ports > MAX_PORTS:
            findings.add(Finding("contract", "X0406", f"{ports} port channels of a gpu", at, f"at most {MAX_PORTS}"))
        if ports and regions > MAX_REGIONS:
            text = f"{regions} memory regions for the ports of a gpu: {OWN_REGIONS} and its remote buffers"
            at = FileLocation(gpu=rank, attribute="remote_buffers")
            findings.add(Finding("contract", "X0406", text, at, f"at most {MAX_REGIONS}"))


def check_nodes(
    plan: Plan,
    channels: list[dict[str, list[Channel]]],
    remote: list[list[RemoteBuffer]],
    nodes: Nodes,
    findings: Findings,
) -> None:
    """Add to the findings (X0418) memory and switches that a gpu uses across nodes, the first of each gpu.

    channels, remote: as for `check_ports`. Raises UsageError X0208 if nodes do not divide the ranks.
    """
    node = _node_of_ranks(nodes, len(plan.chunks))
    for rank, mine in enumerate(channels):
        at = FileLocation(gpu=rank, attribute="channels")
        for peer, what in _mapped_gpus(plan, rank, mine, remote[rank]):
            if node[peer] != node[rank]:
                text = f"{what} of gpu {rank} (node {node[rank]}) to gpu {peer} (node {node[peer]})"
                findings.add(Finding("contract", "X0418", text, at, "port channels between nodes"))
                break
        peers = [peer for _, _, peer, _ in mine["port"] if node[peer] != node[rank]]
        if isinstance(nodes, int) and peers and nodes > INFINIBAND:
            text = f"ports between nodes of {nodes} gpus: the runtime supports {INFINIBAND} InfiniBand devices per node"
            findings.add(Finding("contract", "X0418", text, at, f"at most {INFINIBAND} gpus in a node"))


def _node_of_ranks(nodes: Nodes, ranks: int) -> list[int]:
    if not isinstance(nodes, int):
        return list(nodes)
    if ranks % nodes and nodes < ranks:
        message = f"{plural(ranks, 'gpu')} do not divide into nodes of {nodes}"
        raise UsageError(Diagnostic("X0208", message, hint="let --gpus-per-node divide the number of gpus"))
    return [rank // nodes for rank in range(ranks)]


def _mapped_gpus(
    plan: Plan, rank: int, mine: dict[str, list[Channel]], remote: list[RemoteBuffer]
) -> Iterator[tuple[int, str]]:
    """Gpus whose memory a gpu maps, or with which it shares a switch, and how."""
    for _, _, peer, _ in mine["memory"]:
        yield peer, "a memory channel"
    for owner, _, kinds in remote:
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
