"""MSCCL++ plans and MSCCL files as tasks of the simulator."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from collc.base.diagnostics import CheckFailed
from collc.emit.msccl import write_xml
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import quality
from collc.msccl.options import MscclOptions
from collc.msccl.simulating import file_tasks, plan_tasks, sound_plan, sound_program
from collc.simulation.engine import simulate
from collc.simulation.timing import ExactTiming
from collc.synthesis.endpoints import limited_schedule
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort
from collc.ten.endpoint import Endpoint
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from tests.endpoints import limited
from tests.msccl.hand_plans import all_gather, by_port, by_semaphore, ops, put_and_signal, read_reduce
from tests.msccl.programs import direct_gather, write
from tests.support import MiB, all_reduce, all_to_all, dgx1, fully_connected, grid
from tests.support import all_gather as gather

BUSY = 19_531_250
LATENCY = 500_000


def time_of(plan, tmp_path, size=None):
    """The simulated time of a plan over links of 50 GiB/s and 0.5 us; chunks of 1 MiB if no size is given."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    found, chunks = sound_plan(path)
    net = fully_connected(len(found.chunks))
    return simulate(net, plan_tasks(found, chunks, net, size or chunks * MiB), ExactTiming()).time


@pytest.mark.parametrize("kind", ["memory", "port"])
def test_puts_between_signals(kind, tmp_path):
    """A signal, then a chunk and a signal right behind it."""
    assert time_of(all_gather(3, kind), tmp_path) == LATENCY + BUSY + LATENCY
    assert time_of(all_gather(3, kind), tmp_path, 6 * MiB) == LATENCY + 2 * BUSY + LATENCY


def test_puts_that_signal_and_flush(tmp_path):
    """The flush delays nothing that others wait for."""
    assert time_of(put_and_signal("pwsf"), tmp_path) == LATENCY + BUSY + LATENCY


@pytest.mark.parametrize("make", [read_reduce, by_semaphore, by_port], ids=lambda make: make.__name__)
def test_other_operations_end(make, tmp_path):
    """Reads of other GPUs, semaphores, barriers and flushes: at least one chunk crosses a link."""
    assert time_of(make(), tmp_path) >= BUSY + LATENCY


def test_plans_that_cannot_be_simulated(tmp_path):
    broken = all_gather(2)
    ops(broken)[-1]["name"] = "signal"
    with pytest.raises(CheckFailed):
        time_of(broken, tmp_path)


def test_a_send_that_nothing_receives(tmp_path):
    """The simulator would take the message of another connection in its place."""
    file = direct_gather(3)
    tb = next(tb for gpu in file.gpus for tb in gpu.tbs if any(step["type"] == "r" for step in tb.steps))
    tb.steps.clear()
    with pytest.raises(CheckFailed, match="no step of the peer receives it"):
        sound_program(write(tmp_path / "x.xml", file), "executor")


def test_a_file_that_hangs(tmp_path):
    """Two GPUs that both receive first."""
    step = (
        '<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
    )
    gpus = "".join(
        f'  <gpu id="{g}" i_chunks="1" o_chunks="1" s_chunks="0">\n'
        f'    <tb id="0" send="{1 - g}" recv="{1 - g}" chan="0">\n'
        f"      {step.format(0, 'r')}\n      {step.format(1, 's')}\n    </tb>\n  </gpu>\n"
        for g in range(2)
    )
    head = (
        '<algo name="x" nchunksperloop="1" nchannels="1" ngpus="2" proto="Simple" coll="allreduce" inplace="0"'
        ' outofplace="1" minBytes="0" maxBytes="0">\n'
    )
    (tmp_path / "x.xml").write_text(f"{head}{gpus}</algo>\n")
    with pytest.raises(CheckFailed) as caught:
        sound_program(tmp_path / "x.xml", "executor")
    assert any("wait" in message.message for message in caught.value.diagnostics)


LIMITS = Endpoint(Fraction(60 * 10**9), Fraction(55 * 10**9))


@pytest.mark.parametrize(
    ("network", "collective", "model", "instances"),
    [
        (dgx1(), all_reduce, LinkModel.PIPELINED, 1),
        (dgx1(), gather, LinkModel.STORE, 1),
        (grid(3, 3), all_to_all, LinkModel.STORE, 2),
        (limited(fully_connected(4), LIMITS), all_reduce, LinkModel.PIPELINED, 1),
        (limited(grid(2, 3), LIMITS), all_to_all, LinkModel.STORE, 1),
    ],
    ids=["dgx1", "dgx1 store", "instances", "limits", "limits store"],
)
def test_the_report_and_the_simulation_of_a_file_agree(network, collective, model, instances, tmp_path):
    """`simulated` in the report of `compile` is what `collc simulate` finds of the file that was written."""

    def solved(module):
        return join(solve(module, lambda task: tacos(task, Effort())))

    module = limited_schedule(Module("case", network, collective([*range(network.npu_count)], chunks=2), model), solved)
    program = lower(module, MscclOptions(instances=instances))
    with (tmp_path / "x.xml").open("wb") as file:
        write_xml(program, file)
    found = sound_program(tmp_path / "x.xml", "executor")
    size = found.nchunksperloop * MiB // instances
    again = simulate(network, file_tasks(found, network, size), ExactTiming(model))
    assert quality(program, module).replay == again.time
