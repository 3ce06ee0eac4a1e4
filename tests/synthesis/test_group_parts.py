"""Runs over disjoint groups, each planned on its own links: valid, near the bounds, and refused otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.passes.synthesizers import auto
from collc.synthesis.auto.candidates import Candidate
from collc.synthesis.auto.group_parts import group_parts, joined_parts
from collc.synthesis.auto.synthesizer import SPARE_WORK, Turns, _Search
from collc.synthesis.bounds import ideal_bound, lower_bound
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op, Standard
from collc.ten.endpoint import Endpoint
from collc.ten.joined_schedule import RepeatedPart
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import MiB, all_gather, all_reduce, all_to_all, broadcast, demand_of, grid, network, ring, switched
from tests.synthesis.clusters import NIC, NVLINK, pods, rails
from tests.synthesis.random_problems import least_steps_of_sums
from tests.synthesis.test_bounds_property import kind_of


def runs(*demands: Demand) -> Demand:
    return Demand(tuple(run for demand in demands for run in demand.runs))


def kinds_of(module: Module) -> list[RepeatedPart]:
    """The kinds of parts of a module that has some."""
    kinds = group_parts(module)
    assert kinds is not None
    return kinds


def by_group(net: Network, demand: Demand, model: LinkModel = LinkModel.PIPELINED) -> Module:
    """The schedule that `auto` makes group by group, whether or not another one is better; it is verified."""
    module = Module("m", net, demand, model)
    kinds = kinds_of(module)
    joined = joined_parts(module, kinds, [auto(kind.module, Effort()) for kind in kinds])
    assert verify_schedule(joined).ok
    assert is_proved(joined, joined.schedule) != net.has_endpoints
    listed = RowSchedule(joined.model, joined.schedule.transfers)
    assert verify_schedule(joined.with_schedule(listed, "")).ok
    assert np.array_equal(joined.schedule.run_times(net, demand), listed.run_times(net, demand))
    assert joined.collective_time() == listed.collective_time(net, demand)
    return joined


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("make", [all_reduce, all_gather, all_to_all, broadcast])
def test_groups_along_rails_are_one_problem(make, model: LinkModel) -> None:
    net = rails(4, 4, spine=True)
    module = Module("m", net, runs(*(make([4 * node + i for node in range(4)]) for i in range(4))), model)
    (kind,) = kinds_of(module)
    assert len(kind.run) == 4
    assert kind.module.network.device_count == 5  # four GPUs and their rail switch
    by_group(net, module.demand, model)


def shortest(net: Network, demand: Demand) -> int:
    """Picoseconds that a demand takes by itself."""
    return auto(Module("m", net, demand, LinkModel.PIPELINED), Effort()).collective_time()


def multicast(group: list[int], targets: list[int]) -> Demand:
    """One chunk from the first of a group to some of it; the arguments of the collective do not name the targets."""
    standard = Standard("multicast", MiB, 1, root=0)
    return demand_of([(MiB, group[:1], targets, Op.COPY)], [(0,)], group, "multicast", standard)


def test_groups_with_the_same_arguments_and_other_chunks_are_not_alike() -> None:
    net = rails(2, 4)
    demand = runs(multicast([0, 1, 2, 3], [1]), multicast([4, 5, 6, 7], [6, 7]))
    assert len(kinds_of(Module("m", net, demand, LinkModel.PIPELINED))) == 2
    by_group(net, demand)


def test_groups_in_nodes_use_their_nvswitch_only() -> None:
    net = rails(3, 4, spine=True)
    demand = runs(*(all_reduce([4 * node + i for i in range(4)]) for node in range(3)))
    (kind,) = kinds_of(Module("m", net, demand, LinkModel.STORE))
    assert all(set(net.target[link].tolist()) <= {*range(12), 12 + k} for k, link in enumerate(kind.link))


def test_auto_meets_the_bound_of_all_groups_together() -> None:
    """Rings of a torus: each All-Reduce sends 2 (P - 1) buffers between the columns, which no cut of one set shows."""
    net = grid(4, 4, wrap=True, kind=NIC)
    module = Module("m", net, runs(*(all_reduce([4 * row + i for i in range(4)], chunks=2) for row in range(4))))
    found = auto(replace(module, model=LinkModel.PIPELINED), Effort())
    bound = lower_bound(net, module.demand, LinkModel.PIPELINED)
    assert found.algorithm == "group by group"
    assert verify_schedule(found).ok
    assert found.collective_time() <= bound.time * 1.02
    assert bound.name == "the links between 4 parts of the NPUs, such as npu[*, 0]"


@pytest.mark.parametrize(
    ("net", "groups"),
    [
        (ring(4, NIC), [[0, 1, 2, 3]]),  # all NPUs: no smaller problem
        (ring(4, NIC), [[0, 2], [1, 3]]),  # no links of their own
        (switched(4, NIC), [[0, 1, 2], [0, 3]]),  # links in common
        (replace(switched(4, NIC), buffers=np.array([2])), [[0, 1], [2, 3]]),  # the groups share its slots
        (ring(4, NIC), [[0, 1], [2]]),
    ],
)
def test_what_is_not_planned_group_by_group(net: Network, groups: list[list[int]]) -> None:
    module = Module("m", net, runs(*(all_gather(group) for group in groups)))
    assert group_parts(module) is None


def step_of_training(nodes: int, make: Callable[..., Demand] = all_reduce) -> Demand:
    """Tensor-parallel groups of nodes of four, then data-parallel groups along rails with four times the bytes."""
    tensor = [all_reduce([4 * node + i for i in range(4)]) for node in range(nodes)]
    return runs(*tensor, *(make([4 * node + i for node in range(nodes)], chunk=4 * MiB) for i in range(4)))


@pytest.mark.parametrize("make", [all_reduce, all_to_all, broadcast])
def test_groups_with_common_npus_and_no_common_link_are_two_problems(make: Callable[..., Demand]) -> None:
    """Each kind of group is planned once, and each run ends when it would by itself."""
    net, demand = rails(3, 4, spine=True), step_of_training(3, make)
    kinds = kinds_of(Module("m", net, demand, LinkModel.PIPELINED))
    assert [kind.run.tolist() for kind in kinds] == [[[0], [1], [2]], [[3], [4], [5], [6]]]
    found = by_group(net, demand)
    alone = [by_group(net, Demand(some)).collective_time() for some in (demand.runs[:3], demand.runs[3:])]
    assert alone[0] < alone[1]
    assert found.schedule.run_times(net, demand).tolist() == 3 * alone[:1] + 4 * alone[1:]


def test_groups_with_common_npus_that_have_limits_are_one_problem() -> None:
    net = rails(3, 4)
    limited = replace(net, endpoint=np.zeros(12, np.int32), endpoint_kinds=(Endpoint(inject=NIC.bandwidth),))
    assert group_parts(Module("m", limited, step_of_training(3))) is None


def test_runs_with_common_links_are_planned_together() -> None:
    """On each rail, what is reduced among three nodes and what the first one sends to the second."""
    net = rails(3, 4)
    sums, pairs = (
        [make(group) for group in groups]
        for make, groups in (
            (all_reduce, [[i, 4 + i, 8 + i] for i in range(4)]),
            (broadcast, [[i, 4 + i] for i in range(4)]),
        )
    )
    demand = runs(*sums, *pairs)
    (kind,) = kinds_of(Module("m", net, demand, LinkModel.PIPELINED))
    assert kind.run.tolist() == [[i, 4 + i] for i in range(4)]
    by_group(net, demand)


@pytest.mark.parametrize(("parts", "is_tried"), [(1, True), (16, True), (17, False), (1000, False)])
def test_nothing_else_is_tried_if_that_would_plan_many_parts(parts: int, is_tried: bool) -> None:
    """Each part took all the work that others may take, a 16th of what the best one may."""
    module = Module("m", ring(4, NIC), runs(all_gather([0, 1]), all_gather([2, 3])))
    best, other = (
        Turns(Candidate(name, lambda _: module, parts=parts), 1, time=10**12, useful=SPARE_WORK)
        for name in ("group by group", "another")
    )
    search = _Search(module, Effort(), [])
    assert (search._work_left(other, best, more=True) > 0) == is_tried
    assert search._work_left(best, best, more=True) > 0


def test_something_planned_already_is_not_taken_apart() -> None:
    module = Module("m", ring(4, NIC), runs(all_gather([0, 1]), all_gather([2, 3])))
    assert group_parts(module) is not None
    assert group_parts(replace(module, schedule=RowSchedule(module.model, Transfers.concatenate([])))) is None


@pytest.mark.slow
def test_part_of_a_cluster_is_planned_as_a_smaller_one() -> None:
    """Half of the nodes, by symmetry."""
    demand = all_reduce(list(range(8)), chunks=4)
    found, alone = (
        auto(Module("m", rails(nodes, 4, spine=True), demand, LinkModel.PIPELINED), Effort()) for nodes in (4, 2)
    )
    assert found.collective_time() <= alone.collective_time()
    assert verify_schedule(found).ok


def test_limits_of_npus_are_kept() -> None:
    net = rails(2, 4)
    limited = replace(net, endpoint=np.zeros(8, np.int32), endpoint_kinds=(Endpoint(inject=NIC.bandwidth),))
    demand = runs(all_reduce([0, 1, 2, 3]), all_reduce([4, 5, 6, 7]))
    assert verify_schedule(auto(Module("m", limited, demand), Effort())).ok


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Network, Demand]:
    """Clusters and grids whose NPUs are divided into groups in any way."""
    net = draw(st.sampled_from([rails(2, 4), pods(2, 2, 2, spines=2), grid(3, 4, kind=NVLINK), switched(6, NIC)]))
    order = draw(st.permutations(range(net.npu_count)))
    size = draw(st.sampled_from([2, 3, 4]))
    groups = [order[k : k + size] for k in range(0, len(order) - size + 1, size)]
    makes = st.sampled_from([all_gather, all_reduce, all_to_all, broadcast])
    same = draw(makes)
    alike = draw(st.booleans())
    return net, runs(
        *((same if alike else draw(makes))(list(group), chunks=draw(st.integers(1, 2))) for group in groups)
    )


@settings(max_examples=8, deadline=None)
@given(grouped(), st.sampled_from(LinkModel))
def test_groups_of_any_kind_are_scheduled_right(problem: tuple[Network, Demand], model: LinkModel) -> None:
    net, demand = problem
    found = auto(Module("m", net, demand, model), Effort())
    assert verify_schedule(found).ok
    assert lower_bound(net, demand, model).time <= found.collective_time()


@st.composite
def two_sums(draw: st.DrawFn):
    """Two All-Reduces on four NPUs in a cycle with chords."""
    order = draw(st.permutations(range(4)))
    ends = st.integers(0, 3)
    chords = draw(st.lists(st.tuples(ends, ends), max_size=2))
    links = [(a, (a + 1) % 4) for a in range(4)] + [(a, b) for a, b in chords if a != b]
    return list(dict.fromkeys(links)), [sorted(order[:2]), sorted(order[2:])]


@settings(max_examples=20, deadline=None)
@given(two_sums())
def test_the_bound_of_several_runs_is_never_above_the_fewest_steps(problem) -> None:
    links, groups = problem
    best = least_steps_of_sums(4, links, groups, groups)
    if best is None:
        return
    net = network(4, [(a, b, kind_of(1, 1)) for a, b in links])
    one = [all_reduce(group, chunk=1000) for group in groups]
    demand = runs(*(replace_size(demand) for demand in one))
    assert ideal_bound(net, demand, LinkModel.STORE).time <= best * 10**6


def replace_size(demand: Demand) -> Demand:
    """The run with one chunk of 1,000 bytes in all."""
    run = demand.runs[0]
    table = run.pattern.expand()
    first = {name: getattr(table, name)[:1] for name in ("size", "pre", "post", "op", "family", "index")}
    return Demand((replace(run, pattern=replace(table, **first), standard=replace(run.standard, size=1000)),))
