"""The proof of a factored schedule from its representatives alone, for any number of NPUs.

Every chunk is the translation of exactly one chunk of a representative, because no translation but that by 0 leaves an
NPU where it is, and its transfers are the translations of that one's transfers. So what holds of the representative's
chunks in all translations holds of all. Transfers of one class of links that are disjoint in time have disjoint
translations; if translations of one transfer share a link, each of them has a turn of its own.

The proof is conservative: a transfer whose translations take turns begins at the first turn and arrives with the
last. If it fails, the rows must be checked one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Op, Standard
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.verification.factored_sums import SumMessages, are_translations, sums_are_right

LATEST = 2**50
"""Picoseconds (18 minutes); later times are not proved, so that a chunk, a device and a time fit into one number."""


def is_proved(module: Module, schedule: FactoredSchedule) -> bool:
    """Whether causality, congestion freedom, delivery, reductions and switches follow from the representatives."""
    network, numbers = module.network, ChunkNumbers.of(module.demand)
    standard = module.demand.standard if numbers is not None else None
    if numbers is None or standard is None or not _have_same_numbers(numbers, schedule.numbers):
        return False
    if len(numbers.rank) != network.npu_count or not are_translations(schedule.translations, network):
        return False
    hops = _hops(network, schedule, chunk_size(module.demand))
    if hops is None or not _free_of_congestion(schedule, hops):
        return False
    problem = _Chunks.of(schedule, standard, hops)
    return problem is not None and problem.are_right(network)


def _have_same_numbers(left: ChunkNumbers, right: ChunkNumbers) -> bool:
    npus = np.arange(len(left.rank))
    ranks = np.array_equal(left.rank, right.rank) and np.array_equal(np.sort(left.rank), npus)
    return ranks and (left.pairs, left.parts) == (right.pairs, right.parts)


@dataclass(frozen=True, eq=False)
class _Hops:
    """Columns of the rows. first, last: starts of the first and last translation. soonest, latest: their arrivals.

    All times are int64, picoseconds; `free` is when the class of links is free again.
    """

    source: Int32Array
    target: Int32Array
    first: Int64Array
    last: Int64Array
    free: Int64Array
    soonest: Int64Array
    latest: Int64Array


def _hops(network: Network, schedule: FactoredSchedule, size: int) -> _Hops | None:
    """The columns; None if a row is on no link, at no time, relays a partial, or needs buffers to be counted."""
    rows = schedule.rows
    if (
        not len(rows)
        or rows.relayed is not None
        or rows.kept is not None
        or int(rows.link.min()) < 0
        or int(rows.link.max()) >= network.link_count
    ):
        return None
    try:
        sent = network.occupancy(np.array([size], np.int64))[:, 0]
        total = sent + network.latencies
    except (ValueError, OverflowError):
        return None
    busy = schedule.model.busy(sent, total)
    kind, source, target = network.kind[rows.link], network.source[rows.link], network.target[rows.link]
    share = schedule.translations.link_share[rows.link]
    if int(total.max()) >= LATEST or int(rows.start.min()) < 0 or int(rows.start.max()) >= LATEST:
        return None
    if int(total.min()) <= 0 or ((share > 1) & (schedule.turn < busy[kind])).any() or (schedule.turn < 0).any():
        return None
    if not (network.present[source] & network.present[target] & (source != target)).all():
        return None
    switches = np.concatenate([source, target])
    switches = switches[switches >= network.npu_count] - network.npu_count
    if (network.buffers[switches] >= 0).any() or network.reduces[switches].any():
        return None
    last = schedule.last_start
    if int(last.max()) >= LATEST:
        return None
    return _Hops(source, target, rows.start, last, last + busy[kind], rows.start + total[kind], last + total[kind])


def _free_of_congestion(schedule: FactoredSchedule, hops: _Hops) -> bool:
    """Whether the times on each class of links are disjoint."""
    number = schedule.translations.link_class[schedule.rows.link]
    order = np.lexsort((hops.first, number))
    same = number[order][1:] == number[order][:-1]
    return bool((hops.first[order][1:] >= hops.free[order][:-1])[same].all())


@dataclass(frozen=True, eq=False)
class _Chunks:
    """The chunks of the representatives, numbered from 0, and their transfers.

    owner: int32[chunks], who holds a chunk first, or gets its sum. wanting: int32[chunks], the NPU that wants it; -1
    for all or none. reduced: whether they are sums. spread: whether all want them. chunk: int32[rows]. flag:
    bool[rows], whether a row reduces.
    """

    owner: Int32Array
    wanting: Int32Array
    reduced: bool
    spread: bool
    chunk: Int32Array
    flag: BoolArray
    hops: _Hops

    @staticmethod
    def of(schedule: FactoredSchedule, standard: Standard, hops: _Hops) -> _Chunks | None:
        """The chunks that must be right; None if a row is of a chunk of no representative."""
        numbers, first = schedule.numbers, schedule.translations.orbits[:, 0]
        npus = np.arange(len(numbers.rank), dtype=np.int32)
        part = np.arange(numbers.parts, dtype=np.int32)
        if numbers.pairs:
            owner, wanting, copy = (axis.reshape(-1) for axis in np.meshgrid(first, npus, part, indexing="ij"))
            chunk = numbers.number(owner, wanting, copy)
        else:
            owner, copy = (axis.reshape(-1) for axis in np.meshgrid(first, part, indexing="ij"))
            wanting = np.full(len(owner), -1, np.int32)
            chunk = numbers.number(owner, None, copy)
        order = np.argsort(chunk)
        position = np.minimum(np.searchsorted(chunk[order], schedule.rows.chunk), len(order) - 1)
        if not np.array_equal(chunk[order][position], schedule.rows.chunk):
            return None
        reduced = standard.shape.reduces
        if reduced == (standard.op == Op.COPY):
            return None
        spread = standard.shape.end == "all"
        return _Chunks(
            owner[order], wanting[order], reduced, spread, position.astype(np.int32), schedule.rows.reduce, hops
        )

    def are_right(self, network: Network) -> bool:
        """Whether all chunks are sent when they are there, arrive, and are reduced exactly once."""
        if not self.reduced and bool(self.flag.any()):
            return False
        devices = network.device_count
        into = self.chunk.astype(np.int64) * devices + self.hops.target
        out = self.chunk.astype(np.int64) * devices + self.hops.source
        keys, position = np.unique(np.concatenate([into, out]), return_inverse=True)
        into, out = position[: len(into)], position[len(into) :]
        switch = keys % devices >= network.npu_count
        visits = _Visits(keys, switch, into, out, self.hops)
        copies, partials = ~self.flag, self.flag
        if not visits.pass_switches(copies) or not visits.pass_switches(partials) or not visits.keep_apart(partials):
            return False
        held = self._times_of_sums(visits, network) if self.reduced else self._times_of_copies(visits, network)
        if held is None:
            return self.reduced and self._is_right_in_replay(visits, network)
        if not visits.copied_after(copies, held):
            return False
        ends_with_sums = self.reduced and not self.spread
        return ends_with_sums or self._is_delivered(visits, copies, network)

    def _own(self, visits: _Visits, network: Network) -> Int64Array:
        """int64[chunks]: the number of each chunk at its owner among the visits, -1 if none begins or ends there."""
        return visits.find(np.arange(len(self.owner)) * network.device_count + self.owner)

    def _times_of_copies(self, visits: _Visits, network: Network) -> Int64Array:
        """When a chunk that is copied can be sent on for the first time, if not after an arrival: from 0 on by its
        owner.
        """
        held = np.full(len(visits.keys), LATEST, np.int64)
        own = self._own(visits, network)
        held[own[own >= 0]] = 0
        return held

    def _times_of_sums(self, visits: _Visits, network: Network) -> Int64Array | None:
        """When sums are complete at owners; None unless each other NPU sends its partial once, after all it adds to it,
        before any copy arrives, and the owner none.
        """
        partials = self.flag
        npu = ~visits.switch
        sends = np.bincount(visits.out[partials], minlength=len(visits.keys))
        own = self._own(visits, network)
        if (own < 0).any() or (sends[own] > 0).any():
            return None
        senders = npu & (sends > 0)
        if (sends[senders] > 1).any() or int(senders.sum()) != len(self.owner) * (network.npu_count - 1):
            return None
        added = np.zeros(len(visits.keys), np.int64)
        np.maximum.at(added, visits.into[partials], self.hops.latest[partials])
        from_npu = partials & npu[visits.out]
        if (self.hops.first[from_npu] < added[visits.out[from_npu]]).any():
            return None
        sent = np.zeros(len(visits.keys), np.int64)
        np.maximum.at(sent, visits.out[from_npu], self.hops.last[from_npu])
        copies = ~self.flag & npu[visits.into]
        if (self.hops.soonest[copies] <= sent[visits.into[copies]]).any():
            return None
        if np.isin(visits.into[copies], own).any():
            return None
        held = np.full(len(visits.keys), LATEST, np.int64)
        held[own] = added[own]
        return held

    def _is_right_in_replay(self, visits: _Visits, network: Network) -> bool:
        """Whether a replay of the messages between NPUs gives the sums; only if no two partials of a chunk may be in
        a switch together.
        """
        if len(visits.meeting_pairs(self.flag)[0]):
            return False
        hops, onward = self.hops, np.maximum(visits.matched_rows(self.flag), visits.matched_rows(~self.flag))
        begin = np.flatnonzero(~visits.switch[visits.out])
        begin = begin[np.argsort(hops.first[begin], kind="stable")]
        end = begin.copy()
        while bool((passing := onward[end] >= 0).any()):
            end[passing] = onward[end[passing]]
        sender = self.chunk[begin], hops.source[begin], hops.target[end], hops.first[begin], hops.last[begin]
        messages = SumMessages(*sender, hops.soonest[end], hops.latest[end], self.flag[begin])
        return sums_are_right(messages, network.npu_count, self.owner, self.spread)

    def _is_delivered(self, visits: _Visits, copies: BoolArray, network: Network) -> bool:
        """Whether a copy arrives at every NPU that wants one."""
        arrived = np.zeros(len(visits.keys), np.bool_)
        arrived[visits.into[copies]] = True
        own = self._own(visits, network)
        arrived[own[own >= 0]] = True
        if self.spread:
            got = np.bincount(
                (visits.keys // network.device_count)[arrived & ~visits.switch], minlength=len(self.owner)
            )
            return bool((got == network.npu_count).all())
        moving = np.flatnonzero(self.wanting != self.owner)
        found = visits.find(moving * network.device_count + self.wanting[moving])
        return bool((found >= 0).all()) and bool(arrived[found].all())


@dataclass(frozen=True, eq=False)
class _Visits:
    """Chunks at devices: `keys` are chunk * devices + device, ascending; switch: bool[keys].

    into, out: int64[rows], the key at which each row arrives, and that from which it leaves.
    """

    keys: Int64Array
    switch: BoolArray
    into: Int64Array
    out: Int64Array
    hops: _Hops

    def find(self, keys: Int64Array) -> Int64Array:
        """int64: the position of each key, -1 if nothing begins or ends there."""
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[position] == keys, position, -1)

    def _matching_rows(self, kind: BoolArray) -> tuple[Int64Array, Int64Array]:
        """The rows of a kind into switches and out of them, each by chunk and switch, then by time."""
        arrivals, departures = (np.flatnonzero(kind & self.switch[at]) for at in (self.into, self.out))
        arrivals = arrivals[np.lexsort((self.hops.latest[arrivals], self.into[arrivals]))]
        departures = departures[np.lexsort((self.hops.first[departures], self.out[departures]))]
        return arrivals, departures

    def pass_switches(self, kind: BoolArray) -> bool:
        """Whether as many rows leave each switch as arrive, the n-th after the n-th has arrived.

        Then a link always finds a copy that no other link reads, and a partial that has not left.
        """
        arrivals, departures = self._matching_rows(kind)
        if len(arrivals) != len(departures) or not np.array_equal(self.into[arrivals], self.out[departures]):
            return False
        return bool((self.hops.first[departures] >= self.hops.latest[arrivals]).all())

    def matched_rows(self, kind: BoolArray) -> Int64Array:
        """int64[rows]: the row by which what a row of a kind brings to a switch leaves it; -1 for other rows."""
        found = np.full(len(self.into), -1, np.int64)
        arrivals, departures = self._matching_rows(kind)
        found[arrivals] = departures
        return found

    def meeting_pairs(self, partials: BoolArray) -> tuple[Int64Array, Int64Array]:
        """Rows of partials that may be in a switch together, as pairs of one that arrives and the next one."""
        arrivals, departures = self._matching_rows(partials)
        key = self.out[departures]
        number = np.cumsum(np.append(False, key[1:] != key[:-1]))[: len(key)]
        span = max(int(self.hops.last[departures].max(initial=0)), int(self.hops.soonest[arrivals].max(initial=0))) + 1
        if (int(number.max(initial=0)) + 1) * span >= 2**62:
            return arrivals[:-1], arrivals[1:]
        left = np.maximum.accumulate(number * span + self.hops.last[departures])
        coming = np.minimum.accumulate((number * span + self.hops.soonest[arrivals])[::-1])[::-1]
        both = (number[1:] == number[:-1]) & (left[:-1] >= coming[1:])
        return arrivals[:-1][both], arrivals[1:][both]

    def keep_apart(self, partials: BoolArray) -> bool:
        """Whether all partials that are in a switch together leave it to one device, from which none of them came."""
        arrivals, departures = self._matching_rows(partials)
        if bool((self.hops.source[arrivals] == self.hops.target[departures]).any()):
            return False
        onward = self.matched_rows(partials)
        first, second = self.meeting_pairs(partials)
        return np.array_equal(self.hops.target[onward[first]], self.hops.target[onward[second]])

    def copied_after(self, copies: BoolArray, held: Int64Array) -> bool:
        """Whether each NPU sends copies after it holds the chunk: from `held` on, or after the first copy arrived."""
        there = held.copy()
        np.minimum.at(there, self.into[copies], self.hops.latest[copies])
        sent = copies & ~self.switch[self.out]
        return bool((self.hops.first[sent] >= there[self.out[sent]]).all())
