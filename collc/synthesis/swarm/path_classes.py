"""Classes of paths by their slowest links, and the components of the network over faster paths.

NPUs that faster paths join in both directions are a component of the network. A chunk that is in a component, or that
is being sent into it, needs no slow path any more (the component rule of collc/synthesis/tacos/events.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from collc.graph.digraph import Digraph, strongly_connected
from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.switch_paths import SwitchPaths

NON_MINIMAL = 5, 4
"""A slow path that takes more than 5/4 of the time of the fastest one of its class over the same first link is
non-minimal. Such paths are used only for what no other path brings at the same time."""


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

    A class begins if its paths are at least `half_ratio` / 2 times as slow as the next faster ones.
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


def path_class_numbers(paths: SwitchPaths, classes: Sequence[PathClass]) -> list[int]:
    """The class of each path: 0 for the fast ones, or one more than the number of its class of slow ones."""
    return [sum(each.slowest <= slowest for each in classes) for slowest in paths.slowest]


def non_minimal_paths(paths: SwitchPaths, class_of: Sequence[int]) -> set[int]:
    """The slow paths that NON_MINIMAL describes. class_of: see `path_class_numbers`."""
    least: dict[tuple[int, int], int] = {}
    for path, links in enumerate(paths.links):
        key = links[0], class_of[path]
        least[key] = min(paths.total[-1][path], least.get(key, paths.total[-1][path]))
    over, under = NON_MINIMAL
    return {
        path
        for path, links in enumerate(paths.links)
        if class_of[path] and paths.total[-1][path] * under > over * least[links[0], class_of[path]]
    }
