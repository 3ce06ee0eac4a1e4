"""The time of a plan that is in no file yet."""

from __future__ import annotations

from typing import Any

from collc.msccl.check.findings import Findings
from collc.msccl.check_plan.reader import plan_of_values
from collc.msccl.simulating.plan_tasks import counted_chunks, plan_tasks
from collc.msccl.slots import slot_bytes
from collc.simulation.engine import simulate
from collc.simulation.timing import ExactTiming
from collc.ten.module import Module


def plan_time(values: dict[str, Any], module: Module, instances: int = 1) -> int:
    """Picoseconds of a plan, as the values of its JSON, for the demand of a module.

    instances: of the plan, each for a part of every chunk. Raises PlanError where it cannot be understood, NoRoute and
    Deadlock as `plan_tasks` does.
    """
    plan = plan_of_values(values, Findings())
    chunks = counted_chunks(plan)
    size = max(1, chunks * slot_bytes(module.demand) // instances)
    return simulate(module.network, plan_tasks(plan, chunks, module.network, size), ExactTiming()).time_ps
