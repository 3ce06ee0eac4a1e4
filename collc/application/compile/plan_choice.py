"""Of a schedule with direct links in place of switches and one for the switches, the one whose plan is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from collc.base.diagnostics import SourceError
from collc.base.units import format_time
from collc.emit.mscclpp import MOST_MESSAGES, fastest_plan
from collc.msccl.options import MscclOptions
from collc.passes.context import PassContext
from collc.simulation.engine import Deadlock
from collc.simulation.routing import NoRoute
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.network import Network


def faster_plan(
    module: Module,
    network: Network,
    options: MscclOptions,
    again: Callable[[PassContext], Module],
    context: PassContext,
) -> Module:
    """What `auto` found; where it has direct links in place of switches, one for the switches if its plan is faster.

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
    """Picoseconds of the plan of a module over a network; None where it has none or is too large to simulate."""
    from collc.msccl.simulating.plan_times import plan_time

    if module.schedule is None or len(module.schedule) > MOST_MESSAGES:
        return None
    try:
        return plan_time(fastest_plan(module, options), replace(module, network=network), options.instances)
    except (SourceError, Deadlock, NoRoute):
        return None
