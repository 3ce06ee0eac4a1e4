"""The possible transfers of a schedule, and their durations. Impossible ones are reported and left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.ten.arrays import BoolArray, Int64Array
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, MessageHops, QueuedMessages, Schedule, Transfers
from collc.verification.verdict import MOST_KEPT, Findings, at

LATEST = 2**62
"""Picoseconds (53 days); a later time could overflow when a duration is added."""


def clock_of(module: Module, schedule: Schedule, findings: Findings) -> Clock | None:
    """The schedule's clock, None if links have no times or a chunk has a negative size (which is reported)."""
    sizes = module.demand.chunks.size
    if len(sizes) and int(sizes.min()) < 0:
        chunk = int(np.argmax(sizes < 0))
        message = f"{findings.chunk(chunk)} has {int(sizes[chunk])} bytes"
        findings.add("causality", "V0104", 0, message, "0 bytes or more")
        return None
    try:
        clock = Clock.of(module.network, module.demand, schedule.model)
        if int(clock.total.max(initial=0)) < LATEST:
            return clock
        findings.add("causality", "V0105", 0, "a transfer takes longer than 53 days", "shorter transfers")
    except OverflowError:
        findings.add("causality", "V0105", 0, "a transfer takes longer than 53 days", "shorter transfers")
    except ValueError as error:
        findings.add("causality", "V0105", 0, f"transfers have no duration: {error}", "links with times that fit")
    return None


def valid_transfers(module: Module, transfers: Transfers, clock: Clock, findings: Findings) -> Transfers:
    """The transfers of existing chunks and links, between present devices, from 0 to LATEST; others are reported."""
    rows = _possible_transfers(module, transfers, findings)
    return rows if rows.messages is None else _with_whole_messages(module, rows, rows.messages, clock, findings)


def usable_links(network: Network) -> BoolArray:
    """bool[links]: between two devices that are there."""
    return (network.source != network.target) & network.present[network.source] & network.present[network.target]


def _possible_transfers(module: Module, transfers: Transfers, findings: Findings) -> Transfers:
    """The possible transfers; the others are reported."""
    network = module.network
    chunk, link, start = transfers.chunk, transfers.link, transfers.start
    usable = usable_links(network)
    good = (chunk >= 0) & (chunk < len(module.demand.chunks)) & (link >= 0) & (link < network.link_count)
    good &= (start >= 0) & (start < LATEST)
    relayed, lost = transfers.relays, transfers.keeps
    if network.link_count:
        known = np.clip(link, 0, network.link_count - 1)
        good &= usable[known]
        if transfers.relayed is not None:  # what is relayed came over a link into the sender, an NPU
            into = network.target[np.clip(relayed, 0, network.link_count - 1)]
            from_sender = (into == network.source[known]) & (into < network.npu_count) & (relayed < network.link_count)
            good &= (relayed == -1) | ((relayed >= 0) & from_sender)
        lost = transfers.keeps & ~(transfers.reduce & (network.target[known] < network.npu_count))
        good &= ~lost  # what is kept apart is a partial that arrives at an NPU
    if not good.all():
        bad = np.flatnonzero(~good)
        for row in bad[: MOST_KEPT - 1]:
            where = int(chunk[row]), int(link[row]), int(start[row])
            _report(module, *where, int(relayed[row]), bool(lost[row]), findings)
        return transfers.select(good)
    return transfers


def _with_whole_messages(
    module: Module, rows: Transfers, messages: QueuedMessages, clock: Clock, findings: Findings
) -> Transfers:
    """The transfers, all hops of broken messages as transfers by themselves; these messages are reported."""
    network = module.network
    source, target = network.source[rows.link], network.target[rows.link]
    hops = MessageHops.of(messages.number, rows.start)
    end = rows.start + clock.total_of(rows)
    broken = hops.find_gaps(rows.chunk, source, target, rows.start, end, rows.reduce)
    over = rows.start + clock.total[clock.kind[rows.link], clock.size_of[rows.chunk]]
    early = np.flatnonzero((messages.number >= 0) & ~_in_order(messages, rows.start, over))
    unheard = hops.after[messages.ready[hops.after] < end[hops.before]]
    inner = np.concatenate(
        [hops.first[source[hops.first] >= network.npu_count], hops.last[target[hops.last] >= network.npu_count]]
    )
    inner = inner[messages.number[inner] >= 0]
    ports = Ports.of(network)
    unlimited = (ports.out[source] < 0) & (messages.injected != rows.start)
    unlimited |= (ports.into[target] < 0) & (messages.last_received >= 0)
    relays = np.flatnonzero((messages.number >= 0) & ((rows.relays >= 0) | rows.keeps | unlimited))
    bad = np.unique(np.concatenate([broken, early, unheard, inner, relays]))
    for row in bad[: MOST_KEPT - 1].tolist():
        what = f"{findings.chunk(int(rows.chunk[row]))} on {findings.link(int(rows.link[row]))}"
        expected = (
            "hops that follow one another from an NPU to an NPU, each ready (in the queue of its link) when the one "
            "before has arrived or later, injected then or later, started then or later, and received when it has come "
            "over its link or later; injected before its start or received later only by NPUs with such limits"
        )
        start = int(rows.start[row])
        message = f"{what} at {at(start)} is not a hop of message {int(messages.number[row])}"
        findings.add("causality", "V0109", start, message, expected)
    number = np.where(np.isin(messages.number, messages.number[bad]), -1, messages.number).astype(np.int32)
    injected = np.where(number >= 0, messages.injected, rows.start)
    kept = replace(messages, number=number, injected=injected)
    return replace(rows, messages=kept if bool((number >= 0).any()) else None)


def _in_order(messages: QueuedMessages, start: Int64Array, over: Int64Array) -> BoolArray:
    """bool: whether each message is ready, then injected, then on its link, and received when it is `over` or later."""
    received = messages.last_received
    good = (messages.ready >= 0) & (messages.ready <= messages.injected) & (messages.injected <= start)
    return good & ((received == -1) | ((received >= over) & (received < LATEST)))


def _report(module: Module, chunk: int, link: int, start: int, relayed: int, lost: bool, findings: Findings) -> None:
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
        findings.add("causality", "V0103", start, f"{what}: that is not a valid time", "a start from 0 to 53 days")
    elif network.source[link] == network.target[link]:
        findings.add("causality", "V0102", start, f"{what}: it goes from a device to itself", "two different devices")
    elif not (network.present[network.source[link]] and network.present[network.target[link]]):
        findings.add("causality", "V0102", start, f"{what}: a device of it was removed", "devices that are there")
    elif lost:
        expected = "a partial that arrives at an NPU"
        findings.add("causality", "V0110", start, f"{what}: it cannot be kept apart on arrival", expected)
    else:
        sender = findings.device(int(network.source[link]))
        expected = f"a link into {sender}" if network.source[link] < network.npu_count else "an NPU as sender"
        origin = findings.link(relayed) if 0 <= relayed < network.link_count else f"link {relayed}"
        findings.add("causality", "V0107", start, f"{what}: it cannot relay what came over {origin}", expected)
