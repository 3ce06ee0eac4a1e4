"""The translations of a network: commuting automorphisms of its devices and links that leave no NPU where it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from collc.ten.arrays import Int32Array


@dataclass(frozen=True, eq=False)
class Translations:
    """A product of cyclic groups of automorphisms; only the translation by 0 leaves an NPU where it is.

    An element is a number from 0 to count - 1; its index along an axis is element // stride % size, and the last axis
    has stride 1. Elements are added axis by axis.

    sizes: int, elements along each axis. npu_count: of the network.
    device: int32[axes, devices], the image of each device under the generator of each axis. link: int32[axes, links].
    """

    sizes: tuple[int, ...]
    npu_count: int
    device: Int32Array
    link: Int32Array

    @property
    def count(self) -> int:
        """Elements."""
        return prod(self.sizes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How much an element grows with its index along each axis."""
        return tuple(prod(self.sizes[axis + 1 :]) for axis in range(len(self.sizes)))

    @cached_property
    def orbits(self) -> Int32Array:
        """int32[orbits, count]: the NPU to which each element takes the representative of each orbit.

        Representatives are the lowest NPUs of their orbits, ascending; orbits[k, 0] is the k-th.
        """
        label = _lowest_images(self.sizes, self.device)[: self.npu_count]
        first = np.flatnonzero(label == np.arange(self.npu_count))
        return np.stack([self.device_images(int(npu)) for npu in first])

    @cached_property
    def orbit_of(self) -> Int32Array:
        """int32[npus]: the row of each NPU in `orbits`."""
        orbit = np.empty(self.npu_count, np.int32)
        orbit[self.orbits] = np.arange(len(self.orbits), dtype=np.int32)[:, None]
        return orbit

    @cached_property
    def element_of(self) -> Int32Array:
        """int32[npus]: the element that takes the representative of its orbit to each NPU."""
        element = np.empty(self.npu_count, np.int32)
        element[self.orbits] = np.arange(self.count, dtype=np.int32)
        return element

    @cached_property
    def link_class(self) -> Int32Array:
        """int32[links]: the lowest link of the orbit of each link, which stands for its class."""
        return _lowest_images(self.sizes, self.link)

    @cached_property
    def link_share(self) -> Int32Array:
        """int32[links]: how many elements map each link to itself, so that translations share it."""
        size = np.bincount(self.link_class, minlength=self.link.shape[1])
        return (self.count // np.maximum(1, size[self.link_class])).astype(np.int32)

    @cached_property
    def class_row(self) -> Int32Array:
        """int32[links]: the row of the class of each link in `class_links`."""
        return np.unique(self.link_class, return_inverse=True)[1].reshape(-1).astype(np.int32)

    @cached_property
    def class_links(self) -> Int32Array:
        """int32[classes, count]: the link to which each element takes the lowest link of each class, by that link."""
        lowest = np.flatnonzero(self.link_class == np.arange(len(self.link_class)))
        return np.stack([_images(self.sizes, self.link, int(link)) for link in lowest])

    @cached_property
    def class_order(self) -> Int32Array:
        """int32[classes, count]: the elements in the order of the links in `class_links`."""
        return np.argsort(self.class_links, axis=1, kind="stable").astype(np.int32)

    @cached_property
    def link_element(self) -> Int32Array:
        """int32[links]: the lowest element that takes the lowest link of its class to each link."""
        element = np.empty(self.link.shape[1], np.int32)
        for images in self.class_links:
            element[images[::-1]] = np.arange(self.count, dtype=np.int32)[::-1]
        return element

    def device_images(self, device: int) -> Int32Array:
        """int32[count]: the device to which each element takes a device."""
        return _images(self.sizes, self.device, device)

    def link_images(self, link: int) -> Int32Array:
        """int32[count]: the link to which each element takes a link."""
        return self.class_links[self.class_row[link], self.sums(int(self.link_element[link]))]

    def sorted_images(self, link: int) -> tuple[Int32Array, Int32Array]:
        """(int32[count], int32[count]): the images of a link, ascending, and the elements that take it there."""
        row = self.class_row[link]
        order = self.class_order[row]
        return self.class_links[row, order], self.difference(order, int(self.link_element[link]))

    def moved_links(self, link: Int32Array, element: Int32Array) -> Int32Array:
        """int32[n]: the link to which an element takes a link, for each pair of both."""
        return self.class_links[self.class_row[link], self.sum(self.link_element[link], element)]

    def phases(self, link: int) -> Int32Array:
        """int32[count]: the turn of each element among those that take a link to the same link, from 0."""
        images = self.link_images(link)
        order = np.argsort(images, kind="stable")
        share = int(self.link_share[link])
        phase = np.empty(self.count, np.int32)
        phase[order] = np.arange(self.count, dtype=np.int32) % share
        return phase

    def sums(self, element: int) -> Int32Array:
        """int32[count]: each element plus another one."""
        total = np.zeros(1, np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            index = (np.arange(size, dtype=np.int32) + element // stride) % size * stride
            total = (total[:, None] + index.astype(np.int32)).reshape(-1)
        return total

    def negative(self, element: int) -> int:
        """The element that gives 0 when it is added to another one."""
        return sum(-(element // stride) % size * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    def sum(self, left: Int32Array, right: Int32Array | int) -> Int32Array:
        """int32[n]: left plus right, element by element."""
        total = np.zeros(len(left), np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            total += (left // stride + right // stride) % size * np.int32(stride)
        return total

    def difference(self, left: Int32Array, right: Int32Array | int) -> Int32Array:
        """int32[n]: left minus right, element by element."""
        total = np.zeros(len(left), np.int32)
        for size, stride in zip(self.sizes, self.strides, strict=True):
            total += (left // stride - right // stride) % size * np.int32(stride)
        return total


def _images(sizes: tuple[int, ...], generators: Int32Array, start: int) -> Int32Array:
    """int32[count]: if each element takes a number, by repeated doubling along each axis."""
    images = np.array([start], np.int32)
    for size, generator in zip(sizes, generators, strict=True):
        row, power = images[:, None], generator
        while row.shape[1] < size:
            row = np.concatenate([row, power[row]], axis=1)[:, :size]
            power = power[power]
        images = row.reshape(-1)
    return images


def _lowest_images(sizes: tuple[int, ...], generators: Int32Array) -> Int32Array:
    """int32[n]: the lowest number to which any element takes each number."""
    label = np.arange(generators.shape[1], dtype=np.int32)
    for size, generator in zip(sizes, generators, strict=True):
        power, covered = generator, 1
        while covered < size:
            label = np.minimum(label, label[power])
            power, covered = power[power], covered * 2
    return label
