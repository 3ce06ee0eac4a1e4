"""Coordinates of the NPUs of a network, as they are declared."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from collc.ten.arrays import Int32Array
from collc.ten.network import Network


@dataclass(frozen=True, eq=False)
class Coordinates:
    """sizes: along each axis, at least 2. index: int32[axes, npus]; no two NPUs have the same coordinates."""

    sizes: tuple[int, ...]
    index: Int32Array

    def shift(self, axis: int, index: Int32Array) -> Int32Array:
        """int32[npus]: the NPU that has another index along an axis, for each NPU. index: int32[npus]."""
        stride = [prod(self.sizes[other + 1 :]) for other in range(len(self.sizes))]
        number = (self.index * np.array(stride)[:, None]).sum(axis=0)
        npu = np.empty(len(number), np.int32)
        npu[number] = np.arange(len(number))
        return npu[number + (index - self.index[axis]) * stride[axis]]

    def cyclic_shift(self, axis: int) -> Int32Array:
        """int32[npus]: the next NPU along an axis, round the end."""
        return self.shift(axis, (self.index[axis] + 1) % self.sizes[axis])


def declared_coordinates(network: Network) -> Coordinates | None:
    """The indices of the NPUs; where they are equal copies of a topology, the number of the copy is one more."""
    if network.axes:
        sizes = tuple(axis.size for axis in network.axes)
        strides = tuple(prod(sizes[:axis]) for axis in range(len(sizes)))
    else:
        families = [family for family in network.families if family.first < network.npu_count]
        if not families:
            return None
        shape, count = families[0].shape, families[0].count
        alike = all(family.shape == shape and family.first == k * count for k, family in enumerate(families))
        if not alike or len(families) * count != network.npu_count:
            return None
        sizes, strides = (len(families), *shape), (count, *families[0].strides)
    long = [axis for axis, size in enumerate(sizes) if size > 1]
    if not long or prod(sizes) != network.npu_count:
        return None
    npus = np.arange(network.npu_count, dtype=np.int32)
    index = np.stack([npus // strides[axis] % sizes[axis] for axis in long])
    return Coordinates(tuple(sizes[axis] for axis in long), index.astype(np.int32))
