"""Optimality of schedules in equal steps: no schedule with fewer steps exists (SCCL, PPoPP 2021, section 3).

For every step, edge and chunk a Boolean says whether the chunk is sent, and for every step, NPU and chunk one whether
it is held. A schedule of any times can be moved back to whole steps where all transfers take equal time, so that the
answer for steps is the answer for times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Literal

import numpy as np

from collc.ten.demand import ChunkTable, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Transfers
from collc.verification.schedule_check import verify_schedule
from collc.verification.smt import Certificate, Script, all_of, either, solve

MOST_VARIABLES: Final = 400_000
Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True)
class Optimality:
    """Whether a schedule is as short as can be.

    reason: in words. steps: of the schedule, None where there are none. shorter: with "refuted", the module with a
    verified shorter schedule. certificate: what the solver was asked, None where no solver was needed.
    """

    answer: Literal["proved", "refuted", "undecided"]
    reason: str
    steps: int | None = None
    shorter: Module | None = None
    certificate: Certificate | None = None
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class _Problem:
    """Copies in steps: edges (source, target, parallel links), and for each chunk who holds and who wants it.

    inverted: the module's chunks are reductions, and this is the problem turned round in time.
    """

    module: Module
    edges: tuple[tuple[int, int, tuple[int, ...]], ...]
    pre: tuple[frozenset[int], ...]
    post: tuple[frozenset[int], ...]
    step: int
    inverted: bool


def _edges(network: Network) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    found: dict[tuple[int, int], list[int]] = {}
    for link, ends in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        found.setdefault(ends, []).append(link)
    return tuple((*ends, tuple(links)) for ends, links in found.items())


def _sets(table: ChunkTable, column: list[int]) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(table.sets[number].tolist()) for number in column)


def _problem(module: Module) -> _Problem | str:
    """The problem in steps, or why there is none."""
    network, table = module.network, module.demand.chunks
    if module.model is not LinkModel.STORE:
        return "only the link model 'store' has steps"
    if len(np.unique(network.kind)) != 1 or len(np.unique(table.size)) != 1:
        return "links or chunks differ, so there are no steps"
    if (network.source >= network.npu_count).any() or (network.target >= network.npu_count).any():
        return "there are switches"
    step = int(Clock.of(network, module.demand, module.model).total[int(network.kind[0]), 0])
    if step <= 0:
        return "transfers take no time"
    pre, post = _sets(table, table.pre.tolist()), _sets(table, table.post.tolist())
    if (table.op == Op.COPY).all():
        return _Problem(module, _edges(network), pre, post, step, False)
    if (table.op == Op.COPY).any() or any(len(holders) != 1 for holders in post):
        return "the demand has reductions that are not for one NPU each"
    return _Problem(module, _edges(network.reversed()), post, pre, step, True)


def _distances(
    edges: tuple[tuple[int, int, tuple[int, ...]], ...], roots: frozenset[int], back: bool
) -> dict[int, int]:
    near: dict[int, list[int]] = {}
    for source, target, _ in edges:
        a, b = (target, source) if back else (source, target)
        near.setdefault(a, []).append(b)
    found = dict.fromkeys(sorted(roots), 0)
    line = sorted(roots)
    for device in line:
        for other in near.get(device, []):
            if other not in found:
                found[other] = found[device] + 1
                line.append(other)
    return found


class _Encoding:
    """The question whether `steps` steps are enough."""

    def __init__(self, problem: _Problem, steps: int) -> None:
        self.problem, self.steps = problem, steps
        words = f"{len(problem.pre)} chunks in {steps} steps: x_c_e_s: chunk c is sent over edge e in step s"
        self.script = Script("QF_UF", words, "h_c_n_s: NPU n holds chunk c when step s begins")
        self.sends: dict[str, tuple[int, int, int]] = {}
        self.loads: dict[tuple[int, int], list[str]] = {}

    def build(self) -> str | None:
        """The text, or None where it would be too large."""
        for chunk in range(len(self.problem.pre)):
            self._chunk(chunk)
            if len(self.sends) > MOST_VARIABLES:
                return None
        for (edge, _), names in self.loads.items():
            self.script.at_most(len(self.problem.edges[edge][2]), names)
        return self.script.text()

    def _chunk(self, chunk: int) -> None:
        problem, steps = self.problem, self.steps
        pre, post = problem.pre[chunk], problem.post[chunk]
        there = _distances(problem.edges, pre, back=False)
        left = _distances(problem.edges, post, back=True)
        never = steps + 1
        into: dict[tuple[int, int], list[str]] = {}
        for edge, (source, target, _) in enumerate(problem.edges):
            for step in range(there.get(source, never), steps - left.get(target, never)):
                if target in pre:
                    break
                name = self.script.declare(f"x_{chunk}_{edge}_{step}")
                self.sends[name] = (chunk, edge, step)
                self.loads.setdefault((edge, step), []).append(name)
                into.setdefault((target, step + 1), []).append(name)
        held = {npu: f"h_{chunk}_{npu}_" for npu in there if npu not in pre}
        for npu, name in held.items():
            for step in range(there[npu], steps + 1):
                self.script.declare(f"{name}{step}")
            for step in range(there[npu], steps + 1):
                before = [f"{name}{step - 1}"] if step > there[npu] else []
                self.script.holds(f"(=> {name}{step} {either([*before, *into.get((npu, step), [])])})")
        for names in into.values():
            for name in names:
                _, edge, step = self.sends[name]
                source = problem.edges[edge][0]
                if source in held:
                    self.script.holds(f"(=> {name} {held[source]}{step})")
        wanted = [f"{held[npu]}{steps}" if there.get(npu, never) <= steps else "false" for npu in sorted(post - pre)]
        self.script.holds(all_of(wanted))


def _transfers(problem: _Problem, encoding: _Encoding, true: frozenset[str]) -> Transfers:
    """The schedule of a model, without the transfers that nobody needs."""
    chosen = sorted((encoding.sends[name] for name in true if name in encoding.sends), key=lambda s: (s[2], s[0], s[1]))
    first: dict[tuple[int, int], tuple[int, int]] = {}
    for chunk, edge, step in chosen:
        first.setdefault((chunk, problem.edges[edge][1]), (edge, step))
    needed: set[tuple[int, int, int]] = set()
    for chunk, (pre, post) in enumerate(zip(problem.pre, problem.post, strict=True)):
        for npu in sorted(post - pre):
            at = npu
            while at not in pre:
                edge, step = first[chunk, at]
                needed.add((step, edge, chunk))
                at = problem.edges[edge][0]
    lanes: dict[tuple[int, int], int] = {}
    rows: list[tuple[int, int, int]] = []
    for step, edge, chunk in sorted(needed):
        lane = lanes.get((step, edge), 0)
        lanes[step, edge] = lane + 1
        rows.append((chunk, problem.edges[edge][2][lane], step))
    table = np.array(rows, np.int64).reshape(-1, 3)
    start = encoding.steps - 1 - table[:, 2] if problem.inverted else table[:, 2]
    return Transfers.of(
        table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), start * problem.step, problem.inverted
    )


def _ask(problem: _Problem, steps: int, timeout: float) -> tuple[Certificate | None, Module | None]:
    """Whether `steps` steps are enough: what the solver said, and the schedule if they are."""
    encoding = _Encoding(problem, steps)
    text = encoding.build()
    if text is None:
        return None, None
    certificate, true = solve(text, timeout, finite=True)
    if certificate.answer != "sat":
        return certificate, None
    schedule = RowSchedule(LinkModel.STORE, _transfers(problem, encoding, true))
    found = replace(problem.module.with_schedule(schedule, "z3"), seed=None, planned=None)
    return certificate, found if verify_schedule(found).ok else None


def find_schedule(module: Module, steps: int, timeout: float = 60.0) -> Module | None:
    """The module with a verified schedule of at most `steps` steps, or None where Z3 finds none in time.

    Raises ValueError where the module has no steps.
    """
    problem = _problem(module)
    if not isinstance(problem, _Problem):
        raise ValueError(problem)  # noqa: TRY004
    return _ask(problem, steps, timeout)[1]


def prove_optimal(
    module: Module, timeout: float = 60.0, progress: Progress = lambda _share, _words: None, use_bound: bool = True
) -> Optimality:
    """Prove that no schedule of the module's demand is shorter than its own, or find one that is.

    use_bound: a module whose time equals its lower bound is optimal without asking the solver.
    timeout: seconds for the solver. progress: see synthesis.task.Effort.
    """
    began = monotonic()
    schedule = module.schedule
    if schedule is None:
        return Optimality("undecided", "there is no schedule")
    time = schedule.collective_time(module.network, module.demand)
    if time == 0:
        return Optimality("proved", "nothing has to move", 0)
    if use_bound and module.bound is not None and time <= module.bound.time:
        return Optimality("proved", f"the lower bound is met ({module.bound.name})")
    problem = _problem(replace(module, model=schedule.model))
    if isinstance(problem, str):
        return Optimality("undecided", problem)
    steps = -(-time // problem.step)
    progress(0.0, f"asking Z3 whether {steps - 1} steps are enough")
    certificate, shorter = _ask(problem, steps - 1, timeout)
    progress(1.0, f"Z3 says {certificate.answer if certificate else 'nothing: too large'}")
    taken = monotonic() - began
    if certificate is None:
        reason = f"more than {MOST_VARIABLES} variables are too many"
        return Optimality("undecided", reason, steps, seconds=taken)
    if certificate.answer == "unsat":
        reason = f"no schedule of {steps - 1} steps exists"
        return Optimality("proved", reason, steps, certificate=certificate, seconds=taken)
    if shorter is not None:
        reason = f"there is a schedule of {steps - 1} steps"
        return Optimality("refuted", reason, steps, shorter, certificate, taken)
    reason = f"Z3 found no answer for {steps - 1} steps within {timeout:g} s"
    return Optimality("undecided", reason, steps, certificate=certificate, seconds=taken)
