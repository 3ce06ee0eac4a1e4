"""Hierarchical and Themis synthesis; collc.verification checks every schedule."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.base.diagnostics import NoSchedule, SourceError
from collc.graph.coordinates import find_dimensions
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.bounds import lower_bound
from collc.synthesis.by_dimension.orders import choose_orders
from collc.synthesis.conditions import conditions_of
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.ten.transform import product, remove_parts, unwound
from collc.verification import verify_schedule
from tests.support import (
    GiB,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    fully_connected,
    grid,
    network,
    reduce_scatter,
    ring,
    switched,
)


def kind(rate: int, latency: int = 500_000) -> LinkKind:
    return LinkKind(latency, Fraction(rate * GiB))


def times(*factors: Network) -> Network:
    whole = factors[0]
    for factor in factors[1:]:
        whole = product(whole, factor, "product", (whole.name, factor.name))
    return whole


def pod(nodes: int, per_node: int, buffer: int = -1) -> Network:
    """GPUs with a switch in each node and one that joins all, as in a DGX pod."""
    count = nodes * per_node
    links: list[tuple[int, int, LinkKind]] = []
    for gpu in range(count):
        for switch, link in ((count + gpu // per_node, kind(300)), (count + nodes, kind(25))):
            links += [(gpu, switch, link), (switch, gpu, link)]
    return network(count, links, switches=nodes + 1, buffers=[buffer] * (nodes + 1), shape=(nodes, per_node))


def built(
    synthesizer: Synthesize, net: Network, demand: Demand, model: LinkModel = LinkModel.STORE, relays: bool = False
) -> Module:
    result = Invert().run(synthesizer.run(Module("m", net, demand, model, relays=relays), PassContext()), PassContext())
    verdict = verify_schedule(result)
    assert "failed" not in verdict.checks.values(), verdict.diagnostics
    return result


def collective_time(module: Module) -> int:
    assert module.schedule is not None
    return module.schedule.collective_time(module.network, module.demand)


RING_FC_SWITCH = times(ring(2, kind(200)), fully_connected(4, kind(100)), switched(4, kind(50, 250_000)))
NETWORKS = [
    times(ring(4, kind(200)), switched(3, kind(50))),
    RING_FC_SWITCH,
    unwound(RING_FC_SWITCH),
    grid(3, 4),
    grid(3, 3, wrap=True),
    pod(2, 4),
    pod(3, 2, buffer=3),
    times(switched(4, kind(300), buffer=1), switched(3, kind(50), buffer=2)),
    times(ring(3, one_way=True), ring(3)),
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("synthesizer", [Synthesize("hierarchical"), Synthesize("themis")])
@pytest.mark.parametrize("model", list(LinkModel))
@pytest.mark.parametrize("net", NETWORKS)
@pytest.mark.parametrize("pattern", [all_gather, reduce_scatter, all_reduce, all_to_all, broadcast])
def test_verified_and_never_below_the_bound(
    synthesizer: Synthesize, model: LinkModel, net: Network, pattern: Callable[..., Demand]
) -> None:
    demand = pattern(net.npus.tolist(), chunks=2)
    result = built(synthesizer, net, demand, model)
    assert collective_time(result) >= lower_bound(net, demand, model).time
    assert result.algorithm == synthesizer.name


@pytest.mark.parametrize("synthesizer", [Synthesize("hierarchical"), Synthesize("themis")])
def test_switches_pass_each_arrival_on_once_where_relays_are_asked_for(synthesizer: Synthesize) -> None:
    for pattern in (all_gather, all_reduce):
        built(synthesizer, pod(2, 4), pattern(list(range(8)), chunks=2), relays=True)


def test_chunks_of_a_group_pass_npus_outside_it() -> None:
    built(Synthesize("themis"), grid(3, 3), all_gather([0, 4, 8]))


def test_the_time_on_a_torus_is_that_of_its_last_dimension() -> None:
    """9 NPUs: along the lines of the second dimension each link carries one of two copies of 3 chunks, the NPU's own
    in the first step."""
    result = built(Synthesize("hierarchical"), grid(3, 3, wrap=True), all_gather(list(range(9))))
    assert collective_time(result) == 3 * 20_031_250


def test_themis_balances_equal_dimensions() -> None:
    net = grid(4, 4, wrap=True)
    demand = all_gather(list(range(16)), chunks=4)
    assert collective_time(built(Synthesize("themis"), net, demand)) < collective_time(
        built(Synthesize("hierarchical"), net, demand)
    )
    task = Task(net, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))
    conditions, dimensions = conditions_of(task), find_dimensions(net)
    assert dimensions is not None
    orders = [tuple(order) for order in choose_orders(conditions, dimensions)]
    assert orders.count((0, 1)) == orders.count((1, 0)) == 32


def test_all_links_are_busy_in_an_all_to_all_over_a_switch() -> None:
    net = times(switched(4, kind(300)), switched(8, kind(25)))
    demand = all_to_all(list(range(32)))
    assert (
        collective_time(built(Synthesize("hierarchical"), net, demand))
        <= 1.05 * lower_bound(net, demand, LinkModel.STORE).time
    )


@pytest.mark.parametrize(
    ("net", "sizes"),
    [
        (RING_FC_SWITCH, (2, 4, 4)),
        (grid(3, 4), (3, 4)),
        (grid(1, 3, 2), (3, 2)),
        (pod(2, 4), (2, 4)),
        (ring(6), None),
        (switched(4), None),
        (network(4, [(0, 3), (3, 0), (1, 2), (2, 1)], shape=(2, 2)), None),
    ],
)
def test_dimensions(net: Network, sizes: tuple[int, ...] | None) -> None:
    found = find_dimensions(net)
    assert (found.sizes if found else None) == sizes


def test_networks_without_complete_lines_are_refused() -> None:
    demand = all_gather(list(range(6)))
    with pytest.raises(SourceError, match="two dimensions"):
        Synthesize("hierarchical").run(Module("m", ring(6), demand), PassContext())
    broken = remove_parts(grid(3, 2), [], np.array([0, 1]))
    with pytest.raises(SourceError, match="no links of their dimension"):
        Synthesize("themis").run(Module("m", broken, demand), PassContext())
    stopped = replace(Effort(), stop=lambda: True)
    with pytest.raises(NoSchedule, match="stopped"):
        Synthesize("hierarchical").run(Module("m", grid(3, 2), demand), PassContext(effort=stopped))


def test_a_search_that_is_stopped_returns_a_valid_schedule_or_none() -> None:
    """Whichever call of `stop` returns True first."""
    net = grid(3, 4)
    module = Module("m", net, all_gather(list(range(12)), chunks=2))
    found = []
    for polls in range(8):
        answers = iter([False] * polls)
        effort = Effort(stop=lambda answers=answers: next(answers, True))
        try:
            result = Invert().run(Synthesize("hierarchical").run(module, PassContext(effort=effort)), PassContext())
        except NoSchedule as error:
            found.append(error.diagnostics[0].message)
        else:
            assert "failed" not in verify_schedule(result).checks.values()
            found.append("schedule")
    assert found[0] == found[1] == "stopped before all chunks were planned"
    assert found[2] == found[-1] == "schedule"
