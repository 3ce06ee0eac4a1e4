"""Fewer steps for reductions whose results spread (All-Reduce), by SMT: both phases at once.

Each chunk is reduced along a tree to an NPU of Z3's choice, and copied from there. An NPU sends its part once, when all
that it will get has come; the root has the sum when all others have sent. Each phase by itself can be as short as
possible (see `exact`) without the whole being so, since links that are idle in one phase can serve the other.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact.encoding import ask, edges_of
from collc.synthesis.exact.synthesizer import allowed
from collc.synthesis.reductions.compose import join
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers


def exact_sums(module: Module, effort: Effort, most: int, work: int | None = None) -> Schedule:
    """A schedule of at most `most` steps, and of as few as can be found.

    The module has direct links and chunks that all take equal time, under the link model that stores. work: see
    `exact`. Raises NoSchedule where Z3 finds none, or shows that there is none with trees.
    """
    end = monotonic() + allowed(effort)
    clock = Clock.of(module.network, module.demand, LinkModel.STORE)
    step = int(clock.total[int(module.network.kind[0]), 0])
    best: tuple[int, Transfers] | None = None
    least = max(1, -(-lower_bound(module.network, module.demand, module.model).time // step))
    answer: bool | None = most >= least
    while answer and most >= least:
        effort.progress(0.0, f"exact: looking for {most} steps, both phases at once")
        question = _Sums(module, most, effort)
        answer = ask(question.solver, effort, end, work)
        if answer:
            found = question.transfers(step)
            best = (found[0], found[1])
            most = found[0] - 1
    if best is None:
        none = "there is none along trees" if answer is False else "it is not known whether there is one"
        raise NoSchedule(Diagnostic("S0201", f"no schedule of {most} steps was found: {none}"))
    return RowSchedule(LinkModel.STORE, best[1])


def shortened(module: Module, effort: Effort) -> Module:
    """A module whose two phases are solved, with one shorter schedule of both, or as it is; notes tell which."""
    whole = join(module)
    assert whole.schedule is not None
    time = whole.schedule.collective_time(module.network, module.demand)
    step = int(Clock.of(module.network, module.demand, module.model).total.max())
    try:
        schedule = exact_sums(module, effort, time // step - 1)
    except NoSchedule as error:
        return replace(module, notes=(*module.notes, f"exact: {error.diagnostics[0].message}"))
    better = schedule.collective_time(module.network, module.demand) // step
    note = f"exact: both phases at once take {better} steps, one after the other {time // step}"
    return replace(module, schedule=schedule, phases=(), notes=(*module.notes, note))


class _Sums:
    """The question whether so many steps are enough.

    The unknowns, for chunk k: root[k, v]; up[k, e, t] and down[k, e, t], a part or the whole goes over edge e in
    step t; sent[k, v, t] and whole[k, v, t], v has sent its part, or has the whole, after t steps.
    """

    def __init__(self, module: Module, steps: int, effort: Effort) -> None:
        # Z3 has no types to check.
        self._z3: Any = importlib.import_module("z3")
        self._steps, self._devices = steps, range(module.network.device_count)
        self._edges = edges_of(module.network)
        self._ends = list(self._edges)
        self._sends: dict[tuple[int, int, int, bool], Any] = {}
        self.solver: Any = self._z3.SolverFor("QF_FD")
        table = module.demand.chunks
        self._used: dict[tuple[int, int], list[Any]] = {}
        self._rows: list[tuple[dict[int, Any], list[int]]] = []
        for k in range(len(table)):
            if effort.stop():
                return  # `ask` asks for nothing then, either
            pre: list[int] = table.sets[int(table.pre[k])].tolist()
            post: list[int] = table.sets[int(table.post[k])].tolist()
            reduced = table.op[k] != Op.COPY and len(pre) > 1 and bool(post)
            self._chunk(k, pre, post, reduced)
        for (edge, _), together in self._used.items():
            self.solver.add(self._z3.AtMost(*together, len(self._edges[self._ends[edge]])))

    def _row(self, name: str) -> list[Any]:
        """An unknown for after each number of steps; nothing is so before the first."""
        return [self._z3.BoolVal(False), *(self._z3.Bool(f"{name}_{t}") for t in range(1, self._steps + 1))]

    def _send(self, k: int, edge: int, t: int, up: bool) -> Any:  # noqa: ANN401
        name = self._z3.Bool(f"{'u' if up else 'd'}{k}_{edge}_{t}")
        self._sends[k, edge, t, up] = name
        self._used.setdefault((edge, t), []).append(name)
        return name

    def _chunk(self, k: int, pre: list[int], post: list[int], reduced: bool) -> None:
        z3, add = self._z3, self.solver.add
        root = {v: z3.Bool(f"r{k}_{v}") if reduced else z3.BoolVal(v in pre) for v in self._devices}
        self._rows.append((root, post))
        whole = {v: self._row(f"w{k}_{v}") for v in self._devices}
        if reduced:
            add(z3.PbEq([(unknown, 1) for unknown in root.values()], 1))
            self._gather(k, pre, root, whole)
        else:
            whole |= {v: [z3.BoolVal(True)] * (self._steps + 1) for v in pre}
        self._spread(k, root, whole, reduced)
        add(*(whole[v][self._steps] for v in post))

    def _gather(self, k: int, pre: list[int], root: dict[int, Any], whole: dict[int, list[Any]]) -> None:
        """Parts go up; the root has the whole when all who had or got a part have sent theirs."""
        z3, add = self._z3, self.solver.add
        sent = {v: self._row(f"s{k}_{v}") for v in self._devices}
        out: dict[int, list[Any]] = {v: [] for v in self._devices}
        into: dict[int, list[Any]] = {v: [] for v in self._devices}
        for t in range(self._steps):
            now: dict[int, list[Any]] = {v: [] for v in self._devices}
            for edge, (u, v) in enumerate(self._ends):
                send = self._send(k, edge, t, up=True)
                now[u].append(send)
                out[u].append(send)
                into[v].append(send)
                add(z3.Implies(send, z3.And(z3.Not(root[u]), sent[u][t + 1], z3.Not(sent[v][t + 1]))))
            for v in self._devices:
                add(z3.Implies(sent[v][t + 1], z3.Or(sent[v][t], *now[v])), z3.Implies(sent[v][t], sent[v][t + 1]))
        for v in self._devices:
            add(z3.AtMost(*out[v], 1) if out[v] else z3.BoolVal(True))
            if v not in pre:  # it passes on only what it got
                add(*(z3.Implies(send, z3.Or(*into[v])) for send in out[v]))
            part = z3.BoolVal(True) if v in pre else z3.Or(*into[v])
            for other in self._devices:
                if other != v:
                    for t in range(1, self._steps + 1):
                        add(z3.Implies(z3.And(root[other], whole[other][t], part), sent[v][t]))

    def _spread(self, k: int, root: dict[int, Any], whole: dict[int, list[Any]], reduced: bool) -> None:
        """The whole goes down."""
        z3, add = self._z3, self.solver.add
        for t in range(self._steps):
            into: dict[int, list[Any]] = {v: [] for v in self._devices}
            for edge, (u, v) in enumerate(self._ends):
                send = self._send(k, edge, t, up=False)
                add(z3.Implies(send, whole[u][t]))
                into[v].append(send)
            for v in self._devices:
                start = [root[v]] if reduced else []
                add(z3.Implies(whole[v][t + 1], z3.Or(whole[v][t], *into[v], *start)))

    def transfers(self, step: int) -> tuple[int, Transfers]:
        """(steps, what Z3 found), without copies that nobody needs. step: picoseconds."""
        model = self.solver.model()
        chosen = sorted((t, e, k, up) for (k, e, t, up), x in self._sends.items() if self._z3.is_true(model.eval(x)))
        needed = {(t, edge, k, True) for t, edge, k, up in chosen if up}
        came: dict[tuple[int, int], tuple[int, int]] = {}
        for t, edge, k, up in chosen:
            if not up:
                came.setdefault((k, self._ends[edge][1]), (t, edge))
        for k, (root, post) in enumerate(self._rows):
            for target in post:
                v = target
                while not self._z3.is_true(model.eval(root[v])):
                    t, edge = came[k, v]
                    needed.add((t, edge, k, False))
                    v = self._ends[edge][0]
        lanes: dict[tuple[int, int], int] = {}
        rows: list[tuple[int, int, int, bool]] = []
        for t, edge, k, up in sorted(needed):
            lane = lanes[t, edge] = lanes.get((t, edge), -1) + 1
            rows.append((k, self._edges[self._ends[edge]][lane], t, up))
        table = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
        flags = np.array([row[3] for row in rows], np.bool_)
        chunk, link = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
        return int(table[:, 2].max(initial=0)) + 1, Transfers.of(chunk, link, table[:, 2] * step, flags)
