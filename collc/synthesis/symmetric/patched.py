"""Collectives on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

Transfers over missing parts, and all transfers that depend on them, are dropped. The chunks of the dropped transfers
are planned again, in the gaps of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from collc.synthesis.symmetric.damage import Damage, Patch
from collc.synthesis.symmetric.level_plan import LevelPlan, plan_exchange, sums
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.schedule import RowSchedule, Transfers

MOST_EXCHANGED: Final = 30_000_000
"""Transfers up to which the plan of an All-to-All is patched."""


def patched_schedule(task: Task) -> RowSchedule | None:
    """A schedule of one All-Gather or All-to-All over all NPUs that are there; None if this does not apply.

    Raises ValueError if links have no bandwidth or latency.
    """
    damage = Damage.of(task)
    if damage is None:
        return None
    rows = _exchange(damage) if damage.numbers.pairs else GatherPatch(damage).rows()
    return None if rows is None else RowSchedule(task.model, rows)


class GatherPatch(Patch):
    """The patch of an All-Gather.

    A chunk that cannot enter a node on its own rail enters it on another rail, from a GPU that has it already, and
    spreads from there.
    """

    def __init__(self, damage: Damage) -> None:
        levels = (damage.inner, damage.outer)
        link = [np.broadcast_to(level.routes[None, :, None], level.starts.shape).reshape(-1) for level in levels]
        start = [level.starts.reshape(-1) for level in levels]
        super().__init__(damage, np.concatenate(link), np.concatenate(start))

    def rows(self) -> Transfers | None:
        """All transfers; None if a node cannot be entered."""
        parts = self._damage.numbers.parts
        self.keep_levels(np.ones((parts, 1), np.bool_), np.ones((parts, len(self._damage.outer.moves), 1), np.bool_))
        lost = ((part, move, owner) for part in range(parts) for move, owner in self.lost_moves())
        return self.transfers() if self.enter_all(lost) else None

    def lost_moves(self) -> list[tuple[int, int]]:
        """The moves and owners of chunks that cannot enter a node with GPUs in it by themselves."""
        damage = self._damage
        inside = damage.alive[damage.outer_to] | damage.alive[damage.inner_to][:, damage.outer_to].any(axis=0)
        move, owner = np.nonzero(~damage.enters & damage.alive & inside)
        return list(zip(move.tolist(), owner.tolist(), strict=True))

    def keep_levels(self, begins: BoolArray, enters: BoolArray) -> None:
        """Keep the transfers of the plan that are left.

        begins: bool[parts, owners], which chunks spread from their owners. enters: bool[parts, moves, owners], which of
        them go to other nodes.
        """
        damage = self._damage
        alive = damage.alive
        self._keep_level(damage.outer, 0, damage.outer_links, damage.enters & alive & enters)
        for number, holder in enumerate(damage.inner.holders.tolist()):
            # Owner g has its chunk at element g + holder, which sends it on if it has got it there.
            sender = damage.translations.sums(holder)
            within = alive[damage.inner_to[:, sender]] & alive & alive[sender]
            sent = enters[:, number - 1] & damage.enters[number - 1] if number else begins
            self._keep_level(damage.inner, number, damage.inner_links[:, sender], within & sent[:, None])

    def _keep_level(self, level: LevelPlan, holder: int, links: Int32Array, left: BoolArray) -> None:
        self.keep(links, level.starts[:, :, holder], left, np.zeros(links.shape[:2], np.int32))

    def enter_all(self, lost: Iterable[tuple[int, int, int]]) -> bool:
        """Bring chunks into nodes that they cannot enter by themselves: parts, moves and owners. The earliest first."""
        starts = self._damage.outer.starts[:, :, 0, 0]
        return all(self._enter(*chunk) for _, *chunk in sorted((int(starts[chunk[:2]]), *chunk) for chunk in lost))

    def holders(self, part: int, owner: int) -> list[tuple[int, int]]:
        """The elements of the owner's node that hold a chunk, and since when; the owner first."""
        damage = self._damage
        arrivals: list[int] = damage.inner.arrivals[part, :, 0].tolist()
        return [(owner, 0), *zip(damage.inner_to[:, owner].tolist(), arrivals, strict=True)]

    def _enter(self, part: int, move: int, owner: int) -> bool:
        """Bring a chunk into a node on any rail that is there, as early as possible, and spread it in the node.

        False if no rail is there.
        """
        damage = self._damage
        options: list[tuple[int, int, int, list[int]]] = []
        for number, (sender, ready) in enumerate(self.holders(part, owner)):
            if damage.enters[move, sender]:
                starts, arrival = self.earliest(damage.outer_links[move, sender].tolist(), ready)
                options.append((arrival, number, sender, starts))
        if not options:
            return False
        arrival, _, sender, starts = min(options)
        self.send(owner, 0, part, damage.outer_links[move, sender].tolist(), starts)
        self.spread_in_node(part, owner, int(damage.outer_to[move, sender]), arrival)
        return True

    def spread_in_node(self, part: int, owner: int, entry: int, since: int, known: int = -1) -> list[tuple[int, int]]:
        """Send a chunk from one element to all others of its node but `known`; those that have it, and since when."""
        damage, holders = self._damage, [(entry, since)]
        for number, target in enumerate(damage.inner_to[:, entry].tolist()):
            if damage.alive[target] and target != known:
                links = damage.inner_links[number, entry].tolist()
                starts, arrival = self.earliest(links, since)
                self.send(owner, 0, part, links, starts)
                holders.append((target, arrival))
        return holders


def _exchange(damage: Damage) -> Transfers | None:
    """The transfers of an All-to-All.

    A block whose route is broken goes to another GPU of its node, over the rail of that GPU, and in the other node to
    its target. None if the plan is too large, two translations of a transfer share a link, or a block finds no route.
    """
    translations = damage.translations
    plan = plan_exchange(damage.whole, translations, damage.times, damage.numbers.parts)
    if plan is None or plan.starts.size * translations.count > MOST_EXCHANGED:
        return None
    used = np.broadcast_to(plan.routes >= 0, plan.starts.shape)
    link = np.broadcast_to(plan.routes, plan.starts.shape)[used]
    if bool(damage.times.turn[link].any()):
        return None
    patch = Patch(damage, link, plan.starts[used])
    links, target = damage.links_of(plan.routes), sums(translations, damage.elements[1:], damage.elements)
    wanted = damage.alive & damage.alive[target]
    left = damage.intact(links) & wanted
    patch.keep(links, plan.starts, np.broadcast_to(left, (len(plan.starts), *left.shape)), target)
    rail_routes = _RailRoutes(damage)
    for start, part, owner, to in _lost_blocks(plan.starts[:, :, 0], wanted & ~left, target):
        options = [(route, *patch.earliest(route, start)) for route in rail_routes.of(owner, to)]
        if not options:
            return None
        route, starts, _ = min(options, key=lambda option: option[2])
        patch.send(owner, to, part, route, starts)
    return patch.transfers()


def _lost_blocks(starts: Int64Array, lost: BoolArray, target: Int32Array) -> list[tuple[int, int, int, int]]:
    """(start, part, owner, target) of each block that lost its transfers, the earliest first."""
    row, owner = np.nonzero(lost)
    pairs = list(zip(row.tolist(), owner.tolist(), target[row, owner].tolist(), strict=True))
    return sorted((int(times[row]), part, owner, to) for part, times in enumerate(starts) for row, owner, to in pairs)


class _RailRoutes:
    """Routes between GPUs of two nodes, over the rail of each GPU."""

    def __init__(self, damage: Damage) -> None:
        self._damage = damage
        self._near = np.append(np.int32(0), damage.inner.moves)
        self._number_of = {element: number for number, element in enumerate(self._near.tolist())}
        table = sums(damage.translations, damage.outer.moves, self._near).tolist()
        self._split = {
            element: (move, near)
            for move, row in enumerate(table)
            for near, element in zip(self._near.tolist(), row, strict=True)
        }

    def of(self, owner: int, target: int) -> list[list[int]]:
        """The links of all routes that are there."""
        damage, translations = self._damage, self._damage.translations
        difference = int(translations.difference(np.array([target], np.int32), owner)[0])
        if difference not in self._split:
            return []
        move, rest = self._split[difference]
        senders = translations.sum(self._near, owner)
        after = translations.difference(np.full(len(self._near), rest, np.int32), self._near)
        routes: list[list[int]] = []
        for number, (sender, last) in enumerate(zip(senders.tolist(), after.tolist(), strict=True)):
            if damage.enters[move, sender]:
                entry = int(damage.outer_to[move, sender])
                into_node = self._links_in_node(entry, self._number_of[last])
                routes.append(
                    self._links_in_node(owner, number) + damage.outer_links[move, sender].tolist() + into_node
                )
        return routes

    def _links_in_node(self, sender: int, number: int) -> list[int]:
        """The links from a GPU to another one of its node, by the number of the element in between; none to itself."""
        return self._damage.inner_links[number - 1, sender].tolist() if number else []
