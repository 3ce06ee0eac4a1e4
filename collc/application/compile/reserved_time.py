"""How much of the time limit is kept for a schedule along shortest paths, where a search may end without any."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.application.compile.build_clock import ALLOWANCE, SHARE
from collc.application.compile.synthesis_options import SynthesisOptions
from collc.graph.digraph import Digraph
from collc.graph.distances import hops_from
from collc.synthesis.symmetric.cluster import translated_paths
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

EACH: Final = 0.85e-6
"""Seconds of processor time for a transfer along shortest paths: compiled, with its check and its file."""

COMPILING: Final = 3.0
"""Seconds that the kernels take to compile where they are not in the cache yet."""

FEW: Final = 200_000
"""Transfers up to which nothing is kept: they take less than the allowance."""

SAMPLED: Final = 16
"""NPUs, about, from which the length of paths is measured: one in a corner is far from the others."""

MOST: Final = 0.8
"""The most that is kept, as a share of the limit."""


def reserved_seconds(options: SynthesisOptions) -> float:
    """Seconds of the time limit after which a search ends earlier, so that shortest paths can be planned until it.

    Only for an All-to-All, whose chunks each need a path of their own, where that takes longer than the allowance after
    the limit and at most MOST of the limit more.
    """
    request, limit = options.request, options.time_limit
    if limit is None or options.settings.passes is not None or options.own or len(request.demand.runs) != 1:
        return 0.0  # with options of its own, a synthesizer has no such substitute
    (run,) = request.demand.runs
    chunks = len(run.pattern)
    if run.standard is None or run.standard.kind != "all_to_all" or chunks > limit / EACH:
        return 0.0
    transfers = chunks * _mean_hops(request.network)
    if transfers <= FEW:
        return 0.0
    more = EACH * transfers - (ALLOWANCE + SHARE * limit)
    if not -COMPILING < more <= MOST * limit:
        return 0.0
    more = min(more + COMPILING, MOST * limit)
    module = Module(request.name, request.network, request.demand, LinkModel.PIPELINED)
    return 0.0 if translated_paths(module) is not None else more


def _mean_hops(network: Network) -> float:
    """Links of the paths from some NPUs to the others, on average."""
    graph = Digraph.of(network)
    sampled = network.npus[:: max(1, len(network.npus) // SAMPLED)]
    return float(np.mean([np.maximum(hops_from(graph, int(npu))[network.npus], 0).mean() for npu in sampled]))
