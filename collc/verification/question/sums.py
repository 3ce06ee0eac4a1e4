"""What is said of a chunk to reduce: whose contributions are where."""

from __future__ import annotations

from collections import defaultdict

from collc.verification.question.adding import Adder
from collc.verification.question.context import Context
from collc.verification.question.places import Places
from collc.verification.question.problem import Goal, Passing
from collc.verification.question.times import Send
from collc.verification.smt import all_of, either


class Sum:
    """What is said of a chunk to reduce."""

    def __init__(self, context: Context, chunk: int, goal: Goal, sends: list[Send]) -> None:
        self.context, self.script = context, context.script
        self.problem, self.chunk, self.goal, self.sends = context.problem, chunk, goal, sends
        self.holders = sorted(goal.pre)
        self.into: dict[int, dict[int, list[Send]]] = defaultdict(lambda: defaultdict(list))
        self.out_of: dict[int, list[Send]] = defaultdict(list)
        for send in sends:
            edge = context.edge(send)
            self.into[edge.target][send.end].append(send)
        self.has: dict[int, list[list[str]]] = {}
        """By NPU: for each time, a term for each contribution."""
        self.passed: dict[str, list[str]] = {}
        """By departure from a switch: a term for each contribution."""
        self.places: dict[int, Places] = {}
        self.adders: dict[int, Adder] = {}
        for switch in self.problem.passing:
            self._switch(switch)
        for send in sends:
            if context.edge(send).source in self.places or context.edge(send).source in self.adders:
                self.out_of[send.begin].append(send)

    def _switch(self, switch: int) -> None:
        network = self.problem.module.network
        if network.reduces[switch - network.npu_count] and self.context.loose:
            return
        if network.reduces[switch - network.npu_count]:
            way, name = self.problem.passing[switch], f"w_{self.chunk}_{switch}"
            self.adders[switch] = Adder(
                self.script, self.context.times, name, self._of, way, ["false"] * len(self.holders)
            )
        else:
            self.places[switch] = Places(self.context, switch, partials=not self.context.loose)

    def tell(self) -> None:
        """All of it."""
        if not self.context.loose:
            for send in self.sends:
                self.script.declare(f"r{send.name[1:]}")
        self._spread()
        for send in self.sends:
            self._sent(send)
        if not self.context.loose:
            self._once()
        for switch, places in self.places.items():
            places.close(self.context.occupied[switch])
        for switch, way in self.problem.passing.items():
            if way is Passing.ONCE:
                coming = [send for found in self.into[switch].values() for send in found]
                leaving = [send for send in self.sends if self.context.edge(send).source == switch]
                self.context.never_more(leaving, coming, way, len(leaving))
        for npu in sorted(self.goal.post):
            self.script.holds(all_of(self.has[npu][-1]))

    def _once(self) -> None:
        """No contribution comes twice, and none is lost."""
        for device, arrivals in self.into.items():
            for time, sends in arrivals.items():
                if device in self.places:
                    self._left_once(self.places[device], sends)
                elif device not in self.adders:
                    self._arrived(device, time, sends)

    def _spread(self) -> None:
        """What every device has, time after time: contributions never go away."""
        first = [self.problem.distances(self.goal, [i], back=False) for i in self.holders]
        network = self.problem.module.network
        for npu in (d for d in range(network.device_count) if d not in self.places and d not in self.adders):
            self.has[npu] = [["true" if i == npu else "false" for i in self.holders]]
        for time in range(len(self.context.times)):
            if time:
                for npu, column in self.has.items():
                    column.append(self._grown(npu, time, column[-1], first))
            for switch, adder in self.adders.items():
                if coming := self.into[switch].get(time, []):
                    adder.arrive(time, coming)
            for send in sorted(self.out_of[time], key=lambda send: self.context.edge(send).links):
                self._leave(send)
            for adder in self.adders.values():
                adder.leave(time)

    def _grown(self, npu: int, time: int, before: list[str], first: list[dict[int, int]]) -> list[str]:
        """What an NPU has at a time: what it had, and what comes."""
        coming = self.into[npu].get(time, [])
        row = list(before)
        for number, had in enumerate(before):
            reachable = self.context.times.at[time] >= first[number].get(npu, self.context.until + 1)
            if not coming or had == "true" or not reachable:
                continue
            brought = [f"(and {send.name} {term})" for send in coming if (term := self._of(send)[number]) != "false"]
            if not brought:
                continue
            name = f"b_{self.chunk}_{npu}_{self.holders[number]}_{time}"
            row[number] = self.script.define(name, "Bool", either([*brought, *([had] if had != "false" else [])]))
        return row

    def _leave(self, send: Send) -> None:
        """A switch passes on what came before: one arrival, or several that it has added up."""
        switch = self.context.edge(send).source
        if switch in self.adders:
            self.passed[send.name] = self.adders[switch].depart(send)
            return
        there = [a for end, found in self.into[switch].items() if end <= send.begin for a in found]
        parts: list[list[str]] = [[] for _ in self.holders]
        for name, arrival in zip(self.places[switch].depart(send, there).values(), there, strict=True):
            for part, term in zip(parts, self._of(arrival), strict=True):
                if term != "false":
                    part.append(f"(and {name} {term})")
        self.passed[send.name] = [
            self.script.define(f"v{send.name[1:]}_{i}", "Bool", either(part))
            for i, part in zip(self.holders, parts, strict=True)
        ]

    def _of(self, send: Send) -> list[str]:
        """Whether a transfer brings each contribution."""
        source = self.context.edge(send).source
        return self.has[source][send.begin] if source in self.has else self.passed[send.name]

    def _sent(self, send: Send) -> None:
        """Nobody sends nothing, and only what is finished is copied."""
        value = self._of(send)
        self.script.holds(f"(=> {send.name} {either(term for term in value if term != 'false')})")
        if not self.context.loose:
            self.script.holds(f"(=> (and {send.name} (not r{send.name[1:]})) {all_of(value)})")

    def _arrived(self, npu: int, time: int, sends: list[Send]) -> None:
        """What is combined has nothing that is there already, or that comes at the same time."""
        before = self.has[npu][time - 1]
        for send in sends:
            brings, told = self._of(send), f"(and {send.name} r{send.name[1:]})"
            self._apart(told, brings, before)
            for other in sends:
                if other is not send:
                    self._apart(f"(and {told} {other.name})", brings, self._of(other))

    def _apart(self, where: str, one: list[str], other: list[str]) -> None:
        for a, b in zip(one, other, strict=True):
            if "false" not in (a, b):
                self.script.holds(f"(not {all_of([where, *(term for term in (a, b) if term != 'true')])})")

    def _left_once(self, places: Places, sends: list[Send]) -> None:
        """A partial leaves a switch that does not reduce, and once."""
        for send in sends:
            taken = [name for name, _ in places.read[send.name]]
            self.script.holds(f"(=> (and {send.name} r{send.name[1:]}) {either(taken)})")
            self.script.at_most(1, taken, unless=f"(not r{send.name[1:]})")
