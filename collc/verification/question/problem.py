"""What is to be brought where, and the times at which transfers can start.

Every schedule can be moved to the left: with the order on each link, and with the arrivals that each transfer waits
for, kept, let each start as early as it can. Then each start is a sum of times that transfers take, on links (busy)
or until they arrive (total). So it is enough to look at such sums. Where all transfers take equal time they are the
steps of SCCL (PPoPP 2021, section 3); links and chunks that differ, and the model `pipelined`, make more of them.

What is moved must stay right. Of reductions it need not: what comes earlier may be taken along that was not meant to
be. Neither need buffers hold out. There the proof is of a looser question, in which more is right (`loose`): sums may
count twice (as a maximum may), and buffers do not count unless all transfers take equal time, when a place that is
free for a chunk is so still.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import Clock, LinkModel
from collc.verification.smt import Unclear

MOST_TIMES: Final = 2_000
"""Times at which transfers can start, beyond which a question is too large."""


class Passing(Enum):
    """How a switch passes a copy on.

    FREE: as an NPU would, to any number of links. SINGLE: on one link at a time for each arrival.
    ONCE: each arrival on one link, once.
    """

    FREE = "free"
    SINGLE = "single"
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class Edge:
    """Parallel links of one kind."""

    source: int
    target: int
    kind: int
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """A chunk: who holds it, who wants it, and whether the holders' contributions are to be reduced."""

    pre: frozenset[int]
    post: frozenset[int]
    size: int
    reduced: bool


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be brought where, on which edges, and how long each transfer takes.

    inverted: the module's chunks are reductions for one NPU each, and this is the problem turned round in time:
    copies from that NPU to all that contribute. busy, total: picoseconds by kind of link and size, as lists.
    passing: by switch.
    """

    module: Module
    edges: tuple[Edge, ...]
    goals: tuple[Goal, ...]
    busy: list[list[int]]
    total: list[list[int]]
    passing: dict[int, Passing]
    inverted: bool

    def busy_of(self, goal: Goal, edge: Edge) -> int:
        """Picoseconds that a chunk takes a link."""
        return self.busy[edge.kind][goal.size]

    def total_of(self, goal: Goal, edge: Edge) -> int:
        """Picoseconds until a chunk is there."""
        return self.total[edge.kind][goal.size]

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """All that a transfer of a chunk that moves can take, in order."""
        kinds = {edge.kind for edge in self.edges}
        sizes = {goal.size for goal in self.goals if not goal.post <= goal.pre or goal.reduced}
        return tuple(sorted({of[kind][size] for of in (self.busy, self.total) for kind in kinds for size in sizes}))

    def limited(self, switch: int) -> bool:
        """Whether a device is a switch with a limited buffer."""
        network = self.module.network
        return switch >= network.npu_count and int(network.buffers[switch - network.npu_count]) >= 0

    @property
    def needs_loose(self) -> bool:
        """Whether a schedule that is moved to the left could become wrong."""
        limited = bool((self.module.network.buffers >= 0).any())
        return limited or any(goal.reduced for goal in self.goals)

    @property
    def step(self) -> int | None:
        """Picoseconds of a step, where all transfers take equal time; else None."""
        return self.durations[0] if len(self.durations) == 1 else None

    def times(self, until: int) -> tuple[int, ...]:
        """The sums of durations up to and with `until`, in order.

        Raises Unclear where there are too many.
        """
        found, line = {0}, [0]
        for time in line:
            for more in self.durations:
                if time + more <= until and time + more not in found:
                    found.add(time + more)
                    line.append(time + more)
            if len(found) > MOST_TIMES:
                raise Unclear(f"there are more than {MOST_TIMES} times at which a transfer could start")
        return tuple(sorted(found))

    def distances(self, goal: Goal, roots: Iterable[int], back: bool) -> dict[int, int]:
        """Picoseconds that a chunk takes at least from the roots, or (back) to them; no entry: no path."""
        near: dict[int, list[tuple[int, int]]] = {}
        for edge in self.edges:
            a, b = (edge.target, edge.source) if back else (edge.source, edge.target)
            near.setdefault(a, []).append((b, self.total_of(goal, edge)))
        found: dict[int, int] = {}
        line = [(0, root) for root in sorted(roots)]
        while line:
            time, device = heapq.heappop(line)
            if device in found:
                continue
            found[device] = time
            for other, more in near.get(device, []):
                heapq.heappush(line, (time + more, other))
        return found


def problem_of(module: Module) -> Problem:
    """The problem of a module, under the link model of its schedule if it has one.

    Raises Unclear where there is none.
    """
    network, table = module.network, module.demand.chunks
    model = module.schedule.model if module.schedule is not None else module.model
    pre = [frozenset(table.sets[number].tolist()) for number in table.pre.tolist()]
    post = [frozenset(table.sets[number].tolist()) for number in table.post.tolist()]
    reduced = [op != Op.COPY for op in table.op.tolist()]
    inverted = bool(reduced) and all(reduced) and all(len(holders) == 1 for holders in post)
    sizes = sorted(set(table.size.tolist()))
    busy, total = _clock(network, model, module)
    goals = tuple(
        Goal(b if inverted else a, a if inverted else b, sizes.index(size), sums and not inverted)
        for a, b, sums, size in zip(pre, post, reduced, table.size.tolist(), strict=True)
    )
    edges = _edges(network.reversed() if inverted else network)
    problem = Problem(module, edges, goals, busy, total, _passing(module, inverted), inverted)
    if problem.durations and problem.durations[0] <= 0:
        raise Unclear("transfers take no time")
    return problem


def _clock(network: Network, model: LinkModel, module: Module) -> tuple[list[list[int]], list[list[int]]]:
    try:
        clock = Clock.of(network, module.demand, model)
    except (ValueError, OverflowError) as error:
        raise Unclear(f"transfers take no known time: {error}") from error
    return clock.busy.tolist(), clock.total.tolist()


def _edges(network: Network) -> tuple[Edge, ...]:
    """Links by source, target and kind; kinds that are alike count as one."""
    first: dict[LinkKind, int] = {}
    kinds = [first.setdefault(kind, number) for number, kind in enumerate(network.kinds)]
    found: dict[tuple[int, int, int], list[int]] = {}
    sources: list[int] = network.source.tolist()
    targets: list[int] = network.target.tolist()
    kind_of: list[int] = network.kind.tolist()
    for link, (source, target, kind) in enumerate(zip(sources, targets, kind_of, strict=True)):
        if source != target:
            found.setdefault((source, target, kinds[kind]), []).append(link)
    return tuple(Edge(*ends, tuple(links)) for ends, links in found.items())


def _passing(module: Module, inverted: bool) -> dict[int, Passing]:
    """How switches pass copies on. A reduction turned round: what adds up in a switch goes out of it again."""
    network = module.network
    found: dict[int, Passing] = {}
    for number in range(network.switch_count):
        free = bool((network.reduces if inverted else network.multicast)[number])
        once = module.relays or (inverted and not free)
        found[network.npu_count + number] = Passing.ONCE if once else Passing.FREE if free else Passing.SINGLE
    return found
