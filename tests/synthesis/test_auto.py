"""The choice among ways of synthesis; every result is checked by collc.verification."""

from fractions import Fraction

import pytest

from collc.diagnostics import NoSchedule
from collc.synthesis.auto import auto
from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.verification import verify_schedule
from tests.support import MiB, all_gather, all_reduce, all_to_all, dgx1, grid, network, reduce, reduce_scatter, switched

EIGHT = list(range(8))


@pytest.mark.parametrize(
    ("net", "demand", "algorithm"),
    [
        (grid(3, 3), all_gather(list(range(9))), "tacos"),
        (grid(3, 3), reduce_scatter(list(range(9))), "tacos"),
        (grid(2, 3), all_to_all(list(range(6))), "pccl"),
        (grid(3, 3), all_reduce(list(range(9)), chunks=4), "overlapped"),
        (grid(3, 3, wrap=True), all_gather(list(range(9))), "symmetric"),
        (grid(4, 4, wrap=True), all_reduce(list(range(16))), "symmetric"),
        (grid(2, 2), all_to_all([0, 1, 2, 3]), "symmetric"),
        (dgx1(), all_reduce(EIGHT, chunks=2), "tacos"),
        (switched(8), all_gather(EIGHT), "pccl"),
        (switched(8), all_to_all(EIGHT), "pccl"),
        (switched(8, buffer=4), all_reduce(EIGHT), "symmetric on unwound switches"),
        (switched(6, multicast=True), reduce(list(range(6))), "swarm"),
    ],
)
def test_choice_is_verified_and_explained(net: Network, demand: Demand, algorithm: str):
    result = auto(Module("m", net, demand), Effort())
    assert result.algorithm == algorithm
    assert "failed" not in verify_schedule(result).checks.values()
    assert result.schedule is not None
    time = result.schedule.collective_time(result.network, result.demand)
    bound = lower_bound(result.network, result.demand, result.model).time
    assert time >= bound
    assert f"chose {algorithm}" in " ".join(result.notes)
    assert (time == bound) == any("meets the bound" in note for note in result.notes)
    assert result.network.unwound == any("unwound network" in note for note in result.notes)


def test_stopped():
    with pytest.raises(NoSchedule):
        auto(Module("m", grid(2, 2), all_gather([0, 1, 2, 3])), Effort(stop=lambda: True))


def test_dimensions_over_native_switches():
    """All-Reduce over two nodes with a switch each and slow links between them."""
    fast, slow = LinkKind(350_000, Fraction(300 * 10**9)), LinkKind(2_000_000, Fraction(25 * 10**9))
    links = [
        (a, b, kind)
        for gpu in range(16)
        for switch, kind in ((16 + gpu // 8, fast), (18, slow))
        for a, b in ((gpu, switch), (switch, gpu))
    ]
    net = network(16, links, switches=3, shape=(2, 8))
    result = auto(Module("m", net, all_reduce(list(range(16)), 16 * MiB, chunks=4)), Effort())
    assert result.algorithm == "hierarchical"
    assert "failed" not in verify_schedule(result).checks.values()
    assert not any("unwound" in note for note in result.notes)


def test_exact_finds_or_refutes_what_is_shorter():
    """A cycle of three one-way links and a chord; the bound of this All-to-All is not always met."""
    net = network(4, [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    result = auto(Module("m", net, all_to_all([0, 1, 2, 3])), Effort())
    assert "failed" not in verify_schedule(result).checks.values()
    assert result.schedule is not None
    steps = result.schedule.collective_time(net, result.demand) // 20_031_250
    met = any("meets the bound" in note for note in result.notes)
    assert met or any("exact" in note for note in result.notes)
    assert steps == 6


def test_broken_lines_are_gone_round():
    """A pod whose first GPU has lost its way out of the node; the demand is dense."""
    links = [pair for gpu in range(12) for s in (12 + gpu // 6, 14) for pair in ((gpu, s), (s, gpu))]
    net = network(12, [link for link in links if link not in ((0, 14), (14, 0))], switches=3, shape=(2, 6))
    result = auto(Module("m", net, all_gather(list(range(12)), chunks=20)), Effort())
    assert "failed" not in verify_schedule(result).checks.values()
    assert any("hierarchical found none" in note for note in result.notes)
