"""Which ranks of a plan map each other's memory, and which need ports between them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.wording import plural
from collc.msccl.options import MscclOptions
from collc.ten.network import Network
from collc.ten.node_parts import parts_of

_INFINIBAND: Final = 8
"""InfiniBand devices per node that the runtime knows by name; a rank takes the one of its number in the node."""


def nodes_of_ranks(network: Network, options: MscclOptions) -> tuple[int, ...]:
    """The node of each rank.

    Raises SourceError M0117 where `gpus_per_node` does not divide the ranks, or has the runtime look for more
    InfiniBand devices than it knows.
    """
    ranks, count = len(network.npus), options.gpus_per_node
    if count is None:
        rank_of = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
        node = {rank_of[npu]: number for number, part in enumerate(parts_of(network)) for npu in part}
        return tuple(node[rank] for rank in range(ranks))
    if ranks % count and count < ranks:
        message = f"{ranks} GPUs do not divide into nodes of {count} GPUs"
        raise SourceError(Diagnostic("M0117", message, hint="let 'gpus_per_node' divide the number of GPUs"))
    if _INFINIBAND < count < ranks:
        message = f"nodes of {count} GPUs: MSCCL++ supports {_INFINIBAND} InfiniBand devices per node"
        hint = f"use at most {_INFINIBAND}, or all {ranks} where they map each other's memory (NVLink between nodes)"
        raise SourceError(Diagnostic("M0117", message, hint=hint))
    return tuple(rank // count for rank in range(ranks))


def node_notes(node: tuple[int, ...], options: MscclOptions) -> list[str]:
    """Remarks on the nodes of a plan: what they are, and on the InfiniBand devices that they need."""
    sizes = Counter(node)
    if len(sizes) == 1:
        return []
    most, least = max(sizes.values()), min(sizes.values())
    gpus = plural(most, "GPU") if most == least else f"{least} to {most} GPUs"
    why = "'gpus_per_node'" if options.gpus_per_node else "the parts that the slowest links join"
    notes = [f"MSCCL++: {len(sizes)} nodes of {gpus} ({why}), with port channels between them"]
    if most > _INFINIBAND:
        notes.append(
            f"MSCCL++ supports {_INFINIBAND} InfiniBand devices per node, and rank {_INFINIBAND} of a node takes "
            "one beyond them: set 'gpus_per_node'"
        )
    return notes
