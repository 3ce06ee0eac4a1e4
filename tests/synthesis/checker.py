"""A small checker of schedules, written apart from collc.verification: it replays transfers one by one."""

from __future__ import annotations

from collections import Counter

from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, Schedule


def check(network: Network, demand: Demand, schedule: Schedule) -> int:
    """Asserts that the schedule is right; its time. Switches pass chunks on like NPUs, without a buffer limit."""
    table = demand.chunks
    rows = schedule.transfers
    clock = Clock.of(network, demand, schedule.model)
    starts = rows.start.tolist()
    frees = (rows.start + clock.busy_of(rows)).tolist()
    ends = (rows.start + clock.total_of(rows)).tolist()
    chunks, links, reduces = rows.chunk.tolist(), rows.link.tolist(), rows.reduce.tolist()
    relayed, apart = rows.relays.tolist(), rows.keeps.tolist()
    source, target = network.source.tolist(), network.target.tolist()
    last = {}
    for row in sorted(range(len(starts)), key=lambda r: (links[r], starts[r])):
        assert starts[row] >= last.get(links[row], 0), f"link {links[row]} carries two chunks at {starts[row]}"
        last[links[row]] = frees[row]
    value: dict[tuple[int, int], Counter[int]] = {}
    for chunk in range(len(table)):
        for npu in table.sets[int(table.pre[chunk])].tolist():
            own = -1 if table.op[chunk] == Op.COPY else npu
            value[npu, chunk] = Counter([own])
    carried: dict[int, Counter[int]] = {}
    kept: dict[tuple[int, int], Counter[int]] = {}
    events = [(end, 0, row) for row, end in enumerate(ends)] + [(start, 1, row) for row, start in enumerate(starts)]
    for _, leaves, row in sorted(events):
        chunk, link = chunks[row], links[row]
        if leaves and relayed[row] >= 0:
            assert target[relayed[row]] == source[link], f"{source[link]} relays what never came"
            carried[row] = kept[relayed[row], chunk]
        elif leaves:
            assert (source[link], chunk) in value, f"{source[link]} does not hold {chunk} at {starts[row]}"
            carried[row] = Counter(value[source[link], chunk])
        else:
            kept[link, chunk] = came = carried.pop(row)
            if apart[row]:
                continue
            held = value.get((target[link], chunk), Counter[int]())
            value[target[link], chunk] = held + came if reduces[row] else came
    for chunk in range(len(table)):
        pre = table.sets[int(table.pre[chunk])].tolist()
        whole = Counter([-1] if table.op[chunk] == Op.COPY else pre)
        for npu in table.sets[int(table.post[chunk])].tolist():
            assert value.get((npu, chunk)) == whole, f"{npu} ends with {value.get((npu, chunk))} of {chunk}"
    return max(ends, default=0)
