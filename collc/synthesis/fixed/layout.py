"""The transfers of algorithms written by hand, on the links of a network (docs/language.md, "Algorithms by hand").

Each statement `send` or `reduce` of an algorithm is one send of a chunk from an NPU to another.

- With `at s`: the sends of step s start together when those of the step before have all arrived.
- Without `at`: a copied chunk leaves as soon as it is at the source. For a chunk that is reduced, a `reduce` waits for
  all `reduce` statements of the chunk into its source, and a `send` for the first `send` into its source or, if
  there is none, for all `reduce` statements into it.
- If no direct link joins source and target, the send takes the shortest path, hop by hop; each hop starts when the
  one before has arrived. No send waits for another one to leave a link: if two meet on a link they congest, and the
  check of the schedule reports it.
- An NPU has one buffer slot for a chunk. So the path of a `reduce` must not pass an NPU that has a contribution of its
  own, or that another `reduce` of the chunk passes or ends at: that is an error. To combine contributions on the way,
  an algorithm reduces hop by hop.
- Of parallel links, a send takes the first that is free (the fastest first, then in order of declaration); if none
  is, the sends of one start are dealt out to them in turn.
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
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Transfers


def lay_out(
    network: Network, demand: Demand, run: int, sends: AlgorithmSends, model: LinkModel, span: Span | None = None
) -> Transfers:
    """The transfers of a run's algorithm, from time 0.

    span: the run in its program, for messages. Raises SourceError if a send can never start, since its source never
    holds the chunk, holds it too late for its step, or no path leads to its target; and if a reduction passes an NPU
    that has a contribution to the chunk.
    """
    return _AlgorithmLayout(network, demand, run, sends, model, span).transfers()


def nominal_times(
    network: Network, demand: Demand, run: int, sends: AlgorithmSends, model: LinkModel, span: Span | None = None
) -> tuple[Int64Array, Int64Array]:
    """int64[sends] each: when sends would start and arrive if links carried any number of chunks at once.

    NPUs on the way forward what they do not hold. Raises as `lay_out`, but reductions may pass any NPU.
    """
    layout = _AlgorithmLayout(network, demand, run, sends, model, span, forwarding=True)
    layout.transfers()
    return np.array(layout.started, np.int64), np.array(layout.ended, np.int64)


_ARRIVE, _STEP, _HOP = range(3)
_Event = tuple[int, int, int, int]
"""Time, kind of event (arrivals first), number of the send or step, position in the path of the send."""
_ChunkAt = tuple[int, int]
"""A chunk and a device."""


class _AlgorithmLayout:
    """Simulates the sends of an algorithm in order of time.

    forwarding: NPUs on the way hold nothing of what passes. started, ended: by send, picoseconds; -1 before.
    """

    def __init__(
        self,
        network: Network,
        demand: Demand,
        run: int,
        sends: AlgorithmSends,
        model: LinkModel,
        span: Span | None,
        forwarding: bool = False,
    ) -> None:
        self._network, self._demand, self._run, self._span = network, demand, run, span
        self._forwarding = forwarding
        self.started, self.ended = [-1] * len(sends), [-1] * len(sends)
        clock = Clock.of(network, demand, model)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._column: list[int] = clock.size_of.tolist()
        self._chunk: list[int] = sends.chunk.tolist()
        self._source: list[int] = sends.source.tolist()
        self._target: list[int] = sends.target.tolist()
        self._reduce: list[bool] = sends.reduce.tolist()
        self._step: list[int] = sends.step.tolist()
        self._reduced: list[bool] = (demand.chunks.op[sends.chunk] != Op.COPY).tolist()
        self._clock, self._shortest = clock, dict[int, LexicographicPaths]()
        self._paths = [self._path(k) for k in range(len(sends))]
        if not forwarding:
            self._check_passed()
        self._steps: dict[int, list[int]] = {s: [] for s in sorted(set(self._step)) if s >= 0}
        for k, step in enumerate(self._step):
            if step >= 0:
                self._steps[step].append(k)
        self._order = list(self._steps)
        self._left_in_step = [len(of_step) for of_step in self._steps.values()]
        self._free_at = [0] * network.link_count
        self._turn: dict[tuple[int, int, int], int] = {}
        self._held: set[_ChunkAt] = set()
        self._waiting: dict[_ChunkAt, list[int]] = {}
        self._missing_reduces = [0] * len(sends)
        self._followers: list[list[int]] = [[] for _ in range(len(sends))]
        self._events: list[_Event] = []
        self._rows: list[tuple[int, int, int, bool]] = []

    def transfers(self) -> Transfers:
        """All hops of all sends."""
        table = self._demand.chunks
        for chunk in dict.fromkeys(self._chunk):
            self._held.update((chunk, npu) for npu in table.sets[int(table.pre[chunk])].tolist())
        if self._order:
            self._schedule(0, _STEP, 0)
        self._queue_sends_without_step()
        while self._events:
            time, event, number, hop = heapq.heappop(self._events)
            if event == _HOP:
                self._start_hop(time, number, hop)
            elif event == _STEP:
                self._start_step(time, number)
            else:
                self._arrive(time, number, hop)
        self._check_all_started()
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        return Transfers.of(
            rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2], rows[:, 3].astype(np.bool_)
        )

    def _schedule(self, time: int, event: int, number: int, hop: int = 0) -> None:
        heapq.heappush(self._events, (time, event, number, hop))

    def _path(self, send: int) -> list[int]:
        """The devices of a send's path, both ends included."""
        paths, source, target = self._paths_of(self._column[self._chunk[send]]), self._source[send], self._target[send]
        path = [source, target] if paths.edges(source, target) else paths.path(source, target)
        if path is None:
            raise self._error("S0103", f"no path leads from {self._device(source)} to {self._device(target)}")
        return path

    def _paths_of(self, column: int) -> LexicographicPaths:
        """The shortest paths of chunks of one size, a column of the clock."""
        if column not in self._shortest:
            length = np.maximum(1, self._clock.total[self._clock.kind, column])
            self._shortest[column] = LexicographicPaths(Digraph.of(self._network), length)
        return self._shortest[column]

    def _queue_sends_without_step(self) -> None:
        """Starts the sends without a step that can start at 0, and notes what the others wait for."""
        copies: dict[_ChunkAt, list[int]] = {}
        reduces: dict[_ChunkAt, list[int]] = {}
        for k, chunk in enumerate(self._chunk):
            into = reduces if self._reduce[k] else copies
            into.setdefault((chunk, self._target[k]), []).append(k)
        for k, chunk in enumerate(self._chunk):
            here = (chunk, self._source[k])
            if self._step[k] >= 0:
                continue
            incoming = reduces.get(here, []) if self._reduced[k] else []
            after_copy = self._reduced[k] and here in copies and not self._reduce[k]
            if incoming and not after_copy:
                self._missing_reduces[k] = len(incoming)
                for reduce in incoming:
                    self._followers[reduce].append(k)
            elif here in self._held and not after_copy:
                self._schedule(0, _HOP, k)
            else:
                self._waiting.setdefault(here, []).append(k)

    def _start_step(self, time: int, position: int) -> None:
        for send in self._steps[self._order[position]]:
            self._check_held(send)
            self._schedule(time, _HOP, send)

    def _start_hop(self, time: int, send: int, hop: int) -> None:
        path = self._paths[send]
        if hop == 0:
            self.started[send] = time
        if len(path) == 1:
            self._schedule(time, _ARRIVE, send)
            return
        column = self._column[self._chunk[send]]
        link = self._link(time, path[hop], path[hop + 1], column)
        self._free_at[link] = max(self._free_at[link], time + self._busy[link][column])
        self._rows.append((self._chunk[send], link, time, self._reduce[send]))
        self._schedule(time + self._total[link][column], _ARRIVE, send, hop + 1)

    def _link(self, time: int, u: int, v: int, column: int) -> int:
        """The link that a send from u to its neighbour v takes."""
        links = self._paths_of(column).edges(u, v)
        free = next((link for link in links if self._free_at[link] <= time), None)
        if free is not None:
            return free
        turn = self._turn.get((time, u, v), 0)
        self._turn[time, u, v] = turn + 1
        return links[turn % len(links)]

    def _arrive(self, time: int, send: int, hop: int) -> None:
        path = self._paths[send]
        here = (self._chunk[send], path[hop])
        last = hop + 1 >= len(path)
        if not last:
            self._schedule(time, _HOP, send, hop)
            if self._forwarding:
                return
        if not self._reduce[send]:
            for waiting in self._waiting.pop(here, ()):
                self._schedule(time, _HOP, waiting)
        if last or not self._reduce[send]:
            self._held.add(here)
        if last:
            self._finish(time, send)

    def _finish(self, time: int, send: int) -> None:
        """The chunk of a send is at its target."""
        self.ended[send] = time
        for waiting in self._followers[send]:
            self._missing_reduces[waiting] -= 1
            if self._missing_reduces[waiting] == 0:
                self._schedule(time, _HOP, waiting)
        if self._step[send] < 0:
            return
        position = bisect_left(self._order, self._step[send])
        self._left_in_step[position] -= 1
        if self._left_in_step[position] == 0 and position + 1 < len(self._order):
            self._schedule(time, _STEP, position + 1)

    def _check_held(self, send: int) -> None:
        """Raises SourceError if the source of a send does not hold the chunk when its step starts."""
        here = (self._chunk[send], self._source[send])
        if here in self._held:
            return
        source, chunk = self._device(self._source[send]), self._name(send)
        what = f"{source} sends chunk {chunk} at step {self._step[send]}"
        if here not in zip(self._chunk, self._target, strict=True):
            raise self._error("S0101", f"{what}, but never holds it")
        raise self._error(
            "S0102",
            f"{what}, but does not hold it yet when that step starts",
            "a statement without 'at' starts as soon as its chunk has arrived",
        )

    def _check_all_started(self) -> None:
        for k in range(len(self._chunk)):
            if self.started[k] >= 0:
                continue
            source, chunk = self._device(self._source[k]), self._name(k)
            if self._missing_reduces[k] == 0:
                raise self._error("S0101", f"{source} sends chunk {chunk}, but can never hold it")
            raise self._error(
                "S0104",
                f"the sends of chunk {chunk} into and out of {source} wait for one another",
                "give them an order with 'at'",
            )

    def _check_passed(self) -> None:
        """Raises SourceError if a reduction passes an NPU with a contribution, or two reductions meet."""
        table = self._demand.chunks
        arriving = Counter(here for k in range(len(self._paths)) if self._reduce[k] for here in self._npus_between(k))
        arriving.update((self._chunk[k], self._target[k]) for k in range(len(self._paths)) if self._reduce[k])
        for send in range(len(self._paths)):
            for chunk, npu in self._npus_between(send) if self._reduce[send] else ():
                own = npu in table.sets[int(table.pre[chunk])]
                if own or arriving[chunk, npu] > 1:
                    source, target, passed = (self._device(d) for d in (self._source[send], self._target[send], npu))
                    why = "which has a contribution of its own" if own else "at which another contribution arrives"
                    raise self._error(
                        "S0106",
                        f"the reduction of chunk {self._name(send)} from {source} to {target} passes {passed}, {why}",
                        f"no link joins the two; reduce hop by hop, first into {passed} and then on to the target, or "
                        "write 'allow congestion', so that NPUs forward messages",
                    )

    def _npus_between(self, send: int) -> list[_ChunkAt]:
        """The NPUs between the ends of a send's path, with its chunk."""
        return [(self._chunk[send], d) for d in self._paths[send][1:-1] if not self._network.is_switch(d)]

    def _device(self, device: int) -> str:
        return self._network.shown_name(device)

    def _name(self, send: int) -> str:
        return self._demand.chunk_name(self._chunk[send])

    def _error(self, code: str, message: str, hint: str = "") -> SourceError:
        note = Note(f"in the algorithm of run {self._run}, {self._demand.runs[self._run].collective}")
        return SourceError(Diagnostic(code, message, self._span, (note,), hint))
