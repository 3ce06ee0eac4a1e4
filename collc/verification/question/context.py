"""What is known while a question is written: the text, the times, and the transfers that could be."""

from __future__ import annotations

from collections import defaultdict

from collc.verification.question.problem import Edge, Passing, Problem
from collc.verification.question.times import Send, Times
from collc.verification.smt import Script


class Context:
    """A question about `problem`, until a time in picoseconds, under construction.

    loose: see Encoding. times: when transfers can start or arrive. sends: the transfers that could be, by name.
    occupied: by switch and time, terms for "this place of its buffer is taken".
    """

    def __init__(self, problem: Problem, until: int, script: Script, times: Times, loose: bool) -> None:
        self.problem, self.until, self.script, self.times, self.loose = problem, until, script, times, loose
        self.sends: dict[str, Send] = {}
        self.occupied: dict[int, dict[int, list[str]]] = defaultdict(dict)

    def limited(self, switch: int) -> bool:
        """Whether the places of a switch's buffer count."""
        return self.problem.limited(switch) and not (self.loose and self.problem.step is None)

    def edge(self, send: Send) -> Edge:
        """Where a transfer goes."""
        return self.problem.edges[send.edge]

    def never_more(self, leaving: list[Send], coming: list[Send], way: Passing, most: int) -> None:
        """Departures of a chunk from a switch so far (ONCE), or at a time (SINGLE), are never more than arrivals.

        most: departures that may be needed.
        """
        came: list[str] = []
        waiting = sorted(coming, key=lambda send: send.end)
        counted = 0
        begins = sorted({send.begin for send in leaving})
        for begin, active in zip(begins, self.times.active(leaving), strict=True):
            while counted < len(waiting) and waiting[counted].end <= begin:
                came = self.script.one_more(came, waiting[counted].name, most)
                counted += 1
            names = [send.name for send in leaving if send.begin <= begin] if way is Passing.ONCE else active
            gone: list[str] = []
            for name in names:
                gone = self.script.one_more(gone, name, len(came) + 1)
            for number, term in enumerate(gone):
                self.script.holds(f"(=> {term} {came[number]})" if number < len(came) else f"(not {term})")
