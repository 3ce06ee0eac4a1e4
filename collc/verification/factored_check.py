"""The chunks of one NPU of each orbit, from which it follows whether a factored schedule is right.

Every chunk is the translation of exactly one chunk of a representative, because no translation but that by 0 leaves an
NPU where it is, and its transfers are the translations of that one's transfers. Transfers of one class of links that
are disjoint in time have disjoint translations; if translations of one transfer share a link, each of them has a turn
of its own. So a transfer has not one time but all from its first turn to its last.

A replay of a chunk depends on the order of what happens to it at each device alone. `representatives_of` shows that
this order is the same in all translations, or does not matter; then one replay of each representative's chunks decides
for all. If it cannot show that, the rows must be checked one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.declared import follows_rule
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, Translations, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Transfers

LATEST = 2**50
"""Picoseconds (18 minutes); later times are left to the check of rows, so that four times as many are a number."""


def representatives_of(module: Module, schedule: FactoredSchedule) -> Module | None:
    """The module with the chunks of representatives alone, if the schedule is right exactly if this one is; else None.

    Links are free of congestion then.
    """
    standard = module.demand.standard
    if standard is None or not is_whole_collective(module, schedule):
        return None
    return representatives_on(module.network, schedule, standard, module)


def is_whole_collective(module: Module, schedule: FactoredSchedule) -> bool:
    """Whether a demand is one collective over all NPUs with chunks of the numbers of the schedule."""
    numbers = ChunkNumbers.of(module.demand)
    if numbers is None or not _have_same_numbers(numbers, schedule.numbers):
        return False
    return follows_rule(module.demand.runs[0]) and len(numbers.rank) == module.network.npu_count


def representatives_on(
    network: Network, schedule: FactoredSchedule, standard: Standard, module: Module
) -> Module | None:
    """The chunks of representatives of a collective over all NPUs of a network; None as in `representatives_of`.

    module: says how large chunks are.
    """
    size = chunk_size(module.demand)
    if not are_translations(schedule.translations, network):
        return None
    hops = hops_of(network, schedule, size)
    if hops is None or not is_free_of_congestion(schedule, hops) or not _have_one_order(network, schedule.rows, hops):
        return None
    rows, count = schedule.rows, schedule.representative_chunks
    known = count < 2**31 and int(rows.chunk.min()) >= 0 and int(rows.chunk.max()) < count
    if not known or standard.shape.reduces == (standard.op == Op.COPY):
        return None
    table = _representative_chunks(schedule, standard, size)
    transfers = Transfers.of(rows.chunk, rows.link, rows.start, rows.reduce)
    demand = Demand((Run("", np.arange(network.npu_count, dtype=np.int32), table, None),))
    return replace(module, network=network, demand=demand, schedule=RowSchedule(schedule.model, transfers))


def _have_same_numbers(left: ChunkNumbers, right: ChunkNumbers) -> bool:
    npus = np.arange(len(left.rank))
    ranks = np.array_equal(left.rank, right.rank) and np.array_equal(np.sort(left.rank), npus)
    return ranks and (left.pairs, left.parts) == (right.pairs, right.parts)


def _representative_chunks(schedule: FactoredSchedule, standard: Standard, size: int) -> ChunkTable:
    """The representatives' chunks, by orbit, rank of the NPU that a block is for, and part."""
    numbers, first = schedule.numbers, schedule.translations.orbits[:, 0]
    everyone = len(numbers.rank)
    by_rank, npus = np.argsort(numbers.rank).astype(np.int32), np.arange(everyone, dtype=np.int32)
    axes = np.meshgrid(first, by_rank if numbers.pairs else first[:1], np.arange(numbers.parts), indexing="ij")
    owner, wanting = (axis.reshape(-1).astype(np.int32) for axis in axes[:2])
    every = np.full(len(owner), everyone, np.int32)
    pre = every if standard.shape.reduces else owner
    post = every if standard.shape.end == "all" else wanting if numbers.pairs else owner
    sets = HolderSets(np.append(np.arange(everyone + 1), 2 * everyone), np.tile(npus, 2))
    none, op = np.zeros(len(owner), np.int32), np.full(len(owner), standard.op, np.int8)
    sizes, families = np.full(len(owner), size, np.int64), (ChunkFamily("x", 1),)
    return ChunkTable(sizes, pre, post, op, none, none[:, None], families, sets)


@dataclass(frozen=True, eq=False)
class Hops:
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


def hops_of(network: Network, schedule: FactoredSchedule, size: int) -> Hops | None:
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
    share, last = schedule.turns, schedule.last_start
    if max(int(total.max()), int(rows.start.max()), int(last.max())) >= LATEST or int(total.min()) <= 0:
        return None
    least, most = np.where(share > 1, busy[kind], 0), np.int64(LATEST) // share
    if ((schedule.turn < least) | (schedule.turn > most)).any():
        return None
    switches = np.concatenate([source, target])
    switches = switches[switches >= network.npu_count] - network.npu_count
    if (network.buffers[switches] >= 0).any() or network.reduces[switches].any():
        return None
    return Hops(source, target, rows.start, last, last + busy[kind], rows.start + total[kind], last + total[kind])


def is_free_of_congestion(schedule: FactoredSchedule, hops: Hops) -> bool:
    """Whether the times on each class of links are disjoint."""
    number = schedule.translations.link_class[schedule.rows.link]
    order = np.lexsort((hops.first, number))
    same = number[order][1:] == number[order][:-1]
    return bool((hops.first[order][1:] >= hops.free[order][:-1])[same].all())


def _have_one_order(network: Network, rows: Transfers, hops: Hops) -> bool:
    """Whether what each NPU holds of a chunk when it sends the chunk does not depend on the translation.

    Switches pass on as many copies, and as many partials, as reach them, the n-th after the n-th has come. So a link
    always finds a copy that no other link reads. If partials are in a switch together, any of them may leave first:
    then all go to one device, from which none came, and each counts as coming there at all times of them together.
    """
    into, out = (rows.chunk.astype(np.int64) * network.device_count + end for end in (hops.target, hops.source))
    soonest, latest = hops.soonest.copy(), hops.latest.copy()
    to_switch, from_switch = hops.target >= network.npu_count, hops.source >= network.npu_count
    for kind in (~rows.reduce, rows.reduce):
        arrivals, departures = np.flatnonzero(kind & to_switch), np.flatnonzero(kind & from_switch)
        departures = departures[np.lexsort((hops.first[departures], out[departures]))]
        arrivals = arrivals[np.lexsort((hops.latest[arrivals], into[arrivals]))]
        if not np.array_equal(into[arrivals], out[departures]):
            return False
        if (hops.first[departures] < hops.latest[arrivals]).any():
            return False
        widened = bool(rows.reduce[arrivals].any())
        while widened:
            together = overlaps_with_earlier(into[arrivals], soonest[arrivals], hops.last[departures])
            target, begins = hops.target[departures], np.flatnonzero(~together)
            if (target[1:] != target[:-1])[together[1:]].any() or (hops.source[arrivals] == target).any():
                return False
            group = np.cumsum(~together) - 1
            low = np.minimum.reduceat(soonest[departures], begins)[group]
            high = np.maximum.reduceat(latest[departures], begins)[group]
            widened = bool(((low < soonest[departures]) | (high > latest[departures])).any())
            soonest[departures], latest[departures] = low, high
    # At one time copies come before partials, and both before what is sent; events of one kind can be exchanged.
    kinds = np.concatenate([rows.reduce[~to_switch], np.full(int((~from_switch).sum()), 2)]).astype(np.int64)
    key = np.concatenate([into[~to_switch], out[~from_switch]])
    begin = 4 * np.concatenate([soonest[~to_switch], hops.first[~from_switch]]) + kinds
    end = 4 * np.concatenate([latest[~to_switch], hops.last[~from_switch]]) + kinds
    order = np.lexsort((begin, key))
    other = np.append(False, np.diff(kinds[order]) != 0)[: len(order)]
    return not (overlaps_with_earlier(key[order], begin[order], end[order]) & other).any()


def overlaps_with_earlier(key: Int64Array, begin: Int64Array, end: Int64Array) -> BoolArray:
    """bool: whether an interval of the same key that comes before ends at or after the begin of this one or a later.

    Intervals are in order of key.
    """
    count, same = len(key), key[1:] == key[:-1]
    if not count:
        return np.empty(0, np.bool_)
    number, first, span = np.append(0, np.cumsum(~same)), int(begin.min()), int(end.max()) + 1 - int(begin.min())
    if span > LATEST * 2**12 // (int(number[-1]) + 1):  # ranks in place of times
        begin, end = np.unique(np.concatenate([begin, end]), return_inverse=True)[1].reshape(2, -1).astype(np.int64)
        first, span = 0, 2 * count
    shift = number * span - first
    over = np.maximum.accumulate(shift + end)
    coming = np.minimum.accumulate((shift + begin)[::-1])[::-1]
    return np.append(False, same & (over[:-1] >= coming[1:]))


def are_translations(translations: Translations, network: Network) -> bool:
    """Whether generators are commuting automorphisms of a network whose group takes each NPU everywhere in its orbit.

    They preserve the ends and kinds of links, which devices are there, and all that a switch or an endpoint is.
    """
    shape = len(translations.sizes)
    if translations.device.shape != (shape, network.device_count) or translations.link.shape != (
        shape,
        network.link_count,
    ):
        return False
    if translations.npu_count != network.npu_count or min(translations.sizes, default=0) < 1:
        return False
    generators = list(zip(translations.sizes, translations.device, translations.link, strict=True))
    if not all(_is_automorphism(device, link, network) for _, device, link in generators):
        return False
    if not all(_is_identity(device, size) and _is_identity(link, size) for size, device, link in generators):
        return False
    for number, (_, device, link) in enumerate(generators):
        for _, other_device, other_link in generators[:number]:
            if (device[other_device] != other_device[device]).any() or (link[other_link] != other_link[link]).any():
                return False
    npus = np.sort(translations.orbits.reshape(-1))
    return len(npus) == network.npu_count and bool((npus == np.arange(network.npu_count)).all())


def _is_automorphism(device: Int32Array, link: Int32Array, network: Network) -> bool:
    if not (
        _is_permutation(device)
        and _is_permutation(link)
        and bool((device[: network.npu_count] < network.npu_count).all())
    ):
        return False
    switch = device[network.npu_count :] - network.npu_count
    kept = [
        (network.source[link], device[network.source]),
        (network.target[link], device[network.target]),
        (network.kind[link], network.kind),
        (network.present[device], network.present),
        (network.buffers[switch], network.buffers),
        (network.multicast[switch], network.multicast),
        (network.reduces[switch], network.reduces),
    ]
    if len(network.endpoint):
        kept.append((network.endpoint[device[: network.npu_count]], network.endpoint))
    return all(bool((image == own).all()) for image, own in kept)


def _is_permutation(numbers: Int32Array) -> bool:
    if not bool(((numbers >= 0) & (numbers < len(numbers))).all()):
        return False
    taken = np.zeros(len(numbers), np.bool_)
    taken[numbers] = True
    return bool(taken.all())


def _is_identity(permutation: Int32Array, times: int) -> bool:
    """Whether a permutation is the identity after it is applied a number of times."""
    power, result = permutation, np.arange(len(permutation), dtype=np.int32)
    while times:
        if times & 1:
            result = power[result]
        power, times = power[power], times >> 1
    return bool((result == np.arange(len(permutation))).all())
