"""The simulator against numbers of ASTRA-sim 2.0, against a simulator written apart, and its two forms."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.chakra.network_file import astra_network
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.tasks import DONE, SENT, START, Edges, Routes, TaskGraph
from collc.simulation.timing import AstraTiming, ExactTiming
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel
from tests.kernel_choice import choose_kernels
from tests.simulation import textbook
from tests.simulation.reference import cycles
from tests.support import DEFAULT, MiB, network, ring

STEP = 20_031_250
LATENCY = 500_000


def on(shape: str, npus: int):
    return astra_network(shape, npus, DEFAULT)


ASTRA_SIM = {
    "ring All-Gather, Ring 4": (60_093, textbook.ring(on("Ring", 4), 3, MiB)),
    "ring All-Gather, Ring 8": (140_217, textbook.ring(on("Ring", 8), 7, MiB)),
    "bidirectional All-Gather, Ring 8": (71_855, textbook.both_rings(on("Ring", 8), MiB // 2)),
    "ring All-Reduce, Ring 8, reductions of 1 ns": (
        41_181,
        textbook.ring(on("Ring", 8), 14, MiB // 8, reduce_ns=1, reduced=7),
    ),
    "ring All-Reduce, Ring 8": (41_174, textbook.ring(on("Ring", 8), 14, MiB // 8)),
    "direct All-Gather, FullyConnected 8": (20_031, textbook.direct(on("FullyConnected", 8), MiB)),
    "direct All-Gather, Switch 8": (157_248, textbook.direct(on("Switch", 8), MiB)),
    "direct All-Gather, Ring 8": (196_310, textbook.direct(on("Ring", 8), MiB)),
    "halving-doubling All-Reduce, Ring 8": (109_530, textbook.halving_doubling(on("Ring", 8), MiB)),
}
"""Cycles of ASTRA-sim congestion-aware, with links of 50 GiB/s and 500 ns."""


@pytest.mark.parametrize("case", ASTRA_SIM)
def test_cycles_of_astra_sim(case):
    expected, graph = ASTRA_SIM[case]
    shape, npus = case.rsplit(", ", 1)[-1].split() if "reductions" not in case else ("Ring", "8")
    assert simulate(on(shape, int(npus)), graph, AstraTiming()).time == expected


def test_cycles_of_the_congestion_unaware_model():
    net = on("Ring", 8)
    assert simulate(net, textbook.direct(net, MiB), AstraTiming(aware=False)).time == 21_531
    assert simulate(net, textbook.halving_doubling(net, MiB), AstraTiming(aware=False)).time == 41_176


def test_flows_that_share_a_link_and_flows_over_two_hops():
    net = on("Ring", 4)
    shared = textbook.Messages(net)
    shared.send(0, 1, MiB)
    shared.send(0, 1, MiB)
    assert simulate(net, shared.graph(), AstraTiming()).time == 39_562
    hops = textbook.Messages(net)
    hops.send(0, 2, MiB)
    assert simulate(net, hops.graph(), AstraTiming()).time == 40_062
    assert simulate(net, hops.graph(), AstraTiming(aware=False)).time == 20_531


def test_exact_times_queues_and_loads_by_hand():
    """Three messages from 0 to 2 over 1: two queue at the first link, and none at the second."""
    net = network(3, [(0, 1), (1, 2)])
    graph = textbook.Messages(net)
    for _ in range(3):
        graph.send(0, 2, MiB)
    stored = simulate(net, graph.graph(), ExactTiming(LinkModel.STORE))
    assert stored.hops.begin.tolist() == [0, STEP, STEP, 2 * STEP, 2 * STEP, 3 * STEP]
    assert stored.end.tolist() == [2 * STEP, 3 * STEP, 4 * STEP]
    assert stored.queued.tolist() == [3 * STEP, 0]
    assert stored.sent_bytes.tolist() == [3 * MiB, 3 * MiB]
    busy = STEP - LATENCY
    piped = simulate(net, graph.graph(), ExactTiming(LinkModel.PIPELINED))
    assert piped.time_ps == 4 * busy + 2 * LATENCY
    assert piped.busy.tolist() == [3 * busy, 3 * busy]
    assert piped.rank_times.tolist() == [piped.time] * 1 + [0, piped.time]


def test_links_of_different_rates():
    slow = LinkKind(2_000_000, Fraction(25 * 2**30))
    net = network(3, [(0, 1), (1, 2, slow)])
    graph = textbook.Messages(net)
    graph.send(0, 2, MiB)
    busy = STEP - LATENCY
    assert simulate(net, graph.graph(), ExactTiming()).time == 3 * busy + 2_500_000
    assert simulate(net, graph.graph(), ExactTiming(aware=False)).time == 2 * busy + 2_500_000
    assert simulate(net, graph.graph(), AstraTiming()).time == 20_031 + 41_062


def test_phases_that_others_wait_for():
    """Followers of the start, of the last byte sent, and of the arrival."""
    net = network(2, [(0, 1), (1, 0)])
    graph = textbook.Messages(net)
    graph.send(0, 1, MiB)
    for phase in (START, SENT, DONE):
        graph.work(1, 7, [])
        graph.edges.append((0, len(graph.rows) - 1, phase))
    found = simulate(net, graph.graph(), ExactTiming())
    assert found.start.tolist() == [0, 0, STEP - LATENCY, STEP]
    assert found.end.tolist() == [STEP, 7, STEP - LATENCY + 7, STEP + 7]


def test_tasks_that_wait_for_one_another():
    net = network(2, [(0, 1)])
    graph = textbook.Messages(net)
    graph.send(0, 1, MiB)
    graph.send(0, 1, MiB, [2])
    graph.send(0, 1, MiB, [1])
    with pytest.raises(Deadlock) as caught:
        simulate(net, graph.graph(), ExactTiming())
    assert caught.value.waiting.tolist() == [1, 2]


def test_times_beyond_64_bits():
    net = network(2, [(0, 1, LinkKind(1, Fraction(1, 10**9)))])
    graph = textbook.Messages(net)
    graph.send(0, 1, 10**9)
    with pytest.raises(OverflowError):
        simulate(net, graph.graph(), ExactTiming())


def test_routes():
    """The fewest hops; of several such routes towards higher numbers on a ring of ASTRA-sim."""
    net = on("Ring", 8)
    ids = np.arange(8)
    routes, row = shortest_routes(net, np.repeat(ids, 3), (np.repeat(ids, 3) + np.tile([1, 4, 7], 8)) % 8)
    for k, number in enumerate(row.tolist()):
        links = routes.links[routes.offsets[number] : routes.offsets[number + 1]]
        hops = [(int(net.source[link]), int(net.target[link])) for link in links]
        step, count = ((1, 1), (1, 4), (-1, 1))[k % 3]
        assert hops == [((k // 3 + step * i) % 8, (k // 3 + step * (i + 1)) % 8) for i in range(count)]
    with pytest.raises(NoRoute, match="from device 2 to device 0"):
        shortest_routes(network(3, [(0, 1), (1, 2)]), np.array([2]), np.array([0]))


def test_parallel_links_are_taken_in_turn():
    net = network(3, [(0, 1), (1, 2), (0, 1), (0, 1)])
    ends = [(0, 1), (0, 2), (0, 1), (1, 2), (0, 1), (0, 1)]
    routes, row = shortest_routes(net, *np.array(ends).T)
    taken = [routes.links[routes.offsets[k] : routes.offsets[k + 1]].tolist() for k in row.tolist()]
    assert taken == [[0], [0, 1], [2], [1], [3], [0]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("compile_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_messages_take_the_parallel_link_that_is_free_first(seed, compile_it, monkeypatch):
    """Against a simulator of one queue with several servers; a third pair of links serves itself."""
    choose_kernels(monkeypatch, compile_it)
    rng = np.random.default_rng(seed)
    net = network(3, [(0, 1), (1, 2), (0, 1), (0, 1), (1, 2, LinkKind(0, Fraction(10**9)))])
    graph = textbook.Messages(net)
    begins = np.cumsum(rng.integers(0, 8_000_000, 40)).tolist()
    sizes = rng.integers(1, 2 * MiB, 40).tolist()
    for begin, size in zip(begins, sizes, strict=True):
        graph.work(0, begin, [])
        graph.send(0, 1, size, [len(graph.rows) - 1])
    found = simulate(net, replace(graph.graph(), any_lane=True), ExactTiming())
    free, ends = [0, 0, 0], []
    for begin, size in zip(begins, sizes, strict=True):
        lane = free.index(min(free))
        start = max(begin, free[lane])
        free[lane] = start + ExactTiming().hop(size, DEFAULT)[0]
        ends.append(start + ExactTiming().hop(size, DEFAULT)[1])
    assert found.end[1::2].tolist() == ends
    assert sorted(set(found.hops.link.tolist())) == [0, 2, 3]
    assert int(found.sent_bytes.sum()) == sum(sizes)
    for link in (0, 2, 3):  # no link carries two messages at once
        rows = np.flatnonzero(found.hops.link == link)
        rows = rows[np.argsort(found.hops.begin[rows])]
        assert (found.hops.begin[rows[1:]] >= (found.hops.begin + found.hops.busy)[rows[:-1]]).all()


@st.composite
def problems(draw):
    """A ring or switch of ASTRA-sim with random messages; local work between some."""
    shape = draw(st.sampled_from(["Ring", "Switch", "FullyConnected"]))
    kind = LinkKind(draw(st.sampled_from([0, 1000, 37_000])), Fraction(draw(st.sampled_from([1, 7, 50])) * 2**30))
    net = astra_network(shape, draw(st.integers(2, 6)), kind)
    found = textbook.Messages(net)
    npu = st.integers(0, net.npu_count - 1)
    for number in range(draw(st.integers(1, 25))):
        source, target = draw(npu), draw(npu)
        after = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else []
        if source == target:
            found.work(source, draw(st.integers(0, 40)), sorted(after))
        else:
            found.send(source, target, draw(st.sampled_from([1, 64, 1000, 1001])), sorted(after))
    return net, found


@given(problems())
@settings(max_examples=40, deadline=None)
def test_as_a_simulator_written_apart(problem):
    net, found = problem
    assert simulate(net, found.graph(), AstraTiming()).end.tolist() == cycles(net, found)


@pytest.mark.slow  # compiles the kernel for this comparison
@given(problems(), st.sampled_from([AstraTiming(), ExactTiming(), ExactTiming(LinkModel.STORE)]))
@settings(max_examples=20, deadline=None)
def test_plain_and_compiled_give_the_same(problem, timing):
    net, found = problem
    graph = found.graph()
    plain = simulate(net, graph, timing)
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        choose_kernels(patch, True)
        fast = simulate(net, graph, timing)
    for column in ("start", "end", "queued"):
        assert getattr(plain, column).tobytes() == getattr(fast, column).tobytes()
    assert plain.hops.begin.tobytes() == fast.hops.begin.tobytes()


def test_an_empty_graph():
    net = ring(3)
    none = np.zeros(0, np.int32)
    graph = TaskGraph(none.astype(np.int64), none, none.astype(np.int64), none, none, Routes.of([]), Edges.of([]))
    assert simulate(net, graph, ExactTiming()).time == 0
