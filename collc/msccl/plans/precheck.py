"""The nodes of the ranks of a plan, and what no plan can hold whatever the schedule.

Both are reported before a schedule is sought.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import format_bytes
from collc.base.wording import plural
from collc.graph.digraph import parts_of
from collc.msccl.limits import INFINIBAND_DEVICES, PLAN_STARTS
from collc.msccl.lowering.precheck import check_message_count, least_messages
from collc.msccl.options import MscclOptions
from collc.ten.demand import Demand, Op
from collc.ten.network import Network


def precheck_plan(network: Network, demand: Demand, options: MscclOptions) -> None:
    """Raise SourceError M0113 if the sizes of a plan begin above what its loader can read; M0117 for wrong nodes.

    M0120 for a reduction that is not a sum, M0111 for too many messages.
    """
    check_sums(demand)
    check_message_count(least_messages(demand))
    nodes_of_ranks(network, options)
    run = demand.runs[0] if len(demand.runs) == 1 else None
    kind = run.standard.kind if run is not None and run.standard is not None else ""
    smallest_message(kind, len(network.npus), options)


def check_sums(demand: Demand) -> None:
    """Raise SourceError M0120 if a demand asks for a reduction other than sums and averages.

    The runtime reads neither the `reduce_op` of a plan nor the operation of a call: it always adds.
    """
    others = other_reductions(demand)
    if others:
        message = f"MSCCL++ only adds, and here a plan would have to compute {' and '.join(others)}"
        hint = "use 'emit msccl': the runtimes of MSCCL files take the operation from the call"
        raise SourceError(Diagnostic("M0120", message, hint=hint))


def other_reductions(demand: Demand) -> list[str]:
    """The reductions of a demand that no plan computes: "max", "min" and "prod", sorted."""
    ops = {Op(op) for op in np.unique(demand.chunks.op).tolist()} - {Op.COPY, Op.SUM, Op.AVG}
    return sorted(op.name.lower() for op in ops)


def smallest_message(kind: str, ranks: int, options: MscclOptions) -> int:
    """The smallest buffer of a plan in bytes, as the runtime counts it: for a scatter, all ranks' parts together.

    kind: name of the collective in the standard library. Raises SourceError M0113 if it is 2 GiB or more.
    """
    smallest = options.sizes[0] * (ranks if kind == "scatter" else 1)
    if smallest > PLAN_STARTS:
        message = f"the 'sizes' of the plan begin at {format_bytes(smallest)}, and MSCCL++ reads less than 2GiB there"
        hint = "let 'sizes' begin below 2GiB, or emit msccl"
        raise SourceError(Diagnostic("M0113", message, hint=hint))
    return smallest


def nodes_of_ranks(network: Network, options: MscclOptions) -> tuple[int, ...]:
    """The node of each rank.

    Raises SourceError M0117 if `gpus_per_node` does not divide the ranks, or has the runtime look for more
    InfiniBand devices than it knows.
    """
    ranks, count = len(network.npus), options.gpus_per_node
    if count is None:
        rank_of = {npu: rank for rank, npu in enumerate(network.npus.tolist())}
        node = {rank_of[npu]: number for number, npus in enumerate(parts_of(network)) for npu in npus}
        return tuple(node[rank] for rank in range(ranks))
    if ranks % count and count < ranks:
        message = f"{ranks} GPUs do not divide into nodes of {count} GPUs"
        raise SourceError(Diagnostic("M0117", message, hint="let 'gpus_per_node' divide the number of GPUs"))
    if INFINIBAND_DEVICES < count < ranks:
        message = f"nodes of {count} GPUs: MSCCL++ supports {INFINIBAND_DEVICES} InfiniBand devices per node"
        hint = (
            f"use at most {INFINIBAND_DEVICES}, or all {ranks} if they map each other's memory (NVLink between nodes)"
        )
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
    if most > INFINIBAND_DEVICES:
        notes.append(
            f"MSCCL++ supports {INFINIBAND_DEVICES} InfiniBand devices per node, and rank {INFINIBAND_DEVICES} of a "
            "node takes one beyond them: set 'gpus_per_node'"
        )
    return notes
