"""For each synthesizer: whether it applies to a problem, and the work of its first schedule.

Work is counted as WorkMeter does, in microseconds of plain Python. The factors were fitted to the CPU time of first
schedules on random programs (docs/synthesis.md has the table).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from collc.graph.coordinates import find_dimensions
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.kernels.compiled import MOST_PLAIN
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exchange.synthesizer import MOST_RELAYED_IN_FILES, obstacle
from collc.synthesis.in_network.synthesizer import has_reducing_switch
from collc.synthesis.one_shot import synthesizer as one_shot
from collc.synthesis.pccl.synthesizer import TREE_LINK, TREE_TARGET
from collc.synthesis.reductions.compose import OVERLAP_TRANSFERS, has_reductions
from collc.synthesis.swarm.switch_paths import PATHS_PER_PAIR
from collc.synthesis.swarm.synthesizer import COMPILED_ATTEMPT, attempt_work
from collc.synthesis.symmetric import is_symmetric
from collc.synthesis.tacos.synthesizer import is_compiled
from collc.synthesis.task import COMPILED_TIMES, WorkMeter
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel

WORK_PER_SECOND: Final = 1_000_000
"""Work that is done in a second, about."""

LOAD: Final = 300_000
"""Work of loading Numba and a compiled kernel."""

COMPILED_TRANSFERS: Final = 50_000
"""Transfers above which kernels are compiled, about."""

FLOW_PAIRS: Final = 16
"""Links x NPUs of the compiled flows of forest for a unit of work."""

FEW: Final = 2.0
"""Average number of NPUs that want a chunk up to which chunks are taken as going from one NPU to another."""

SAMPLE: Final = 16
"""NPUs from which distances are averaged."""

BANDWIDTH_BOUND: Final = 8
"""Latencies for which the links of an NPU must be busy in all for bandwidth to decide."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """work: of the first schedule. promise: about how often such a schedule is the best; a weight, not a share.
    searches: whether more work can give a shorter schedule. near_ideal: whether the schedule is likely to be near the
    best possible one, so that it is worth much work.
    """

    work: int
    promise: float = 1.0
    searches: bool = False
    near_ideal: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule. network: the one whose links it uses. build: plans, and counts its work."""

    name: str
    network: Network
    estimate: Estimate
    build: Callable[[WorkMeter], Module]


def bound_work(network: Network, demand: Demand) -> int:
    """The work of a lower bound. What goes from NPU to NPU, and several runs, need prices of links."""
    standards = [run.standard for run in demand.runs]
    shared = len(standards) == 1 and standards[0] is not None and standards[0].kind != "all_to_all"
    return 20_000 + 600 * len(network.npus) if shared else 30_000 + 1_500 * len(network.npus)


@dataclass
class KnownBounds:
    """The lower bounds of one module on several networks, each computed once for all that ask."""

    _found: dict[int, tuple[Network, int]] = field(default_factory=dict[int, tuple[Network, int]])

    def work(self, network: Network, module: Module) -> int:
        """The work of asking: none if the bound is known."""
        return 0 if id(network) in self._found else bound_work(network, module.demand)

    def of(self, network: Network, module: Module) -> int:
        """Picoseconds that no schedule of the module takes less than on a network."""
        if id(network) not in self._found:
            self._found[id(network)] = network, lower_bound(network, module.demand, module.model).time
        return self._found[id(network)][1]


@dataclass(frozen=True, eq=False)
class ProblemShape:
    """A module before synthesis, on one network (its own, or the one with direct links in the place of switches)."""

    module: Module

    @cached_property
    def has_switches(self) -> bool:
        """Whether any link leads to a switch."""
        return self.module.network.has_switches

    @cached_property
    def npus(self) -> int:
        """NPUs of the network."""
        return len(self.module.network.npus)

    @cached_property
    def reduces(self) -> bool:
        """Whether anything is reduced."""
        return has_reductions(self.module.demand)

    @cached_property
    def pairs(self) -> int:
        """Pairs of a chunk and an NPU that it must reach or be reduced from."""
        count = 0
        for table in self.module.demand.tables:
            pre, post = table.sets.sizes[table.pre], table.sets.sizes[table.post]
            count += int(post.sum()) + int(pre[table.op != 0].sum())
        return count

    @cached_property
    def is_shared(self) -> bool:
        """Whether chunks are wanted by, or reduced from, more than FEW NPUs on average."""
        return self.pairs > FEW * max(1, sum(len(table) for table in self.module.demand.tables))

    @cached_property
    def few_hold(self) -> bool:
        """Whether twice as many NPUs want something, or contribute to it, as hold it at first, or get the result."""
        few, many = set[int](), set[int]()
        for table in self.module.demand.tables:
            for pre, post, op in np.unique(np.stack([table.pre, table.post, table.op], axis=1), axis=0).tolist():
                holders, wanting = (post, pre) if op else (pre, post)
                few.update(table.sets[holders].tolist())
                many.update(table.sets[wanting].tolist())
        return self.is_shared and 2 * len(few) <= len(many)

    @cached_property
    def hops(self) -> float:
        """Transfers for each of `pairs`, about: 1 or, over switches, 2; for chunks of single pairs their distance."""
        if self.is_shared:
            return 2.0 if self.has_switches else 1.0
        return self.mean_distance

    @cached_property
    def mean_distance(self) -> float:
        """Links of a shortest path from one NPU to another, on average."""
        return float(self.distances.mean()) if self.distances.size else 1.0

    @cached_property
    def distances(self) -> Int64Array:
        """Links from all NPUs to SAMPLE of them."""
        network = self.module.network
        length = np.ones(network.link_count, np.int64)
        npus = network.npus[:: max(1, self.npus // SAMPLE)]
        distance = distances_to(Digraph.of(network), length, npus)[:, : network.npu_count]
        return distance[(distance < UNREACHABLE) & (distance > 0)]

    @cached_property
    def switch_paths(self) -> int:
        """Paths from NPU to NPU with only switches between, about: those of fewest links, as many as of the first."""
        network = self.module.network
        front = np.zeros(network.device_count, np.int64)
        front[network.npus[:1]] = 1
        seen, paths = front > 0, 0
        while front.any():
            reached = np.zeros_like(front)
            np.add.at(reached, network.target, front[network.source])
            front = np.where(seen, 0, np.minimum(reached, PATHS_PER_PAIR))
            seen |= front > 0
            paths += int(front[: network.npu_count].sum())
            front[: network.npu_count] = 0
        return paths * self.npus

    @cached_property
    def phases(self) -> int:
        """How often a synthesizer of copies is called: for the reductions, for the copies after them, and for the
        copies around them.
        """
        if not self.reduces:
            return 1
        table = self.module.demand.chunks
        again = bool((table.sets.sizes[table.post] > 1).any() | (table.op == 0).any())
        return 1 if not again else 2 if self.pairs * self.hops > OVERLAP_TRANSFERS else 3

    @cached_property
    def transfers(self) -> int:
        """Transfers that all calls together plan, about."""
        return int(self.pairs * self.hops * (self.phases + 1) / 2 if self.reduces else self.pairs * self.hops) + 1

    @cached_property
    def tree_growth(self) -> float:
        """Links that a search from all NPUs with a chunk to the next one that wants it looks at, for all chunks."""
        network = self.module.network
        degree = network.link_count / max(1, network.device_count)
        total = 0.0
        for table in self.module.demand.tables:
            sizes = np.maximum(table.sets.sizes[table.post], table.sets.sizes[table.pre]).astype(np.float64)
            total += float(np.minimum(sizes * sizes / 2 * degree, sizes * network.link_count).sum())
        return total * self.phases

    @cached_property
    def link_times(self) -> tuple[float, float]:
        """Picoseconds, on average, for which the bytes of a chunk take a link, and until the chunk arrives."""
        network = self.module.network
        try:
            clock = Clock.of(network, self.module.demand, LinkModel.PIPELINED)
        except ValueError:
            return 0.0, 0.0
        if not len(self.module.demand.chunks) or not network.link_count:
            return 0.0, 0.0
        return float(clock.busy[network.kind].mean()), float(clock.total[network.kind].mean())

    @cached_property
    def is_bandwidth_bound(self) -> bool:
        """Whether what an NPU gets keeps its links busy for much longer than latencies last."""
        busy, total = self.link_times
        return busy * self.pairs > BANDWIDTH_BOUND * (total - busy) * self.module.network.link_count

    @property
    def is_latency_bound(self) -> bool:
        """Whether the links carry all contributions, and all sums, in less time than the longest path takes."""
        return self._takes_less_than_a_path(2 * len(self.module.demand.chunks) * self.npus)

    @property
    def is_latency_bound_one_shot(self) -> bool:
        """Whether they do if each contribution travels to all NPUs by itself."""
        return self._takes_less_than_a_path(len(self.module.demand.chunks) * self.npus**2)

    def _takes_less_than_a_path(self, transfers: int) -> bool:
        """Whether links that share some transfers evenly are done before a chunk has crossed the longest path."""
        busy, total = self.link_times
        each = total if self.module.model is LinkModel.STORE else busy
        longest = int(self.distances.max(initial=0))
        return 0 < each * transfers <= longest * total * self.module.network.link_count

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether one collective over all NPUs runs on a network whose NPUs are all alike."""
        return is_symmetric(self.module)


Estimator = Callable[[ProblemShape], Estimate | None]
"""None: the synthesizer does not apply."""


def estimate_symmetric(shape: ProblemShape) -> Estimate | None:
    """`symmetric`: its one schedule is near the best, if all NPUs are alike."""
    if not shape.is_symmetric:
        return None
    return Estimate(5_000 if shape.has_switches else 5_000 + shape.transfers, 1000.0, near_ideal=True)


def estimate_in_network(shape: ProblemShape) -> Estimate | None:
    """Reductions in switches, if any switch reduces."""
    module = shape.module
    if not shape.reduces or module.schedule is not None or module.relays or not has_reducing_switch(module.network):
        return None
    return Estimate(5 * shape.transfers, 10.0)


def estimate_tacos(shape: ProblemShape) -> Estimate | None:
    """`tacos`: without switches."""
    if shape.has_switches:
        return None
    compiled = is_compiled(shape.module.network.device_count, shape.pairs // shape.phases)
    plain = (6 if shape.is_shared else 20) * shape.transfers
    work = LOAD + (1 if shape.is_shared else 6) * shape.transfers if compiled else plain
    return Estimate(work, 6.0 if shape.is_shared else 4.0, searches=True)


def estimate_pccl(shape: ProblemShape) -> Estimate:
    """Chunks with several targets are searched for from all that have them, compiled if a phase is large."""
    if not shape.is_shared:
        compiled = shape.transfers > COMPILED_TRANSFERS
        return Estimate(LOAD + 3 * shape.transfers if compiled else 12 * shape.transfers, 9.0, searches=True)
    work = TREE_TARGET * shape.transfers + TREE_LINK * shape.tree_growth
    if work > MOST_PLAIN * min(2, shape.phases):
        work = LOAD + work / COMPILED_TIMES
    return Estimate(int(work), 6.0 if shape.has_switches else 4.0, searches=True)


def estimate_swarm(shape: ProblemShape) -> Estimate:
    """If chunks go from few NPUs, or through switches with few slots, it is seldom far from the best."""
    module, network = shape.module, shape.module.network
    work = attempt_work(shape.switch_paths, shape.npus, shape.transfers)
    if shape.is_shared and any(len(run.group) < shape.npus for run in module.demand.runs):
        work *= 2  # NPUs outside the group relay
    is_served = not network.has_limited_buffers and not (shape.reduces and bool(network.multicast.any()))
    if is_served and work >= shape.phases * COMPILED_ATTEMPT:
        work = LOAD + work // COMPILED_TIMES
    crowded = shape.few_hold or network.has_limited_buffers
    near = shape.has_switches and shape.is_shared and crowded and shape.is_bandwidth_bound
    work += 5_000 + (15 * shape.switch_paths if shape.has_switches else 0)
    return Estimate(work, 12.0 if shape.few_hold else 10.0, searches=True, near_ideal=near)


def estimate_by_dimension(shape: ProblemShape) -> Estimate | None:
    """Not if `symmetric` applies: it uses the same dimensions, and was never the longer one."""
    if shape.is_symmetric or find_dimensions(shape.module.network) is None:
        return None
    return Estimate(5_000 + 20 * shape.transfers, 3.0)


def estimate_forest(shape: ProblemShape) -> Estimate | None:
    """`forest`: one run that gathers to, or reduces from, all of its group; if bandwidth decides, near the best."""
    module, run = shape.module, shape.module.demand.runs[0]
    if module.schedule is not None or module.network.has_limited_buffers or len(module.demand.runs) > 1:
        return None
    collective = None if run.standard is None else run.standard.shape
    if collective is None or not (collective.phases > 0 or (collective.pairs and len(run.group) == 2)):
        return None
    compiled = 2 * shape.transfers > COMPILED_TRANSFERS
    pairs = module.network.link_count * shape.npus
    flows = max(min(COMPILED_TRANSFERS, 2 * pairs), pairs // FLOW_PAIRS)
    work = (LOAD + shape.transfers if compiled else 6 * shape.transfers) + min(2, shape.phases) * flows
    near = shape.is_shared and shape.is_bandwidth_bound
    return Estimate(30_000 + work, 8.0 if near else 4.0, searches=True, near_ideal=near)


def estimate_overlapped(shape: ProblemShape) -> Estimate | None:
    """`overlapped`: reductions without switches."""
    if shape.has_switches or not shape.reduces:
        return None
    work = 5 * shape.transfers if shape.transfers <= COMPILED_TRANSFERS else LOAD + shape.transfers
    return Estimate(work, 4.0, searches=True)


def estimate_exchange(shape: ProblemShape) -> Estimate | None:
    """If latencies decide, its first schedule, an exchange of all NPUs, is the best by far, and needs no search."""
    if obstacle(shape.module):
        return None
    if shape.is_latency_bound:
        return Estimate(30_000 + 20 * shape.transfers, 16.0, searches=True, near_ideal=True)
    work = 25 * shape.transfers + 12 * shape.module.network.link_count * shape.npus
    return Estimate(40_000 + work, 6.0, searches=True)


def estimate_one_shot(shape: ProblemShape) -> Estimate | None:
    """`one_shot`: only for buffers so small that latencies decide, and in files only of few partials."""
    many = shape.module.relays and shape.pairs > 2 * MOST_RELAYED_IN_FILES
    if many or one_shot.obstacle(shape.module) or not shape.is_latency_bound_one_shot:
        return None
    trees = one_shot.LINK_WORK * shape.module.network.link_count * shape.npus
    return Estimate(trees + 2 * len(shape.module.demand.chunks) * shape.npus**2, 16.0, near_ideal=True)
