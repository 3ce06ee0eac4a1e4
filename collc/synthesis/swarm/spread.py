"""Rarest-first spreading: the attempts on one problem, in plain Python or compiled, with equal results.

The chunk that most NPUs still lack goes first; a chunk that is being sent to an NPU counts as received. So a source
spreads different chunks over its links, and the NPUs that received them exchange them. This is the rarest-first rule of
BitTorrent; if each NPU has one port it is nearly optimal (Mundinger, Weber and Weiss, "Optimal scheduling of
peer-to-peer file dissemination", 2008).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from collc.kernels.compiled import BATCH, version_of, word_shape, words_of
from collc.kernels.rarest_first import DONE, RUNNING, spread
from collc.kernels.spread_tables import (
    COUNTERS,
    END,
    EVENTS,
    MISSING,
    MULTICASTING,
    NEEDED,
    NODES,
    PLANNED,
    REPEATING,
    WORK,
    SpreadLayout,
)
from collc.synthesis.swarm.path_classes import non_minimal_paths, path_class_numbers, path_classes_of
from collc.synthesis.swarm.plans import PathTransfers
from collc.synthesis.swarm.problem import SwarmProblem
from collc.ten.arrays import BoolArray, Int64Array

SERVE_WORK: Final = 3
PATHS_LOOKED_AT: Final = 10
"""The work of looking for what an NPU can get: SERVE_WORK, and 1 for every PATHS_LOOKED_AT paths."""

MAX_URGENCY: Final = 1 << 62
"""Urgencies in compiled code are below this, so that they fit in 64 bits."""

Tables = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """The choices of one attempt.

    half_ratio: a class of slow paths begins with paths that are at least `half_ratio` / 2 times as slow as the next
    faster ones; 0: all paths are of one class. tie_seed: tie-break seed; None: ties go to the lower number.
    """

    half_ratio: int
    tie_seed: int | None


@dataclass(frozen=True, eq=False)
class _PathTables:
    """What attempts with one `SpreadRule.half_ratio` share.

    tables, sizes: of the kernel's memory, and fields of its layout, by name. cells: the tables one behind the other.
    component: int64[classes, devices], -1: none. in_turn: see SpreadLayout. weight: of each class. rows, ports: the
    most paths and ports into a device. events, nodes: of what is reserved.
    """

    tables: Tables
    sizes: dict[str, int]
    cells: Any
    in_turn: bool
    component: Int64Array
    weight: list[int]
    rows: int
    ports: int
    events: list[tuple[int, int]]
    nodes: list[int]


class Spread:
    """The attempts on one problem. work: what the last one has done, as WorkMeter counts it."""

    def __init__(self, problem: SwarmProblem, compile_it: bool) -> None:
        count = len(problem.conditions)
        self._problem, self._count, self._devices, self._compile_it = problem, count, len(problem.have), compile_it
        self._need: BoolArray = problem.need | problem.welcome
        self._held_sometime = problem.have.copy()
        for _, device, row in problem.later:
            self._held_sometime[device, row] = True
        self._paths: dict[int, _PathTables] = {}
        self.work = 0

    @staticmethod
    def can_be_compiled(problem: SwarmProblem) -> bool:
        """Whether all urgencies fit in 64 bits."""
        devices, classes = len(problem.have), len(set(problem.paths.slowest))
        return weights_of(classes, devices)[-1] * (devices + 1) < MAX_URGENCY

    def run(
        self, rule: SpreadRule, limit: int | None, stop: Callable[[], bool], most: int | None
    ) -> PathTransfers | None:
        """Simulates an attempt until all have what they must get.

        most: work after which the attempt ends; None: any. Returns None if it ends so, `stop` asks to stop, no event is
        left, or a chunk would arrive after the limit.
        """
        order, rank = _tie_breaks(self._count, self._devices, rule.tie_seed)
        if rule.half_ratio not in self._paths:
            self._paths[rule.half_ratio] = self._path_tables(rule.half_ratio)
        paths = self._paths[rule.half_ratio]
        waiting = self._events(paths, order)
        state = {**self._sets(paths, order), "rank": rank}
        layout, memory = self._laid_out(paths, state, len(waiting) // 2)
        arrays = memory, *map(self._array, (paths.nodes, waiting, [0] * (3 * memory[NEEDED])))
        limits = -1 if limit is None else limit, -1 if most is None else max(0, most)
        kernel: Any = version_of(spread, self._compile_it)
        _, nodes, waiting, plan = arrays
        code = RUNNING
        while code == RUNNING and not stop():
            code, nodes, waiting = kernel(*limits, int(memory[WORK]) + BATCH, layout, memory, nodes, waiting, plan)
        self.work = int(memory[WORK])
        if code != DONE:
            return None
        chunk, path, start = np.array(plan[: 3 * int(memory[PLANNED])], np.int64).reshape(-1, 3).T
        return PathTransfers(np.argsort(order)[chunk].tolist(), path.tolist(), start.tolist(), int(memory[END]))

    def _array(self, cells: Sequence[int]) -> Any:  # noqa: ANN401
        """Cells as the kernel takes them."""
        return np.array(cells, np.int64) if self._compile_it else list(cells)

    def _path_tables(self, half_ratio: int) -> _PathTables:
        """The tables of the network, for the classes of paths that begin at a ratio."""
        problem, paths = self._problem, self._problem.paths
        classes = path_classes_of(problem, half_ratio) if half_ratio else []
        slow = path_class_numbers(paths, classes)
        non_minimal = non_minimal_paths(paths, slow)
        component = np.full((len(classes), self._devices), -1, np.int64)
        for first_of, each in zip(component, classes, strict=True):
            first_of[list(each.component)] = list(each.component.values())
        ports, fed, users = self._receivers()
        rows = [row for port in ports for row in port.values()]
        offsets: list[set[int]] = [set() for _ in paths.ends]
        for entries in paths.start:
            for links, starts in zip(paths.links, entries, strict=True):
                for link, start in zip(links, starts, strict=True):
                    offsets[link].add(start)
        words = word_shape(self._count, self._compile_it)[0]
        tables: dict[str, Iterable[int]] = {
            "source": paths.source,
            "slow": slow,
            "non_minimal": (path in non_minimal for path in range(len(paths.links))),
            "start": chain.from_iterable(chain.from_iterable(paths.start)),
            "busy": chain.from_iterable(chain.from_iterable(paths.busy)),
            "total": chain.from_iterable(paths.total),
            "fastest": (min(slow[path] for path in row) for row in rows),
            "serve_work": (  # the second word of what a source has, and each after it, takes a fifth of a path
                SERVE_WORK + sum(map(len, port.values())) * (4 + words) // (5 * PATHS_LOOKED_AT) for port in ports
            ),
            "ports": _begins(map(len, ports)),
            "ends": paths.ends,
            **_csr("first", "link", paths.links),
            **_csr("over", "path", rows),
            **_csr("fed_first", "fed", map(sorted, fed)),
            **_csr("used_first", "used", map(sorted, users)),
            **_csr("offset_first", "offset", map(sorted, offsets)),
            **self._switches(),
        }
        first_links = [links[0] for links in paths.links]
        hops = max(map(len, paths.links), default=0)
        listed: Tables = {name: np.fromiter(table, np.int64).tolist() for name, table in tables.items()}
        events, head, nodes = self._chains(listed)
        listed = {**listed, "head": head}
        return _PathTables(
            listed,
            {"sends": 2 * len(rows), "intervals": 2 * hops, "turns": 2 if non_minimal else 1},
            self._array(list(chain.from_iterable(listed.values()))),
            bool(classes) or len(set(first_links)) < len(first_links),
            component,
            weights_of(len(classes), self._devices),
            max((sum(map(len, port.values())) for port in ports), default=0),
            max(map(len, ports), default=0),
            events,
            nodes,
        )

    def _receivers(self) -> tuple[list[dict[int, list[int]]], list[set[int]], list[set[int]]]:
        """By receiver and last link, the paths; by device, the receivers of its paths; by link, of paths over it."""
        paths = self._problem.paths
        receives: list[bool] = np.logical_or.reduce(self._need, axis=1).tolist()
        ports: list[dict[int, list[int]]] = [{} for _ in receives]
        fed: list[set[int]] = [set() for _ in receives]
        users: list[set[int]] = [set() for _ in paths.ends]
        for path, (source, target, over) in enumerate(zip(paths.source, paths.target, paths.links, strict=True)):
            if receives[target]:
                ports[target].setdefault(over[-1], []).append(path)
                fed[source].add(target)
                for link in over:
                    users[link].add(target)
        return ports, fed, users

    def _switches(self) -> dict[str, Iterable[int]]:
        """What the kernel knows of each device: kind, number of a repeater, buffer, links to wake, and if it sums."""
        task, paths = self._problem.conditions.task, self._problem.paths
        network = task.network
        kind, buffer, sums = np.zeros(self._devices, np.int64), np.full(self._devices, -1), np.zeros(self._devices)
        for switch in paths.repeaters:
            kind[switch] = MULTICASTING if network.multicast[switch - network.npu_count] else REPEATING
        buffer[network.npu_count :] = network.buffers
        sums[sorted(paths.summing)] = 1
        first, links = network.in_links if task.inverted else network.out_links
        return {
            "kind": kind,
            "switch": np.cumsum(kind > 0) - 1,
            "buffer": buffer,
            "sums": sums,
            "woken_first": first,
            "woken": links,
        }

    def _sets(self, paths: _PathTables, order: list[int]) -> Tables:
        """The tables of chunks at the start. order: the numbers of the conditions."""
        problem = self._problem
        have, wanted, need, sizes, held = (
            _renumber(each, order)
            for each in (problem.have, problem.need, self._need, problem.sizes, self._held_sometime)
        )
        shape = len(paths.weight), *need.shape
        lacking, own = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        for number, npu in np.argwhere(paths.component >= 0).tolist():
            component = int(paths.component[number, npu])
            lacking[number, component] |= need[npu]
            own[number, component] |= held[npu]
        lacking[own] = False
        urgency = need.sum(axis=0).astype(object)
        for number, weight in enumerate(paths.weight):
            urgency += weight * lacking[number].sum(axis=0).astype(object)
        sets: dict[str, BoolArray] = {
            "of_size": sizes,
            "wanted": wanted,
            "have": have,
            "need": need,
            "lacking": lacking.reshape(-1, self._count),
        }
        return {name: words_of(each, self._compile_it) for name, each in sets.items()} | {
            "component": paths.component.ravel().tolist(),
            "weight": paths.weight,
            "held": have.sum(axis=1).tolist(),
            "lacks": need.sum(axis=1).tolist(),
            "urgency": urgency.tolist(),
        }

    def _laid_out(self, paths: _PathTables, state: Tables, events: int) -> tuple[SpreadLayout, Any]:
        """Where each table begins in the memory of the kernel, and that memory."""
        problem = self._problem
        task, count, sizes = problem.conditions.task, len(problem.paths.links), len(problem.sizes)
        words, shift, mask = word_shape(self._count, self._compile_it)
        rows, most = paths.rows, paths.ports + 1
        room = {
            "duties": self._devices,
            "idle": len(problem.paths.repeaters) * self._count,
            "received": self._devices * words,
            "blocked": sizes * count,
            "blocked_all": count if sizes > 1 else 0,
            "closed": len(paths.tables["fastest"]),
            "bits": (rows + most) * words,
            "rows": rows,
            "row_port": rows,
            "chosen": most,
            "seen": most,
            "stack_chunk": most,
            "stack_port": most,
            "touched": self._devices,
        }
        counters = [0 for _ in COUNTERS]
        counters[MISSING], counters[NEEDED] = problem.missing_count, int(self._need.sum())
        counters[NODES], counters[EVENTS] = len(paths.nodes) // 3, events
        lengths = {"": len(counters)} | {name: len(table) for name, table in {**paths.tables, **state}.items()} | room
        begins = dict(zip(lengths, _begins(lengths.values()), strict=False))
        del begins[""]
        if sizes == 1:
            begins["blocked_all"] = begins["blocked"]
        layout = SpreadLayout(
            devices=self._devices,
            chunks=self._count,
            paths=count,
            hops=len(paths.tables["link"]),
            links=len(problem.paths.ends),
            sizes=sizes,
            classes=len(paths.weight),
            words=words,
            shift=shift,
            mask=mask,
            in_turn=paths.in_turn,
            is_limited=task.network.has_limited_buffers,
            is_summing=bool(problem.paths.summing),
            inverted=task.inverted,
            **paths.sizes,
            **begins,
        )
        parts, free = (counters, paths.cells, *state.values()), sum(room.values())
        if self._compile_it:
            return layout, np.concatenate([*parts, np.zeros(free)], dtype=np.int64, casting="unsafe")
        return layout, [*chain.from_iterable(parts), *[0] * free]

    def _events(self, paths: _PathTables, order: list[int]) -> list[int]:
        """The heap of events at the start."""
        later = ((time, device * self._count + order[row]) for time, device, row in self._problem.later)
        return list(chain.from_iterable(sorted({*later, *paths.events})))

    def _chains(self, tables: Tables) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """The chains of what is reserved: events when it ends; the first node of each chain, and all nodes."""
        problem, first, ends = self._problem, tables["offset_first"], tables["offset"]
        links, woken_first, woken = len(first) - 1, tables["woken_first"], tables["woken"]
        events: set[tuple[int, int]] = set()
        chains: dict[int, list[tuple[int, int]]] = {
            link: list(zip(line.starts, line.ends, strict=True)) for link, line in problem.reserved.items()
        }
        for switch, intervals in problem.slots_used.items():
            chains[links + switch] = sorted(intervals, key=lambda each: each[1])
        head, nodes = [-1] * (links + self._devices + 1), list[int]()
        for number, intervals in chains.items():
            over: Sequence[int] = [number]
            if number >= links:
                over = woken[woken_first[number - links] : woken_first[number - links + 1]]
            for _, end in intervals:
                for link in over:
                    offsets = ends[first[link] : first[link + 1]]
                    number_of_link = 2 * self._devices * self._count + link
                    events |= {(end - offset, number_of_link) for offset in offsets if end > offset}
            head[number] = len(nodes) // 3
            for begin, end in intervals:
                nodes += [len(nodes) // 3 + 1, begin, end]
            nodes[-3] = -1
        return sorted(events), head, nodes


def weights_of(classes: int, devices: int) -> list[int]:
    """By class of slow paths, what a component that lacks a chunk adds to its urgency; an NPU that lacks it adds 1."""
    return [(devices + 1) ** (k + 1) for k in range(classes)]


def _tie_breaks(chunks: int, devices: int, seed: int | None) -> tuple[list[int], list[int]]:
    """The number of each row of the conditions, and the rank of each device, in the order of which ties are broken."""
    number, rank = list(range(chunks)), list(range(devices))
    if seed is not None:
        chance = random.Random(seed)
        chance.shuffle(number)
        chance.shuffle(rank)
    return number, rank


def _renumber(sets: BoolArray, order: list[int]) -> BoolArray:
    renumbered = np.empty_like(sets)
    renumbered[:, order] = sets
    return renumbered


def _begins(lengths: Iterable[int]) -> list[int]:
    """Where each row begins once they are joined, and the end."""
    return np.cumsum([0, *lengths]).tolist()


def _csr(first: str, joined: str, rows: Iterable[Collection[int]]) -> dict[str, Iterable[int]]:
    """Two tables: where each row begins, and the rows one behind the other."""
    listed = list(rows)
    return {first: _begins(map(len, listed)), joined: chain.from_iterable(listed)}
