"""An All-to-All on a Cayley graph that lacks links or NPUs.

Blocks whose routes are whole keep them. The others, one after another, the longest first, take a route on which no
link carries more than the largest load so far, or than it can while the plan of the whole network lasts, if there is
one, over as few links as possible. SLACK of that load is left to them, since the search takes the longer, the fewer
links have room. A list schedule of all transfers then takes little longer than the largest load.

If they are too many to list, the new routes are for the gaps between the translations of the plan (repair.py), or only
the end of the plan is listed anew together with the blocks that have lost their routes. The former is better if all
links are busy, the latter if only those of some dimensions are: then blocks to one NPU find no gaps there, and would
all come after the plan.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.kernels.cheapest_routes import RouteGraph, find_routes
from collc.kernels.compiled import STEP_TIME, numbers, runs_compiled, version_of
from collc.synthesis.list_schedule import Tasks, best_starts
from collc.synthesis.symmetric.lost_blocks import NewRoutes
from collc.synthesis.symmetric.repair import Repair
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array, find_keys, ranges
from collc.ten.network import Network
from collc.ten.schedule import MOST_LISTED

PART: Final = 8
"""1/PART of the transfers of a plan are listed anew at its end; fewer leave too little room for other routes."""

SLACK: Final = 100
"""A link may carry 1/SLACK more than the largest load at first."""


class PlanPart(NamedTuple):
    """Rows of a plan, in int64 numbers. since: picoseconds, when all others have ended."""

    rows: Int64Array
    since: int

    @staticmethod
    def of_plan(repair: Repair) -> PlanPart:
        """All rows."""
        return PlanPart(np.arange(len(repair.rows)), 0)

    @staticmethod
    def to_list(repair: Repair) -> PlanPart | None:
        """What is listed anew: all rows, or the last ones; None if they are too many."""
        rows, most = repair.rows, MOST_LISTED // repair.count
        if len(rows) <= most:
            return PlanPart.of_plan(repair)
        number = -(-len(rows) // PART)
        if number > most:
            return None
        kept, chosen = np.split(np.argsort(rows.start, kind="stable"), [len(rows) - number])
        return PlanPart(np.sort(chosen), int((rows.start + repair.times.window[rows.link])[kept].max(initial=0)))


def reroute(repair: Repair, network: Network, whole: Network, part: PlanPart) -> NewRoutes | None:
    """A route for each block that has lost its own; None if no links lead to a target. part: of the plan, with which
    they share the links.
    """
    blocks, npus = repair.blocks, repair.translations.orbits[0]
    order = np.argsort(-blocks.hops, kind="stable")
    distance = hops_from(Digraph.of(whole), int(npus[0]))[npus]
    compile_it = runs_compiled(
        find_routes, STEP_TIME * len(order) * int(distance.max()) * network.link_count // network.npu_count
    )
    ends = npus[blocks.owner[order]], npus[blocks.target[order]]
    load = np.append(_loads(repair, network, part.rows), 0)
    load[-1] = max(int(load.max()), repair.end - part.since) * (SLACK + 1) // SLACK
    most = network.npu_count + 4 * len(order) * int(distance.max())  # routes that are four times as long leave a part
    room = [np.zeros(size, np.int64) for size in (*[network.npu_count] * 3, len(order), most)]
    columns = [numbers(np.asarray(column, np.int64), compile_it) for column in (*ends, load, *room)]
    find = version_of(find_routes, compile_it)
    if find(_graph_of(repair, network, distance, compile_it), *columns) < len(order):
        return None
    load, lengths, links = np.asarray(columns[2], np.int64), *columns[-2:]
    bounds = np.append(0, np.cumsum(np.asarray(lengths, np.int64)))
    routes = NewRoutes(bounds, np.asarray(links, np.int64), part.since + int(load[:-1].max()))
    return routes.select(np.argsort(order))


def _graph_of(repair: Repair, network: Network, distance: Int64Array, compile_it: bool) -> RouteGraph:
    translations, (offsets, links) = repair.translations, network.out_links
    axes = zip(translations.sizes, translations.strides, strict=True)
    index = [translations.element_of // stride % size for size, stride in axes]
    source, target, sizes, strides = network.source, network.target, translations.sizes, translations.strides
    weight = repair.actual.taken[: network.link_count]
    columns = offsets, links, source, target, weight, np.concatenate(index), sizes, strides, distance
    return RouteGraph(*(numbers(np.asarray(column, np.int64), compile_it) for column in columns))


def _loads(repair: Repair, network: Network, rows: Int64Array) -> Int64Array:
    """int64[links]: picoseconds that some rows of the blocks which keep their routes take on each link."""
    translations, link = repair.translations, repair.rows.link
    of_class = np.bincount(translations.class_row[link[rows]], minlength=len(translations.class_links))
    row, dropped = repair.dropped_links()
    is_chosen = np.zeros(len(link), np.bool_)
    is_chosen[rows] = True
    lost = np.bincount(dropped[is_chosen[row]], minlength=len(translations.class_row))
    load = of_class[translations.class_row] - lost
    return (load * repair.actual.taken)[: network.link_count]


def list_blocks(
    repair: Repair, network: Network, routes: NewRoutes, part: PlanPart, effort: Effort
) -> tuple[Int32Array, Int32Array, Int32Array, Int64Array] | None:
    """(chunks of the representative, elements of their owners, links, starts) of all transfers that are listed anew;
    None if stopped.
    """
    rows, count, blocks = repair.rows, repair.count, repair.blocks
    image = translations_of(part.rows, count)
    position, is_there = find_keys(image, repair.dropped_rows())
    row, element = np.divmod(np.delete(image, position[is_there]), count)
    element = element.astype(np.int32)
    hops = np.diff(routes.bounds)
    chunk = np.append(rows.chunk[row], np.repeat(blocks.chunk, hops)).astype(np.int32)
    owner = np.append(element, np.repeat(blocks.owner, hops))
    link = np.append(repair.translations.moved_links(rows.link[row], element), routes.links).astype(np.int32)
    block = chunk.astype(np.int64) * count + owner
    order = np.lexsort((np.append(rows.start[row], ranges(np.zeros_like(hops), hops)), block))
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
    return None if schedule is None else (chunk[urgent], owner[urgent], link[urgent], part.since + schedule[1])


def translations_of(rows: Int64Array, count: int) -> Int64Array:
    """int64: row * elements + element, for all translations of rows, in order."""
    return (rows[:, None] * count + np.arange(count)).ravel()
