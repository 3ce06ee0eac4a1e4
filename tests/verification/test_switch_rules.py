"""The rules of docs/ten.md (section Switches), one by one: on one chunk in one switch, and on whole schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.chunk_check import BufferSlot, ChunkBuffer
from collc.verification.prove import prove_properties
from tests.support import MiB, demand_of, network, switched
from tests.verification.interpreter import interpret
from tests.verification.random_modules import transfers

STEP = 20_031_250
"""Picoseconds of a transfer of 1 MiB."""


def filled(*arrivals: tuple[int, int, int, bool], multicast: bool = False, reduces: bool = False) -> ChunkBuffer:
    """A buffer with arrivals (time, contributions, origin, whether they are partials)."""
    buffer = ChunkBuffer(multicast, reduces)
    for time, value, origin, partial in arrivals:
        assert buffer.arrive(BufferSlot(time, value, origin), partial)
    return buffer


def test_the_oldest_partial_leaves_first() -> None:
    buffer = filled((1, 0b001, 0, True), (2, 0b010, 1, True), (3, 0b100, 2, True))
    assert [buffer.depart(5, 6, 9, True) for _ in range(4)] == [(0b001, True), (0b010, True), (0b100, True), (0, True)]


def test_a_partial_does_not_go_back_while_another_is_there() -> None:
    buffer = filled((1, 0b001, 0, True), (1, 0b010, 1, True))
    assert buffer.depart(5, 6, 0, True) == (0b010, True)
    assert buffer.depart(5, 6, 0, True) == (0b001, True), "alone it goes back"


def test_a_send_takes_a_partial_only_where_no_copy_is_there() -> None:
    buffer = filled((1, 0b11, 0, True), (2, 0b111, 1, False))
    assert buffer.depart(5, 6, 2, False) == (0b111, True)
    assert [slot.value for slot in buffer.stuck_partials()] == [0b11]
    alone = filled((1, 0b11, 0, True))
    assert alone.depart(5, 6, 2, False) == (0b11, True)
    assert alone.stuck_partials() == []


def test_a_reduce_takes_a_copy_where_no_partial_is_there() -> None:
    buffer = filled((2, 0b11, 1, False))
    assert buffer.depart(5, 6, 2, True) == (0b11, True)
    assert buffer.depart(6, 7, 2, True) == (0b11, True), "a copy stays"


def test_the_copy_that_arrived_last_and_is_idle_is_read() -> None:
    buffer = filled((1, 1, 0, False), (2, 1, 1, False))
    assert buffer.depart(5, 8, 2, False) == (1, True)
    assert buffer.depart(6, 9, 3, False) == (1, True)
    assert buffer.depart(7, 9, 4, False) == (1, False), "both are being read"
    assert buffer.depart(9, 12, 4, False) == (1, True)
    assert buffer.intervals() == [(1, 9), (2, 12)]
    shared = filled((1, 1, 0, False), (2, 1, 1, False), multicast=True)
    assert [shared.depart(5, 8, npu, False) for npu in (2, 3, 4)] == [(1, True)] * 3
    assert shared.intervals() == [(2, 8)]


def test_a_switch_that_reduces_adds_up_until_the_sum_has_left() -> None:
    buffer = filled((1, 0b001, 0, True), (2, 0b010, 1, True), reduces=True)
    assert not buffer.arrive(BufferSlot(3, 0b010, 2), True), "a contribution that is there already"
    assert buffer.depart(5, 6, 2, True) == (0b011, True)
    assert buffer.arrive(BufferSlot(7, 0b011, 0), True), "a new sum begins"
    assert buffer.depart(8, 9, 2, True) == (0b011, True)
    assert buffer.stuck_partials() == []
    assert buffer.intervals() == [(1, 6), (7, 9)]


def test_a_slot_that_nothing_left_is_free() -> None:
    assert filled((1, 1, 0, False)).intervals() == []
    buffer = filled((1, 1, 0, True), (4, 2, 1, True))
    buffer.depart(5, 6, 2, True)
    assert buffer.intervals() == [(1, 6)]


# Whole schedules. In `switched(n)` link 2 i leads from NPU i to the switch, link 2 i + 1 back.


def checked(
    net: Network, pre: list[int], post: list[int], rows: list[tuple[int, int, int, bool]], op: Op = Op.SUM
) -> dict[str, bool]:
    """The checks of a collective of one chunk; all implementations of the check agree."""
    schedule = RowSchedule(LinkModel.STORE, transfers(rows))
    module = Module("m", net, demand_of([(MiB, pre, post, op)]), schedule=schedule)
    found = {name: outcome == "ok" for name, outcome in verify_schedule(module).checks.items()}
    assert found == interpret(module)
    assert found == {name: outcome == "ok" for name, outcome in verify_schedule(module, large=0).checks.items()}
    assert all(found.values()) == (prove_properties(module).answer == "proved")
    return found


def test_an_exchange_through_a_switch() -> None:
    """Both partials arrive at once; each leaves to the NPU that it did not come from."""
    rows = [(0, 0, 0, True), (0, 2, 0, True), (STEP, 1, 0, True), (STEP, 3, 0, True)]
    assert all(checked(switched(2), [0, 1], [0, 1], rows).values())


def test_a_partial_that_goes_back_alone_counts_twice() -> None:
    found = checked(switched(2), [0, 1], [], [(0, 0, 0, True), (STEP, 1, 0, True)])
    assert not found["reductions"]
    assert found["switches"]


def test_a_complete_sum_may_leave_as_a_send() -> None:
    """NPU 1 adds up and reduces the complete sum into the switch, from where it is sent: once, as any partial."""
    up = [(0, 0, 0, True), (STEP, 3, 0, True), (2 * STEP, 2, 0, True)]
    assert all(checked(switched(3), [0, 1], [1, 2], [*up, (3 * STEP, 5, 0, False)]).values())
    again = [*up, (3 * STEP, 5, 0, False), (4 * STEP, 1, 0, False)]
    assert not checked(switched(3), [0, 1], [1, 2], again)["causality"], "it has left"
    assert not checked(switched(3), [0, 1], [1, 2], [(0, 0, 0, True), (STEP, 5, 0, False)])["reductions"], "a part"


@pytest.mark.parametrize(("target", "right"), [(5, True), (1, False)])
def test_a_reduce_may_carry_a_finished_copy_out_of_a_switch(target: int, right: bool) -> None:
    """An NPU that holds nothing keeps the copy; one with a contribution has it twice."""
    rows = [(0, 0, 0, True), (STEP, 3, 0, True), (2 * STEP, 2, 0, False), (3 * STEP, target, 0, True)]
    found = checked(switched(3), [0, 1], [1, 2] if right else [1], rows)
    assert found["reductions"] is right
    assert found["switches"]


def test_copies_without_multicast_leave_one_at_a_time() -> None:
    net = switched(3)
    rows = [(0, 0, 0, False), (STEP, 3, 0, False), (STEP, 5, 0, False)]
    both = [(0, 0, 0, False), (STEP, 3, 0, False), (2 * STEP, 5, 0, False)]
    assert not checked(net, [0], [1, 2], rows)["switches"]
    assert all(checked(net, [0], [1, 2], both).values())
    assert all(checked(replace(net, multicast=np.array([True])), [0], [1, 2], rows).values())


def test_a_switch_with_multicast_does_not_excuse_the_next_one() -> None:
    """The chunk passes a switch with multicast, then one without, which sends it to one NPU after another."""
    net = network(3, [(0, 3), (3, 4), (4, 1), (4, 2)], switches=2)
    net = replace(net, multicast=np.array([True, False]))
    rows = [(0, 0, 0, False), (STEP, 1, 0, False), (2 * STEP, 2, 0, False)]
    assert all(checked(net, [0], [1, 2], [*rows, (3 * STEP, 3, 0, False)], Op.COPY).values())
    assert not checked(net, [0], [1, 2], [*rows, (2 * STEP, 3, 0, False)], Op.COPY)["switches"]


@pytest.mark.parametrize(("slots", "right"), [(1, False), (2, True)])
def test_a_sum_that_is_still_leaving_and_a_new_one_take_two_slots(slots: int, right: bool) -> None:
    """The partial of NPU 1 arrives while the sum with that of NPU 0 leaves."""
    net = replace(switched(3, buffer=slots), reduces=np.array([True]))
    rows = [(0, 0, 0, True), (1, 2, 0, True), (STEP, 5, 0, True), (2 * STEP, 5, 0, True)]
    found = checked(net, [0, 1], [2], rows)
    assert found["switches"] is right
    assert found["reductions"]


def test_what_leaves_a_switch_does_not_contain_what_is_sent_to_it_at_the_same_time() -> None:
    partials = [(0, 0, 0, True), (STEP, 3, 0, True), (STEP, 4, 0, True), (2 * STEP, 3, 0, True)]
    assert all(checked(switched(3), [0, 1, 2], [1], partials).values())
    copies = [(0, 0, 0, False), (STEP, 5, 0, False), (2 * STEP, 3, 0, False), (2 * STEP, 4, 0, False)]
    assert all(checked(switched(3), [0], [1, 2], copies).values())


def test_a_sum_without_multicast_leaves_on_one_link_at_a_time() -> None:
    net = replace(switched(3), reduces=np.array([True]))
    rows = [(0, 0, 0, True), (STEP, 3, 0, True)]
    assert all(checked(net, [0], [1, 2], [*rows, (2 * STEP, 5, 0, True)]).values())
    assert not checked(net, [0], [1, 2], [*rows, (STEP, 5, 0, True)])["switches"]


def test_the_newest_of_several_sums_is_read() -> None:
    """Also if another link is reading it and an older one is idle."""
    buffer = filled((1, 0b01, 0, True), reduces=True)
    assert buffer.depart(2, 4, 2, True) == (0b01, True)
    buffer.arrive(BufferSlot(5, 0b10, 1), True)
    for partial in (True, False):
        assert buffer.depart(6, 9, 2, partial) == (0b10, partial), "the second link reads it at the same time"
