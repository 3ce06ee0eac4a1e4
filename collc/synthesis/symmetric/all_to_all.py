"""All-to-All on a Cayley graph: the messages of NPU 0 take short paths that load all generators equally.

The times of the hops are an open shop. On a ring of even length a message to the opposite NPU cannot be halved; every
second NPU sends it in one direction, and the others send it in the other direction (open_shop).
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from collc.kernels.compiled import MOST_PLAIN, STEP_TIME, runs_compiled, version_of
from collc.kernels.symmetric_paths import balanced_shortest_paths, trace_hops
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.open_shop import RingMessages, find_ring_messages, open_shop
from collc.synthesis.symmetric.representative_plan import GeneratorTimes, RepresentativePlan, start_early
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array

PATH_ROUNDS: Final = 2
"""How often the shortest paths are chosen, one by one."""

MOST_EXCHANGES: Final = 64
"""Exchanges of hops for others that are tried to balance the loads."""


def plan_all_to_all(group: Group, chunks: int, times: GeneratorTimes, effort: Effort) -> RepresentativePlan:
    """The best plan, in steps or picoseconds as `times`; SourceError if the generators do not lead to all NPUs."""
    hops = short_paths(group, chunks, effort)
    effort.work.add(int(hops.sum()))
    plan = _plan_in_steps(group, hops)
    if times.step is not None:
        return plan
    plan = start_early(group, plan, times, stays=False)
    if STEP_TIME * int(hops.sum()) > MOST_PLAIN or effort.stop():  # events are planned in plain Python
        return plan
    timed = _plan_by_events(group, hops[1:].reshape(-1, len(group.successors)), times, chunks)
    return min(plan, timed, key=lambda plan: plan.end)


def _plan_in_steps(group: Group, hops: Int64Array) -> RepresentativePlan:
    """A plan of as many steps as the largest load of a generator, or as the longest path if that is longer."""
    chunks = hops.shape[1]
    trace = version_of(trace_hops, runs_compiled(trace_hops, STEP_TIME * int(hops.sum())))
    ring = find_ring_messages(group, hops)
    planned = open_shop(hops[1:].reshape(-1, len(group.successors)) if ring is None else ring.hops)
    rows = np.empty((4, len(planned.message)), np.int32)
    trace(group.successors, *planned, rows)
    end = int(rows[0].max(initial=-1)) + 1
    if ring is None:
        return RepresentativePlan(end, rows[0], rows[1], rows[2], rows[3] + np.int32(chunks))
    return _with_ring_messages(group, ring, rows, end, chunks)


def _with_ring_messages(
    group: Group, ring: RingMessages, rows: Int32Array, end: int, chunks: int
) -> RepresentativePlan:
    """The plan in which the messages of a ring replace the hops that its two directions represent."""
    first = len(ring.hops) - 2
    messages = rows[:, rows[3] < first]
    messages[3] += chunks
    parts = [np.concatenate([messages, np.full((1, messages.shape[1]), -1, np.int32)])]
    for direction in range(2):
        steps: list[int] = rows[0, rows[3] == first + direction].tolist()
        part = np.array(list(ring.transfers(group, direction, steps)), np.int32).T
        part[3] = part[3] * chunks + ring.copy
        parts.append(part)
    step, generator, sender, chunk, half = np.concatenate(parts, axis=1)
    return RepresentativePlan(end, step, generator, sender, chunk, half, ring.axis)


def short_paths(group: Group, chunks: int, effort: Effort) -> Int64Array:
    """int64[npus, copies, generators]: the hops of each message over each generator.

    Raises SourceError if the generators do not lead to all NPUs.
    """
    time = STEP_TIME * PATH_ROUNDS * group.successors.size * chunks
    choose_paths = version_of(balanced_shortest_paths, runs_compiled(balanced_shortest_paths, time))
    order, depth = group.span()
    hops = np.zeros((group.count, chunks, len(group.successors)), np.int64)
    load = np.zeros(len(group.successors), np.int64)
    choose_paths(group.predecessors, order, depth, PATH_ROUNDS, hops, load)
    if int(load.max()) > max(-(-int(load.sum()) // len(load)), int(depth.max())):
        _balance(hops[1:].reshape(-1, len(load)), load, _exchanges(group, hops[:, 0]), effort)
    return hops


def _exchanges(group: Group, hops: Int64Array) -> Int64Array:
    """int64[exchanges, generators]: changes of hops that lead to the same NPU, those of the fewest hops first."""
    units = np.eye(len(group.successors), dtype=np.int64)
    changes = np.concatenate(
        [hops[before] + unit - hops for before, unit in zip(group.predecessors, units, strict=True)]
    )
    changes = np.unique(np.concatenate([changes, -changes]), axis=0)
    changes = changes[(changes < 0).any(axis=1)]
    return changes[np.argsort(np.abs(changes).sum(axis=1), kind="stable")[:MOST_EXCHANGES]]


def _balance(messages: Int64Array, load: Int64Array, exchanges: Int64Array, effort: Effort) -> None:
    """Exchanges hops of int64[messages, generators], also for more others, while that lowers the largest loads."""
    while not effort.stop():
        after = np.sort(load + exchanges, axis=1)[:, ::-1]
        for number in np.lexsort(after.T[::-1]).tolist():
            change = exchanges[number]
            able = np.flatnonzero((messages >= -change).all(axis=1))
            many = min(len(able), max(1, int(load.max() - load.min()) // (4 * int(np.abs(change).sum()))))
            while many and np.sort(load + change * many)[::-1].tolist() >= np.sort(load)[::-1].tolist():
                many //= 2
            if many:
                able = able[np.argsort(messages[able].sum(axis=1), kind="stable")][:many]
                messages[able] += change
                load += change * many
                break
        else:
            return


def _plan_by_events(group: Group, hops: Int64Array, times: GeneratorTimes, chunks: int) -> RepresentativePlan:
    """A plan in picoseconds: a generator takes, of the messages at rest, one with the most time to go.

    hops: int64[messages, generators].
    """
    successors: list[list[int]] = group.successors.tolist()
    left: list[list[int]] = hops.tolist()
    busy: list[int] = times.busy.tolist()
    total: list[int] = times.total.tolist()
    to_go: list[int] = (hops @ times.total).tolist()
    load: list[int] = (hops.sum(axis=0) * times.busy).tolist()
    npu, free = [0] * len(left), [0] * len(busy)
    waiting: list[list[tuple[int, int]]] = [[] for _ in busy]
    events = [(0, message) for message in range(len(left))]
    rows: list[tuple[int, int, int, int]] = []
    end = 0
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, message = heapq.heappop(events)
            for generator, count in enumerate(left[message] if message >= 0 else ()):
                if count:
                    heapq.heappush(waiting[generator], (-to_go[message], message))
        for generator in sorted(range(len(free)), key=lambda generator: -load[generator]):
            while free[generator] <= now and waiting[generator]:
                negative, message = heapq.heappop(waiting[generator])
                if -negative != to_go[message] or not left[message][generator]:
                    continue  # the message has moved since it was queued
                rows.append((now, generator, npu[message], message))
                npu[message] = successors[generator][npu[message]]
                left[message][generator] -= 1
                to_go[message] -= total[generator]
                load[generator] -= busy[generator]
                free[generator], arrival = now + busy[generator], now + total[generator]
                end = max(end, arrival)
                heapq.heappush(events, (arrival, message))
                heapq.heappush(events, (free[generator], -1))
    table = np.array(rows, np.int64).reshape(-1, 4)
    columns = table[:, 1:].astype(np.int32).T
    return RepresentativePlan(end, table[:, 0], columns[0], columns[1], columns[2] + np.int32(chunks))
