"""Rarest-first spreading for large problems: the attempts of rarest_first.py by a compiled kernel, with equal results.

Not for switches with buffers of limited size, nor for those into which a chunk may come only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from collc.base.memory import require_for_search
from collc.kernels.compiled import compiled, words_of
from collc.kernels.rarest_first import DONE, ROOM, RUNNING, spread
from collc.kernels.spread_tables import (
    COUNTERS,
    END,
    HEAP,
    MISSING,
    MULTICASTING,
    NEEDED,
    NODES,
    PLANNED,
    REPEATING,
    WORK,
    SpreadLayout,
)
from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.rarest_first import (
    PATH_WORK,
    PathTransfers,
    SpreadRule,
    non_minimal_paths,
    path_class_numbers,
    receivers_of,
    serve_work,
    tie_breaks,
)
from collc.synthesis.swarm.urgency import path_classes_of, weights_of
from collc.ten.arrays import BoolArray, Int64Array

PAUSE: Final = 1_000_000
"""Work after which the kernel returns, so that the search can be stopped."""

MOST_URGENCY: Final = 1 << 62
"""Urgencies are below this, so that they fit in 64 bits."""

CELL_BYTES: Final = 40
"""Memory for each chunk and device: sets while they are renumbered, transfers, and slots."""

FIRST_ROOM: Final = 4096
"""Events and reserved intervals for which there is room at first, beside those of one time."""

_Batch = tuple[int, int, int]
"""Of the events of one time, the most sends; and of each send the most events and reserved intervals."""


@dataclass(frozen=True, eq=False)
class _Network:
    """What attempts with one `SpreadRule.half_ratio` share.

    tables: of the kernel's array `fixed`, by name. component: int64[classes, devices], -1: none. weight: of each class.
    batch: see _Batch. paths, ports: the most paths and ports into a device. in_turn: see SpreadLayout.
    """

    tables: dict[str, Int64Array]
    component: Int64Array
    weight: list[int]
    batch: _Batch
    paths: int
    ports: int
    in_turn: bool


class CompiledSpread:
    """The attempts on one problem. work: what the last one has done, as WorkMeter counts it.

    Raises SourceError U0109 where its tables would need more memory than is left.
    """

    def __init__(self, problem: SwarmProblem) -> None:
        count = len(problem.conditions)
        self._problem, self._count, self._devices = problem, count, len(problem.have)
        require_for_search(CELL_BYTES * self._devices * count, f"{count:,} chunks on {self._devices:,} devices")
        self._have, self._wanted, welcome, self._sizes = (
            _matrix(sets, count) for sets in (problem.have, problem.need, problem.welcome, problem.sizes)
        )
        self._need: BoolArray = np.logical_or(self._wanted, welcome)
        self._held_sometime = self._have.copy()
        for _, device, row in problem.later:
            self._held_sometime[device, row] = True
        self._networks: dict[int, _Network] = {}
        self.work = 0

    @staticmethod
    def serves(problem: SwarmProblem) -> bool:
        """Whether the kernel knows all that the problem has."""
        if problem.paths.summing or problem.conditions.task.network.has_limited_buffers:
            return False
        devices, classes = len(problem.have), len(set(problem.paths.slowest))
        return weights_of(classes, devices)[-1] * (devices + 1) < MOST_URGENCY

    def run(
        self, rule: SpreadRule, limit: int | None, stop: Callable[[], bool], most: int | None
    ) -> PathTransfers | None:
        """What `RarestFirst.run` returns. most: work after which the attempt ends without a plan; None: any."""
        number, rank = tie_breaks(self._count, self._devices, rule.tie_seed)
        order = np.array(number, np.int64)
        if rule.half_ratio not in self._networks:
            self._networks[rule.half_ratio] = self._network(rule.half_ratio)
        network = self._networks[rule.half_ratio]
        tables, state = self._sets(network, order)
        coming, reserved = self._events(network, order)
        heap, nodes, head = _first_room(network.batch, coming, reserved, self._problem)
        tables["rank"], state["head"] = np.array(rank, np.int64), head
        state["counters"][[HEAP, NODES]] = len(coming), len(reserved)
        layout, fixed, memory = self._laid_out(network, rule, tables, state)
        plan = np.zeros(3 * int(self._need.sum()), np.int64)
        limits = -1 if limit is None else limit, -1 if most is None else max(0, most)
        counters = memory[layout.counters : layout.counters + COUNTERS]
        kernel, code = compiled(spread), RUNNING
        while code in {RUNNING, ROOM}:
            arrays: list[Any] = [fixed, memory, heap, nodes, plan]
            code = kernel(*limits, int(counters[WORK]) + PAUSE, layout, network.batch, *arrays)
            if code == ROOM:
                heap, nodes = _roomier(heap, nodes, network.batch, memory[layout.head : layout.head + layout.links + 1])
            elif stop():
                break
        self.work = int(counters[WORK])
        if code != DONE:
            return None
        chunk, path, start = plan[: 3 * int(counters[PLANNED])].reshape(-1, 3).T
        return PathTransfers(np.argsort(order)[chunk].tolist(), path.tolist(), start.tolist(), int(counters[END]))

    def _network(self, half_ratio: int) -> _Network:
        """The tables of the network, for the classes of paths that begin at a ratio."""
        problem, paths = self._problem, self._problem.paths
        classes = path_classes_of(problem, half_ratio) if half_ratio else []
        slow = path_class_numbers(paths, classes)
        non_minimal = non_minimal_paths(paths, slow)
        component = np.full((len(classes), self._devices), -1, np.int64)
        for row, each in zip(component, classes, strict=True):
            row[list(each.component)] = list(each.component.values())
        receives: list[bool] = np.logical_or.reduce(self._need, axis=1).tolist()
        links = problem.conditions.task.network.link_count
        ports, fed, users = receivers_of(paths, receives, self._devices, links)
        rows = [row for port in ports for row in port.values()]
        offsets = _entry_offsets(problem)
        tables: dict[str, Iterable[int]] = {
            "source": paths.source,
            "slow": slow,
            "non_minimal": (path in non_minimal for path in range(len(paths.links))),
            "first": _firsts(paths.links),
            "link": chain.from_iterable(paths.links),
            "start": chain.from_iterable(chain.from_iterable(paths.start)),
            "busy": chain.from_iterable(chain.from_iterable(paths.busy)),
            "total": chain.from_iterable(paths.total),
            "ports": _firsts(ports),
            "fastest": (min(slow[path] for path in row) for row in rows),
            "over": _firsts(rows),
            "path": chain.from_iterable(rows),
            "serve_work": map(serve_work, ports),
            "fed_first": _firsts(fed),
            "fed": chain.from_iterable(map(sorted, fed)),
            "used_first": _firsts(users),
            "used": chain.from_iterable(map(sorted, users)),
            "offset_first": _firsts(offsets),
            "offset": chain.from_iterable(map(sorted, offsets)),
            "ends": problem.conditions.task.network.target.tolist(),
        }
        first_links = [links[0] for links in paths.links]
        hops = max(map(len, paths.links), default=0)
        return _Network(
            {name: _numbers(table) for name, table in tables.items()} | _switches(problem),
            component,
            weights_of(len(classes), self._devices),
            (2 * len(rows), hops * (max(map(len, offsets), default=0) + 1) + 2, hops),
            max((sum(map(len, port.values())) for port in ports), default=0),
            max(map(len, ports), default=0),
            bool(classes) or len(set(first_links)) < len(first_links),
        )

    def _sets(self, network: _Network, order: Int64Array) -> tuple[dict[str, Int64Array], dict[str, Int64Array]]:
        """The tables of chunks in `fixed`, and those in `state`, at the start. order: the numbers of the conditions."""
        have, wanted, need, sizes, held = (
            _renumbered(each, order)
            for each in (self._have, self._wanted, self._need, self._sizes, self._held_sometime)
        )
        shape = len(network.weight), *need.shape
        lacking, own = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        for number, npu in np.argwhere(network.component >= 0).tolist():
            part = int(network.component[number, npu])
            lacking[number, part] |= need[npu]
            own[number, part] |= held[npu]
        lacking[own] = False
        urgency = need.sum(axis=0, dtype=np.int64)
        for number, weight in enumerate(network.weight):
            urgency += weight * lacking[number].sum(axis=0)
        fixed = {
            "of_size": words_of(sizes, compile_it=True),
            "wanted": words_of(wanted, compile_it=True),
            "component": network.component.ravel(),
            "weight": network.weight,
            "own": words_of(own.reshape(-1, self._count), compile_it=True),
        }
        counters = np.zeros(COUNTERS, np.int64)
        counters[[MISSING, NEEDED, WORK]] = (
            self._problem.missing,
            need.sum(),
            PATH_WORK * len(self._problem.paths.links),
        )
        state = {
            "counters": counters,
            "have": words_of(have, compile_it=True),
            "need": words_of(need, compile_it=True),
            "held": have.sum(axis=1),
            "lacks": need.sum(axis=1),
            "lacking": words_of(lacking.reshape(-1, self._count), compile_it=True),
            "unsent": words_of(np.logical_or.reduce(lacking, axis=1), compile_it=True),
            "urgency": urgency,
        }
        return _int64(fixed), _int64(state)

    def _laid_out(
        self, network: _Network, rule: SpreadRule, tables: dict[str, Int64Array], state: dict[str, Int64Array]
    ) -> tuple[SpreadLayout, Int64Array, Int64Array]:
        """Where each table begins in `fixed` and `state`, and both."""
        paths, sizes, words = len(self._problem.paths.links), len(self._problem.sizes), -(-self._count // 64)
        repeaters, ports = len(self._problem.paths.repeaters), len(network.tables["fastest"])
        rows, most = network.paths, network.ports + 1
        room = {
            "duties": self._devices,
            "idle": repeaters * self._count,
            "blocked": sizes * paths,
            "blocked_all": paths if sizes > 1 else 0,
            "closed": ports,
            "bits": (rows + most) * words,
            "rows": rows,
            "row_port": rows,
            "chosen": most,
            "seen": most,
            "stack_chunk": most,
            "stack_port": most,
            "touched": self._devices,
        }
        parts = state | {name: state.get(name, np.zeros(size, np.int64)) for name, size in room.items()}
        in_fixed, fixed = _concatenated(network.tables | tables)
        in_state, memory = _concatenated(parts)
        if sizes == 1:
            in_state["blocked_all"] = in_state["blocked"]
        layout = SpreadLayout(
            devices=self._devices,
            chunks=self._count,
            paths=paths,
            hops=len(network.tables["link"]),
            links=self._problem.conditions.task.network.link_count,
            sizes=sizes,
            classes=len(network.weight),
            words=words,
            in_turn=network.in_turn,
            fresh=rule.fresh,
            **in_fixed,
            **in_state,
        )
        return layout, fixed, memory

    def _events(self, network: _Network, order: Int64Array) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
        """What will happen from the start, as (time, number); and what is reserved, as (link, start, end)."""
        problem, first = self._problem, network.tables["offset_first"]
        coming = [(time, device * self._count + int(order[row])) for time, device, row in problem.later]
        reserved = [
            (link, begin, end)
            for link, line in problem.reserved.items()
            for begin, end in zip(line.starts, line.ends, strict=True)
        ]
        for link, _, end in reserved:
            offsets: list[int] = network.tables["offset"][first[link] : first[link + 1]].tolist()
            number = 2 * self._devices * self._count + link
            coming += [(end - offset, number) for offset in offsets if end > offset]
        return sorted(coming), reserved


def _first_room(
    batch: _Batch, coming: list[tuple[int, int]], reserved: list[tuple[int, int, int]], problem: SwarmProblem
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The heap, the nodes, and the first node of each link, then of those that are free."""
    sends, each, hops = batch
    head = np.full(problem.conditions.task.network.link_count + 1, -1, np.int64)
    nodes = np.zeros((len(reserved) + FIRST_ROOM + sends * hops, 3), np.int64)
    for node in range(len(reserved) - 1, -1, -1):
        link, begin, end = reserved[node]
        nodes[node] = head[link], begin, end
        head[link] = node
    _free(nodes, len(reserved), head)
    heap = np.zeros((len(coming) + FIRST_ROOM + sends * each, 2), np.int64)
    heap[: len(coming)] = np.array(coming, np.int64).reshape(-1, 2)
    return heap.ravel(), nodes.ravel(), head


def _roomier(heap: Int64Array, nodes: Int64Array, batch: _Batch, head: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The heap and the nodes with at least twice as much room, enough for one batch."""
    sends, each, hops = batch
    wider = np.concatenate([heap, np.zeros(max(len(heap), 2 * sends * each), np.int64)])
    rows = nodes.reshape(-1, 3)
    more = np.concatenate([rows, np.zeros((max(len(rows), sends * hops), 3), np.int64)])
    _free(more, len(rows), head)
    return wider, more.ravel()


def _free(nodes: Int64Array, first: int, head: Int64Array) -> None:
    """Put the nodes from `first` on before those that are free. nodes: int64[nodes, 3]."""
    nodes[first:, 0] = np.arange(first + 1, len(nodes) + 1)
    nodes[-1, 0] = head[-1]
    head[-1] = first


def _entry_offsets(problem: SwarmProblem) -> list[set[int]]:
    """By link, the picoseconds after the start of a path at which it is entered."""
    paths = problem.paths
    found: list[set[int]] = [set() for _ in range(problem.conditions.task.network.link_count)]
    for rows in paths.start:
        for links, starts in zip(paths.links, rows, strict=True):
            for link, start in zip(links, starts, strict=True):
                found[link].add(start)
    return found


def _switches(problem: SwarmProblem) -> dict[str, Int64Array]:
    """The kind of each device, and the number of each repeater."""
    network = problem.conditions.task.network
    kind = np.zeros(len(problem.have), np.int64)
    for switch in problem.paths.repeaters:
        kind[switch] = MULTICASTING if network.multicast[switch - network.npu_count] else REPEATING
    return {"kind": kind, "switch": np.cumsum(kind > 0) - 1}


def _matrix(sets: list[int], count: int) -> BoolArray:
    """bool[sets, count]: the members of sets, which are ints."""
    size = -(-count // 8)
    data = b"".join(bits.to_bytes(size, "little") for bits in sets)
    rows = np.frombuffer(data, np.uint8).reshape(len(sets), size)
    return np.unpackbits(rows, axis=1, count=count, bitorder="little").astype(np.bool_)


def _renumbered(sets: BoolArray, order: Int64Array) -> BoolArray:
    found = np.empty_like(sets)
    found[:, order] = sets
    return found


def _numbers(table: Iterable[int]) -> Int64Array:
    return np.fromiter(table, np.int64)


def _int64(tables: Mapping[str, object]) -> dict[str, Int64Array]:
    return {name: np.asarray(table, np.int64) for name, table in tables.items()}


def _firsts(rows: Sequence[Sequence[int] | set[int] | dict[int, list[int]]]) -> list[int]:
    """Where each row begins once they are joined, and the end."""
    return np.cumsum([0, *map(len, rows)]).tolist()


def _concatenated(tables: Mapping[str, Int64Array]) -> tuple[dict[str, int], Int64Array]:
    """Where each table begins in the array of all, and that array."""
    begins = np.cumsum([0, *map(len, tables.values())]).tolist()
    return dict(zip(tables, begins, strict=False)), np.concatenate([*tables.values()])
