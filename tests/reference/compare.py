"""Compares a schedule of the elaborator with that of the naive evaluator."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from collc.source.program import ScheduleRequest
from collc.ten.demand import Op
from collc.ten.network import Network
from tests.reference.evaluator import AlgorithmSend, Schedule, Topology

LinkRow = tuple[str, str, int | None, Fraction | None]


def links_of(network: Network) -> list[LinkRow]:
    """Links in order, with the names of their ends."""
    names = [network.device_name(d) for d in range(network.device_count)]
    rows = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True)
    return [(names[a], names[b], network.kinds[k].latency, network.kinds[k].bandwidth) for a, b, k in rows]


def links_of_reference(topology: Topology) -> list[LinkRow]:
    return [(k.source.label, k.target.label, k.latency, k.bandwidth) for k in topology.links]


def devices_of(network: Network) -> list[tuple[Any, ...]]:
    """Devices in order of their numbers."""
    found: list[tuple[Any, ...]] = []
    for d in range(network.device_count):
        k = d - network.npu_count
        more = (int(network.buffers[k]), bool(network.multicast[k]), bool(network.reduces[k])) if k >= 0 else ()
        found.append((network.device_name(d), bool(network.present[d]), *more))
    return found


def devices_of_reference(topology: Topology) -> list[tuple[Any, ...]]:
    ordered = topology.npus + topology.switches
    return [(d.label, d.present, *((d.buffer, d.multicast, d.reduces) if d.kind == "switch" else ())) for d in ordered]


def assert_same_network(network: Network, topology: Topology, ordered: bool = True) -> None:
    """ordered: also the order of links; switches of products and the links to them have no names of their own."""
    if ordered:
        assert devices_of(network) == devices_of_reference(topology)
        assert links_of(network) == links_of_reference(topology)
        return
    count = network.npu_count
    npus = devices_of(network)[:count]
    assert npus == devices_of_reference(topology)[:count]
    assert network.switch_count == len(topology.switches)
    assert _shape(links_of(network), {n for n, *_ in npus}) == _shape(
        links_of_reference(topology), {n for n, *_ in npus}
    )


def _shape(links: list[LinkRow], npus: set[Any]) -> Counter[Any]:
    """Links between NPUs as they are, and which NPUs share a switch by what links."""
    ports: dict[str, list[Any]] = {}
    plain: list[Any] = []
    for a, b, latency, bandwidth in links:
        if a in npus and b in npus:
            plain.append((a, b, latency, bandwidth))
        elif a in npus:
            ports.setdefault(b, []).append(("in", a, latency, bandwidth))
        else:
            ports.setdefault(a, []).append(("out", b, latency, bandwidth))
    return Counter([*plain, *(tuple(sorted(p)) for p in ports.values())])


def assert_same_demand(request: ScheduleRequest, schedule: Schedule) -> None:
    """Runs with their groups and chunks, in order."""
    assert [(r.collective, r.group.tolist()) for r in request.demand.runs] == [
        (r.collective, r.group) for r in schedule.runs
    ]
    for table, run in zip(request.demand.tables, schedule.runs, strict=True):
        found = []
        for i in range(len(table)):
            family = table.families[int(table.family[i])]
            indices = tuple(table.index[i, : family.rank].tolist())
            pre, post = table.sets[int(table.pre[i])].tolist(), table.sets[int(table.post[i])].tolist()
            found.append((family.name, indices, int(table.size[i]), pre, post, Op(int(table.op[i])).name.lower()))
        assert found == [(c.name, c.indices, c.size, c.pre, c.post, c.op) for c in run.chunks]


def assert_same_moves(request: ScheduleRequest, schedule: Schedule) -> None:
    """Algorithms by hand: the sends of each run, with the chunk numbers of the whole demand."""
    for number, (run, wanted) in enumerate(zip(request.runs, schedule.runs, strict=True)):
        if wanted.moves is None:
            assert run.moves is None
            continue
        assert run.moves is not None
        base = int(request.demand.first_chunk[number])
        m = run.moves
        rows = zip(
            m.chunk.tolist(), m.source.tolist(), m.target.tolist(), m.step.tolist(), m.reduce.tolist(), strict=True
        )
        assert [AlgorithmSend(chunk - base, a, b, step, reduce) for chunk, a, b, step, reduce in rows] == wanted.moves


def assert_same(request: ScheduleRequest, schedule: Schedule, ordered: bool = True) -> None:
    """Everything of one schedule."""
    assert request.name == schedule.name
    assert_same_network(request.network, schedule.topology, ordered)
    assert_same_demand(request, schedule)
    assert_same_moves(request, schedule)
