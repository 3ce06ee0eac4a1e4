"""Chunks along shortest paths, one message after another: a schedule that takes little time to plan.

It serves when a search ends without any schedule. Each chunk follows the tree of shortest paths from its holders, and
NPUs forward what they have; or, if that ends sooner, chunks for all NPUs of a group run round a ring of them. A
message crosses switches alone and without a pause, so the schedule is valid on any switch: with any buffer, without
multicast, and backwards for reductions. Messages are sent in rounds, in which NPU i sends to NPU i + d, and start when
all their links are free.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.kernels.compiled import STEP_TIME, numbers, runs_compiled, version_of, zeros
from collc.kernels.shortest_messages import LinkTable, SendTable, SendWork, least_loaded, send
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.rings import Ring
from collc.synthesis.task import COMPILED_TIMES, Task
from collc.ten.arrays import Int32Array, Int64Array, group_positions, ranges
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Schedule, Transfers

TREES: Final = 64
"""Trees of shortest paths that are searched at a time; it bounds the memory of their distances."""

ROUNDS: Final = 64
"""Rounds in which chunks of a gather or scatter choose among shortest paths, at most, and its roots."""

MOST_HOPS: Final = 10_000_000
"""Transfers of a schedule, at most: 10 s of processor time and 2 GiB, so that a search that was stopped ends soon."""


def along_shortest_paths(task: Task) -> Schedule:
    """A schedule of copies on any network. Raises SourceError if no path leads to a device that wants a chunk,
    NoSchedule S0207 if the paths have more than MOST_HOPS links.
    """
    _check_hops(task.demand.least_transfers)
    conditions = conditions_of(task)
    _check_hops(len(conditions.wanting))
    trees = _trees(conditions, conditions.holder_offsets, conditions.holders)
    parts: list[_Messages] = []
    if conditions.one_target_each and len(conditions.holders) == len(conditions):
        into = _trees(conditions, conditions.wanting_offsets, conditions.wanting)
        gathers = int(into.max(initial=-1)) < int(trees.max(initial=-1))
        if gathers or trees.max(initial=-1) < ROUNDS:
            parts, trees = _messages_of_pairs(conditions, into if gathers else trees, gathers), trees[:0]
    offsets, order = group_positions(trees, int(trees.max(initial=-1)) + 1)
    for low in range(0, len(offsets) - 1, TREES):
        rows = order[offsets[low] : offsets[min(low + TREES, len(offsets) - 1)]]
        parts.append(_messages(conditions, trees, rows))
        _check_hops(sum(len(part.link) for part in parts))
    plans = [plan for plan in (_around_ring(conditions), _Messages.join(parts)) if plan is not None]
    rows = min((_transfers(conditions, plan) for plan in plans), key=lambda rows: _end(conditions, rows))
    return RowSchedule(task.model, rows)


def tree_count(demand: Demand, links: int) -> int:
    """How many trees of shortest paths are searched for copies, at most, with those of rounds. links: their number."""
    table = demand.chunks
    first, last = table.pre, table.post
    if not bool((table.sets.sizes[last] == 1).all()):
        return len(np.unique(first))
    holders, receivers = (len(np.unique(end)) for end in (first, last))
    roots = min(holders, receivers)
    in_rounds = receivers < holders or roots <= ROUNDS
    return roots * (1 + 2 * _rounds(roots, links) * in_rounds // COMPILED_TIMES)  # a look takes 10 ns


def _check_hops(hops: int) -> None:
    if hops > MOST_HOPS:
        message = f"stopped before there was a schedule, and shortest paths have over {MOST_HOPS:,} links in all"
        raise NoSchedule(Diagnostic("S0207", message, hint="give it more time, or use fewer NPUs or chunks"))


def _trees(conditions: Conditions, offsets: Int64Array, members: Int32Array) -> Int32Array:
    """int32[rows]: the number of the tree of a row, which depends on its size and on its members (CSR)."""
    numbers_of: dict[tuple[int, bytes], int] = {}
    sizes: list[int] = conditions.column.tolist()
    keys = ((size, members[offsets[row] : offsets[row + 1]].tobytes()) for row, size in enumerate(sizes))
    return np.array([numbers_of.setdefault(key, len(numbers_of)) for key in keys], np.int32)


@dataclass(frozen=True, eq=False)
class _Messages:
    """Messages from NPU to NPU, one item each: the number of NPUs that the chunk passed before (level), its row in the
    conditions, sender and receiver, and the number of links. link: int32[hops], those of all messages in order.
    """

    level: Int64Array
    row: Int64Array
    sender: Int64Array
    receiver: Int64Array
    hops: Int64Array
    link: Int32Array

    @staticmethod
    def of_walks(network: Network, row: Int32Array, link: Int64Array) -> _Messages:
        """The messages of chunks that go over some links, those of each row in order."""
        order = np.argsort(row, kind="stable")
        row, link = row[order], link[order]
        begins = np.flatnonzero(network.source[link] < network.npu_count)
        last = np.append(begins[1:], len(link)) - 1
        rows = row[begins].astype(np.int64)
        number = np.arange(len(begins))
        level = 1 + number - np.maximum.accumulate(np.where(np.diff(rows, prepend=-1) != 0, number, 0))
        sender, receiver = network.source[link[begins]], network.target[link[last]]
        columns = level, rows, sender.astype(np.int64), receiver.astype(np.int64), 1 + last - begins
        return _Messages(*columns, link.astype(np.int32))

    @staticmethod
    def join(parts: list[_Messages]) -> _Messages:
        """All messages of several parts."""
        names = ("level", "row", "sender", "receiver", "hops")
        columns = {
            name: np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)]) for name in names
        }
        return _Messages(**columns, link=np.concatenate([np.empty(0, np.int32), *(part.link for part in parts)]))


def _messages(conditions: Conditions, trees: Int32Array, rows: Int32Array) -> _Messages:
    """The messages of some rows, which are in order of their trees. Raises SourceError if a path is missing.

    A vertex is a device in one of these trees: tree * devices + device.
    """
    network = conditions.task.network
    devices, npus = network.device_count, network.npu_count
    first_rows, tree = np.unique(trees[rows], return_index=True, return_inverse=True)[1:]
    link = _links_into(conditions, rows[first_rows])
    vertex = np.arange(len(link))
    before = np.where(link < 0, vertex, vertex // devices * devices + network.source[link])
    sender, hops = before, (link >= 0).astype(np.int64)
    while (inside := (sender % devices >= npus) & (link[sender] >= 0)).any():
        hops += inside
        sender = np.where(inside, before[sender], sender)
    level, ancestor = np.zeros(len(link), np.int64), vertex
    while (below := link[ancestor] >= 0).any():
        level += below
        ancestor = sender[ancestor]
    first, after = conditions.wanting_offsets[rows], conditions.wanting_offsets[rows + 1]
    row, wanted = np.repeat(np.arange(len(rows)), after - first), conditions.wanting[ranges(first, after)]
    wanted = tree[row] * devices + wanted
    if (link[wanted] < 0).any():
        conditions.farthest(conditions.times_to(0))  # raises: no path leads there, whatever the size
    row, wanted = _with_forwarding(row, wanted, level, sender)
    return _Messages(
        level[wanted],
        rows[row].astype(np.int64),
        sender[wanted] % devices,
        wanted % devices,
        hops[wanted],
        _hop_links(wanted, link, before, hops[wanted]),
    )


def _around_ring(conditions: Conditions) -> _Messages | None:
    """Messages of chunks that all of a group want, one way and the other way round a ring of its NPUs; None if chunks
    have other ends, or are fewer than the NPUs; if there are no switches, or no ring over them; for too many links.
    """
    network, rows = conditions.task.network, len(conditions)
    members = np.unique(np.concatenate([conditions.holders, conditions.wanting])).astype(np.int32)
    shared = bool((np.diff(conditions.wanting_offsets) == len(members) - 1).all())
    unfit = rows < len(members) or rows * (len(members) - 1) > MOST_HOPS
    if unfit or not network.has_switches or not shared or len(conditions.holders) > rows:
        return None
    ring = Ring.of(network, members)
    if ring is None:
        return None
    count, parts = len(ring.npu), list[_Messages]()
    position = np.empty(network.npu_count, np.int64)
    position[ring.npu] = np.arange(count)
    for direction, steps, (offsets, links) in ((1, count // 2, ring.ahead), (-1, (count - 1) // 2, ring.back)):
        level, row = np.tile(np.arange(1, steps + 1), rows), np.repeat(np.arange(rows), steps)
        sender = (position[conditions.holders[row]] + direction * (level - 1)) % count
        receiver = (sender + direction) % count
        step = sender if direction > 0 else receiver
        hops = np.diff(offsets)[step]
        if int(hops.sum()) + sum(len(part.link) for part in parts) > MOST_HOPS:
            return None
        link = links[ranges(offsets[step], offsets[step + 1])].astype(np.int32)
        ends = ring.npu.astype(np.int64)
        parts.append(_Messages(level, row, ends[sender], ends[receiver], hops, link))
    return _Messages.join(parts)


def _messages_of_pairs(conditions: Conditions, trees: Int32Array, gathers: bool) -> list[_Messages]:
    """The messages of all rows, each with one holder and one receiver.

    trees: int32[rows], by root and size. gathers: whether the roots are the receivers.
    """
    network, parts, hops = conditions.task.network, list[_Messages](), 0
    offsets, order = group_positions(trees, int(trees.max(initial=-1)) + 1)
    router, direction = _Router(conditions, gathers, len(offsets) - 1), 1 if gathers else -1
    for low, high in pairwise(offsets.tolist()):
        rows = order[low:high]
        for number, links in router.route(rows):
            if len(links):  # no device may reach the root over the link that is free first
                parts.append(_Messages.of_walks(network, rows[number][::direction], links[::direction]))
                hops += len(links)
                _check_hops(hops)
    return parts


def _rounds(roots: int, links: int) -> int:
    return max(1, min(ROUNDS, MOST_HOPS // max(1, roots * links)))


class _Router:
    """Chooses paths between roots and other devices in rounds: in each, every device has one of its shortest paths to
    the root, on which the largest load so far is the least.

    If the links at a root are loaded unevenly, each round uses the one that is free first, and shortest paths to it
    that do not cross the root; if that loads no link more.
    """

    def __init__(self, conditions: Conditions, gathers: bool, roots: int) -> None:
        network = conditions.task.network
        self._conditions, self._rounds = conditions, _rounds(roots, network.link_count)
        ends = (conditions.wanting, conditions.holders)
        self._root, self._leaf = ends if gathers else ends[::-1]
        self._inner, self._outer = (network.target, network.source)[:: 1 if gathers else -1]
        self._graph = Digraph.of(network) if gathers else Digraph.of(network).reverse()
        self._compile_it = runs_compiled(least_loaded, STEP_TIME * roots * self._rounds * network.link_count)
        self._ends = self._numbers(self._inner.astype(np.int64)), self._numbers(self._outer.astype(np.int64))
        self._load = np.zeros(network.link_count, np.int64)

    def _numbers(self, values: Int64Array) -> MutableSequence[int]:
        return numbers(values, self._compile_it)

    def route(self, rows: Int32Array) -> list[tuple[Int64Array, Int64Array]]:
        """(positions in `rows`, links), int64 each: paths from other devices to their root, several at a time."""
        conditions, root, leaves = self._conditions, int(self._root[rows[0]]), self._leaf[rows]
        kind, column = conditions.task.network.kind, int(conditions.column[rows[0]])
        length, busy = np.maximum(1, conditions.clock.total[kind, column]), conditions.clock.busy[kind, column]
        shortest = self._order(length, root)
        at_root, before = np.flatnonzero(self._inner == root), self._load[self._inner == root]
        plain, load = self._in_rounds(leaves, root, busy, lambda _load, _count: (shortest,))
        even = len(rows) / float((1 / np.maximum(1, busy[at_root])).sum())
        if len(at_root) > 1 and (load[at_root] - before).max() * (ROUNDS - 1) > even * ROUNDS:
            known: dict[int, Int64Array] = {}

            def by_free_link(load: Int64Array, count: int) -> tuple[Int64Array, ...]:
                link = int(at_root[np.argmin(load[at_root] + count * busy[at_root])])
                if link not in known:
                    known[link] = self._order(length, root, link)
                return known[link], shortest

            spread, spread_load = self._in_rounds(leaves, root, busy, by_free_link)
            if spread_load.max() < load.max():
                plain, load = spread, spread_load
        self._load = load
        return plain

    def _order(self, length: Int64Array, root: int, last: int = -1) -> Int64Array:
        """int64: the links on shortest paths to a root, those nearest to it first. last: the only link into it."""
        inner, outer, target = self._inner, self._outer, root
        kept = np.ones(len(length), np.bool_)
        if last >= 0:
            kept, target = (inner != root) & (outer != root), int(outer[last])
        distance = distances_to(self._graph.with_edges(kept), length[kept], np.array([target], np.int32))[0]
        if last < 0 and bool((distance[self._leaf[self._root == root]] >= UNREACHABLE).any()):
            self._conditions.farthest(self._conditions.times_to(0))  # raises: no path leads there, whatever the size
        tight = np.flatnonzero(kept & (distance[inner] < UNREACHABLE) & (distance[outer] == distance[inner] + length))
        tight = tight[np.argsort(distance[outer[tight]], kind="stable")]
        return tight if last < 0 else np.append(last, tight)

    def _in_rounds(
        self,
        leaves: Int32Array,
        root: int,
        busy: Int64Array,
        orders: Callable[[Int64Array, int], tuple[Int64Array, ...]],
    ) -> tuple[list[tuple[Int64Array, Int64Array]], Int64Array]:
        """(paths as of `route`, the load of all links after it). orders: given the load so far and a number of chunks,
        links as of `_order`, those to be tried first; the last ones lead from all devices.
        """
        choose, load = version_of(least_loaded, self._compile_it), self._load.copy()
        walks: list[tuple[Int64Array, Int64Array]] = []
        for first in range(min(self._rounds, len(leaves))):
            left = np.arange(first, len(leaves), self._rounds)
            for order in orders(load, len(left)):
                count = self._conditions.task.network.device_count
                after, worst = self._numbers(np.full(count, -1)), zeros(count, self._compile_it)
                choose(self._numbers(order), *self._ends, self._numbers(load), worst, after)
                reached = np.asarray(after)[leaves[left]] >= 0
                walk, links = _walks(np.asarray(after), self._inner, leaves[left[reached]], root)
                walks.append((left[reached][walk], links))
                load += np.bincount(links, minlength=len(load)) * busy
                left = left[~reached]
                if not len(left):
                    break
        return walks, load


def _walks(after: Int64Array, inner: Int32Array, start: Int32Array, root: int) -> tuple[Int64Array, Int64Array]:
    """(walks, links), int64 each: from each start to the root. after: int64[devices], the link towards it."""
    walks, links = [np.arange(len(start))], [after[start]]
    while len(device := inner[links[-1]]) and bool((under := device != root).any()):
        walks.append(walks[-1][under])
        links.append(after[device[under]])
        _check_hops(sum(map(len, links)))
    return np.concatenate(walks), np.concatenate(links)


def _links_into(conditions: Conditions, rows: Int32Array) -> Int64Array:
    """int64[rows * devices]: the last link of the shortest path from the holders of a row to each device, or -1."""
    network, sizes = conditions.task.network, conditions.column[rows]
    link = np.full((len(rows), network.device_count), -1, np.int64)
    for size in np.unique(sizes).tolist():
        length = np.maximum(1, conditions.clock.total[network.kind, size])
        holders = np.unique(np.concatenate([conditions.row(int(row))[0] for row in rows[sizes == size]]))
        distances = distances_to(Digraph.of(network).reverse(), length, holders)
        for tree in np.flatnonzero(sizes == size).tolist():
            distance = distances[np.searchsorted(holders, conditions.row(int(rows[tree]))[0])].min(axis=0)
            reached = distance[network.source] < UNREACHABLE
            tight = np.flatnonzero(reached & (distance[network.source] + length == distance[network.target]))
            link[tree, network.target[tight[::-1]]] = tight[::-1]
    return link.ravel()


def _with_forwarding(
    row: Int64Array, vertex: Int64Array, level: Int64Array, sender: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Rows and vertices that receive a chunk: those that want it, and those that only forward it to them."""
    count = len(level)
    keys = row * count + vertex
    depth = level[vertex]
    all_keys, following = [np.empty(0, np.int64)], np.empty(0, np.int64)
    for wanted_level in range(int(depth.max(initial=0)), 0, -1):
        following = np.union1d(keys[depth == wanted_level], following)
        all_keys.append(following)
        following = following // count * count + sender[following % count]
    return np.divmod(np.concatenate(all_keys), count)


def _hop_links(vertex: Int64Array, link: Int64Array, before: Int64Array, hops: Int64Array) -> Int32Array:
    """int32[hops]: the links of the messages to some vertices, the first one first."""
    result = np.empty(int(hops.sum()), np.int32)
    position, left = np.cumsum(hops), hops
    while len(vertex):
        position = position - 1
        result[position] = link[vertex]
        more = left > 1
        vertex, position, left = before[vertex[more]], position[more], left[more] - 1
    return result


def _transfers(conditions: Conditions, messages: _Messages) -> Transfers:
    chunk = np.repeat(conditions.chunk[messages.row], messages.hops)
    return Transfers.of(chunk, messages.link, _starts(conditions, messages))


def _end(conditions: Conditions, rows: Transfers) -> int:
    """Picoseconds until all has arrived."""
    return int((rows.start + conditions.clock.total_of(rows)).max(initial=0))


def _starts(conditions: Conditions, messages: _Messages) -> Int64Array:
    """int64[hops]: when each link is entered. Messages are put behind the transfers that the task has already."""
    task, clock, network = conditions.task, conditions.clock, conditions.task.network
    begin = 0
    if task.reserved is not None and len(task.reserved):
        begin = int((task.reserved.start + clock.total_of(task.reserved)).max())
    first = np.concatenate([[0], np.cumsum(messages.hops)])
    gap = (messages.receiver - messages.sender) % network.npu_count
    order = np.lexsort((messages.link[first[:-1]], messages.row, gap, messages.level))
    visits = np.concatenate(
        [
            messages.row * network.device_count + messages.sender,
            np.repeat(messages.row, messages.hops) * network.device_count + network.target[messages.link],
        ]
    )
    visit, slots = np.unique(visits, return_inverse=True)
    row, device = np.divmod(visit, network.device_count)
    ready = np.where(device < network.npu_count, conditions.release[row], 0)
    buffers = np.zeros(network.device_count + 1, np.int64)
    np.cumsum(np.maximum(network.buffers, 0), out=buffers[network.npu_count + 1 :])
    large = runs_compiled(send, STEP_TIME * len(messages.link))
    columns = {
        "source": network.source.astype(np.int64),
        "target": network.target.astype(np.int64),
        "busy": clock.busy[network.kind].T.ravel(),
        "total": clock.total[network.kind].T.ravel(),
    }
    links = LinkTable(**{name: numbers(column, large) for name, column in columns.items()})
    base = conditions.column[messages.row] * np.int64(network.link_count)
    tail, slot = slots[: len(order)], slots[len(order) :]
    table = SendTable(*(numbers(column, large) for column in (order, tail, first, base, messages.link, slot)))
    free = np.full(network.link_count, begin)
    work = SendWork(
        *(numbers(column, large) for column in (free, ready, buffers)),
        *(zeros(count, large) for count in (int(buffers[-1]), len(messages.link))),
    )
    version_of(send, large)(links, table, work)
    return np.asarray(work.start, np.int64)
