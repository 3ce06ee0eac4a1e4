"""The links that runs can use by themselves: between their own NPUs, directly or by switches. Of all runs at once.

Tables have a row for each run and link, or for each run and NPU, so that 100,000 groups take no more steps than one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.digraph import Digraph, strongly_connected, weakly_connected
from collc.ten.arrays import BoolArray, Int64Array, distinct, find_keys
from collc.ten.demand import FamilyRuns
from collc.ten.network import Network


@dataclass(frozen=True, slots=True, eq=False)
class RunMembers:
    """The members of all runs, in order of run and rank. run: int64[members]. npu: int64[members]."""

    run: Int64Array
    npu: Int64Array

    @staticmethod
    def of(runs: FamilyRuns) -> RunMembers:
        """Lists the members of runs."""
        pairs = list(zip(runs.families, runs.numbers(), strict=True))
        run = np.concatenate([np.repeat(numbers, family.groups.shape[1]) for family, numbers in pairs])
        npu = np.concatenate([family.groups.reshape(-1) for family, _ in pairs]).astype(np.int64)
        order = np.argsort(run, kind="stable")
        return RunMembers(run[order], npu[order])


@dataclass(frozen=True, slots=True, eq=False)
class RunLinks:
    """The links that each run may use. run: int64[rows], ascending. link: int64[rows], ascending for each run."""

    run: Int64Array
    link: Int64Array

    def take(self, kept: BoolArray) -> RunLinks:
        """Some of the rows."""
        return RunLinks(self.run[kept], self.link[kept])


def own_links(network: Network, members: RunMembers) -> RunLinks | None:
    """The links between NPUs of each run and switches, without switches that are linked to one device only; None if
    they do not join the group of a run. A run that is alone may use the links between switches, too.
    """
    rows = _links_at(network, members)
    devices = network.device_count
    joined = np.sort(members.run * devices + members.npu)
    kept = np.ones(len(rows.link), np.bool_)
    for end in (network.source[rows.link], network.target[rows.link]):
        kept &= (end >= network.npu_count) | find_keys(joined, rows.run * devices + end)[1]
    while True:
        rows = rows.take(kept)
        ends = [rows.run * devices + end[rows.link] for end in (network.source, network.target)]
        vertices, number = np.unique(np.concatenate([joined, *ends]), return_inverse=True)
        source, target = np.split(number[len(joined) :], 2)
        pair_source, pair_target = np.divmod(distinct(source * len(vertices) + target), len(vertices))
        into, out = (np.bincount(ends, minlength=len(vertices)) for ends in (pair_target, pair_source))
        idle = (into < 2) & (out < 2) & (vertices % devices >= network.npu_count)
        kept = ~idle[source] & ~idle[target]
        if kept.all():
            break
    component = strongly_connected(Digraph(len(vertices), source.astype(np.int32), target.astype(np.int32)))
    of_member, run = component[number[: len(joined)]], joined // devices
    same_run = run[1:] == run[:-1]
    return rows if (of_member[1:] == of_member[:-1])[same_run].all() else None


def _links_at(network: Network, members: RunMembers) -> RunLinks:
    """The links at the members of each run, and those between switches for a run that is alone."""
    is_between = (network.source >= network.npu_count) & (network.target >= network.npu_count)
    between = np.flatnonzero(is_between & (members.run.max() == 0))
    runs, links = [np.zeros(len(between), np.int64)], [between]
    for offsets, ends in (network.out_links, network.in_links):
        counts = (offsets[members.npu + 1] - offsets[members.npu]).astype(np.int64)
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        runs.append(np.repeat(members.run, counts))
        links.append(ends[within + np.repeat(offsets[members.npu], counts)].astype(np.int64))
    width = max(1, network.link_count)
    return RunLinks(*np.divmod(distinct(np.concatenate(runs) * width + np.concatenate(links)), width))


def part_of_runs(network: Network, members: RunMembers, rows: RunLinks, runs: int) -> Int64Array:
    """int64[runs]: parts of runs that have links in common, directly or by others, or NPUs if these have limits, in the
    order of their first runs.
    """
    run, used = rows.run, rows.link
    if network.has_endpoints:
        run, used = np.append(run, members.run), np.append(used, network.link_count + members.npu)
    count = runs + network.link_count + network.npu_count
    label = weakly_connected(Digraph(count, run.astype(np.int32), (runs + used).astype(np.int32)))[:runs]
    return np.unique(label, return_inverse=True)[1].reshape(-1).astype(np.int64)
