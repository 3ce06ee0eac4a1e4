"""What failures cost a long run: the simulation against closed formulas, and against runs worked out by hand."""

from __future__ import annotations

import math

import pytest

from collc.application.fallbacks.long_run import (
    RESTART,
    Event,
    FailingParts,
    LongRun,
    Losses,
    RandomFailures,
    Recovery,
    State,
)
from collc.application.fallbacks.lost_bandwidth import lost_shares, ring_state, split_state
from collc.application.fallbacks.published_rates import LLAMA, RATES, FailureRates, start_times
from collc.base.diagnostics import SourceFile
from collc.source.elaboration.elaborate import load_program

NIC, OTHER, GPU, HOST = "nic[0]", "nic[1]", "gpu[0]", "node[0]"
PARTS = FailingParts(
    {
        NIC: (frozenset(), frozenset({(0, 9), (9, 0)})),
        OTHER: (frozenset(), frozenset({(1, 9), (9, 1)})),
        GPU: (frozenset({0}), frozenset()),
        HOST: (frozenset({0, 1}), frozenset()),
    },
    {"network": [NIC, OTHER], "gpu": [GPU], "node": [HOST]},
)
RATES_BY_HAND = FailureRates("own", "here", 40.0, (0.4, 0.3, 0.1, 0.2))
COPIES = 10**9  # so that no two failures are in one network
START, JOIN, STOP = 5000.0, 70.0, 30.0


DAY = 86_400.0


def long_run(gpus: int = 100, seconds: float = LLAMA.seconds) -> LongRun:
    return LongRun(PARTS, gpus, seconds, START, JOIN)


def test_the_means_are_those_of_closed_formulas() -> None:
    expected = RATES_BY_HAND.count(1000 * LLAMA.node, LLAMA.seconds)
    runs = RandomFailures(PARTS, RATES_BY_HAND, COPIES, LLAMA.seconds).runs(expected)
    rate, spare, whole = expected / LLAMA.seconds, START, LLAMA.seconds
    restart = long_run().losses(runs, RESTART)
    within = 4 * math.sqrt(expected / len(runs))
    assert restart.failures == restart.restarts == pytest.approx(expected, abs=within)
    assert restart.total == restart.stalled == pytest.approx(restart.restarts * spare)
    always = long_run().losses(runs, Recovery("always", STOP, lambda _failed: State(1.5, 0)))
    others = RATES_BY_HAND.shares[3]  # by linearity: of all failures, those of nothing that has a plan
    assert always.restarts == pytest.approx(expected * others, abs=within)

    planned, everything = rate * (1 - others), rate
    # A run is slower if the last failure, which had a plan, is less than a spare's start ago.
    slow = (1 - others) * (whole * (1 - math.exp(-everything * spare)))
    edge = (1 - others) * (spare * math.exp(-everything * spare) - (1 - math.exp(-everything * spare)) / everything)
    assert always.slower == pytest.approx(0.5 * (slow + edge), rel=0.01)
    joins = planned * (whole - spare) * math.exp(-everything * spare)  # no failure follows while the spare starts
    seconds = planned * whole * STOP + joins * JOIN + everything * others * whole * START
    assert always.stalled == pytest.approx(seconds, rel=0.01)


def test_runs_with_a_number_of_failures() -> None:
    random = RandomFailures(PARTS, RATES_BY_HAND, 3, LLAMA.seconds, seed=7)
    runs = random.runs_with(30)
    assert runs == random.runs_with(30)
    assert {len(events) for events in runs} == {30}
    assert all(events == sorted(events, key=lambda event: event.time) for events in runs)
    assert {event.copy for events in runs for event in events} == {0, 1, 2}
    parts = [event.part for events in runs for event in events]
    for part, share in ((NIC, 0.2), (OTHER, 0.2), (GPU, 0.3), (HOST, 0.1), (None, 0.2)):
        assert parts.count(part) / len(parts) == pytest.approx(share, abs=0.03)


def losses(*events: tuple[float, int, str | None]) -> Losses:
    """Of one run of ten days, with plans for each part alone and for both NICs."""
    plans = {
        frozenset({NIC}): State(1.25, 0),
        frozenset({OTHER}): State(1.25, 0),
        frozenset({NIC, OTHER}): State(2.0, 0),
        frozenset({GPU}): State(1.0, 1),
        frozenset({HOST}): State(1.0, 2),
    }
    run = [Event(at * DAY, copy, part) for at, copy, part in events]
    return long_run(seconds=10 * DAY).losses([run, run], Recovery("plans", STOP, plans.get))


SPARE = START / DAY


@pytest.mark.parametrize(
    ("events", "restarts", "seconds", "slower", "missing"),
    [
        ([], 0, 0, 0, 0),
        ([(1, 0, NIC)], 0, STOP + JOIN, 0.25 * SPARE, 0),
        ([(1, 0, None)], 1, START, 0, 0),
        ([(1, 0, GPU)], 0, STOP + JOIN, 0, 0.01 * SPARE),
        ([(1, 0, NIC), (5, 0, OTHER)], 0, 2 * (STOP + JOIN), 0.5 * SPARE, 0),
        ([(1, 0, NIC), (1 + SPARE / 2, 0, OTHER)], 0, 2 * STOP + JOIN, 0.125 * SPARE + SPARE, 0),  # both: a plan
        (
            [(1, 0, NIC), (1 + SPARE / 2, 0, GPU)],
            0,
            2 * STOP + JOIN,
            0.125 * SPARE,
            0.01 * SPARE,
        ),  # the GPU has the NIC
        ([(1, 0, GPU), (1 + SPARE / 2, 0, NIC)], 0, STOP + JOIN, 0, 0.01 * SPARE),
        ([(1, 0, GPU), (1 + SPARE / 2, 0, OTHER)], 1, STOP + START, 0, 0.005 * SPARE),  # both: no plan
        ([(1, 0, GPU), (1 + SPARE / 2, 1, OTHER)], 0, 2 * STOP + JOIN, 0.25 * SPARE, 0.015 * SPARE),  # two networks
        ([(1, 0, NIC), (1 + SPARE / 2, 0, None)], 1, STOP + START, 0.125 * SPARE, 0),
        ([(10 - SPARE / 2, 0, NIC)], 0, STOP, 0.125 * SPARE, 0),  # the run ends before the spare joins
    ],
)
def test_runs_by_hand(
    events: list[tuple[float, int, str | None]], restarts: int, seconds: float, slower: float, missing: float
) -> None:
    found = losses(*events)
    assert (found.restarts, found.error) == (restarts, 0)
    assert (found.stalled, found.slower, found.missing) == pytest.approx((seconds, slower * DAY, missing * DAY))
    assert found.as_json(10 * DAY)["slowdown"] == pytest.approx(1 + (seconds / DAY + slower + missing) / 10)


def test_the_published_rates() -> None:
    llama = RATES[0]
    assert llama.count(LLAMA.gpus, LLAMA.seconds) == pytest.approx(419)
    assert llama.shares[0] * 419 == pytest.approx(42)
    assert all(sum(rates.shares) == pytest.approx(1) for rates in RATES)
    assert RATES[3].count(LLAMA.gpus, 30 * DAY) == pytest.approx(16_384 * 0.00057)  # of one link for each GPU
    assert 24 / RATES[2].count(LLAMA.gpus, DAY) == pytest.approx(1.8, abs=0.01)  # hours between failures, as printed
    assert [start_times(gpus).restart for gpus in (8, 16_384, 20_000, 200_000)] == [200, 200, 600, 900]


CLUSTER = """
import std.clusters
import std.collectives
topology t = TOPOLOGY
schedule s on t { run all_gather(t.npus, size: 16MiB) failures FAILURES }
"""


@pytest.mark.parametrize(
    ("topology", "failures", "name", "shares"),
    [
        ("dgx_h100(4)", "any nic", "nic[2, 3]", {2: 1 / 8}),
        ("dgx_h100(4)", "any rail", "rail[1]", dict.fromkeys(range(4), 1 / 8)),
        ("dgx_h100(4)", "any gpu", "gpu[1, 2]", {1: 1 / 8}),
        ("dgx_h100(4)", "any nvswitch", "nvswitch[1]", {}),
        ("tpu_v4_slice(4, 4, 4)", "any cable", "chip[0, 0, 0] <-> chip[0, 0, 1]", {0: 1 / 6, 1: 1 / 6}),
    ],
)
def test_what_nodes_lose(topology: str, failures: str, name: str, shares: dict[int, float]) -> None:
    text = CLUSTER.replace("TOPOLOGY", topology).replace("FAILURES", failures)
    request = load_program(SourceFile("p", text)).schedules[0]
    assert request.failures is not None
    found = lost_shares(request.network, request.failures.parts)
    assert found[name] == pytest.approx(shares)


def test_a_ring_is_as_slow_as_its_slowest_node() -> None:
    shares = {f"nic[{n}, {i}]": {n: 1 / 8} for n in range(2) for i in range(8)}
    lost = dict.fromkeys(shares, 0) | {GPU: 1}
    ring, split = ring_state(shares, lost), split_state(shares, lost)
    two = frozenset({"nic[0, 1]", "nic[0, 2]", "nic[1, 1]"})
    assert ring(two) == State(pytest.approx(1 / 0.75), 0)
    assert split(two) == State(1.0, 0)
    six = frozenset(f"nic[0, {i}]" for i in range(6))
    assert split(six) == State(pytest.approx(2.0), 0)
    assert ring(frozenset(f"nic[0, {i}]" for i in range(8))) is None
    assert ring(frozenset({GPU})) is None is split(frozenset({GPU}))
