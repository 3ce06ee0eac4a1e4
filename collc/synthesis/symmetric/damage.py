"""A cluster of nodes that has lost some links or GPUs, seen as the whole cluster with what is missing."""

from __future__ import annotations

import numpy as np

from collc.graph.translations import find_translations
from collc.synthesis.completed import completed
from collc.synthesis.symmetric.level_plan import LevelPlan, sums
from collc.synthesis.symmetric.routes import ClassTimes
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.factored_schedule import ChunkNumbers
from collc.ten.network import Network
from collc.ten.translations import Translations

LEVELS = 2
"""Levels of clusters that are patched: nodes and GPUs of a node."""


def is_damaged(network: Network) -> bool:
    """Whether a network is a cluster that has lost some links or GPUs."""
    return whole_cluster(network) is not None


def whole_cluster(network: Network) -> tuple[Network, Translations] | None:
    """The cluster that a damaged one was, with its translations; None if it was none.

    Switches must hold any number of chunks, and add nothing up.
    """
    if not network.has_switches or network.has_limited_buffers or bool(network.reduces.any()):
        return None
    whole = completed(network)
    translations = None if whole is None else find_translations(whole)
    if whole is None or translations is None or translations.count != network.npu_count:
        return None
    return whole, translations


def damaged_task(task: Task) -> tuple[ChunkNumbers, Network, Translations] | None:
    """The numbers of the chunks of one collective over all NPUs that are there, and the whole cluster; None if the
    task is another one.
    """
    numbers = ChunkNumbers.of(task.demand)
    if numbers is None or task.reserved is not None or (task.release is not None and bool(task.release.any())):
        return None
    present = task.network.npus
    if len(task.demand.runs[0].group) != len(present) or not bool((numbers.rank[present] >= 0).all()):
        return None
    whole = whole_cluster(task.network)
    return None if whole is None else (numbers, *whole)


class Damage:
    """Which moves of a cluster are left. Elements stand for NPUs: element e for the image of the representative.

    alive: bool[elements]. inner, outer: the plans of the GPUs of a node and of the nodes; outer is None for one node.
    inner_to, outer_to: int32[moves, elements], where a move leads from each element; inner_links, outer_links:
    int32[moves, elements, hops]. enters: bool[moves, elements], whether an outer move is possible.
    """

    def __init__(self, network: Network, translations: Translations, levels: list[LevelPlan]) -> None:
        self._network, self._translations = network, translations
        self._elements = np.arange(translations.count, dtype=np.int32)
        self.alive: BoolArray = network.present[translations.orbits[0]]
        self.inner = levels[-1]
        self.inner_to = sums(translations, self.inner.moves, self._elements)
        self.inner_links = self.links_of(self.inner.routes)
        self.outer = levels[0] if len(levels) > 1 else None
        moves = np.empty(0, np.int32) if self.outer is None else self.outer.moves
        self.outer_to = sums(translations, moves, self._elements)
        self.outer_links = self.links_of(np.empty((0, 1), np.int32) if self.outer is None else self.outer.routes)
        self.enters = self.intact(self.outer_links) & self.alive & self.alive[self.outer_to]

    def links_of(self, routes: Int32Array) -> Int32Array:
        """int32[routes, elements, hops]: routes from each element, -1 after their ends."""
        count, hops = routes.shape
        shape = count, len(self._elements), hops
        link = np.broadcast_to(routes[:, None], shape).reshape(-1)
        sender = np.broadcast_to(self._elements[None, :, None], shape).reshape(-1)
        return np.where(link >= 0, self._translations.moved_links(link, sender), -1).reshape(shape)

    def intact(self, links: Int32Array) -> BoolArray:
        """bool: whether no link of a route, along the last axis, is missing."""
        return links.max(axis=2, initial=-1) < self._network.link_count

    def is_outside_of_nodes(self, times: ClassTimes) -> bool:
        """Whether all GPUs of a node still reach each other, routes of a level have equally many links, and no two
        translations of a transfer share a link.
        """
        broken = ~self.intact(self.inner_links) & self.alive & self.alive[self.inner_to]
        levels = [level.routes.reshape(-1) for level in (self.inner, self.outer) if level is not None]
        used = np.concatenate(levels)
        return not bool(broken.any()) and int(used.min()) >= 0 and not bool(times.turn[used].any())
