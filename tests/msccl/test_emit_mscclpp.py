"""MSCCL++ plans, judged by the checker that interprets them."""

import io
import json
from pathlib import Path

import pytest

from collc.application.emit.file_times import fastest_plan
from collc.base.diagnostics import SourceError, SourceFile, Span
from collc.base.options import OptionValue
from collc.emit.msccl import write_plan
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.plans.plan import plan_of, remarks_of
from collc.msccl.running.run_plan import run_plan_file
from collc.ten.module import Module
from tests import support
from tests.msccl.lowering import COLLECTIVES, by_hand, direct_all_to_all, ring_all_reduce, scheduled


def option(value: object) -> OptionValue:
    return OptionValue("string", value, Span(SourceFile("f.coll", ""), 0, 0))


def assert_right(module: Module, folder: Path, options: MscclOptions) -> None:
    out = io.BytesIO()
    write_plan(fastest_plan(module, options), out)
    path = folder / "plan.json"
    path.write_bytes(out.getvalue())
    verdict = check_plan(path)
    assert set(verdict.checks.values()) == {"ok"}, [d.message for d in verdict.diagnostics]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "network",
    [support.ring(2), support.ring(8), support.grid(3, 3), support.fully_connected(4), support.dgx1()],
    ids=lambda n: f"{n.name}x{n.npu_count}",
)
def test_every_collective_is_right(collective, network, tmp_path):
    module = scheduled(network, collective(list(range(network.npu_count))))
    assert_right(module, tmp_path, MscclOptions())
    assert_right(module, tmp_path, MscclOptions(placement=Placement.IN))


def test_all_to_all_in_place_keeps_what_has_not_left(tmp_path):
    for chunks in (1, 2):
        assert_right(direct_all_to_all(4, chunks), tmp_path, MscclOptions(placement=Placement.IN))


@pytest.mark.parametrize("root", range(3))
@pytest.mark.parametrize("collective", [support.scatter, support.gather])
def test_rooted_collectives_in_place(collective, root, tmp_path):
    """What the root of a scatter sends lands in scratch: its output begins elsewhere in its allocation."""
    module = scheduled(support.ring(3), collective([0, 1, 2], root=root))
    assert_right(module, tmp_path, MscclOptions(placement=Placement.IN))
    assert all(report.ok for report in run_plan_file(tmp_path / "plan.json", root=root, runs=3))


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("placement", [Placement.OUT, Placement.IN])
def test_tensors_at_different_offsets(collective, placement, tmp_path):
    """All that another GPU reaches is scratch, which begins its allocation."""
    module = scheduled(support.grid(2, 2), collective([0, 1, 2, 3]))
    options = MscclOptions(placement=placement, same_offsets=False)
    assert_right(module, tmp_path, options)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert {remote["type"] for gpu in plan["gpus"] for remote in gpu["remote_buffers"]} == {"s"}
    assert all(report.ok for report in run_plan_file(tmp_path / "plan.json", runs=3))


def test_instances(tmp_path):
    assert_right(ring_all_reduce(4), tmp_path, MscclOptions(instances=2))


def fits(plan: dict) -> bool:
    """The limits of the runtime, counted here once more."""
    return all(
        len(gpu["semaphores"]) <= 16
        and all(len(tb["ops"]) <= 64 for tb in gpu["threadblocks"])
        and all(len(one["channel_ids"]) <= 16 for tb in gpu["threadblocks"] for one in tb["channels"])
        and all(len(one["remote_buffer_ids"]) <= 16 for tb in gpu["threadblocks"] for one in tb["remote_buffer_refs"])
        and all(len(op.get("channel_ids", ())) <= 8 for tb in gpu["threadblocks"] for op in tb["ops"])
        for gpu in plan["gpus"]
    )


def test_long_threadblocks_are_split(tmp_path):
    plan = plan_of(ring_all_reduce(16))
    assert {len(gpu["threadblocks"]) for gpu in plan["gpus"]} == {3}
    assert fits(plan)
    assert_right(ring_all_reduce(16), tmp_path, MscclOptions())


NETWORKS = {
    "mesh 4x4": lambda: support.grid(4, 4),
    "torus 4x4": lambda: support.grid(4, 4, wrap=True),
    "mesh 2x2x2": lambda: support.grid(2, 2, 2),
    "hypercube 4": lambda: support.hypercube(4),
    "fully connected 24": lambda: support.fully_connected(24),
    "ring 16": lambda: support.ring(16),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", NETWORKS)
def test_plans_of_usual_networks_fit(name, collective, tmp_path):
    network = NETWORKS[name]()
    module = scheduled(network, collective(list(range(network.npu_count))))
    for placement in (Placement.OUT, Placement.IN):
        assert_right(module, tmp_path, MscclOptions(placement=placement))
        assert fits(plan_of(module, MscclOptions(placement=placement)))


@pytest.mark.slow
@pytest.mark.parametrize("collective", [support.all_reduce, support.all_to_all], ids=lambda c: c.__name__)
@pytest.mark.parametrize("network", [support.grid(8, 8), support.fully_connected(64)], ids=["mesh 8x8", "fc 64"])
def test_plans_for_64_npus(network, collective, tmp_path):
    assert_right(scheduled(network, collective(list(range(64)))), tmp_path, MscclOptions())


@pytest.mark.parametrize("chunks", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_many_chunks_take_more_threadblocks(tmp_path, chunks):
    module = scheduled(support.grid(3, 3), support.all_reduce(list(range(9)), chunks=chunks))
    assert_right(module, tmp_path, MscclOptions())
    assert fits(plan_of(module))


def test_a_chunk_that_stays_together_needs_no_semaphores():
    plan = plan_of(scheduled(support.grid(4, 4), support.all_reduce(list(range(16)))))
    assert not any(gpu["semaphores"] for gpu in plan["gpus"])
    pairs = [(gpu["id"], peer) for gpu in plan["gpus"] for peer in gpu["channels"][0]["connected_to"]]
    assert all(pairs.count((a, b)) == pairs.count((b, a)) for a, b in pairs)


def test_a_gpu_may_have_many_semaphores(tmp_path):
    """300 GPUs add to one chunk: 19 threadblocks of 16 channels hand on the sum, with a semaphore for each hand. The
    runtime allocates as many as a plan declares (executor.cc), and takes 16 in one operation.
    """
    rows = [(0, rank, 0, rank) for rank in range(1, 300)]
    module = by_hand(support.fully_connected(300), support.reduce(list(range(300))), rows, reduce=True)
    assert {len(gpu["semaphores"]) for gpu in plan_of(module)["gpus"]} == {0, 18}
    assert_right(module, tmp_path, MscclOptions())


def test_the_first_of_two_operands_lands_where_the_sum_will_be():
    """In a ring nothing else is in scratch than one landing place for each sum that passes through."""
    module = scheduled(support.ring(8, one_way=True), support.reduce_scatter(list(range(8))))
    assert {gpu["scratch_chunks"] for gpu in plan_of(module)["gpus"]} == {6}
    inside = plan_of(module, MscclOptions(placement=Placement.IN))
    assert {gpu["scratch_chunks"] for gpu in inside["gpus"]} == {7}


def test_offsets_have_32_bits():
    module = scheduled(support.ring(4), support.all_reduce(list(range(4))))
    plan = plan_of(module)
    most = max(4, *(gpu["scratch_chunks"] for gpu in plan["gpus"]))
    assert plan["max_message_size"] == (2**32 - 1) * 4 // most
    small = plan_of(module, MscclOptions(sizes=(0, 1 << 20)))
    assert small["max_message_size"] == 1 << 20
    narrowed = MscclOptions(sizes=(0, 1 << 40))
    assert plan_of(module, narrowed)["max_message_size"] == plan["max_message_size"]
    assert "offsets have 32 bits" in remarks_of(plan_of(module, narrowed), narrowed)[-1]
    summed = scheduled(support.fully_connected(5), support.reduce([*range(5)]))  # 3 scratch chunks for 1 of the input
    assert plan_of(summed)["max_message_size"] == (2**32 - 1) // 3
    with pytest.raises(SourceError, match="bytes in its longest buffer"):
        plan_of(summed, MscclOptions(sizes=(2**31 - 1, None)))


def test_buffers_are_as_long_as_the_call_says_on_every_rank():
    plan = plan_of(scheduled(support.ring(4), support.gather(list(range(4)))))
    assert {(gpu["input_chunks"], gpu["output_chunks"]) for gpu in plan["gpus"]} == {(1, 4)}


def test_the_smallest_plan():
    module = scheduled(support.ring(2), support.broadcast([0, 1]))
    plan = plan_of(module, MscclOptions(placement=Placement.IN, sizes=(1024, 4096)))
    assert (plan["min_message_size"], plan["max_message_size"], plan["inplace"]) == (1024, 4096, True)
    ops = [[op["name"] for op in gpu["threadblocks"][0]["ops"]] for gpu in plan["gpus"]]
    assert ops == [["wait", "nop", "put", "nop", "signal"], ["signal", "wait", "nop"]]
    assert json.dumps(plan) == json.dumps(plan_of(module, MscclOptions(placement=Placement.IN, sizes=(1024, 4096))))


def test_a_file_has_an_operation_a_line():
    module = scheduled(support.grid(2, 2), support.all_reduce(list(range(4))))
    out = io.BytesIO()
    write_plan(fastest_plan(module, MscclOptions()), out)
    plan = plan_of(module)
    assert json.loads(out.getvalue()) == plan
    lines = out.getvalue().decode().splitlines()
    assert sum(line.startswith('     {"name": ') for line in lines) == sum(
        len(tb["ops"]) for gpu in plan["gpus"] for tb in gpu["threadblocks"]
    )
