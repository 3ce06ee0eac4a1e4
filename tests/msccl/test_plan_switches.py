"""Plans over switches that add and multicast (NVLS): what they do, what they cannot, and every break is caught."""

from __future__ import annotations

import io
import json
from collections import Counter

import pytest

from collc.application.emit.file_times import fastest_plan
from collc.base.diagnostics import SourceError
from collc.command.cli import main
from collc.emit.msccl import write_plan
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement
from collc.msccl.plans.plan import plan_of, plans_of, remarks_of
from collc.msccl.plans.switches import has_plan
from collc.msccl.running.run_plan import run_plan_file
from collc.msccl.simulating import plan_tasks, plan_time, sound_plan
from collc.simulation.engine import simulate
from collc.simulation.timing import ExactTiming
from tests import support

from .hand_plans import multicast, ops, plan_file
from .lowering import in_switch, scheduled, switch_nodes

BOTH = (Placement.OUT, Placement.IN)


def names(plan):
    return Counter(op["name"] for gpu in plan["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"])


def errors(verdict):
    return [(finding.check, finding.code) for finding in verdict.findings if not finding.warning]


def assert_right(tmp_path, plan):
    path = plan_file(tmp_path, plan)
    verdict = check_plan(path)
    assert set(verdict.checks.values()) == {"ok"}, [d.message for d in verdict.diagnostics]
    assert all(report.ok for report in run_plan_file(path, runs=3))


@pytest.mark.parametrize("placement", BOTH)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_node_adds_and_stores_in_its_switch(tmp_path, size, placement):
    plan = plan_of(in_switch(support.all_reduce(list(range(size)))), MscclOptions(placement=placement))
    assert set(names(plan)) == {"signal", "wait", "nop", "glres"}
    assert names(plan)["glres"] == size
    groups = [one for gpu in plan["gpus"] for one in gpu["channels"] if one["channel_type"] == "switch"]
    assert {one["buffer_type"] for one in groups} == ({"i", "o"} if placement is Placement.OUT else {"o"})
    assert_right(tmp_path, plan)


@pytest.mark.parametrize("placement", BOTH)
@pytest.mark.parametrize("collective", [support.all_gather, support.broadcast], ids=lambda c: c.__name__)
def test_a_node_stores_to_all_over_its_switch(tmp_path, collective, placement):
    plan = plan_of(in_switch(collective(list(range(4)), chunks=2)), MscclOptions(placement=placement))
    assert set(names(plan)) <= {"signal", "wait", "nop", "gstore", "copy"}
    assert names(plan)["gstore"] == (8 if collective is support.all_gather else 2)
    assert_right(tmp_path, plan)


@pytest.mark.parametrize("placement", BOTH)
def test_nodes_add_inside_and_exchange_sums_between_them(tmp_path, placement):
    """Sums of a node are stored in the scratch of two of its GPUs, since none can be loaded for one of them alone."""
    module = in_switch(support.all_reduce(list(range(8)), chunks=2), 2)
    for instances in (1, 2):
        plan = plan_of(module, MscclOptions(placement=placement, instances=instances))
        found = names(plan)
        assert found["glres"] == found["gstore"] == 32 * instances
        assert found["pws"] == 32 * instances
        assert not found["put"]
        assert all(len(ranks) == 2 for ranks in stored_in_scratch(plan))
        assert_right(tmp_path, plan)


def stored_in_scratch(plan):
    """The ranks of the switch channels over which sums are stored in scratch."""
    for gpu in plan["gpus"]:
        channels = [one for one in gpu["channels"] if one["channel_type"] == "switch"]
        for tb in gpu["threadblocks"]:
            ids = [k for one in tb["channels"] if one["channel_type"] == "switch" for k in one["channel_ids"]]
            for op in tb["ops"]:
                if op["name"] == "glres":
                    channel = channels[ids[op["dst_buff"][0]["switch_channel_id"]]]
                    if channel["buffer_type"] == "s":
                        yield channel["rank_groups"][0]["ranks"]


@pytest.mark.parametrize("size", [3, 5])
def test_neighbours_in_nodes_of_odd_size(tmp_path, size):
    """The last GPU of a node shares a channel with the one before it, which has one with the one before that too."""
    module = in_switch(support.all_reduce(list(range(2 * size))), 2)
    plan = plan_of(module, MscclOptions(gpus_per_node=size))
    assert_right(tmp_path, plan)
    pairs = {tuple(ranks) for ranks in stored_in_scratch(plan)}
    assert (size - 2, size - 1) in pairs


@pytest.mark.sampled(2)
@pytest.mark.parametrize("placement", BOTH)
def test_partial_sums_in_turn_keep_the_schedule(tmp_path, placement):
    """Otherwise all of them begin at once, and the totals wait behind them for the links to the switch."""
    module = in_switch(support.all_reduce(list(range(6)), chunks=4), 2)
    options = MscclOptions(gpus_per_node=3, placement=placement)
    few, many, first = plans_of(module, options)
    times = [plan_time(plan, module) for plan in (few, many, first)]
    assert module.schedule is not None
    taken = module.schedule.collective_time(module.network, module.demand)
    assert min(times[:2]) > 1.07 * taken
    assert times[2] < 1.02 * taken
    assert_right(tmp_path, first)
    out = io.BytesIO()
    write_plan(fastest_plan(module, options), out)
    assert json.loads(out.getvalue()) == first
    assert len(blocks_with_sums(first["gpus"][0])) == 1


def blocks_with_sums(gpu):
    """The threadblocks that store sums to two GPUs."""
    groups = [one["rank_groups"][0]["ranks"] for one in gpu["channels"] if one["channel_type"] == "switch"]
    found = []
    for tb in gpu["threadblocks"]:
        ids = [k for one in tb["channels"] if one["channel_type"] == "switch" for k in one["channel_ids"]]
        stored = [op["dst_buff"][0]["switch_channel_id"] for op in tb["ops"] if op["name"] == "glres"]
        if any(len(groups[ids[channel]]) == 2 for channel in stored):
            found.append(tb)
    return found


def test_more_partial_sums_than_a_threadblock_holds():
    """Ten of a GPU are in two threadblocks: a threadblock has 64 operations."""
    module = in_switch(support.all_reduce(list(range(6)), chunks=5), 2)
    plans = list(plans_of(module, MscclOptions(gpus_per_node=3)))
    assert [len(blocks_with_sums(plan["gpus"][0])) for plan in plans[2:]] == [2]


def test_a_sum_for_one_gpu_alone_has_no_operation():
    module = in_switch(support.reduce_scatter(list(range(4))))
    with pytest.raises(SourceError, match=r"a switch adds chunk .* for npu\[\d\] alone") as caught:
        plan_of(module)
    assert caught.value.diagnostics[0].code == "M0118"


def test_a_switch_joins_gpus_of_one_node():
    with pytest.raises(SourceError, match="joins GPUs of several nodes") as caught:
        plan_of(in_switch(support.all_reduce([0, 1, 2, 3])), MscclOptions(gpus_per_node=2))
    assert caught.value.diagnostics[0].code == "M0117"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("placement", BOTH)
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "broadcast"])
def test_more_gpus_than_a_threadblock_signals(tmp_path, collective, placement):
    """One threadblock of a GPU adds and stores, two others signal and await nine or eight GPUs each."""
    module = in_switch(getattr(support, collective)(list(range(18)), chunks=2))
    options = MscclOptions(placement=placement, instances=2 if collective == "all_reduce" else 1)
    plan = plan_of(module, options)
    assert_right(tmp_path, plan)
    for gpu in plan["gpus"]:
        stores = [any(op["name"] in ("glres", "gstore") for op in tb["ops"]) for tb in gpu["threadblocks"]]
        assert stores.count(True) <= options.instances
        signals = [len(one["channel_ids"]) for tb in gpu["threadblocks"] for one in tb["channels"]]
        assert max(signals) <= 16
    assert module.schedule is not None
    assert plan_time(plan, module, options.instances) <= 1.05 * module.schedule.collective_time(
        module.network, module.demand
    )


@pytest.mark.slow
def test_a_switch_of_72_gpus(tmp_path):
    for demand in (support.all_reduce(list(range(72)), chunks=2), support.all_gather(list(range(72)))):
        plan = plan_of(in_switch(demand))
        assert {len(gpu["threadblocks"]) for gpu in plan["gpus"]} == {6}
        assert {len(gpu["semaphores"]) for gpu in plan["gpus"]} == {10}
        assert_right(tmp_path, plan)


def test_the_gpus_of_a_switch_are_limited():
    """By operations of a threadblock."""
    assert names(plan_of(in_switch(support.all_reduce(list(range(17))))))["glres"] == 17
    module = in_switch(support.all_reduce(list(range(18)), chunks=7))
    with pytest.raises(SourceError, match=r"the MSCCL\+\+ plan has 18 GPUs of one switch channel") as caught:
        plan_of(module)
    assert caught.value.diagnostics[0].code == "M0111"
    assert not has_plan(module, MscclOptions())


def test_a_report_says_where_switches_add_nothing():
    network = switch_nodes(1, 4)
    plan = plan_of(scheduled(support.fully_connected(4), support.reduce_scatter([0, 1, 2, 3])))
    assert "for one GPU alone: in this plan switches add nothing" in remarks_of(plan, MscclOptions(), network)[-2]


PROGRAM = """
import std.collectives
import std.algorithms
topology nvlink {
    npu gpu[4]
    switch nvswitch (multicast: true, reduce: true)
    for i in 0..4 { link gpu[i] <-> nvswitch (bandwidth: 450GB/s, latency: 0.35us) }
}
schedule sum on nvlink { run all_reduce(nvlink.npus, size: 64MiB) emit mscclpp("sum.json") }
schedule part on nvlink { run reduce_scatter(nvlink.npus, size: 64MiB) using pairwise emit mscclpp("part.json") }
schedule both on nvlink { run all_reduce(nvlink.npus, size: 64MiB) emit mscclpp("both.json") emit msccl("both.xml") }
"""


def test_programs_use_switches_where_only_plans_are_plan_file(tmp_path, capsys):
    file = tmp_path / "p.coll"
    file.write_text(PROGRAM)
    assert main(["compile", str(file), "-o", str(tmp_path)]) == 0
    assert "switches add nothing" in capsys.readouterr().err
    found = {name: names(json.loads((tmp_path / f"{name}.json").read_text())) for name in ("sum", "part", "both")}
    assert [bool(found[name]["glres"]) for name in ("sum", "part", "both")] == [True, False, False]


def test_the_simulator_multicasts(tmp_path):
    """A plan takes as long as its schedule, or less: its operations begin at once, and the switch puts them in turn."""
    for demand in (support.all_reduce(list(range(8))), support.all_gather(list(range(8)))):
        module = in_switch(demand)
        plan, chunks = sound_plan(plan_file(tmp_path, plan_of(module)))
        time = simulate(module.network, plan_tasks(plan, chunks, module.network, 8 << 20), ExactTiming()).time
        assert module.schedule is not None
        assert time <= 1.001 * module.schedule.collective_time(module.network, module.demand)


def changed(change):
    found = multicast()
    change(found["gpus"][0], ops(found)[3])
    return found


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda gpu, op: op.update(name="glre"), "X0404"),
        (lambda gpu, op: op.update(name="put"), "X0404"),
        (lambda gpu, op: op.update(channel_type="memory"), "X0404"),
        (lambda gpu, op: op["dst_buff"].append(op["dst_buff"][0]), "X0404"),
        (lambda gpu, op: op["dst_buff"][0].update(size=2), "X0404"),
        (lambda gpu, op: op["dst_buff"][0].update(index=3), "X0405"),
        (lambda gpu, op: op["dst_buff"][0].update(switch_channel_id=1), "X0403"),
        (lambda gpu, op: gpu["channels"][1].update(buffer_type="x"), "X0402"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0].update(ranks=[1, 2, 3]), "X0403"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0].update(ranks=[1, 2]), "X0403"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0].pop("size"), "X0402"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0].update(size=9), "X0402"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0].update(size=2, ranks=[0, 1]), "X0403"),
        (lambda gpu, op: gpu["channels"][1]["rank_groups"][0]["ranks"].reverse(), "X0403"),
        (lambda gpu, op: gpu["channels"][1].update(buffer_type="i"), "X0403"),
        (lambda gpu, op: gpu["threadblocks"][0]["channels"][1].update(channel_ids=[1]), "X0403"),
        (lambda gpu, op: gpu["threadblocks"][0]["channels"][1].update(channel_ids=[0] * 17), "X0406"),
    ],
)
def test_what_no_loader_takes(tmp_path, change, code):
    assert (("contract", code)) in errors(check_plan(plan_file(tmp_path, changed(change))))
