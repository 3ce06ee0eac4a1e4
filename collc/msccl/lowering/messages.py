"""From the transfers of a schedule to messages from GPU to GPU: hops over switches become one message."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NoReturn

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, SourceError
from collc.msccl.collectives import ranks_of_sets
from collc.msccl.program import Message
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, MessageHops, Schedule, Transfers


@dataclass(slots=True)
class _SwitchArrival:
    """A chunk in the buffer of a switch, and the path on which it arrived.

    source: the sending NPU. path: links. start, leave, arrival: picoseconds, as in `Message`. number: the message that
    it is a hop of, or -1. relayed: the link over which came what the NPU relays, or -1. gone: the devices to which the
    switch has sent it, as (device, arrival).
    """

    source: int
    path: tuple[int, ...]
    start: int
    leave: int
    arrival: int
    number: int = -1
    relayed: int = -1
    gone: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])


def passing_on(network: Network) -> Network:
    """The network with switches that neither add nor multicast."""
    none = np.zeros(network.switch_count, np.bool_)
    return replace(network, multicast=none, reduces=none)


def messages_of(module: Module) -> tuple[list[Message], int]:
    """The messages of a module's schedule, in order of start, one chunk each; and how many of them are sent again.

    A switch passes each message on once. If the schedule lets it send a buffered chunk a second time, a GPU that has
    the chunk by then sends it again, over an idle link if there is one. Messages that bring what the receiver holds,
    and those that nobody uses, are left out. Raises SourceError M0107 if a switch multicasts or reduces, unless the
    schedule was made for switches that only pass on (`Module.relays`), M0116 if GPUs forward a partial that they do not
    add, CheckFailed M0108 if a GPU sends a chunk before it has it.
    """
    schedule = module.schedule
    if schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    if module.relays:
        module = replace(module, network=passing_on(module.network))
    _refuse_forwarded(module, schedule)
    collapse = _SwitchCollapse(module, schedule)
    found = collapse.messages()
    return _without_unused(module, _without_known_content(module, found)), collapse.again


def messages_between(module: Module) -> list[Message]:
    """All messages of a module's schedule, also those that nobody uses; else as `messages_of`."""
    schedule = module.schedule
    if schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    _refuse_forwarded(module, schedule)
    return _SwitchCollapse(module, schedule).messages()


class _SwitchCollapse:
    """Joins the hops over switches to messages from GPU to GPU. again: number of messages that are sent again."""

    def __init__(self, module: Module, schedule: Schedule) -> None:
        self._module, self._network = module, module.network
        self._clock = Clock.of(module.network, module.demand, schedule.model)
        self._sources: list[int] = module.network.source.tolist()
        self._targets: list[int] = module.network.target.tolist()
        self._rows: list[_TransferRow] = list(_rows(schedule, self._clock))
        self._inside: dict[tuple[int, int], list[_SwitchArrival]] = {}
        self._busy: dict[int, list[tuple[int, int]]] = {}
        self.again = 0
        if module.network.switch_count:
            for row in self._rows:
                self._busy.setdefault(row[1], []).append((row[2], row[3]))

    def messages(self) -> list[Message]:
        """All messages, in order of start."""
        rank_of = {npu: rank for rank, npu in enumerate(self._network.npus.tolist())}
        sources, targets, npus = self._sources, self._targets, self._network.npu_count
        found: list[Message] = []
        for chunk, link, start, leave, arrival, reduce, relayed, number, kept in self._rows:
            source, target = sources[link], targets[link]
            if source >= npus:
                hop = self._onward(chunk, link, start, arrival, number)
            else:
                hop = _SwitchArrival(source, (link,), start, leave, arrival, number, relayed)
            if target >= npus:
                self._enter(target, chunk, hop, reduce)
                continue
            ends = (rank_of[hop.source], rank_of[target])
            times = (hop.start, hop.leave, hop.arrival)
            found.append(Message(*ends, chunk, 1, hop.path, *times, reduce, hop.relayed, kept=kept))
        found.sort(key=lambda m: (m.start, m.path, m.chunk))
        return found

    def _enter(self, switch: int, chunk: int, hop: _SwitchArrival, reduce: bool) -> None:
        waiting = self._inside.setdefault((switch, chunk), [])
        if reduce and self._network.reduces[switch - self._network.npu_count] and any(not h.gone for h in waiting):
            _refuse_switch(self._module, switch, chunk)
        waiting.append(hop)

    def _onward(self, chunk: int, link: int, start: int, arrival: int, number: int) -> _SwitchArrival:
        """The path of a chunk that leaves a switch."""
        network = self._network
        switch, target = self._sources[link], self._targets[link]
        there = [hop for hop in self._inside.get((switch, chunk), []) if hop.arrival <= start]
        fresh = next((hop for hop in there if not hop.gone and hop.number == number), None)
        if fresh is None and (not there or network.multicast[switch - network.npu_count]):
            _refuse_switch(self._module, switch, chunk)
        hop = fresh or self._resent(chunk, there[-1], switch, start)
        (fresh or there[-1]).gone.append((target, arrival))
        path = (*hop.path, link)
        return _SwitchArrival(hop.source, path, hop.start, hop.leave, arrival, number, hop.relayed)

    def _resent(self, chunk: int, first: _SwitchArrival, switch: int, start: int) -> _SwitchArrival:
        """Another arrival of a chunk at a switch, such that it can leave at `start`. first: its first arrival."""
        self.again += 1
        network = self._network
        paths = [first.path]
        holders = {npu: time for npu, time in first.gone if not network.is_switch(npu)}
        offsets, links = network.in_links
        paths += [
            (int(link),)
            for link in links[offsets[switch] : offsets[switch + 1]]
            if int(network.source[link]) in holders
        ]
        best: tuple[tuple[bool, int], _SwitchArrival] | None = None
        for path in paths:
            kinds = [int(network.kind[link]) for link in path]
            column = self._clock.size_of[chunk]
            begin = start - sum(int(self._clock.total[kind, column]) for kind in kinds)
            source = int(network.source[path[0]])
            leave = begin + int(self._clock.busy[kinds[0], column])
            if begin < holders.get(source, first.start):
                continue
            busy = self._busy.setdefault(path[0], [])
            taken = any(a < leave and begin < b for a, b in busy)
            hop = _SwitchArrival(source, path, begin, leave, start)
            if best is None or (taken, len(busy)) < best[0]:
                best = ((taken, len(busy)), hop)
        chosen = best[1] if best else first
        self._busy.setdefault(chosen.path[0], []).append((chosen.start, chosen.leave))
        return chosen


_TransferRow = tuple[int, int, int, int, int, bool, int, int, bool]
"""A transfer: chunk, link, start, end of the link's occupation, arrival (picoseconds), whether it reduces, the link
over which came what it relays, the message that it is a hop of, or -1, and whether it is only kept apart."""


def _rows(schedule: Schedule, clock: Clock) -> chain[_TransferRow]:
    def block(rows: Transfers) -> zip[_TransferRow]:
        start, queued = rows.start, rows.messages
        number = np.full(len(rows), -1) if queued is None else queued.number
        ready = start if queued is None else np.where(number >= 0, queued.ready, start)
        return zip(
            rows.chunk.tolist(),
            rows.link.tolist(),
            ready.tolist(),
            (start + clock.busy_of(rows)).tolist(),
            (start + clock.total_of(rows)).tolist(),
            rows.reduce.tolist(),
            rows.relays.tolist(),
            number.tolist(),
            rows.keeps.tolist(),
            strict=True,
        )

    return chain.from_iterable(map(block, schedule.blocks()))


def _refuse_forwarded(module: Module, schedule: Schedule) -> None:
    """Raise SourceError M0116 if a GPU forwards a partial of another one that it does not add."""
    rows, network = schedule.transfers, module.network
    if rows.messages is None:
        return
    hops = MessageHops.of(rows.messages.number, rows.start)
    inner = network.target[rows.link[hops.before]]
    bad = hops.before[(inner < network.npu_count) & (module.demand.chunks.op[rows.chunk[hops.before]] != Op.COPY)]
    if len(bad):
        row = int(bad[0])
        name, npu = module.demand.chunk_name(int(rows.chunk[row])), int(network.target[rows.link[row]])
        message = f"{network.shown_name(npu)} forwards a partial of chunk {name} that it does not add"
        note = Note("in a runtime, a GPU adds a received partial to its own data, or replaces its own data")
        hint = "use an algorithm between linked GPUs, or leave out 'using'; emit ten, chakra or trace instead"
        raise SourceError(Diagnostic("M0116", message, notes=(note,), hint=hint))


def _refuse_switch(module: Module, switch: int, chunk: int) -> NoReturn:
    name, network = module.demand.chunk_name(chunk), module.network
    message = f"{network.shown_name(switch)} multicasts or reduces chunk {name}, which MSCCL cannot express"
    note = Note("MSCCL moves data from GPU to GPU; a switch can only forward each message once")
    hint = "synthesize on 'unwound(t, degree: d)', or declare the switch with 'multicast: false, reduce: false'"
    raise SourceError(Diagnostic("M0107", message, notes=(note,), hint=hint))


def _without_known_content(module: Module, messages: list[Message]) -> list[Message]:
    """The messages without those that bring a GPU what it holds already."""
    held = _initial(module)
    kept: dict[tuple[int, int], int] = {}
    carried: dict[int, int] = {}
    useful = [True] * len(messages)
    for arrives, number in _events(messages):
        message = messages[number]
        if not arrives:
            here = (message.source, message.chunk)
            value = held.get(here, 0) if message.relayed < 0 else kept.get((message.relayed, message.chunk), 0)
            if not value:
                _refuse_early_send(module, message)
            carried[number] = value
            continue
        key = (message.target, message.chunk)
        before, value = held.get(key, 0), carried.pop(number)
        kept[message.path[-1], message.chunk] = value
        if not message.kept:
            held[key] = before | value if message.reduce else value
            useful[number] = held[key] != before
    return [m for m, keep in zip(messages, useful, strict=True) if keep]


def _initial(module: Module) -> dict[tuple[int, int], int]:
    """What each (rank, chunk) holds at first, as a bit set of contributions; all copies are bit 0."""
    chunks = module.demand.chunks
    members = ranks_of_sets(module.network, chunks)
    held: dict[tuple[int, int], int] = {}
    copied = int(Op.COPY)
    for chunk, (number, op) in enumerate(zip(chunks.pre.tolist(), chunks.op.tolist(), strict=True)):
        for rank in members[int(number)]:
            held[rank, chunk] = 1 if op == copied else 1 << rank
    return held


def _refuse_early_send(module: Module, message: Message) -> NoReturn:
    name, network = module.demand.chunk_name(message.chunk), module.network
    sender = network.shown_name(int(network.npus[message.source]))
    text = f"{sender} sends chunk {name} at {message.start} ps before it holds it"
    raise CheckFailed(Diagnostic("M0108", text, hint="verify the schedule first"))


def _events(messages: list[Message]) -> list[tuple[bool, int]]:
    """Starts and arrivals in order, as (whether it arrives, message); arrivals come first at equal times."""
    count = len(messages)
    time = np.array([*(m.start for m in messages), *(m.arrival for m in messages)], np.int64)
    arrives, number = np.arange(2 * count) >= count, np.arange(2 * count) % max(1, count)
    order = np.lexsort((number, ~arrives, time))
    return list(zip(arrives[order].tolist(), number[order].tolist(), strict=True))


def _without_unused(module: Module, messages: list[Message]) -> list[Message]:
    """The messages without those whose content nobody uses."""
    chunks = module.demand.chunks
    members = ranks_of_sets(module.network, chunks)
    wanted = {(rank, chunk) for chunk, number in enumerate(chunks.post) for rank in members[int(number)]}
    apart: set[tuple[int, int]] = set()
    keep = [False] * len(messages)
    for arrives, number in reversed(_events(messages)):
        message = messages[number]
        if not arrives:
            if keep[number] and message.relayed >= 0:
                apart.add((message.relayed, message.chunk))
            elif keep[number]:
                wanted.add((message.source, message.chunk))
            continue
        came = (message.path[-1], message.chunk)
        keep[number] = came in apart
        apart.discard(came)
        if message.kept:
            continue
        if (message.target, message.chunk) in wanted:
            keep[number] = True
            if not message.reduce:
                wanted.discard((message.target, message.chunk))
    return [m for m, kept in zip(messages, keep, strict=True) if kept]
