"""How many trees begin at each member, and shallow trees that are grown one after another along the links with the
least load.

Many trees load the links more evenly than few. But few trees differ less from each other and give better schedules:
All-Gather of 1 GiB in 256 chunks on two nodes of A100 reaches 0.984 of the optimum with 256 trees for each root, and
0.997 with 8. For small buffers shallow trees are better.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.base.memory import require_for_search
from collc.base.wording import plural
from collc.graph.throughput import tree_capacities
from collc.graph.translations import find_translations
from collc.kernels.compiled import BATCH, numbers, runs_compiled, version_of
from collc.kernels.tree_rerouting import LEVELS, UNREACHED, TreeGraph, reroute
from collc.synthesis.forest.problem import ForestProblem, Path, TreeBatch
from collc.ten.arrays import Int64Array
from collc.ten.factored_schedule import Translations

SHALLOW = (1024, 256, 4096)
"""How much latency counts when trees are grown; see Rerouting.trees."""

ENOUGH = 1.005
"""The search ends at a load, and at a schedule, that exceeds the least one by no more than this factor."""

STEEPNESS = (2, 4, 8, 16, 32, 64)
"""How steep the price of load is: exp(steepness x (load / aim - 1)), in one series of rounds after another."""

ROUNDS = 3
"""How often each tree is grown with one price."""

_UNIT = 1024
"""The cost of the widest link at its aim, and of the longest latency."""

_NARROWEST = 100_000
"""Links narrower than the widest one by more than this count as so narrow, so that costs fit in 64 bits."""


@dataclass(frozen=True, eq=False)
class TreeCount:
    """How many trees, and their load.

    trees: all of them. demand: by member, trees that begin there; None: they begin at the centres in turn. carried: by
    pair of devices, trees that it can carry. duration, time: until the busiest pair has carried a chunk for each tree,
    and all chunks, in units of 1 / capacity.
    """

    trees: int
    demand: list[int] | None
    carried: Int64Array
    duration: Fraction
    time: Fraction


def tree_counts(problem: ForestProblem) -> list[TreeCount]:
    """One tree for each chunk, for two, four and so on; those with the least load first, of equals those of few trees.

    Left out are those that need more trees than others with less load. The time of the first one is a lower bound of
    all schedules of these chunks. Raises ValueError if no path leads from a member with chunks to another,
    OverflowError as tree_capacities does.
    """
    counts: list[TreeCount] = []
    for power in range(1 + (max(problem.demand) - 1).bit_length()):
        demand = [-(-chunks >> power) for chunks in problem.demand]
        carried, time = tree_capacities(problem.graph, problem.capacity, problem.members.tolist(), demand)
        counts.append(TreeCount(sum(demand), demand, carried, time, time * 2**power))
    counts.sort(key=lambda count: (count.time, count.trees))
    kept: list[TreeCount] = []
    for count in counts:
        if not kept or count.time == kept[0].time or count.trees < kept[-1].trees:
            kept.append(count)
    return kept


def summed_counts(problem: ForestProblem, rate: Fraction) -> list[TreeCount]:
    """Trees that are used up and down, rooted at the members with the shortest paths to all.

    rate: of the buffer, see reduce_rate. Numbers near that of the members come first: many trees share the load evenly,
    but each has fewer chunks to pass on one after another.
    """
    total, members = sum(problem.demand), len(problem.members)
    widths, number = np.unique(problem.capacity, return_inverse=True)
    counts: list[TreeCount] = []
    for power in range(1 + (total - 1).bit_length()):
        trees = -(-total >> power)
        duration = Fraction(trees) / rate
        carried = np.array([math.ceil(width * duration) for width in widths.tolist()], np.int64)[number]
        counts.append(TreeCount(trees, None, carried, duration, duration * 2**power))
    return sorted(counts, key=lambda count: abs(math.log2(count.trees / members)))


Candidate = tuple["Rerouting", TreeCount, int]
"""Trees that may be built: by what, how many, and how shallow (see Rerouting.trees)."""


def gather_candidates(
    problem: ForestProblem, counts: Sequence[TreeCount], stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Translated trees, then trees of each member; of each kind few trees first, if their load is not twice the least.

    More trees than the least load needs come only while those that were grown have more load. If translations take
    each NPU to every other one, translated trees are the best but for a percent, and others are tried only if they
    would load links less. stop: ends the growing of trees early.
    """
    translations = find_translations(problem.network) if problem.is_uniform else None
    if translations is not None:
        grown = Rerouting(problem, translations, stop=stop)
        transitive = translations.count == len(problem.members)
        for shallow in SHALLOW if transitive else SHALLOW[:1]:
            yield from _few_first(grown, counts, shallow)
        if transitive and grown.has_reached(counts[0].time):
            return
    grown = Rerouting(problem, stop=stop)
    for shallow in SHALLOW:
        yield from _few_first(grown, counts, shallow)


def _few_first(grown: Rerouting, counts: Sequence[TreeCount], shallow: int) -> Iterator[Candidate]:
    """All numbers of trees; those with twice the least load later, and of those with the least only the first that have
    it.
    """
    enough, least = counts[0].trees, counts[0].time
    for count in sorted(counts, key=lambda count: (count.time // least, count.trees)):
        if count.trees <= enough or not grown.has_reached(count.time):
            yield grown, count, shallow


def summed_candidates(
    problem: ForestProblem, counts: Sequence[TreeCount], stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Trees that load both directions of a pair alike."""
    grown = Rerouting(problem, undirected=True, stop=stop)
    yield from ((grown, count, shallow) for shallow in (SHALLOW[1], SHALLOW[0]) for count in counts)


def least_work(problem: ForestProblem) -> int:
    """Edges that are looked at, about, for one tree of each member with chunks, or of one member of each orbit. No
    candidate takes less.
    """
    translations = find_translations(problem.network) if problem.is_uniform else None
    roots = int(np.count_nonzero(problem.demand)) if translations is None else len(translations.orbits)
    return roots * _edges_of_tree(problem)


def _edges_of_tree(problem: ForestProblem) -> int:
    """Edges that are looked at to grow a tree, about: all of them, and those of a switch once for each member."""
    graph = problem.graph
    switches = np.setdiff1d(np.arange(graph.vertex_count), problem.members)
    degree = np.bincount(graph.source, minlength=graph.vertex_count)[switches]
    return ROUNDS * (graph.edge_count + int((degree**2).sum()))


class Rerouting:
    """Grows trees on one problem, all of them or, with translations, those of one representative of each orbit.

    undirected: whether each tree is used in both directions, so that it loads both directions of a pair of devices;
    then each pair must have both, with equal capacity. stop: asked after each series of rounds; if it returns True,
    the trees so far are taken.
    least: of all trees grown so far, the least time until the busiest pair has carried all chunks. spent: microseconds
    of compiled code that the last ones took, about.
    """

    def __init__(
        self,
        problem: ForestProblem,
        translations: Translations | None = None,
        undirected: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._problem, self.translations, self._stop = problem, translations, stop
        graph = problem.graph
        member = np.zeros(graph.vertex_count, np.int64)
        member[problem.members] = 1
        into, out = graph.reverse().out_edges, graph.out_edges
        self._graph = (*out, *into, graph.source, graph.target, member)
        self._kind = np.arange(graph.edge_count)
        if translations is not None:
            lowest = np.minimum.reduceat(translations.link_class[problem.links[1]], problem.links[0][:-1])
            self._kind = np.unique(lowest, return_inverse=True)[1]
        elif undirected:
            self._kind = np.unique(problem.undirected_pair, return_inverse=True)[1]
        self._members = frozenset(problem.members.tolist())
        self._room = 4
        self.least: float | None = None
        self.spent = 0

    def has_reached(self, time: Fraction) -> bool:
        """Whether trees with hardly more load than a time have been grown."""
        return self.least is not None and self.least <= ENOUGH * float(time)

    def work(self, count: TreeCount) -> int:
        """Edges that are looked at, about."""
        trees = count.trees
        if self.translations is not None:
            trees = len(self.translations.orbits) * trees // len(self._problem.members)
        return trees * _edges_of_tree(self._problem)

    def trees(self, count: TreeCount, shallow: int, work: int | None = None) -> tuple[list[TreeBatch], float]:
        """The trees with the least load that were found, and the time until the busiest pair has carried all chunks.

        shallow: how much the latency from the root counts beside the load. The time is in units of 1 / capacity. work:
        microseconds of compiled code that it may take, about; None: any. Raises ValueError if no path leads to a
        member, NoSchedule if it takes more work.
        """
        roots, aim = self._roots(count), self._aim(count)
        rounds = ROUNDS if len(roots) > 1 else 1  # a tree alone grows the same way again
        compile_it = runs_compiled(reroute, self.work(count))
        grow = version_of(reroute, compile_it)
        members = len(self._problem.members)
        most = self._room * members
        require_for_search(8 * len(roots) * most, f"paths of {plural(len(roots), 'tree')} to {members:,} NPUs")
        load = numbers(np.zeros(len(aim), np.int64), compile_it)
        rows = numbers(np.zeros(len(roots) * most, np.int64), compile_it)
        lengths = numbers(np.full(len(roots), -1), compile_it)
        left = numbers(np.array([0, UNREACHED if work is None else work * BATCH // 100_000]), compile_it)
        cost = self._cost(shallow)
        best: tuple[float, Int64Array, Int64Array] | None = None
        for steepness in STEEPNESS:
            given = (roots, *self._graph, cost, self._kind, aim, prices(steepness))
            first, *columns = (numbers(column.astype(np.int64), compile_it) for column in given)
            end = grow(first, TreeGraph(*columns), rounds, most, load, rows, lengths, left)
            self.spent = int(left[0]) * 100_000 // BATCH
            if end == -1:
                self._room *= 2
                return self.trees(count, shallow, work)
            if end == -3:
                raise NoSchedule(Diagnostic("S0201", "the trees take more work than the search has left"))
            if end < 0:
                raise ValueError("no path leads from a member to another")
            time = self._time(np.array(load))
            if best is None or time < best[0]:
                best = time, np.array(rows).reshape(len(roots), most), np.array(lengths)
            if bool((np.array(load) <= aim).all()) or self._stop():
                break
        assert best is not None
        whole = best[0] * float(count.time / count.duration)
        self.least = whole if self.least is None else min(whole, self.least)
        return self._batches(roots.tolist(), best[1], best[2].tolist()), whole

    def _roots(self, count: TreeCount) -> Int64Array:
        members = self._problem.members.astype(np.int64)
        if count.demand is None:
            centres = self._problem.centres
            return members[np.sort(centres[np.arange(count.trees) % len(centres)])]
        if self.translations is not None:
            return np.repeat(self.translations.orbits[:, 0].astype(np.int64), count.demand[0])
        return np.repeat(members, count.demand)

    def _shares(self) -> Int64Array:
        """By kind, how many translations of a tree's edge are on each pair of the kind."""
        if self.translations is None:
            return np.ones(int(self._kind.max()) + 1, np.int64)
        return self.translations.count // np.bincount(self._kind)

    def _aim(self, count: TreeCount) -> Int64Array:
        """By kind of pair, the load of one representative that it can carry."""
        aim = np.zeros(int(self._kind.max()) + 1, np.int64)
        aim[self._kind] = count.carried
        return np.maximum(1, aim // self._shares())

    def _time(self, load: Int64Array) -> float:
        """Until the busiest pair has carried its trees."""
        return float((load[self._kind] * self._shares()[self._kind] / self._problem.capacity).max())

    def _cost(self, shallow: int) -> Int64Array:
        """By pair: what its load costs, and what its latency costs."""
        problem = self._problem
        time = problem.total[problem.fastest]
        width = np.minimum(_NARROWEST * _UNIT, _UNIT * int(problem.capacity.max()) // problem.capacity)
        return np.stack([width, shallow * _UNIT * time // int(time.max())], axis=1).ravel()

    def _batches(self, roots: list[int], rows: Int64Array, lengths: list[int]) -> list[TreeBatch]:
        """The trees as batches, equal ones together."""
        amounts = Counter[tuple[int, tuple[Path, ...]]]()
        for root, row, length in zip(roots, rows, lengths, strict=True):
            amounts[root, self._paths(row[:length].tolist())] += 1
        number = {npu: position for position, npu in enumerate(self._problem.members.tolist())}
        return [TreeBatch(number[root], amount, paths) for (root, paths), amount in amounts.items()]

    def _paths(self, edges: list[int]) -> tuple[Path, ...]:
        """The edges of a tree as paths from member to member."""
        graph, paths, path = self._problem.graph, list[Path](), list[int]()
        for edge in edges:
            if not path:
                path.append(int(graph.source[edge]))
            path.append(int(graph.target[edge]))
            if path[-1] in self._members:
                paths.append(tuple(path))
                path = []
        return tuple(paths)


@cache
def prices(steepness: int) -> Int64Array:
    """int64[2 LEVELS]: the price of a load by its part of the aim, in steps of 1 / LEVELS; exact on all machines."""
    exponents = [min(Decimal(16), steepness * (Decimal(level + 1) / LEVELS - 1)) for level in range(2 * LEVELS)]
    return np.array([1 + int(exponent.exp() * _UNIT) for exponent in exponents], np.int64)
