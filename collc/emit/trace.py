"""The timeline of a schedule as Chrome trace events (JSON), which Perfetto (ui.perfetto.dev) and Chrome show.

The form is that of "Trace Event Format" (Google). Times are microseconds, of which Perfetto keeps whole nanoseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import chain
from typing import Final, TextIO

import numpy as np

from collc.base.units import format_time
from collc.emit.output import Emission, WrittenFile
from collc.simulation.schedule_tasks import transfer_edges
from collc.ten.arrays import Int64Array
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, Transfers

MOST_TRANSFERS: Final = 100_000
"""Transfers, and arrows between them, in one file: about 60 MB, which browsers still open."""

_LINKS, _NPUS = 1, 2
"""Numbers of the groups of tracks (processes, in the words of the format)."""

FIRST_TRACK: Final = 100
"""The number of the first track (thread) of links; the tracks of NPUs follow. Perfetto takes thread 0 for the idle one,
and one with the number of its process for the main one.
"""

Event = dict[str, object]


def emit_trace(emission: Emission) -> WrittenFile:
    """Write the timeline. Raises what `write_trace` raises."""
    with emission.destination.new().open("w", encoding="utf-8", newline="\n") as file:
        return WrittenFile(notes=tuple(write_trace(emission.module, file)))


def write_trace(module: Module, out: TextIO) -> list[str]:
    """Write a track for each link and each NPU. Returns remarks for the report.

    On the track of a link, a slice is a chunk that occupies the link; an arrow leads from there to the next hop of the
    chunk. On that of an NPU, slices say on how many links it sends and receives, and arrivals are marked.
    Of a schedule with more than `MOST_TRANSFERS` transfers, the first ones are written.
    Raises ValueError if the module has no schedule or links have no bandwidth, CheckFailed S0401 if a chunk is
    never at the source of a transfer.
    """
    if module.schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    rows, notes = module.schedule.transfers, list[str]()
    if len(rows) > MOST_TRANSFERS:
        end = format_time(int(rows.start[MOST_TRANSFERS - 1]))
        notes.append(f"trace: the first {MOST_TRANSFERS} of {len(rows)} transfers, which start up to {end}")
        rows = rows.select(slice(0, MOST_TRANSFERS))
    clock = Clock.of(module.network, module.demand, module.schedule.model)
    leaves, arrives = rows.start + clock.busy_of(rows), rows.start + clock.total_of(rows)
    out.write('{"displayTimeUnit": "ns", "traceEvents": [')
    events = (
        _names(module.network),
        _link_slices(module, rows, leaves, arrives),
        _npu_slices(module.network, rows, leaves, arrives),
        _arrows(module, rows, arrives),
    )
    out.writelines((",\n" if number else "\n") + json.dumps(event) for number, event in enumerate(chain(*events)))
    out.write("\n]}\n")
    return notes


def _us(picoseconds: int) -> float:
    """Microseconds of which Perfetto, which multiplies by 1000 and cuts off, keeps the whole nanoseconds."""
    nanoseconds = picoseconds // 1000
    microseconds = nanoseconds / 1000
    return microseconds if int(microseconds * 1000) == nanoseconds else math.nextafter(microseconds, math.inf)


def _span(begin: int, end: int) -> Event:
    """When a slice begins and how long it takes, so that its end is the begin of what follows it."""
    return {"ts": _us(begin), "dur": _us((end // 1000 - begin // 1000) * 1000)}


def _link_track(link: int) -> int:
    return FIRST_TRACK + link


def _npu_track(network: Network, npu: int) -> int:
    return FIRST_TRACK + network.link_count + npu


def _names(network: Network) -> Iterator[Event]:
    """Names of the tracks, in the order in which they are shown."""
    for group, name in ((_LINKS, f"links of {network.name}"), (_NPUS, f"NPUs of {network.name}")):
        yield {"ph": "M", "name": "process_name", "pid": group, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": group, "args": {"sort_index": group}}
    tracks = [(_LINKS, _link_track(link), network.shown_link(link)) for link in range(network.link_count)]
    tracks += [(_NPUS, _npu_track(network, npu), network.shown_name(npu)) for npu in network.npus.tolist()]
    for group, track, name in tracks:
        yield {"ph": "M", "name": "thread_name", "pid": group, "tid": track, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": group, "tid": track, "args": {"sort_index": track}}


def _link_slices(module: Module, rows: Transfers, leaves: Int64Array, arrives: Int64Array) -> Iterator[Event]:
    """A slice for each transfer, while it occupies its link."""
    keeps = rows.keeps
    for k in range(len(rows)):
        chunk, link, start = int(rows.chunk[k]), int(rows.link[k]), int(rows.start[k])
        yield {
            "ph": "X",
            "name": module.demand.chunk_name(chunk),
            "cat": "keep" if keeps[k] else "reduce" if rows.reduce[k] else "copy",
            "pid": _LINKS,
            "tid": _link_track(link),
            **_span(start, int(leaves[k])),
            "args": {
                "bytes": int(module.demand.chunks.size[chunk]),
                "start_ps": start,
                "arrival_ps": int(arrives[k]),
                "transfer": k,
            },
        }


def _npu_slices(network: Network, rows: Transfers, leaves: Int64Array, arrives: Int64Array) -> Iterator[Event]:
    """How many links each NPU uses, as slices without gaps while there are any; and the moments of arrivals."""
    changes: list[list[tuple[int, int, int]]] = [[] for _ in range(network.npu_count)]
    source, target = network.source[rows.link].tolist(), network.target[rows.link].tolist()
    for k, (begin, end, arrival) in enumerate(zip(rows.start.tolist(), leaves.tolist(), arrives.tolist(), strict=True)):
        if source[k] < network.npu_count:
            changes[source[k]] += [(begin, 1, 0), (end, -1, 0)]
        if target[k] < network.npu_count:
            changes[target[k]] += [(begin, 0, 1), (arrival, 0, -1)]
            track = _npu_track(network, target[k])
            yield {"ph": "i", "s": "t", "name": "arrival", "pid": _NPUS, "tid": track, "ts": _us(arrival)}
    for npu, events in enumerate(changes):
        sending = receiving = since = 0
        for time, sent, received in sorted(events):
            if time > since and sending + receiving:
                name = f"sends on {sending}, receives on {receiving}"
                track = _npu_track(network, npu)
                yield {"ph": "X", "name": name, "cat": "npu", "pid": _NPUS, "tid": track, **_span(since, time)}
            sending, receiving, since = sending + sent, receiving + received, time


def _arrows(module: Module, rows: Transfers, arrives: Int64Array) -> Iterator[Event]:
    """An arrow from each transfer to those that wait for its chunk."""
    edges = transfer_edges(module.network, module.demand, rows, arrives)
    pairs: list[list[int]] = np.stack([edges.before, edges.after], axis=1)[:MOST_TRANSFERS].tolist()
    for number, (before, after) in enumerate(pairs):
        common = {"name": "chunk", "cat": "chunk", "id": number, "pid": _LINKS}
        for end, row in (({"ph": "s"}, before), ({"ph": "f", "bp": "e"}, after)):
            yield {**common, **end, "tid": _link_track(int(rows.link[row])), "ts": _us(int(rows.start[row]))}
