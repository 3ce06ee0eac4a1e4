"""Time-skewed tiles: the order in which matching_steps simulates the devices, so that tiles stay in the cache.

What a link takes in a step depends on what its two ends had before it, so information travels one hop in a step. Let f
be numbers of the devices that differ by at most one over each link, such as hop distances from a corner. Then step t of
a device depends only on devices whose f + t is as large or smaller. So devices may be cut by f + t into blocks, and a
block may do all its steps before the next one begins (time skewing: Wolf and Lam, "A data locality optimizing
algorithm", 1991). Two such numbers cut a network into tiles; tiles of equal block sum are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

TILE = 256
"""Devices of a tile, if possible: their rows of bits stay in a core's own cache."""

DEPTH = 32
"""Steps that a tile does at once, at most."""


@dataclass(frozen=True, eq=False)
class SkewedTiles:
    """`depth` steps of all D devices, in tiles.

    begin: int64[tiles * depth + 1]. device: int32[D * depth]. Tile k does its step t for
    device[begin[k * depth + t] : begin[k * depth + t + 1]]. Ascending order of the tiles is a correct order.
    waves: tiles as (low, high) for each of several threads, to be done at the same time; wave after wave.
    near: int32[D], devices in an order that keeps neighbours together.
    """

    depth: int
    begin: Int64Array
    device: Int32Array
    waves: list[list[tuple[int, int]]]
    near: Int32Array


def skewed_tiles(network: Network, threads: int) -> SkewedTiles:
    """The tiles of a network; any tiles give the same result."""
    count = network.device_count
    everything = np.arange(count, dtype=np.int32)
    along, across = _coordinates(network)
    side = int(np.sqrt(TILE * along.max() * across.max() / count)) + 1
    if 3 * side > min(along.max(), across.max()):
        weight = network.in_links[0].astype(np.int64)
        return SkewedTiles(1, np.arange(count + 1), everything, [_shares(weight, 0, count, threads)], everything)
    return _cut_tiles(network, along, across, side, threads)


def _cut_tiles(network: Network, along: Int64Array, across: Int64Array, side: int, threads: int) -> SkewedTiles:
    """Tiles that are blocks of `side` values of either coordinate plus step."""
    count, depth = network.device_count, min(DEPTH, side)
    device, step = np.tile(np.arange(count, dtype=np.int32), depth), np.repeat(np.arange(depth), count)
    first, second = (along[device] + step) // side, (across[device] + step) // side
    wave, tile = first + second, first * (int(second.max()) + 1) + second
    order = np.lexsort((device, step, tile, wave))
    device, step, tile, wave = device[order], step[order], tile[order], wave[order]
    opens = np.flatnonzero(np.diff(tile, prepend=-1))
    cell = np.repeat(np.arange(len(opens)), np.diff(opens, append=len(tile))) * depth + step
    begin = np.searchsorted(cell, np.arange(len(opens) * depth + 1))
    sizes = np.diff(network.in_links[0]).astype(np.int64)[device]
    weight: Int64Array = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[begin[::depth]]
    ends = np.searchsorted(wave[opens], np.arange(int(wave.max()) + 2)).tolist()
    waves = [_shares(weight, low, high, threads) for low, high in pairwise(ends) if high > low]
    near = np.lexsort((across // side, along // side)).astype(np.int32)
    return SkewedTiles(depth, begin, device, waves, near)


def _coordinates(network: Network) -> tuple[Int64Array, Int64Array]:
    """int64[D] each: hop distances, whatever the direction of links, from a far device and from one across from it."""
    starts = np.concatenate([network.source, network.target])
    ends = np.concatenate([network.target, network.source])
    undirected = Digraph(network.device_count, starts, ends)

    def hops(start: int) -> Int64Array:
        return np.maximum(0, hops_from(undirected, start))

    along = hops(int(hops(int(starts[0])).argmax()))
    facing = hops(int(along.argmax()))
    return along, hops(int(np.minimum(along, facing).argmax()))


def _shares(weight: Int64Array, low: int, high: int, threads: int) -> list[tuple[int, int]]:
    """The tiles low .. high - 1 in ranges of about equal weight (weight[k]: the weight of all tiles before k)."""
    base, whole = int(weight[low]), int(weight[high] - weight[low])
    cuts = np.array([base + whole * k // threads for k in range(1, threads)], np.int64)
    cut: list[int] = (np.searchsorted(weight[low : high + 1], cuts) + low).tolist()
    return [(a, b) for a, b in pairwise([low, *cut, high]) if b > a]
