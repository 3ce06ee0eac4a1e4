"""Runs of plans on data: good ones are right at any speed of their threadblocks, broken ones are found out."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from collc.base.diagnostics import CheckFailed, UsageError
from collc.command.cli import main
from collc.msccl.check_plan import check_plan
from collc.msccl.options import MscclOptions, Placement, Protocol
from collc.msccl.plans.plan import plan_of
from collc.msccl.running.data import DTYPES
from collc.msccl.running.run_plan import run_plan_file
from collc.runtime.data import Memory, Queues, StepData
from collc.runtime.replay import Interpreter
from tests import support

from . import hand_plans as by_hand
from .lowering import COLLECTIVES, in_switch, ring_all_reduce, scheduled
from .test_plan_buffers import COUNTS


@pytest.mark.parametrize("name", by_hand.GOOD)
@pytest.mark.usefixtures("one_process")
def test_good_plans_by_hand(tmp_path, name):
    path = by_hand.plan_file(tmp_path, by_hand.GOOD[name]())
    reports = run_plan_file(path, dtype="int32", runs=20)
    assert all(report.ok for report in (*reports, *run_plan_file(path, dtype="int32", transport="tcp")))
    assert len({report.seed for report in reports}) == 20


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("network", [support.ring(2), support.grid(2, 3), support.dgx1()], ids=lambda n: n.name)
@pytest.mark.usefixtures("one_process")
def test_every_collective_runs(tmp_path, collective, network):
    path = by_hand.plan_file(tmp_path, plan_of(scheduled(network, collective(list(range(network.npu_count))))))
    reports = run_plan_file(path, runs=2, dtype="float64") + run_plan_file(path, dtype="float64", transport="tcp")
    assert all(report.ok and report.error < 1e-12 for report in reports)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(tmp_path, dtype):
    path = by_hand.plan_file(tmp_path, plan_of(ring_all_reduce(3)))
    assert all(report.ok for report in run_plan_file(path, dtype=dtype, count=256))


def test_other_reductions_than_sums_are_refused(tmp_path, capsys):
    """The runtime adds, whatever the operation of a call is: that a run computes the maximum would not be true."""
    path = by_hand.plan_file(tmp_path, by_hand.all_reduce(3))
    assert main(["run", str(path), "--op", "max"]) == 2
    assert "error[X0207]: MSCCL++ always adds, whatever the operation of a call" in capsys.readouterr().err
    assert run_plan_file(path, op="sum")[0].ok
    assert run_plan_file(by_hand.plan_file(tmp_path, by_hand.all_gather(3)), op="max")[0].ok


def test_the_same_seed_is_the_same_run(tmp_path):
    path = by_hand.plan_file(tmp_path, by_hand.all_reduce(3))
    assert run_plan_file(path, seed=5) == run_plan_file(path, seed=5)


def test_a_gpu_without_operations(tmp_path):
    plan = by_hand.all_gather(3)
    for gpu in plan["gpus"]:
        gpu["threadblocks"] = []
    (report,) = run_plan_file(by_hand.plan_file(tmp_path, plan))
    assert not report.hung
    assert {wrong.rank for wrong in report.wrong} <= {0, 1, 2}
    assert not report.ok


def test_a_hang_is_named(tmp_path):
    plan = by_hand.all_gather(2)
    by_hand.ops(plan, 1).pop(6)
    path = by_hand.plan_file(tmp_path, plan)
    for report in (*run_plan_file(path), *run_plan_file(path, transport="tcp")):
        assert report.hung[0] in {(0, 0, 1), (0, 0, 7)}
        assert not report.ok


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: by_hand.ops(plan).pop(5),
        lambda plan: [by_hand.ops(plan, rank).__delitem__(slice(0, 3)) for rank in range(3)],
        lambda plan: by_hand.ops(plan)[4]["dst_buff"][0].update(index=2),
    ],
    ids=["no nop before the signal", "no credits", "another place"],
)
def test_races_show_at_some_speed(tmp_path, change):
    plan = by_hand.all_gather(3)
    change(plan)
    path = by_hand.plan_file(tmp_path, plan)
    assert not check_plan(path).ok
    assert not all(report.ok for report in run_plan_file(path, runs=60))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
        ({"op": "xor"}, "unknown op 'xor'"),
        ({"count": 5}, "a count of 5 cannot be cut into the chunks of this file"),
        ({"collective": "custom"}, "is not known"),
        ({"collective": "broadcast", "root": 9}, "root 9 is not a rank"),
        ({"count": 3 * 2**40}, "the buffers of all ranks would take"),
        ({"transport": "threads"}, "plans run in one thread, in a random order, or over TCP"),
    ],
)
def test_what_cannot_be_run(tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        run_plan_file(by_hand.plan_file(tmp_path, by_hand.all_reduce(3)), **settings)


def test_broken_files_are_not_run(tmp_path):
    with pytest.raises(CheckFailed):
        run_plan_file(by_hand.plan_file(tmp_path, "{"))
    with pytest.raises(UsageError, match="cannot read"):
        run_plan_file(tmp_path / "none.json")


def test_the_command_runs_plans(tmp_path, capsys):
    path = by_hand.plan_file(tmp_path, by_hand.all_reduce(3))
    assert main(["run", str(path), "--runs", "2", "--json"]) == 0
    assert [run["ok"] for run in json.loads(capsys.readouterr().out)["runs"]] == [True, True]
    plan = by_hand.all_reduce(3)
    by_hand.ops(plan, 1).pop(0)
    assert main(["run", str(by_hand.plan_file(tmp_path, plan))]) != 0
    assert "wrong: rank" in capsys.readouterr().out


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_other_buffers_are_refused(tmp_path, name):
    with pytest.raises(CheckFailed) as error:
        run_plan_file(by_hand.plan_file(tmp_path, COUNTS[name]))
    assert {one.code for one in error.value.diagnostics} == {"X0402"}


def run_in_memory(program, data, merge, capacity):
    """The program of a plan in a random order of events, as `run_over_tcp` runs it with processes."""
    for rank in range(program.ranks):
        data.fill_input(0, rank)
    operands = program.operands(inplace=data.call.inplace)
    steps = StepData(operands, Memory(data.memory, np.add), Queues(len(program.connections)))

    def move(step, _first, _count):
        steps.move(step, 0, operands.count[step])

    assert max(operands.count, default=1) <= merge
    interpreter = Interpreter(program.waits, [1] * len(operands.count), capacity, move)
    assert interpreter.run(random.Random(data.seed)) == []
    for rank in range(program.ranks):
        data.compare_output(0, rank)
    return data.report(interpreter.sent, [])


@pytest.fixture
def one_process(monkeypatch):
    monkeypatch.setattr("collc.msccl.running.over_tcp.run_over_tcp", run_in_memory)


@pytest.mark.parametrize("protocol", [Protocol.SIMPLE, Protocol.LL])
@pytest.mark.parametrize("placement", [Placement.IN, Placement.OUT])
@pytest.mark.usefixtures("one_process")
def test_accesses_to_other_gpus_as_messages(tmp_path, protocol, placement):
    """Of packets, switches and shared buffers."""
    options = MscclOptions(protocol=protocol, placement=placement)
    sums = support.all_reduce(list(range(4)))
    for module in (scheduled(support.ring(4), sums), *[in_switch(sums)] * (protocol is Protocol.SIMPLE)):
        path = by_hand.plan_file(tmp_path, plan_of(module, options))
        reports = run_plan_file(path, dtype="int32", transport="tcp", runs=3)
        assert all(report.ok and report.messages for report in reports)


def test_a_process_for_each_rank(tmp_path):
    path = by_hand.plan_file(tmp_path, by_hand.by_semaphore())
    (report,) = run_plan_file(path, transport="tcp")
    assert report.ok
    assert report.messages == 2
