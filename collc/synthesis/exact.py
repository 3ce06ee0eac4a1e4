"""Least steps by SMT (Cai et al., "Synthesizing Optimal Collective Algorithms", SCCL), for small cases.

For every number of steps from the lower bound on, Z3 is asked for a schedule; the first that exists is
optimal, since all smaller numbers were refuted.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np

from collc.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, alike, conditions_of
from collc.synthesis.routing import distances
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import RowSchedule, Schedule, Transfers

SECONDS = 60.0
"""How long a search takes at most where nothing else is said."""

SLICE_MS = 500
"""How long Z3 works before it is asked whether to stop, at first; it doubles."""


def exact(
    task: Task, effort: Effort, timeout: float | None = None, most: int | None = None, work: int | None = None
) -> Schedule:
    """A schedule of as few steps as possible, proved.

    timeout: seconds for the whole search; None: the time limit of the effort, or a minute. most: steps that it
    may have. work: what Z3 may spend on each number of steps, in its own unit, which is the same on every machine (a
    million takes about a second); None for no limit. Raises SourceError where links or chunks differ, links or
    chunks are planned already, or the network
    has switches; NoSchedule where the time is over, or where more than `most` steps are needed.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    _need_steps(conditions)
    step = int(conditions.clock.total.max())
    hops = distances(
        task.network, np.ones(task.network.link_count, np.int64), np.arange(task.network.device_count, dtype=np.int32)
    )
    conditions.far(hops[conditions.targets])
    seconds = timeout if timeout is not None else SECONDS if effort.time_limit is None else effort.time_limit
    end = monotonic() + seconds
    steps = max(1, -(-task_bound(task).time // step))
    while most is None or steps <= most:
        effort.progress(0.0, f"exact: looking for {steps} steps")
        question = _Encoding(conditions, hops.tolist(), steps, effort)
        answer = question.ask(end, work)
        if answer:
            rows = question.transfers()
            return RowSchedule(task.model, replace(rows, start=rows.start * step))
        if answer is None:
            within = f"within {seconds:g} s" if monotonic() >= end else "before it was stopped"
            message = f"no schedule was found {within}; there is none of fewer than {steps} steps"
            raise NoSchedule(Diagnostic("S0201", message, hint="give it more time, or use another way of synthesis"))
        steps += 1
    raise NoSchedule(Diagnostic("S0201", f"there is no schedule of {most} steps: it takes {steps} at least"))


def _need_steps(conditions: Conditions) -> None:
    task = conditions.task
    network = task.network
    reason = ""
    if not alike(conditions):
        reason = "links and chunks that all take equal time, with link model 'store'"
    elif bool((network.target >= network.npu_count).any()):
        reason = "direct links; unwind the switches"
    elif conditions.release.any() or (task.reserved is not None and len(task.reserved)):
        reason = "all links and chunks free from the start"
    if reason:
        raise SourceError(Diagnostic("S0304", f"exact search needs {reason}", hint="use auto, tacos or pccl instead"))


class _Encoding:
    """The question whether a schedule of so many steps exists, for Z3.

    The unknowns: has[k, v, t], row k's chunk is at v after t steps; sends[k, l, t], it enters link l in step t.
    """

    def __init__(self, conditions: Conditions, hops: list[list[int]], steps: int, effort: Effort) -> None:
        # Z3 has no types to check.
        self._z3: Any = importlib.import_module("z3")
        network = conditions.task.network
        sources: list[int] = network.source.tolist()
        targets: list[int] = network.target.tolist()
        self._links = list(zip(sources, targets, strict=True))
        self._conditions, self._hops, self._steps, self._effort = conditions, hops, steps, effort
        self._sends: dict[tuple[int, int, int], Any] = {}
        self._rows: list[tuple[list[int], list[int]]] = [
            (conditions.row(k)[0].tolist(), conditions.row(k)[1].tolist()) for k in range(len(conditions))
        ]
        self.solver: Any = self._z3.SolverFor("QF_FD")
        for k in range(len(self._rows)):
            if effort.stop():
                return  # `ask` asks for nothing then, either
            self._spread(k)
        for t in range(steps):
            for link in range(len(self._links)):
                together = [s for k in range(len(self._rows)) if (s := self._sends.get((k, link, t))) is not None]
                if len(together) > 1:
                    self.solver.add(self._z3.AtMost(*together, 1))

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
            for link, (u, v) in enumerate(self._links):
                if v not in holders and first[u] <= t < last[v]:
                    name = self._sends[k, link, t] = z3.Bool(f"s{k}_{link}_{t}")
                    self.solver.add(z3.Implies(name, has[u, t]))
                    into.setdefault(v, []).append(name)
            for v in devices:
                if v not in holders and first[v] <= t + 1:
                    self.solver.add(z3.Implies(has[v, t + 1], z3.Or(has[v, t], *into.get(v, []))))
        self.solver.add(*(has[w, self._steps] for w in wanting))

    def ask(self, end: float, work: int | None) -> bool | None:
        """Whether a schedule exists; None where the time or the work is over, `effort.stop` says so, or on Ctrl-C.

        Z3 takes the signal itself while it works, so that nobody waits for the end of a slice.
        """
        slice_ms = SLICE_MS
        if work is not None:
            self.solver.set("rlimit", work)
        while (left := end - monotonic()) > 0 and not self._effort.stop():
            self.solver.set("timeout", max(1, min(slice_ms, int(left * 1000))))
            self.solver.set("random_seed", self._effort.seed)
            answer = self.solver.check()
            if answer != self._z3.unknown:
                return answer == self._z3.sat
            reason: str = self.solver.reason_unknown()
            if "interrupted" in reason or (work is not None and "timeout" not in reason):
                return None
            slice_ms *= 2
        return None

    def transfers(self) -> Transfers:
        """What Z3 found, without sends that nobody needs; starts count in steps."""
        model = self.solver.model()
        came: dict[tuple[int, int], tuple[int, int]] = {}
        for (k, link, t), name in sorted(self._sends.items(), key=lambda item: item[0][::-1]):
            if self._z3.is_true(model.eval(name)):
                came.setdefault((k, self._links[link][1]), (link, t))
        needed: set[tuple[int, int, int]] = set()
        for k, (holders, wanting) in enumerate(self._rows):
            for target in wanting:
                v = target
                while v not in holders:
                    link, t = came[k, v]
                    needed.add((int(self._conditions.chunk[k]), link, t))
                    v = self._links[link][0]
        rows = np.array(sorted(needed), np.int64).reshape(-1, 3)
        return Transfers.of(rows[:, 0].astype(np.int32), rows[:, 1].astype(np.int32), rows[:, 2])
