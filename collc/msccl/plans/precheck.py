"""What no MSCCL++ plan can hold whatever the schedule, so that it is reported before a schedule is sought."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import format_bytes
from collc.msccl.options import MscclOptions
from collc.msccl.plans.nodes import nodes_of_ranks
from collc.ten.demand import Demand, Op
from collc.ten.network import Network

_SMALLEST_MESSAGE_BITS: Final = 31
"""The loader keeps `min_message_size` in a signed int of 32 bits (docs/msccl-contract.md, section 6)."""


def precheck_plan(network: Network, demand: Demand, options: MscclOptions) -> None:
    """Raise SourceError M0113 if the sizes of a plan begin above what its loader can read; M0117 for wrong nodes.

    M0120 for a reduction that is not a sum.
    """
    check_sums(demand)
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
    if smallest >> _SMALLEST_MESSAGE_BITS:
        message = f"the 'sizes' of the plan begin at {format_bytes(smallest)}, and MSCCL++ reads less than 2GiB there"
        hint = "let 'sizes' begin below 2GiB, or emit msccl"
        raise SourceError(Diagnostic("M0113", message, hint=hint))
    return smallest
