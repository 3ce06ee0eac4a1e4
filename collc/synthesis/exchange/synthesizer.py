"""All-Reduce in which a core of NPUs forms each sum together.

Each chunk has a core: an NPU, a linked pair, a clique, or the NPUs along one or more dimensions, up to all.
The contributions of all NPUs are reduced to the members of the core, each to one of them. The members exchange their
partials until each has the sum, and the sum spreads from all of them. Reduction and spread take p steps each, and the
exchange a steps; a larger core makes p smaller and a larger. A pair needs as many transfers as a tree and one step
less: a tree sends the last partial to its root and then the sum back over the same link, whereas a pair swaps its
partials in one step. A core of all NPUs takes as many steps as the diameter of the network, but sends more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.base.memory import require_for_search
from collc.graph.automorphisms import opposite_links
from collc.synthesis.bounds import lower_bound
from collc.synthesis.conditions import rates_required
from collc.synthesis.exchange.cores import Core, CoreKind, core_kinds
from collc.synthesis.exchange.placement import choose_cores, exchange_rounds
from collc.synthesis.reductions.compose import MOST_RELAYED_IN_FILES, invert_schedule, obstacle_to_shared_sums
from collc.synthesis.retiming import MOST_TRANSFERS, shifted_left
from collc.synthesis.task import COMPILED_TIMES, TRIAL_WORK, Effort, Task, WorkMeter
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers

Spread = Callable[[Task, Effort], Schedule]
"""A synthesizer of copies over direct links."""

MOST_PLACEMENTS = 8
"""Placements of the chunks on the cores of a kind that are tried."""

MOST_TIME = 1 << 61
"""A time that no transfer takes."""

MESSAGE_WORK = 8
"""Work for each message of a placement, and for starting it anew, as WorkMeter counts it; planning copies adds its own.
"""

MESSAGE_BYTES = 80
"""Memory for each message of a placement; planning copies needs its own."""


def exchange(module: Module, effort: Effort, spread: Spread) -> Module:
    """The module with a schedule of its reductions.

    spread: plans the copies from the cores, and backwards in time the reductions to them. Raises SourceError if the
    network has switches or links without bandwidth, a chunk is not reduced for all who contribute to it, or something
    is planned already; NoSchedule if `effort.stop` asks to stop before there is any schedule.
    """
    reason = obstacle(module)
    if reason:
        hint = "'synthesize auto' chooses a synthesizer that fits"
        raise SourceError(Diagnostic("S0310", f"exchange {reason}", hint=hint))
    _refuse_many(module.demand, effort)
    with rates_required():
        clock = Clock.of(module.network, module.demand, module.model)
    planner = _ExchangePlanner(module, clock, spread, effort)
    best = planner.best()
    if best is None:
        raise NoSchedule(STOPPED)
    return replace(module, schedule=RowSchedule(module.model, best))


STOPPED: Final = Diagnostic("S0201", "stopped before exchange had a schedule", hint="give it more time")


def _refuse_many(demand: Demand, effort: Effort) -> None:
    """Raises NoSchedule if the messages of any plan take more work than is left: each NPU of the group of a chunk but
    one gives its contribution, and gets the sum.
    """
    work, table = effort.work, demand.chunks
    least = MESSAGE_WORK * int((table.sets.sizes[table.pre] - 1).sum())
    if work.remainder is not None and least >= work.remainder:
        work.add_setup(least)
        raise NoSchedule(STOPPED)


def obstacle(module: Module) -> str:
    """Why the synthesizer does not fit a module, as in "is for sums ..."; "" if it fits."""
    network = module.network
    if max(int(network.source.max(initial=-1)), int(network.target.max(initial=-1))) >= network.npu_count:
        return f"plans over direct links, and {network.name} has switches"
    return obstacle_to_shared_sums(module)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A kind of cores for each group. chunks: of each group. steps: of the spread from the cores of each group, about.

    messages: in all. work: of a placement. least: picoseconds that the whole takes, estimated from below.
    """

    kinds: tuple[CoreKind, ...]
    chunks: tuple[Int32Array, ...]
    steps: tuple[int, ...]
    messages: int
    work: int
    least: int


class _ExchangePlanner:
    """Plans a module with cores of several kinds."""

    def __init__(self, module: Module, clock: Clock, spread: Spread, effort: Effort) -> None:
        self._module, self._clock, self._spread, self._effort = module, clock, spread, effort
        network = module.network
        self._into = np.bincount(network.target, minlength=network.npu_count)
        bound = effort.bound or (lambda: lower_bound(network, module.demand, module.model).time)
        self._bound = bound()
        self._back = opposite_links(network)
        used = clock.total[np.unique(network.kind)]
        alike = module.model is LinkModel.STORE and used.size > 0 and bool((used == used.flat[0]).all())
        self._step = int(used.flat[0]) if alike else 0
        self._least_busy = int(clock.busy[np.unique(network.kind)].min(initial=MOST_TIME))
        self._least_total = int(used.min(initial=MOST_TIME))

    def best(self) -> Transfers | None:
        """The transfers of the shortest schedule found; None if stopped before there is any."""
        best: tuple[int, Transfers] | None = None
        left = TRIAL_WORK * max(1, self._effort.trials)
        plans = sorted(self._plans(), key=lambda plan: plan.least)
        for trial in range(MOST_PLACEMENTS * max(1, self._effort.trials)):
            again: list[_Plan] = []
            for plan in plans:
                if best is not None and (best[0] <= plan.least or left < plan.work):
                    continue
                self._effort.work.add(plan.work)
                if self._effort.stop() or (best is not None and self._effort.work.is_used_up):
                    return None if best is None else best[1]
                require_for_search(MESSAGE_BYTES * plan.messages, f"{plan.messages:,} messages")
                left -= plan.work
                planned = self._plan_trial(plan, trial)
                if best is None or planned[0] < best[0]:
                    best = planned
                if best[0] <= self._bound:
                    return best[1]
                if plan.least < planned[0] <= best[0]:  # another placement may be shorter
                    again.append(plan)
            plans = again
        return None if best is None else best[1]

    def _plans(self) -> Iterator[_Plan]:
        """The kinds of cores, each for all groups; groups without such cores use single NPUs."""
        table = self._module.demand.chunks
        sets = np.unique(table.pre).tolist()
        chunks = tuple(np.flatnonzero(table.pre == number).astype(np.int32) for number in sets)
        # In files for runtimes, messages of partials that are kept apart are not merged: many of them take long.
        many = self._module.relays and int(table.sets.sizes[table.pre].sum()) > MOST_RELAYED_IN_FILES
        by_name = [
            {
                kind.name: kind
                for kind in core_kinds(self._module.network, table.sets[number])
                if not (many and kind.cores[0].relays)
            }
            for number in sets
        ]
        for name in dict.fromkeys(name for kinds in by_name for name in kinds):
            chosen = tuple(kinds.get(name, kinds["vertex"]) for kinds in by_name)
            counts = [len(of_set) for of_set in chunks]
            steps = tuple(self._steps(kind, count) for kind, count in zip(chosen, counts, strict=True))
            messages = sum(kind.messages(count) for kind, count in zip(chosen, counts, strict=True))
            looks = sum(kind.looks(count) for kind, count in zip(chosen, counts, strict=True))
            work = MESSAGE_WORK * messages + looks // COMPILED_TIMES
            yield _Plan(chosen, chunks, steps, messages, work, self._least(chosen, steps, messages))

    def _steps(self, kind: CoreKind, chunks: int) -> int:
        """The steps in which chunks could spread from cores of a kind, by the links into the NPUs of the group."""
        members = sorted({npu for core in kind.cores for npu in core.members})
        degree = np.maximum(1, self._into[members])
        steps = min(core.radius for core in kind.cores)
        while int(np.maximum(0, chunks - steps * degree).sum()) > chunks * kind.size:
            steps += 1
        return steps

    def _least(self, kinds: tuple[CoreKind, ...], steps: tuple[int, ...], messages: int) -> int:
        """Picoseconds by the longest chain of messages, and by all messages over all links."""
        chain = 0
        for kind, each in zip(kinds, steps, strict=True):
            hops = each if self._step else min(core.radius for core in kind.cores)
            chain = max(chain, 2 * hops + kind.rounds)
        load = -(-messages // max(1, self._module.network.link_count)) * self._least_busy
        return max(chain * self._least_total, load)

    def _plan_trial(self, plan: _Plan, trial: int) -> tuple[int, Transfers]:
        """(picoseconds, transfers) of a schedule with a different placement for each trial."""
        module = self._module
        cores: dict[int, Core] = {}
        for kind, chunks, steps in zip(plan.kinds, plan.chunks, plan.steps, strict=True):
            rng = random.Random(self._effort.seed * 1_000_003 + trial) if trial else None
            placed = choose_cores(kind, len(chunks), self._into.tolist(), steps, rng)
            cores.update(zip(chunks.tolist(), placed, strict=True))
        demand = _spread_demand(module.demand, cores)
        sizes = module.demand.chunks.sets.sizes[module.demand.chunks.pre]
        moving = np.array([chunk for chunk, core in cores.items() if len(core.members) < sizes[chunk]], np.int32)
        parts: list[Transfers] = []
        end = 0
        down = self._copies(Task(module.network, demand, module.model, moving)) if len(moving) else None
        if down is not None:
            backward = module.network.reverse()
            up = self._copies(Task(backward, demand, module.model, moving, inverted=True), down)
            parts.append(invert_schedule(up, backward, demand).transfers)
            end = int((parts[0].start + self._clock.total_of(parts[0])).max(initial=0))
        rounds, end = exchange_rounds(module.network, self._clock, cores, end)
        parts.append(rounds)
        if down is not None:
            rows = down.transfers
            parts.append(replace(rows, start=rows.start + end))
        rows = Transfers.concatenate(parts)
        if not self._step and len(rows) <= MOST_TRANSFERS:
            self._effort.work.add(MESSAGE_WORK * len(rows))
            rows = shifted_left(module.network, module.demand, module.model, rows) or rows
        return int((rows.start + self._clock.total_of(rows)).max(initial=0)), rows

    def _copies(self, task: Task, down: Schedule | None = None) -> Schedule:
        """The spread of all sums, or its inverse, by a search that ends when it meets its bound; counts its work.

        down: for the inverse, the spread; if each link has one back, the inverse is the spread over these links.
        """
        if down is not None and self._back is not None:
            rows = down.transfers
            there = Transfers.of(rows.chunk, self._back[rows.link], rows.start, rows.reduce)
            return RowSchedule(down.model, there)
        work = self._effort.work
        meter = WorkMeter(most=work.remainder, compiles=work.compiles)
        schedule = self._spread(task, replace(self._effort.with_work(meter), bound=None))
        work.compiles = meter.compiles
        work.add(meter.spent)
        return schedule


def _spread_demand(demand: Demand, cores: dict[int, Core]) -> Demand:
    """Copies of each chunk from the members of its core to all NPUs of its group."""
    table = demand.chunks
    sets = [table.sets[number].tolist() for number in range(len(table.sets))]
    number: dict[tuple[int, ...], int] = {}
    pre = table.pre.copy()
    for chunk, core in cores.items():
        pre[chunk] = number.setdefault(core.members, len(sets) + len(number))
    sets += [list(members) for members in number]
    pattern = replace(table, pre=pre, op=np.zeros_like(table.op), sets=HolderSets.of(sets))
    return Demand((Run("spread", table.sets.members[:0], pattern),))
