"""Plans that leave out links which are slower than those that are alike in the rest of the network.

Near a slow link all transfers of its class would wait for it. Without it, an All-to-All on a torus has other links, and
the sums of a cluster load the damaged node less. Other collectives need all that the link still carries.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collc.synthesis.damage import SHARE, undamaged_network
from collc.ten.arrays import Int64Array
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import MOST_LISTED, RowSchedule, Schedule, Transfers
from collc.ten.transform import remove_parts


def without_slow_links(module: Module) -> tuple[Module, Int64Array] | None:
    """(the module without its slow links, the number that each link which is left had); None if it has none, if its
    collective needs them, or if an NPU would lose over half of its bandwidth.
    """
    network, kept, standard = module.network, np.arange(module.network.link_count), module.demand.standard
    shape = None if standard is None else standard.shape
    if shape is None or not (shape.reduces and shape.end == "all" if network.has_switches else shape.pairs):
        return None
    for kind in np.argsort(np.bincount(network.kind, minlength=len(network.kinds)), kind="stable").tolist():
        slow = np.flatnonzero(network.kind == kind)
        if len(slow) and len(slow) * SHARE <= network.link_count and _are_slow(network, slow):
            network, kept = remove_parts(network, [], slow), np.delete(kept, slow)
    is_left = 2 * _rates(network) >= _rates(module.network)
    if network is module.network or not bool(is_left.all()):
        return None
    return replace(module, network=network), kept


def _rates(network: Network) -> NDArray[np.float64]:
    """float64[devices]: bytes a second of the links out of each."""
    rates = np.array([float(kind.bandwidth or 0) for kind in network.kinds])
    return np.asarray(np.bincount(network.source, rates[network.kind], network.device_count), np.float64)


def _are_slow(network: Network, links: Int64Array) -> bool:
    """Whether links of one kind are slower than others of which translations of the NPUs make these."""
    whole = undamaged_network(remove_parts(network, [], links))
    if whole is None:
        return False
    own = network.kinds[int(network.kind[links[0]])].bandwidth
    count = network.device_count
    of_whole = whole.source.astype(np.int64) * count + whole.target
    lost = network.source[links].astype(np.int64) * count + network.target[links]
    before: list[int] = whole.kind[np.isin(of_whole, lost)].tolist()
    others = [whole.kinds[kind].bandwidth for kind in before]
    return len(others) == len(links) and all(own is not None and rate is not None and own < rate for rate in others)


def with_slow_links(schedule: Schedule, kept: Int64Array) -> RowSchedule | None:
    """A schedule of what `without_slow_links` gives, listed with the numbers of all links; None if it is too long."""
    if len(schedule) > MOST_LISTED:
        return None
    rows = schedule.transfers
    link = kept[rows.link].astype(np.int32)
    return RowSchedule(schedule.model, Transfers(rows.chunk, link, rows.start, rows.reduce))
