"""The check of what NPUs can send and receive: offenders are named, in the check and in proofs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import Clock, LinkModel, QueuedMessages, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.prove import prove_properties
from tests.endpoints import random_limited_network
from tests.support import MiB, all_gather, broadcast, gather, network

LINK = LinkKind(500_000, Fraction(25 * 10**9))
STAR = [(0, k, LINK) for k in (1, 2, 3)] + [(k, 0, LINK) for k in (1, 2, 3)]


def star(endpoint: Endpoint) -> Network:
    return fed_links(with_endpoints(network(4, STAR), [endpoint] + [Endpoint()] * 3))


def module(net: Network, demand, links: list[int], starts: list[int], model: LinkModel) -> Module:
    chunks = np.arange(len(links)) + 1 if len(demand.chunks) > 1 else np.zeros(len(links))
    rows = Transfers.of(chunks.astype(np.int32), np.array(links, np.int32), np.array(starts, np.int64))
    return Module("m", net, demand, model, RowSchedule(model, rows))


@pytest.mark.parametrize("model", LinkModel)
def test_an_npu_that_sends_too_much_is_named(model: LinkModel) -> None:
    """1 MiB at 50 GB/s is 20.97152 us: so far apart must transfers start, however many links there are."""
    net = star(Endpoint(memory=Fraction(75 * 10**9)))
    demand = broadcast([0, 1, 2, 3], MiB)
    apart = 20_971_520
    good = module(net, demand, [0, 1, 2], [0, apart, 2 * apart], model)
    assert verify_schedule(good).ok
    assert prove_properties(good).outcomes["endpoints"] == "proved"
    bad = module(net, demand, [0, 1, 2], [0, apart, 2 * apart - 1], model)
    verdict = verify_schedule(bad)
    assert verdict.failed_checks() == ("endpoints",)
    assert verdict.diagnostics[0].code == "V0202"
    assert verdict.diagnostics[0].message == (
        "endpoints: npu[0] sends 0:x[0] over npu[0] -> npu[3] (link 2) from 41.943039us, but sends 0:x[0] over "
        "npu[0] -> npu[2] (link 1) until 41.94304us"
    )
    assert verdict.diagnostics[0].notes[0].message == (
        "expected: one transfer after another, at the 50GB/s that the memory of npu[0] allows"
    )
    assert prove_properties(bad).outcomes["endpoints"] == "refuted"


@pytest.mark.parametrize("rate", [75, 100])
def test_a_limit_that_feeds_all_links_at_once_is_none(rate: int) -> None:
    """The proof and the check count the same limits: three links of 25 GB/s can start together."""
    net = fed_links(with_endpoints(network(4, STAR), [Endpoint(inject=Fraction(rate * 10**9))] + [Endpoint()] * 3))
    together = module(net, broadcast([0, 1, 2, 3], MiB), [0, 1, 2], [0, 0, 0], LinkModel.STORE)
    assert verify_schedule(together).ok
    assert prove_properties(together).outcomes["endpoints"] == "proved"


def test_messages_that_queue_do_not_hide_what_an_npu_cannot_send() -> None:
    """A message may wait for its link after the NPU has sent it; two are not sent at once, whenever they start."""
    net = star(Endpoint(memory=Fraction(75 * 10**9)))
    demand, apart = broadcast([0, 1, 2, 3], MiB), 20_971_520
    cases = (
        ([0, apart, 5 * apart], [0, apart, 2 * apart], ()),
        ([0, apart, 5 * apart], [0, apart, 2 * apart - 1], ("endpoints",)),
        ([0, apart, apart], [0, apart, apart], ("endpoints",)),
        ([9 * apart, 9 * apart, 9 * apart], [0, apart, apart // 2], ("endpoints",)),
        ([0, apart, 2 * apart - 1], [0, apart, 2 * apart], ("causality",)),
    )
    for starts, injected, failed in cases:
        made = module(net, demand, [0, 1, 2], starts, LinkModel.STORE)
        assert made.schedule is not None
        rows = made.schedule.transfers
        messages = QueuedMessages(np.arange(3, dtype=np.int32), np.zeros(3, np.int64), np.array(injected, np.int64))
        rows = Transfers.of(rows.chunk, rows.link, rows.start, rows.reduce, rows.relayed, messages)
        verdict = verify_schedule(replace(made, schedule=RowSchedule(LinkModel.STORE, rows)))
        assert set(failed) <= set(verdict.failed_checks())
        assert bool(failed) != verdict.ok


def test_an_npu_that_receives_too_much_is_named() -> None:
    """Links of 25 GB/s take 41.94304 us; NPU 0 takes in a transfer in the last 20.97152 us of it."""
    net = star(Endpoint(eject=Fraction(50 * 10**9)))
    demand = gather([0, 1, 2, 3], MiB)
    apart = 20_971_520
    good = module(net, demand, [3, 4, 5], [0, apart, 2 * apart], LinkModel.PIPELINED)
    assert verify_schedule(good).ok
    assert prove_properties(good).outcomes["endpoints"] == "proved"
    bad = module(net, demand, [3, 4, 5], [0, apart - 1, 2 * apart], LinkModel.PIPELINED)
    assert verify_schedule(bad).failed_checks() == ("endpoints",)
    assert "npu[0] receives 0:x[2, 0]" in verify_schedule(bad).diagnostics[0].message
    assert prove_properties(bad).outcomes["endpoints"] == "refuted"


def test_without_limits_there_is_no_such_check() -> None:
    net = network(4, STAR)
    found = verify_schedule(module(net, broadcast([0, 1, 2, 3], MiB), [0, 1, 2], [0, 0, 0], LinkModel.STORE))
    assert found.ok
    assert "endpoints" not in found.checks


def test_a_rate_that_feeds_all_links_at_once_limits_nothing() -> None:
    net = star(Endpoint(inject=Fraction(75 * 10**9)))
    found = verify_schedule(module(net, broadcast([0, 1, 2, 3], MiB), [0, 1, 2], [0, 0, 0], LinkModel.STORE))
    assert found.ok
    assert found.checks["endpoints"] == "ok"


def right(found: Module) -> bool:
    """A second opinion: no moment at which two transfers occupy the injection or ejection of an NPU."""
    net, rows = found.network, found.schedule.transfers
    total = Clock.of(net, found.demand, found.schedule.model).total_of(rows)
    taken: list[tuple[str, int, int, int]] = []
    for k in range(len(rows)):
        size = int(found.demand.chunks.size[rows.chunk[k]])
        source, target = int(net.source[rows.link[k]]), int(net.target[rows.link[k]])
        start, end = int(rows.start[k]), int(rows.start[k] + total[k])
        for side, device, ends in (("out", source, net.source), ("in", target, net.target)):
            one = net.endpoint_of(device)
            rate = one.send if side == "out" else one.receive
            width = sum(net.kinds[int(net.kind[j])].bandwidth for j in np.flatnonzero(ends == device))
            if rate is None or rate >= width:
                continue
            time = -(-size * 10**12 // rate)
            taken.append((side, device, start, start + time) if side == "out" else (side, device, end - time, end))
    return not any(a[:2] == b[:2] and a[2] < b[3] and b[2] < a[3] for k, a in enumerate(taken) for b in taken[:k])


@pytest.mark.parametrize("seed", range(6))
def test_the_check_agrees_with_a_second_opinion(seed: int) -> None:
    """Schedules that were moved at random: the check fails exactly if two transfers are at one NPU at once."""
    net = random_limited_network(seed)
    context = PassContext()
    plain = Module("m", net, all_gather(list(range(net.npu_count)), MiB), LinkModel.PIPELINED)
    found = Invert().run(Synthesize("tacos").run(plain, context), context)
    rng = np.random.default_rng(seed)
    outcomes = []
    for moved in (0, 1, 1, 2, 4):
        rows = found.schedule.transfers
        start = rows.start.copy()
        for k in rng.integers(0, len(rows), moved):
            start[k] = max(0, int(start[k]) - int(rng.integers(1, 60_000_000)))
        changed = Transfers.of(rows.chunk, rows.link, start, rows.reduce)
        one = replace(found, schedule=RowSchedule(LinkModel.PIPELINED, changed))
        outcomes.append(verify_schedule(one).checks["endpoints"] == "ok")
        assert outcomes[-1] == right(one)
    assert outcomes[0]
