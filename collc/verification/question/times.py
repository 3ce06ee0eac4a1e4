"""The times at which transfers can start or arrive, and the transfers that could be."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from collc.verification.question.problem import Problem


@dataclass(frozen=True, slots=True)
class Send:
    """A transfer that could be. edge: its number. begin, end: start and arrival, as places among the times."""

    name: str
    chunk: int
    edge: int
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class Times:
    """at: picoseconds, in order; all sums of what transfers can take, up to the end of the question."""

    problem: Problem
    at: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.at)

    def last(self, time: int) -> int:
        """The place of the last time that is not after `time`; -1: there is none."""
        return bisect_right(self.at, time) - 1

    def first(self, time: int) -> int:
        """The place of the first time that is not before `time`."""
        return bisect_left(self.at, time)

    def free(self, send: Send) -> int:
        """When a transfer leaves its link free, in picoseconds."""
        problem = self.problem
        return self.at[send.begin] + problem.busy_of(problem.goals[send.chunk], problem.edges[send.edge])

    def active(self, sends: list[Send]) -> list[list[str]]:
        """For each time at which one of the transfers could start, those that could take their links then."""
        begins = sorted({send.begin for send in sends})
        found: dict[int, list[str]] = {begin: [] for begin in begins}
        for send in sends:
            free = self.free(send)
            for begin in begins[bisect_left(begins, send.begin) :]:
                if self.at[begin] >= free:
                    break
                found[begin].append(send.name)
        return [found[begin] for begin in begins]
