"""Sums made in a switch: all contributions go up to it, and the result from there to all who want it.

A switch that reduces keeps one sum of a chunk, and one that multicasts sends it to all at once. While one chunk goes
down the next one goes up, so that an All-Reduce of n chunks takes n + 1 hops, where NPUs that add up need 2n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

POLL = 1_000
"""Chunks after which it is asked whether to stop."""


def in_network(module: Module, effort: Effort) -> Module:
    """The module with each chunk reduced in the switch where it is ready first.

    Raises SourceError where a chunk that moves is not reduced, or no switch without limit that adds up and multicasts
    is linked to all that have or want it; NoSchedule where `effort.stop` asks to stop.
    """
    chunks = _sums(module)
    table, network = module.demand.chunks, module.network
    stars = _stars(network)
    clock = Clock.of(network, module.demand, module.model)
    free = np.zeros(network.link_count, np.int64)
    parts: list[Transfers] = []
    for number, chunk in enumerate(chunks.tolist()):
        if number % POLL == 0 and effort.stop():
            raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
        busy, total = (times[network.kind, clock.size_of[chunk]] for times in (clock.busy, clock.total))
        ways = [star.way(table.sets[int(table.pre[chunk])], table.sets[int(table.post[chunk])]) for star in stars]
        found = [(_sum_at(*way, free, total), way) for way in ways if way is not None]
        if not found:
            message = f"no switch that adds up joins all that have or want chunk {module.demand.chunk_name(chunk)}"
            raise SourceError(Diagnostic("S0302", message, hint="tacos() and pccl() serve every demand"))
        ready, (up, down) = min(found, key=lambda one: one[0])
        links = np.concatenate([up, down])
        start = np.concatenate([free[up], np.full(len(down), ready)])
        parts.append(Transfers.of(np.full(len(links), chunk), links, start, np.arange(len(links)) < len(up)))
        free[up] += busy[up]
        free[down] = ready + busy[down]
    return replace(module, schedule=RowSchedule(module.model, Transfers.joined(parts)))


def _sums(module: Module) -> Int32Array:
    """The chunks to reduce. Raises SourceError where others move, or something is planned."""
    table = module.demand.chunks
    sizes = table.sets.sizes
    wanted = sizes[table.post] > 0
    sums = (table.op != Op.COPY) & (sizes[table.pre] > 1) & wanted
    if module.schedule is not None or bool((~sums & wanted & (table.pre != table.post)).any()):
        message = "sums are made in switches where all chunks are reduced and nothing is planned yet"
        raise SourceError(Diagnostic("S0302", message, hint="tacos() and pccl() serve every demand"))
    return np.flatnonzero(sums).astype(np.int32)


def adds_up(network: Network) -> bool:
    """Whether any switch adds up and multicasts."""
    return bool(_stars(network))


@dataclass(frozen=True, slots=True)
class _Star:
    """A switch that adds up, multicasts and has room. up, down: int32[npus], links from and to each NPU; -1: none."""

    up: Int32Array
    down: Int32Array

    def way(self, holders: Int32Array, wanting: Int32Array) -> tuple[Int32Array, Int32Array] | None:
        """The links up and down for a chunk; None where some are missing."""
        up, down = self.up[holders], self.down[wanting]
        return None if bool((up < 0).any() or (down < 0).any()) else (up, down)


def _stars(network: Network) -> list[_Star]:
    found: list[_Star] = []
    serves = network.reduces & network.multicast & (network.buffers < 0)
    for switch in np.flatnonzero(serves) + network.npu_count:
        star = _Star(*(np.full(network.device_count, -1, np.int32) for _ in range(2)))
        into, out = np.flatnonzero(network.target == switch), np.flatnonzero(network.source == switch)
        star.up[network.source[into]] = into
        star.down[network.target[out]] = out
        if into.size:
            found.append(star)
    return found


def _sum_at(up: Int32Array, down: Int32Array, free: Int64Array, total: Int64Array) -> int:
    """When the sum is in the switch and all links down are free."""
    return max(int((free[up] + total[up]).max()), int(free[down].max()))
