"""The transfers of a schedule with their durations. Impossible ones are reported and left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.module import Module
from collc.ten.schedule import Clock, Schedule, Transfers
from collc.verification.verdict import SHOWN, Findings, at

LATEST = 2**62
"""Picoseconds (53 days); a later time could overflow when a duration is added."""


@dataclass(frozen=True, eq=False)
class TimedTransfers:
    """Transfers in order of start, all of chunks and links that exist.

    chunk, link: int32. start: int64, picoseconds. reduce: bool. clock: the durations. relayed: int32, see Transfers.
    """

    chunk: Int32Array
    link: Int32Array
    start: Int64Array
    reduce: BoolArray
    clock: Clock
    relayed: Int32Array

    def __len__(self) -> int:
        return len(self.chunk)

    def durations(self, rows: NDArray[np.intp] | slice) -> tuple[Int64Array, Int64Array]:
        """Of some rows: int64, picoseconds until the link is free, and until the chunk has arrived."""
        kind, size = self.clock.kind[self.link[rows]], self.clock.size_of[self.chunk[rows]]
        return self.clock.busy[kind, size], self.clock.total[kind, size]


def clock_of(module: Module, schedule: Schedule, findings: Findings) -> Clock | None:
    """The schedule's clock, None where links have no times or a chunk has a negative size (which is reported)."""
    sizes = module.demand.chunks.size
    if len(sizes) and int(sizes.min()) < 0:
        chunk = int(np.argmax(sizes < 0))
        message = f"{findings.chunk(chunk)} has {int(sizes[chunk])} bytes"
        findings.add("causality", "V0104", 0, message, "0 bytes or more")
        return None
    try:
        clock = Clock.of(module.network, module.demand, schedule.model)
    except OverflowError:
        findings.add("causality", "V0105", 0, "a transfer takes longer than 53 days", "shorter transfers")
        return None
    except ValueError as error:
        findings.add("causality", "V0105", 0, f"transfers take no known time: {error}", "links with times that fit")
        return None
    if clock.total.size and int(clock.total.max()) >= LATEST:
        findings.add("causality", "V0105", 0, "a transfer takes longer than 53 days", "shorter transfers")
        return None
    return clock


def valid_transfers(module: Module, transfers: Transfers, clock: Clock, findings: Findings) -> TimedTransfers:
    """The transfers of existing chunks and links, between present devices, from 0 to LATEST; others are reported."""
    network = module.network
    chunk, link, start, reduce = transfers.chunk, transfers.link, transfers.start, transfers.reduce
    usable = network.source != network.target
    usable &= network.present[network.source] & network.present[network.target]
    good = (chunk >= 0) & (chunk < len(module.demand.chunks)) & (link >= 0) & (link < network.link_count)
    good &= (start >= 0) & (start < LATEST)
    relayed = transfers.relays
    if network.link_count:
        known = np.clip(link, 0, network.link_count - 1)
        good &= usable[known]
        # What is relayed came over a link into the sender, an NPU.
        into = network.target[np.clip(relayed, 0, network.link_count - 1)]
        from_sender = (into == network.source[known]) & (into < network.npu_count) & (relayed < network.link_count)
        good &= (relayed == -1) | ((relayed >= 0) & from_sender)
    if not good.all():
        bad = np.flatnonzero(~good)
        for row in bad[: 50 * SHOWN - 1]:
            _report(module, int(chunk[row]), int(link[row]), int(start[row]), int(relayed[row]), findings)
        chunk, link, start, reduce, relayed = chunk[good], link[good], start[good], reduce[good], relayed[good]
    return TimedTransfers(chunk, link, start, reduce, clock, relayed)


def _report(module: Module, chunk: int, link: int, start: int, relayed: int, findings: Findings) -> None:
    network = module.network
    what = f"{findings.chunk(chunk)} on {findings.link(link)} at {at(start)}"
    chunks = len(module.demand.chunks)
    if not 0 <= link < network.link_count:
        expected = (
            f"a link from 0 to {network.link_count - 1}" if network.link_count else "no transfer: there are no links"
        )
        findings.add("causality", "V0102", start, f"{what}: there is no such link", expected)
    elif not 0 <= chunk < chunks:
        expected = f"a chunk from 0 to {chunks - 1}" if chunks else "no transfer: there are no chunks"
        findings.add("causality", "V0102", start, f"{what}: there is no such chunk", expected)
    elif not 0 <= start < LATEST:
        findings.add("causality", "V0103", start, f"{what}: that is no time", "a start from 0 to 53 days")
    elif network.source[link] == network.target[link]:
        findings.add("causality", "V0102", start, f"{what}: it goes from a device to itself", "two different devices")
    elif not (network.present[network.source[link]] and network.present[network.target[link]]):
        findings.add("causality", "V0102", start, f"{what}: a device of it was removed", "devices that are there")
    else:
        sender = findings.device(int(network.source[link]))
        expected = f"a link into {sender}" if network.source[link] < network.npu_count else "an NPU as sender"
        origin = findings.link(relayed) if 0 <= relayed < network.link_count else f"link {relayed}"
        findings.add("causality", "V0107", start, f"{what}: it cannot relay what came over {origin}", expected)
