"""The simulator on networks whose NPUs have limits, against one written apart that looks at every moment."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.simulation.engine import simulate
from collc.simulation.routing import shortest_routes
from collc.simulation.tasks import DONE, Edges, TaskGraph
from collc.simulation.timing import AstraTiming, ExactTiming
from collc.synthesis.bounds import ideal_bound
from collc.ten.endpoint import Endpoint
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests.endpoints import limited, random_limited_network
from tests.support import MiB, all_gather, all_reduce, fully_connected, ring

from .replaying import replay

LINK = LinkKind(500_000, Fraction(25 * 10**9))


def messages(net: Network, rows: list[tuple[int, int, int]], edges: list[tuple[int, int]]) -> TaskGraph:
    """rows: source, target, bytes. edges: (before, after)."""
    source, target, size = (np.array(column) for column in zip(*rows, strict=True))
    routes, route = shortest_routes(net, source.astype(np.int32), target.astype(np.int32))
    found = np.array(edges, np.int32).reshape(-1, 2)
    ends = source.astype(np.int32), target.astype(np.int32)
    none = np.zeros(len(rows), np.int64)
    return TaskGraph(size.astype(np.int64), route, none, *ends, routes, Edges.all_of(found[:, 0], found[:, 1], DONE))


def ceil(size: int, rate: Fraction) -> int:
    return -(-size * 10**12 // rate)


def brute_force(net: Network, graph: TaskGraph) -> list[int]:
    """When each message is done. Servers (links, and what NPUs send and receive) serve in order of arrival, then of
    number; all that happens is kept in one list, of which the earliest is taken each time.
    """
    offsets, links = graph.routes.of_tasks(graph.route)
    plans: list[list[tuple[object, int, int]]] = []
    for k, size in enumerate(graph.size.tolist()):
        plan: list[tuple[object, int, int]] = []
        for link in links[offsets[k] : offsets[k + 1]].tolist():
            kind = net.kinds[int(net.kind[link])]
            source, target = int(net.source[link]), int(net.target[link])
            wide = {
                side: sum(net.kinds[int(net.kind[j])].bandwidth for j in np.flatnonzero(ends == device))
                for side, ends, device in (("out", net.source, source), ("in", net.target, target))
            }
            send, receive = net.endpoint_of(source).send, net.endpoint_of(target).receive
            wire, last = ceil(size, kind.bandwidth), 0
            if send is not None and send < wide["out"]:
                plan.append((("out", source), ceil(size, send), 0))
            if receive is not None and receive < wide["in"]:
                last = ceil(size, receive)
            plan.append((link, wire, wire + kind.latency - last))
            if last:
                plan.append((("in", target), last, last))
        plans.append(plan)
    left = [0] * len(plans)
    for after in graph.edges.after.tolist():
        left[after] += 1
    done = [-1] * len(plans)
    free: dict[object, int] = {}
    waiting = [(0, k, 0) for k in range(len(plans)) if left[k] == 0]
    while waiting:
        time, k, hop = min(waiting)
        waiting.remove((time, k, hop))
        if hop == len(plans[k]):
            done[k] = time
            for before, after in zip(graph.edges.before.tolist(), graph.edges.after.tolist(), strict=True):
                if before == k:
                    left[after] -= 1
                    if left[after] == 0:
                        waiting.append((time, after, 0))
            continue
        server, busy, delay = plans[k][hop]
        begin = max(time, free.get(server, 0))
        free[server] = begin + busy
        waiting.append((begin + delay, k, hop + 1))
    return done


@pytest.mark.parametrize("seed", range(60))
def test_agrees_with_brute_force(seed: int) -> None:
    """Messages of different sizes, so that no two of them come to the same place at the same time."""
    net = random_limited_network(seed, switches=seed % 3)
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, int]] = []
    for _ in range(12):
        source, target = rng.choice(net.npu_count, 2, replace=False).tolist()
        rows.append((source, target, int(rng.integers(100_000, 2_000_000))))
    edges = [(int(rng.integers(0, k)), k) for k in range(2, 12) if rng.random() < 0.6]
    graph = messages(net, rows, edges)
    found = simulate(net, graph, ExactTiming())
    assert found.end.tolist() == brute_force(net, graph)


def test_an_npu_feeds_its_links_in_turn() -> None:
    """Three messages of 1 MB at once, 50 GB/s for all: they enter their links 20 us apart and take 40.5 us."""
    net = limited(fully_connected(4, LINK), Endpoint(inject=Fraction(50 * 10**9)))
    graph = messages(net, [(0, k, 10**6) for k in (1, 2, 3)], [])
    assert simulate(net, graph, ExactTiming()).end.tolist() == [40_500_000, 60_500_000, 80_500_000]
    assert simulate(net, graph, AstraTiming()).end.tolist() == [40_500, 60_500, 80_500]
    assert simulate(net, graph, AstraTiming(aware=False)).end.tolist() == [40_500] * 3


def test_what_comes_at_once_is_received_in_turn() -> None:
    net = limited(fully_connected(4, LINK), Endpoint(eject=Fraction(50 * 10**9)))
    graph = messages(net, [(k, 0, 10**6) for k in (1, 2, 3)], [])
    assert simulate(net, graph, ExactTiming()).end.tolist() == [40_500_000, 60_500_000, 80_500_000]


def test_a_message_alone_takes_no_longer_than_without_limits() -> None:
    net = limited(ring(6, LINK), Endpoint(inject=Fraction(30 * 10**9), eject=Fraction(40 * 10**9)))
    graph = messages(net, [(0, 3, 10**6)], [])
    assert simulate(net, graph, ExactTiming()).time == 3 * 40_500_000


@pytest.mark.parametrize(("rate", "turns"), [(75 * 10**9, 1), (75 * 10**9 - 1, 3)])
def test_a_rate_that_the_links_cannot_exceed_limits_nothing(rate: int, turns: int) -> None:
    """Neither in the simulator nor in the check of schedules, as docs/ten.md says: three links of 25 GB/s."""
    net = limited(fully_connected(4, LINK), Endpoint(inject=Fraction(rate), eject=Fraction(rate)))
    found = simulate(net, messages(net, [(0, k, 10**6) for k in (1, 2, 3)], []), ExactTiming())
    assert len(np.unique(found.end)) == turns
    demand = all_gather(list(range(4)), MiB)
    chunk, link = np.nonzero(np.arange(4)[:, None] == net.source[None, :])
    at_once = RowSchedule(LinkModel.STORE, Transfers.of(chunk, link, np.zeros(12, np.int64), False))
    verdict = verify_schedule(Module("m", net, demand, schedule=at_once))
    assert (verdict.checks["endpoints"] == "ok") == (turns == 1)


def test_limits_do_not_count_as_links() -> None:
    net = limited(ring(4, LINK), Endpoint(memory=Fraction(30 * 10**9)))
    found = simulate(net, messages(net, [(0, 1, 10**6), (0, 3, 10**6)], []), ExactTiming())
    assert len(found.queued) == len(found.busy) == len(found.sent_bytes) == net.link_count
    assert found.utilisation(1).max() <= 1


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_takes_no_longer_than_the_schedule_and_no_less_than_the_ideal(seed: int) -> None:
    net = random_limited_network(seed)
    demand = (all_gather, all_reduce)[seed % 2](list(range(net.npu_count)), MiB)
    module = Module("m", net, demand, LinkModel.PIPELINED)
    context = PassContext()
    found = Invert().run(Synthesize("tacos").run(module, context), context)
    time = replay(net, demand, found.schedule, LinkModel.PIPELINED).time
    assert ideal_bound(net, demand).time <= time <= found.collective_time()
