"""Which MSCCL++ plan is fastest in the simulator: of one schedule, and of one over switches or direct links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from collc.base.diagnostics import SourceError
from collc.base.units import format_time
from collc.msccl.options import MscclOptions
from collc.msccl.plans.operations import Json
from collc.msccl.plans.plan import plans_of
from collc.msccl.simulating import plan_time
from collc.passes.context import PassContext
from collc.simulation.engine import Deadlock
from collc.simulation.routing import NoRoute
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.network import Network

MAX_SIMULATED_MESSAGES: Final = 20_000
"""Messages of a schedule up to which its plans are simulated."""


def fastest_plan(module: Module, options: MscclOptions) -> Json:
    """The plan that takes least time for the buffer of the module, of equally fast ones the first.

    Raises SourceError as `plan_of` does.
    """
    plans = plans_of(module, options)
    first = next(plans)
    if module.schedule is None or len(module.schedule) > MAX_SIMULATED_MESSAGES:
        return first
    others = list(plans)
    return min([first, *others], key=lambda plan: plan_time(plan, module, options.instances)) if others else first


def faster_plan(
    module: Module,
    network: Network,
    options: MscclOptions,
    again: Callable[[PassContext], Module],
    context: PassContext,
) -> Module:
    """What `auto` found; if it has direct links in place of switches, one for the switches if its plan is faster.

    network: with the switches, over which both plans are simulated. again: makes the module with another context than
    `context`. The result has a note on the choice.
    """
    if network.unwound or not module.network.unwound:
        return module
    first = _time(module, network, options)
    if first is None:
        return module
    effort = replace(context.effort, unwinds=False, work=WorkMeter())
    other = again(replace(context, effort=effort))
    second = _time(other, network, options)
    if second is None:
        return module
    chosen = other if second < first else module
    note = (
        f"auto: over the switches, the plan of {module.algorithm} takes {format_time(first)}, and that of "
        f"{other.algorithm} {format_time(second)}: chose {chosen.algorithm}"
    )
    return replace(chosen, notes=(*chosen.notes, note))


def _time(module: Module, network: Network, options: MscclOptions) -> int | None:
    """Picoseconds of the plan of a module over a network; None if it has none or is too large to simulate."""
    if module.schedule is None or len(module.schedule) > MAX_SIMULATED_MESSAGES:
        return None
    try:
        return plan_time(fastest_plan(module, options), replace(module, network=network), options.instances)
    except (SourceError, Deadlock, NoRoute):
        return None
