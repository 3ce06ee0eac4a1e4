"""What a demand expects of a custom file, whoever laid it out."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Settings
from collc.application.verify.file_verification import Expectation, verify_file
from collc.base.diagnostics import SourceError
from collc.msccl.check import ExpectedResult, WantedChunk, check_file, expected_of
from collc.msccl.check_plan import check_plan
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.plans.plan import plan_of
from collc.ten.demand import Op
from collc.ten.module import Module
from tests import support

from .lowering import scheduled, xml_of
from .programs import write

CHECKS = ("contract", "result", "deadlock", "race")


def groups() -> Module:
    """An All-to-All of NPUs 0 to 2 and a sum of 1 and 3 at 0, which runs on the NPUs that are left without 2."""
    rows = [(1000, [a], [b], Op.COPY) for a in (0, 1, 3) for b in (0, 1, 3)] + [(1000, [1, 3], [0], Op.SUM)]
    return scheduled(
        replace(support.fully_connected(4), present=np.arange(4) != 2), support.demand_of(rows, None, [0, 1, 3])
    )


@pytest.mark.parametrize("instances", [1, 3])
def test_what_a_demand_expects_of_a_custom_file(tmp_path, instances):
    module = groups()
    program = lower(module, MscclOptions(profile=Profile.OLD, instances=instances))
    expected = expected_of(module.network, module.demand, instances)
    good = xml_of(program).decode()
    path = write(tmp_path / "f.xml", good)
    assert check_file(path, profile="old", expected=expected).checks == dict.fromkeys(CHECKS, "ok")
    broken = 0
    for match in re.finditer(r'(type="(?:r|cpy|rrc)" .*dstoff=")(\d+)', good):
        other = int(match[2]) + 1 if int(match[2]) == 0 else int(match[2]) - 1
        write(path, good[: match.start()] + f"{match[1]}{other}" + good[match.end() :])
        broken += check_file(path, profile="old", expected=expected).checks["result"] == "failed"
    assert broken == len(re.findall(r'type="(?:r|cpy|rrc)"', good)) > 0


def test_buffers_too_small_for_a_custom_collective(tmp_path):
    module = groups()
    good = xml_of(lower(module, MscclOptions(profile=Profile.OLD))).decode()
    more = {**expected_of(module.network, module.demand).outputs, (0, 9): WantedChunk(frozenset({(1, 9)}))}
    verdict = check_file(write(tmp_path / "f.xml", good), profile="old", expected=ExpectedResult(more))
    assert {f.message for f in verdict.findings} == {
        "o_chunks is 4, too few for the collective",
        "i_chunks is 4, too few for the collective",
        "nchunksperloop is 4, but the longest buffer of the collective has 10 chunks",
    }
    more = {**expected_of(module.network, module.demand).outputs, (3, 0): WantedChunk(frozenset({(0, 0)}))}
    verdict = check_file(write(tmp_path / "f.xml", good), profile="old", expected=ExpectedResult(more))
    assert [f.message for f in verdict.findings] == ["ngpus is 3, but the collective has rank 3"]


def test_two_reduction_operators_are_no_single_call():
    rows = [(1000, [0, 1], [0], Op.SUM), (1000, [0, 1], [1], Op.MAX)]
    module = scheduled(support.ring(2), support.demand_of(rows, None, [0, 1]))
    with pytest.raises(SourceError, match="one reduction operator, and this schedule has sum and max"):
        lower(module, MscclOptions(profile=Profile.OLD))


PROGRAM = """
import std.topologies
import std.collectives
topology t = mesh2d(2, 3, bandwidth: 50GiB/s, latency: 0.5us)
group top = t.npu[0, *]
group bottom = t.npu[1, *]
schedule two on t {
    run all_gather(top, size: 3MiB)
    run all_reduce(bottom, size: 3MiB)
    emit msccl("two.xml", profile: "old", coll: "custom", instances: 2)
    emit mscclpp("two.json", coll: "custom", instances: 2)
}
schedule other on t {
    run all_gather(bottom, size: 3MiB)
    run all_reduce(top, size: 3MiB)
}
schedule whole on t {
    run broadcast(t.npus, size: 3MiB, root: 4)
    emit msccl("whole.xml")
    emit mscclpp("whole.json")
}
schedule otherwise on t {
    run broadcast(t.npus, size: 3MiB, root: 1)
}
"""


def test_files_against_the_schedules_of_a_program(tmp_path):
    program = tmp_path / "p.coll"
    program.write_text(PROGRAM)
    report = compile_program(program, Settings(output=tmp_path))
    assert all(set(schedule.checks.values()) == {"ok"} for schedule in report.schedules)

    def result(name: str, schedule: str) -> str:
        profile = "old" if name == "two.xml" else "executor"
        against = Expectation(program=program, schedule=schedule, profile=profile)
        return verify_file(tmp_path / name, against).checks["result"]

    for good in ("two.xml", "two.json"):
        assert result(good, "two") == "ok"
        assert result(good, "other") == "failed"
    for good in ("whole.xml", "whole.json"):
        assert result(good, "whole") == "ok"
        assert result(good, "otherwise") == "failed"


@pytest.mark.parametrize("instances", [1, 3])
def test_what_a_demand_expects_of_a_custom_plan(tmp_path, instances):
    module = groups()
    plan = plan_of(module, MscclOptions(instances=instances))
    assert plan["collective"] == "custom"
    expected = expected_of(module.network, module.demand, instances)
    path = tmp_path / "f.json"
    path.write_text(json.dumps(plan))
    assert check_plan(path, collective="custom", expected=expected).checks == dict.fromkeys(CHECKS, "ok")
    more = {**expected.outputs, (0, 9 * instances): WantedChunk(frozenset({(1, 0)}))}
    verdict = check_plan(path, collective="custom", expected=ExpectedResult(more))
    assert [f.message for f in verdict.findings] == [
        f"the longest buffer has {4 * instances} chunks, but the collective has {9 * instances + 1} chunks",
        f"output chunk {9 * instances} of rank 0 ends with undefined data",
    ]
    verdict = check_plan(path, collective="custom", expected=ExpectedResult({(3, 0): WantedChunk(frozenset({(0, 0)}))}))
    assert verdict.checks["contract"] == "failed"
    assert verdict.findings[0].message == "the plan has 3 gpus, but the collective has rank 3"
    with pytest.raises(SourceError, match="a custom collective has no in-place form"):
        plan_of(module, MscclOptions(placement=Placement.IN))
