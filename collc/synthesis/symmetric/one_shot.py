"""All-Reduce of small buffers on clusters: on some levels all NPUs exchange their partials at once.

On each level of the cluster (the GPUs of a node, its rail, its pod) there are two choices. The sum is scattered, and
gathered again at the end; or it is formed one-shot, that is, every NPU that holds a partial sends it to all others of
the level, and each adds up what it receives. One-shot on all levels takes the latency of one route for each level.
One-shot on the rails alone, between a Reduce-Scatter and an All-Gather in the nodes, sends fewer bytes over the NICs.
Both send more bytes than a Reduce-Scatter and an All-Gather of all levels, which cross each level twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimes, ClassTimetable, Routes
from collc.synthesis.symmetric.level_plan import generate_subgroup, levels_of, sums
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network

MOST_MESSAGES: Final = 150_000
"""Messages of the representative's chunks up to which a plan is made."""


@dataclass(frozen=True, eq=False)
class OneShotStage:
    """Messages of the representative's chunks, sent after those of the stages before.

    part, sender: int32[messages], the chunk, and the element of the NPU that sends. hops: int32[messages, hops], links
    of the same route from element 0, -1 after its end. starts: int64[messages, hops], picoseconds. reduce: whether
    partials are sent, or else the sum.
    """

    part: Int32Array
    sender: Int32Array
    hops: Int32Array
    starts: Int64Array
    reduce: bool


@dataclass(frozen=True, eq=False)
class _Messages:
    """What is sent in a stage: sender, step: int32[messages], elements; a message goes to their sum."""

    sender: Int32Array
    step: Int32Array
    reduce: bool


def plan_one_shot(
    network: Network, translations: Translations, times: ClassTimes, parts: int, longest: int
) -> list[OneShotStage] | None:
    """The stages of the shortest plan; None if none takes less than `longest` picoseconds."""
    planner = _OneShotPlanner(network, translations, times, parts)
    best: list[OneShotStage] | None = None
    for one_shot in planner.choices():
        messages = list(planner.stages(one_shot))
        if planner.least(messages) < longest:
            planned = planner.plan_stages(messages)
            if planned is not None and planned[1] < longest:
                best, longest = planned
    return best


class _OneShotPlanner:
    """Plans for a cluster. parts: chunks of the representative."""

    def __init__(self, network: Network, translations: Translations, times: ClassTimes, parts: int) -> None:
        self._network, self._translations, self._times, self._parts = network, translations, times, parts
        self._routes = Routes(network, translations, times, through=False)
        self._levels = levels_of(translations, self._routes.distance[translations.orbits[0]]) or []
        self._hops: dict[int, Int32Array] = {}

    def choices(self) -> Iterator[tuple[bool, ...]]:
        """Which levels may be one-shot without too many messages."""
        if all(self._is_plain(level) for level in self._levels):
            for one_shot in product((True, False), repeat=len(self._levels)):
                if any(one_shot) and self._message_count(one_shot) * self._parts <= MOST_MESSAGES:
                    yield one_shot

    def _is_plain(self, moves: Int32Array) -> bool:
        """Whether the moves of a level and 0 are a subgroup, and no two translations of a route share a link.

        If they do, partials of one chunk may meet in a switch, which would mix them.
        """
        translations = self._translations
        inside = np.zeros(translations.count, np.bool_)
        inside[0] = True
        label = np.arange(translations.count, dtype=np.int32)
        for move in moves.tolist():
            if not inside[move]:
                inside, label = generate_subgroup(translations, inside, label, move)
        hops = self._route_of(moves)
        return int(inside.sum()) == len(moves) + 1 and bool((translations.link_share[hops[hops >= 0]] == 1).all())

    def _message_count(self, one_shot: tuple[bool, ...]) -> int:
        """Messages of all stages; they are listed only if they are not too many."""
        count = 0
        for number, level in enumerate(self._levels):
            senders = [
                1 + len(other)
                for position, other in enumerate(self._levels)
                if one_shot[position] or (not one_shot[number] and position < number)
            ]
            count += len(level) * prod(senders) * (1 if one_shot[number] else 2)
        return count

    def stages(self, one_shot: tuple[bool, ...]) -> Iterator[_Messages]:
        """Scattered levels from the narrowest on, then those that are one-shot, then the scattered ones back."""
        translations, levels = self._translations, self._levels
        together = [number for number, chosen in enumerate(one_shot) if chosen]
        scattered = [number for number, chosen in enumerate(one_shot) if not chosen]
        for number in reversed(scattered):
            rest = [level for level in range(len(levels)) if level < number or one_shot[level]]
            target = self._span(rest)
            step, receiver = _pairs(levels[number], target)
            back = np.array([translations.negative(move) for move in levels[number].tolist()], np.int32)
            yield _Messages(translations.sum(receiver, step), np.repeat(back, len(target)), True)
        for number in reversed(together):
            step, sender = _pairs(levels[number], self._span(together))
            whole = np.append(levels[number], np.int32(0))
            coset = _sums(translations, [sender, whole]).reshape(len(sender), -1).min(axis=1)
            order = np.argsort(coset, kind="stable")
            yield _Messages(sender[order], step[order], True)
        for number in scattered:
            rest = [level for level in range(len(levels)) if level < number or one_shot[level]]
            step, sender = _pairs(levels[number], self._span(rest))
            yield _Messages(sender, step, False)

    def _span(self, levels: Sequence[int]) -> Int32Array:
        """int32: all sums of a move, or 0, of each of some levels."""
        whole = [np.concatenate([np.zeros(1, np.int32), self._levels[level]]) for level in levels]
        return _sums(self._translations, whole)

    def _route_of(self, steps: Int32Array) -> Int32Array:
        """int32[steps, hops]: the links of a route to each element, -1 after its end."""
        new = np.array([step for step in np.unique(steps).tolist() if step not in self._hops], np.int32)
        if len(new):
            self._hops.update(zip(new.tolist(), self._routes.to(self._translations.orbits[0][new]), strict=True))
        known, position = np.unique(steps, return_inverse=True)
        rows = [self._hops[step] for step in known.tolist()]
        table = np.full((len(rows), max(map(len, rows))), -1, np.int32)
        for number, row in enumerate(rows):
            table[number, : len(row)] = row
        return table[position.reshape(-1)]

    def least(self, stages: list[_Messages]) -> int:
        """Picoseconds that stages take at least: by the longest routes, and by the load of the links of a class."""
        latency, load = 0, np.zeros(len(self._translations.class_links), np.int64)
        for stage in stages:
            hops = self._route_of(stage.step)
            used = hops >= 0
            latency += int(np.where(used, self._times.window[hops], 0).sum(axis=1).max())
            rows = self._translations.class_row[hops[used]]
            load += np.bincount(rows, weights=self._times.taken[hops[used]], minlength=len(load)).astype(np.int64)
        return max(latency, int(load.max()) * self._parts)

    def plan_stages(self, stages: list[_Messages]) -> tuple[list[OneShotStage], int] | None:
        """The stages with their times, and when the last message has arrived; None if a partial would wait for
        others in a switch, or if an NPU would receive a partial before it has sent its own to all.
        """
        count, parts = self._translations.count, self._parts
        table = ClassTimetable(self._translations, self._times)
        ready, last_sent = np.zeros(parts * count, np.int64), np.full(parts * count, -1, np.int64)
        planned: list[OneShotStage] = []
        for stage in stages:
            part = np.repeat(np.arange(parts, dtype=np.int32), len(stage.sender))
            sender, step = np.tile(stage.sender, parts), np.tile(stage.step, parts)
            origin = part * count + sender
            target = part * count + self._translations.sum(sender, step)
            hops = self._route_of(step)
            starts, arrivals = table.append(hops, ready[origin])
            np.maximum.at(last_sent, origin, starts[:, 0])
            if bool((arrivals <= last_sent[target]).any()):
                return None
            if not stage.reduce:
                ready[target] = arrivals
            np.maximum.at(ready, target, arrivals)
            planned.append(OneShotStage(part, sender, hops, starts, stage.reduce))
        return (planned, int(ready.max())) if self._pass_one_by_one(planned) else None

    def _pass_one_by_one(self, stages: list[OneShotStage]) -> bool:
        """Whether each partial leaves each switch when it arrives, and before another one of its chunk arrives."""
        keys: list[Int64Array] = []
        arrivals: list[Int64Array] = []
        for stage in (stage for stage in stages if stage.reduce):
            arrival = stage.starts + self._times.window[stage.hops]
            passed = stage.hops[:, 1:] >= 0
            if not np.array_equal(stage.starts[:, 1:][passed], arrival[:, :-1][passed]):
                return False
            row, hop = np.nonzero(passed)
            link = self._translations.moved_links(stage.hops[row, hop], stage.sender[row])
            keys.append(stage.part[row] * np.int64(self._network.device_count) + self._network.target[link])
            arrivals.append(arrival[row, hop])
        key, time = np.concatenate(keys), np.concatenate(arrivals)
        order = np.lexsort((time, key))
        same = (key[order][1:] == key[order][:-1]) & (time[order][1:] == time[order][:-1])
        return not bool(same.any())


def _sums(translations: Translations, sets: Sequence[Int32Array]) -> Int32Array:
    """int32: all sums of one element of each set, the last set fastest."""
    total = np.zeros(1, np.int32)
    for elements in sets:
        total = sums(translations, total, elements).reshape(-1)
    return total


def _pairs(steps: Int32Array, elements: Int32Array) -> tuple[Int32Array, Int32Array]:
    """All pairs of a step and an element, step by step."""
    return np.repeat(steps, len(elements)), np.tile(elements, len(steps))
