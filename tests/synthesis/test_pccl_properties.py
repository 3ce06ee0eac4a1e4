"""Earliest-arrival search on random networks and demands: always right, and never better than the bound."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError
from collc.synthesis.bounds import lower_bound
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification.schedule_check import verify_schedule
from tests.kernel_choice import choose_kernels
from tests.support import MiB, demand_of, network

RATES = [Fraction(2**30), Fraction(25 * 10**9), Fraction(50 * 2**30)]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """One-way and parallel links of unlike kinds, failed NPUs, and switches with or without limits and multicast."""
    n, switches = draw(st.integers(2, 6)), draw(st.integers(0, 2))
    kinds = st.builds(LinkKind, st.integers(0, 10**6), st.sampled_from(RATES))
    device = st.integers(0, n + switches - 1)
    links = draw(st.lists(st.tuples(device, device, kinds).filter(lambda x: x[0] != x[1]), max_size=14))
    if draw(st.booleans()):
        kind = draw(kinds)
        links += [(i, (i + 1) % n, kind) for i in range(n)]
    failed = draw(st.sampled_from([None, *range(n)])) if n > 3 else None
    kept = [link for link in links if failed not in link[:2]] or [(0, 1, LinkKind(0, RATES[0]))]
    limits = draw(st.lists(st.sampled_from([-1, 1, 2, 3]), min_size=switches, max_size=switches))
    found = network(n, kept, switches, limits)
    multicast = np.array(draw(st.lists(st.booleans(), min_size=switches, max_size=switches)), np.bool_)
    present = found.present.copy()
    if failed is not None and all(failed not in link[:2] for link in kept):
        present[failed] = False
    return replace(found, multicast=multicast, reduces=multicast & draw(st.booleans()), present=present)


def chained(chance: random.Random) -> Network:
    """NPUs on a line of switches, most of them with few slots: chunks go from one full switch to the next."""
    n, switches = chance.randint(2, 6), chance.randint(1, 4)

    def kind() -> LinkKind:
        return LinkKind(chance.choice([0, 0, 10**6, 3 * 10**6]), Fraction(10**9, chance.choice([1, 2, 3, 5])))

    links = []
    for npu in range(n):
        for switch in chance.sample(range(switches), chance.randint(1, min(2, switches))):
            links += [(npu, n + switch, kind()), (n + switch, npu, kind())]
    for a in range(n, n + switches - 1):
        links += [(a, a + 1, kind()), (a + 1, a, kind())]
        links += [(a, a + 1, kind())] * (chance.random() < 0.3)
    found = network(n, links, switches, [chance.choice([-1, 1, 1, 2, 3]) for _ in range(switches)])
    multicast, reduces = (np.array([chance.random() < 0.4 for _ in range(switches)]) for _ in range(2))
    return replace(found, multicast=multicast, reduces=reduces)


@st.composite
def demands(draw: st.DrawFn, net: Network) -> Demand:
    """Up to two runs over groups, whose chunks have sizes, holders and destinations of all kinds."""
    runs = []
    for _ in range(draw(st.integers(1, 2))):
        group = draw(st.lists(st.sampled_from(net.npus.tolist()), min_size=1, max_size=5, unique=True))
        sets = st.lists(st.sampled_from(group), min_size=1, max_size=4)
        row = st.tuples(st.sampled_from([1, 4096, MiB, 3 * MiB]), sets, sets, st.sampled_from([Op.COPY, Op.SUM]))
        runs += demand_of(draw(st.lists(row, min_size=1, max_size=6)), group=group).runs
    return Demand(tuple(runs))


def reachable(net: Network, source: int) -> set[int]:
    found, stack = {source}, [source]
    while stack:
        u = stack.pop()
        new = {v for s, v in zip(net.source.tolist(), net.target.tolist(), strict=True) if s == u} - found
        found |= new
        stack += new
    return found


def is_possible(net: Network, demand: Demand) -> bool:
    """Whether each receiver of a copy can be reached from a holder, and that of a sum from all contributors."""
    reached = {v: reachable(net, v) for v in net.npus.tolist()}
    table = demand.chunks
    for pre, post, op in zip(table.pre.tolist(), table.post.tolist(), table.op.tolist(), strict=True):
        holders, wanting = table.sets[pre].tolist(), table.sets[post].tolist()
        need = any if op == Op.COPY else all
        if not all(need(w in reached[h] for h in holders) for w in wanting):
            return False
    return True


@given(st.data())
@settings(max_examples=48, deadline=None)
def test_right_and_never_below_the_bound(data: st.DataObject):
    net = data.draw(networks())
    demand = data.draw(demands(net))
    model = data.draw(st.sampled_from(LinkModel))
    effort = Effort(data.draw(st.integers(0, 9)), trials=data.draw(st.sampled_from([1, 3])))
    whole = Module("any", net, demand, model)
    try:
        built = join(solve(whole, lambda task: pccl(task, effort)))
    except SourceError:
        assert not is_possible(net, demand)
        return
    assert verify_schedule(built).ok
    assert built.schedule is not None
    assert built.schedule.collective_time(net, demand) >= lower_bound(net, demand, model).time


def everyone_to_some(net: Network, chance: random.Random) -> Demand:
    """A few chunks held by all NPUs, copied or reduced, for one or several receivers."""
    npus = net.npus.tolist()
    rows = [
        (chance.choice([1000, 3000]), [holder], chance.sample(npus, chance.randint(1, len(npus))), Op.COPY)
        for holder in npus
    ]
    rows += [(1000, npus, [chance.choice(npus)], Op.SUM)] * chance.randint(0, 2)
    return demand_of(rows, group=npus)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("compiled", [False, True])
def test_switches_in_a_line_never_overflow(compiled: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_kernels(monkeypatch, compiled)
    for seed in range(25 * block, 25 * block + 25):
        chance = random.Random(seed)
        net = chained(chance)
        demand = everyone_to_some(net, chance)
        whole = Module("line", net, demand, chance.choice(list(LinkModel)), relays=chance.random() < 0.3)
        verdict = verify_schedule(join(solve(whole, lambda task: pccl(task, Effort()))))
        assert verdict.ok, (seed, verdict.diagnostics)


@given(st.data())
@settings(max_examples=24, deadline=None)
def test_compiled_code_finds_the_same(data: st.DataObject):
    net = data.draw(networks())
    demand = data.draw(demands(net))
    whole = Module("any", net, demand, data.draw(st.sampled_from(LinkModel)))
    if not is_possible(net, demand):
        return
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for compiled in (False, True):
            choose_kernels(patch, compiled)
            schedule = join(solve(whole, lambda task: pccl(task, Effort()))).schedule
            assert schedule is not None
            found.append(schedule.transfers)
    for column in ("chunk", "link", "start"):
        assert np.array_equal(getattr(found[0], column), getattr(found[1], column))
