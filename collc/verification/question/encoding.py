"""A question as SMT-LIB text: is there a schedule whose last chunk arrives by a given time? (logic QF_UF)

x_c_e_k: chunk c enters edge e at time k of those at which transfers can start. Copies: h_c_n_k, device n holds chunk
c at time k. Reductions: b_c_n_i_k, what NPU n has of c at time k has the contribution of i in it; r_c_e_k, the
receiver combines what comes. Switches: p_c_e_k_c_f_j, what leaves on edge e is what came on edge f.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from collc.base.units import format_time
from collc.verification.question.context import Context
from collc.verification.question.copies import Copy
from collc.verification.question.problem import Goal, Problem
from collc.verification.question.sums import Sum
from collc.verification.question.times import Send, Times
from collc.verification.smt import Script

MOST_BYTES: Final = 30_000_000
"""Of a question; one that is larger is not answered in any sensible time."""


class Encoding:
    """The question whether a schedule ends by `until` (picoseconds).

    loose: with more freedom than there is, so that whatever is right at any times has its like here (problem.py). A
    sum may count what it has twice, any arrival may leave a switch, and its buffer counts only where there are steps.
    """

    def __init__(self, problem: Problem, until: int, loose: bool = False) -> None:
        self.problem = problem
        self.times = Times(problem, problem.times(until))
        script = Script(
            "QF_UF",
            f"{len(problem.goals)} chunks within {format_time(until)}, {len(self.times)} times" + loose * ", loosely",
            "x_c_e_k: chunk c enters edge e at time k; r_c_e_k: and is combined with what is there",
            "h_c_n_k: device n holds chunk c at time k; b_c_n_i_k: it has the contribution of i to chunk c",
            "p_c_e_k_c_f_j: what leaves a switch on edge e at time k is what came on edge f, sent at time j",
            *(f"edge {e}: {edge.source} -> {edge.target}" for e, edge in enumerate(problem.edges)),
            "times in picoseconds: " + " ".join(map(str, self.times.at)),
            most=MOST_BYTES,
        )
        self._context = Context(problem, until, script, self.times, loose)

    @property
    def sends(self) -> dict[str, Send]:
        """The transfers that could be, by the names of their constants."""
        return self._context.sends

    def build(self) -> str:
        """The text. Raises Unclear where it would be too large."""
        for chunk, goal in enumerate(self.problem.goals):
            sends = self._sends(chunk, goal)
            if goal.reduced:
                Sum(self._context, chunk, goal, sends).tell()
            elif not goal.post <= goal.pre:
                Copy(self._context, chunk, goal, sends).tell()
        self._loads()
        self._buffers()
        return self._context.script.text()

    def _sends(self, chunk: int, goal: Goal) -> list[Send]:
        """All transfers of a chunk that can be on the way from where it is to where it is wanted."""
        problem, found = self.problem, list[Send]()
        there = problem.distances(goal, goal.pre, back=False)
        left = problem.distances(goal, goal.post, back=True)
        for number, edge in enumerate(problem.edges):
            if edge.source not in there or edge.target not in left or (edge.target in goal.pre and not goal.reduced):
                continue
            total = problem.total_of(goal, edge)
            last = self.times.last(self._context.until - total - left[edge.target])
            for begin in range(self.times.first(there[edge.source]), last + 1):
                name = self._context.script.declare(f"x_{chunk}_{number}_{begin}")
                end = self.times.first(self.times.at[begin] + total)
                self.sends[name] = Send(name, chunk, number, begin, end)
                found.append(self.sends[name])
        return found

    def _loads(self) -> None:
        """Never more transfers on an edge than it has links."""
        on: dict[int, list[Send]] = defaultdict(list)
        for send in self.sends.values():
            on[send.edge].append(send)
        for number, sends in on.items():
            told: set[tuple[str, ...]] = set()
            for names in self.times.active(sends):
                if tuple(names) not in told:
                    told.add(tuple(names))
                    self._context.script.at_most(len(self.problem.edges[number].links), names)

    def _buffers(self) -> None:
        """Never more chunks in a switch than there are places in its buffer."""
        network = self.problem.module.network
        for switch, occupied in self._context.occupied.items():
            for taken in occupied.values():
                self._context.script.at_most(int(network.buffers[switch - network.npu_count]), taken)
