"""Which network a damaged one was: the whole one has the links and NPUs that shifts of its NPUs lack, and each
link is as most of those that shifts take it to.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from collc.graph.coordinates import declared_coordinates, untwisted_coordinates
from collc.graph.digraph import Digraph, weakly_connected
from collc.ten.arrays import Int32Array, Int64Array, distinct, find_keys, ranges
from collc.ten.network import Network

SHARE = 3
"""A network with over 1/SHARE of its links damaged is not completed; a plan that loses over 1/SHARE is not repaired."""


@lru_cache(maxsize=2)  # synthesizers and bounds ask for the same one
def undamaged_network(network: Network) -> Network | None:
    """The network that a damaged one was; the links that it has keep their numbers, and the others follow.

    None if it lacks nothing or much, if its NPUs form no array, or if links are parallel.
    """
    declared = declared_coordinates(network)
    if declared is None or not network.link_count:
        return None
    coordinates = untwisted_coordinates(network, declared)
    shifts = map(coordinates.cyclic_shift, range(len(coordinates.sizes)))
    generators = [_with_switches(network, npus) for npus in shifts]
    count = network.device_count
    keys, link = np.unique(network.source.astype(np.int64) * count + network.target, return_index=True)
    own = keys
    if len(own) < network.link_count:
        return None
    whole = with_images(own, generators)
    if whole is None:
        return None
    keys = whole
    images = [_image(keys, device) for device in generators]
    is_own = find_keys(own, keys)[1]
    before = np.full(len(keys), -1, np.int32)
    before[is_own] = network.kind[link]
    kind = _usual_kinds(network, before, [np.searchsorted(keys, image) for image in images])
    slow = int(np.count_nonzero((kind != before)[is_own]))
    is_whole = len(own) == len(keys) and slow == 0 and bool(network.present[: network.npu_count].all())
    if is_whole or len(keys) - len(own) + slow > len(own) // SHARE:
        return None
    kinds = network.kind.copy()
    kinds[link] = kind[is_own]
    return _with_links(replace(network, kind=kinds), keys[~is_own], kind[~is_own])


def with_images(keys: Int64Array, generators: list[Int64Array]) -> Int64Array | None:
    """Links and all that some maps of devices make of them, one map after another; None if over 1/SHARE is added.

    keys: int64, ascending, source x devices + target of each link. Powers of a map, each the square of the one before,
    reach all images in few rounds.
    """
    most, before = len(keys) + len(keys) // SHARE, 0
    while len(keys) > before:
        before = len(keys)
        for generator in generators:
            power = generator
            while len(wider := distinct(np.append(keys, _image(keys, power)))) > len(keys):
                if len(wider) > most:
                    return None
                keys, power = wider, power[power]
    return keys


def _image(keys: Int64Array, device: Int64Array) -> Int64Array:
    """int64: what a map of devices makes of some links, see `with_images`."""
    source, target = np.divmod(keys, len(device))
    return device[source] * len(device) + device[target]


def _usual_kinds(network: Network, kind: Int32Array, images: list[Int64Array]) -> Int32Array:
    """int32: for each link the kind of most of those that shifts take to each other, of equally many the fastest.

    kind: of each link, -1 if it is missing. images: what shifts make of each.
    """
    if len(network.kinds) == 1:
        return np.zeros(len(kind), np.int32)
    number = np.arange(len(kind))
    source, target = np.tile(number, len(images)).astype(np.int32), np.concatenate(images).astype(np.int32)
    label = weakly_connected(Digraph(len(kind), source, target))
    rate = np.array([float(each.bandwidth or 0) for each in network.kinds])
    there = np.flatnonzero(kind >= 0)
    pair, many = np.unique(label[there].astype(np.int64) * len(rate) + kind[there], return_counts=True)
    orbit, own = np.divmod(pair, len(rate))
    order = np.lexsort((rate[own], many, orbit))
    usual = np.zeros(len(kind), np.int32)
    usual[orbit[order]] = own[order]  # the last of each
    return usual[label]


def _with_links(network: Network, keys: Int64Array, kind: Int32Array) -> Network:
    source, target = np.divmod(keys, network.device_count)
    present = network.present.copy()
    present[: network.npu_count] = True
    present[source] = True
    axis = network.link_axis
    return replace(
        network,
        present=present,
        source=np.concatenate([network.source, source]).astype(np.int32),
        target=np.concatenate([network.target, target]).astype(np.int32),
        kind=np.concatenate([network.kind, kind]).astype(np.int32),
        link_axis=np.append(axis, np.full(len(keys), -1)).astype(np.int8) if len(axis) else axis,
    )


def _with_switches(network: Network, npus: Int32Array) -> Int64Array:
    """int64[devices]: the images of devices if the NPUs go to `npus`; each switch goes where most of its links lead,
    several of one place in order of number. Those without links go to ends with links that are left.
    """
    image = np.full(network.device_count, -1, np.int64)
    image[: network.npu_count] = npus
    votes = _votes(network, image)
    while len(votes):
        image[votes[:, 0]] = votes[:, 1]
        votes = _votes(network, image)
    links = np.bincount(network.source, minlength=network.device_count)
    unknown, left = np.flatnonzero(image < 0), np.setdiff1d(np.arange(network.device_count), image)
    image[unknown[np.argsort(links[unknown], kind="stable")]] = left[np.argsort(-links[left], kind="stable")]
    return image


def _votes(network: Network, image: Int64Array) -> Int64Array:
    """int64[votes, 2]: unknown switches next to known devices, and the ends of most of their links if the known devices
    move; no two have one end. Among equals a switch stays, or goes to the lowest number.
    """
    near = np.flatnonzero((image[network.source] >= 0) & (image[network.target] < 0))
    kinds = len(network.kinds)
    moved = image[network.source[near]] * kinds + network.kind[near]
    there = network.source.astype(np.int64) * kinds + network.kind
    order = np.argsort(there, kind="stable")
    low = np.searchsorted(there[order], moved, "left")
    after = np.searchsorted(there[order], moved, "right")
    row = np.repeat(np.arange(len(near)), after - low)
    goal = network.target[order[ranges(low, after)]].astype(np.int64)
    free = (goal >= network.npu_count) & ~np.isin(goal, image)
    pairs, count = np.unique(np.stack([network.target[near[row]], goal])[:, free], axis=1, return_counts=True)
    best = np.lexsort((pairs[1], pairs[1] != pairs[0], -count))
    goals, taken = dict[int, int](), set[int]()
    for switch, wanted in pairs.T[best].tolist():
        if switch not in goals and wanted not in taken:
            goals[switch] = wanted
            taken.add(wanted)
    return np.array([*goals.items()], np.int64).reshape(-1, 2)
