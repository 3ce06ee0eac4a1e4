"""The Python script beside tuned plans: it registers them with MSCCL++, which scans no folder, and selects by size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collc.application.tune.tuning_report import TunedRange, TuningReport

_NAMES: Final = {"all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reducescatter"}
"""Collectives as the selector of MSCCL++ names them, if that is not the name without underscores."""

_TEMPLATE: Final = '''"""Registers the MSCCL++ plans beside this file, written by 'collc tune'.

Call it before the communicator is made:

    import register_plans
    register_plans.register(rank)

The runtime takes the plan in whose range a message is; outside of all ranges, or if the number of ranks or the
collective differs, it takes its own algorithms.
"""

import pathlib

COLLECTIVE = {collective}
RANKS = {ranks}
RANKS_PER_NODE = {per_node}

PLANS = {plans}
"""(first byte, last byte, file, name): the sizes that each plan serves, both ends included."""


def plan_for(size):
    """The name of the plan for a message of `size` bytes; None if there is none."""
    return next((name for low, high, _, name in PLANS if low <= size <= high), None)


def register(rank):
    """Register all plans, and a selector that takes them by size. rank: of this process."""
    import mscclpp
    from mscclpp.ext import AlgorithmCollectionBuilder

    folder = pathlib.Path(__file__).parent
    builder = AlgorithmCollectionBuilder()
    for _, _, file, name in PLANS:
        plan = mscclpp.ExecutionPlan(str(folder / file), rank)
        constraint = mscclpp.Algorithm.Constraint(RANKS, RANKS_PER_NODE)
        algorithm = mscclpp.Algorithm(id=name, execution_plan=plan, constraint=constraint, tags={{"collc": 1}})
        builder.add_algorithm_builder(algorithm)
    builder.set_algorithm_selector(select)


def select(algorithms, request):
    """The selector: of the algorithms by collective and name, the plan for a request; None for the runtime's own."""
    if request.collective != COLLECTIVE or getattr(request, "world_size", RANKS) != RANKS:
        return None
    return algorithms.get(COLLECTIVE, {{}}).get(plan_for(request.message_size))
'''


def plan_script(report: TuningReport, ranges: Sequence[TunedRange], per_node: int) -> str:
    """The text of the script for some ranges, whose files are written. per_node: ranks of a node."""
    least = report.sizes[0]  # a file may say less
    rows = [(max(one.low, least), one.high, PurePath(one.file).name, one.name) for one in ranges]
    plans = "[\n" + "".join(f"    {row!r},\n" for row in rows) + "]"
    collective = json.dumps(_NAMES.get(report.collective, report.collective.replace("_", "")))
    return _TEMPLATE.format(collective=collective, ranks=report.npus, per_node=per_node, plans=plans)
