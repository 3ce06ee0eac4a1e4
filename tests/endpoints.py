"""Random networks whose NPUs have limits, for the tests of endpoints."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np

from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.network import LinkKind, Network
from tests.support import network

RATES = [Fraction(rate * 10**9) for rate in (5, 10, 20, 40)]


def limited(net: Network, endpoint: Endpoint) -> Network:
    """A network all of whose NPUs have the same limits."""
    return fed_links(with_endpoints(net, [endpoint] * net.npu_count))


def random_limits(net: Network, rng: Random) -> Network:
    """A network with random limits, at least one of them."""

    def rate(share: float) -> Fraction | None:
        return rng.choice(RATES) if rng.random() < share else None

    modes = ["baseline", "offload"]
    limits = [Endpoint(rate(0.5), rate(0.4), rate(0.3), rng.choice(modes)) for _ in range(net.npu_count)]
    limits[0] = Endpoint(rng.choice(RATES))
    return fed_links(with_endpoints(net, limits))


def random_limited_network(seed: int, switches: int = 0) -> Network:
    """A connected network of 3 to 6 NPUs, in which both directions of a pair are linked, with random limits."""
    rng = Random(seed)
    npus = rng.randint(3, 6)
    kinds = [LinkKind(rng.choice([0, 300_000, 700_000]), rate) for rate in RATES]
    devices = [*range(npus), *range(npus, npus + switches)]
    order = rng.sample(devices, len(devices))
    pairs = [(order[k], rng.choice(order[:k])) for k in range(1, len(order))]
    pairs += [tuple(rng.sample(range(npus), 2)) for _ in range(rng.randint(0, npus))]
    links = [(a, b, rng.choice(kinds)) for one in pairs for a, b in (one, one[::-1])]
    return random_limits(network(npus, links, switches=switches), rng)


def without_endpoints(net: Network) -> Network:
    return replace(net, endpoint=np.empty(0, np.int32), endpoint_kinds=())
