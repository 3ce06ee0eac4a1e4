"""Synthesis on Cayley graphs: a schedule for what one NPU sends, moved by all translations.

The NPUs form an abelian group: a product of cyclic groups and groups of bits (exclusive or), and every
NPU has the same generators as links. If each generator is used at most once in a step by what one NPU
sends, the translations of that schedule to all NPUs never meet on a link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from collc.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Demand, Standard
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, StepSchedule

Ints = NDArray[np.int32]
Times = NDArray[np.int64]

COMPILED = 500
"""Group elements from which the search is compiled."""

ORDERS = 24
"""Orders of the generators, or of the messages, that are tried."""

WINDOW = 20_000
"""Group elements up to which more than the first possible transfer is looked at."""


@dataclass(frozen=True, eq=False)
class Group:
    """The symmetry of a network of n NPUs: index int64[axes, n], the coordinates of each NPU; sizes of the axes, and
    which of them add by exclusive or. generators: int32[g], the NPU that each leads to from NPU 0 (parallel links
    give equal ones). link: int32[g, n], the link that each generator is at each NPU.
    """

    sizes: tuple[int, ...]
    bits: tuple[bool, ...]
    index: Times
    strides: Times
    generators: Ints
    link: Ints

    def add(self, a: Ints | Times, b: Ints | Times) -> Times:
        """The sums of elements, NPU 0 being the neutral one; shapes are broadcast."""
        total: Times = np.zeros(np.broadcast_shapes(a.shape, b.shape), np.int64)
        for axis, size in enumerate(self.sizes):
            x, y = self.index[axis][a], self.index[axis][b]
            total += (x ^ y if self.bits[axis] else (x + y) % size) * self.strides[axis]
        return total


@dataclass(frozen=True, eq=False)
class Representative:
    """What is done with what NPU 0 sends, in order of steps: one row a transfer.

    step, generator: when, and over which generator. sender: the NPU that it leaves. chunk: which chunk of NPU 0's.
    """

    steps: int
    step: Times
    generator: Times
    sender: Times
    chunk: Times


def find_group(network: Network) -> Group | None:
    """The symmetry of a network, checked link by link; None where there is none of this kind."""
    count = network.npu_count
    if count < 2 or network.switch_count or not bool(network.present.all()) or not network.link_count:
        return None
    if len(np.unique(network.kind)) > 1:
        return None
    for shape, strides in _shapes(network):
        options = [(False, True) if size > 2 and not size & (size - 1) else (False,) for size in shape]
        for bits in product(*options):
            found = _group(network, shape, strides, bits)
            if found is not None:
                return found
    return None


def _shapes(network: Network) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Arrays that the NPUs may form, as (shape, strides)."""
    if len(network.families) == 1 and network.families[0].shape:
        yield network.families[0].shape, network.families[0].strides
    if network.axes:
        sizes = tuple(axis.size for axis in network.axes)
        yield sizes, tuple(int(np.prod(sizes[:axis])) for axis in range(len(sizes)))
    yield (network.npu_count,), (1,)


def _group(network: Network, shape: tuple[int, ...], strides: tuple[int, ...], bits: tuple[bool, ...]) -> Group | None:
    """The group of an array, if every NPU has the same generators."""
    count = network.npu_count
    if int(np.prod(shape)) != count:
        return None
    npus = np.arange(count)
    index = np.stack([npus // stride % size for size, stride in zip(shape, strides, strict=True)])
    step = np.zeros(network.link_count, np.int64)
    for axis, size in enumerate(shape):
        a, b = index[axis][network.source], index[axis][network.target]
        step += (a ^ b if bits[axis] else (b - a) % size) * strides[axis]
    degree, rest = divmod(network.link_count, count)
    order = np.lexsort((np.arange(len(step)), step, network.source))
    if rest or bool((network.source[order] != np.repeat(npus, degree)).any()):
        return None
    table = step[order].reshape(count, degree)
    if bool((table != table[0]).any()) or not table[0].all():
        return None
    link = np.ascontiguousarray(order.reshape(count, degree).T).astype(np.int32)
    return Group(shape, bits, index, np.array(strides, np.int64), table[0].astype(np.int32), link)


def symmetric(task: Task, effort: Effort) -> StepSchedule:
    """A schedule of one All-Gather or All-to-All over all NPUs of a Cayley graph.

    Raises NoSchedule where the network, the demand or what is planned already has no such symmetry.
    """
    group = find_group(task.network)
    standard = _standard(task)
    if group is None or standard is None:
        raise NoSchedule(
            Diagnostic(
                "S0303",
                f"{task.network.name} or its demand is not symmetric",
                hint="'synthesize auto' takes another way; symmetric serves one All-Gather or All-to-All over a whole "
                "ring, torus, hypercube or fully connected network with links all alike",
            )
        )
    return expand(task.network, task.demand, task.model, group, representative(group, standard, effort))


def representative(group: Group, standard: Standard, effort: Effort) -> Representative:
    """The schedule for what NPU 0 sends in an All-Gather or All-to-All."""
    if standard.kind == "all_gather":
        return _gather(group, standard.chunks, effort)
    return _exchange(group, standard.chunks, effort)


def _standard(task: Task) -> Standard | None:
    """What the only run is, if it is symmetric and nothing stands in its way."""
    runs = task.demand.runs
    if len(runs) != 1 or task.reserved is not None or (task.release is not None and bool(task.release.any())):
        return None
    standard, whole = runs[0].standard, np.arange(task.network.npu_count)
    if standard is None or standard.kind not in ("all_gather", "all_to_all"):
        return None
    count = len(whole) * standard.chunks * (1 if standard.kind == "all_gather" else len(whole) - 1)
    return standard if np.array_equal(np.sort(runs[0].group), whole) and len(task.chunks) >= count else None


def _gather(group: Group, chunks: int, effort: Effort) -> Representative:
    """Spreads the chunks of NPU 0, in several orders of the generators until the bound is met."""
    from collc.kernels.symmetric_spread import spread

    elements = len(group.index[0])
    if elements >= COMPILED:
        from numba import njit

        spread = njit(cache=True)(spread)
    ahead = group.add(group.generators[:, None], np.arange(elements)[None, :]).astype(np.int32)
    moves = (elements - 1) * chunks
    least = -(-moves // len(ahead))
    rng = np.random.default_rng(effort.seed)
    best: tuple[int, Ints, Times] | None = None
    orders = [np.arange(len(ahead)), *(rng.permutation(len(ahead)) for _ in range(ORDERS))]
    for order in orders:
        for window in (1, 4) if elements <= WINDOW else (1,):
            rows = np.zeros((moves, 4), np.int32)
            steps = int(spread(np.ascontiguousarray(ahead[order]), chunks, window, rows))
            if steps < 0:
                raise NoSchedule(Diagnostic("S0303", "the generators do not lead to all NPUs"))
            if best is None or steps < best[0]:
                best = steps, rows, order
            if steps <= least:
                break
        if best is not None and (best[0] <= least or effort.stop()):
            break
    assert best is not None
    steps, rows, order = best
    wide = rows.astype(np.int64)
    return Representative(steps, wide[:, 0], order[wide[:, 1]], wide[:, 2], wide[:, 3])


def _exchange(group: Group, chunks: int, effort: Effort) -> Representative:
    """Sends a chunk to every element: hops on shortest ways, each message on one generator at a time.

    The group is abelian, so the hops of a message may come in any order, and least time is that of an
    open shop of unit tasks: the largest load of a generator, or the longest way.
    """
    counts = np.repeat(_ways(group)[1:], chunks, axis=0)
    steps = max(int(counts.sum(axis=0).max()), int(counts.sum(axis=1).max()))
    rng = np.random.default_rng(effort.seed)
    starts: Times | None = None
    for _ in range(ORDERS):
        order = rng.permutation(len(counts))
        starts = _shifted(counts, order, steps)
        if starts is not None:
            break
    when = _open_shop(counts) if starts is None else _hops(counts, starts, steps)
    step, generator, message = when
    return _placed(group, step, generator, message, chunks)


def _ways(group: Group) -> Times:
    """int64[elements, generators]: hops over each generator on a shortest way to each element, loads balanced."""
    elements, generators = len(group.index[0]), len(group.generators)
    ahead = group.add(group.generators[:, None], np.arange(elements)[None, :])
    behind = np.empty_like(ahead)
    for generator in range(generators):
        behind[generator, ahead[generator]] = np.arange(elements)
    depth = np.full(elements, -1, np.int64)
    depth[0] = 0
    counts = np.zeros((elements, generators), np.int64)
    load = np.zeros(generators, np.int64)
    front = np.zeros(1, np.int64)
    while len(front):
        level = int(depth[front[0]]) + 1
        reached = np.unique(ahead[:, front])
        front = reached[depth[reached] < 0]
        depth[front] = level
        for element in front.tolist():
            best: tuple[tuple[int, int], int] | None = None
            for generator in range(generators):
                before = int(behind[generator, element])
                if depth[before] == level - 1:
                    way = counts[before].copy()
                    way[generator] += 1
                    key = (int((load * way).sum()), int((load + way).max()))
                    if best is None or key < best[0]:
                        best, counts[element] = (key, generator), way
            load += counts[element]
    if bool((depth < 0).any()):
        raise NoSchedule(Diagnostic("S0303", "the generators do not lead to all NPUs"))
    return counts


def _shifted(counts: Times, order: Times, steps: int) -> Times | None:
    """int64[messages, generators]: when each message begins on each generator, if in this order none is on two at once.

    Every generator serves the messages in the same order, round and round, each generator a share of the
    time ahead of the one before it.
    """
    generators = counts.shape[1]
    before: Times = np.zeros_like(counts)
    before[order[1:]] = np.cumsum(counts[order], axis=0)[:-1]
    ahead: Times = np.arange(generators, dtype=np.int64) * steps // generators
    starts: Times = np.remainder(before + ahead, steps)
    for a in range(generators):
        for b in range(a):
            used = (counts[:, a] > 0) & (counts[:, b] > 0)
            gap: Times = np.remainder(starts[:, a] - starts[:, b], steps)
            if bool((used & ((gap < counts[:, b]) | (steps - gap < counts[:, a]))).any()):
                return None
    return starts


def _hops(counts: Times, starts: Times, steps: int) -> tuple[Times, Times, Times]:
    """(step, generator, message) of every hop."""
    message, generator = np.nonzero(counts)
    number = counts[message, generator]
    first = np.repeat(np.cumsum(number) - number, number)
    offset = np.arange(int(number.sum())) - first
    step = (np.repeat(starts[message, generator], number) + offset) % steps
    return step, np.repeat(generator, number), np.repeat(message, number)


def _open_shop(counts: Times) -> tuple[Times, Times, Times]:
    """As _hops: in each step every generator, the busiest first, serves the message with most hops to go."""
    left = counts.copy()
    rows: list[tuple[int, int, int]] = []
    step = 0
    while left.any():
        total = left.sum(axis=1)
        for generator in np.argsort(-left.sum(axis=0), kind="stable").tolist():
            waiting = np.where(left[:, generator] > 0, total, 0)
            message = int(waiting.argmax())
            if waiting[message] > 0:
                rows.append((step, generator, message))
                left[message, generator] -= 1
                total[message] = 0
        step += 1
    table = np.array(rows, np.int64)
    return table[:, 0], table[:, 1], table[:, 2]


def _placed(group: Group, step: Times, generator: Times, message: Times, chunks: int) -> Representative:
    """Follows each message from NPU 0 on its way."""
    order = np.lexsort((step, message))
    step, generator, message = step[order], generator[order], message[order]
    first = np.flatnonzero(np.diff(message, prepend=-1))
    place = np.arange(len(message)) - np.repeat(first, np.diff(np.append(first, len(message))))
    sender = np.zeros(len(message), np.int64)
    at = np.zeros(int(message.max(initial=-1)) + 1, np.int64)
    for turn in range(int(place.max(initial=-1)) + 1):
        rows = np.flatnonzero(place == turn)
        sender[rows] = at[message[rows]]
        at[message[rows]] = group.add(sender[rows], group.generators[generator[rows]])
    target = message // chunks + 1
    return Representative(int(step.max(initial=-1)) + 1, step, generator, sender, target * chunks + message % chunks)


def expand(network: Network, demand: Demand, model: LinkModel, group: Group, what: Representative) -> StepSchedule:
    """The schedule of all NPUs: the representative's, moved by every translation."""
    run = demand.runs[0]
    standard = run.standard
    assert standard is not None
    count = network.npu_count
    size = standard.size // (count * standard.chunks)
    step = int(network.occupancy(np.array([size], np.int64))[network.kind[0], 0] + network.latencies[network.kind[0]])
    rank = np.empty(count, np.int64)
    rank[run.group] = np.arange(count)
    numbers = len(run.pattern)
    chunks = np.full((what.steps, network.link_count), 0xFFFF, np.uint16)
    if numbers >= np.iinfo(np.uint16).max:
        chunks = np.full((what.steps, network.link_count), 0xFFFFFFFF, np.uint32)
    for npu in range(count):
        sender = group.add(what.sender, np.full(1, npu))
        number = rank[npu] * standard.chunks + what.chunk
        if standard.kind == "all_to_all":
            target = rank[group.add(what.chunk // standard.chunks, np.full(1, npu))]
            number = (rank[npu] * count + target) * standard.chunks + what.chunk % standard.chunks
        chunks[what.step, group.link[what.generator, sender]] = number
    return StepSchedule(model, chunks, step)
