"""The check of many copies in bounded memory: transfers are replayed in order of time, a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.kernels.copy_replay import CopyNetwork, CopyState, UInt64Array, arrive, replay_copies
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import HolderSets, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, Schedule, Transfers
from collc.verification.valid_transfers import LATEST

MOST_HELD: Final = 1 << 33
"""Chunks times devices up to which a bit is kept for each pair."""

MOST_RINGS: Final = 64
"""Pairs of a kind of link and a size of chunks up to which what is under way is kept in order."""

MOST_SLOTS: Final = 1 << 26
"""Transfers under way at once up to which this is kept."""


def copies_are_right(module: Module, schedule: Schedule, clock: Clock) -> bool:
    """Whether a replay in order of time shows that a schedule of copies is right.

    False decides nothing: another check must find errors. Switches of limited size, those that reduce
    or send one arrival on several times, relays, and messages that queue are left to it.
    """
    replay = _Replay.of(module, clock)
    if replay is None:
        return False
    return all(replay.holds(block) for block in schedule.blocks()) and replay.is_delivered()


@dataclass(eq=False)
class _Replay:
    """A replay, and the time of the last transfer."""

    module: Module
    usable: BoolArray
    network: CopyNetwork
    state: CopyState
    now: int = 0

    @staticmethod
    def of(module: Module, clock: Clock) -> _Replay | None:
        """A replay in which nothing was sent yet; None if it does not apply."""
        network, table = module.network, module.demand.chunks
        bits = len(table) * max(network.device_count, 32 * network.switch_count)
        rings = clock.total.size
        if not len(table) or (table.op != Op.COPY).any() or bits > MOST_HELD or not 0 < rings <= MOST_RINGS:
            return None
        plain = not network.has_limited_buffers and not network.reduces.any() and not network.has_endpoints
        if not plain or int(clock.busy.min()) <= 0:
            return None
        if int(_slots(network, clock).sum()) > MOST_SLOTS:
            return None
        usable = (network.source != network.target) & network.present[network.source] & network.present[network.target]
        links = CopyNetwork(
            network.source,
            network.target,
            network.kind,
            clock.busy,
            clock.total,
            clock.size_of,
            network.npu_count,
        )
        return _Replay(module, usable, links, _first_state(module, network, clock))

    def holds(self, rows: Transfers) -> bool:
        """Whether the next transfers are right, after those before."""
        if not len(rows):
            return True
        if rows.relayed is not None or rows.messages is not None or bool(rows.reduce.any()) or rows.kept is not None:
            return False
        known = int(rows.chunk.min()) >= 0 and int(rows.chunk.max()) < len(self.network.size_of)
        known &= int(rows.link.min()) >= 0 and int(rows.link.max()) < len(self.usable)
        if not known or int(rows.start.max()) >= LATEST or not bool(self.usable[rows.link].all()):
            return False
        right = replay_copies(rows.chunk, rows.link, rows.start, self.now, self.network, self.state)
        self.now = int(rows.start[-1])
        return bool(right)

    def is_delivered(self) -> bool:
        """Whether all NPUs hold what they want when all has arrived."""
        arrive(self.state, self.network.npus, int(np.iinfo(np.int64).max))
        table = self.module.demand.chunks
        wanted = _bits(table.sets, self.state.held.shape[1])
        return all(
            bool(((self.state.held[chunks] & wanted[post]) == wanted[post]).all())
            for post, chunks in _by_set(table.post)
        )


def _first_state(module: Module, network: Network, clock: Clock) -> CopyState:
    table = module.demand.chunks
    held = np.zeros((len(table), -(-network.npu_count // 64)), np.uint64)
    given = _bits(table.sets, held.shape[1])
    for pre, chunks in _by_set(table.pre):
        held[chunks] = given[pre]
    slots = _slots(network, clock)
    begin = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
    empty: Int32Array = np.zeros(int(begin[-1]), np.int32)
    return CopyState(
        held,
        np.zeros((len(table), max(1, network.switch_count)), np.int32),
        np.zeros(network.link_count, np.int64),
        np.zeros(len(slots), np.int64),
        np.zeros(len(slots), np.int64),
        begin,
        empty,
        empty.copy(),
        np.zeros(int(begin[-1]), np.int64),
    )


def _slots(network: Network, clock: Clock) -> Int64Array:
    """int64: for each kind and size, a power of two that is at least the most transfers that are under way together, if
    links carry one at once.
    """
    links = np.bincount(network.kind, minlength=len(network.kinds))
    most = np.maximum(1, (clock.total // clock.busy + 2) * links[:, None]).reshape(-1)
    return 1 << np.ceil(np.log2(np.minimum(most, 2 * MOST_SLOTS))).astype(np.int64)


def _bits(sets: HolderSets, words: int) -> UInt64Array:
    """uint64[sets, words]: a bit for each NPU of each set."""
    row = np.repeat(np.arange(len(sets)), sets.sizes)
    found = np.zeros((len(sets), words * 64), np.uint8)
    found[row, sets.members] = 1
    return np.packbits(found, axis=1, bitorder="little").view(np.uint64)


def _by_set(column: Int32Array) -> list[tuple[int, Int64Array]]:
    """Each set that a column names, with its chunks."""
    order = np.argsort(column, kind="stable")
    sets, first = np.unique(column[order], return_index=True)
    return list(zip(sets.tolist(), np.split(order, first[1:]), strict=True))
