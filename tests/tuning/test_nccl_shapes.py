"""What NCCL runs by itself: closed forms on rings, the properties of its trees, and the parts of networks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from collc.graph.digraph import nodes_of
from collc.ten.network import LinkKind
from collc.tuning.nccl_shapes import _node_parents, nccl_times, shapes_of
from collc.tuning.protocols import DEFAULT_COSTS, ProtocolCost, cost_of, with_protocol
from tests.support import network, ring

KIND = LinkKind(1_000_000, Fraction(50 * 10**9))
PLAIN = ProtocolCost("Simple", Fraction(1), 0)


@pytest.mark.parametrize(("kind", "steps"), [("all_reduce", 14), ("all_gather", 7), ("reduce_scatter", 7)])
def test_rings_have_their_closed_form(kind: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """steps * (latency + size / (2 * ranks * bandwidth)): a ring in each direction; more rings wait for one another."""
    monkeypatch.setattr("collc.tuning.nccl_shapes.PIECES", (1, 4))
    best = nccl_times(ring(8, KIND), kind, "ring", [16, 16 * 50_000], [PLAIN])
    assert best[0] == steps * (1_000_000 + 20)
    assert steps * 10**6 < (best[1] or 0) < steps * 1_500_000
    monkeypatch.setattr("collc.tuning.nccl_shapes.PIECES", (1,))
    times = nccl_times(ring(8, KIND), kind, "ring", [16, 16 * 50_000], [PLAIN])
    assert times == [steps * (1_000_000 + 20), steps * (1_000_000 + 10**6)]
    slow = nccl_times(ring(8, KIND), kind, "ring", [16, 16 * 50_000], [cost_of("LL=1/2:1us")])
    assert slow == [steps * (2_000_000 + 40), steps * (2_000_000 + 2 * 10**6)]


def test_the_best_protocol_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collc.tuning.nccl_shapes.PIECES", (1, 2))
    costs = list(DEFAULT_COSTS.values())
    sizes = [1024, 2**30]
    each = [nccl_times(ring(4, KIND), "all_reduce", "ring", sizes, [cost]) for cost in costs]
    assert nccl_times(ring(4, KIND), "all_reduce", "ring", sizes, costs) == [min(c) for c in zip(*each, strict=True)]


@pytest.mark.parametrize("count", range(1, 40))
def test_trees_are_trees(count: int) -> None:
    """Each has one root and reaches all nodes in few hops; if there are two, inner nodes of one are leaves of the
    other for even counts."""
    trees = _node_parents(count)
    for parents in trees:
        assert parents.count(-1) == 1
        for node in range(count):
            above, hops = node, 0
            while parents[above] >= 0:
                above, hops = parents[above], hops + 1
            assert hops <= count.bit_length()
        assert all(sum(up == node for up in parents) <= 2 for node in range(count))
    if count > 1 and count % 2 == 0:
        inner = [{up for up in parents if up >= 0} for parents in trees]
        roots = {parents.index(-1) for parents in trees}
        assert inner[0] & inner[1] <= roots


def test_trees_broadcasts_and_messages_take_at_least_the_bytes() -> None:
    for kind in ("all_reduce", "broadcast", "reduce", "all_to_all", "scatter", "gather"):
        for shape in shapes_of(kind):
            times = nccl_times(ring(6, KIND), kind, shape, [2**20, 2**26], [PLAIN])
            assert all(time is not None for time in times)
            assert times[1] > 5 / 6 * 2**26 / 100e9 * 1e12
    assert shapes_of("all_reduce") == ("ring", "tree")


def test_parts_of_networks() -> None:
    fast, slow = LinkKind(0, Fraction(100)), LinkKind(0, Fraction(10))
    links = [(a, b, fast) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))] + [(1, 2, slow), (2, 1, slow)]
    assert nodes_of(network(4, links)) == [[0, 1], [2, 3]]
    assert nodes_of(ring(5, KIND)) == [[0, 1, 2, 3, 4]]
    apart = network(3, [(0, 1, fast), (1, 0, fast), (1, 2, slow), (2, 1, slow)])
    assert nodes_of(apart) == [[0, 1, 2]]
    slower = LinkKind(0, Fraction(1))  # a link of its own class divides nothing, and is no node's border
    assert nodes_of(network(4, [*links[:-1], (2, 1, slower)])) == [[0, 1], [2, 3]]
    assert nccl_times(network(2, [(0, 1, fast)]), "all_reduce", "ring", [8], [PLAIN]) == [None]


def test_protocols_change_links() -> None:
    seen = with_protocol(network(2, [(0, 2, KIND), (2, 1, KIND)], switches=1), cost_of("LL128=120/128:1.5us"))
    rates = [seen.kinds[row] for row in seen.kind.tolist()]
    assert [kind.latency for kind in rates] == [2_500_000, 1_000_000]
    assert [kind.bandwidth for kind in rates] == [KIND.bandwidth * Fraction(15, 16)] * 2
    assert str(cost_of("LL=0.5:0us")) == "LL=1/2:0ps"
    for wrong in ("LL", "LL=0:0us", "LL=1:0", "LL=1:1GB", "X=1:0us", "LL=3/2:0us"):
        with pytest.raises(ValueError, match=wrong):
            cost_of(wrong)
