"""The choice between direct links in place of switches and the switches themselves, if only a plan is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collc.application.compile.compilation import build_schedule
from collc.application.compile.planning import BuildInput
from collc.application.emit import file_times
from collc.application.emit.file_times import faster_plan, fastest_plan
from collc.application.program_files import load_files, read_program
from collc.application.settings import Settings
from collc.msccl.options import MscclOptions
from collc.msccl.simulating import plan_time
from collc.passes.registry import PassContext
from collc.source.program import ScheduleRequest
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.transform import unwound
from tests import support
from tests.msccl.lowering import in_switch, scheduled

PROGRAM = """
import std.collectives
topology pod {
    npu gpu[2, 4]
    switch nvswitch[2] (multicast: true, reduce: true)
    switch rail[4]
    for n in 0..2, i in 0..4 {
        link gpu[n, i] <-> nvswitch[n] (bandwidth: 450GB/s, latency: 0.35us)
        link gpu[n, i] <-> rail[i] (bandwidth: 50GB/s, latency: 2us)
    }
}
schedule s on pod { run all_gather(pod.npus, size: 64MiB) emit mscclpp("s.json") }
"""

OPTIONS = MscclOptions(gpus_per_node=4)


def built(request: ScheduleRequest, *kinds: str) -> Module:
    settings = Settings(planned_for=kinds, keep_modules=True)
    return build_schedule(BuildInput(replace(request, emits=()), settings)).kept_module()


def time_of(module: Module, network: Network) -> int:
    return plan_time(fastest_plan(module, OPTIONS), replace(module, network=network))


@pytest.fixture
def request_of(tmp_path: Path) -> ScheduleRequest:
    file = tmp_path / "p.coll"
    file.write_text(PROGRAM)
    return load_files(read_program(file).files, {}, None, None).schedules[0]


@pytest.mark.slow
def test_a_plan_over_switches_is_taken_where_it_is_faster(request_of: ScheduleRequest) -> None:
    """Direct links promise less than what the plan takes over the switches that they stand for."""
    network = request_of.network
    direct, chosen = built(request_of, "msccl", "mscclpp"), built(request_of, "mscclpp")
    assert direct.network.unwound
    assert not chosen.network.unwound
    assert direct.collective_time() < chosen.collective_time()
    assert time_of(chosen, network) < time_of(direct, network)
    (note,) = [note for note in chosen.notes if "over the switches" in note]
    assert note.endswith(f"chose {chosen.algorithm}")


@pytest.mark.parametrize("faster", ["direct", "switches"])
def test_the_faster_plan_is_taken(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is repeated without direct links, and only if the first one took these."""
    demand = support.all_gather(list(range(4)))
    switched = in_switch(demand)
    network = switched.network
    direct = scheduled(unwound(network), demand)
    asked: list[bool] = []

    def again(context: PassContext) -> Module:
        asked.append(context.effort.unwinds)
        return switched

    def time(module: Module, on: Network, _options: MscclOptions) -> int:
        assert on is network
        return 1 if (module is direct) == (faster == "direct") else 2

    monkeypatch.setattr(file_times, "_time", time)
    chosen = faster_plan(direct, network, OPTIONS, again, PassContext())
    assert chosen.network is (direct if faster == "direct" else switched).network
    assert asked == [False]
    assert faster_plan(switched, network, OPTIONS, again, PassContext()) is switched
    assert asked == [False]
