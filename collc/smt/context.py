"""What the parts of a question share while it is written: the script, the times and the possible transfers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass

from collc.smt.problem import Edge, ScheduleProblem, SwitchRule
from collc.smt.script import Script


@dataclass(frozen=True, slots=True)
class PossibleTransfer:
    """A transfer that a schedule may contain, and the constant that is true if it does.

    name: the constant, x_c_e_k. edge: a number of ScheduleProblem.edges. start, arrival: positions in StartTimes.at.
    """

    name: str
    chunk: int
    edge: int
    start: int
    arrival: int

    @property
    def reduces(self) -> str:
        """The constant that is true if the receiver combines what arrives, r_c_e_k."""
        return f"r{self.name[1:]}"


@dataclass(frozen=True, eq=False)
class StartTimes:
    """at: the possible times in picoseconds, ascending, up to the deadline."""

    problem: ScheduleProblem
    at: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.at)

    def last(self, time: int) -> int:
        """The position of the last time that is not after `time`; -1 if there is none."""
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
        names: dict[int, list[str]] = {start: [] for start in starts}
        for transfer in transfers:
            free = self.link_free(transfer)
            for start in starts[bisect_left(starts, transfer.start) :]:
                if self.at[start] >= free:
                    break
                names[start].append(transfer.name)
        return [names[start] for start in starts]


class EncodingContext:
    """A question about `problem` with a deadline `until` (picoseconds), under construction.

    relaxed: see DeadlineEncoding. transfers: by name. occupied: by switch and position in `times`, the terms that are
    true if a slot of its buffer is occupied.
    """

    def __init__(
        self, problem: ScheduleProblem, until: int, script: Script, times: StartTimes, relaxed: bool = False
    ) -> None:
        self.problem, self.until, self.script, self.times, self.relaxed = problem, until, script, times, relaxed
        self.transfers: dict[str, PossibleTransfer] = {}
        self.occupied: dict[int, dict[int, list[str]]] = defaultdict(dict)

    def is_limited(self, device: int) -> bool:
        """Whether the slots of a device's buffer are counted."""
        return self.problem.is_limited(device) and not (self.relaxed and self.problem.step is None)

    def edge(self, transfer: PossibleTransfer) -> Edge:
        """The edge of a transfer."""
        return self.problem.edges[transfer.edge]

    def require_arrivals(
        self, leaving: list[PossibleTransfer], coming: list[PossibleTransfer], rule: SwitchRule, most: int
    ) -> None:
        """Require that departures of a chunk from a switch never outnumber its arrivals.

        rule: ONCE counts all departures so far, SINGLE those that are on links at a time. most: the number of arrivals
        above which more are of no use.
        """
        arrived: list[str] = []
        waiting = sorted(coming, key=lambda transfer: transfer.arrival)
        counted = 0
        starts = sorted({transfer.start for transfer in leaving})
        for start, on_links in zip(starts, self.times.on_links(leaving), strict=True):
            while counted < len(waiting) and waiting[counted].arrival <= start:
                arrived = self.script.count_one_more(arrived, waiting[counted].name, most)
                counted += 1
            once = rule is SwitchRule.ONCE
            names = [transfer.name for transfer in leaving if transfer.start <= start] if once else on_links
            gone: list[str] = []
            for name in names:
                gone = self.script.count_one_more(gone, name, len(arrived) + 1)
            for number, term in enumerate(gone):
                self.script.require(f"(=> {term} {arrived[number]})" if number < len(arrived) else f"(not {term})")
