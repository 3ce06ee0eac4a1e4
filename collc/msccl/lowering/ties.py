"""Where messages tie at switches: they come to a link at the same time, and a file cannot say which goes on first."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

from collc.msccl.lowering.eager import EagerRuns
from collc.msccl.program import Message
from collc.simulation.engine import Simulation
from collc.simulation.tasks import DONE
from collc.ten.network import Network

Before = Counter[tuple[int, int]]
"""How often a message of one device should go before one of another that comes to a link at the same time."""


def wanted_order(messages: tuple[Message, ...], runs: EagerRuns, network: Network) -> Before:
    """Which devices should go first where their messages come to a link together, in the order of the schedule."""
    run = runs.run_as_scheduled()
    offsets, links, begin = run.hops.offsets.tolist(), run.hops.link.tolist(), run.hops.begin.tolist()
    arrived = run.hops.arrived.tolist()
    coming = defaultdict[tuple[int, int], "list[tuple[int, int]]"](list)
    for number, message in enumerate(messages):
        for hop in range(offsets[number] + 1, offsets[number + 1]):
            coming[links[hop], arrived[hop - 1]].append((begin[hop], int(network.npus[message.source])))
    found: Before = Counter()
    for together in coming.values():
        together.sort()
        found.update((a, b) for (_, a), (_, b) in combinations(together, 2) if a != b)
    return found


def critical_ties(runs: EagerRuns, run: Simulation, messages: int) -> list[tuple[int, int]]:
    """(message, the one that went before it): the lost ties on the chains of waits that end with the last arrival.

    messages: how many there are; they are the first tasks of the run.
    """
    chain = _Chain(runs, run, messages)
    found: list[tuple[int, int]] = []
    last = int(run.end[:messages].argmax())
    left, seen = [chain.last_hop(last)], set[int]()
    while left:
        hop = left.pop()
        if hop in seen:
            continue
        seen.add(hop)
        came = chain.came(hop)
        if came is not None and came == chain.begin[hop]:
            left.append(hop - 1)
            continue
        ahead = chain.ending.get((chain.link[hop], chain.begin[hop]))
        if ahead is not None:
            left.append(ahead)
            if came is not None and came == chain.came(ahead):
                found.append((chain.owner[hop], chain.owner[ahead]))
        if came is None:
            left += chain.needed(hop)
    return found


class _Chain:
    """What each hop of a run waited for.

    link, begin: by hop. owner: by hop, its message. ending: by link and time, the hop that leaves the link then.
    """

    def __init__(self, runs: EagerRuns, run: Simulation, messages: int) -> None:
        self._runs, self._messages = runs, messages
        self._offsets, self._end = run.hops.offsets.tolist(), run.end.tolist()
        self._arrived, self._busy = run.hops.arrived.tolist(), run.hops.busy.tolist()
        self.link, self.begin = run.hops.link.tolist(), run.hops.begin.tolist()
        self.owner = [k for k in range(messages) for _ in range(self._offsets[k], self._offsets[k + 1])]
        left = zip(self.link, self.begin, self._busy, strict=True)
        self.ending = {(link, begin + busy): hop for hop, (link, begin, busy) in enumerate(left)}

    def last_hop(self, message: int) -> int:
        return self._offsets[message + 1] - 1

    def came(self, hop: int) -> int | None:
        """When a message came to the link of a hop; None at its first link."""
        return self._arrived[hop - 1] if hop > self._offsets[self.owner[hop]] else None

    def needed(self, hop: int) -> list[int]:
        """The hops whose end let a message leave when it took its first hop."""
        begin, found = self.begin[hop], list[int]()
        tasks = [self.owner[hop]]
        while tasks:
            for task, phase in self._runs.needed.get(tasks.pop(), ()):
                if task >= self._messages:
                    tasks.append(task)
                elif phase == DONE and self._end[task] == begin:
                    found.append(self.last_hop(task))
                elif phase != DONE and self.begin[self._offsets[task]] + self._busy[self._offsets[task]] == begin:
                    found.append(self._offsets[task])
        return found
