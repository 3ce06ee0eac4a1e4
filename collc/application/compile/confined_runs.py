"""Synthesis for files with ranks: the chunks of a run pass no NPU outside its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collc.base.diagnostics import SourceError
from collc.base.wording import plural
from collc.msccl.communicators import for_one_run, network_of_groups, relays_outside
from collc.passes.context import Pass, PassContext
from collc.passes.registry import Fixed, Invert, Synthesize
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers

_AROUND_OTHERS: Final = "pccl"
"""The synthesizer that plans each run around those before it, if planning all at once leaves the groups."""


def confined_module(module: Module) -> Module:
    """The module without NPUs and links that no run can use inside its group, with a note if there are any."""
    network = network_of_groups(module.network, module.demand)
    if network is module.network:
        return module
    idle = len(module.network.npus) - len(network.npus)
    outside = f"{plural(idle, 'NPU')} outside the group" if idle else "links between groups"
    note = f"{outside} cannot be used: the ranks of a file are the members of its run only"
    return replace(module, network=network, notes=(*module.notes, note))


def laid_out_inside(module: Module, whole: Module, context: PassContext) -> Module:
    """The module within its groups with the runs written by hand as algorithms; `whole` if they leave their groups."""
    try:
        return Fixed().run(module, context)
    except SourceError:
        return Fixed().run(whole, context)


def keep_inside(module: Module, synthesized: Module, context: PassContext) -> Module:
    """The synthesized module; if chunks of a run leave its group, the runs planned one after another instead.

    module: as it was before synthesis, with the runs whose algorithms are written by hand. If one of these leaves
    its group, nothing is planned anew: the writer of its file says so.
    """
    if not relays_outside(synthesized) or relays_outside(module):
        return synthesized
    network = module.network
    by_hand = module.planned or frozenset()
    planned = module
    if module.schedule is None:
        planned = replace(module, schedule=RowSchedule(module.model, Transfers.joined([])))
    steps: Sequence[Pass] = (Synthesize(_AROUND_OTHERS), Invert())
    for number, run in enumerate(module.demand.runs):
        if number in by_hand:
            continue
        others = frozenset(range(len(module.demand.runs))) - {number}
        planned = replace(planned, network=for_one_run(network, run.group), planned=others, algorithm="", notes=())
        for step in steps:
            planned = step.run(planned, context)
    why = "planned together, chunks would leave their groups"
    note = f"the runs are planned one after another by {_AROUND_OTHERS}: {why}"
    return replace(planned, network=network, algorithm=_AROUND_OTHERS, notes=(*module.notes, note), planned=None)
