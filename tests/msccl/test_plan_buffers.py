"""The check of MSCCL++ plans: chunks of buffers, roots, sizes of calls and parts of one operation."""

from __future__ import annotations

import json

import pytest

from collc.base.diagnostics import CheckFailed
from collc.msccl.check import ExpectedResult, WantedChunk
from collc.msccl.check_plan import check_plan
from collc.msccl.running.run_plan import run_plan_file

from .hand_plans import all_gather, buff, far, gpu, ops, plan, puts_of_a_scatter, puts_to_inputs


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return check_plan(path)


def copied(coll, chunks, inplace=False):
    """One gpu with (input, output) chunks that copies as many as both have."""
    size = min(chunks)
    copies = [{"name": "copy", "src_buff": [buff("i", 0, size)], "dst_buff": [buff("o", 0, size)]}] if size else []
    return plan(coll, [gpu(0, 1, (*chunks, 0), [copies], [])], inplace)


COUNTS = {
    "longer output": copied("allreduce", (2, 4)),
    "shorter output": copied("allreduce", (4, 2)),
    "longer broadcast": copied("broadcast", (1, 3)),
    "shorter broadcast": copied("broadcast", (3, 1)),
    "a longer output in place": copied("allreduce", (1, 4), inplace=True),
    "no chunks": copied("allreduce", (0, 0), inplace=True),
    "no input": copied("allreduce", (0, 2)),
    "no output": copied("allreduce", (2, 0)),
    "no root of broadcast": copied("broadcast", (0, 2)),
    "no root of gather": copied("gather", (2, 0), inplace=True),
    "parts of a chunk": plan("alltoall", [gpu(rank, 2, (3, 3, 0), [], []) for rank in range(2)], inplace=True),
    "nothing to share": plan("allgather", [gpu(rank, 2, (0, 1, 0), [], []) for rank in range(2)], inplace=True),
    "gpus that differ": plan("gather", [gpu(rank, 2, (2 - rank, 4, 0), [], []) for rank in range(2)], inplace=True),
    "a root that differs": plan("gather", [gpu(rank, 2, (2, 4 - rank, 0), [], []) for rank in range(2)]),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_chunks_are_those_of_the_collective(tmp_path, name):
    verdict = check(tmp_path, COUNTS[name])
    assert {finding.code for finding in verdict.findings if not finding.warning} == {"X0402"}
    assert verdict.checks["result"] == "skipped"


@pytest.mark.parametrize(("chunks", "right"), [((2, 2), True), ((2, 0), False), ((0, 2), False)])
@pytest.mark.parametrize("coll", ["allreduce", "broadcast", "reduce", "reducescatter", "allgather", "alltoall"])
def test_the_runtime_divides_by_the_chunks_of_both_buffers(tmp_path, coll, chunks, right):
    """In place too, if input and output are one buffer."""
    verdict = check(tmp_path, plan(coll, [gpu(0, 1, (*chunks, 0), [], [])], inplace=True))
    assert verdict.ok is right
    assert right or "the runtime divides by it" in verdict.findings[0].message


def two_puts(sources, slots):
    """Both gpus put two chunks of a buffer to each other in one operation: chunk sources[k] to slot slots[k]."""
    channels = {"channel_type": "memory", "channel_ids": [0]}
    gpus = []
    for rank in range(2):
        copy = {"name": "copy", "src_buff": [buff("i", 0, 2)], "dst_buff": [buff("o", 2 * rank, 2)]}
        meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        at = [far(0, 2 * rank + k) for k in slots]
        put = {"name": "put", "src_buff": [buff("i", k) for k in sources], "dst_buff": at, **channels}
        last = {"name": "put", "src_buff": [buff("i", 0, 2)], "dst_buff": [far(0, 2 * rank, 2)], **channels}
        gpus.append(gpu(rank, 2, (2, 4, 0), [[copy, *meet, put, {"name": "nop"}, last, {"name": "nop"}, *meet]], ["o"]))
    return plan("allgather", gpus)


def shifted(source, target, name="copy"):
    """One gpu: two chunks of its scratch from one place to another."""
    whole = {"name": "copy", "src_buff": [buff("i", 0, 3)], "dst_buff": [buff("s", 0, 3)]}
    move = {"name": name, "src_buff": [buff("s", source, 2)], "dst_buff": [buff("s", target, 2)]}
    back = {"name": "copy", "src_buff": [buff("i", 0, 3)], "dst_buff": [buff("o", 0, 3)]}
    nop = {"name": "nop"}
    return plan("allreduce", [gpu(0, 1, (3, 3, 4), [[whole, nop, move, nop, back]], [])])


OVERLAPS = {
    "copy to the next": (shifted(0, 1), True),
    "copy to the one before": (shifted(1, 0), True),
    "sum to the next": (shifted(0, 1, "re"), True),
    "copy to itself": (shifted(1, 1), False),
    "copy beside": (shifted(0, 2), False),
    "two to one slot": (two_puts((1, 0), (0, 0)), True),
    "one twice to one slot": (two_puts((0, 0), (0, 0)), False),
    "two to two slots": (two_puts((1, 0), (1, 0)), False),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_parts_of_an_operation_may_not_cross(tmp_path, name):
    """Right in order, whichever it is; but the threads of an operation have none."""
    found, crosses = OVERLAPS[name]
    verdict = check(tmp_path, found)
    assert verdict.checks["result"] == "ok"
    assert [finding.code for finding in verdict.findings if finding.check == "race"] == ["X0412"] * (
        crosses * len(found["gpus"])
    )


@pytest.mark.parametrize("coll", ["broadcast", "reduce"])
def test_the_root_is_found_without_a_try_of_each(tmp_path, coll):
    verdict = check(tmp_path, plan(coll, [gpu(rank, 1, (1, 1, 0), [], []) for rank in range(2000)], inplace=True))
    assert verdict.checks["result"] == "failed"
    assert verdict.summary.root == 0


@pytest.mark.parametrize(("coll", "inputs"), [("broadcast", 1), ("scatter", 2)])
def test_the_root_is_the_gpu_whose_input_arrives(tmp_path, coll, inputs):
    """Gpu 1 copies the last chunk of its input to its own output, and puts the first one into that of gpu 0."""
    channels = {"channel_type": "memory", "channel_ids": [0]}
    meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
    copy = {"name": "copy", "src_buff": [buff("i", inputs - 1)], "dst_buff": [buff("o", 0)]}
    put = {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, 0)], **channels}
    both = [
        gpu(0, 2, (inputs, 1, 0), [meet * 2], ["o"]),
        gpu(1, 2, (inputs, 1, 0), [[*meet, copy, put, {"name": "nop"}, *meet]], ["o"]),
    ]
    verdict = check(tmp_path, plan(coll, both))
    assert verdict.ok, verdict.diagnostics
    assert verdict.summary.root == 1


def test_a_scatter_in_place_from_a_root_whose_output_is_not_at_its_begin(tmp_path):
    """The loader adds the offset of the caller's output in its allocation (execution_plan.cc, setupOperation)."""
    assert check(tmp_path, puts_of_a_scatter(0)).ok
    verdict = check(tmp_path, puts_of_a_scatter(1))
    wrong = [found for found in verdict.diagnostics if not found.warning]
    assert [found.code for found in wrong] == ["X0404"]
    assert "reaches o[1] of gpu 0, outside of the buffer" in wrong[0].message
    with pytest.raises(CheckFailed, match="reaches o"):
        run_plan_file(tmp_path / "plan.json", root=1)


def test_inputs_of_others_in_an_all_gather_in_place_are_found_at_the_offset_of_the_own_one(tmp_path):
    """Gpu r puts its chunk to the input of the others: by the loader's rule that is the r-th chunk of their output."""
    found = puts_to_inputs()
    assert not check(tmp_path, found).ok
    verdict = check(tmp_path, found | {"inplace": True})
    assert verdict.ok, verdict.diagnostics
    assert "X0123" in {found.code for found in verdict.diagnostics}
    assert all(report.ok for report in run_plan_file(tmp_path / "plan.json", runs=2))
    there = check(tmp_path, all_gather(3) | {"inplace": True})
    assert there.ok
    assert "X0123" not in {found.code for found in there.diagnostics}


def test_outputs_may_be_longer_than_those_of_the_collective_that_is_named(tmp_path):
    """Each gpu copies its one input chunk to both chunks of its output: no All-Reduce, but what is expected."""
    copies = [{"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", k)]} for k in range(2)]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan("allreduce", [gpu(rank, 2, (1, 2, 0), [copies], []) for rank in range(2)])))
    wants = {(rank, slot): WantedChunk(frozenset([(rank, 0)])) for rank in range(2) for slot in range(2)}
    verdict = check_plan(path, expected=ExpectedResult(wants))
    assert verdict.ok, verdict.diagnostics


def test_a_plan_that_writes_the_input_of_its_caller(tmp_path):
    found = shifted(0, 2)
    assert "X0120" not in {finding.code for finding in check(tmp_path, found).findings}
    ops(found)[2]["dst_buff"] = [buff("i", 0, 2)]
    told = [finding for finding in check(tmp_path, found).findings if finding.code == "X0120"]
    assert [(finding.warning, finding.location.step) for finding in told] == [(True, 2)]
    found["inplace"] = True
    assert "X0120" not in {finding.code for finding in check(tmp_path, found).findings}


@pytest.mark.parametrize(("low", "high", "right"), [(5, 5, True), (None, 5, True), (6, 5, False), (-1, 5, False)])
def test_sizes_that_no_call_can_have(tmp_path, low, high, right):
    found = {**all_gather(), "min_message_size": low, "max_message_size": high}
    assert (check(tmp_path, found).checks["contract"] == "ok") is right


def test_only_the_root_uses_its_buffer(tmp_path):
    """A gather of two in place: gpu 0 puts its chunk beside the one that gpu 1, the root, has there."""
    channels = {"channel_type": "memory", "channel_ids": [0]}
    meet = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
    put = {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, 0)], **channels}
    both = [
        gpu(0, 2, (1, 2, 0), [[*meet, put, {"name": "nop"}, *meet]], ["o"]),
        gpu(1, 2, (1, 2, 0), [meet * 2], ["o"]),
    ]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan("gather", both, inplace=True)))
    verdict = check_plan(path)
    assert verdict.ok, verdict.diagnostics
    assert verdict.summary.root == 1
    assert check_plan(path, root=1).ok
    assert check_plan(path, root=0).checks["result"] == "failed"


def test_a_buffer_of_the_collective_that_is_too_large_to_check(tmp_path):
    found = all_gather()
    for one in found["gpus"]:
        one["input_chunks"] = 2**22
    found["collective"] = "gather"
    verdict = check(tmp_path, found)
    assert [finding.code for finding in verdict.findings if not finding.warning] == ["X0406"]


def test_offsets_beyond_32_bits_are_a_warning(tmp_path):
    found = all_gather()
    (warning,) = check(tmp_path, found).findings
    assert (warning.code, warning.warning) == ("X0409", True)
    assert warning.hint == f'"max_message_size": {2**32 - 1}'
    found["max_message_size"] = 2**32 - 1
    assert not check(tmp_path, found).findings
