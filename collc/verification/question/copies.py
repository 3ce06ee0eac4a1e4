"""What is said of a chunk to copy: who holds it when."""

from __future__ import annotations

from collections import defaultdict

from collc.verification.question.context import Context
from collc.verification.question.places import Places
from collc.verification.question.problem import Goal, Passing
from collc.verification.question.times import Send
from collc.verification.smt import all_of, either


class Copy:
    """What is said of a chunk to copy."""

    def __init__(self, context: Context, chunk: int, goal: Goal, sends: list[Send]) -> None:
        self.context, self.script = context, context.script
        self.problem, self.chunk, self.goal = context.problem, chunk, goal
        # No chunk needs to leave a switch more often than there are NPUs for it to come to.
        self.most = self.problem.module.network.npu_count
        self.into: dict[int, list[Send]] = defaultdict(list)
        self.out_of: dict[int, list[Send]] = defaultdict(list)
        for send in sends:
            edge = self.context.edge(send)
            self.into[edge.target].append(send)
            self.out_of[edge.source].append(send)

    def tell(self) -> None:
        """All of it."""
        for device in sorted(self.into.keys() | self.out_of.keys()):
            way = self.problem.passing.get(device, Passing.FREE)
            if device in self.goal.pre:
                continue
            if self.context.limited(device):
                self._placed(device, way)
            elif way is Passing.FREE:
                self._held(device)
            else:
                self.context.never_more(self.out_of[device], self.into[device], way, self.most)
        last = len(self.context.times) - 1
        wanted = sorted(self.goal.post - self.goal.pre)
        self.script.holds(all_of(f"h_{self.chunk}_{npu}_{last}" if self.into.get(npu) else "false" for npu in wanted))

    def _held(self, device: int) -> None:
        """A device has what it had or what has come, and sends what it has."""
        arriving: dict[int, list[str]] = defaultdict(list)
        for send in self.into[device]:
            arriving[send.end].append(send.name)
        times = range(min(arriving, default=0), len(self.context.times)) if arriving else range(0)
        for time in times:
            name = self.script.declare(f"h_{self.chunk}_{device}_{time}")
            before = [f"h_{self.chunk}_{device}_{time - 1}"] if time > times.start else []
            self.script.holds(f"(=> {name} {either([*before, *arriving.get(time, [])])})")
        for send in self.out_of[device]:
            held = f"h_{self.chunk}_{device}_{send.begin}" if send.begin in times else "false"
            self.script.holds(f"(=> {send.name} {held})")

    def _placed(self, switch: int, way: Passing) -> None:
        """Each departure is of an arrival, which takes a place of the buffer until then."""
        places = Places(self.context, switch, partials=False)
        leaving, coming = self.out_of[switch], self.into[switch]
        for send in sorted(leaving, key=lambda send: (send.begin, self.context.edge(send).links)):
            there = [arrival for arrival in coming if arrival.end <= send.begin]
            places.depart(send, there)
        places.close(self.context.occupied[switch])
        if way is Passing.ONCE:
            self.context.never_more(leaving, coming, way, self.most)
