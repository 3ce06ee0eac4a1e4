"""Which chunks are urgent, and which a slow lane may bring.

Lanes fall into classes by their slowest links. NPUs that faster lanes join are a part of the network; what is in a
part, or on its way there, needs no slow lane any more (the component rule of collc/synthesis/tacos/events.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from collc.synthesis.conditions import members_of
from collc.synthesis.swarm.problem import SwarmProblem


@dataclass(frozen=True, slots=True)
class Level:
    """slowest: how long the slowest link of a lane of this class takes, at least. part: by NPU, its part."""

    slowest: int
    part: dict[int, int]


def levels_of(problem: SwarmProblem, halves: int) -> list[Level]:
    """The classes of lanes that are at least `halves` / 2 times as slow as the next faster ones, faster ones first."""
    pairs = pairwise(sorted(set(problem.lanes.slowest)))
    return [Level(slower, _parts(problem, slower)) for faster, slower in pairs if 2 * slower >= halves * faster]


def _parts(problem: SwarmProblem, slower: int) -> dict[int, int]:
    """NPU -> the first NPU of its part: those that lanes faster than some join both ways."""
    lanes = problem.lanes
    ahead: list[set[int]] = [set() for _ in problem.have]
    behind: list[set[int]] = [set() for _ in problem.have]
    for source, target, slowest in zip(lanes.source, lanes.target, lanes.slowest, strict=True):
        if slowest < slower and source not in lanes.hosts:
            ahead[source].add(target)
            behind[target].add(source)
    part: dict[int, int] = {}
    for npu in problem.conditions.task.network.npus.tolist():
        if npu not in part:
            for device in _reached(ahead, npu) & _reached(behind, npu):
                part[device] = npu
    return part


def _reached(ahead: list[set[int]], start: int) -> set[int]:
    found, front = {start}, [start]
    while front:
        for device in ahead[front.pop()]:
            if device not in found:
                found.add(device)
                front.append(device)
    return found


class Urgency:
    """Chunks that are neither there nor under way: the parts that lack them count first, then the NPUs."""

    def __init__(self, levels: list[Level], have: list[int], need: list[int], count: int) -> None:
        self._levels = levels
        self._value = [0] * count
        self._lacking: list[dict[int, int]] = []
        self._own: list[dict[int, int]] = []
        self._unsent: list[int] = []
        for bits in need:
            self._add(bits, 1)
        self._weights = [(len(need) + 1) ** (k + 1) for k in range(len(levels))]
        for level, weight in zip(levels, self._weights, strict=True):
            lacking: dict[int, int] = dict.fromkeys(level.part.values(), 0)
            for npu, part in level.part.items():
                lacking[part] |= need[npu]
            for npu, part in level.part.items():
                lacking[part] &= ~have[npu]
            for bits in lacking.values():
                self._add(bits, weight)
            own: dict[int, int] = dict.fromkeys(lacking, 0)
            unsent = 0
            for npu, part in level.part.items():
                own[part] |= have[npu]
                unsent |= lacking[part]
            self._lacking.append(lacking)
            self._own.append(own)
            self._unsent.append(unsent)
        self._chunks: dict[int, int] = {}
        for chunk, value in enumerate(self._value):
            self._chunks[value] = self._chunks.get(value, 0) | 1 << chunk

    def _add(self, bits: int, weight: int) -> None:
        for chunk in members_of(bits):
            self._value[chunk] += weight

    def sent(self, npu: int, bit: int) -> bool:
        """A chunk is on its way to an NPU; whether some part lacks it still."""
        chunk = bit.bit_length() - 1
        value = self._value[chunk] - 1
        for k, level in enumerate(self._levels):
            lacking, part = self._lacking[k], level.part[npu]
            if lacking[part] & bit:
                lacking[part] ^= bit
                value -= self._weights[k]
                self._unsent[k] &= ~bit
        old = self._value[chunk]
        self._chunks[old] ^= bit
        if not self._chunks[old]:
            del self._chunks[old]
        self._value[chunk] = value
        self._chunks[value] = self._chunks.get(value, 0) | bit
        return bool(self._weights) and value >= self._weights[0]

    def kinds(self) -> list[int]:
        """Bit sets of chunks that are alike, the most urgent first."""
        return [bits for _, bits in sorted(self._chunks.items(), reverse=True)]

    def lacking(self, level: int, npu: int) -> int:
        """What the part of an NPU lacks."""
        return self._lacking[level][self._levels[level].part[npu]]

    def kept(self, level: int, npu: int) -> int:
        """What the part of an NPU need not send, since it has been sent, while other things have not left any part."""
        if not self._unsent[level]:
            return 0
        return self._own[level].get(self._levels[level].part.get(npu, -1), 0) & ~self._unsent[level]
