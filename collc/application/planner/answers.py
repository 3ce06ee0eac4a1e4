"""Answers of the planner: a plan of the canonical request, and what it means for the request that was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from collc.application.planner.plan_store import PlanFacts, StoredPlan
from collc.application.planner.requests import CanonicalRequest
from collc.base.units import format_time, percent
from collc.ten.arrays import Int32Array
from collc.ten.compaction import renumber_demand, renumber_network
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule
from collc.ten.module import Module
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import RowSchedule, Schedule, StepSchedule

Origin = Literal["cache", "renamed", "patched", "new"]
"""How an answer was found: asked before, a plan with other names, a repair of the undamaged schedule, or planned."""


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer. origin: how it was found. final: False if a deadline ended the search, which then goes on behind.

    ranks: of each run, for each rank of the request its rank in the files and the module; None if it is dead.
    files: contents by name.
    """

    origin: Origin
    final: bool
    ranks: tuple[tuple[int | None, ...], ...]
    plan: StoredPlan
    request: CanonicalRequest
    canonical_module: Callable[[CanonicalRequest, StoredPlan], Module] = field(repr=False)

    @property
    def key(self) -> str:
        """The hash of the canonical request."""
        return self.plan.key

    @property
    def facts(self) -> PlanFacts:
        """Times, bounds and checks."""
        return self.plan.facts

    @property
    def time_ps(self) -> int:
        """The time of the schedule, in picoseconds."""
        return self.facts.time_ps

    @property
    def bound_ps(self) -> int:
        """The lower bound with these chunks, in picoseconds."""
        return self.facts.bound_ps

    @property
    def ideal_ps(self) -> int:
        """The lower bound with any number of chunks, in picoseconds."""
        return self.facts.ideal_ps

    @property
    def files(self) -> dict[str, bytes]:
        """The checked files for the runtime, by name."""
        return self.plan.files

    @cached_property
    def module(self) -> Module:
        """The schedule on the NPUs of the request. A plan that was read from disk is planned again first."""
        module = self.canonical_module(self.request, self.plan)
        devices = self.request.renaming.devices
        return module if devices is None else rename_module(module, np.argsort(devices).astype(np.int32))

    def link_shares(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """float64[runs, links]: the share of the time of all runs for which the transfers of each run occupy each link
        of `module.network`.
        """
        module = self.module
        transfers = module.transfers()
        kind = module.network.kind[transfers.link]
        sizes, size = np.unique(transfers.size_bytes, return_inverse=True)
        busy = module.network.occupancy(sizes.astype(np.int64))[kind, size]
        shares = np.zeros((len(module.demand.runs), module.network.link_count))
        np.add.at(shares, (transfers.run, transfers.link), busy)
        return shares / max(1, self.time_ps)

    def as_json(self) -> dict[str, object]:
        """The answer for JSON, with the sizes of files in place of their contents; without files if it is not final,
        as its key is the one of the final plan.
        """
        facts = {name: getattr(self.facts, name) for name in PlanFacts.__dataclass_fields__}
        return {
            "key": self.key,
            "origin": self.origin,
            "final": self.final,
            **{name: [*value] if isinstance(value, tuple) else value for name, value in facts.items()},
            "ranks": [[*ranks] for ranks in self.ranks],
            "files": {name: len(data) for name, data in self.files.items()} if self.final else {},
        }

    def __repr__(self) -> str:
        ideal = percent(self.ideal_ps / self.time_ps) if self.time_ps else "100 %"
        final = "" if self.final else ", not final"
        return (
            f"<Answer: {format_time(self.time_ps)}, {ideal} of ideal, {self.facts.synthesizer}, {self.origin}{final}>"
        )


def rename_module(module: Module, devices: Int32Array) -> Module:
    """The module with its devices renamed. devices: int32[devices], an automorphism of the undamaged network.

    Links, ranks and chunks keep their numbers, so that transfers stay as they are.
    """
    network = renumber_network(module.network, devices)
    assert module.schedule is not None
    schedule = _rename_schedule(module.schedule, devices)
    return replace(module, network=network, demand=renumber_demand(module.demand, devices), schedule=schedule)


def _rename_schedule(schedule: Schedule, devices: Int32Array) -> Schedule:
    if isinstance(schedule, RowSchedule | StepSchedule):
        return schedule
    if isinstance(schedule, FactoredSchedule):
        translations = schedule.translations
        own = devices[: translations.device.shape[1]]
        moved = replace(translations, device=own[translations.device[:, np.argsort(own)]])
        keeps_orbits = np.array_equal(moved.orbits, own[translations.orbits])
        if keeps_orbits:
            return replace(schedule, translations=moved, numbers=_rename_numbers(schedule.numbers, own))
        return RowSchedule(schedule.model, schedule.transfers)
    if isinstance(schedule, RepairedSchedule):
        factored = _rename_schedule(schedule.factored, devices)
        if isinstance(factored, FactoredSchedule):
            numbers = _rename_numbers(schedule.numbers, devices)
            return replace(
                schedule, whole=renumber_network(schedule.whole, devices), factored=factored, numbers=numbers
            )
    return RowSchedule(schedule.model, schedule.transfers)


def _rename_numbers(numbers: ChunkNumbers, devices: Int32Array) -> ChunkNumbers:
    """The numbers of chunks, with the ranks at other NPUs."""
    npus = np.flatnonzero(numbers.rank >= 0)
    rank = np.full(int(devices[npus].max(initial=-1)) + 1, -1, np.int32)
    rank[devices[npus]] = numbers.rank[npus]
    return replace(numbers, rank=rank)
