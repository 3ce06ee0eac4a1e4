"""Earliest-arrival search on random networks and demands: always right, and never better than the bound."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.diagnostics import SourceError
from collc.synthesis.bounds import lower_bound
from collc.synthesis.compose import join, solve
from collc.synthesis.pccl import pccl
from collc.synthesis.pccl import way as module
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification.schedule_check import verify_schedule
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
    """Whether copies can come from a holder, and contributions from all."""
    ways = {v: reachable(net, v) for v in net.npus.tolist()}
    table = demand.chunks
    for pre, post, op in zip(table.pre.tolist(), table.post.tolist(), table.op.tolist(), strict=True):
        holders, wanting = table.sets[pre].tolist(), table.sets[post].tolist()
        need = any if op == Op.COPY else all
        if not all(need(w in ways[h] for h in holders) for w in wanting):
            return False
    return True


@given(st.data())
@settings(max_examples=120, deadline=None)
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


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_compiled_searches_are_equal(data: st.DataObject):
    net = data.draw(networks())
    demand = data.draw(demands(net))
    whole = Module("any", net, demand, data.draw(st.sampled_from(LinkModel)))
    if not is_possible(net, demand):
        return
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for compiled in (False, True):
            patch.setattr(module, "_compiled", lambda plain, kernel, compiled=compiled: compiled)
            schedule = join(solve(whole, lambda task: pccl(task, Effort()))).schedule
            assert schedule is not None
            found.append(schedule.transfers)
    for column in ("chunk", "link", "start"):
        assert np.array_equal(getattr(found[0], column), getattr(found[1], column))
