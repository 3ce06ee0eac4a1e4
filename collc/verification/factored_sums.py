"""The replay of a representative's sums that follow no tree: partials that NPUs exchange, as bits.

The messages that one NPU sends to another over switches are taken as one. If their times depend on the translation,
a message counts as sent in all of the time in which it may be sent, and as arriving in all of that in which it may
arrive; if such times overlap at an NPU, nothing is proved.

The check that translations are automorphisms: from their permutations alone, not from how they were found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network


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
    inside = bool(((numbers >= 0) & (numbers < len(numbers))).all())
    return inside and len(np.unique(numbers)) == len(numbers)


def _is_identity(permutation: Int32Array, times: int) -> bool:
    """Whether a permutation is the identity after it is applied a number of times."""
    power, result = permutation, np.arange(len(permutation), dtype=np.int32)
    while times:
        if times & 1:
            result = power[result]
        power, times = power[power], times >> 1
    return bool((result == np.arange(len(permutation))).all())


MOST_MESSAGES = 400_000
"""Messages up to which sums are replayed."""

MOST_KEY = 2**62
"""NPUs times chunks times picoseconds up to which all fit into one number."""


@dataclass(frozen=True, eq=False)
class SumMessages:
    """Messages of chunks from NPU to NPU, in order of `first`.

    chunk, source, target: int32. first, last: int64, picoseconds between which a message leaves. soonest, latest:
    between which it arrives. reduce: bool, whether the receiver adds it.
    """

    chunk: Int32Array
    source: Int32Array
    target: Int32Array
    first: Int64Array
    last: Int64Array
    soonest: Int64Array
    latest: Int64Array
    reduce: BoolArray

    def __len__(self) -> int:
        return len(self.chunk)


def sums_are_right(messages: SumMessages, npus: int, owner: Int32Array, spread: bool) -> bool:
    """Whether each contribution is added once to each partial, only sums of all are sent as final, and each chunk's
    sum reaches its owner (int32[chunks]), or all NPUs if it is spread.
    """
    holders = len(owner) * npus
    if len(messages) > MOST_MESSAGES or holders * (int(messages.latest.max(initial=0)) + 2) >= MOST_KEY:
        return False
    holder = messages.chunk.astype(np.int64) * npus + messages.source
    inbox = _Inbox(messages, npus, holders)
    values: list[int] = [1 << npu for npu in range(npus)] * len(owner)
    carried = [0] * len(messages)
    full = (1 << npus) - 1
    sent = zip(holder.tolist(), messages.first.tolist(), messages.last.tolist(), messages.reduce.tolist(), strict=True)
    for number, (at, first, last, reduce) in enumerate(sent):
        if not inbox.take(at, first, last, values, carried):
            return False
        carried[number] = values[at]
        if not reduce and values[at] != full:
            return False
    if not all(inbox.take(at, inbox.never, inbox.never, values, carried) for at in range(len(values))):
        return False
    if spread:
        return all(value == full for value in values)
    owners: list[int] = owner.tolist()
    return all(values[chunk * npus + npu] == full for chunk, npu in enumerate(owners))


class _Inbox:
    """What has arrived at each NPU for each chunk and was not taken yet. They are numbered chunk * NPUs + NPU."""

    def __init__(self, messages: SumMessages, npus: int, holders: int) -> None:
        holder = messages.chunk.astype(np.int64) * npus + messages.target
        order = np.lexsort((messages.reduce, messages.latest, holder))
        self.never = int(messages.latest.max(initial=0)) + 1
        offsets = np.searchsorted(holder[order], np.arange(holders + 1))
        # The soonest arrival of each row and of all that follow it at the same number.
        key = holder[order] * (self.never + 1)
        soonest = np.minimum.accumulate((key + messages.soonest[order])[::-1])[::-1] - key
        self._next: list[int] = offsets[:-1].tolist()
        self._end: list[int] = offsets[1:].tolist()
        self._row: list[int] = order.tolist()
        self._latest: list[int] = messages.latest[order].tolist()
        self._soonest: list[int] = soonest.tolist()
        self._reduce: list[bool] = messages.reduce[order].tolist()
        self._complete: set[int] = set()

    def take(self, at: int, first: int, last: int, values: list[int], carried: list[int]) -> bool:
        """Take all that has arrived by `first`; False if more may have arrived by `last`, if a partial has a
        contribution that is there already, or if the sum may arrive before a partial.

        values: by such numbers. carried: by messages.
        """
        position, begin = self._next[at], self._next[at]
        while position < self._end[at] and self._latest[position] <= first:
            partial = carried[self._row[position]]
            if self._reduce[position]:
                if values[at] & partial or at in self._complete:
                    return False
                values[at] |= partial
            else:
                if position > begin and self._soonest[position] <= self._latest[position - 1]:
                    return False
                values[at] = partial
                self._complete.add(at)
            position += 1
        self._next[at] = position
        return position == self._end[at] or self._soonest[position] > last
