"""What the parts of a question share while it is written: the script, the times and the possible transfers."""

from __future__ import annotations

from collections import defaultdict

from collc.smt.problem import Edge, ScheduleProblem, SwitchRule
from collc.smt.script import Script
from collc.smt.start_times import PossibleTransfer, StartTimes


class EncodingContext:
    """A question about `problem` with a deadline `until` (picoseconds), under construction.

    relaxed: see DeadlineEncoding. transfers: by name. occupied: by switch and position in `times`, the terms that are
    true where a slot of its buffer is occupied.
    """

    def __init__(
        self, problem: ScheduleProblem, until: int, script: Script, times: StartTimes, relaxed: bool = False
    ) -> None:
        self.problem, self.until, self.script, self.times, self.relaxed = problem, until, script, times, relaxed
        self.transfers: dict[str, PossibleTransfer] = {}
        self.occupied: dict[int, dict[int, list[str]]] = defaultdict(dict)

    def limited(self, device: int) -> bool:
        """Whether the slots of a device's buffer are counted."""
        return self.problem.limited(device) and not (self.relaxed and self.problem.step is None)

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
                arrived = self.script.counted(arrived, waiting[counted].name, most)
                counted += 1
            once = rule is SwitchRule.ONCE
            names = [transfer.name for transfer in leaving if transfer.start <= start] if once else on_links
            gone: list[str] = []
            for name in names:
                gone = self.script.counted(gone, name, len(arrived) + 1)
            for number, term in enumerate(gone):
                self.script.require(f"(=> {term} {arrived[number]})" if number < len(arrived) else f"(not {term})")
