"""Matching driven by events, for links, sizes or link models that differ.

Whenever a link becomes free or a chunk arrives, the idle links into the devices concerned take chunks that their
sources hold at that time. So every schedule is causal.

Component rule: for each link, consider the strongly connected components of the graph of all cheaper links. The link
brings only chunks that are neither in the component of its target nor being sent into it; the component gets all other
chunks over cheaper links. The link brings any chunk if the cheaper links could not deliver all that the target lacks by
a deadline.
"""

from __future__ import annotations

import random
from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from collc.base.memory import require_for_search
from collc.graph.digraph import Digraph, strongly_connected
from collc.kernels.compiled import as_words, numbers, version_of, word_shape, words_of, zeros
from collc.synthesis.tacos.problem import CopyProblem
from collc.synthesis.timeline import interval_table
from collc.ten.arrays import BoolArray, Int32Array, Int64Array

if TYPE_CHECKING:
    from collc.kernels.matching_events import ChunkSets, EventChunks, EventNetwork, EventProgress

FOREVER = 1 << 62

BATCH = 1 << 14
"""Transfers between two calls of `go_on`."""


@dataclass(frozen=True, eq=False)
class CostLevels:
    """Links by cost, cheap ones first, for the component rule.

    of_link: int64[links], the level of each. component: int32[levels, devices], the lowest device of the strongly
    connected component of each device over the links of all lower levels.
    """

    of_link: Int64Array
    component: Int32Array

    @property
    def count(self) -> int:
        """How many levels there are."""
        return len(self.component)


def cost_levels_of(problem: CopyProblem) -> CostLevels:
    """The levels by the time that the largest chunk takes."""
    network = problem.network
    kinds = np.unique(network.kind)
    costs, rank = np.unique(problem.total[kinds, -1], return_inverse=True)
    by_kind = np.zeros(len(network.kinds), np.int64)
    by_kind[kinds] = rank.reshape(-1)
    level = by_kind[network.kind]
    component = np.zeros((len(costs), problem.devices), np.int32)
    for bound in range(len(costs)):
        kept = level < bound
        graph = Digraph(problem.devices, network.source[kept], network.target[kept])
        component[bound] = strongly_connected(graph)
    return CostLevels(level, component)


@dataclass(frozen=True, slots=True)
class EventRule:
    """Which chunk an idle link takes.

    fifo: the one that its source got first; else the one that the fewest incoming links of the target could bring, of
    these the one that the fewest devices have. deadline: picoseconds, see above. tie_seed: tie-break seed, which
    renumbers the chunks; None: ties go to the lower number.
    """

    fifo: bool
    deadline: int
    tie_seed: int | None = None


@dataclass(frozen=True, slots=True)
class MatchedTransfers:
    """Transfers in the order in which they were planned, and when the last one arrives.

    chunk, link: int32, chunks as the problem numbers them. start: int64, picoseconds.
    """

    chunk: Int32Array
    link: Int32Array
    start: Int64Array
    end: int


class EventMatching:
    """Event-driven matching of one problem under any rules.

    compile_it: run compiled kernels; the result is the same.
    """

    def __init__(self, problem: CopyProblem, levels: CostLevels, compile_it: bool) -> None:
        self._problem, self._levels, self._large = problem, levels, compile_it
        self._number = np.lexsort((levels.of_link, problem.network.target))
        self._network = self._event_network()

    def transfers(
        self,
        rule: EventRule,
        limit: int | None = None,
        go_on: Callable[[float, int], bool] = lambda _share, _looks: True,
    ) -> MatchedTransfers | None:
        """Plans all transfers by a rule; None if that takes more than `limit` picoseconds, or `go_on` returns False.

        go_on: called now and then with the share of the transfers that is planned, and how often links were looked at.
        """
        from collc.kernels import matching_events as kernels

        problem = self._problem
        begin, run = version_of(kernels.begin, self._large), version_of(kernels.run, self._large)
        names = list(range(problem.count))
        if rule.tie_seed is not None:
            random.Random(rule.tie_seed).shuffle(names)
        name = np.array(names, np.int64)
        wanted = self._wanted_table(name)
        chunks, sets, progress = self._event_chunks(name), self._chunk_sets(wanted), self._progress()
        begin(self._network, chunks, sets, progress)
        verdict = kernels.RUNNING
        while verdict == kernels.RUNNING:
            verdict = run(
                self._network,
                chunks,
                sets,
                progress,
                rule.fifo,
                rule.deadline,
                FOREVER if limit is None else limit,
                BATCH,
            )
            share = progress.counters[kernels.COUNT] / max(1, problem.missing_count)
            if not go_on(share, int(progress.counters[kernels.LOOKS])):
                return None
        if verdict == kernels.STUCK:
            raise AssertionError("a wanted chunk cannot be reached")
        if verdict == kernels.TOO_LONG:
            return None
        table = np.asarray(progress.transfers, np.int32).reshape(-1, kernels.TRANSFER_ROW)
        return MatchedTransfers(
            np.argsort(name).astype(np.int32)[table[:, kernels.CHUNK]],
            self._number.astype(np.int32)[table[:, kernels.LINK]],
            np.asarray(progress.start, np.int64),
            int(progress.counters[kernels.END]),
        )

    def _numbers(self, values: Int32Array | Int64Array) -> MutableSequence[int]:
        """Values as the kernels take them."""
        return numbers(values, self._large)

    def _event_network(self) -> EventNetwork:
        from collc.kernels.matching_events import EventNetwork

        problem, network, devices = self._problem, self._problem.network, self._problem.devices
        ahead_first, ahead_word, ahead = self._next_devices()
        _, shift, mask = word_shape(devices, self._large)
        reserved, starts, ends = interval_table(problem.reserved, self._number.tolist())
        return EventNetwork(
            first=self._numbers(network.in_links[0]),
            scopes=self._numbers(self._scopes().T.ravel()),
            ahead_first=ahead_first,
            ahead_word=ahead_word,
            ahead=ahead,
            total=self._numbers(problem.total.ravel()),
            busy=self._numbers(problem.busy.ravel()),
            sizes=problem.total.shape[1],
            reserved=self._numbers(reserved),
            starts=self._numbers(starts),
            ends=self._numbers(ends),
            shift=shift,
            mask=mask,
        )

    def _scopes(self) -> Int64Array:
        """int64[levels, devices]: the first word of the set `inside` of the component of each device."""
        words, _, _ = word_shape(self._problem.count, self._large)
        rows = np.arange(self._levels.count)[:, None] * self._problem.devices
        return (rows + self._levels.component).astype(np.int64) * words

    def _next_devices(self) -> tuple[MutableSequence[int], MutableSequence[int], MutableSequence[int]]:
        """`ahead_first`, `ahead_word` and `ahead` of EventNetwork."""
        network, devices = self._problem.network, self._problem.devices
        _, shift, mask = word_shape(devices, self._large)
        pairs = np.unique(network.source.astype(np.int64) * devices + network.target)
        word_of: dict[tuple[int, int], int] = {}
        for source, target in zip((pairs // devices).tolist(), (pairs % devices).tolist(), strict=True):
            key = source, target >> shift
            word_of[key] = word_of.get(key, 0) | 1 << (target & mask)
        first = np.searchsorted(np.array([source for source, _ in word_of]), np.arange(devices + 1))
        word = np.array([word for _, word in word_of], np.int64)
        return self._numbers(first), self._numbers(word), as_words(list(word_of.values()), self._large)

    def _event_chunks(self, name: Int64Array) -> EventChunks:
        """name: int64[K], what each chunk is renumbered to."""
        from collc.kernels.matching_events import EventChunks

        problem = self._problem
        device, chunk = problem.initial_copies
        release = problem.release[chunk]
        order = np.lexsort((device, name[chunk], release))
        size = np.empty(problem.count, np.int64)
        size[name] = problem.size_of
        words, shift, mask = word_shape(problem.count, self._large)
        return EventChunks(
            size=self._numbers(size),
            release=self._numbers(release[order]),
            holder=self._numbers(device[order]),
            given=self._numbers(name[chunk][order].astype(np.int32)),
            words=words,
            shift=shift,
            mask=mask,
        )

    def _wanted_table(self, name: Int64Array) -> BoolArray:
        """bool[devices, K]: which chunk, as renumbered, each device lacks."""
        problem = self._problem
        size = 2 * problem.devices * problem.count
        require_for_search(size, f"{problem.count:,} chunks on {problem.devices:,} devices")
        wanted = np.zeros((problem.devices, problem.count), np.bool_)
        for group in np.unique(problem.want).tolist():
            wanted[np.ix_(problem.sets[group], name[problem.want == group])] = True
        device, chunk = problem.initial_copies
        wanted[device, name[chunk]] = False
        return wanted

    def _chunk_sets(self, wanted: BoolArray) -> ChunkSets:
        """The sets before any chunk is anywhere."""
        from collc.kernels.matching_events import ChunkSets

        devices, count = wanted.shape
        words, _, _ = word_shape(count, self._large)
        links = int(np.diff(self._problem.network.in_links[0]).max())
        lacks = wanted.sum(axis=1)
        room = lacks + np.bincount(self._problem.initial_copies[0], minlength=devices)
        table = np.stack([np.cumsum(room) - room, np.zeros(devices, np.int64), lacks], axis=1)
        return ChunkSets(
            devices=self._numbers(table.ravel()),
            have=zeros(devices * words, self._large),
            need=words_of(wanted, self._large),
            inside=zeros(self._levels.count * devices * words, self._large),
            order=zeros(len(self._problem.initial_copies[0]) + self._problem.missing_count, self._large, np.int32),
            spread=zeros(count, self._large),
            exact=zeros((links + 2) * words, self._large),
        )

    def _progress(self) -> EventProgress:
        """The begin: nothing is planned, and no event is to come."""
        from collc.kernels.matching_events import COUNTER_ROW, FREE, LINK_ROW, TRANSFER_ROW, EventProgress

        problem = self._problem
        classes, links, missing = problem.total.size, problem.network.link_count, problem.missing_count
        woken, _, _ = word_shape(problem.devices, self._large)
        network, level = problem.network, self._levels.of_link
        table = np.zeros((links, LINK_ROW), np.int64)
        first_class = network.kind.astype(np.int64) * problem.total.shape[1]
        columns = (network.source, network.target, first_class, level, self._scopes()[level, network.target])
        table[:, :FREE] = np.stack(columns, axis=1)[self._number]
        return EventProgress(
            counters=zeros(COUNTER_ROW, self._large),
            links=self._numbers(table.ravel()),
            transfers=zeros(missing * TRANSFER_ROW, self._large, np.int32),
            start=zeros(missing, self._large),
            head=self._numbers(np.full(2 * classes, -1)),
            tail=self._numbers(np.full(2 * classes, -1)),
            times=zeros(2 * classes + links + 1, self._large),
            queues=zeros(2 * classes + links + 1, self._large),
            due=zeros(classes, self._large),
            woken=zeros(woken, self._large),
        )
