"""Reductions in switches: trees of them, and switches of nodes with a plain network between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.passes.synthesizers import auto
from collc.synthesis.in_network.nodes import EarlyTransfers, swap_and_add, swaps_of
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from collc.verification.prove import prove_properties
from tests.support import DEFAULT, Fraction, GiB, all_reduce, network, reduce, reduce_scatter

STEP = 20_031_250
"""Picoseconds of a transfer of 1 MiB on the default links."""

SLOW = LinkKind(1_000_000, Fraction(25 * GiB))
MAKERS = [all_reduce, reduce, reduce_scatter]


def leaves_and_spines(leaves: int, size: int, spines: int) -> Network:
    """All switches reduce."""
    n = leaves * size
    links = [pair for i in range(n) for pair in ((i, n + i // size), (n + i // size, i))]
    links += [
        pair for a in range(leaves) for b in range(n + leaves, n + leaves + spines) for pair in ((n + a, b), (b, n + a))
    ]
    net = network(n, links, switches=leaves + spines, multicast=True, shape=(leaves, size))
    return replace(net, reduces=np.ones(leaves + spines, np.bool_))


def nodes_and_rails(nodes: int, size: int) -> Network:
    """The switches of nodes reduce, those of rails do not."""
    n = nodes * size
    inner = [(i, n + i // size, DEFAULT) for i in range(n)]
    outer = [(i, n + nodes + i % size, SLOW) for i in range(n)]
    links = [link for a, b, kind in (*inner, *outer) for link in ((a, b, kind), (b, a, kind))]
    adding = np.arange(nodes + size) < nodes
    return replace(network(n, links, switches=nodes + size, shape=(nodes, size)), reduces=adding, multicast=adding)


def by_pccl(module: Module) -> Module:
    return join(solve(module, lambda task: pccl(task, Effort())))


def checked_time(module: Module) -> int:
    assert "failed" not in verify_schedule(module).checks.values()
    assert module.schedule is not None
    return module.schedule.collective_time(module.network, module.demand)


@pytest.mark.parametrize(("leaves", "spines"), [(2, 1), (2, 2), (3, 2)])
def test_an_all_reduce_over_leaves_and_spines_takes_one_step_a_chunk_and_four_hops(leaves: int, spines: int):
    """Every NPU sends each chunk once, and the last one goes up two levels and down two."""
    net = leaves_and_spines(leaves, 4, spines)
    demand = all_reduce(net.npus.tolist())
    result = auto(Module("m", net, demand), Effort())
    assert result.algorithm == "in-network"
    assert checked_time(result) == (len(demand.chunks) + 3) * STEP


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("maker", MAKERS)
def test_all_reductions_over_trees_of_switches_are_right(maker: Callable[..., Demand], model: LinkModel):
    net = leaves_and_spines(2, 3, 2)
    checked_time(in_network(Module("m", net, maker(net.npus.tolist(), chunks=2), model), Effort()))


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("nodes", "size"), [(2, 2), (3, 4)])
def test_node_sums_meet_over_a_plain_network(maker: Callable[..., Demand], model: LinkModel, nodes: int, size: int):
    net = nodes_and_rails(nodes, size)
    module = Module("m", net, maker(net.npus.tolist(), chunks=2), model)
    with pytest.raises(SourceError, match="no tree of switches"):
        in_network(module, Effort())
    result = in_network(module, Effort(), by_pccl)
    checked_time(result)
    assert result.schedule is not None
    rows = result.schedule.transfers
    to_switch = (net.target[rows.link] >= net.npu_count) & (net.target[rows.link] < net.npu_count + nodes)
    assert (rows.reduce & to_switch).any()


def test_groups_that_fill_no_node_are_reduced_too():
    """Three of four NPUs of one node, and one of the other."""
    net = nodes_and_rails(2, 4)
    module = Module("m", net, all_reduce([0, 1, 3, 7], chunks=3))
    checked_time(in_network(module, Effort(), by_pccl))


def test_sums_of_nodes_are_proved():
    net = nodes_and_rails(2, 2)
    module = in_network(Module("m", net, all_reduce([0, 1, 2, 3])), Effort(), by_pccl)
    assert prove_properties(module).answer == "proved"


def test_auto_adds_up_in_nodes_where_that_is_best():
    """Four nodes of eight: the links into the switches carry each chunk once."""
    net = nodes_and_rails(4, 8)
    result = auto(Module("m", net, all_reduce(net.npus.tolist(), chunks=2)), Effort())
    assert result.algorithm == "in-network"
    assert sum(note.count(" takes ") for note in result.notes) > 1
    assert checked_time(result) < 1_700_000_000


def test_a_network_where_no_two_npus_share_a_switch_is_refused():
    net = network(4, [(a, b) for a in range(4) for b in range(4) if a != b])
    with pytest.raises(SourceError, match="no two NPUs"):
        in_network(Module("m", net, all_reduce([0, 1, 2, 3])), Effort(), by_pccl)


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("size", [2, 4])
def test_two_nodes_swap_small_buffers_before_their_switches_add_up(model: LinkModel, size: int) -> None:
    """Two hops over a rail and two over a switch; by representatives it takes two more of each."""
    net = nodes_and_rails(2, size)
    times = []
    for chunks in (1, 3):
        module = Module("m", net, all_reduce(list(range(2 * size)), 24, chunks), model)
        plan = in_network(module, Effort(), by_pccl)
        times.append(checked_time(plan))
        assert size > 2 or prove_properties(plan).answer == "proved"
    inner, outer = (kind.latency for kind in (DEFAULT, SLOW))
    if model is LinkModel.PIPELINED:  # with `store`, each chunk occupies its links for their latency
        assert 2 * inner + 2 * outer < times[0] < 2 * inner + 2 * outer + 50_000


def test_nodes_swap_only_where_each_pair_has_links_of_its_own() -> None:
    """One switch for all pairs, or switches with few slots: the partials of a chunk would meet there."""
    net = nodes_and_rails(2, 2)
    demand = all_reduce([0, 1, 2, 3], 24)
    shared = replace(
        net, source=np.where(net.source == 7, 6, net.source), target=np.where(net.target == 7, 6, net.target)
    )
    few = replace(net, buffers=np.array([-1, -1, 1, 1]))
    for other in (shared, few):
        plan = in_network(Module("m", other, demand), Effort(), by_pccl)
        assert checked_time(plan) > 2 * DEFAULT.latency + 4 * SLOW.latency


def test_no_partial_leaves_after_the_other_one_has_come() -> None:
    """One link back takes ten times as long: its second chunk would start when the other one is there."""
    inner = [link for i in range(2) for link in ((i, 2 + i), (2 + i, i))]
    slow = LinkKind(10 * (DEFAULT.latency or 0), Fraction(DEFAULT.bandwidth or 1) / 10)
    net = network(2, [*inner, (0, 1), (1, 0, slow)], 2)
    swaps = swaps_of(net, [0], [1])
    assert swaps == [([4], [5])]
    for chunks, able in (([0], True), ([0, 1], False)):
        early = EarlyTransfers(Module("m", net, all_reduce([0, 1])))
        assert swap_and_add(early, chunks, swaps, ([0], [2]), ([1], [3])) == able
