"""Reductions in a switch: all contributions go up to it, and the sum goes down to all NPUs that want it.

A switch that reduces adds up the contributions to a chunk, and one with multicast sends the sum to all NPUs at once.
While one chunk goes down, the next one goes up. So an All-Reduce of n chunks takes n + 1 hops; where NPUs do the
additions it takes 2n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.task import Effort
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

STOP_INTERVAL: Final = 1_000
"""Chunks between two calls of `effort.stop`."""


def in_network(module: Module, effort: Effort) -> Module:
    """The module with a schedule in which each chunk is reduced in the switch where its sum is complete first.

    Raises SourceError where a chunk that moves is not reduced, or no switch that reduces, has multicast and an
    unlimited buffer is linked to all NPUs that contribute to it or want it; NoSchedule where `effort.stop` returns
    True.
    """
    chunks = _reduced_chunks(module)
    table, network = module.demand.chunks, module.network
    switches = _reducing_switches(network)
    clock = Clock.of(network, module.demand, module.model)
    free = np.zeros(network.link_count, np.int64)
    parts: list[Transfers] = []
    for number, chunk in enumerate(chunks.tolist()):
        if number % STOP_INTERVAL == 0 and effort.stop():
            raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
        busy, total = (times[network.kind, clock.size_of[chunk]] for times in (clock.busy, clock.total))
        holders, wanting = table.sets[int(table.pre[chunk])], table.sets[int(table.post[chunk])]
        candidates = [links for switch in switches if (links := switch.links(holders, wanting)) is not None]
        if not candidates:
            name = module.demand.chunk_name(chunk)
            message = f"no switch that reduces is linked to all NPUs that contribute to chunk {name} or want it"
            raise SourceError(Diagnostic("S0302", message, hint="tacos() and pccl() serve every demand"))
        complete, (up, down) = min(
            ((_complete_at(up, down, free, total), (up, down)) for up, down in candidates), key=lambda one: one[0]
        )
        links = np.concatenate([up, down])
        start = np.concatenate([free[up], np.full(len(down), complete)])
        parts.append(Transfers.of(np.full(len(links), chunk), links, start, np.arange(len(links)) < len(up)))
        free[up] += busy[up]
        free[down] = complete + busy[down]
    return replace(module, schedule=RowSchedule(module.model, Transfers.joined(parts)))


def _reduced_chunks(module: Module) -> Int32Array:
    """int32: the chunks to reduce. Raises SourceError where other chunks move, or something is planned already."""
    table = module.demand.chunks
    sizes = table.sets.sizes
    wanted = sizes[table.post] > 0
    reduced = (table.op != Op.COPY) & (sizes[table.pre] > 1) & wanted
    if module.schedule is not None or bool((~reduced & wanted & (table.pre != table.post)).any()):
        message = "reduction in switches needs a demand where all chunks are reduced and nothing is planned yet"
        raise SourceError(Diagnostic("S0302", message, hint="tacos() and pccl() serve every demand"))
    return np.flatnonzero(reduced).astype(np.int32)


def has_reducing_switch(network: Network) -> bool:
    """Whether any switch reduces, has multicast and an unlimited buffer."""
    return bool(_reducing_switches(network))


@dataclass(frozen=True, slots=True)
class _ReducingSwitch:
    """A switch that reduces. up, down: int32[devices], the link from each device and to each; -1 for none."""

    up: Int32Array
    down: Int32Array

    def links(self, holders: Int32Array, wanting: Int32Array) -> tuple[Int32Array, Int32Array] | None:
        """The links up and down for a chunk; None where one is missing."""
        up, down = self.up[holders], self.down[wanting]
        return None if bool((up < 0).any() or (down < 0).any()) else (up, down)


def _reducing_switches(network: Network) -> list[_ReducingSwitch]:
    found: list[_ReducingSwitch] = []
    usable = network.reduces & network.multicast & (network.buffers < 0)
    for switch in np.flatnonzero(usable) + network.npu_count:
        up, down = (np.full(network.device_count, -1, np.int32) for _ in range(2))
        into, out = np.flatnonzero(network.target == switch), np.flatnonzero(network.source == switch)
        up[network.source[into]] = into
        down[network.target[out]] = out
        if into.size:
            found.append(_ReducingSwitch(up, down))
    return found


def _complete_at(up: Int32Array, down: Int32Array, free: Int64Array, total: Int64Array) -> int:
    """When the sum is complete in the switch and all links down are free."""
    return max(int((free[up] + total[up]).max()), int(free[down].max()))
