"""ASTRA-sim's congestion-aware model as its documents say it: one event for each arrival and each link that frees."""

from __future__ import annotations

import heapq
from collections import deque

from collc.ten.network import Network
from tests.simulation.textbook import Messages


class _Simulator:
    def __init__(self, network: Network, messages: Messages) -> None:
        self.network, self.rows = network, messages.rows
        self.children: list[list[int]] = [[] for _ in self.rows]
        self.left = [0] * len(self.rows)
        for before, after, _ in messages.edges:
            self.children[before].append(after)
            self.left[after] += 1
        for row in self.children:
            row.sort()
        self.end = [-1] * len(self.rows)
        self.events: list[tuple[int, int, object]] = []
        self.count = self.now = 0
        self.busy = [False] * network.link_count
        self.queue: list[deque[tuple[int, list[int]]]] = [deque() for _ in range(network.link_count)]

    def at(self, time: int, action: object) -> None:
        heapq.heappush(self.events, (time, self.count, action))
        self.count += 1

    def path(self, source: int, target: int) -> list[int]:
        n = self.network.npu_count
        hops = [(source, target)]
        if self.network.name.startswith("Switch"):
            hops = [(source, n), (n, target)]
        elif self.network.name.startswith("Ring"):
            up = (target - source) % n
            step, count = (1, up) if up <= n - up else (-1, n - up)
            hops = [((source + step * k) % n, (source + step * (k + 1)) % n) for k in range(count)]
        ends = list(zip(self.network.source.tolist(), self.network.target.tolist(), strict=True))
        return [ends.index(hop) for hop in hops]

    def issue(self, node: int) -> None:
        source, target, _, duration = self.rows[node]
        if source != target:
            self.send(node, self.path(source, target))
        elif duration:
            self.at(self.now + duration, lambda: self.complete(node))
        else:
            self.complete(node)

    def send(self, node: int, path: list[int]) -> None:
        if self.busy[path[0]]:
            self.queue[path[0]].append((node, path))
        else:
            self.transmit(node, path)

    def transmit(self, node: int, path: list[int]) -> None:
        kind = self.network.kinds[int(self.network.kind[path[0]])]
        taken = self.rows[node][2] / (float(kind.bandwidth) / 1e9)
        self.busy[path[0]] = True
        self.at(self.now + int(kind.latency / 1000 + taken), lambda: self.arrive(node, path[1:]))
        self.at(self.now + int(taken), lambda: self.freed(path[0]))

    def arrive(self, node: int, path: list[int]) -> None:
        if path:
            self.send(node, path)
        else:
            self.complete(node)

    def freed(self, link: int) -> None:
        self.busy[link] = False
        if self.queue[link]:
            self.transmit(*self.queue[link].popleft())

    def complete(self, node: int) -> None:
        self.end[node] = self.now
        free = []
        for child in self.children[node]:
            self.left[child] -= 1
            if self.left[child] == 0:
                free.append(child)
        for child in free:
            self.issue(child)


def cycles(network: Network, messages: Messages) -> list[int]:
    """When each task is done, in nanoseconds."""
    simulator = _Simulator(network, messages)
    for node in [node for node, left in enumerate(simulator.left) if left == 0]:
        simulator.issue(node)
    while simulator.events:
        simulator.now, _, action = heapq.heappop(simulator.events)
        action()
    return simulator.end
