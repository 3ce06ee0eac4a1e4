"""Collectives on networks that lack some links or NPUs, or in which some links are slow: the plan of the whole network,
repaired.

The translations of the plan that are left stay translations, so that neither the plan nor its proof lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from collc.graph.automorphisms import opposite_links
from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.graph.translations import find_translations
from collc.synthesis.damage import SHARE, undamaged_network
from collc.synthesis.symmetric.bundled_exchange import MOST_EXPANDED
from collc.synthesis.symmetric.class_timetable import ClassTimes
from collc.synthesis.symmetric.cluster import cluster_copies
from collc.synthesis.symmetric.group import find_group
from collc.synthesis.symmetric.messages import csr_bounds
from collc.synthesis.symmetric.moved_sums import move_sums
from collc.synthesis.symmetric.repair import Repair
from collc.synthesis.symmetric.rerouted import PlanPart, list_blocks, reroute, translations_of
from collc.synthesis.symmetric.shared_links import share_links
from collc.synthesis.symmetric.translated import tree_copies
from collc.synthesis.task import Effort
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct, ranges
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, Translations, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import RowSchedule, Transfers


class _Phase(NamedTuple):
    """Copies or partials: rows of the representative, which of them are dropped (row * elements + element), and what
    is added, in the numbers of the damaged network.
    """

    rows: Transfers
    dropped: Int64Array
    added: Transfers

    def later(self, by: int) -> _Phase:
        """All of it, some picoseconds later."""
        rows, added = (
            Transfers(each.chunk, each.link, each.start + by, each.reduce) for each in (self.rows, self.added)
        )
        return _Phase(rows, self.dropped, added)


def repaired_schedule(module: Module, effort: Effort) -> RepairedSchedule | RowSchedule | None:
    """A schedule of one All-Gather, Reduce-Scatter, All-Reduce or All-to-All over all NPUs that are there; None if this
    does not apply: if the network lacks nothing, or much of the plan, or two translations of a transfer share a link.

    Raises ValueError if links have no bandwidth or latency.
    """
    numbers, network = ChunkNumbers.of(module.demand), module.network
    if numbers is None or module.schedule is not None or len(module.demand.runs[0].group) != len(network.npus):
        return None
    if network.has_limited_buffers or bool(network.reduces.any()) or network.has_endpoints:
        return None
    whole = undamaged_network(network)
    translations = None if whole is None else find_translations(whole)
    if whole is None or translations is None or translations.count != network.npu_count:
        return None
    if not network.has_switches and _lost_paths(network, whole) * numbers.parts > MOST_EXPANDED:
        return None
    return _Repairer(module, whole, translations, numbers, effort).schedule()


def is_repairable(module: Module) -> bool:
    """Whether one collective over all NPUs that are there runs on a Cayley graph that lacks some links or NPUs, and at
    most 1/SHARE of all pairs of NPUs are likely to lose their path.
    """
    network, numbers = module.network, ChunkNumbers.of(module.demand)
    if numbers is None or module.schedule is not None or network.has_switches or network.has_endpoints:
        return False
    if len(module.demand.runs[0].group) != len(network.npus):
        return False
    whole = undamaged_network(network)
    if whole is None or find_group(whole) is None:
        return False
    return _lost_paths(network, whole) * SHARE <= whole.npu_count**2


def _lost_paths(network: Network, whole: Network) -> int:
    """About how many pairs of NPUs lose their path: each link that is missing or slow carries its share of them."""
    hops, count = int(hops_from(Digraph.of(whole), 0).sum()), whole.link_count
    left = int(np.count_nonzero(network.kind == whole.kind[: network.link_count]))
    return (count - left) * hops * whole.npu_count // count


class _Repairer:
    """Repairs the plan of one module."""

    def __init__(
        self, module: Module, whole: Network, translations: Translations, numbers: ChunkNumbers, effort: Effort
    ) -> None:
        self._module, self._whole, self._translations, self._effort = module, whole, translations, effort
        self._numbers = numbers
        self._of_whole = ChunkNumbers(np.arange(whole.npu_count, dtype=np.int32), numbers.pairs, numbers.parts)
        kind = np.append(module.network.kind, whole.kind[module.network.link_count :]).astype(np.int32)
        self._times, self._actual = (
            ClassTimes.of(each, translations, module.model, chunk_size(module.demand))
            for each in (whole, replace(whole, kind=kind))
        )
        self._is_damaged_within = self._anew = False

    def schedule(self) -> RepairedSchedule | RowSchedule | None:
        """The schedule; None if the plan cannot be repaired. If nodes lack links, the shorter of two: with what is sent
        within these nodes as planned, and anew.
        """
        schedules = [self._repair_plan()]
        if self._is_damaged_within:
            self._anew = True
            schedules.append(self._repair_plan())
        return self._shortest(schedules)

    def _shortest(
        self, schedules: Iterable[RepairedSchedule | RowSchedule | None]
    ) -> RepairedSchedule | RowSchedule | None:
        """The first of the shortest schedules, None if there are none."""
        network, demand = self._module.network, self._module.demand
        found = (each for each in schedules if each is not None)
        return min(found, key=lambda each: each.collective_time(network, demand), default=None)

    def _repair_plan(self) -> RepairedSchedule | RowSchedule | None:
        standard, network = self._module.demand.standard, self._module.network
        assert standard is not None
        if self._numbers.pairs and not network.has_switches:
            return self._exchange()
        if not standard.shape.reduces:
            return self._join(self._copies(network, self._whole))
        if standard.shape.end != "all":
            return self._join(self._sums(self._copies(network.reverse(), self._whole.reverse())))
        opposite = opposite_links(self._whole)
        if opposite is None or opposite_links(network) is None:
            copies = self._copies(network, self._whole)
            return self._join(self._sums(self._copies(network.reverse(), self._whole.reverse())), copies)
        faster, least = self._moved_sums(opposite) if network.has_switches else self._shared_links(opposite)
        if faster is not None and faster.collective_time(network, self._module.demand) <= 2 * least:
            return faster
        copies = self._copies(network, self._whole)
        return self._shortest([self._join(self._sums(copies, opposite), copies), faster])

    def _moved_sums(self, opposite: Int32Array) -> tuple[RepairedSchedule | RowSchedule | None, int]:
        """An All-Reduce whose sums begin so that damaged nodes send and receive fewer of them, None for none; and how
        long the copies take otherwise, at least. The shorter one of two choices if there is another.
        """
        schedules: list[RepairedSchedule] = []
        least = 0
        for other in (False, True):
            repair = self._begin(self._module.network, self._whole)
            moved = None if repair is None else move_sums(repair, self._whole, other=other)
            if repair is None or moved is None or not repair.repair_all():
                break
            copies, least = self._phase_of(repair), moved.least
            joined = self._join(self._sums(copies, opposite), copies)
            schedules += [] if joined is None else [joined]
            if not moved.has_other:
                break
        return self._shortest(schedules), least

    def _shared_links(self, opposite: Int32Array) -> tuple[RepairedSchedule | None, int]:
        """An All-Reduce in which partials and copies share the links (shared_links.py), None for none; and how long the
        copies take otherwise, at least.
        """
        network, whole, times = self._module.network, self._whole, self._times
        group = find_group(whole)
        taken, window = (np.unique(each) for each in (times.taken, times.window))
        if group is None or self._numbers.parts == 1 or len(taken) + len(window) > 2:
            return None, 0
        plan = share_links(group, self._numbers.parts, int(taken[0]), int(window[0]), self._effort)
        repair = Repair(network, whole, self._translations, times, self._actual, self._of_whole, plan.rows)
        if repair.estimate_lost() * SHARE > len(repair.messages.chunk) * repair.count:
            return None, 0
        repair.reflect(plan.mirror, opposite, plan.release)
        repair.drop(repair.missing)
        if not repair.repair_all():
            return None, 0
        copies = self._phase_of(repair)
        left = np.bincount(network.source, minlength=network.npu_count)[network.npus].min()
        least = int(taken[0]) * (len(network.npus) - 1) * self._numbers.parts // int(left)
        return self._overlay(self._partials_of(copies, opposite, plan.mirror), copies), least

    def _exchange(self) -> RepairedSchedule | RowSchedule | None:
        """An All-to-All without switches."""
        network, whole = self._module.network, self._whole
        repair = self._begin(network, whole)
        if repair is None:
            return None
        part = PlanPart.to_list(repair)
        routes = None if part is None else reroute(repair, network, whole, part)
        in_gaps = None if part is not None and part.since == 0 else self._exchange_in_gaps(repair)
        if part is None or routes is None or (in_gaps is not None and self._end(in_gaps) <= routes.end):
            return self._join(in_gaps)
        listed = list_blocks(repair, network, routes, part, self._effort)
        if listed is None:
            return self._join(in_gaps)
        transfers = self._number_chunks(*listed)
        if part.since == 0:
            return RowSchedule(self._module.model, transfers)
        dropped = distinct(np.append(repair.dropped_rows(), translations_of(part.rows, repair.count)))
        return self._join(_Phase(repair.rows, dropped, transfers))

    def _exchange_in_gaps(self, repair: Repair) -> _Phase | None:
        """An All-to-All in the gaps of the plan; None if a block has no route."""
        routes = reroute(repair, self._module.network, self._whole, PlanPart.of_plan(repair))
        if routes is None:
            return None
        repair.rerouted = routes
        return self._phase_of(repair) if repair.repair_all() else None

    def _copies(self, network: Network, whole: Network) -> _Phase | None:
        """The copies of an All-Gather or All-to-All."""
        repair = self._begin(network, whole)
        return None if repair is None or not repair.repair_all() else self._phase_of(repair)

    def _phase_of(self, repair: Repair) -> _Phase:
        return _Phase(repair.rows, repair.dropped_rows(), self._number_chunks(*repair.added_transfers()))

    def _begin(self, network: Network, whole: Network) -> Repair | None:
        """The plan of the whole network, from which all that is over missing links is dropped; None if that is much."""
        numbers, model = self._of_whole, self._module.model
        size = chunk_size(self._module.demand)
        if whole.has_switches:
            rows = cluster_copies(whole, self._translations, model, numbers, size)
        else:
            rows = tree_copies(whole, model, numbers, size, self._effort)
        if rows is None or bool(self._times.turn[rows.link].any()):
            return None
        repair = Repair(network, whole, self._translations, self._times, self._actual, numbers, rows)
        if repair.estimate_lost() * SHARE > len(repair.messages.chunk) * repair.count:
            return None
        if numbers.pairs:
            return repair
        repair.drop(repair.missing)
        self._is_damaged_within = len(repair.damaged_inside) > 0
        if self._anew and self._is_damaged_within:
            repair.drop_within_damaged()
        return repair

    def _number_chunks(self, chunk: Int32Array, owner: Int32Array, link: Int32Array, start: Int64Array) -> Transfers:
        """Transfers of chunks of the representative that are taken to owners, in the numbers of the module."""
        npus, translations = self._translations.orbits[0], self._translations
        first = np.ones(len(chunk), np.bool_)  # of the hops of a chunk, one after another
        first[1:] = (chunk[1:] != chunk[:-1]) | (owner[1:] != owner[:-1])
        hops = np.diff(np.append(np.flatnonzero(first), len(chunk)))
        (target, part), owner = np.divmod(chunk[first], self._numbers.parts), owner[first]
        other = None
        if self._numbers.pairs:
            other = npus[translations.sum(translations.element_of[target], owner)]
        return Transfers.of(np.repeat(self._numbers.number(npus[owner], other, part), hops), link, start)

    def _sums(self, copies: _Phase | None, opposite: Int32Array | None = None) -> _Phase | None:
        """The partials that copies become backwards in time. opposite: of links, if they are not on reversed links."""
        if copies is None:
            return None
        end, windows = self._end(copies), (self._times.window, self._actual.window)
        links = (each.link if opposite is None else opposite[each.link] for each in (copies.rows, copies.added))
        parts = [
            Transfers(each.chunk, link, end - each.start - window[each.link], np.ones(len(each), np.bool_))
            for each, link, window in zip((copies.rows, copies.added), links, windows, strict=True)
        ]
        return _Phase(parts[0], copies.dropped, parts[1])

    def _partials_of(self, copies: _Phase, opposite: Int32Array, mirror: int) -> _Phase:
        """The partials that copies become backwards in time from `mirror` on: of the first part for the last."""
        parts = self._numbers.parts
        rows, added = (
            Transfers(
                each.chunk + np.int32(parts - 1) - each.chunk % parts * np.int32(2),
                opposite[each.link],
                mirror - each.start - window[each.link],
                np.ones(len(each), np.bool_),
            )
            for each, window in ((copies.rows, self._times.window), (copies.added, self._actual.window))
        )
        return _Phase(rows, copies.dropped, added)

    def _end(self, phase: _Phase) -> int:
        rows, added = phase.rows, phase.added
        last = (rows.start + self._times.window[rows.link]).max(initial=0)
        return int(max(last, (added.start + self._actual.window[added.link]).max(initial=0)))

    def _join(self, *phases: _Phase | None) -> RepairedSchedule | None:
        """The schedule of one phase, or of partials and then copies."""
        later: list[_Phase] = []
        end = 0
        for phase in phases:
            if phase is None:
                return None
            later.append(phase.later(end))
            end = self._end(later[-1])
        return self._overlay(*later)

    def _overlay(self, *phases: _Phase) -> RepairedSchedule:
        """The schedule of phases at their times; all are later if one would begin before 0."""
        begin = min(int(each.start.min(initial=0)) for phase in phases for each in (phase.rows, phase.added))
        phases = tuple(phase.later(-begin) for phase in phases)
        first = np.cumsum([0, *(len(phase.rows) for phase in phases[:-1])]) * self._translations.count
        chunk, link, start, reduce = _columns([phase.rows for phase in phases])
        order = np.lexsort((chunk, link, start))
        dropped = np.concatenate([phase.dropped + low for phase, low in zip(phases, first, strict=True)])
        bounds = csr_bounds(dropped // self._translations.count, len(order))
        moved = ranges(bounds[:-1][order], bounds[1:][order])  # what is dropped of each row, in their new order
        row = np.repeat(np.arange(len(order)), np.diff(bounds)[order])
        images = row * self._translations.count + dropped[moved] % self._translations.count
        table = Transfers(chunk[order], link[order], start[order], reduce[order])
        factored = FactoredSchedule(
            self._module.model, self._translations, self._of_whole, table, np.zeros(len(table), np.int64)
        )
        added = Transfers.of(*_columns([phase.added for phase in phases]))
        return RepairedSchedule(self._module.model, self._whole, factored, self._numbers, images, added)


def _columns(parts: list[Transfers]) -> tuple[Int32Array, Int32Array, Int64Array, BoolArray]:
    columns = zip(*((part.chunk, part.link, part.start, part.reduce) for part in parts), strict=True)
    chunk, link, start, reduce = (np.concatenate(column) for column in columns)
    return chunk, link, start, reduce
