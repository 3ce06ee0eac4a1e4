"""Schedules that are joined of parts: what is proved is right, and what is not right is not proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collc.passes.synthesizers import auto
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import all_gather, all_reduce, switched
from tests.synthesis.clusters import NIC, rails


def joined() -> Module:
    """All-Reduce in three nodes, and in another part All-Gather along four rails."""
    sums = [all_reduce([4 * node + i for i in range(4)]) for node in range(3)]
    copies = [all_gather([4 * node + i for node in range(3)]) for i in range(4)]
    demand = Demand(tuple(run for one in (*sums, *copies) for run in one.runs))
    found = auto(Module("m", rails(3, 4), demand, LinkModel.PIPELINED), Effort())
    assert isinstance(found.schedule, JoinedSchedule)
    return found


def changed(module: Module, number: int, change: Callable[[RepeatedPart], RepeatedPart]) -> Module:
    """The module with one part of its schedule changed."""
    schedule = module.schedule
    assert isinstance(schedule, JoinedSchedule)
    parts = list(schedule.parts)
    parts[number] = change(parts[number])
    return replace(module, schedule=replace(schedule, parts=tuple(parts)))


def exchanged(numbers: np.ndarray, image: int, first: int, second: int) -> np.ndarray:
    """The numbers with two of a row exchanged."""
    found = numbers.copy()
    found[image, [first, second]] = found[image, [second, first]]
    return found


def test_parts_prove_the_whole() -> None:
    found = joined()
    assert is_proved(found, found.schedule)
    assert verify_schedule(found).ok
    assert len(found.schedule) == len(found.schedule.transfers) > found.schedule.row_count


@pytest.mark.parametrize(
    "change",
    [
        lambda part: replace(part, device=exchanged(part.device, 1, 0, 1)),
        lambda part: replace(part, device=part.device + 1000),
        lambda part: replace(part, device=part.device[:, :-1]),
        lambda part: replace(part, link=exchanged(part.link, 1, 0, 1)),
        lambda part: replace(part, link=np.zeros_like(part.link)),
        lambda part: replace(part, link=part.link[:1]),
        lambda part: replace(part, run=part.run[:, :0]),
        lambda part: replace(part, run=np.zeros_like(part.run)),
        lambda part: replace(part, run=part.run[::-1].copy()),
        lambda part: replace(part, delay=part.delay - 1),
        lambda part: replace(part, module=replace(part.module, model=LinkModel.STORE)),
        lambda part: replace(part, module=replace(part.module, network=switched(4, replace(NIC, latency=1)))),
    ],
)
def test_a_part_in_a_wrong_place_is_not_proved(change: Callable[[RepeatedPart], RepeatedPart]) -> None:
    found = changed(joined(), 0, change)
    assert not is_proved(found, found.schedule)


def test_a_wrong_part_is_not_proved() -> None:
    def without_last(part: RepeatedPart) -> RepeatedPart:
        rows = part.schedule.transfers.select(slice(0, -1))
        return replace(part, module=part.module.with_schedule(RowSchedule(LinkModel.PIPELINED, rows), ""))

    found = changed(joined(), 1, without_last)
    assert not is_proved(found, found.schedule)
    assert verify_schedule(found).checks["delivered"] == "failed"


def test_a_run_of_other_chunks_is_not_proved() -> None:
    found = joined()
    group = found.demand.runs[0].group.tolist()
    runs = (*all_reduce(group, chunks=2).runs, *found.demand.runs[1:])
    other = replace(found, demand=Demand(runs), schedule=replace(found.schedule, demand=Demand(runs)))
    assert not is_proved(other, other.schedule)


def test_a_switch_of_another_kind_is_not_proved() -> None:
    found = joined()
    for name, value in (("multicast", True), ("reduces", True), ("buffers", 3)):
        rules = getattr(found.network, name).copy()
        rules[0] = value
        other = replace(found, network=replace(found.network, **{name: rules}))
        assert not is_proved(other, other.schedule)


def test_two_places_on_one_link_need_different_times() -> None:
    """The same All-Gather twice over one rail: the second one after the first, and at the same time."""
    net = switched(3, NIC)
    demand = Demand((*all_gather([0, 1, 2]).runs, *all_gather([0, 1, 2]).runs))
    alone = auto(Module("m", net, Demand(demand.runs[:1]), LinkModel.PIPELINED), Effort(unwinds=False))
    time = alone.collective_time()
    device, link = np.arange(4, dtype=np.int32), np.arange(net.link_count, dtype=np.int32)
    for delay, right in ((time, True), (0, False)):
        run, delays = np.array([[0], [1]], np.int32), np.array([0, delay])
        part = RepeatedPart(alone, np.stack([device] * 2), np.stack([link] * 2), run, delays)
        schedule = JoinedSchedule(LinkModel.PIPELINED, demand, (part,))
        found = Module("m", net, demand, LinkModel.PIPELINED, schedule)
        assert is_proved(found, schedule) == right
        assert verify_schedule(found).ok == right
        assert schedule.run_times(net, demand).tolist() == [time, time + delay]
