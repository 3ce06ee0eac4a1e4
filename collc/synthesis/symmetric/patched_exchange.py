"""All-to-All on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

A block whose route is broken goes to another GPU of its node, over the rail of that GPU, and in the other node to its
target. Only these blocks are planned again, in the gaps of the other transfers.
"""

from __future__ import annotations

import numpy as np

from collc.synthesis.symmetric.damage import Damage
from collc.synthesis.symmetric.exchange_plan import ExchangePlan
from collc.synthesis.symmetric.level_plan import sums
from collc.synthesis.symmetric.residual import ResidualTimes
from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations

Columns = tuple[Int32Array, Int32Array, Int32Array, Int32Array, Int64Array]
"""Owners, targets, parts, links and starts of transfers. Owners and targets are elements."""


class ExchangePatch:
    """The patch of one plan."""

    def __init__(
        self,
        damage: Damage,
        translations: Translations,
        times: ClassTimes,
        numbers: ChunkNumbers,
        plan: ExchangePlan,
    ) -> None:
        self._damage, self._translations, self._numbers, self._plan = damage, translations, numbers, plan
        used = np.broadcast_to(plan.routes >= 0, plan.starts.shape)
        link = np.broadcast_to(plan.routes, plan.starts.shape)[used]
        self._residual = ResidualTimes(translations, times, link, plan.starts[used])
        self._near = np.append(np.int32(0), damage.inner.moves)
        self._move_to = {int(element): number - 1 for number, element in enumerate(self._near.tolist())}
        moves = np.empty(0, np.int32) if damage.outer is None else damage.outer.moves
        self._split: dict[int, tuple[int, int]] = {}
        for move, row in enumerate(sums(translations, moves, self._near).tolist()):
            for near, element in zip(self._near.tolist(), row, strict=True):
                self._split[element] = move, near
        self._new: list[tuple[int, int, int, int, int]] = []

    def rows(self) -> Transfers | None:
        """All transfers: those of the plan that are left, and the new ones; None if a block finds no route."""
        columns, lost = self._keep()
        for start, part, owner, target in sorted(lost):
            if not self._send(part, owner, target, start):
                return None
        new = np.array(self._new, np.int64).reshape(-1, 5)
        owner, target, part, link = (new[:, column].astype(np.int32) for column in range(4))
        columns.append((owner, target, part, link, new[:, 4]))
        owner, target, part, link, start = (np.concatenate(column) for column in zip(*columns, strict=True))
        npus = self._translations.orbits[0]
        return Transfers.of(self._numbers.number(npus[owner], npus[target], part), link, start)

    def _keep(self) -> tuple[list[Columns], list[tuple[int, int, int, int]]]:
        """The transfers of the plan that are left, and the blocks that lost theirs: (start, part, owner, target)."""
        damage, plan = self._damage, self._plan
        count = self._translations.count
        elements = np.arange(count, dtype=np.int32)
        target = sums(self._translations, elements[1:], elements)
        links = damage.links_of(plan.routes)
        wanted = damage.alive & damage.alive[target]
        kept = damage.intact(links) & wanted
        columns: list[Columns] = []
        for hop in range(plan.routes.shape[1]):
            for part in range(self._numbers.parts):
                start = plan.starts[part, :, hop]
                row, owner = np.nonzero(kept & (links[:, :, hop] >= 0))
                each = np.full(len(row), part, np.int32)
                columns.append((owner.astype(np.int32), target[row, owner], each, links[row, owner, hop], start[row]))
                row, owner = np.nonzero(~kept & (links[:, :, hop] >= 0))
                self._residual.drop(links[row, owner, hop], start[row])
        return columns, self._lost_blocks(wanted & ~kept, target)

    def _lost_blocks(self, lost: BoolArray, target: Int32Array) -> list[tuple[int, int, int, int]]:
        row, owner = np.nonzero(lost)
        pairs = list(zip(row.tolist(), owner.tolist(), target[row, owner].tolist(), strict=True))
        starts: list[list[int]] = self._plan.starts[:, :, 0].tolist()
        return [(starts[part][row], part, owner, to) for part in range(len(starts)) for row, owner, to in pairs]

    def _send(self, part: int, owner: int, target: int, since: int) -> bool:
        """Send a block over the rail on which it arrives first; False if there is none."""
        best: tuple[int, int, list[int], list[int]] | None = None
        for number, links in enumerate(self._routes(owner, target)):
            starts, arrival = self._residual.earliest(links, since)
            if best is None or arrival < best[0]:
                best = arrival, number, links, starts
        if best is None:
            return False
        _, _, links, starts = best
        self._residual.take(links, starts)
        self._new += [(owner, target, part, link, start) for link, start in zip(links, starts, strict=True)]
        return True

    def _routes(self, owner: int, target: int) -> list[list[int]]:
        """The routes between GPUs of two nodes over all rails that are there."""
        damage, translations = self._damage, self._translations
        difference = translations.difference(np.array([target], np.int32), owner)
        if int(difference[0]) not in self._split:
            return []
        move, rest = self._split[int(difference[0])]
        senders = translations.sum(self._near, owner)
        after = translations.difference(np.full(len(self._near), rest, np.int32), self._near)
        found: list[list[int]] = []
        for first, sender, last in zip(self._near.tolist(), senders.tolist(), after.tolist(), strict=True):
            if damage.enters[move, sender]:
                entry = int(damage.outer_to[move, sender])
                route = self._links_in_node(owner, first) + damage.outer_links[move, sender].tolist()
                found.append(route + self._links_in_node(entry, last))
        return found

    def _links_in_node(self, sender: int, by: int) -> list[int]:
        """The links from a GPU to another one of its node; none to itself."""
        return self._damage.inner_links[self._move_to[by], sender].tolist() if by else []
