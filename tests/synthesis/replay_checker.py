"""A small check of copy schedules with native switches, written apart from collc.verification: plain loops."""

from __future__ import annotations

from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Transfers

Row = tuple[int, int, int]


def problems(
    network: Network,
    demand: Demand,
    transfers: Transfers,
    model: LinkModel = LinkModel.STORE,
    *,
    inverted: bool = False,
) -> list[str]:
    """What is wrong, in words; [] for a right schedule. Reduced chunks are checked as if they were copied.

    inverted: the schedule will run backwards, and so switches hold chunks at other times.
    """
    clock = Clock.of(network, demand, model)
    busy, total = clock.busy_of(transfers).tolist(), clock.total_of(transfers).tolist()
    rows = list(zip(transfers.chunk.tolist(), transfers.link.tolist(), transfers.start.tolist(), strict=True))
    table = demand.chunks
    found = []
    here = {(chunk, npu): 0 for chunk in range(len(table)) for npu in table.sets[int(table.pre[chunk])].tolist()}
    for k, (chunk, link, start) in enumerate(rows):
        place = (chunk, int(network.target[link]))
        here[place] = min(here.get(place, start + total[k]), start + total[k])
    last: dict[int, int] = {}
    for k, (chunk, link, start) in enumerate(rows):
        if here.get((chunk, int(network.source[link])), start + 1) > start:
            found.append(f"early: chunk {chunk} on link {link} at {start}")
        if last.get(link, 0) > start:
            found.append(f"congested: link {link} at {start}")
        last[link] = start + busy[k]
    for chunk in range(len(table)):
        wanted = table.sets[int(table.post[chunk])].tolist()
        found += [f"missing: chunk {chunk} at {npu}" for npu in wanted if (chunk, npu) not in here]
    return found + _switches(network, rows, busy, total, inverted)


def _switches(network: Network, rows: list[Row], busy: list[int], total: list[int], inverted: bool) -> list[str]:
    """A place is held from arrival to the end of the last departure before the next arrival of the same chunk.

    Run backwards, the last departure is the first arrival, and the arrival a departure, whose link is then free.
    """
    found = []
    visits: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for k, (chunk, link, start) in enumerate(rows):
        if network.is_switch(int(network.target[link])):
            visits.setdefault((int(network.target[link]), chunk), []).append(
                (start + total[k] - (busy[k] if inverted else 0), 0, 0, 0)
            )
        if network.is_switch(int(network.source[link])):
            visits.setdefault((int(network.source[link]), chunk), []).append(
                (start, 1, start + busy[k], start + (0 if inverted else busy[k]))
            )
    changes: dict[int, list[tuple[int, int]]] = {}
    for (switch, chunk), events in visits.items():
        since, leaving = 0, -1
        for time, departs, end, free in sorted(events):
            if departs:
                if not network.multicast[switch - network.npu_count] and time < leaving:
                    found.append(f"switch {switch} sends chunk {chunk} twice at once at {time}")
                if since < free:
                    changes.setdefault(switch, []).extend([(since, 1), (free, -1)])
                leaving = max(leaving, end)
                since = max(since, free)
            else:
                since = time if inverted else max(time, leaving)
    for switch, steps in changes.items():
        size = int(network.buffers[switch - network.npu_count])
        held = 0
        for time, change in sorted(steps):
            held += change
            if 0 <= size < held:
                found.append(f"switch {switch} holds {held} chunks at {time}")
    return found
