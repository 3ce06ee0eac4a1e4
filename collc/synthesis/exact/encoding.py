"""The question whether a schedule of so many steps and rounds exists, for Z3 (SCCL, PPoPP 2021, section 3)."""

from __future__ import annotations

import importlib
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.synthesis.task import Effort
from collc.ten.network import Network
from collc.ten.schedule import Transfers

SLICE_MS = 500
"""How long Z3 works before it is asked whether to stop, at first; it doubles."""


class Encoding:
    """A schedule of so many steps, each of one round or more: chunks that a link carries in it one after another.

    What arrives in a step is passed on in later ones only. The unknowns: has[k, v, t], row k's chunk is at v after t
    steps; sends[k, e, t], it goes over edge e, the parallel links from one device to another, in step t; and for each
    step how many rounds more than one it has.
    """

    def __init__(
        self, conditions: Conditions, hops: list[list[int]], steps: int, effort: Effort, rounds: int | None = None
    ) -> None:
        # Z3 has no types to check.
        self._z3: Any = importlib.import_module("z3")
        self._conditions, self._hops, self._steps, self._effort = conditions, hops, steps, effort
        self._edges = edges_of(conditions.task.network)
        self._ends = list(self._edges)
        self._sends: dict[tuple[int, int, int], Any] = {}
        self._rows: list[tuple[list[int], list[int]]] = [
            (conditions.row(k)[0].tolist(), conditions.row(k)[1].tolist()) for k in range(len(conditions))
        ]
        self.solver: Any = self._z3.SolverFor("QF_FD")
        for k in range(len(self._rows)):
            if effort.stop():
                return  # `ask` asks for nothing then, either
            self._spread(k)
        more = self._more_rounds(0 if rounds is None else rounds - steps)
        for t in range(steps):
            for edge, links in enumerate(self._edges.values()):
                together = [s for k in range(len(self._rows)) if (s := self._sends.get((k, edge, t))) is not None]
                self._limit(together, len(links), more[t])

    def _more_rounds(self, extra: int) -> list[list[Any]]:
        """For each step the unknowns whether it has 2, 3, ... rounds; all steps together have so many extra ones."""
        z3 = self._z3
        more = [[z3.Bool(f"r{t}_{j}") for j in range(extra)] for t in range(self._steps)]
        for row in more:
            self.solver.add(*(z3.Implies(later, sooner) for sooner, later in pairwise(row)))
        if extra:
            self.solver.add(z3.AtMost(*(unknown for row in more for unknown in row), extra))
        return more

    def _limit(self, sends: list[Any], links: int, more: list[Any]) -> None:
        """At most one chunk a link and round."""
        z3 = self._z3
        if len(sends) <= links:
            return
        if not more:
            self.solver.add(z3.AtMost(*sends, links))
            return
        missing = [(z3.Not(unknown), links) for unknown in more]
        self.solver.add(z3.PbLe([*((send, 1) for send in sends), *missing], links * (1 + len(more))))

    def _spread(self, k: int) -> None:
        """A chunk is where it was or where it was sent, and in the end where it is wanted."""
        z3, hops = self._z3, self._hops
        holders, wanting = self._rows[k]
        devices = range(len(hops))
        first = [min(hops[v][h] for h in holders) for v in devices]
        last = [self._steps - min(hops[w][v] for w in wanting) for v in devices]
        has: dict[tuple[int, int], Any] = {
            (v, t): z3.BoolVal(True)
            if v in holders
            else z3.Bool(f"h{k}_{v}_{t}")
            if first[v] <= t
            else z3.BoolVal(False)
            for v in devices
            for t in range(self._steps + 1)
        }
        for t in range(self._steps):
            into: dict[int, list[Any]] = {}
            for edge, (u, v) in enumerate(self._ends):
                if v not in holders and first[u] <= t < last[v]:
                    name = self._sends[k, edge, t] = z3.Bool(f"s{k}_{edge}_{t}")
                    self.solver.add(z3.Implies(name, has[u, t]))
                    into.setdefault(v, []).append(name)
            for v in devices:
                if v not in holders and first[v] <= t + 1:
                    self.solver.add(z3.Implies(has[v, t + 1], z3.Or(has[v, t], *into.get(v, []))))
        self.solver.add(*(has[w, self._steps] for w in wanting))

    def ask(self, end: float, work: int | None) -> bool | None:
        """See `ask`."""
        return ask(self.solver, self._effort, end, work)

    def transfers(self) -> Transfers:
        """What Z3 found for steps of one round, without sends that nobody needs; starts count in steps."""
        model = self.solver.model()
        came: dict[tuple[int, int], tuple[int, int]] = {}
        for (k, edge, t), name in sorted(self._sends.items(), key=lambda item: item[0][::-1]):
            if self._z3.is_true(model.eval(name)):
                came.setdefault((k, self._ends[edge][1]), (edge, t))
        needed: set[tuple[int, int, int]] = set()
        for k, (holders, wanting) in enumerate(self._rows):
            for target in wanting:
                v = target
                while v not in holders:
                    edge, t = came[k, v]
                    needed.add((t, edge, int(self._conditions.chunk[k])))
                    v = self._ends[edge][0]
        lanes: dict[tuple[int, int], int] = {}
        rows: list[tuple[int, int, int]] = []
        for t, edge, chunk in sorted(needed):
            lane = lanes[t, edge] = lanes.get((t, edge), -1) + 1
            rows.append((chunk, self._edges[self._ends[edge]][lane], t))
        table = np.array(rows, np.int64).reshape(-1, 3)
        return Transfers.of(table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), table[:, 2])


def ask(solver: Any, effort: Effort, end: float, work: int | None) -> bool | None:  # noqa: ANN401
    """Whether a schedule exists; None where the time or the work is over, `effort.stop` says so, or on Ctrl-C.

    end: by the monotonic clock. Z3 takes the signal itself while it works, so that nobody waits for the end of a slice.
    """
    z3: Any = importlib.import_module("z3")
    slice_ms = SLICE_MS
    if work is not None:
        solver.set("rlimit", work)
    while (left := end - monotonic()) > 0 and not effort.stop():
        solver.set("timeout", max(1, min(slice_ms, int(left * 1000))))
        solver.set("random_seed", effort.seed)
        answer = solver.check()
        if answer != z3.unknown:
            return answer == z3.sat
        reason: str = solver.reason_unknown()
        if "interrupted" in reason or (work is not None and "timeout" not in reason):
            return None
        slice_ms *= 2
    return None


def edges_of(network: Network) -> dict[tuple[int, int], list[int]]:
    """The links from each device to each other."""
    found: dict[tuple[int, int], list[int]] = {}
    for link, ends in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        found.setdefault(ends, []).append(link)
    return found
