"""The load that all chunks together put on the links, along shortest paths under prices of the links.

For any prices w of the links, each chunk that must get from a holder to an NPU adds to the sum of load x price at least
its bytes times the price of the cheapest path. In a time T the links carry at most T x the sum of capacity x w. This is
the dual of the multicommodity flow, and every choice of prices gives a valid bound. Good prices are found by raising
those of the links that cheapest paths load most (multiplicative weights: Plotkin, Shmoys and Tardos 1995; Arora, Hazan
and Kale 2012). On small networks the linear program gives the best prices; they are rounded, and the bound that they
prove is computed in whole numbers.

The multicommodity flow as a linear program, whose dual gives the best prices of links (Clarabel).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from collc.graph.distances import UNREACHABLE, distances_to
from collc.graph.translations import find_translations
from collc.kernels.cheapest_loads import PathTable, add_loads
from collc.kernels.compiled import STEP_TIME, numbers, runs_compiled, version_of, zeros
from collc.synthesis.bounds.cuts import MOST_SEARCHED
from collc.synthesis.bounds.fluid import SECOND, Fluid
from collc.synthesis.damage import undamaged_network
from collc.ten.arrays import Int32Array, Int64Array, unique_rows
from collc.ten.demand import ChunkTable, Demand, Op
from collc.ten.module import Bound
from collc.ten.network import Network

FloatArray = NDArray[np.float64]

MOST_FLOWS: Final = 6_000
"""Targets x links up to which the program is solved."""

PRICE_LEVELS: Final = 1 << 16
"""The levels to which prices are rounded, so that the last bits of the solver do not matter."""


def flow_prices(network: Network, capacity: Int64Array, targets: Int32Array, volume: Int64Array) -> FloatArray | None:
    """float64[links], at most 1: prices under which the cheapest paths of all bytes cost as much as all links can carry
    in the time of the best flow. None if the solver finds none.

    Minimizes the time T for flows of at least 0: for each target, what leaves a device less what enters it is what it
    has for the target, and a link carries at most capacity x T. The prices are the multipliers of the latter rows.

    capacity: int64[links]. volume: int64[targets, devices], bytes from each device to each target.
    """
    devices, links = network.device_count, network.link_count
    row, link = np.nonzero(network.source[None, :] != targets[:, None])
    flows, every = np.arange(len(row)), np.arange(links)
    kept = np.ones(len(targets) * devices, np.bool_)
    kept[np.arange(len(targets)) * devices + targets] = False
    number, balance = np.cumsum(kept) - 1, int(kept.sum())
    out, into = row * devices + network.source[link], row * devices + network.target[link]
    enters = kept[into]
    ones = np.ones(len(flows))
    rows = (number[out], number[into[enters]], balance + link, balance + links + flows, balance + every)
    columns = (flows, flows[enters], flows, flows, np.full(links, len(flows)))
    values = (ones, -ones[enters], ones, -ones, -capacity / capacity.max())
    size, height = len(flows) + 1, balance + links + len(flows)
    limits, cost = np.zeros(height), np.zeros(size)
    limits[:balance] = volume.reshape(-1)[kept] / max(1, int(volume.max()))
    cost[-1] = 1
    entries = np.concatenate(values), np.concatenate(rows), np.concatenate(columns)
    return rounded_prices(solve_program(entries, limits, balance, cost)[1][:links])


def rounded_prices(price: FloatArray) -> FloatArray | None:
    """Prices of at most 1, rounded so that the last bits of the solver do not matter; None if none is above 0."""
    most = float(price.max(initial=0.0))
    if not np.isfinite(most) or most <= 0:
        return None
    return np.rint(np.maximum(price, 0) / most * PRICE_LEVELS) / PRICE_LEVELS


def solve_program(
    entries: tuple[FloatArray, Int64Array, Int64Array], limits: FloatArray, equal: int, cost: FloatArray
) -> tuple[float, FloatArray]:
    """The least cost of variables under which rows of a table are equal to their limits, or at most these, 0 if it is
    not found exactly; and the multipliers of the latter rows.

    entries: of the table: value, row and column. limits: one a row. equal: how many rows are equal. cost: one a column.
    """
    import clarabel as package
    from scipy.sparse import csc_array as untyped  # pyright: ignore[reportMissingTypeStubs]

    clarabel, csc_array = cast("Any", package), cast("Any", untyped)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(len(limits) - equal)]
    value, row, column = entries
    table = csc_array((value, (row, column)), shape=(len(limits), len(cost)))
    nothing = csc_array((len(cost), len(cost)))
    answer = clarabel.DefaultSolver(nothing, cost, table, limits, cones, settings).solve()
    least = float(answer.obj_val) if str(answer.status) == "Solved" else 0.0
    return least, np.array(answer.z, np.float64)[equal:]


ROUNDS: Final = 80
"""Changes of the prices."""

STEP: Final = 10.0
"""How strongly the first round changes the prices: by a factor of at most exp(STEP)."""

DECAY: Final = 0.9
"""The power of the number of the round by which the changes become smaller."""

ENOUGH: Final = 0.999
"""Prices are good enough that show so much of what the mean of all rounds' paths needs."""

LARGEST_PRICE: Final = 1 << 20
"""Prices are whole numbers up to this one, so that distances are exact."""

OTHER_CHUNKS: Final = 2_000
"""The most kinds of chunks with several holders or NPUs that want them that count, those with the most bytes."""


@dataclass(frozen=True, eq=False)
class PathLoads:
    """The chunks that cross a network.

    volume: int64[targets, devices], bytes from each device to each target that nobody else holds or wants. others:
    (bytes, holders, NPUs that want them, whether all holders contribute) of other chunks, of which the longest path
    counts: that to one of the NPUs, from the nearest holder or, if they contribute, from the farthest.
    whole: the network in which paths are, that of `fluid` or what it was before it was damaged, with its links first.
    Paths are no longer there. share: how many targets each target stands for at least. alike: int32[links], the class
    of each link of `whole`: those that translations take to each other; None if each target stands for itself.
    """

    fluid: Fluid
    whole: Fluid
    targets: Int32Array
    volume: Int64Array
    others: list[tuple[int, Int32Array, Int32Array, bool]]
    share: int = 1
    alike: Int32Array | None = None

    @staticmethod
    def of(fluid: Fluid, demand: Demand) -> PathLoads | None:
        """None if no chunk has one holder and one NPU that wants it, since cuts are better for all others.

        Also none on networks that are too large.
        """
        network = fluid.network
        if not _has_pairs(demand):
            return None
        loads = PathLoads._of_one_target(fluid, demand)
        if loads is not None or network.npu_count * network.link_count > 8 * MOST_SEARCHED:
            return loads
        pairs = np.zeros((network.device_count, network.device_count), np.int64)
        others: list[tuple[int, Int32Array, Int32Array, bool]] = []
        for run in demand.runs:
            if run.standard is not None and run.standard.shape.pairs:
                pairs[np.ix_(run.group, run.group)] += run.standard.size // len(run.group)
            else:
                others += _of_table(run.pattern.expand(), pairs)
        np.fill_diagonal(pairs, 0)
        others = sorted(others, key=lambda row: -row[0])[:OTHER_CHUNKS]
        wanted = {int(target) for _, _, wanting, _ in others for target in wanting.tolist()}
        targets = np.array(sorted({*np.flatnonzero(pairs.any(axis=1)).tolist(), *wanted}), np.int32)
        return PathLoads(fluid, fluid, targets, pairs[targets], others)

    @staticmethod
    def _of_one_target(fluid: Fluid, demand: Demand) -> PathLoads | None:
        """An All-to-All of all NPUs, if translations take each of them to each other one: what one NPU wants stands for
        what all want, and links that are alike have equal prices (the mean of prices over translations is no worse).

        None if this does not hold, or for a small damaged network, on which paths round the damage count too.
        """
        network, run = fluid.network, demand.runs[0]
        if len(demand.runs) > 1 or run.standard is None or not run.standard.shape.pairs:
            return None
        if len(run.group) < len(network.npus):
            return None
        whole, translations = None, find_translations(network)
        if translations is None or translations.count < network.npu_count:
            whole = undamaged_network(network)
            if whole is None or network.npu_count * network.link_count <= MOST_SEARCHED:
                return None
            translations = find_translations(whole)
        if translations is None or translations.count < network.npu_count:
            return None
        # Each of `gone` lost NPUs is an end of as many paths as each other one.
        gone = network.npu_count - len(network.npus)
        before = fluid if whole is None else Fluid.of(whole, fluid.sizes, fluid.traffic)
        volume = np.zeros((1, network.device_count), np.int64)
        volume[:, 1 : network.npu_count] = run.standard.size // len(run.group)
        share = max(0, network.npu_count - 2 * gone)
        return PathLoads(fluid, before, np.zeros(1, np.int32), volume, [], share, translations.class_row)

    def bounds(self, known: int = 0) -> Iterator[Bound]:
        """The bounds of equal prices, of those that are 1 / bandwidth, and of the best found from there.

        known: picoseconds of a bound; the search ends if no prices show much more.
        """
        network = self.whole.network
        work = len(self.targets) * network.link_count
        if not work:
            return
        share = 1 / self.whole.capacity
        for price in (np.ones(network.link_count), share / share.max()):
            bound = self._bound(price)
            known = max(known, bound.time)
            yield bound
        if work > MOST_SEARCHED:
            return
        price, is_best = self._best_price(share, known)
        yield self._bound(price)
        if work <= MOST_FLOWS and self.alike is None and not is_best and self.volume.any():
            exact = flow_prices(network, self.fluid.capacity, self.targets, self.volume)
            yield from () if exact is None else (self._bound(exact),)

    def _best_price(self, share: FloatArray, known: int) -> tuple[FloatArray, bool]:
        """(float64[links], at most 1: the best prices of some rounds, or their mean; whether none show much more).

        share: 1 / capacity. known: see bounds.
        """
        second, longest = SECOND / float(self.whole.unit), self.fluid.longest_lag
        total, mean, loads = (np.zeros(len(share)) for _ in range(3))
        best, best_value = share, 0.0
        weight = np.full(len(share), 1 / len(share))
        for round_ in range(ROUNDS):
            price = weight * share / (weight * share).max()
            distance = self._distances(price, 1 + round_)
            value = self._value(price, distance)
            if value > best_value:
                best, best_value = price, value
            load = self._loads(price, distance, 1 + round_) * share
            loads += load
            needed = loads.max() / (1 + round_)  # over the mean of all rounds' paths: no prices show more
            if not load.any() or best_value >= ENOUGH * needed or known >= ENOUGH * (needed * second + longest):
                return best, True
            mean += weight
            total += STEP / (1 + round_) ** DECAY * load / load.max()
            weight = np.exp(total - total.max())
            weight /= weight.sum()
        price = mean * share / (mean * share).max()
        return price if self._value(price, self._distances(price)) > best_value else best, False

    def _whole_prices(self, price: FloatArray) -> Int64Array:
        return np.maximum(1, np.rint(price * LARGEST_PRICE)).astype(np.int64)

    def _distances(self, price: FloatArray, calls: int = 1) -> Int64Array:
        return distances_to(self.whole.graph, self._whole_prices(price), self.targets, calls)

    def _value(self, price: FloatArray, distance: Int64Array) -> float:
        """Work of all chunks / what the links do of it in a unit of time, without latencies."""
        reached = np.where(distance < UNREACHABLE, distance, 0)
        work = float((self.volume * reached.astype(np.float64)).sum())
        work += sum(float(bytes_ * int(reached[row, source])) for bytes_, row, source in self._ends(reached))
        return self.share * work / float(self._whole_prices(price) @ self.whole.capacity.astype(np.float64))

    def _bound(self, price: FloatArray) -> Bound:
        network, whole, distance = self.fluid.network, self._whole_prices(price), self._distances(price)
        reached = np.where(distance < UNREACHABLE, distance, 0)
        work = _dot(self.volume, reached)
        work += sum(bytes_ * int(reached[row, source]) for bytes_, row, source in self._ends(reached))
        own = whole[: network.link_count]
        busiest = int(np.argmax(own * self.fluid.capacity.astype(np.float64)))
        name = f"the links on the paths of the data, such as {network.shown_link(busiest)}"
        return Bound(self.fluid.time_of_work(own, self.share * work), name)

    def _ends(self, distance: Int64Array) -> Iterator[tuple[int, int, int]]:
        """(bytes, row of the target, source) of the path that counts of each of the other chunks."""
        row_of = {int(target): row for row, target in enumerate(self.targets.tolist())}
        for bytes_, holders, wanting, contribute in self.others:
            rows = np.array([row_of[target] for target in wanting.tolist()])
            table = distance[rows][:, holders]
            column = table.argmax(axis=1) if contribute else table.argmin(axis=1)
            row = int(table[np.arange(len(rows)), column].argmax())
            yield bytes_, int(rows[row]), int(holders[column[row]])

    def _loads(self, price: FloatArray, distance: Int64Array, calls: int) -> FloatArray:
        """float64[links]: bytes on each link if all take cheapest paths, divided evenly at each device. calls: how many
        there have been, with this one.
        """
        graph = self.whole.graph
        waiting = self.volume.astype(np.float64)
        for bytes_, row, source in self._ends(distance):
            waiting[row, source] += bytes_
        waiting[distance >= UNREACHABLE] = 0
        compiled = runs_compiled(add_loads, STEP_TIME * len(self.targets) * graph.edge_count * calls)
        farthest_first = np.argsort(-distance, axis=1, kind="stable")
        columns = *graph.out_edges, graph.target, self._whole_prices(price), distance, farthest_first
        table = PathTable(*(numbers(column.ravel().astype(np.int64), compiled) for column in columns))
        work: Any = numbers(waiting.ravel(), compiled), zeros(graph.edge_count, compiled, np.float64)
        version_of(add_loads, compiled)(table, *work)
        load = np.asarray(work[1], np.float64)
        if self.alike is None:
            return load
        return self.share * (np.bincount(self.alike, load) / np.bincount(self.alike))[self.alike]


def _dot(first: Int64Array, second: Int64Array) -> int:
    """The sum of the products of two tables of numbers of at least 0, exactly."""
    if int(first.max(initial=0)) * int(second.max(initial=0)) * first.shape[1] < 1 << 63:
        return sum(np.einsum("ij,ij->i", first, second).tolist())
    return sum(a * b for a, b in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True) if a)


def _has_pairs(demand: Demand) -> bool:
    """Whether some chunk has one holder and one other NPU that wants it, or may have."""
    standards = [family.first.standard for family in demand.by_family.families]
    return any(standard is None or not standard.shape.phases for standard in standards)


def _of_table(table: ChunkTable, pairs: Int64Array) -> list[tuple[int, Int32Array, Int32Array, bool]]:
    """Adds the chunks with two ends to int64[targets, sources] and returns the others, equal ones together."""
    contribute = (table.op != Op.COPY) & (table.sets.sizes[table.pre] > 1)
    unique, kind = unique_rows([table.pre, table.post, contribute.astype(np.int64)])
    volume = np.zeros(len(unique), np.int64)
    np.add.at(volume, kind, table.size)
    others: list[tuple[int, Int32Array, Int32Array, bool]] = []
    for (pre, post, sums), bytes_ in zip(unique.tolist(), volume.tolist(), strict=True):
        holders, wanting = table.sets[pre], table.sets[post]
        if len(holders) == len(wanting) == 1:
            pairs[wanting[0], holders[0]] += bytes_
        elif len(holders) and len(wanting):
            others.append((bytes_, holders, wanting, bool(sums)))
    return others
