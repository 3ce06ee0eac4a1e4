"""Whether renamings of the devices of a network take one failure to another.

A plan for a network without some parts is right on the network without others if a renaming of the devices takes the
one to the other, and the demand with it. It does if it is a product of automorphisms of the undamaged network, and
takes the failed parts to the failed parts. Both are checked link by link.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.parts import Part


def is_automorphism(network: Network, devices: Int32Array) -> bool:
    """Whether a permutation of the devices, int32[devices], keeps NPUs, switches, links and all their properties."""
    n, count = network.npu_count, network.device_count
    if not np.array_equal(np.sort(devices), np.arange(count)) or bool((devices[:n] >= n).any()):
        return False
    if not np.array_equal(network.present[devices], network.present):
        return False
    switches = devices[n:] - n
    if any(not np.array_equal(own[switches], own) for own in (network.buffers, network.multicast, network.reduces)):
        return False
    if len(network.endpoint) and not np.array_equal(network.endpoint[devices[:n]], network.endpoint):
        return False
    ends = [network.source, network.target], [devices[network.source], devices[network.target]]
    before, after = (np.sort((a.astype(np.int64) * count + b) * len(network.kinds) + network.kind) for a, b in ends)
    return np.array_equal(before, after)


def keeps_demand(demand: Demand, npus: Int32Array) -> bool:
    """Whether a permutation of the NPUs, int32[npus], takes each run to one with the same arguments, whose members are
    those of the run. Their order may differ, since standard collectives treat all members but the root alike.
    """
    known: set[tuple[object, ...]] = set()
    moved: set[tuple[object, ...]] = set()
    for family in demand.by_family.families:
        standard = family.first.standard
        if standard is None or not standard.shape.by_rule:
            return False
        root = family.groups[:, [standard.root]] if standard.shape.has_root else family.groups[:, :0]
        for members, groups, roots in ((known, family.groups, root), (moved, npus[family.groups], npus[root])):
            rows = np.concatenate([roots, np.sort(groups, axis=1)], axis=1)
            members.update((standard, row.tobytes()) for row in rows)
    return moved == known


def wrong_renaming(
    parts: Sequence[Part], sets: Int64Array, of: Int64Array, words: Sequence[Sequence[Int32Array]]
) -> int:
    """The first row of `sets` that its renaming does not make of another one; -1 if there is none.

    sets: int64[sets, parts], rows of `parts`. of: int64[sets], the row that is renamed. words: for each row, the
    automorphisms that are applied, in order: int32[devices] each.
    """
    ends: list[tuple[int, ...]] = [
        (*part.devices, *(device for pair in part.links for device in pair)) for part in parts
    ]
    rows: list[list[int]] = sets.tolist()
    firsts: list[int] = of.tolist()
    for row, (failed, first, word) in enumerate(zip(rows, firsts, words, strict=True)):
        renamed = [np.array(ends[part], np.int64) for part in rows[first]]
        for devices in word:
            renamed = [devices[each].astype(np.int64) for each in renamed]
        image = sorted(_image_of(parts[part], each.tolist()) for part, each in zip(rows[first], renamed, strict=True))
        if image != sorted(_image_of(parts[part], [*ends[part]]) for part in failed):
            return row
    return -1


def _image_of(part: Part, ends: list[int]) -> tuple[list[int], list[tuple[int, int]], Fraction]:
    """(devices, links, share that is left) of a part. ends: its devices and the ends of its links, after they moved."""
    cut = len(part.devices)
    return sorted(ends[:cut]), sorted(zip(ends[cut::2], ends[cut + 1 :: 2], strict=True)), part.left
