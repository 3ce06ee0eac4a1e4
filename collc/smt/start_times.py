"""The times at which transfers can start or arrive, and the transfers that a schedule may contain."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from collc.smt.problem import ScheduleProblem


@dataclass(frozen=True, slots=True)
class PossibleTransfer:
    """A transfer that a schedule may contain, and the constant that is true where it does.

    name: the constant, x_c_e_k. edge: a number of ScheduleProblem.edges. start, arrival: positions in StartTimes.at.
    """

    name: str
    chunk: int
    edge: int
    start: int
    arrival: int

    @property
    def reduces(self) -> str:
        """The constant that is true where the receiver combines what arrives, r_c_e_k."""
        return f"r{self.name[1:]}"


@dataclass(frozen=True, eq=False)
class StartTimes:
    """at: the possible times in picoseconds, ascending, up to the deadline."""

    problem: ScheduleProblem
    at: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.at)

    def last(self, time: int) -> int:
        """The position of the last time that is not after `time`; -1 where there is none."""
        return bisect_right(self.at, time) - 1

    def first(self, time: int) -> int:
        """The position of the first time that is not before `time`."""
        return bisect_left(self.at, time)

    def link_free(self, transfer: PossibleTransfer) -> int:
        """Picoseconds at which a transfer leaves its link."""
        problem = self.problem
        return self.at[transfer.start] + problem.busy_of(problem.goals[transfer.chunk], problem.edges[transfer.edge])

    def on_links(self, transfers: list[PossibleTransfer]) -> list[list[str]]:
        """For each start of a transfer, ascending: the names of those that would occupy their links at that time."""
        starts = sorted({transfer.start for transfer in transfers})
        found: dict[int, list[str]] = {start: [] for start in starts}
        for transfer in transfers:
            free = self.link_free(transfer)
            for start in starts[bisect_left(starts, transfer.start) :]:
                if self.at[start] >= free:
                    break
                found[start].append(transfer.name)
        return [found[start] for start in starts]
