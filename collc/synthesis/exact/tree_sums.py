"""Schedules of both phases of an All-Reduce at once, with few steps, by Z3: with swapped partials, or along trees.

Each chunk is reduced along a tree to an NPU of Z3's choice, the root, and copied from there. An NPU sends its partial
once, after all partials that it receives have arrived. The root has the result when all others have sent. Two phases
with the fewest steps each (`exact`) can have more steps together than necessary, since links that are idle in one phase
can be used by the other. NPUs may also swap partials (`swapped_sums`), which takes fewer steps but more search.
docs/architecture.md (Decisions) says why the formulas of `collc.smt.reductions` are not used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.smt.problem import edges_of
from collc.smt.script import Script, Stopped, Undecided, all_of, any_of
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact.search import allowed, answer
from collc.synthesis.exact.swapped_sums import SwappedSumEncoding
from collc.synthesis.reductions.compose import join
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers


def exact_sums(module: Module, effort: Effort, most: int, work: int | None = None) -> Schedule:
    """A schedule of at most `most` steps, and of as few as Z3 finds within the time limit.

    The module must have direct links, transfers that all take equal time, and the link model `store`. work: Z3's
    resource limit for each number of steps (see SolverLimits). Raises NoSchedule if Z3 finds none, or shows that none
    exists.
    """
    began, clock = monotonic(), Clock.of(module.network, module.demand, LinkModel.STORE)
    step = int(clock.total[int(module.network.kind[0]), 0])
    least = max(1, -(-lower_bound(module.network, module.demand, module.model).time // step))
    proved = least > most
    swapped, least = _fewest_swapped(module, effort, (least, most), began + allowed(effort) / 2, work)
    best = swapped or _fewest_along_trees(module, effort, (least, most), began + allowed(effort), work)
    if best is None:
        relayed = "" if proved else " in which NPUs relay partials in the step after they came"
        none = f"there is none{relayed}" if least > most else "it is not known whether one exists"
        raise NoSchedule(Diagnostic("S0201", f"no schedule of {most} steps was found: {none}"))
    return RowSchedule(LinkModel.STORE, replace(best, start=best.start * step))


def _fewest_swapped(
    module: Module, effort: Effort, steps: tuple[int, int], end: float, work: int | None
) -> tuple[Transfers | None, int]:
    """(a schedule with the fewest steps from `steps[0]` to `steps[1]`, None if not found; the steps not refuted)."""
    least, most = steps
    while least <= most:
        effort.progress(0.0, f"exact: looking for {least} steps, both phases at once")
        try:
            question = SwappedSumEncoding(module, least, effort.stop)
            true = answer(question.text(), effort, end, work)
        except Undecided:
            break
        if true is not None:
            return question.transfers(true), least
        least += 1
    return None, least


def _fewest_along_trees(
    module: Module, effort: Effort, steps: tuple[int, int], end: float, work: int | None
) -> Transfers | None:
    """A schedule along trees of few steps, from `steps[1]` down to `steps[0]`."""
    best: Transfers | None = None
    least, most = steps
    while most >= least:
        effort.progress(0.0, f"exact: looking for {most} steps along trees, both phases at once")
        try:
            question = TreeSumEncoding(module, most, effort.stop)
            true = answer(question.text(), effort, end, work)
        except Undecided:
            break
        if true is None:
            break
        best = question.transfers(true)
        most = int(best.start.max(initial=0))
    return best


def shortened(module: Module, effort: Effort) -> Module:
    """A module with a shorter schedule of both phases at once, or unchanged if none is found; a note says which.

    The two phases of the module have schedules already.
    """
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


class TreeSumEncoding:
    """The question whether a schedule along trees of at most `steps` steps exists, in SMT-LIB.

    The constants for chunk k: r_k_v, device v is the root; u_k_e_t, edge e carries a partial in step t; d_k_e_t, it
    carries the result; s_k_v_t, device v has sent its partial within t steps; w_k_v_t, it has the result by then.
    """

    def __init__(self, module: Module, steps: int, stop: Callable[[], bool]) -> None:
        """Raises Stopped if `stop`, which is called before each chunk, returns True."""
        self._steps, self._devices = steps, range(module.network.device_count)
        self._edges = edges_of(module.network)
        self._sends: dict[str, tuple[int, int, int, bool]] = {}
        self._script = Script("QF_UF", f"sums along trees in {steps} steps")
        table = module.demand.chunks
        self._used: dict[tuple[int, int], list[str]] = defaultdict(list)
        self._chunks: list[tuple[dict[int, str], list[int]]] = []
        for k in range(len(table)):
            if stop():
                raise Stopped
            pre: list[int] = table.sets[int(table.pre[k])].tolist()
            post: list[int] = table.sets[int(table.post[k])].tolist()
            reduced = bool(table.op[k] != Op.COPY) and len(pre) > 1 and bool(post)
            self._add_chunk(k, pre, post, reduced)
        for (edge, _), together in self._used.items():
            self._script.at_most(len(self._edges[edge].links), together)

    def text(self) -> str:
        """The question in SMT-LIB."""
        return self._script.text()

    def _by_steps(self, name: str) -> list[str]:
        """The terms of a property after 0, 1, ... steps: false, then one constant for each."""
        return ["false", *(self._script.declare(f"{name}_{t}") for t in range(1, self._steps + 1))]

    def _send(self, k: int, edge: int, t: int, up: bool) -> str:
        """The constant that an edge carries a partial (up) or the result of chunk k in step t."""
        name = self._script.declare(f"{'u' if up else 'd'}_{k}_{edge}_{t}")
        self._sends[name] = (t, edge, k, up)
        self._used[edge, t].append(name)
        return name

    def _add_chunk(self, k: int, pre: list[int], post: list[int], reduced: bool) -> None:
        script = self._script
        if reduced:
            root = {v: script.declare(f"r_{k}_{v}") for v in self._devices}
        else:
            root = {v: "true" if v in pre else "false" for v in self._devices}
        self._chunks.append((root, post))
        whole = {v: self._by_steps(f"w_{k}_{v}") for v in self._devices}
        if reduced:
            script.require(any_of(root.values()))
            script.at_most(1, list(root.values()))
            self._add_parts(k, pre, root, whole)
        else:
            whole |= {v: ["true"] * (self._steps + 1) for v in pre}
        self._add_copies(k, root, whole, reduced)
        script.require(all_of(whole[v][self._steps] for v in post))

    def _add_parts(self, k: int, pre: list[int], root: dict[int, str], whole: dict[int, list[str]]) -> None:
        """Partials go to the root, which has the result when all NPUs with a partial have sent it."""
        require = self._script.require
        sent = {v: self._by_steps(f"s_{k}_{v}") for v in self._devices}
        out: dict[int, list[str]] = {v: [] for v in self._devices}
        into: dict[int, list[str]] = {v: [] for v in self._devices}
        for t in range(self._steps):
            now: dict[int, list[str]] = {v: [] for v in self._devices}
            for number, edge in enumerate(self._edges):
                u, v = edge.source, edge.target
                send = self._send(k, number, t, up=True)
                now[u].append(send)
                out[u].append(send)
                into[v].append(send)
                require(f"(=> {send} (and (not {root[u]}) {sent[u][t + 1]} (not {sent[v][t + 1]})))")
            for v in self._devices:
                require(f"(=> {sent[v][t + 1]} {any_of([sent[v][t], *now[v]])})")
                require(f"(=> {sent[v][t]} {sent[v][t + 1]})")
        for v in self._devices:
            self._script.at_most(1, out[v])
            received = any_of(into[v])
            if v not in pre:  # it sends on only what it received
                for send in out[v]:
                    require(f"(=> {send} {received})")
            part = "true" if v in pre else received
            for other in self._devices:
                if other != v:
                    for t in range(1, self._steps + 1):
                        require(f"(=> (and {root[other]} {whole[other][t]} {part}) {sent[v][t]})")

    def _add_copies(self, k: int, root: dict[int, str], whole: dict[int, list[str]], reduced: bool) -> None:
        """The result is copied from the root to all NPUs that must receive it."""
        require = self._script.require
        for t in range(self._steps):
            into: dict[int, list[str]] = {v: [] for v in self._devices}
            for number, edge in enumerate(self._edges):
                send = self._send(k, number, t, up=False)
                require(f"(=> {send} {whole[edge.source][t]})")
                into[edge.target].append(send)
            for v in self._devices:
                begins = [root[v]] if reduced else []
                require(f"(=> {whole[v][t + 1]} {any_of([whole[v][t], *into[v], *begins])})")

    def transfers(self, true: frozenset[str]) -> Transfers:
        """The transfers of a model, without copies that no NPU needs. Start times are numbers of steps."""
        chosen = sorted(self._sends[name] for name in true & self._sends.keys())
        needed = {send for send in chosen if send[3]}
        arrived: dict[tuple[int, int], tuple[int, int]] = {}
        for t, edge, k, up in chosen:
            if not up:
                arrived.setdefault((k, self._edges[edge].target), (t, edge))
        for k, (root, post) in enumerate(self._chunks):
            for target in post:
                v = target
                while root[v] != "true" and root[v] not in true:
                    t, edge = arrived[k, v]
                    needed.add((t, edge, k, False))
                    v = self._edges[edge].source
        used: dict[tuple[int, int], int] = defaultdict(int)
        rows: list[tuple[int, int, int, bool]] = []
        for t, edge, k, up in sorted(needed):
            rows.append((k, self._edges[edge].links[used[t, edge]], t, up))
            used[t, edge] += 1
        table = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3)
        flags = np.array([row[3] for row in rows], np.bool_)
        return Transfers.of(table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), table[:, 2], flags)
