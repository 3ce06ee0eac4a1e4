"""Synthesis for files with ranks: the chunks of a run pass no NPU outside its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collc.base.wording import plural
from collc.msccl.communicators import confined, for_one_run, relays_outside
from collc.passes.context import Pass, PassContext
from collc.passes.registry import Invert
from collc.passes.synthesize import Synthesize
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers

_AROUND_OTHERS: Final = "pccl"
"""The synthesizer that plans each run around those before it, where planning all at once leaves the groups."""


def confined_module(module: Module) -> Module:
    """The module without NPUs and links that no run can use inside its group, with a note if there are any."""
    network = confined(module.network, module.demand)
    if network is module.network:
        return module
    idle = len(module.network.npus) - len(network.npus)
    outside = f"{plural(idle, 'NPU')} outside the group" if idle else "links between groups"
    note = f"{outside} cannot be used: a file for a runtime has ranks for the members of a run alone"
    return replace(module, network=network, notes=(*module.notes, note))


def keep_inside(module: Module, synthesized: Module, context: PassContext) -> Module:
    """The synthesized module; if chunks of a run leave its group, the runs planned one after another instead.

    module: as it was before synthesis.
    """
    if not relays_outside(synthesized):
        return synthesized
    network = module.network
    planned = replace(module, schedule=RowSchedule(module.model, Transfers.joined([])))
    steps: Sequence[Pass] = (Synthesize(_AROUND_OTHERS), Invert())
    for number, run in enumerate(module.demand.runs):
        others = frozenset(range(len(module.demand.runs))) - {number}
        planned = replace(planned, network=for_one_run(network, run.group), planned=others, algorithm="", notes=())
        for step in steps:
            planned = step.run(planned, context)
    note = f"the runs are planned one after another by {_AROUND_OTHERS}: planned at once, chunks leave their groups"
    return replace(planned, network=network, algorithm=_AROUND_OTHERS, notes=(*module.notes, note), planned=None)
