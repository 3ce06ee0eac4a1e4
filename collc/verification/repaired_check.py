"""Whether a repaired schedule is right: the schedule of the whole network is proved, then what the difference changes.

Links of the damaged network may be of other kinds than in the whole one, as if these were missing there.

In the schedule of the whole network chunks spread, and sums form, along trees (`trees.py`). Whether this is so of a
chunk can be seen at each NPU by itself: from when on it holds the value, that it sends no copy before, that it
sends its partial once, after all partials that it adds have come; and that one NPU sends none. So only the NPUs at
which transfers of a chunk were dropped or added are looked at again, with all transfers of the chunk there.

A switch passes on as many copies, and as many partials, as reach it, the n-th after the n-th has come. If the n-th
arrival is dropped together with the n-th departure, and those that are added are such pairs too, there is still a later
departure for each arrival, and so the n-th is still after the n-th.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    distinct,
    find_keys,
    find_runs,
    fits_table,
    order_of,
    ranges,
)
from collc.ten.declared import follows_rule
from collc.ten.factored_schedule import ChunkNumbers, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import Transfers
from collc.verification.factored_check import representatives_on
from collc.verification.trees import trees_are_right
from collc.verification.valid_transfers import usable_links

LATEST = 2**50
"""Picoseconds (18 minutes); later times are left to the check of rows."""

NEVER = 2**62


def is_repaired_right(module: Module, schedule: RepairedSchedule) -> bool:
    """Whether the schedule of the whole network is right, and the difference leaves it right on a part of it."""
    rows, added = schedule.factored.rows, schedule.added
    if not _is_collective_of(module, schedule) or not _is_right(module, schedule):
        return False
    if not _are_images(schedule) or not _are_plain(module, added):
        return False
    check = _RepairCheck(module, schedule)
    return (
        check.drops_what_is_missing()
        and all(check.switches_pass_on(rows.reduce == kind, added.reduce == kind) for kind in (False, True))
        and check.links_are_free()
        and (check.routes_are_right() or check.npus_are_right())
    )


def _is_collective_of(module: Module, schedule: RepairedSchedule) -> bool:
    """Whether chunks are those of a collective over all NPUs that are there, and translations take any NPU to any."""
    own, numbers, whole = ChunkNumbers.of(module.demand), schedule.numbers, schedule.factored.numbers
    if own is None or not _is_part_of(module.network, schedule.whole):
        return False
    run = module.demand.runs[0]
    if not follows_rule(run) or not np.array_equal(np.sort(run.group), module.network.npus):
        return False
    if not np.array_equal(own.rank, numbers.rank) or not np.array_equal(
        np.sort(whole.rank), np.arange(module.network.npu_count)
    ):
        return False
    kept = {(each.pairs, each.parts) for each in (own, numbers, whole)}
    models = {each.model for each in (module, schedule, schedule.factored)}
    return len(kept) == len(models) == 1


def _is_right(module: Module, schedule: RepairedSchedule) -> bool:
    """Whether in the schedule of the whole network chunks spread, and sums form, along trees."""
    factored, standard = schedule.factored, module.demand.standard
    if standard is None or bool(factored.turn.any()) or factored.translations.count != schedule.whole.npu_count:
        return False
    representatives = representatives_on(schedule.whole, factored, standard, module)
    return representatives is not None and trees_are_right(representatives)


def _is_part_of(network: Network, whole: Network) -> bool:
    """Whether a network is another one without some NPUs and its last links, and with any kinds for its others."""
    count = network.link_count
    if (network.npu_count, network.device_count, network.kinds) != (
        whole.npu_count,
        whole.device_count,
        whole.kinds,
    ) or count > whole.link_count:
        return False
    if any(each.has_endpoints or each.has_limited_buffers or each.reduces.any() for each in (network, whole)):
        return False
    return (
        bool(whole.present.all())
        and np.array_equal(network.multicast, whole.multicast)
        and np.array_equal(network.source, whole.source[:count])
        and np.array_equal(network.target, whole.target[:count])
    )


def _are_images(schedule: RepairedSchedule) -> bool:
    """Whether what is dropped are different translations of rows, each of which has a link of its own."""
    factored, dropped = schedule.factored, schedule.dropped
    if bool((factored.translations.link_share[factored.rows.link] != 1).any()):
        return False
    inside = not len(dropped) or (int(dropped[0]) >= 0 and int(dropped[-1]) < len(factored))
    return inside and bool((dropped[1:] > dropped[:-1]).all())


def _are_plain(module: Module, added: Transfers) -> bool:
    """Whether what is added are plain transfers of chunks that there are, over links between devices that are there."""
    network, standard = module.network, module.demand.standard
    if not len(added):
        return True
    if added.relayed is not None or added.messages is not None or added.kept is not None or not added.is_sorted:
        return False
    there = int(added.chunk.min()) >= 0 and int(added.chunk.max()) < len(module.demand.runs[0].pattern)
    there &= int(added.link.min()) >= 0 and int(added.link.max()) < network.link_count
    there &= int(added.start[0]) >= 0 and int(added.start[-1]) < LATEST
    if not there or standard is None or (bool(added.reduce.any()) and not standard.shape.reduces):
        return False
    return bool(usable_links(network)[added.link].all())


@dataclass(frozen=True, eq=False)
class _Transfers:
    """Transfers, with states for their ends: a state is a chunk of the representative and an NPU, chunk * NPUs + NPU,
    as they are if the chunk is taken to that of the representative.

    rows: which they are. element: int32, takes the representative to the NPU whose chunk it is; for rows of the
    representative 0. leaves, reaches: int64, the states of the sender and of the receiver; negative for switches.
    arrival: int64, picoseconds.
    """

    rows: Transfers
    element: Int32Array
    leaves: Int64Array
    reaches: Int64Array
    arrival: Int64Array


class _RepairCheck:
    """The checks of a difference. Elements stand for NPUs. A translation of a row is row * NPUs + element."""

    def __init__(self, module: Module, schedule: RepairedSchedule) -> None:
        self._network, self._whole = module.network, schedule.whole
        self._factored, self._numbers = schedule.factored, schedule.numbers
        self._translations, self._rows = self._factored.translations, self._factored.rows
        self._dropped, self._added = schedule.dropped, schedule.added
        standard = module.demand.standard
        assert standard is not None
        self._reduces, self._gathers = standard.shape.reduces, standard.shape.end == "all"
        self._count, self._chunks = self._translations.count, self._factored.representative_chunks
        self._present = module.network.present[self._translations.orbits[0]]
        sent = self._whole.occupancy(np.array([chunk_size(module.demand)], np.int64))[:, 0]
        total = sent + self._whole.latencies
        self._busy = module.model.busy(sent, total)[self._network.kind]
        self._row_total, self._added_total = total[self._whole.kind], total[self._network.kind]
        by_rank = np.argsort(self._factored.numbers.rank)
        chunk = np.arange(self._chunks)
        self._wanting = np.zeros(self._chunks, np.int32)
        if self._numbers.pairs:
            self._wanting = self._translations.element_of[by_rank[chunk // self._numbers.parts]]
        self._is_dropped: BoolArray | None = None
        if fits_table(len(self._factored), len(self._dropped) + len(self._added)):
            self._is_dropped = np.zeros(len(self._factored), np.bool_)
            self._is_dropped[self._dropped] = True

    def _are_dropped(self, row: Int64Array, element: Int32Array | Int64Array) -> BoolArray:
        """bool[n]: whether translations of rows are dropped."""
        wanted = row * self._count + element
        return find_keys(self._dropped, wanted)[1] if self._is_dropped is None else self._is_dropped[wanted]

    def drops_what_is_missing(self) -> bool:
        """Whether all transfers are dropped that are over missing links or those of another kind, or of chunks that are
        no more.
        """
        translations, link, left = self._translations, self._rows.link, self._network.link_count
        usable = np.zeros(self._whole.link_count, np.bool_)
        usable[:left] = usable_links(self._network) & (self._network.kind == self._whole.kind[:left])
        row, element = translations.rows_over(link, np.flatnonzero(~usable).astype(np.int32))
        wanted = [row * self._count + element]
        every = np.arange(len(link), dtype=np.int64) * self._count
        for npu in np.flatnonzero(~self._present).tolist():
            wanted.append(every + npu)
            if self._numbers.pairs:
                target = self._wanting[self._rows.chunk]
                wanted.append(every + translations.difference(np.full_like(target, npu), target))
        return bool(find_keys(self._dropped, np.concatenate(wanted))[1].all())

    def switches_pass_on(self, rows_chosen: BoolArray, added_chosen: BoolArray) -> bool:
        """Whether of the chosen transfers arrivals at switches are dropped with the departures that belong to them, and
        arrivals that are added have departures of their own.
        """
        pairs = self._pair_at_switches(self._rows, rows_chosen, self._row_total)
        if pairs is None or self._pair_at_switches(self._added, added_chosen, self._added_total) is None:
            return False
        row, element = np.divmod(self._dropped, self._count)
        for own, other in (pairs, pairs[::-1]):
            partner = np.full(len(self._rows), -1, np.int64)
            partner[own] = other
            passing = partner[row] >= 0
            if not bool(self._are_dropped(partner[row[passing]], element[passing]).all()):
                return False
        return True

    def _pair_at_switches(
        self, rows: Transfers, chosen: BoolArray, total: Int64Array
    ) -> tuple[Int64Array, Int64Array] | None:
        """(arrivals, departures), rows of transfers: the n-th of each of a chunk at a switch; None if one departs
        before it has come, or one of both is lacking. total: int64[links], picoseconds that a chunk takes.
        """
        whole, chunk = self._whole, rows.chunk.astype(np.int64) * self._whole.device_count
        source, target = whole.source[rows.link], whole.target[rows.link]
        arrival = rows.start + total[rows.link]
        came = np.flatnonzero(chosen & (target >= whole.npu_count))
        left = np.flatnonzero(chosen & (source >= whole.npu_count))
        most = (int(rows.chunk.max(initial=0)) + 1) * whole.device_count
        came = came[np.argsort(arrival[came], kind="stable")]
        came = came[order_of((chunk + target)[came], most)]
        left = left[order_of((chunk + source)[left], most)]
        if not np.array_equal((chunk + target)[came], (chunk + source)[left]):
            return None
        return None if bool((rows.start[left] < arrival[came]).any()) else (came, left)

    def links_are_free(self) -> bool:
        """Whether a link carries nothing else while it carries what is added.

        Of the rows of a class, which never overlap, those that would on a link must be dropped there.
        """
        translations, rows, added = self._translations, self._rows, self._added
        order = order_of(added.link, self._network.link_count)  # they are in order of time
        link, start = added.link[order], added.start[order]
        busy = self._busy[link]
        if bool(((link[1:] == link[:-1]) & (start[1:] < (start + busy)[:-1])).any()):
            return False
        if len(translations.class_links) * LATEST >= NEVER:
            return False
        base = translations.class_row.astype(np.int64) * LATEST
        by_time = np.argsort(base[rows.link] + rows.start, kind="stable")
        begins = (base[rows.link] + rows.start)[by_time]
        position = np.searchsorted(begins, base[link] + np.maximum(0, start - busy + 1))
        after = np.searchsorted(begins, base[link] + np.minimum(start + busy, LATEST))
        while bool((position < after).any()):
            still = position < after
            link, position, after = link[still], position[still], after[still]
            row = by_time[position]
            if not bool(self._are_dropped(row, translations.elements_to(rows.link[row], link)).all()):
                return False
            position = position + 1
        return True

    def routes_are_right(self) -> bool:
        """Whether, in an All-to-All, what is dropped are all transfers of some blocks, and what is added are the routes
        of those whose ends are there. It is stricter than `npus_are_right`, and sorts nothing but what is added.
        """
        replaced = self._replaced_blocks() if self._numbers.pairs else None
        if replaced is None:
            return False
        order = np.argsort(self._added.chunk, kind="stable")
        rows = self._added.select(order)
        last = np.append(rows.chunk[1:] != rows.chunk[:-1], np.ones(min(1, len(rows)), np.bool_))
        goes_on, first = ~last[:-1], np.append(last[-1:], last[:-1])
        source, target = self._whole.source[rows.link], self._whole.target[rows.link]
        arrival = rows.start + self._added_total[rows.link]
        if bool(((source[1:] != target[:-1]) | (rows.start[1:] < arrival[:-1]))[goes_on].any()):
            return False
        chunk, element = self._chunks_of(rows.chunk[first])
        npus, ends = self._translations.orbits[0], self._translations.sum(self._wanting[chunk], element)
        if not np.array_equal(source[first], npus[element]) or not np.array_equal(target[last], npus[ends]):
            return False
        return np.array_equal(distinct(chunk * self._count + element), replaced)

    def _replaced_blocks(self) -> Int64Array | None:
        """int64, ascending: chunk of the representative * elements + element, of blocks of an All-to-All between NPUs
        that are there, of which all transfers are dropped; None if others are dropped of a block.
        """
        chunk, count = self._rows.chunk, self._count
        bounds = np.searchsorted(self._dropped, np.arange(len(chunk) + 1) * count)
        _, first, number = np.unique(chunk, return_index=True, return_inverse=True)
        begin, size = bounds[:-1], np.diff(bounds)
        model = first[number]
        if not np.array_equal(size, size[model]):
            return None
        element = self._dropped - np.repeat(np.arange(len(chunk)) * count, size)
        if not np.array_equal(element, element[ranges(begin[model], begin[model] + size)]):
            return None
        row = np.repeat(first, size[first])
        element = element[ranges(begin[first], begin[first] + size[first])]
        ends = self._sum(self._wanting[chunk[row]], element)
        return (chunk[row].astype(np.int64) * count + element)[self._present[element] & self._present[ends]]

    def npus_are_right(self) -> bool:
        """Whether each NPU at which something changes holds what it sends, and in the end what it shall hold; and of
        the NPUs whose partials of a chunk form its sum, one sends none.
        """
        element = np.zeros(len(self._rows), np.int32)
        own = self._with_states(self._rows, self._rows.chunk.astype(np.int64), element, self._row_total)
        chunk, element = self._chunks_of(self._added.chunk)
        added = self._with_states(self._added, chunk, element, self._added_total)
        key = self._changed_states(own, added)
        state = key % (self._chunks * self._count)
        since, _ = self._first(key, own, added, reduce=False, reach=True)
        if self._reduces:
            sent, sends = self._first(key, own, added, reduce=True, reach=False)
            latest, _ = self._first(key, own, added, reduce=True, reach=True)
            complete = np.where(latest == NEVER, 0, -latest)
            root, chunk = sends == 0, key // self._count
            if bool((sends > 1).any()) or bool((sent < complete)[~root].any()):
                return False
            if not np.array_equal(chunk[root], distinct(chunk)):
                return False
            since = np.where(root, np.minimum(since, complete), since)
        else:
            since = np.where(state % self._count == 0, 0, since)
        leaves, _ = self._first(key, own, added, reduce=False, reach=False)
        wanted = self._gathers | (state % self._count == self._wanting[state // self._count])
        return bool((since <= leaves).all()) and bool((since[wanted] < NEVER).all())

    def _chunks_of(self, chunk: Int32Array) -> tuple[Int64Array, Int32Array]:
        """(the chunk of the representative, the element that takes it there), of chunks of the damaged network."""
        numbers, translations = self._numbers, self._translations
        rank, part = np.divmod(chunk.astype(np.int64), numbers.parts)
        npus = np.argsort(numbers.rank, kind="stable")[-numbers.members :]
        if not numbers.pairs:
            return part, translations.element_of[npus[rank]]
        rank, target = np.divmod(rank, numbers.members)
        element = translations.element_of[npus[rank]]
        moved = translations.difference(translations.element_of[npus[target]], element)
        wanting = self._factored.numbers.rank[translations.orbits[0, moved]].astype(np.int64)
        return wanting * numbers.parts + part, element

    def _with_states(self, rows: Transfers, chunk: Int64Array, element: Int32Array, total: Int64Array) -> _Transfers:
        def states(device: Int32Array) -> Int64Array:
            npu = np.minimum(device, self._whole.npu_count - 1)
            state = chunk * self._count + self._translations.difference(self._translations.element_of[npu], element)
            return np.where(device < self._whole.npu_count, state, -1)

        leaves, reaches = states(self._whole.source[rows.link]), states(self._whole.target[rows.link])
        return _Transfers(rows, element, leaves, reaches, rows.start + total[rows.link])

    def _changed_states(self, own: _Transfers, added: _Transfers) -> Int64Array:
        """int64, ascending: element * states + state, of what is dropped or added at NPUs that are there, and of the
        NPU that sends no partial of such a chunk in the whole network.
        """
        row, element = np.divmod(self._dropped, self._count)
        keys: list[Int64Array] = []
        pairs = ((element, own.leaves[row]), (element, own.reaches[row]))
        for elements, state in (*pairs, (added.element, added.leaves), (added.element, added.reaches)):
            keys.append((elements * np.int64(self._chunks * self._count) + state)[state >= 0])
        if self._reduces:
            senders = own.leaves[own.rows.reduce & (own.leaves >= 0)]
            root = np.setdiff1d(np.arange(self._chunks * self._count), senders)  # one for each chunk, in order
            changes = np.zeros(self._chunks * self._count, np.bool_)
            changes[np.concatenate(keys) // self._count] = True
            chunk = np.flatnonzero(changes)
            keys.append(chunk // self._chunks * (self._chunks * self._count) + root[chunk % self._chunks])
        key = distinct(np.concatenate(keys))
        element, state = np.divmod(key, self._chunks * self._count)
        there = self._present[element] & self._present[self._sum(state % self._count, element)]
        if self._numbers.pairs:
            there &= self._present[self._sum(self._wanting[state // self._count], element)]
        return key[there]

    def _sum(self, left: Int32Array | Int64Array, right: Int64Array) -> Int32Array:
        return self._translations.sum(left.astype(np.int32), right.astype(np.int32))

    def _first(
        self, key: Int64Array, own: _Transfers, added: _Transfers, *, reduce: bool, reach: bool
    ) -> tuple[Int64Array, Int64Array]:
        """(when the first transfer comes or leaves, NEVER if none does; how many are added, and one if a translation is
        left), int64[states] each. reach: whether they come. Of partials that come, the last one, as a negative number.
        """
        width = self._chunks * self._count
        row, keys, time = _events(own, reduce=reduce, reach=reach, width=width, elements=1)
        element, state = np.divmod(key, width)
        position, after = find_runs(keys, state)
        open_ = np.flatnonzero(position < after)
        while len(open_):
            open_ = open_[self._are_dropped(row[position[open_]], element[open_])]
            position[open_] += 1
            open_ = open_[position[open_] < after[open_]]
        first, number = np.full(len(key), NEVER), (position < after).astype(np.int64)
        first[position < after] = time[position[position < after]]
        row, keys, time = _events(added, reduce=reduce, reach=reach, width=width, elements=self._count)
        low, high = find_runs(keys, key)
        some = low < high
        first[some] = np.minimum(first[some], time[low[some]])
        return first, number + high - low


def _events(
    transfers: _Transfers, *, reduce: bool, reach: bool, width: int, elements: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(row, element * width + state, time) of transfers to NPUs or from them, sorted by the last two; see `_first`."""
    state = transfers.reaches if reach else transfers.leaves
    row = np.flatnonzero((state >= 0) & (transfers.rows.reduce == reduce))
    time = (transfers.arrival if reach else transfers.rows.start)[row]
    time = -time if reduce and reach else time
    keys = transfers.element[row] * np.int64(width) + state[row]
    order = np.argsort(time, kind="stable")
    order = order[order_of(keys[order], elements * width)]
    return row[order], keys[order], time[order]
