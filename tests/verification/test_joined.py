"""Schedules that are joined of parts: what is proved is right, and what is not right is not proved."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from collc.passes.synthesizers import auto
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.endpoint import Endpoint
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, Translations
from collc.ten.joined_schedule import JoinedSchedule, RepeatedPart
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, QueuedMessages, RowSchedule, Transfers
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import MiB, all_gather, all_reduce, broadcast, network, reduce, reduce_scatter, switched
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


def test_each_run_is_in_one_part() -> None:
    found = joined()
    assert isinstance(found.schedule, JoinedSchedule)
    parts = found.schedule.parts
    for wrong in (parts[:1], parts[1:], (), (*parts, parts[1])):
        schedule = replace(found.schedule, parts=wrong)
        assert not is_proved(found, schedule)
        assert not verify_schedule(found.with_schedule(schedule, "")).ok


def test_all_are_of_one_link_model() -> None:
    found = joined()
    assert not is_proved(found, replace(found.schedule, model=LinkModel.STORE))
    assert not is_proved(replace(found, model=LinkModel.STORE), found.schedule)

    def with_other_model(part: RepeatedPart) -> RepeatedPart:
        schedule = RowSchedule(LinkModel.STORE, part.schedule.transfers)
        return replace(part, module=replace(part.module, schedule=schedule))

    other = changed(found, 0, with_other_model)
    assert not is_proved(other, other.schedule)


def test_parts_at_npus_with_limits_are_not_proved() -> None:
    """GPUs send in nodes and along rails at once."""
    found = joined()
    limited = replace(found.network, endpoint=np.zeros(12, np.int32), endpoint_kinds=(Endpoint(inject=NIC.bandwidth),))
    assert not is_proved(replace(found, network=limited), found.schedule)
    assert verify_schedule(replace(found, network=limited)).checks["endpoints"] == "failed"


@pytest.mark.parametrize(
    "demand",
    [
        all_reduce([0, 1, 2, 3], chunks=2),
        all_reduce([0, 1, 2, 3], chunk=2 * MiB),
        all_reduce([0, 1, 2, 3], op=Op.MAX),
        all_reduce([0, 1, 3, 2]),
        reduce_scatter([0, 1, 2, 3]),
    ],
)
def test_a_run_of_other_chunks_is_not_proved(demand: Demand) -> None:
    found = joined()
    runs = (*demand.runs, *found.demand.runs[1:])
    other = replace(found, demand=Demand(runs), schedule=replace(found.schedule, demand=Demand(runs)))
    assert not is_proved(other, other.schedule)


def test_a_part_with_smaller_chunks_is_not_proved() -> None:
    """Its run says it is the same All-Reduce."""

    def halved(part: RepeatedPart) -> RepeatedPart:
        run, table = part.module.demand.runs[0], part.module.demand.chunks
        demand = Demand((replace(run, pattern=replace(table, size=table.size // 2)),))
        rows = RowSchedule(part.module.model, part.schedule.transfers)
        return replace(part, module=replace(part.module, demand=demand, schedule=rows))

    found = changed(joined(), 0, halved)
    assert isinstance(found.schedule, JoinedSchedule)
    assert verify_schedule(found.schedule.parts[0].module).ok
    assert not is_proved(found, found.schedule)


def test_chunks_in_the_order_of_another_demand_are_not_proved() -> None:
    """Else the transfers, which are numbered by the demand of the schedule, would be of other chunks."""
    found = joined()
    schedule = replace(found.schedule, demand=Demand(found.demand.runs[::-1]))
    assert not is_proved(found, schedule)
    assert not verify_schedule(found.with_schedule(schedule, "")).ok


def test_chunks_that_are_not_those_of_the_collective_are_not_proved() -> None:
    """Two runs that say they are the same All-Reduce; the chunks of one are larger, so its transfers take longer."""
    found = joined()
    run, table = found.demand.runs[0], found.demand.tables[0]
    runs = replace(run, pattern=replace(table, size=2 * table.size)), *found.demand.runs[1:]
    schedule = replace(found.schedule, demand=Demand(runs))
    other = replace(found, demand=Demand(runs), schedule=schedule)
    assert not is_proved(other, schedule)
    assert not verify_schedule(other).ok


def test_a_switch_of_another_kind_is_not_proved() -> None:
    found = joined()
    for name, value in (("multicast", True), ("reduces", True), ("buffers", 3)):
        rules = getattr(found.network, name).copy()
        rules[0] = value
        other = replace(found, network=replace(found.network, **{name: rules}))
        assert not is_proved(other, other.schedule)


def one_image(part: Module, net: Network, device: list[int], link: list[int]) -> Module:
    """A schedule of one part at one place."""
    one = np.zeros((1, 1), np.int32)
    image = RepeatedPart(part, np.array([device], np.int32), np.array([link], np.int32), one)
    schedule = JoinedSchedule(part.model, part.demand, (image,))
    return Module("m", net, part.demand, part.model, schedule)


def exchanges(net: Network, steps: list[tuple[list[int], list[int]]]) -> Module:
    """An All-Reduce of four NPUs: in each step partials go over some links, and then on over others."""
    demand, rows = all_reduce([0, 1, 2, 3]), list[tuple[int, int, int]]()
    time = int(Clock.of(net, demand, LinkModel.PIPELINED).total.max())
    for chunk in range(4):
        for number, (up, down) in enumerate(steps):
            start = 2 * time * (len(steps) * chunk + number)
            rows += [(chunk, link, start) for link in up] + [(chunk, link, start + time) for link in down]
    chunks, links, starts = (np.array(column) for column in zip(*rows, strict=True))
    schedule = RowSchedule(LinkModel.PIPELINED, Transfers.of(chunks, links, starts, True))
    part = Module("m", net, demand, LinkModel.PIPELINED, schedule)
    assert verify_schedule(part).ok
    return part


def test_links_in_another_order_are_not_proved() -> None:
    """Partials of all NPUs reach a switch together, and leave in the order of their links: 0 gets that of 1, not of 2.

    So then 0 and 2, and 1 and 3, add what they have. If the links of 1 and 2 change places, 0 has got that of 2.
    """
    net = switched(4, NIC)
    part = exchanges(net, [([2 * i for i in to], [2 * i + 1 for i in to]) for to in ([0, 1, 2, 3], [0, 2], [1, 3])])
    for order, right in (([0, 1, 2, 3, 4, 5, 6, 7], True), ([0, 1, 4, 3, 2, 5, 6, 7], False)):
        whole = replace(net, source=net.source[order], target=net.target[order])
        found = one_image(part, whole, [0, 1, 2, 3, 4], order)
        assert is_proved(found, found.schedule) == right
        assert verify_schedule(found).ok == right


def test_two_switches_that_are_one_are_not_proved() -> None:
    """0 and 1 exchange partials over one switch while 2 and 3 do over another: in one switch, 0 gets that of 2."""
    links = [(0, 4), (2, 5), (1, 4), (3, 5), (4, 0), (4, 1), (5, 2), (5, 3), (2, 4), (3, 4), (4, 2), (4, 3)]
    steps = [([0, 1, 2, 3], [4, 5, 6, 7]), ([0, 8], [4, 10]), ([2, 9], [5, 11])]
    part = exchanges(network(4, links, switches=2), steps)
    whole = network(4, [(min(source, 4), min(target, 4)) for source, target in links], switches=1)
    found = one_image(part, whole, [0, 1, 2, 3, 4, 4], list(range(12)))
    assert not is_proved(found, found.schedule)
    assert not verify_schedule(found).ok


def test_links_of_another_latency_are_not_proved() -> None:
    """What is right on faster links, and also on those of the network."""

    def on_faster(part: RepeatedPart) -> RepeatedPart:
        net = part.module.network
        kinds = tuple(replace(kind, latency=1) for kind in net.kinds)
        return replace(part, module=replace(part.module, network=replace(net, kinds=kinds)))

    found = changed(joined(), 0, on_faster)
    assert not is_proved(found, found.schedule)


def test_an_npu_in_place_of_a_switch_is_not_proved() -> None:
    """And a switch in place of an NPU: an NPU adds up what comes, a switch sends each arrival once."""
    copies = Transfers.of(np.zeros(3, np.int32), np.arange(3), np.array([0, 10**9, 10**9]))
    npus = network(4, [(0, 1), (1, 2), (1, 3)])
    switch = network(3, [(0, 3), (3, 1), (3, 2)], switches=1)
    part = Module("m", npus, broadcast([0, 2, 3]), LinkModel.STORE, RowSchedule(LinkModel.STORE, copies))
    copied = replace(one_image(part, switch, [0, 3, 1, 2], [0, 1, 2]), demand=broadcast([0, 1, 2]))

    rows = Transfers.of(np.zeros(4, np.int32), np.array([0, 1, 2, 2]), np.array([0, 0, 10**9, 2 * 10**9]), True)
    between = network(3, [(0, 3), (1, 3), (3, 2)], switches=1)
    part = Module("m", between, reduce([0, 1, 2], root=2), LinkModel.STORE, RowSchedule(LinkModel.STORE, rows))
    summed = one_image(part, network(4, [(0, 3), (1, 3), (3, 2)], switches=1), [0, 1, 2, 3], [0, 1, 2])

    for found in (copied, summed):
        assert isinstance(found.schedule, JoinedSchedule)
        assert verify_schedule(found.schedule.parts[0].module).ok
        assert not is_proved(found, found.schedule)
        assert not verify_schedule(found).ok


def test_links_between_others_and_slower_ones_are_not_proved() -> None:
    net = network(3, [(0, 1), (1, 2), (2, 0, replace(NIC, latency=10**12))])
    rows = Transfers.of(np.zeros(2, np.int32), np.arange(2), np.array([0, 10**9]))
    part = Module("m", net, broadcast([0, 1, 2]), LinkModel.STORE, RowSchedule(LinkModel.STORE, rows))
    assert verify_schedule(part).ok
    for column, values in (("source", [2, 1, 2]), ("target", [1, 0, 0]), ("kind", [1, 0, 1])):
        whole = replace(net, **{column: np.array(values, np.int32)})
        found = one_image(part, whole, [0, 1, 2], [0, 1, 2])
        assert not is_proved(found, found.schedule), column
        assert not verify_schedule(found).ok


def test_devices_that_are_missing_are_not_proved() -> None:
    found = joined()
    for device in (0, 12):
        present = found.network.present.copy()
        present[device] = False
        other = replace(found, network=replace(found.network, present=present))
        assert not is_proved(other, other.schedule)


def test_messages_are_not_proved() -> None:
    """NPU 1 passes on a message of 0 to 2, to which it has sent its own; an image adds it to what 1 has."""
    net = network(3, [(0, 1), (1, 2)])
    demand = reduce([0, 1, 2], root=2)
    time = int(Clock.of(net, demand, LinkModel.PIPELINED).total.max())
    start = np.array([0, 0, time])
    rows = Transfers.of(np.zeros(3, np.int32), np.array([0, 1, 1]), start, True)
    queued = replace(rows, messages=QueuedMessages(np.array([0, -1, 0], np.int32), start, start))
    part = Module("m", net, demand, LinkModel.PIPELINED, RowSchedule(LinkModel.PIPELINED, queued))
    assert set(verify_schedule(part).checks.values()) == {"ok"}
    found = one_image(part, net, [0, 1, 2], [0, 1])
    assert not is_proved(found, found.schedule)
    assert verify_schedule(found).checks["reductions"] == "failed"


def test_translations_that_are_none_hide_no_link() -> None:
    """Both NPUs send in two places at once; a wrong translation takes the link from 0 to one that both places have."""
    net = network(2, [(0, 1), (1, 0), (1, 0)])
    whole = network(2, [(0, 1), (0, 1), (1, 0), (1, 0), (1, 0)])
    demand = all_gather([0, 1])
    numbers = ChunkNumbers.of(demand)
    assert numbers is not None
    devices, links = np.array([[1, 0]], np.int32), np.array([[2, 1, 1]], np.int32)
    zero = np.zeros(1, np.int32)
    rows, turn = Transfers.of(zero, zero, zero), np.zeros(1, np.int64)
    translations = Translations((2,), 2, devices, links)
    schedule = FactoredSchedule(LinkModel.PIPELINED, translations, numbers, rows, turn)
    part = Module("m", net, demand, LinkModel.PIPELINED, schedule)
    assert verify_schedule(part).ok
    device, link = np.array([[0, 1]] * 2, np.int32), np.array([[0, 2, 4], [1, 3, 4]], np.int32)
    images = RepeatedPart(part, device, link, np.array([[0], [1]], np.int32))
    both = Demand(demand.runs * 2)
    found = Module("m", whole, both, LinkModel.PIPELINED, JoinedSchedule(LinkModel.PIPELINED, both, (images,)))
    assert not is_proved(found, found.schedule)
    assert verify_schedule(found).checks["congestion_free"] == "failed"


def with_one_change(part: RepeatedPart, chance: random.Random) -> RepeatedPart:
    """A part with one number of an image, or one of its transfers, changed."""
    image, rows = chance.randrange(len(part.run)), part.schedule.transfers
    match chance.randrange(5):
        case 0 | 1 as choice:
            name = ("device", "link")[choice]
            numbers: np.ndarray = getattr(part, name).copy()
            numbers[image, chance.randrange(numbers.shape[1])] = chance.choice(numbers.reshape(-1).tolist())
            return replace(part, **{name: numbers})
        case 2:
            return replace(part, run=np.roll(part.run, 1, axis=0))
        case 3:
            start = rows.start.copy()
            start[chance.randrange(len(rows))] = chance.choice(start.tolist())
            rows = rows.at(start)
        case _:
            link = rows.link.copy()
            link[chance.randrange(len(rows))] = chance.choice(link.tolist())
            rows = replace(rows, link=link)
    return replace(part, module=part.module.with_schedule(RowSchedule(part.module.model, rows), ""))


def test_what_is_wrong_is_not_proved() -> None:
    chance, refused, found = random.Random("joined"), 0, joined()
    assert isinstance(found.schedule, JoinedSchedule)
    for _ in range(150):
        number = chance.randrange(len(found.schedule.parts))
        wrong = changed(found, number, lambda part: with_one_change(part, chance))
        assert isinstance(wrong.schedule, JoinedSchedule)
        if is_proved(wrong, wrong.schedule):
            rows = wrong.with_schedule(RowSchedule(wrong.model, wrong.schedule.transfers), "")
            assert verify_schedule(rows).ok
        else:
            refused += 1
    assert refused >= 50


def test_two_places_have_no_link_in_common() -> None:
    """An All-Gather over each of two rails, and twice over one of them."""
    net = network(3, [ends for rail in (3, 4) for npu in range(3) for ends in ((npu, rail, NIC), (rail, npu, NIC))], 2)
    demand = Demand((*all_gather([0, 1, 2]).runs, *all_gather([0, 1, 2]).runs))
    alone = auto(Module("m", switched(3, NIC), all_gather([0, 1, 2]), LinkModel.PIPELINED), Effort())
    device, link, run = np.arange(4), np.arange(6), np.array([[0], [1]], np.int32)
    for rail, right in ((1, True), (0, False)):
        devices, links = np.stack([device, np.append(device[:3], 3 + rail)]), np.stack([link, link + 6 * rail])
        part = RepeatedPart(alone, devices.astype(np.int32), links.astype(np.int32), run)
        schedule = JoinedSchedule(LinkModel.PIPELINED, demand, (part,))
        found = Module("m", net, demand, LinkModel.PIPELINED, schedule)
        assert is_proved(found, schedule) == right
        assert verify_schedule(found).ok == right
        assert schedule.run_times(net, demand).tolist() == [alone.collective_time()] * 2
