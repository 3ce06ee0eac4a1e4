"""The check that translations are automorphisms: from their permutations alone, not from how they were found."""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import Int32Array
from collc.ten.network import Network
from collc.ten.translations import Translations


def are_translations(translations: Translations, network: Network) -> bool:
    """Whether generators are commuting automorphisms of a network whose group takes each NPU everywhere in its orbit.

    They preserve the ends and kinds of links, which devices are there, and all that a switch or an endpoint is.
    """
    shape = len(translations.sizes)
    if translations.device.shape != (shape, network.device_count) or translations.link.shape != (
        shape,
        network.link_count,
    ):
        return False
    if translations.npu_count != network.npu_count or min(translations.sizes, default=0) < 1:
        return False
    generators = list(zip(translations.sizes, translations.device, translations.link, strict=True))
    if not all(_is_automorphism(device, link, network) for _, device, link in generators):
        return False
    if not all(_is_identity(device, size) and _is_identity(link, size) for size, device, link in generators):
        return False
    for number, (_, device, link) in enumerate(generators):
        for _, other_device, other_link in generators[:number]:
            if (device[other_device] != other_device[device]).any() or (link[other_link] != other_link[link]).any():
                return False
    npus = np.sort(translations.orbits.reshape(-1))
    return len(npus) == network.npu_count and bool((npus == np.arange(network.npu_count)).all())


def _is_automorphism(device: Int32Array, link: Int32Array, network: Network) -> bool:
    if not (
        _is_permutation(device)
        and _is_permutation(link)
        and bool((device[: network.npu_count] < network.npu_count).all())
    ):
        return False
    switch = device[network.npu_count :] - network.npu_count
    kept = [
        (network.source[link], device[network.source]),
        (network.target[link], device[network.target]),
        (network.kind[link], network.kind),
        (network.present[device], network.present),
        (network.buffers[switch], network.buffers),
        (network.multicast[switch], network.multicast),
        (network.reduces[switch], network.reduces),
    ]
    if len(network.endpoint):
        kept.append((network.endpoint[device[: network.npu_count]], network.endpoint))
    return all(bool((image == own).all()) for image, own in kept)


def _is_permutation(numbers: Int32Array) -> bool:
    inside = bool(((numbers >= 0) & (numbers < len(numbers))).all())
    return inside and len(np.unique(numbers)) == len(numbers)


def _is_identity(permutation: Int32Array, times: int) -> bool:
    """Whether a permutation is the identity after it is applied a number of times."""
    power, result = permutation, np.arange(len(permutation), dtype=np.int32)
    while times:
        if times & 1:
            result = power[result]
        power, times = power[power], times >> 1
    return bool((result == np.arange(len(permutation))).all())
