"""How urgent chunks are, and which of them a slow path may bring.

Paths fall into classes by their slowest links. NPUs that faster paths join in both directions are a component of the
network. A chunk that is in a component, or that is being sent into it, needs no slow path any more (the component rule
of collc/synthesis/tacos/events.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.reachability import strongly_connected
from collc.synthesis.conditions import members_of
from collc.synthesis.swarm.problem import SwarmProblem


@dataclass(frozen=True, slots=True)
class PathClass:
    """A class of slow paths.

    slowest: picoseconds for which the slowest link of a path of this class is busy, at least.
    component: by NPU, the first NPU of its component over all faster paths.
    """

    slowest: int
    component: dict[int, int]


def path_classes_of(problem: SwarmProblem, half_ratio: int) -> list[PathClass]:
    """The classes of slow paths, faster ones first.

    A class begins where paths are at least `half_ratio` / 2 times as slow as the next faster ones.
    """
    pairs = pairwise(sorted(set(problem.paths.slowest)))
    return [
        PathClass(slower, _components(problem, slower)) for faster, slower in pairs if 2 * slower >= half_ratio * faster
    ]


def _components(problem: SwarmProblem, slower: int) -> dict[int, int]:
    """By NPU, the first NPU of its strongly connected component over the paths that are faster than `slower`."""
    paths = problem.paths
    faster = [
        (source, target)
        for source, target, slowest in zip(paths.source, paths.target, paths.slowest, strict=True)
        if slowest < slower and source not in paths.repeaters
    ]
    ends = np.array(faster, np.int32).reshape(-1, 2)
    component = strongly_connected(Digraph(len(problem.have), ends[:, 0], ends[:, 1]))
    npus = problem.conditions.task.network.npus
    return dict(zip(npus.tolist(), component[npus].tolist(), strict=True))


def weights_of(classes: int, devices: int) -> list[int]:
    """By class of slow paths, what a component that lacks a chunk adds to its urgency; an NPU that lacks it adds 1."""
    return [(devices + 1) ** (k + 1) for k in range(classes)]


class Urgency:
    """The urgency of each chunk: how many components, then how many NPUs, lack it.

    A chunk that is being sent to an NPU counts as received.
    """

    def __init__(self, classes: list[PathClass], have: list[int], need: list[int], count: int) -> None:
        self._classes = classes
        self._value = [0] * count
        self._lacking: list[dict[int, int]] = []
        self._own: list[dict[int, int]] = []
        self._unsent: list[int] = []
        for bits in need:
            self._add(bits, 1)
        self._weights = weights_of(len(classes), len(need))
        for each, weight in zip(classes, self._weights, strict=True):
            lacking: dict[int, int] = dict.fromkeys(each.component.values(), 0)
            for npu, component in each.component.items():
                lacking[component] |= need[npu]
            for npu, component in each.component.items():
                lacking[component] &= ~have[npu]
            for bits in lacking.values():
                self._add(bits, weight)
            own: dict[int, int] = dict.fromkeys(lacking, 0)
            unsent = 0
            for npu, component in each.component.items():
                own[component] |= have[npu]
                unsent |= lacking[component]
            self._lacking.append(lacking)
            self._own.append(own)
            self._unsent.append(unsent)
        self._chunks: dict[int, int] = {}
        for chunk, value in enumerate(self._value):
            self._chunks[value] = self._chunks.get(value, 0) | 1 << chunk

    def _add(self, bits: int, weight: int) -> None:
        for chunk in members_of(bits):
            self._value[chunk] += weight

    def note_sent(self, npu: int, bit: int) -> bool:
        """Notes that a chunk is being sent to an NPU. Returns whether some component still lacks the chunk."""
        chunk = bit.bit_length() - 1
        value = self._value[chunk] - 1
        for k, each in enumerate(self._classes):
            lacking, component = self._lacking[k], each.component[npu]
            if lacking[component] & bit:
                lacking[component] ^= bit
                value -= self._weights[k]
                self._unsent[k] &= ~bit
        old = self._value[chunk]
        self._chunks[old] ^= bit
        if not self._chunks[old]:
            del self._chunks[old]
        self._value[chunk] = value
        self._chunks[value] = self._chunks.get(value, 0) | bit
        return bool(self._weights) and value >= self._weights[0]

    def by_urgency(self) -> list[int]:
        """Sets of equally urgent chunks, the most urgent first."""
        return [bits for _, bits in sorted(self._chunks.items(), reverse=True)]

    def lacking(self, number: int, npu: int) -> int:
        """The chunks that the component of an NPU lacks; `number`: of the path class."""
        return self._lacking[number][self._classes[number].component[npu]]

    def held_back(self, number: int, npu: int) -> int:
        """The chunks that the component of an NPU had at the start and has already sent to another component.

        Empty once every chunk that some component lacked at the start has been sent to one.
        """
        if not self._unsent[number]:
            return 0
        own, component = self._own[number], self._classes[number].component
        return own.get(component.get(npu, -1), 0) & ~self._unsent[number]
