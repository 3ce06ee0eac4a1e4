"""Reductions as inverted copies: demands with reductions only, with copies, of groups, beside reserved transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds import lower_bound
from collc.synthesis.reductions.compose import has_reductions, invert_schedule, join, solve, split
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from tests.support import MiB, all_gather, all_reduce, demand_of, dgx1, grid, network, reduce, reduce_scatter, ring
from tests.synthesis.cases import kind, task_of, unequal_mesh
from tests.synthesis.checker import check
from tests.synthesis.test_tacos import HALF, ONE, STEP

NETWORKS = [ring(5), ring(4, one_way=True), grid(3, 3), dgx1(), unequal_mesh(3, 4, kind(50, HALF), kind(75, ONE))]


def synthesized(net, demand, model=LinkModel.STORE, schedule=None, planned=None):
    module = Module("m", net, demand, model, schedule=schedule, planned=planned)
    return join(solve(module, lambda task: tacos(task, Effort())))


def mixed():
    rows = [
        (MiB, [0], [1, 2], Op.COPY),
        (2 * MiB, [1, 2, 3], [0], Op.SUM),
        (3 * MiB, [0, 1, 2], [2, 3], Op.MAX),
        (MiB, [1], [3], Op.SUM),
        (MiB, [0, 3], [1], Op.COPY),
    ]
    return demand_of(rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("net", NETWORKS)
def test_reductions_are_right(net, model):
    group = net.npus.tolist()
    for demand in (
        reduce_scatter(group),
        all_reduce(group, chunks=2),
        reduce(group, root=1),
        all_reduce(group[::2]),
        mixed(),
    ):
        module = synthesized(net, demand, model)
        assert module.phases == ()
        assert lower_bound(net, demand, model).time <= check(net, demand, module.schedule)


def test_all_reduce_on_a_mesh_is_one_step_by_link_table():
    net = grid(4, 4)
    schedule = synthesized(net, all_reduce(net.npus.tolist())).schedule
    assert isinstance(schedule, StepSchedule)
    assert (len(schedule.chunk), schedule.reduce_steps) == (16, 8)


def test_phases_are_standard_collectives():
    net = ring(4)
    phases = split(Module("m", net, all_reduce([0, 1, 2, 3], chunks=2)))
    assert [phase.inverted for phase in phases] == [True, False]
    for phase in phases:
        run = phase.module.demand.runs[0]
        assert run.standard is not None
        assert run.standard.kind == "all_gather"
        assert not has_reductions(phase.module.demand)
        assert np.array_equal(
            run.pattern.expand().pre, all_gather([0, 1, 2, 3], chunks=2).chunks.pre + run.pattern.expand().pre[0]
        )
    assert np.array_equal(phases[0].module.network.source, net.target)


def test_copies_alone_are_one_phase():
    demand = all_gather([0, 1, 2])
    (phase,) = split(Module("m", ring(3), demand))
    assert not phase.inverted
    assert phase.module.demand.runs == demand.runs


@pytest.mark.parametrize("model", LinkModel)
def test_reductions_avoid_reserved_intervals(model):
    net = grid(3, 3)
    first, second = all_gather(net.npus.tolist()), reduce_scatter(net.npus.tolist())
    whole = Demand((first.runs[0], second.runs[0]))
    fixed = RowSchedule(model, tacos(task_of(net, first, model), Effort()).transfers)
    module = synthesized(net, whole, model, fixed, frozenset([0]))
    assert check(net, whole, module.schedule) == module.schedule.collective_time(net, whole)
    assert len(module.schedule) == len(fixed) * 2


def test_reductions_follow_the_planned_runs_if_no_overlapping_schedule_is_found():
    """As on Ctrl-C: the schedule of the planned runs is kept."""
    net = grid(3, 3)
    first, second = all_gather(net.npus.tolist()), reduce_scatter(net.npus.tolist())
    whole = Demand((first.runs[0], second.runs[0]))
    fixed = RowSchedule(LinkModel.STORE, tacos(task_of(net, first), Effort()).transfers)

    def synthesizer(task):
        if task.reserved is not None:
            raise NoSchedule(Diagnostic("S0201", "stopped"))
        return tacos(task, Effort())

    module = join(solve(Module("m", net, whole, schedule=fixed, planned=frozenset([0])), synthesizer))
    assert check(net, whole, module.schedule) == 2 * fixed.collective_time(net, whole)


def test_useless_and_double_transfers_are_left_out():
    """NPU 0 sends to 1 twice, and once to 2, which does not want the chunk."""
    net = network(3, [(0, 1), (0, 1), (0, 2)])
    demand = demand_of([(MiB, [0], [0, 1], Op.COPY)])
    rows = Transfers.of(np.zeros(3, np.int32), np.array([0, 1, 2]), np.array([0, 7, 0]))
    turned = invert_schedule(RowSchedule(LinkModel.STORE, rows), net, demand)
    assert turned.transfers.link.tolist() == [0]
    assert turned.transfers.start.tolist() == [0]
    assert turned.transfers.reduce.all()


def test_mirror_image_in_time():
    net = ring(3)
    demand = demand_of([(MiB, [0], [0, 1, 2], Op.COPY)])
    rows = Transfers.of(np.zeros(2, np.int32), np.array([0, 2]), np.array([5, 5 + STEP]))
    turned = invert_schedule(RowSchedule(LinkModel.STORE, rows), net, demand).transfers
    assert turned.link.tolist() == [2, 0]
    assert turned.start.tolist() == [0, STEP]


@st.composite
def reductions(draw):
    count = draw(st.integers(2, 5))
    kinds = [kind(50, HALF), kind(10, ONE)]
    ends = st.integers(0, count - 1)
    extra = draw(st.lists(st.tuples(ends, ends, st.sampled_from(kinds)), max_size=6))
    links = [(a, (a + 1) % count, draw(st.sampled_from(kinds))) for a in range(count)]
    holders = st.lists(ends, min_size=1, max_size=count, unique=True)
    rows = [
        (draw(st.sampled_from([MiB, 3 * MiB])), draw(holders), draw(holders), draw(st.sampled_from([Op.COPY, Op.SUM])))
        for _ in range(draw(st.integers(1, 5)))
    ]
    return network(count, links + [(a, b, k) for a, b, k in extra if a != b]), demand_of(rows)


@settings(max_examples=40, deadline=None)
@given(reductions(), st.sampled_from(LinkModel))
def test_any_mixture_is_right_and_no_better_than_the_bound(problem, model):
    net, demand = problem
    schedule = synthesized(net, demand, model).schedule
    assert lower_bound(net, demand, model).time <= check(net, demand, schedule)


def test_a_phase_without_a_schedule_cannot_be_joined():
    module = Module("m", ring(3), all_reduce([0, 1, 2]))
    with pytest.raises(ValueError, match="no schedule"):
        join(replace(module, phases=split(module)))
