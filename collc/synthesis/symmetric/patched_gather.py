"""All-Gather on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

Transfers over missing parts, and all transfers that depend on them, are dropped. A chunk that cannot enter a node on
its own rail enters it on another rail, from a GPU that has it already, and spreads from there. Only these transfers are
planned again, in the gaps of the others.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from collc.synthesis.symmetric.damage import Damage
from collc.synthesis.symmetric.level_plan import LevelPlan
from collc.synthesis.symmetric.residual import ResidualTimes
from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations

Columns = tuple[Int32Array, Int32Array, Int32Array, Int64Array]
"""Owners, parts, links and starts of transfers."""


class GatherPatch:
    """The patch of the plan that the levels of a damage are.

    Elements stand for NPUs: element e for the NPU to which it takes the representative.
    """

    def __init__(self, damage: Damage, translations: Translations, times: ClassTimes, numbers: ChunkNumbers) -> None:
        self._damage, self._translations, self._numbers = damage, translations, numbers
        levels = [level for level in (damage.inner, damage.outer) if level is not None]
        link = [np.broadcast_to(level.routes[None, :, None], level.starts.shape).reshape(-1) for level in levels]
        start = [level.starts.reshape(-1) for level in levels]
        self._residual = ResidualTimes(translations, times, np.concatenate(link), np.concatenate(start))
        self._new: list[tuple[int, int, int, int]] = []

    def rows(self) -> Transfers | None:
        """All transfers: those of the plan that are left, and the new ones; None if a node cannot be entered."""
        outer, every = self._damage.outer, range(self._numbers.parts)
        everywhere = np.ones((len(every), 1), np.bool_)
        parts = self._keep(everywhere, np.ones((len(every), 0 if outer is None else len(outer.moves), 1), np.bool_))
        if outer is not None and not self._enter_all((part, *lost) for part in every for lost in self._lost_moves()):
            return None
        return self._join_columns(parts)

    def _lost_moves(self) -> list[tuple[int, int]]:
        """The moves and owners of chunks that cannot enter a node with GPUs in it by themselves."""
        damage = self._damage
        inside = damage.alive[damage.outer_to] | damage.alive[damage.inner_to][:, damage.outer_to].any(axis=0)
        move, owner = np.nonzero(~damage.enters & damage.alive & inside)
        return list(zip(move.tolist(), owner.tolist(), strict=True))

    def _keep(self, begins: BoolArray, enters: BoolArray) -> list[Columns]:
        """The transfers of the plan that are left. The times of the others are free.

        begins: bool[parts, owners], which chunks spread from their owners. enters: bool[parts, moves, owners], which of
        them go to other nodes.
        """
        damage = self._damage
        alive, found = damage.alive, list[Columns]()
        if damage.outer is not None:
            found += self._columns(damage.outer, 0, damage.outer_links, damage.enters & alive & enters)
        for number, holder in enumerate(damage.inner.holders.tolist()):
            # Owner g has its chunk at element g + holder, which sends it on if it has got it there.
            sender = self._translations.sums(holder)
            kept = alive[damage.inner_to[:, sender]] & alive & alive[sender]
            sent = enters[:, number - 1] & damage.enters[number - 1] if number else begins
            found += self._columns(damage.inner, number, damage.inner_links[:, sender], kept & sent[:, None])
        return found

    def _columns(self, level: LevelPlan, holder: int, links: Int32Array, kept: BoolArray) -> list[Columns]:
        """links: int32[moves, owners, hops]. kept: bool[parts, moves, owners]."""
        found: list[Columns] = []
        for part in range(self._numbers.parts):
            move, owner = np.nonzero(kept[part])
            lost_move, lost_owner = np.nonzero(~kept[part])
            for hop in range(links.shape[2]):
                link, lost = links[move, owner, hop], links[lost_move, lost_owner, hop]
                start = level.starts[part, :, holder, hop]
                found.append((owner.astype(np.int32), np.full(len(link), part, np.int32), link, start[move]))
                self._residual.drop(lost, start[lost_move])
        return found

    def _enter_all(self, lost: Iterable[tuple[int, int, int]]) -> bool:
        """Bring chunks into nodes that they cannot enter by themselves: parts, moves and owners. The earliest first."""
        assert self._damage.outer is not None
        starts = self._damage.outer.starts[:, :, 0, 0]
        return all(self._enter(*one) for _, *one in sorted((int(starts[one[:2]]), *one) for one in lost))

    def _holders(self, part: int, owner: int) -> list[tuple[int, int]]:
        """The elements of the owner's node that hold a chunk, and since when; the owner first."""
        damage = self._damage
        arrivals: list[int] = damage.inner.arrivals[part, :, 0].tolist()
        return [(owner, 0), *zip(damage.inner_to[:, owner].tolist(), arrivals, strict=True)]

    def _enter(self, part: int, move: int, owner: int) -> bool:
        """Bring a chunk into a node on any rail that is there, as early as possible, and spread it in the node.

        False if no rail is there.
        """
        damage = self._damage
        best: tuple[int, int, int, list[int]] | None = None
        for number, (sender, ready) in enumerate(self._holders(part, owner)):
            if damage.enters[move, sender]:
                starts, arrival = self._residual.earliest(damage.outer_links[move, sender].tolist(), ready)
                if best is None or arrival < best[0]:
                    best = arrival, number, sender, starts
        if best is None:
            return False
        arrival, _, sender, starts = best
        self._send(part, owner, damage.outer_links[move, sender].tolist(), starts)
        self._spread_in_node(part, owner, int(damage.outer_to[move, sender]), arrival)
        return True

    def _spread_in_node(self, part: int, owner: int, entry: int, since: int, known: int = -1) -> list[tuple[int, int]]:
        """Send a chunk from one element to all others of its node but `known`; those that have it, and since when."""
        damage, found = self._damage, [(entry, since)]
        for number, target in enumerate(damage.inner_to[:, entry].tolist()):
            if damage.alive[target] and target != known:
                links = damage.inner_links[number, entry].tolist()
                starts, arrival = self._residual.earliest(links, since)
                self._send(part, owner, links, starts)
                found.append((target, arrival))
        return found

    def _send(self, part: int, owner: int, links: list[int], starts: list[int]) -> None:
        self._residual.take(links, starts)
        self._new += [(owner, part, link, start) for link, start in zip(links, starts, strict=True)]

    def _join_columns(self, parts: list[Columns]) -> Transfers:
        """Transfers that are left, and the new ones."""
        new = np.array(self._new, np.int64).reshape(-1, 4)
        owner, part, link = (new[:, column].astype(np.int32) for column in range(3))
        parts.append((owner, part, link, new[:, 3]))
        owner, part, link, start = (np.concatenate(column) for column in zip(*parts, strict=True))
        chunk = self._numbers.number(self._translations.orbits[0][owner], None, part)
        return Transfers.of(chunk, link, start)
