"""Switch channels: a buffer of several gpus that a switch adds and stores to (docs/msccl-contract.md, section 6.3)."""

from __future__ import annotations

from typing import cast

from collc.msccl.check.findings import FileLocation, Finding, Findings
from collc.msccl.check_plan.fields import (
    BUFFERS,
    JsonObject,
    is_number,
    list_of,
    number_of,
    object_of,
    text_of,
)
from collc.msccl.check_plan.json_text import PlanError
from collc.msccl.check_plan.model import Plan, SwitchChannel


def switch_channels_of(item: JsonObject, ranks: int, location: FileLocation) -> list[SwitchChannel]:
    """The switch channels of an entry of a gpu's channels, one for each group (X0402, X0403)."""
    name = text_of(item, "buffer_type", location)
    if name not in BUFFERS:
        raise PlanError("X0402", f'buffer_type "{name}"', location, "i, o or s")
    found: list[SwitchChannel] = []
    for entry in list_of(item, "rank_groups", location):
        group = object_of(entry, "rank group", location)
        members = list_of(group, "ranks", location)
        if not members or not all(is_number(one) and 0 <= cast("int", one) < ranks for one in members):
            raise PlanError("X0403", f"rank group {str(members)[:40]}", location, f"ranks of 0 .. {ranks - 1}")
        if len(set(members)) < len(members) or location.gpu not in members:
            text = f"rank group {str(members)[:40]} has a rank twice, or lacks gpu {location.gpu} itself"
            raise PlanError("X0403", text, location, "each of its ranks once, its own rank included")
        if number_of(group, "size", location) != len(members):
            raise PlanError("X0402", "size of a rank group is not the number of its ranks", location, f"{len(members)}")
        found.append(SwitchChannel(BUFFERS[name], tuple(members)))
    return found


def check_groups(plan: Plan, findings: Findings) -> None:
    """Add to the findings (X0403) groups that their members do not list alike: they wait for one another forever.

    The executor sets the groups of a gpu up one after the other, each together with all its members.
    """
    for rank, mine in enumerate(plan.switches):
        for peer in sorted({other for channel in mine for other in channel.ranks if other > rank}):
            here = [channel for channel in mine if peer in channel.ranks]
            there = [channel for channel in plan.switches[peer] if rank in channel.ranks]
            if here != there:
                text = f"gpus {rank} and {peer} list other switch channels, or list them in another order"
                at = FileLocation(gpu=rank, attribute="channels")
                findings.add(Finding("contract", "X0403", text, at, "the same groups in the same order"))
