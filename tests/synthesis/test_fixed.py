"""Algorithms written by hand, laid out on the links of networks."""

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.synthesis.fixed.layout import lay_out
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule
from collc.verification import verify_schedule
from tests.support import DEFAULT, MiB, all_gather, demand_of, dgx1, grid, network, reduce, ring, switched
from tests.synthesis.replay_checker import problems

STEP = 20_031_250
STORE = LinkModel.STORE
ORDER = list(range(8))


def sends(rows: list[tuple[int, int, int, int]], reduce: bool = False) -> AlgorithmSends:
    chunk, source, target, step = (np.array(c, np.int32) for c in zip(*rows, strict=True))
    return AlgorithmSends(chunk, source, target, step, np.full(len(rows), reduce))


def ring_sends(n: int, chunks: int = 1, steps: bool = True) -> AlgorithmSends:
    return sends(
        [
            (((i - s) % n) * chunks + c, i, (i + 1) % n, s if steps else -1)
            for s in range(n - 1)
            for i in range(n)
            for c in range(chunks)
        ]
    )


def run(
    net: Network, demand: Demand, hand: AlgorithmSends, model: LinkModel = LinkModel.STORE
) -> tuple[int, list[str]]:
    transfers = lay_out(net, demand, 0, hand, model)
    time = RowSchedule(model, transfers).collective_time(net, demand)
    return time, problems(net, demand, transfers, model)


def checked(net: Network, demand: Demand, hand: AlgorithmSends) -> int:
    """The time of a schedule with reductions, which collc.verification finds right."""
    schedule = RowSchedule(STORE, lay_out(net, demand, 0, hand, STORE))
    verdict = verify_schedule(Module("m", net, demand, STORE, schedule))
    assert verdict.ok, verdict.diagnostics
    return schedule.collective_time(net, demand)


def test_ring_on_ring():
    assert run(ring(8), all_gather(ORDER), ring_sends(8)) == (7 * STEP, [])


def test_each_step_of_a_ring_on_a_mesh_takes_as_long_as_its_longest_path():
    assert run(grid(2, 4), all_gather(ORDER), ring_sends(8)) == (28 * STEP, [])


def test_ring_without_steps_is_as_fast_on_a_ring_and_faster_on_a_mesh():
    assert run(ring(8), all_gather(ORDER), ring_sends(8, steps=False)) == (7 * STEP, [])
    time, _ = run(grid(2, 4), all_gather(ORDER), ring_sends(8, steps=False))
    assert time < 28 * STEP


def test_pipelined_ring_waits_for_arrival():
    assert run(ring(8), all_gather(ORDER), ring_sends(8), LinkModel.PIPELINED) == (7 * STEP, [])


def test_direct_sends_on_a_ring_congest():
    direct = sends([(i, i, j, 0) for i in ORDER for j in ORDER if i != j])
    _, found = run(ring(8), all_gather(ORDER), direct)
    assert any(text.startswith("congested: link 0 at 0") for text in found)
    assert not any(text.startswith(("early", "missing")) for text in found)


def test_the_path_with_the_smallest_devices_is_chosen_among_equal_ones():
    net = grid(2, 2)
    hand = sends([(0, 0, 3, 0)])
    transfers = lay_out(net, demand_of([(MiB, [0], [3], Op.COPY)]), 0, hand, LinkModel.STORE)
    assert [net.link_name(link) for link in transfers.link.tolist()] == [
        "npu[0, 0] -> npu[0, 1]",
        "npu[0, 1] -> npu[1, 1]",
    ]
    assert transfers.start.tolist() == [0, STEP]


def test_a_fast_path_of_two_hops_is_taken_only_where_no_link_joins_source_and_target():
    slow = LinkKind(500_000, DEFAULT.bandwidth / 100)
    net = network(4, [(0, 1), (1, 2), (0, 3, slow), (3, 2, slow)])
    hand = sends([(0, 0, 2, -1)])
    transfers = lay_out(net, demand_of([(MiB, [0], [2], Op.COPY)]), 0, hand, LinkModel.STORE)
    assert transfers.link.tolist() == [0, 1]
    joined = network(3, [(0, 1), (1, 2), (0, 2, slow)])
    transfers = lay_out(joined, demand_of([(MiB, [0], [2], Op.COPY)]), 0, hand, LinkModel.STORE)
    assert transfers.link.tolist() == [2]


def test_sends_are_dealt_out_to_parallel_links():
    hand = sends([(0, 0, 1, 0), (1, 0, 1, 0), (2, 0, 1, 0)])
    demand = demand_of([(MiB, [0], [1], Op.COPY)] * 3)
    transfers = lay_out(dgx1(), demand, 0, hand, LinkModel.STORE)
    assert len(set(transfers.link.tolist())) == 2
    assert len(problems(dgx1(), demand, transfers)) == 1
    both = demand_of([(MiB, [0], [1], Op.COPY)] * 2)
    assert run(dgx1(), both, sends([(0, 0, 1, 0), (1, 0, 1, 0)]))[1] == []


def test_sends_through_a_switch():
    net = switched(4)
    assert run(net, all_gather([0, 1, 2, 3]), ring_sends(4)) == (6 * STEP, [])


def test_a_step_waits_for_the_slowest_send_of_the_last():
    slow = LinkKind(500_000, DEFAULT.bandwidth / 10)
    net = network(3, [(0, 1), (1, 2), (2, 0, slow)])
    hand = ring_sends(3)
    slow_step = 500_000 + (STEP - 500_000) * 10
    assert run(net, all_gather([0, 1, 2]), hand) == (2 * slow_step, [])


def test_a_reduce_waits_for_all_reduces_into_its_source():
    net = network(4, [(2, 1), (3, 1), (1, 0)])
    hand = sends([(0, 1, 0, -1), (0, 2, 1, -1), (0, 3, 1, -1)], reduce=True)
    transfers = lay_out(net, reduce([0, 1, 2, 3]), 0, hand, LinkModel.STORE)
    assert transfers.link.tolist() == [0, 1, 2]
    assert transfers.start.tolist() == [0, 0, STEP]
    assert transfers.reduce.all()


def test_a_send_waits_for_the_reduces_into_its_source():
    net = network(2, [(1, 0), (0, 1)])
    demand = demand_of([(MiB, [0, 1], [0, 1], Op.SUM)])
    hand = AlgorithmSends(*(np.array(c, np.int32) for c in ([0, 0], [0, 1], [1, 0], [-1, -1])), np.array([False, True]))
    transfers = lay_out(net, demand, 0, hand, LinkModel.STORE)
    assert transfers.link.tolist() == [0, 1]
    assert transfers.reduce.tolist() == [True, False]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, 1, 2, -1)], r"npu\[1\] sends chunk 0:x\[0, 0\], but can never hold it"),
        ([(0, 1, 2, 0)], r"npu\[1\] sends chunk 0:x\[0, 0\] at step 0, but never holds it"),
        ([(0, 0, 1, 1), (0, 1, 2, 1)], r"at step 1, but does not hold it yet"),
    ],
)
def test_a_chunk_that_the_source_does_not_hold_is_an_error(rows: list[tuple[int, int, int, int]], words: str):
    with pytest.raises(SourceError, match=words):
        lay_out(ring(4), all_gather([0, 1, 2, 3]), 0, sends(rows), LinkModel.STORE)


def test_a_target_without_a_path_is_an_error():
    with pytest.raises(SourceError, match=r"no path leads from npu\[1\] to npu\[0\]"):
        lay_out(network(2, [(0, 1)]), all_gather([0, 1]), 0, sends([(1, 1, 0, 0)]), LinkModel.STORE)


def test_reduces_that_wait_for_one_another_are_an_error():
    hand = sends([(0, 0, 1, -1), (0, 1, 0, -1)], reduce=True)
    with pytest.raises(SourceError, match="wait for one another"):
        lay_out(ring(2), reduce([0, 1]), 0, hand, LinkModel.STORE)


LINE = network(3, [(0, 1), (1, 0), (1, 2), (2, 1)])


def test_a_reduction_does_not_pass_an_npu_with_a_contribution_of_its_own():
    hand = sends([(0, 2, 0, 0), (0, 1, 0, 1)], reduce=True)
    with pytest.raises(SourceError) as caught:
        lay_out(LINE, reduce([0, 1, 2]), 0, hand, STORE)
    (message,) = caught.value.diagnostics
    assert (message.code, message.message, message.hint) == (
        "S0106",
        "the reduction of chunk 0:x[0] from npu[2] to npu[0] passes npu[1], which has a contribution of its own",
        "no link joins the two; reduce hop by hop, first into npu[1] and then on to the target, or "
        "write 'allow congestion', "
        "so that NPUs forward messages",
    )


def test_two_reductions_do_not_meet_between_their_ends():
    net = network(4, [(2, 1), (3, 1), (1, 0)])
    hand = sends([(0, 2, 0, 0), (0, 3, 0, 1)], reduce=True)
    with pytest.raises(SourceError, match=r"passes npu\[1\], at which another contribution arrives"):
        lay_out(net, demand_of([(MiB, [0, 2, 3], [0], Op.SUM)]), 0, hand, STORE)


def test_a_reduction_may_pass_an_npu_without_a_contribution():
    hand = sends([(0, 2, 0, -1)], reduce=True)
    assert checked(LINE, demand_of([(MiB, [0, 2], [0], Op.SUM)]), hand) == 2 * STEP


def test_a_reduction_hop_by_hop_follows_the_hint():
    assert checked(LINE, reduce([0, 1, 2]), sends([(0, 2, 1, -1), (0, 1, 0, -1)], reduce=True)) == 2 * STEP
