"""An All-to-All on a Cayley graph that lacks links or NPUs.

Blocks whose routes are whole keep them. The others, one after another, the longest first, take a route on which no
link carries more than the largest load so far, or than it can while the plan of the whole network lasts, if there is
one, over as few links as possible. A list schedule of all transfers then takes little longer than the largest load. It
lists them; if they are too many, the new routes are for the gaps between the translations of the plan (repair.py),
which takes somewhat longer.
"""

from __future__ import annotations

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.kernels.cheapest_routes import RouteGraph, find_routes
from collc.kernels.compiled import STEP_TIME, numbers, runs_compiled, version_of
from collc.synthesis.list_schedule import Tasks, best_starts
from collc.synthesis.symmetric.repair import Repair
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


def reroute(repair: Repair, network: Network, whole: Network) -> bool:
    """Chooses a route for each block that has lost its own; False if no links lead to a target."""
    keys, hops = np.unique(repair.lost.key, return_counts=True)
    keys = keys[np.argsort(-hops, kind="stable")]
    translations, npus = repair.translations, repair.translations.orbits[0]
    distance = hops_from(Digraph.of(whole), int(npus[0]))[npus]
    compile_it = runs_compiled(
        find_routes, STEP_TIME * len(keys) * int(distance.max()) * network.link_count // network.npu_count
    )
    chunk, owner = np.divmod(keys, repair.count)
    block = translations.element_of[chunk // repair.numbers.parts]
    ends = npus[owner], npus[translations.sum(block, owner.astype(np.int32))]
    load = np.append(_loads(repair, network), 0)
    load[-1] = max(int(load.max()), repair.end)
    most = network.npu_count + 4 * len(keys) * int(distance.max())  # routes that are four times as long leave a part
    room = [np.zeros(size, np.int64) for size in (*[network.npu_count] * 3, len(keys), most)]
    columns = [numbers(np.asarray(column, np.int64), compile_it) for column in (*ends, load, *room)]
    find = version_of(find_routes, compile_it)
    if find(_graph_of(repair, network, distance, compile_it), *columns) < len(keys):
        return False
    lengths, links = columns[-2:]
    parts = np.split(np.asarray(links, np.int64), np.cumsum(lengths))
    repair.rerouted = {key: part.tolist() for key, part in zip(keys.tolist(), parts[:-1], strict=True)}
    return True


def _graph_of(repair: Repair, network: Network, distance: Int64Array, compile_it: bool) -> RouteGraph:
    translations, (offsets, links) = repair.translations, network.out_links
    axes = zip(translations.sizes, translations.strides, strict=True)
    index = [translations.element_of // stride % size for size, stride in axes]
    source, target, sizes, strides = network.source, network.target, translations.sizes, translations.strides
    weight = repair.actual.taken[: network.link_count]
    columns = offsets, links, source, target, weight, np.concatenate(index), sizes, strides, distance
    return RouteGraph(*(numbers(np.asarray(column, np.int64), compile_it) for column in columns))


def _loads(repair: Repair, network: Network) -> Int64Array:
    """int64[links]: picoseconds that the blocks which keep their routes take on each link."""
    translations, link = repair.translations, repair.rows.link
    load = np.bincount(translations.class_row[link], minlength=len(translations.class_links))[translations.class_row]
    row, element = np.divmod(repair.dropped_rows(), repair.count)
    load -= np.bincount(translations.moved_links(link[row], element.astype(np.int32)), minlength=len(load))
    return (load * repair.actual.taken)[: network.link_count]


def list_blocks(
    repair: Repair, network: Network, effort: Effort
) -> tuple[Int32Array, Int32Array, Int32Array, Int64Array] | None:
    """(chunks of the representative, elements of their owners, links, starts) of all transfers; None if stopped."""
    rows, count = repair.rows, repair.count
    kept = np.ones(len(rows) * count, np.bool_)
    kept[repair.dropped_rows()] = False
    row, element = np.divmod(np.flatnonzero(kept), count)
    element = element.astype(np.int32)
    new = [(*divmod(key, count), link, hop) for key, route in repair.rerouted.items() for hop, link in enumerate(route)]
    added = np.array(new, np.int64).reshape(-1, 4)
    chunk = np.append(rows.chunk[row], added[:, 0]).astype(np.int32)
    owner = np.append(element, added[:, 1]).astype(np.int32)
    link = np.append(repair.translations.moved_links(rows.link[row], element), added[:, 2]).astype(np.int32)
    block = chunk.astype(np.int64) * count + owner
    order = np.lexsort((np.append(rows.start[row], added[:, 3]), block))
    chunk, owner, link, block = chunk[order], owner[order], link[order], block[order]
    follows = np.flatnonzero(block[1:] == block[:-1]).astype(np.int32)
    last = np.append(np.flatnonzero(np.diff(block)), len(block) - 1)
    left = last[np.searchsorted(last, np.arange(len(block)))] - np.arange(len(block))
    urgent = np.argsort(-left, kind="stable")
    number = np.empty(len(urgent), np.int32)
    number[urgent] = np.arange(len(urgent), dtype=np.int32)
    busy, total = (repair.actual.taken[link[urgent]], repair.actual.window[link[urgent]])
    tasks = Tasks(link[urgent], busy, total, number[follows], number[follows + 1], network.link_count)
    schedule = best_starts(tasks, {}, effort, turns=0)
    return None if schedule is None else (chunk[urgent], owner[urgent], link[urgent], schedule[1])
