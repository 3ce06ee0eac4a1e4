"""Schedules with few steps of both phases of an All-Reduce at once, by Z3.

Two phases with the fewest steps each (`exact`) can have more steps together than necessary, since links that are idle
in one phase can be used by the other. Here an NPU holds one partial of each chunk, adds to it what arrives, and sends
it any number of times; two NPUs may send each other their partials in the same step. An NPU may also relay what arrived
over a link in the step before, without its own partial. No contribution may arrive at an NPU whose partial has it
already. Complete sums, and chunks without a reduction, are copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from time import monotonic
from typing import NamedTuple

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph
from collc.graph.distances import hop_counts
from collc.smt.problem import edges_of
from collc.smt.script import Script, Stopped, Undecided, all_of, any_of
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact.synthesizer import find_model, time_limit_of
from collc.synthesis.reductions.compose import join
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers


def exact_sums(module: Module, effort: Effort, most: int) -> Schedule:
    """The schedule of the fewest steps that Z3 finds within the time limit, at most `most`.

    The module must have direct links, transfers that all take equal time, and the link model `store`. Raises
    NoSchedule if Z3 finds none, or shows that none exists.
    """
    end, clock = monotonic() + time_limit_of(effort), Clock.of(module.network, module.demand, LinkModel.STORE)
    step = int(clock.total[int(module.network.kind[0]), 0])
    steps = max(1, -(-lower_bound(module.network, module.demand, module.model).time // step))
    none = "there is none" + (" in which NPUs relay partials in the step after they came" if steps <= most else "")
    while steps <= most:
        effort.progress(0.0, f"exact: looking for {steps} steps, both phases at once")
        try:
            question = SumEncoding(module, steps, effort.stop)
            true = find_model(question.text(), effort, end)
        except Undecided:
            none = "it is not known whether one exists"
            break
        if true is not None:
            rows = question.transfers(true)
            return RowSchedule(LinkModel.STORE, replace(rows, start=rows.start * step))
        steps += 1
    raise NoSchedule(Diagnostic("S0201", f"no schedule of {most} steps was found: {none}"))


def shorten_both_phases(module: Module, effort: Effort) -> Module:
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


class _PossibleSend(NamedTuple):
    """A transfer that a schedule may contain. reduce: it carries a partial. relays: by edge, the constant that is true
    if it relays what came there in the step before.
    """

    step: int
    edge: int
    chunk: int
    reduce: bool
    relays: tuple[tuple[int, str], ...] = ()


class SumEncoding:
    """The question for `steps` steps. The constants for chunk k:

    u_k_e_t, edge e carries a partial in step t; y_k_e_f_t, and that is what edge f brought in the step before;
    d_k_e_t, edge e carries the complete sum. Defined from these: h_k_v_i_t, NPU v holds contribution i after t steps;
    q_k_e_i_t, edge e brings contribution i as part of a partial.
    """

    def __init__(self, module: Module, steps: int, stop: Callable[[], bool]) -> None:
        """Raises Stopped if `stop`, which is called before each chunk, returns True."""
        self._steps = steps
        self._edges = edges_of(module.network)
        self._hops = hop_counts(Digraph.of(module.network)).tolist()
        self._into: dict[int, list[int]] = defaultdict(list)
        for number, edge in enumerate(self._edges):
            self._into[edge.target].append(number)
        self._script = Script("QF_UF", f"sums with swapped and relayed partials in {steps} steps")
        self._possible: dict[str, _PossibleSend] = {}
        self._used: dict[tuple[int, int], list[str]] = defaultdict(list)
        table = module.demand.chunks
        for k in range(len(table)):
            if stop():
                raise Stopped
            pre: list[int] = table.sets[int(table.pre[k])].tolist()
            post: list[int] = table.sets[int(table.post[k])].tolist()
            reduced = bool(table.op[k] != Op.COPY) and len(pre) > 1
            self._add_chunk(k, [[npu] for npu in pre] if reduced else [pre], post)
        for (edge, _), together in self._used.items():
            self._script.at_most(len(self._edges[edge].links), together)

    def text(self) -> str:
        """The question in SMT-LIB."""
        return self._script.text()

    def _add_chunk(self, k: int, holders: list[list[int]], post: list[int]) -> None:
        """A chunk; holders: of each contribution."""
        devices = range(len(self._hops))
        held = {v: ["true" if v in npus else "false" for npus in holders] for v in devices}
        brought: dict[int, list[str]] = {}
        for t in range(self._steps):
            if len(holders) > 1:
                brought = self._declare_partials(k, t, holders, held, brought)
            copied = self._declare_copies(k, t, held)
            held = {v: self._held_after(f"h_{k}_{v}", v, t, held[v], brought, copied) for v in devices}
        self._script.require(all_of(term for v in post for term in held[v]))

    def _declare_partials(
        self, k: int, t: int, holders: list[list[int]], held: dict[int, list[str]], before: dict[int, list[str]]
    ) -> dict[int, list[str]]:
        """For each edge that can carry a partial in a step, the terms that it brings each contribution."""
        script, terms_of = self._script, dict[int, list[str]]()
        for e, edge in enumerate(self._edges):
            if all(term == "false" for term in held[edge.source]):
                continue
            name = script.declare(f"u_{k}_{e}_{t}")
            relays = [
                (f, script.declare(f"y_{k}_{e}_{f}_{t}"))
                for f in self._into[edge.source]
                if f in before and self._edges[f].source != edge.target
            ]
            own = f"(not {any_of(y for _, y in relays)})" if relays else "true"
            script.at_most(1, [y for _, y in relays])
            terms: list[str] = []
            for i, term in enumerate(held[edge.source]):
                parts = [all_of(x for x in (own, term) if x != "true") if term != "false" else "false"]
                parts += [f"(and {y} {before[f][i]})" for f, y in relays if before[f][i] != "false"]
                some = any_of(formula for formula in parts if formula != "false")
                here = some != "false" and edge.target not in holders[i]
                terms.append(script.define(f"q_{k}_{e}_{i}_{t}", "Bool", f"(and {name} {some})") if here else "false")
                if some != "false" and not here:
                    script.require(f"(not (and {name} {some}))")
            script.require(f"(=> {name} {any_of(term for term in terms if term != 'false')})")
            self._note(name, _PossibleSend(t, e, k, True, tuple(relays)))
            terms_of[e] = terms
        return terms_of

    def _declare_copies(self, k: int, t: int, held: dict[int, list[str]]) -> dict[int, str]:
        """For each edge that can carry the complete sum in a step, its constant."""
        sends: dict[int, str] = {}
        for e, edge in enumerate(self._edges):
            if "false" not in held[edge.source]:
                name = sends[e] = self._script.declare(f"d_{k}_{e}_{t}")
                self._script.require(f"(=> {name} {all_of(held[edge.source])})")
                self._note(name, _PossibleSend(t, e, k, False))
        return sends

    def _note(self, name: str, possible: _PossibleSend) -> None:
        self._possible[name] = possible
        self._used[possible.edge, possible.step].append(name)

    def _held_after(
        self,
        name: str,
        v: int,
        t: int,
        before: list[str],
        brought: dict[int, list[str]],
        copied: dict[int, str],
    ) -> list[str]:
        """What an NPU holds after a step: what it held, what was added to it once, or the complete sum.

        name: prefix of the constants.
        """
        copies = [copied[e] for e in self._into[v] if e in copied]
        result: list[str] = []
        for i, had in enumerate(before):
            added = [brought[e][i] for e in self._into[v] if e in brought and brought[e][i] != "false"]
            apart = [*combinations([*added, *([had] if had != "false" else [])], 2), *product(added, copies)]
            for term, other in apart:
                self._script.require(f"(not (and {term} {other}))")
            terms = [*([had] if had != "false" else []), *added, *copies]
            if had == "true" or not terms:
                result.append(had)
            else:
                result.append(self._script.define(f"{name}_{i}_{t + 1}", "Bool", any_of(terms)))
        return result

    def transfers(self, true: frozenset[str]) -> Transfers:
        """The transfers of a model. Start times are numbers of steps."""
        used: dict[tuple[int, int], int] = defaultdict(int)
        link_of: dict[tuple[int, int, int], int] = {}
        rows: list[tuple[int, int, int, int, int]] = []
        for name in sorted(true & self._possible.keys(), key=lambda name: self._possible[name]):
            t, edge, chunk, reduce, relays = self._possible[name]
            link = self._edges[edge].links[used[t, edge]]
            used[t, edge] += 1
            link_of[chunk, edge, t] = link
            relayed = next((link_of[chunk, f, t - 1] for f, y in relays if y in true), -1)
            rows.append((chunk, link, t, reduce, relayed))
        table = np.array(rows, np.int64).reshape(-1, 5)
        chunks, links, relayed = (table[:, column].astype(np.int32) for column in (0, 1, 4))
        return Transfers.of(chunks, links, table[:, 2], table[:, 3].astype(np.bool_), relayed)
