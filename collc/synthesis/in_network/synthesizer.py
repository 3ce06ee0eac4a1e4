"""Reductions in switches: contributions go up to one switch, and the sum goes down to all NPUs that want it.

A switch that reduces adds up the contributions to a chunk, and a switch with multicast sends the sum to all NPUs at
once. While one chunk goes down, the next one goes up. So an All-Reduce of n chunks takes n + 1 hops, compared with 2n
if NPUs reduce. If no tree of such switches joins all NPUs, the switches of the nodes are used (nodes.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.in_network.nodes import Exchange, by_nodes
from collc.synthesis.in_network.sum_trees import SumTree, TreeTransfers, sum_trees
from collc.synthesis.task import Effort
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

STOP_INTERVAL: Final = 1_000
"""Chunks between two calls of `effort.stop`."""


def in_network(module: Module, effort: Effort, exchange: Exchange | None = None) -> Module:
    """The module with a schedule in which each chunk is reduced over the tree of switches where its sum is there first.

    exchange: plans the reductions among nodes where no tree joins all NPUs; None: this is an error. Raises SourceError
    where a chunk that moves is not reduced, or the NPUs that contribute to it or want it are linked to no switches that
    reduce, have multicast and an unlimited buffer; NoSchedule if `effort.stop` returns True.
    """
    chunks = _reduced_chunks(module)
    trees = sum_trees(module.network)
    rows = _over_trees(module, effort, trees, chunks)
    if rows is not None:
        columns = np.array(rows, np.int64).reshape(-1, 4)
        chunk, link = columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32)
        transfers = Transfers.of(chunk, link, columns[:, 2], columns[:, 3].astype(np.bool_))
        return replace(module, schedule=RowSchedule(module.model, transfers))
    if exchange is None:
        message = "no tree of switches that reduce joins all NPUs that contribute to a chunk or want it"
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    return by_nodes(module, chunks, exchange)


def _over_trees(
    module: Module, effort: Effort, trees: list[SumTree], chunks: list[int]
) -> list[tuple[int, int, int, bool]] | None:
    """(chunk, link, start, whether it carries a partial) of each transfer; None if a chunk has no tree."""
    network, table = module.network, module.demand.chunks
    clock = Clock.of(network, module.demand, module.model)
    planner = TreeTransfers(network, clock.busy[network.kind].tolist(), clock.total[network.kind].tolist())
    rows: list[tuple[int, int, int, bool]] = []
    for number, chunk in enumerate(chunks):
        if number % STOP_INTERVAL == 0 and effort.stop():
            raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
        holders, wanting = (table.sets[int(column[chunk])].tolist() for column in (table.pre, table.post))
        size = int(clock.size_of[chunk])
        plans = [planner.planned(tree, holders, wanting, size) for tree in trees]
        found = [plan for plan in plans if plan is not None]
        if not found:
            return None
        _, transfers = min(found, key=lambda plan: plan[0])
        planner.occupy(transfers, size)
        rows += [(chunk, *transfer) for transfer in transfers]
    return rows


def _reduced_chunks(module: Module) -> list[int]:
    """The chunks to reduce. Raises SourceError if other chunks move, or something is planned already."""
    table = module.demand.chunks
    sizes = table.sets.sizes
    wanted = sizes[table.post] > 0
    reduced = (table.op != Op.COPY) & (sizes[table.pre] > 1) & wanted
    if module.schedule is not None or bool((~reduced & wanted & (table.pre != table.post)).any()):
        message = "reduction in switches needs a demand where all chunks are reduced and nothing is planned yet"
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    return np.flatnonzero(reduced).tolist()


def has_reducing_switch(network: Network) -> bool:
    """Whether any switch reduces, has multicast and an unlimited buffer."""
    return bool(sum_trees(network))
