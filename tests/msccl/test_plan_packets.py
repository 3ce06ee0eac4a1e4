"""Plans of packets (protocol LL): no signals, and every way of breaking what stands in their place is caught."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from collc.base.diagnostics import SourceError
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement, Protocol
from collc.msccl.plans.plan import plan_of, remarks_of
from collc.msccl.running.run_plan import run_plan_file
from collc.msccl.simulating import plan_tasks, sound_plan
from collc.simulation.engine import simulate
from collc.simulation.timing import ExactTiming
from tests import support
from tests.emulation.judge import judge_plan

from .hand_plans import buff, far, plan_file
from .hand_plans import gpu as gpu_by_hand
from .hand_plans import plan as plan_by_hand
from .lowering import COLLECTIVES, in_switch, linked_nodes, scheduled

LL = MscclOptions(protocol=Protocol.LL)


def names(plan):
    return Counter(op["name"] for gpu in plan["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"])


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("network", [support.ring(4), linked_nodes(2, 2)], ids=["ring", "nodes"])
def test_every_collective(tmp_path, collective, network):
    module = scheduled(network, collective([0, 1, 2, 3]))
    for placement in (Placement.OUT, Placement.IN):
        plan = plan_of(module, MscclOptions(protocol=Protocol.LL, placement=placement))
        assert (plan["protocol"], plan["use_double_scratch_buffer"]) == ("LL", True)
        assert not names(plan).keys() & {"put", "pws", "pwsf", "res"}
        path = plan_file(tmp_path, plan)
        verdict = check_plan(path)
        assert set(verdict.checks.values()) == {"ok"}, [d.message for d in verdict.diagnostics]
        assert all(report.ok for report in run_plan_file(path, runs=3))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_every_network_in_nodes_of_any_size(tmp_path, size):
    for network in (support.ring(8), support.grid(2, 4), support.hypercube(3), support.fully_connected(8)):
        for collective in COLLECTIVES:
            module = scheduled(network, collective(list(range(8))))
            for placement in (Placement.OUT, Placement.IN):
                options = MscclOptions(protocol=Protocol.LL, placement=placement, gpus_per_node=size)
                path = plan_file(tmp_path, plan_of(module, options))
                verdict = check_plan(path)
                assert set(verdict.checks.values()) == {"ok"}, (network.name, collective, [*verdict.diagnostics])
                assert all(report.ok for report in run_plan_file(path, seed=size))


def test_signals_only_where_no_data_comes_back():
    """In a broadcast nothing tells the root that its last but one packets were read."""
    everyone = plan_of(scheduled(support.ring(4), support.all_reduce([0, 1, 2, 3])), LL)
    assert not names(everyone).keys() & {"signal", "wait"}
    rooted = names(plan_of(scheduled(support.ring(4), support.broadcast([0, 1, 2, 3])), LL))
    assert rooted["signal"] == rooted["wait"] == 3


@pytest.mark.parametrize("collective", [support.scatter, support.broadcast, support.gather])
def test_two_buffers_begin_alike_on_all_gpus(tmp_path, collective):
    """A GPU writes to others behind the first half of its own scratch, also if nothing is sent to it."""
    plan = plan_of(scheduled(support.ring(4), collective([0, 1, 2, 3])), LL)
    assert len({gpu["scratch_chunks"] for gpu in plan["gpus"]}) == 1
    assert judge_plan(json.dumps(plan), root=0).kind == "right"
    more = max(plan["gpus"], key=lambda gpu: len(gpu["remote_buffers"]))
    more["scratch_chunks"] += 1
    verdict = check_plan(plan_file(tmp_path, plan))
    assert verdict.checks["contract"] == "failed"
    assert any("the second one begins" in finding.message for finding in verdict.findings)
    assert judge_plan(json.dumps(plan), root=0).kind != "right"


def test_a_port_reads_the_first_half(tmp_path):
    """A plain put from scratch over a port does not know which of two buffers is in use."""
    found = plan_of(scheduled(support.ring(3), support.all_gather([0, 1, 2])), MscclOptions(gpus_per_node=1))
    assert check_plan(plan_file(tmp_path, found)).ok
    found["use_double_scratch_buffer"] = True
    assert any("every other run" in finding.message for finding in check_plan(plan_file(tmp_path, found)).findings)
    assert judge_plan(json.dumps(found)).kind != "right"


def test_packets_are_for_small_messages():
    module = scheduled(support.ring(4), support.all_reduce([0, 1, 2, 3]))
    assert plan_of(module, LL)["max_message_size"] == 2 << 20
    assert "the plan serves up to 2MiB" in remarks_of(plan_of(module, LL), LL)[-1]
    larger = MscclOptions(protocol=Protocol.LL, sizes=(0, 2**40))
    plan = plan_of(module, larger)
    room = max(gpu["scratch_chunks"] for gpu in plan["gpus"])
    assert plan["max_message_size"] * room * 4 < 2**32 * plan["gpus"][0]["input_chunks"]


def test_packets_do_not_go_over_switches_that_add():
    with pytest.raises(SourceError, match="packets do not go over switches"):
        plan_of(in_switch(support.all_reduce([0, 1, 2])), LL)


def test_packets_take_twice_the_bytes(tmp_path):
    module = scheduled(support.ring(2), support.all_gather([0, 1]))
    times = []
    for options in (MscclOptions(), LL):
        plan, chunks = sound_plan(plan_file(tmp_path, plan_of(module, options)))
        times.append(simulate(module.network, plan_tasks(plan, chunks, module.network, 1 << 30), ExactTiming()).time)
    assert 1.9 < times[1] / times[0] < 2


def without_signals(plan, _ops):
    for gpu in plan["gpus"]:
        for tb in gpu["threadblocks"]:
            tb["ops"] = [op for op in tb["ops"] if op["name"] not in ("signal", "wait")]


def plain_on_packets(_plan, ops):
    """A chunk that is no packet lies where packets lie."""
    unpack = next(op for op in ops if op["name"] == "upkt")
    ops.insert(0, {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [dict(unpack["src_buff"][0])]})


@pytest.mark.parametrize(
    ("change", "check", "code"),
    [
        (lambda plan, ops: plan.update(protocol="Simple"), "contract", "X0417"),
        (lambda plan, ops: ops.append(next(op for op in ops if op["name"] in ("ppkt", "rppkt"))), "contract", "X0417"),
        (plain_on_packets, "contract", "X0417"),
        (lambda plan, ops: plan.update(use_double_scratch_buffer=False), "race", "X0414"),
        (without_signals, "race", "X0414"),
    ],
)
def test_what_packets_need(tmp_path, change, check, code):
    """A broadcast, in which nothing but signals tells that packets were read."""
    mutant = plan_of(scheduled(support.ring(4), support.broadcast([0, 1, 2, 3])), LL)
    blocks = [tb["ops"] for gpu in mutant["gpus"] for tb in gpu["threadblocks"]]
    change(mutant, next(ops for ops in blocks if {"rppkt", "upkt"} <= {op["name"] for op in ops}))
    verdict = check_plan(plan_file(tmp_path, mutant), root=0)
    assert code in {finding.code for finding in verdict.findings if finding.check == check}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ppkt", lambda op: op["src_buff"].append(dict(op["src_buff"][0]))),
        ("ppkt", lambda op: op["dst_buff"].__setitem__(0, {"type": "s", "index": 0, "size": 1})),
        ("ppkt", lambda op: op["src_buff"][0].update(size=2)),
        ("ppkt", lambda op: op.update(channel_type="port")),
        ("upkt", lambda op: op["src_buff"][0].update(type="i")),
        ("upkt", lambda op: op["src_buff"].append(dict(op["src_buff"][0]))),
        ("repkt", lambda op: op["src_buff"].pop()),
    ],
)
def test_what_no_kernel_does(tmp_path, name, change):
    mutant = plan_of(scheduled(support.ring(4), support.all_reduce([0, 1, 2, 3])), LL)
    ops = [op for gpu in mutant["gpus"] for tb in gpu["threadblocks"] for op in tb["ops"] if op["name"] == name]
    change(ops[0])
    verdict = check_plan(plan_file(tmp_path, mutant))
    assert verdict.checks["contract"] == "failed"
    assert {finding.code for finding in verdict.findings} <= {"X0403", "X0404", "X0405"}


def sum_in_place(stray=False):
    """An All-Reduce of two gpus in place: each adds up one chunk, and unpacks the other one over its own input in
    another threadblock. stray: whether a packet that nobody passes on is made of that input too.
    """
    gpus = []
    for rank in range(2):
        memory = {"channel_type": "memory"}
        first = [
            {"name": "ppkt", "src_buff": [buff("i", 1 - rank)], "dst_buff": [far(0, 0)], **memory},
            {
                "name": "respkt",
                "src_buff": [buff("i", rank), buff("s", 0)],
                "dst_buff": [buff("i", rank), far(0, 1)],
                **memory,
            },
        ]
        if stray:
            first.append({"name": "ppkt", "src_buff": [buff("i", 1 - rank)], "dst_buff": [far(0, 2)], **memory})
        second = [{"name": "upkt", "src_buff": [buff("s", 1)], "dst_buff": [buff("i", 1 - rank)]}]
        gpus.append(gpu_by_hand(rank, 2, (2, 2, 3), [first, second], ["s"]))
    more = {"protocol": "LL", "use_double_scratch_buffer": True}
    return plan_by_hand("allreduce", gpus, inplace=True) | more


def test_an_input_is_read_before_packets_made_of_it_are_unpacked_over_it(tmp_path):
    verdict = check_plan(plan_file(tmp_path, sum_in_place()))
    assert verdict.ok, verdict.diagnostics
    assert all(report.ok for report in run_plan_file(tmp_path / "plan.json", runs=5))


def test_packets_that_do_not_come_back_order_nothing(tmp_path):
    verdict = check_plan(plan_file(tmp_path, sum_in_place(stray=True)))
    assert "X0412" in {message.code for message in verdict.diagnostics}


@pytest.mark.parametrize(("targets", "races"), [((0,), False), ((0, 1), True), ((1, 0), True)])
def test_a_chunk_is_read_once_for_each_packet_that_is_put(tmp_path, targets, races):
    """Gpu 0 puts packets of its input to others; gpu 1 answers with a sum, which is unpacked over that input. The
    kernel reads the chunk again for each target (handlePutPackets), so that gpu 2 may get the sum.
    """
    memory = {"channel_type": "memory"}
    far_packets = [far(target, 0) for target in targets]
    puts = {"name": "ppkt", "src_buff": [buff("i", 0)] * len(targets), "dst_buff": far_packets, **memory}
    over_input = {"name": "upkt", "src_buff": [buff("s", 0)], "dst_buff": [buff("i", 0)]}
    added = {"src_buff": [buff("i", 0), buff("s", 0)], "dst_buff": [buff("o", 0), far(0, 0)]}
    unpacks = [{"name": "upkt", "src_buff": [buff("s", 0)], "dst_buff": [buff("o", 0)]}] if 1 in targets else []
    blocks = [[[puts], [over_input]], [[{"name": "respkt", **added, **memory}]], [unpacks]]
    gpus = [gpu_by_hand(rank, 3, (1, 1, 1), ops, ["s"]) for rank, ops in enumerate(blocks)]
    plan = plan_by_hand("custom", gpus) | {"protocol": "LL", "use_double_scratch_buffer": True}
    verdict = check_plan(plan_file(tmp_path, plan))
    assert ("X0412" in {message.code for message in verdict.diagnostics}) == races, verdict.diagnostics
