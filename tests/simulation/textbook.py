"""Textbook algorithms as messages, written out by hand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from collc.simulation.routing import shortest_routes
from collc.simulation.tasks import DONE, Edges, TaskGraph
from collc.ten.network import Network


class Messages:
    """Tasks in the order in which they are added. A receiver goes on when a message has arrived."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rows: list[tuple[int, int, int, int]] = []
        self.edges: list[tuple[int, int, int]] = []

    def send(self, source: int, target: int, size: int, after: Iterable[int] = ()) -> int:
        self.rows.append((source, target, size, 0))
        self.edges += [(before, len(self.rows) - 1, DONE) for before in after]
        return len(self.rows) - 1

    def work(self, npu: int, duration: int, after: Iterable[int]) -> int:
        number = self.send(npu, npu, 0, after)
        self.rows[number] = (npu, npu, 0, duration)
        return number

    def graph(self) -> TaskGraph:
        source, target, size, duration = (np.array(column) for column in zip(*self.rows, strict=True))
        route = np.full(len(self.rows), -1, np.int32)
        messages = np.flatnonzero(source != target)
        routes, route[messages] = shortest_routes(self.network, source[messages], target[messages])
        return TaskGraph(
            size.astype(np.int64), route, duration.astype(np.int64), source.astype(np.int32),
            target.astype(np.int32), routes, Edges.of(self.edges),
        )  # fmt: skip


def ring(network: Network, steps: int, size: int, step_to: int = 1, reduce_ns: int = 0, reduced: int = 0) -> TaskGraph:
    """One message a step to the next NPU, after the one received; the first `reduced` are reduced before."""
    found, n = Messages(network), network.npu_count
    before: list[int] = [-1] * n
    for step in range(steps):
        sent = []
        for npu in range(n):
            after = [before[npu]] if step else []
            if step and step <= reduced and reduce_ns:
                after = [found.work(npu, reduce_ns, after)]
            sent.append(found.send(npu, (npu + step_to) % n, size, after))
        before = [sent[(npu - step_to) % n] for npu in range(n)]
    return found.graph()


def both_rings(network: Network, size: int) -> TaskGraph:
    """An All-Gather in both directions of a ring, `size` each."""
    found, n = Messages(network), network.npu_count
    before = {step: [-1] * n for step in (1, -1)}
    for step in range(n - 1):
        for turn in (1, -1):
            sent = [found.send(npu, (npu + turn) % n, size, [before[turn][npu]] if step else []) for npu in range(n)]
            before[turn] = [sent[(npu - turn) % n] for npu in range(n)]
    return found.graph()


def direct(network: Network, size: int) -> TaskGraph:
    """Rank r sends to r + 1, r + 2, ..., all at the beginning."""
    found, n = Messages(network), network.npu_count
    for npu in range(n):
        for step in range(1, n):
            found.send(npu, (npu + step) % n, size)
    return found.graph()


def halving_doubling(network: Network, size: int) -> TaskGraph:
    """Exchanges of 1/2, 1/4, ... with the NPU N/2, N/4, ... away, and back in the opposite order."""
    found, n = Messages(network), network.npu_count
    distances = [n >> (k + 1) for k in range(n.bit_length() - 1)]
    steps = [(d, size * d // n) for d in distances] + [(d, size * d // n) for d in reversed(distances)]
    before = [-1] * n
    for step, (distance, part) in enumerate(steps):
        sent = [found.send(npu, npu ^ distance, part, [before[npu]] if step else []) for npu in range(n)]
        before = [sent[npu ^ distance] for npu in range(n)]
    return found.graph()
