"""The symmetry of a network of direct links: an abelian group of translations that map links to links.

The NPUs form a product of cyclic groups, and the links of every NPU are the same generators: the network is a Cayley
graph. This is checked link by link.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.automorphisms import link_keys, match_keys
from collc.graph.coordinates import Coordinates, coordinates_of, with_bits
from collc.kernels.compiled import runs_compiled, version_of
from collc.kernels.symmetric_paths import spanning_order
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class Group:
    """The symmetry of a network of n NPUs with g generators.

    coordinates: of the NPUs, which are added index by index. generators: int32[g], the NPU that each generator leads to
    from NPU 0; parallel links are equal generators. successors: int32[g, n], the NPU that each generator leads to from
    each NPU. link: int32[g, n], the link of each generator at each NPU. kind: int32[g], the kind of these links.
    """

    coordinates: Coordinates
    generators: Int32Array
    successors: Int32Array
    link: Int32Array
    kind: Int32Array

    @property
    def count(self) -> int:
        """NPUs."""
        return self.successors.shape[1]

    def span(self) -> tuple[Int64Array, Int64Array]:
        """(order, depth), int64[n] each: the NPUs breadth first from NPU 0, and the hops to each.

        Raises SourceError if the generators do not lead to all NPUs.
        """
        order, depth = np.empty((2, self.count), np.int64)
        order_npus = version_of(spanning_order, runs_compiled(spanning_order, self.successors.size))
        if not order_npus(self.successors, order, depth):
            problem = "links do not lead from each NPU to all others"
            raise SourceError(Diagnostic("S0303", problem, hint="add links, or use smaller groups"))
        return order, depth

    @cached_property
    def generator_of(self) -> Int32Array:
        """int32[links]: the generator that each link is."""
        generator = np.empty(self.link.size, np.int32)
        generator[self.link] = np.arange(len(self.link), dtype=np.int32)[:, None]
        return generator

    @cached_property
    def target_of(self) -> Int32Array:
        """int32[links]: the NPU that each link leads to."""
        target = np.empty(self.link.size, np.int32)
        target[self.link] = self.successors
        return target

    def translations(self) -> Translations:
        """The shifts along the coordinates, with the links that they take to each other."""
        shifts = [self.coordinates.cyclic_shift(axis) for axis in range(len(self.coordinates.sizes))]
        links = np.empty((len(shifts), self.link.size), np.int32)
        for row, shift in zip(links, shifts, strict=True):
            row[self.link] = self.link[:, shift]
        return Translations(self.coordinates.sizes, self.count, np.stack(shifts), links)

    @cached_property
    def predecessors(self) -> Int32Array:
        """int32[g, n]: the NPU from which each generator leads to each NPU."""
        predecessors = np.empty_like(self.successors)
        npus = np.arange(self.count, dtype=np.int32)
        for row, successors in zip(predecessors, self.successors, strict=True):
            row[successors] = npus
        return predecessors


def find_group(network: Network) -> Group | None:
    """The symmetry of a network; None if there is none of this kind."""
    if network.npu_count < 2 or network.switch_count or not bool(network.present.all()):
        return None
    out = np.flatnonzero(network.source == 0)
    generators, kind = network.target[out], network.kind[out]
    if not len(out) or len(out) * network.npu_count != network.link_count or not bool(generators.all()):
        return None
    for declared in coordinates_of(network):
        for coordinates in with_bits(declared):
            successors = np.stack([coordinates.translation(npu) for npu in generators.tolist()])
            link = _links_of_generators(network, successors, kind)
            if link is not None:
                return Group(coordinates, generators, successors, link, kind)
    return None


def _links_of_generators(network: Network, successors: Int32Array, kind: Int32Array) -> Int32Array | None:
    """int32[g, n]: the link that each generator is at each NPU; None if some NPU has other links.

    Parallel links of one kind go to generators in order of number.
    """
    npus, kinds = np.arange(network.npu_count, dtype=np.int64), len(network.kinds)
    wanted = ((npus * network.npu_count + successors) * kinds + kind[:, None]).reshape(-1)
    link = match_keys(wanted, link_keys(network, network.source, network.target))
    return None if link is None else link.reshape(successors.shape)
