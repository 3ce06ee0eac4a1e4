"""Algorithms written by hand, laid out on the links of a network (docs/language.md, "Algorithms by hand").

- `at s`: the moves of step s start together when those of the step before have all arrived.
- Without `at`: a copied chunk leaves as soon as it is at the source. Of a chunk that is reduced, a
  `reduce` waits for all `reduce` moves of the chunk into its source, and a `send` for the first `send` into
  its source or, where none comes, for all `reduce` moves into it.
- Where no direct link joins the two, the cheapest path is taken, hop by hop; every hop starts when the one
  before has arrived. Nothing is put off for another transfer: where two meet on a link they congest, and
  the check of the schedule says so.
- An NPU has one place for a chunk, so a reduction cannot pass one that has a part of its own, or where another one
  passes or ends: that is an error. Who means to combine on the way says so, hop by hop.
- Of parallel links, a transfer takes the first that is free (cheapest first, then in order of declaration); where
  none is, the transfers of one start take turns.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter

import numpy as np

from collc.base.diagnostics import Diagnostic, Note, SourceError, Span
from collc.graph.digraph import Digraph
from collc.graph.paths import LexicographicPaths
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Transfers


def lay_out(
    network: Network, demand: Demand, run: int, moves: AlgorithmSends, model: LinkModel, span: Span | None = None
) -> Transfers:
    """The transfers of a run's algorithm, from time 0.

    span: where the run stands, for messages. Raises SourceError where a move can never start: its source
    never holds the chunk, holds it too late for its step, or no path leads to its target; or where a reduction
    passes an NPU that has a part of the chunk.
    """
    return _Layout(network, demand, run, moves, model, span).transfers()


_ARRIVE, _STEP, _HOP = range(3)
_Event = tuple[int, int, int, int]
"""Time, what happens (arrivals first), number of the move or step, number of the hop."""
_Place = tuple[int, int]
"""A chunk at a device."""


class _Layout:
    """Sends as they happen, in order of time."""

    def __init__(
        self, network: Network, demand: Demand, run: int, moves: AlgorithmSends, model: LinkModel, span: Span | None
    ) -> None:
        self._network, self._demand, self._run, self._span = network, demand, run, span
        clock = Clock.of(network, demand, model)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._column: list[int] = clock.size_of.tolist()
        self._chunk: list[int] = moves.chunk.tolist()
        self._source: list[int] = moves.source.tolist()
        self._target: list[int] = moves.target.tolist()
        self._reduce: list[bool] = moves.reduce.tolist()
        self._step: list[int] = moves.step.tolist()
        self._reduced: list[bool] = (demand.chunks.op[moves.chunk] != Op.COPY).tolist()
        self._routers: dict[int, LexicographicPaths] = {}
        self._paths = [self._path(k) for k in range(len(moves))]
        self._check_passed()
        self._steps: dict[int, list[int]] = {s: [] for s in sorted(set(self._step)) if s >= 0}
        for k, step in enumerate(self._step):
            if step >= 0:
                self._steps[step].append(k)
        self._order = list(self._steps)
        self._left_in_step = [len(moves) for moves in self._steps.values()]
        self._free_at = [0] * network.link_count
        self._turn: dict[tuple[int, int, int], int] = {}
        self._held: set[_Place] = set()
        self._waiting: dict[_Place, list[int]] = {}
        self._parts_missing = [0] * len(moves)
        self._unlocks: list[list[int]] = [[] for _ in range(len(moves))]
        self._events: list[_Event] = []
        self._started: set[int] = set()
        self._rows: list[tuple[int, int, int, bool]] = []

    def transfers(self) -> Transfers:
        """All hops of all moves."""
        table = self._demand.chunks
        for chunk in dict.fromkeys(self._chunk):
            self._held.update((chunk, npu) for npu in table.sets[int(table.pre[chunk])].tolist())
        if self._order:
            self._happens(0, _STEP, 0)
        self._queue_stepless()
        while self._events:
            time, what, number, hop = heapq.heappop(self._events)
            if what == _HOP:
                self._hop(time, number, hop)
            elif what == _STEP:
                self._start_step(time, number)
            else:
                self._arrive(time, number, hop)
        self._check_all_started()
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        return Transfers.of(
            rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2], rows[:, 3].astype(np.bool_)
        )

    def _happens(self, time: int, what: int, number: int, hop: int = 0) -> None:
        heapq.heappush(self._events, (time, what, number, hop))

    def _path(self, move: int) -> list[int]:
        column = self._column[self._chunk[move]]
        if column not in self._routers:
            weight = np.array([max(1, row[column]) for row in self._total], np.int64)
            self._routers[column] = LexicographicPaths(Digraph.of(self._network), weight)
        if self._routers[column].edges(self._source[move], self._target[move]):
            return [self._source[move], self._target[move]]
        path = self._routers[column].path(self._source[move], self._target[move])
        if path is None:
            raise self._error(
                "S0103", f"no path leads from {self._device(self._source[move])} to {self._device(self._target[move])}"
            )
        return path

    def _queue_stepless(self) -> None:
        """Queues the moves without a step: those that can start at 0, and what the others wait for."""
        sends: dict[_Place, list[int]] = {}
        reduces: dict[_Place, list[int]] = {}
        for k, chunk in enumerate(self._chunk):
            into = reduces if self._reduce[k] else sends
            into.setdefault((chunk, self._target[k]), []).append(k)
        for k, chunk in enumerate(self._chunk):
            place = (chunk, self._source[k])
            if self._step[k] >= 0:
                continue
            parts = reduces.get(place, []) if self._reduced[k] else []
            sent = self._reduced[k] and place in sends and not self._reduce[k]
            if parts and not sent:
                self._parts_missing[k] = len(parts)
                for part in parts:
                    self._unlocks[part].append(k)
            elif place in self._held and not sent:
                self._happens(0, _HOP, k)
            else:
                self._waiting.setdefault(place, []).append(k)

    def _start_step(self, time: int, position: int) -> None:
        for move in self._steps[self._order[position]]:
            self._check_held(move)
            self._happens(time, _HOP, move)

    def _hop(self, time: int, move: int, hop: int) -> None:
        path = self._paths[move]
        self._started.add(move)
        if len(path) == 1:
            self._happens(time, _ARRIVE, move)
            return
        column = self._column[self._chunk[move]]
        link = self._link(time, path[hop], path[hop + 1], column)
        self._free_at[link] = max(self._free_at[link], time + self._busy[link][column])
        self._rows.append((self._chunk[move], link, time, self._reduce[move]))
        self._happens(time + self._total[link][column], _ARRIVE, move, hop + 1)

    def _link(self, time: int, u: int, v: int, column: int) -> int:
        links = self._routers[column].edges(u, v)
        free = next((link for link in links if self._free_at[link] <= time), None)
        if free is not None:
            return free
        turn = self._turn.get((time, u, v), 0)
        self._turn[time, u, v] = turn + 1
        return links[turn % len(links)]

    def _arrive(self, time: int, move: int, hop: int) -> None:
        path = self._paths[move]
        place = (self._chunk[move], path[hop])
        last = hop + 1 >= len(path)
        if not last:
            self._happens(time, _HOP, move, hop)
        if not self._reduce[move]:
            for waiting in self._waiting.pop(place, ()):
                self._happens(time, _HOP, waiting)
        if last or not self._reduce[move]:
            self._held.add(place)
        if last:
            self._finish(time, move)

    def _finish(self, time: int, move: int) -> None:
        for waiting in self._unlocks[move]:
            self._parts_missing[waiting] -= 1
            if self._parts_missing[waiting] == 0:
                self._happens(time, _HOP, waiting)
        if self._step[move] < 0:
            return
        position = bisect_left(self._order, self._step[move])
        self._left_in_step[position] -= 1
        if self._left_in_step[position] == 0 and position + 1 < len(self._order):
            self._happens(time, _STEP, position + 1)

    def _check_held(self, move: int) -> None:
        place = (self._chunk[move], self._source[move])
        if place in self._held:
            return
        who, what = self._device(self._source[move]), self._name(move)
        if place not in zip(self._chunk, self._target, strict=True):
            raise self._error("S0101", f"{who} is to send chunk {what} at step {self._step[move]}, but never holds it")
        raise self._error(
            "S0102",
            f"{who} is to send chunk {what} at step {self._step[move]}, but does not hold it yet when that step starts",
            "a move without 'at' starts as soon as its chunk is there",
        )

    def _check_all_started(self) -> None:
        for k in range(len(self._chunk)):
            if k in self._started:
                continue
            who, what = self._device(self._source[k]), self._name(k)
            if self._parts_missing[k] == 0:
                raise self._error("S0101", f"{who} is to send chunk {what}, but can never hold it")
            raise self._error(
                "S0104",
                f"the moves of chunk {what} into and out of {who} wait for one another",
                "say with 'at' which of them come first",
            )

    def _check_passed(self) -> None:
        """That reductions pass only NPUs that have nothing to do with the chunk."""
        table = self._demand.chunks
        arriving = Counter(place for k in range(len(self._paths)) if self._reduce[k] for place in self._on_the_way(k))
        arriving.update((self._chunk[k], self._target[k]) for k in range(len(self._paths)) if self._reduce[k])
        for move in range(len(self._paths)):
            for chunk, npu in self._on_the_way(move) if self._reduce[move] else ():
                own = npu in table.sets[int(table.pre[chunk])]
                if own or arriving[chunk, npu] > 1:
                    source, target, who = (self._device(d) for d in (self._source[move], self._target[move], npu))
                    why = "which has a part of its own" if own else "where another part comes by"
                    raise self._error(
                        "S0106",
                        f"the reduction of chunk {self._name(move)} from {source} to {target} passes {who}, {why}",
                        f"no link joins the two; reduce hop by hop, into {who} first and on from there",
                    )

    def _on_the_way(self, move: int) -> list[_Place]:
        return [(self._chunk[move], d) for d in self._paths[move][1:-1] if not self._network.is_switch(d)]

    def _device(self, device: int) -> str:
        return self._network.device_name(device)

    def _name(self, move: int) -> str:
        return self._demand.chunk_name(self._chunk[move])

    def _error(self, code: str, message: str, hint: str = "") -> SourceError:
        note = Note(f"in the algorithm of run {self._run}, {self._demand.runs[self._run].collective}")
        return SourceError(Diagnostic(code, message, self._span, (note,), hint))
