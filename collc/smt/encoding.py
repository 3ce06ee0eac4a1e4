"""The question "is there a schedule whose last chunk arrives by a deadline?" in SMT-LIB, in Booleans (logic QF_UF).

For copies in equal steps the formulas are those of SCCL (PPoPP 2021, section 3). The constants:

- x_c_e_k: chunk c enters edge e at time k of the possible times;
- h_c_n_k: device n holds chunk c at time k (chunks that are copied);
- b_c_n_i_k: what NPU n holds of chunk c at time k has the contribution of NPU i; r_c_e_k: the receiver combines what
  arrives (chunks that are reduced);
- p_c_e_k_c_f_j: what leaves a switch on edge e at time k is what entered edge f at time j.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from collc.base.units import format_time
from collc.smt.context import EncodingContext
from collc.smt.copies import CopyFormulas
from collc.smt.problem import ChunkGoal, ScheduleProblem
from collc.smt.reductions import ReductionFormulas
from collc.smt.script import Script, Stopped
from collc.smt.start_times import PossibleTransfer, StartTimes

MOST_BYTES: Final = 30_000_000
"""The size of a question above which Z3 does not answer it in a useful time."""


class DeadlineEncoding:
    """The question whether a schedule ends by `until` (picoseconds).

    relaxed: ask with more freedom than the rules give, so that every right schedule, at whatever times, has its like
    among the answers (see `problem`): a sum may have a contribution twice, any arrival may leave a switch, and buffers
    are limited only where all transfers take equal time.
    rounds: the question is about steps of several rounds (SCCL): each step has one round or more, all steps together at
    most `rounds`, and a link carries one chunk in each round. None: one round a step. Only for problems with a step.
    """

    def __init__(self, problem: ScheduleProblem, until: int, relaxed: bool = False, rounds: int | None = None) -> None:
        self.problem, self.rounds = problem, rounds
        self.times = StartTimes(problem, problem.times(until))
        script = Script(
            "QF_UF",
            f"{len(problem.goals)} chunks within {format_time(until)}, {len(self.times)} times"
            + (", relaxed" if relaxed else ""),
            "x_c_e_k: chunk c enters edge e at time k; r_c_e_k: and is combined with what is there",
            "h_c_n_k: device n holds chunk c at time k; b_c_n_i_k: it has the contribution of i to chunk c",
            "p_c_e_k_c_f_j: what leaves a switch on edge e at time k is what entered edge f at time j",
            *(f"edge {e}: {edge.source} -> {edge.target}" for e, edge in enumerate(problem.edges)),
            "times in picoseconds: " + " ".join(map(str, self.times.at)),
            most=MOST_BYTES,
        )
        self._context = EncodingContext(problem, until, script, self.times, relaxed)

    @property
    def transfers(self) -> dict[str, PossibleTransfer]:
        """The possible transfers, by the names of their constants."""
        return self._context.transfers

    def build(self, stop: Callable[[], bool] = lambda: False) -> str:
        """The text of the question.

        stop: asked after each chunk. Raises Stopped where it returns True, Undecided where the text would be too large.
        """
        for chunk, goal in enumerate(self.problem.goals):
            if stop():
                raise Stopped
            transfers = self._possible_transfers(chunk, goal)
            if goal.reduced:
                ReductionFormulas(self._context, chunk, goal, transfers).add()
            elif not goal.post <= goal.pre:
                CopyFormulas(self._context, chunk, goal, transfers).add()
        self._add_links()
        self._add_buffers()
        return self._context.script.text()

    def _possible_transfers(self, chunk: int, goal: ChunkGoal) -> list[PossibleTransfer]:
        """All transfers of a chunk that can lie on a path from where it is to where it is wanted, in time."""
        problem, found = self.problem, list[PossibleTransfer]()
        from_holders = problem.distances(goal, goal.pre, backward=False)
        to_wanted = problem.distances(goal, goal.post, backward=True)
        for number, edge in enumerate(problem.edges):
            if edge.source not in from_holders or edge.target not in to_wanted:
                continue
            if edge.target in goal.pre and not goal.reduced:
                continue
            total = problem.total_of(goal, edge)
            last = self.times.last(self._context.until - total - to_wanted[edge.target])
            for start in range(self.times.first(from_holders[edge.source]), last + 1):
                name = self._context.script.declare(f"x_{chunk}_{number}_{start}")
                arrival = self.times.first(self.times.at[start] + total)
                self.transfers[name] = PossibleTransfer(name, chunk, number, start, arrival)
                found.append(self.transfers[name])
        return found

    def _add_links(self) -> None:
        """Never more transfers on an edge than it has links, in each round."""
        more = self._more_rounds()
        on_edge: dict[int, list[PossibleTransfer]] = defaultdict(list)
        for transfer in self.transfers.values():
            on_edge[transfer.edge].append(transfer)
        for number, transfers in on_edge.items():
            links = len(self.problem.edges[number].links)
            done: set[tuple[str, ...]] = set()
            starts = sorted({transfer.start for transfer in transfers})
            for start, names in zip(starts, self.times.on_links(transfers), strict=True):
                if tuple(names) in done:
                    continue
                done.add(tuple(names))
                rounds = more.get(start, [])
                for number_of_rounds, unless in enumerate([*rounds, ""], 1):
                    self._context.script.at_most(links * number_of_rounds, names, unless)

    def _more_rounds(self) -> dict[int, list[str]]:
        """By step: the constants that are true where it has at least 2, 3, ... rounds."""
        script, steps = self._context.script, len(self.times) - 1
        extra = 0 if self.rounds is None else self.rounds - steps
        if extra <= 0:
            return {}
        more = {step: [script.declare(f"more_{step}_{k}") for k in range(extra)] for step in range(steps)}
        for row in more.values():
            for fewer, one_more in pairwise(row):
                script.require(f"(=> {one_more} {fewer})")
        script.at_most(extra, [name for row in more.values() for name in row])
        return more

    def _add_buffers(self) -> None:
        """Never more chunks in a switch than its buffer has slots."""
        network = self.problem.network
        for switch, occupied in self._context.occupied.items():
            for terms in occupied.values():
                self._context.script.at_most(int(network.buffers[switch - network.npu_count]), terms)
