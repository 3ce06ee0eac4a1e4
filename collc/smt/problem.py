"""The problem that a question is about: chunks to bring to NPUs, links, and the times at which transfers can start.

Shifting a schedule to the left means: keep the order of the transfers on each link and the arrivals that each transfer
waits for, and let each transfer start as early as it then can. After that every start is a sum of durations, of link
occupancies (`busy`) and of times until arrival (`total`). It is therefore enough to look for schedules whose starts are
such sums. If all transfers take equal time, the sums are the steps of SCCL (PPoPP 2021, section 3); unlike links,
unlike chunks and the model `pipelined` make more of them.

A schedule that is shifted to the left can become wrong in two cases: a reduction may pick up a contribution that used
to arrive later, and a switch buffer may hold more chunks at a time. For these, a proof that no shorter schedule exists
asks a relaxed question in which more is allowed (`DeadlineEncoding`): sums may count a contribution twice, as a maximum
may, and buffers are unlimited unless all transfers take equal time (then a slot that was free for a chunk is free for
it at the earlier step as well).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from collc.graph.paths import shortest_path_tree
from collc.smt.script import Undecided
from collc.ten.demand import Demand, Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import Clock, LinkModel

MOST_TIMES: Final = 2_000
"""The number of possible start times above which a question is too large."""


class SwitchRule(Enum):
    """How often a switch may send a copy that arrived.

    FREE: as an NPU would, on any number of links at a time. SINGLE: on one link at a time. ONCE: on one link, once.
    """

    FREE = "free"
    SINGLE = "single"
    ONCE = "once"


@dataclass(frozen=True, slots=True)
class Edge:
    """Parallel links of one kind: devices, row of the clock, and link numbers."""

    source: int
    target: int
    kind: int
    links: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkGoal:
    """A chunk: the NPUs that hold it, those that want it, and its column of the clock.

    reduced: the holders have contributions that must be added up; else they have equal copies.
    """

    pre: frozenset[int]
    post: frozenset[int]
    size: int
    reduced: bool


@dataclass(frozen=True, eq=False)
class ScheduleProblem:
    """Chunks, edges, and how long each transfer takes.

    busy, total: int64[kinds, sizes] as lists, picoseconds until the link is free and until the chunk has arrived.
    rules: by switch. inverted: the chunks are reductions for one NPU each, and this is the problem reversed in time and
    direction: copies from that NPU to all that contribute.
    """

    network: Network
    edges: tuple[Edge, ...]
    goals: tuple[ChunkGoal, ...]
    busy: list[list[int]]
    total: list[list[int]]
    rules: dict[int, SwitchRule]
    inverted: bool = False

    def busy_of(self, goal: ChunkGoal, edge: Edge) -> int:
        """Picoseconds for which a chunk occupies a link of an edge."""
        return self.busy[edge.kind][goal.size]

    def total_of(self, goal: ChunkGoal, edge: Edge) -> int:
        """Picoseconds until a chunk that enters an edge has arrived."""
        return self.total[edge.kind][goal.size]

    @cached_property
    def durations(self) -> tuple[int, ...]:
        """Picoseconds that transfers of chunks that move take, on the link or until they arrive; ascending, unique."""
        kinds = {edge.kind for edge in self.edges}
        sizes = {goal.size for goal in self.goals if not goal.post <= goal.pre or goal.reduced}
        return tuple(sorted({of[kind][size] for of in (self.busy, self.total) for kind in kinds for size in sizes}))

    def is_limited(self, device: int) -> bool:
        """Whether a device is a switch with a limited buffer."""
        number = device - self.network.npu_count
        return number >= 0 and int(self.network.buffers[number]) >= 0

    @property
    def needs_relaxed(self) -> bool:
        """Whether a schedule of the problem could become wrong when it is shifted to the left."""
        return self.network.has_limited_buffers or any(goal.reduced for goal in self.goals)

    @property
    def step(self) -> int | None:
        """Picoseconds of a step if all transfers take equal time; else None."""
        return self.durations[0] if len(self.durations) == 1 else None

    def times(self, until: int) -> tuple[int, ...]:
        """All sums of durations from 0 to `until` picoseconds, ascending.

        Raises Undecided if there are more than MOST_TIMES.
        """
        sums, queue = {0}, [0]
        for time in queue:
            for more in self.durations:
                if time + more <= until and time + more not in sums:
                    sums.add(time + more)
                    queue.append(time + more)
            if len(sums) > MOST_TIMES:
                raise Undecided(f"there are more than {MOST_TIMES} times at which a transfer could start")
        return tuple(sorted(sums))

    def distances(self, goal: ChunkGoal, roots: Iterable[int], backward: bool) -> dict[int, int]:
        """The least picoseconds that a chunk takes from the roots to each device, or, backward, from it to them.

        Devices without a path are not in the result.
        """
        near: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for number, edge in enumerate(self.edges):
            a, b = (edge.target, edge.source) if backward else (edge.source, edge.target)
            near[a].append((b, self.total_of(goal, edge), number))
        return shortest_path_tree(near.__getitem__, dict.fromkeys(roots, 0)).distance


def problem_of(network: Network, demand: Demand, model: LinkModel, relays: bool) -> ScheduleProblem:
    """The problem of a demand; `relays`: switches send each arrival once.

    A demand whose chunks are all reductions for one NPU is inverted. Raises Undecided if links have no bandwidth or
    latency, or transfers take no time, or NPUs have limits.
    """
    if network.has_endpoints:
        raise Undecided("NPUs have limits on what they send or receive, which the formulas do not count")
    table = demand.chunks
    pre = [frozenset(table.sets[number].tolist()) for number in table.pre.tolist()]
    post = [frozenset(table.sets[number].tolist()) for number in table.post.tolist()]
    reduced = [op != Op.COPY for op in table.op.tolist()]
    inverted = bool(reduced) and all(reduced) and all(len(holders) == 1 for holders in post)
    try:
        clock = Clock.of(network, demand, model)
    except (ValueError, OverflowError) as error:
        raise Undecided(f"transfers have no duration: {error}") from error
    goals = tuple(
        ChunkGoal(b if inverted else a, a if inverted else b, size, sums and not inverted)
        for a, b, sums, size in zip(pre, post, reduced, clock.size_of.tolist(), strict=True)
    )
    edges = edges_of(network.reverse() if inverted else network)
    rules = _switch_rules(network, relays, inverted)
    problem = ScheduleProblem(network, edges, goals, clock.busy.tolist(), clock.total.tolist(), rules, inverted)
    if problem.durations and problem.durations[0] <= 0:
        raise Undecided("transfers take no time")
    return problem


def edges_of(network: Network) -> tuple[Edge, ...]:
    """The links grouped by source, target and kind, in order of their first link; equal kinds count as one."""
    first: dict[LinkKind, int] = {}
    kinds = [first.setdefault(kind, number) for number, kind in enumerate(network.kinds)]
    links_of: dict[tuple[int, int, int], list[int]] = {}
    sources: list[int] = network.source.tolist()
    targets: list[int] = network.target.tolist()
    kind_of: list[int] = network.kind.tolist()
    for link, (source, target, kind) in enumerate(zip(sources, targets, kind_of, strict=True)):
        if source != target:
            links_of.setdefault((source, target, kinds[kind]), []).append(link)
    return tuple(Edge(*ends, tuple(links)) for ends, links in links_of.items())


def _switch_rules(network: Network, relays: bool, inverted: bool) -> dict[int, SwitchRule]:
    """The rule of each switch. Reversed in time, a switch that reduces is one that multicasts."""
    rules: dict[int, SwitchRule] = {}
    for number in range(network.switch_count):
        free = bool((network.reduces if inverted else network.multicast)[number])
        once = relays or (inverted and not free)
        rule = SwitchRule.ONCE if once else SwitchRule.FREE if free else SwitchRule.SINGLE
        rules[network.npu_count + number] = rule
    return rules
