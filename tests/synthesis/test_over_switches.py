"""Schedules on direct links are put back on the switches in whose place these links are."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.base.diagnostics import CollcError, NoSchedule
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.passes.synthesizers import auto
from collc.synthesis import over_switches as tested
from collc.synthesis.bounds import lower_bound
from collc.synthesis.over_switches import over_switches
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.ten.transform import links_behind, unwound
from collc.verification import verify_schedule
from tests.support import MiB, all_gather, all_reduce, all_to_all, network, reduce_scatter, switched

KINDS = LinkKind(350_000, Fraction(100 * 10**9)), LinkKind(1_000_000, Fraction(12 * 10**9))
COLLECTIVES = (all_reduce, all_gather, reduce_scatter, all_to_all)
SYNTHESIZERS = ("exchange", "overlapped", "tacos", "pccl", "swarm", "one_shot")


def unlike_links(chance: random.Random) -> Network:
    """A switch or two, which join all NPUs, and direct links, of two kinds."""
    npus, switches = chance.randint(3, 6), chance.randint(1, 2)
    cables = [(npu, npus + switch) for switch in range(switches) for npu in range(npus)]
    pairs = [ends for a, b in cables for ends in ((a, b), (b, a))]
    pairs += [
        (a, (a + chance.randint(1, npus - 1)) % npus) for a in chance.choices(range(npus), k=chance.randint(0, 8))
    ]
    links = [(a, b, chance.choice(KINDS)) for a, b in pairs]
    net = network(npus, links, switches=switches, multicast=chance.random() < 0.5)
    return replace(net, reduces=np.full(switches, chance.random() < 0.3))


@pytest.mark.parametrize("seed", range(8))
def test_schedules_over_switches_are_right(seed: int) -> None:
    chance = random.Random(seed)
    net = unlike_links(chance)
    demand = chance.choice(COLLECTIVES)(list(range(net.npu_count)), chance.choice((1000, MiB)), chance.randint(1, 2))
    own = Module("m", net, demand, chance.choice([*LinkModel]))
    found = 0
    for name in SYNTHESIZERS:
        try:
            planned = Synthesize(name).run(replace(own, network=unwound(net)), PassContext())
            over = over_switches(Invert().run(planned, PassContext()), net)
        except CollcError:
            continue
        assert "failed" not in verify_schedule(over).checks.values(), name
        assert over.network is net
        assert over.collective_time() >= lower_bound(net, demand, own.model).time
        found += 1
    assert found >= 2


def test_each_direct_link_stands_for_the_links_of_its_path() -> None:
    net = unlike_links(random.Random(3))
    direct = unwound(net)
    first, last = links_behind(net).T
    assert net.source[first].tolist() == direct.source.tolist()
    assert net.target[last].tolist() == direct.target.tolist()
    assert ((net.target[first] == net.source[last]) | (first == last)).all()


def test_auto_counts_the_time_over_the_switch() -> None:
    """A ring through the switch promises half of what its blocks take into the switch and out of it."""
    own = Module("m", switched(4), all_gather(list(range(4)), 64 * MiB))
    found = auto(own, Effort())
    assert found.network is own.network
    assert found.collective_time() == lower_bound(own.network, own.demand, own.model).time


def test_what_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Module("m", switched(4), all_gather(list(range(4))))
    planned = Synthesize("tacos").run(replace(own, network=unwound(own.network)), PassContext())
    joined = Invert().run(planned, PassContext())
    assert joined.schedule is not None
    monkeypatch.setattr(tested, "MOST_TRANSFERS", len(joined.schedule) - 1)
    with pytest.raises(NoSchedule, match="cannot be made to cross switches"):
        over_switches(joined, own.network)


def test_pairs_of_copies_in_a_switch_are_counted() -> None:
    """Each chunk of an All-Gather of five comes to the switch once for each of its four receivers."""
    net, demand = switched(5), all_gather(list(range(5)))
    planned = Synthesize("pccl").run(Module("m", unwound(net), demand), PassContext())
    built = Invert().run(planned, PassContext())
    assert built.schedule is not None
    assert tested.pairs_in_switches(built.schedule.transfers, net) == 5 * 4**2
