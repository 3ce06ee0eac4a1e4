"""Channels between nodes, and what ports need (docs/msccl-contract.md, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import plural
from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.model import Channel, Plan

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

    channels, remote: as for `check_ports`. Raises UsageError X0208 where nodes do not divide the ranks.
    """
    node = _node_of_ranks(nodes, len(plan.chunks))
    for rank, mine in enumerate(channels):
        at = FileLocation(gpu=rank, attribute="channels")
        for peer, what in _mapped(plan, rank, mine, remote[rank]):
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


def _mapped(
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
