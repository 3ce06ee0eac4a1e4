"""The trees that forest tries.

Many trees load the links more evenly than few. But few trees differ less from each other and give better schedules:
All-Gather of 1 GiB in 256 chunks on two nodes of A100 reaches 0.984 of the optimum with 256 trees for each root, and
0.997 with 8. For small buffers shallow trees are better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from collc.graph.translations import find_translations
from collc.synthesis.forest.counts import TreeCount
from collc.synthesis.forest.problem import ForestProblem, TreeBatch
from collc.synthesis.forest.rerouting import Rerouting
from collc.ten.translations import Translations

SHALLOW = (1024, 256, 4096)
"""How much latency counts when trees are grown; see Rerouting.trees."""

GROWN = 60
"""Edges that rerouting looks at in the time in which one transfer is scheduled."""

EVEN = 1.005
"""Translated trees have little load if it is at most this multiple of the least one."""

MOST_GROWN = 200_000_000
"""Edges that one rerouting may look at if there are fewer trees to choose."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Trees that may be built.

    time: at least, until the busiest pair has carried all chunks. work: to build them. translations: those that take
    the trees built to all others. build: the trees, and the time until the busiest pair has carried all chunks.
    """

    time: Fraction
    work: int
    translations: Translations | None
    build: Callable[[], tuple[list[TreeBatch], float]]


def gather_candidates(
    problem: ForestProblem, counts: Sequence[TreeCount], stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Translated trees, then trees of each member; of each kind those with the least load first.

    If translations take each NPU to every other one, translated trees are the best but for a percent, and others
    are tried only if they would load links less. stop: ends the growing of trees early.
    """
    translations = find_translations(problem.network) if problem.is_uniform else None
    if translations is not None:
        grown = Rerouting(problem, translations, stop=stop)
        transitive = translations.count == len(problem.members)
        for shallow in SHALLOW if transitive else SHALLOW[:1]:
            yield from (_candidate(grown, count, shallow, translations) for count in counts)
        if transitive and grown.least is not None and grown.least <= EVEN * float(counts[0].time):
            return
    grown = Rerouting(problem, stop=stop)
    small = [count for count in counts if grown.work(count) <= MOST_GROWN] or counts[-1:]
    yield from (_candidate(grown, count, shallow) for shallow in SHALLOW for count in small)


def summed_candidates(
    problem: ForestProblem, counts: Sequence[TreeCount], stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Trees that load both directions of a pair alike."""
    grown = Rerouting(problem, undirected=True, stop=stop)
    for shallow in (SHALLOW[1], SHALLOW[0]):
        yield from (_candidate(grown, count, shallow) for count in counts)


def _candidate(grown: Rerouting, count: TreeCount, shallow: int, translations: Translations | None = None) -> Candidate:
    return Candidate(count.time, grown.work(count) // GROWN, translations, lambda: grown.trees(count, shallow))
