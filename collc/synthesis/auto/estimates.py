"""For each synthesizer: whether it applies to a problem, the work of its first schedule, and how promising it is.

Work is counted as WorkMeter does, in microseconds of plain Python. The constants were fitted to the CPU time of first
schedules on random programs (docs/synthesis.md has the table).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from collc.synthesis.auto.shape import ProblemShape
from collc.synthesis.exchange.synthesizer import obstacle
from collc.synthesis.in_network.synthesizer import has_reducing_switch
from collc.synthesis.one_shot import synthesizer as one_shot
from collc.synthesis.pccl.synthesizer import COMPILED_TIMES, PLAIN_WORK, TREE_LINK, TREE_TARGET
from collc.synthesis.swarm.synthesizer import COMPILED_ATTEMPT, attempt_work
from collc.synthesis.swarm.synthesizer import COMPILED_TIMES as SWARM_TIMES
from collc.synthesis.tacos.synthesizer import is_compiled
from collc.synthesis.task import WorkMeter
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network

COMPILED_TRANSFERS: Final = 50_000
"""Transfers above which kernels are compiled, about."""

COMPILED_FOREST: Final = 20_000
"""The same of forest."""

MOST_FLOWS: Final = 50_000
"""Work of the flows of forest in each phase, at most, if they run plain."""

COMPILED_FLOWS: Final = 16
"""Links x NPUs of the compiled flows of forest for a unit of work."""

PATH_WORK: Final = 15
"""Work of a path over switches that swarm may use."""

WORK_PER_SECOND: Final = 1_000_000
"""Work that is done in a second, about."""

LOAD: Final = 300_000
"""Work of loading Numba and a compiled kernel."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """work: of the first schedule. promise: about how often such a schedule is the best; a weight, not a share.
    searches: whether more work can give a shorter schedule. failing: the work after which it is known to fail.
    near_ideal: whether the schedule is likely to be near the best possible one, so that it is worth much work.
    whole: whether the whole search is, and comes before other expensive ones.
    """

    work: int
    promise: float
    searches: bool = False
    failing: int = 1_000
    near_ideal: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule.

    network: the one whose links it uses. build: plans, and counts its work. least: picoseconds that its schedule takes
    at least; raises CollcError if it finds none. None: not known before.
    """

    name: str
    network: Network
    estimate: Estimate
    build: Callable[[WorkMeter], Module]
    least: Callable[[], int] | None = None


def bound_work(network: Network, demand: Demand) -> int:
    """The work of a lower bound. What goes from NPU to NPU, and several runs, need prices of links."""
    standards = [run.standard for run in demand.runs]
    shared = len(standards) == 1 and standards[0] is not None and standards[0].kind != "all_to_all"
    return 20_000 + 600 * len(network.npus) if shared else 30_000 + 1_500 * len(network.npus)


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
    large = is_compiled(shape.module.network.device_count, shape.pairs // shape.phases)
    plain = (6 if shape.is_shared else 20) * shape.transfers
    work = LOAD + (1 if shape.is_shared else 6) * shape.transfers if large else plain
    return Estimate(work, 6.0 if shape.is_shared else 4.0, searches=True)


def estimate_pccl(shape: ProblemShape) -> Estimate:
    """Chunks with several targets are searched for from all that have them, compiled if a phase is large."""
    if not shape.is_shared:
        compiled = shape.transfers > COMPILED_TRANSFERS
        return Estimate(LOAD + 3 * shape.transfers if compiled else 12 * shape.transfers, 9.0, searches=True)
    work = TREE_TARGET * shape.transfers + TREE_LINK * shape.tree_growth
    if work > PLAIN_WORK * (2 if shape.phases > 1 else 1):
        work = LOAD + work / COMPILED_TIMES
    return Estimate(int(work), 6.0 if shape.has_switches else 4.0, searches=True)


def estimate_swarm(shape: ProblemShape) -> Estimate:
    """Where chunks go from few NPUs, or through switches with few places, it is seldom far from the best."""
    paths, network = shape.switch_paths, shape.module.network
    relayed = shape.has_outsiders and shape.is_shared
    work = attempt_work(paths, shape.npus, shape.transfers) * (2 if relayed else 1)
    is_served = not network.has_limited_buffers and not (shape.reduces and bool(network.multicast.any()))
    if is_served and work >= shape.phases * COMPILED_ATTEMPT:
        work = LOAD + work // SWARM_TIMES
    work += 5_000 + (PATH_WORK * paths if shape.has_switches else 0)
    crowded = shape.few_hold or network.has_limited_buffers
    near = shape.has_switches and shape.is_shared and crowded and shape.is_bandwidth_bound
    return Estimate(work, 12.0 if shape.few_hold else 10.0, searches=True, near_ideal=near)


def estimate_by_dimension(shape: ProblemShape) -> Estimate | None:
    """Not if `symmetric` applies: it uses the same dimensions, and was never the longer one."""
    if not shape.has_dimensions or shape.is_symmetric:
        return None
    return Estimate(5_000 + 20 * shape.transfers, 3.0)


def estimate_forest(shape: ProblemShape) -> Estimate | None:
    """`forest`: if bandwidth decides, its trees are near the best, and its whole search comes early."""
    module = shape.module
    if module.schedule is not None or not shape.is_one_collective or module.network.has_limited_buffers:
        return None
    near = shape.is_shared and shape.is_bandwidth_bound
    phases = 2 if shape.phases > 1 else 1  # up and down at once, too
    compiled = shape.transfers > COMPILED_FOREST
    each = (1 if compiled else 6) * shape.transfers
    pairs = module.network.link_count * shape.npus
    flows = phases * max(min(MOST_FLOWS, 2 * pairs), pairs // COMPILED_FLOWS)
    work = each + flows + (LOAD if compiled else 0)
    return Estimate(30_000 + work, 8.0 if near else 4.0, searches=True, near_ideal=near, whole=near)


def estimate_overlapped(shape: ProblemShape) -> Estimate | None:
    """`overlapped`: reductions without switches."""
    if shape.has_switches or not shape.reduces:
        return None
    work = 5 * shape.transfers if shape.transfers <= COMPILED_TRANSFERS else LOAD + shape.transfers
    return Estimate(work, 4.0, searches=True)


def estimate_exchange(shape: ProblemShape) -> Estimate | None:
    """Where latencies decide, its first schedule, an exchange of all NPUs, is the best by far, and needs no search."""
    if obstacle(shape.module):
        return None
    if shape.is_latency_bound:
        return Estimate(30_000 + 20 * shape.transfers, 16.0, searches=True, near_ideal=True)
    work = 25 * shape.transfers + 12 * shape.module.network.link_count * shape.npus
    return Estimate(40_000 + work, 6.0, searches=True)


def estimate_one_shot(shape: ProblemShape) -> Estimate | None:
    """`one_shot`: only for buffers so small that latencies decide."""
    if one_shot.obstacle(shape.module) or not shape.is_latency_bound_one_shot:
        return None
    trees = one_shot.LINK_WORK * shape.module.network.link_count * shape.npus
    return Estimate(trees + 2 * len(shape.module.demand.chunks) * shape.npus**2, 16.0, near_ideal=True)
