"""Textbook algorithms as candidates: on every network they give a right schedule without congestion, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from collc.base.diagnostics import CollcError, SourceError
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.bounds import lower_bound
from collc.synthesis.fixed.textbook import hierarchical_shape, textbook_algorithms
from collc.ten.demand import Demand, Op, Standard
from collc.ten.module import Module
from collc.ten.network import Axis, Network
from collc.ten.schedule import LinkModel
from collc.ten.transform import remove_parts
from collc.verification.schedule_check import verify_schedule
from tests.support import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    fully_connected,
    gather,
    grid,
    hypercube,
    reduce,
    reduce_scatter,
    ring,
    scatter,
    switched,
)
from tests.synthesis.checker import check

LIBRARY = StandardAlgorithms()


def listed(module: Module) -> dict[str, Callable[[], Module]]:
    """What builds each algorithm, by name."""
    return {name: partial(lay_out, module) for name, _, lay_out in textbook_algorithms(module, LIBRARY)}


def built_or_none(build: Callable[[], Module]) -> Module | None:
    """None if a reduction takes a path through NPUs that contribute to it."""
    try:
        return build()
    except SourceError as error:
        code = error.diagnostics[0].code
    assert code == "S0106"
    return None


def time_of(module: Module, name: str) -> int:
    built = listed(module)[name]()
    assert built.schedule is not None
    return check(built.network, built.demand, built.schedule)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("model", list(LinkModel))
@pytest.mark.parametrize("net", [ring(5), fully_connected(5), hypercube(3), grid(3, 4), dgx1(), switched(6)])
@pytest.mark.parametrize(
    "make", [all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, scatter, gather]
)
def test_every_algorithm_that_runs_is_right_and_not_below_the_bound(
    net: Network, make: Callable[[list[int]], Demand], model: LinkModel
) -> None:
    demand = make(net.npus.tolist())
    module = Module("m", net, demand, model)
    least = lower_bound(net, demand, model).time
    found = listed(module)
    assert found
    for name, build in found.items():
        built = built_or_none(build)
        if built is None:
            continue
        assert verify_schedule(built).ok, name
        assert built.schedule is not None
        assert built.schedule.collective_time(net, demand) >= least
        assert built.algorithm == name


def test_known_times() -> None:
    net = fully_connected(8)
    demand = all_reduce(list(range(8)))
    module = Module("m", net, demand)
    assert time_of(module, "direct") == lower_bound(net, demand, LinkModel.STORE).time
    around = Module("m", ring(8), all_gather(list(range(8))))
    assert time_of(around, "bidirectional_ring") == lower_bound(around.network, around.demand, LinkModel.STORE).time


def test_groups_run_at_once_with_their_own_ranks() -> None:
    net = grid(4, 4, wrap=True)
    rows = [run for row in range(4) for run in all_reduce(list(range(4 * row, 4 * row + 4))).runs]
    built = listed(Module("m", net, Demand(tuple(rows))))["ring"]()
    assert verify_schedule(built).ok


def test_runs_of_several_kinds_use_an_algorithm_that_all_of_them_have() -> None:
    npus = list(range(4))
    module = Module("m", fully_connected(4), Demand((*all_gather(npus).runs, *broadcast(npus).runs)))
    common = set(LIBRARY.names("all_gather")) & set(LIBRARY.names("broadcast"))
    assert set(listed(module)) == common < set(LIBRARY.names("all_gather"))
    module = Module("m", fully_connected(4), Demand((*all_gather(npus).runs, *reduce_scatter(npus).runs)))
    assert verify_schedule(listed(module)["pairwise"]()).ok


def test_a_shape_is_that_of_the_product_or_of_the_array() -> None:
    demand = all_reduce(list(range(12)))
    assert "hierarchical" not in listed(Module("m", ring(12), demand))
    assert verify_schedule(listed(Module("m", grid(3, 4, wrap=True), demand))["hierarchical"]()).ok
    axes = (Axis("ring", 4), Axis("ring", 3))
    product = replace(grid(3, 4, wrap=True), axes=axes)
    assert verify_schedule(listed(Module("m", product, demand))["hierarchical"]()).ok


def test_nothing_is_listed_where_nothing_fits() -> None:
    npus = [0, 1, 2, 3]
    custom = demand_of([(1024, npus, npus, Op.SUM)])
    assert not listed(Module("m", ring(4), custom))
    assert not listed(Module("m", ring(4), Demand((*all_gather(npus).runs, *custom.runs))))
    assert not listed(Module("m", switched(4, buffer=2), all_gather(npus)))
    module = Module("m", ring(4), all_gather(npus))
    assert not listed(listed(module)["ring"]())


def test_the_library_refuses_what_an_algorithm_does_not_serve() -> None:
    assert LIBRARY.names("all_gather")[:2] == ("ring", "bidirectional_ring")
    assert LIBRARY.names("unknown") == ()
    with pytest.raises(CollcError):
        LIBRARY.sends(Standard("all_gather", 1024, 1), 4, "unknown")
    sends = LIBRARY.sends(Standard("reduce", 1024, 1, 2, Op.MAX), 4, "direct")
    assert len(sends) == 3
    assert set(sends.target.tolist()) == {2}


def test_hierarchical_is_for_all_npus_of_networks_with_dimensions() -> None:
    mesh = grid(3, 4)
    assert sorted(hierarchical_shape(mesh, 12)) == [3, 4]
    assert hierarchical_shape(mesh, 4) == []
    assert hierarchical_shape(ring(8), 8) == []
    assert hierarchical_shape(remove_parts(mesh, [5], np.empty(0, np.int64)), 11) == []


def test_transfers_that_need_no_retiming_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of one chunk over one wide switch, each of which waits for all before it."""
    module = Module("m", switched(8), broadcast(list(range(8)), 1000), LinkModel.STORE)
    library = StandardAlgorithms()
    before = {name: lay_out(module, lambda _: None) for name, _, lay_out in textbook_algorithms(module, library)}
    monkeypatch.setattr("collc.synthesis.retiming.ROUNDS", 0)
    after = {name: lay_out for name, _, lay_out in textbook_algorithms(module, library)}
    built = after["binomial_tree"](module, lambda _: None)
    assert built.collective_time() == before["binomial_tree"].collective_time()
    assert verify_schedule(built).ok
    with pytest.raises(CollcError, match="meet on links"):
        after["direct"](module, lambda _: None)
