"""The check of MSCCL++ plans: good ones pass, and every way of breaking one is caught by the right check."""

from __future__ import annotations

import copy
import json
import random

import pytest

from collc.base.diagnostics import UsageError
from collc.msccl.check_plan import check_plan

from .hand_plans import GOOD, all_gather, all_reduce, buff, by_semaphore, far, gpu, ops, plan, read_reduce


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return check_plan(path)


@pytest.mark.parametrize("name", GOOD)
def test_good_plans_pass(tmp_path, name):
    verdict = check(tmp_path, GOOD[name]())
    assert set(verdict.checks.values()) == {"ok"}, verdict.diagnostics


def share_channel(found, wait):
    """Two threadblocks of gpu 0 wait (or signal) on its first channel, once each."""
    first = found["gpus"][0]["threadblocks"][0]
    second = {**first, "id": 1, "remote_buffer_refs": [], "ops": []}
    found["gpus"][0]["threadblocks"].append(second)
    name = "wait" if wait else "signal"
    position = 7 if wait else 6
    one = dict(first["ops"][position], channel_ids=[0])
    first["ops"][position] = dict(one, channel_ids=[1])
    second["ops"].append(one)
    assert one["name"] == name


def two_takers(found):
    """A third threadblock of gpu 1 acquires the semaphore, and the second release depends on who was first."""
    blocks = found["gpus"][1]["threadblocks"]
    blocks.append({"id": 2, "channels": [], "ops": [{"name": "sem_acquire", "semaphore_ids": [0]}]})
    blocks[1]["ops"].append({"name": "sem_release", "semaphore_ids": [0]})


KINDS = {
    "wrong place": (all_gather, lambda p: ops(p)[4]["dst_buff"][0].update(index=2), "result", "X0411"),
    "put dropped": (all_gather, lambda p: ops(p).pop(4), "result", "X0411"),
    "wrong source": (all_reduce, lambda p: ops(p)[0]["src_buff"][0].update(index=0), "result", "X0411"),
    "operand twice": (all_reduce, lambda p: ops(p)[5]["src_buff"][2].update(index=0), "result", "X0411"),
    "no nop before the signal": (all_gather, lambda p: ops(p).pop(5), "race", "X0413"),
    "no nop before the sum's signal": (all_reduce, lambda p: ops(p).pop(1), "race", "X0412"),
    "no nop after the wait": (all_reduce, lambda p: ops(p).pop(4), "race", "X0412"),
    "no barrier before the signal": (
        read_reduce,
        lambda p: [ops(p, 0, tb).pop(4 - 2 * tb) for tb in (0, 1)],
        "race",
        "X0413",
    ),
    "no signal at the end": (
        read_reduce,
        lambda p: [(ops(p, rank).pop(), ops(p, rank).pop()) for rank in (0, 1)],
        "race",
        "X0413",
    ),
    "semaphore without nop": (by_semaphore, lambda p: ops(p).pop(1), "race", "X0412"),
    "no semaphore": (by_semaphore, lambda p: (ops(p).pop(2), ops(p, 0, 1).pop(3)), "race", "X0412"),
    "put without a credit": (all_reduce, lambda p: ops(p).append(dict(ops(p)[0])), "race", "X0412"),
    "signal dropped": (all_gather, lambda p: ops(p).pop(6), "deadlock", "X0410"),
    "waits first": (
        all_gather,
        lambda p: [ops(p, r).insert(0, ops(p, r).pop()) for r in range(3)],
        "deadlock",
        "X0410",
    ),
    "barrier of three": (
        read_reduce,
        lambda p: [ops(p, 0, tb)[2 - 2 * tb].update(num_threadblocks=3) for tb in (0, 1)],
        "deadlock",
        "X0410",
    ),
    "release dropped": (by_semaphore, lambda p: ops(p).pop(2), "deadlock", "X0410"),
    "wait dropped": (all_gather, lambda p: ops(p).pop(7), "contract", "X0407"),
    "acquire dropped": (by_semaphore, lambda p: ops(p, 0, 1).pop(3), "contract", "X0407"),
    "pws over memory": (all_gather, lambda p: ops(p)[4].update(name="pws"), "contract", "X0404"),
    "unknown operation": (all_gather, lambda p: ops(p)[3].update(name="push"), "contract", "X0404"),
    "sizes": (
        all_gather,
        lambda p: ops(p)[3]["src_buff"][0].update(size=1) or ops(p)[3]["dst_buff"][0].update(size=2, index=0),
        "contract",
        "X0404",
    ),
    "local put": (all_gather, lambda p: ops(p)[4]["dst_buff"].__setitem__(0, buff("o", 0)), "contract", "X0404"),
    "index outside": (all_gather, lambda p: ops(p)[3]["dst_buff"][0].update(index=3), "contract", "X0405"),
    "remote index outside": (all_gather, lambda p: ops(p)[4]["dst_buff"][0].update(index=3), "contract", "X0405"),
    "no such channel": (all_gather, lambda p: ops(p)[6].update(channel_ids=[2]), "contract", "X0403"),
    "no such buffer": (all_gather, lambda p: ops(p)[4]["dst_buff"][0].update(buffer_id=5), "contract", "X0403"),
    "no such peer": (
        all_gather,
        lambda p: p["gpus"][0]["channels"][0].update(connected_to=[1, 3]),
        "contract",
        "X0403",
    ),
    "buffer for ports": (
        all_gather,
        lambda p: p["gpus"][0]["remote_buffers"][0].update(access_channel_types=["port"]),
        "contract",
        "X0403",
    ),
    "gpu ids": (all_gather, lambda p: p["gpus"][0].update(id=1), "contract", "X0402"),
    "no protocol": (all_gather, lambda p: p.pop("protocol"), "contract", "X0402"),
    "inplace as text": (all_gather, lambda p: p.update(inplace="yes"), "contract", "X0402"),
    "too many operations": (all_gather, lambda p: ops(p).extend([{"name": "nop"}] * 60), "contract", "X0406"),
    "no credit at the start": (
        all_gather,
        lambda p: [ops(p, rank).__delitem__(slice(0, 3)) for rank in range(3)],
        "race",
        "X0414",
    ),
    "no credit for scratch of the run before": (
        all_reduce,
        lambda p: [ops(p, rank).__delitem__(slice(6, 9)) for rank in range(3)],
        "race",
        "X0414",
    ),
    "a channel in two threadblocks": (all_gather, lambda p: share_channel(p, wait=True), "race", "X0415"),
    "two threadblocks signal on a channel": (all_gather, lambda p: share_channel(p, wait=False), "race", "X0415"),
    "a semaphore for two": (by_semaphore, two_takers, "race", "X0415"),
    "a channel twice": (all_gather, lambda p: ops(p)[6].update(channel_ids=[0, 0]), "contract", "X0404"),
    "threads that take turns": (
        all_gather,
        lambda p: (ops(p)[6].update(channel_ids=[0]), ops(p).insert(7, {**ops(p)[6], "channel_ids": [1, 0]})),
        "contract",
        "X0404",
    ),
    "a share of an operation": (
        all_gather,
        lambda p: ops(p)[3].update(tbg_info={"tb_id": 0, "tbg_size": 2}),
        "contract",
        "X0404",
    ),
    "barrier of others": (
        read_reduce,
        lambda p: (
            p["gpus"][0]["threadblocks"].append({"id": 2, "channels": [], "ops": [dict(ops(p, 0, 1)[0])]}),
            [ops(p, 0, tb)[2 - 2 * tb].update(num_threadblocks=2) for tb in (0, 1)],
        ),
        "contract",
        "X0408",
    ),
    "barrier of none": (read_reduce, lambda p: ops(p, 0, 1)[0].update(num_threadblocks=0), "contract", "X0402"),
    "11 operands": (
        all_gather,
        lambda p: (
            p["gpus"][0].update(scratch_chunks=1),
            ops(p).insert(
                3,
                {"name": "re", "src_buff": [buff("i", 0)] * 11, "dst_buff": [buff("s", 0)]},
            ),
        ),
        "contract",
        "X0406",
    ),
    "17 semaphores": (
        all_gather,
        lambda p: p["gpus"][0].update(semaphores=[{"init_value": 0}] * 17),
        "contract",
        "X0406",
    ),
    "17 channels": (
        all_gather,
        lambda p: p["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"].extend([0] * 15),
        "contract",
        "X0406",
    ),
    "17 remote buffers": (
        all_gather,
        lambda p: p["gpus"][0]["threadblocks"][0]["remote_buffer_refs"][0]["remote_buffer_ids"].extend([0] * 15),
        "contract",
        "X0406",
    ),
    "9 channels of an operation": (
        lambda: all_gather(11),
        lambda p: None,
        "contract",
        "X0406",
    ),
    "relaxed signal for data": (all_gather, lambda p: ops(p)[6].update(name="rlxsignal"), "race", "X0413"),
    "relaxed wait for data": (all_reduce, lambda p: ops(p)[3].update(name="rlxwait"), "race", "X0412"),
    "17th barrier": (
        read_reduce,
        lambda p: [ops(p, 0, tb)[2 - 2 * tb].update(barrier_id=16) for tb in (0, 1)],
        "contract",
        "X0406",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_broken_plans_are_named(tmp_path, name):
    make, change, which, code = KINDS[name]
    found = copy.deepcopy(make())
    change(found)
    verdict = check(tmp_path, found)
    assert verdict.checks[which] == "failed", verdict.diagnostics
    assert code in {finding.code for finding in verdict.findings if finding.check == which}


HOSTILE = {
    "nothing": "",
    "cut": "{",
    "deep": "[" * 200_000,
    "deeper": '{"gpus":' * 100_000 + "0" + "}" * 100_000,
    "a long number": json.dumps(all_gather()).replace('"index": 0', '"index": ' + "9" * 10_000),
    "no number": json.dumps(all_gather()).replace('"index": 0', '"index": NaN'),
    "infinity": json.dumps(all_gather()).replace('"index": 0', '"index": -Infinity'),
    "latin": "\xff",
    "half a character": json.dumps(all_gather()).replace("by hand", "\\ud800"),
    "an escape in the name": json.dumps(all_gather()).replace("by hand", "\\u001b[2J"),
    "another type": "[]",
    "a list of lists": '{"name": "", "collective": "", "protocol": "Simple", "inplace": false, "gpus": [[]]}',
    "no gpus": json.dumps(plan("allreduce", [], inplace=True)),
    "no gpus, and a root": json.dumps(plan("scatter", [])),
    "many chunks": json.dumps(all_gather()).replace('"scratch_chunks": 0', '"scratch_chunks": 4294967295'),
    "a name twice": json.dumps(all_gather()).replace('"index": 0', '"index": 0, "index": 0'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused(tmp_path, name):
    path = tmp_path / "plan.json"
    path.write_bytes(HOSTILE[name].encode("latin-1" if name == "latin" else "utf-8"))
    verdict = check_plan(path)
    assert verdict.checks["contract"] == "failed"
    assert {finding.code for finding in verdict.findings if not finding.warning} <= {"X0401", "X0402", "X0406"}


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_that_is_no_rank(tmp_path, root):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(all_gather()))
    with pytest.raises(UsageError) as error:
        check_plan(path, root=root)
    assert [one.code for one in error.value.diagnostics] == ["X0203"]


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
    """In place too, where input and output are one buffer."""
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


VALUES = [None, True, -1, 0, 1, 3, 10**6, 2**40, 0.5, "", "x", "i", [], {}, [0], [[]], [None], ["memory"], [{}]]


@pytest.mark.parametrize("name", GOOD)
def test_any_value_anywhere_has_an_answer(tmp_path, name):
    """Every value of a plan in turn is another one, or gone: no traceback, and what is said to be right is."""
    found = GOOD[name]()

    def spots(value):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield value, key
            yield from spots(inner)

    draw = random.Random(name)
    path = tmp_path / "plan.json"
    for holder, key in draw.sample(list(spots(found)), 100):
        before = holder[key]
        for other in [*draw.sample(VALUES, 4), ...]:
            if other is ... and isinstance(holder, list):
                continue
            if other is ...:
                del holder[key]
            else:
                holder[key] = other
            path.write_text(json.dumps(found))
            check_plan(path)
            holder[key] = before


def test_places_have_lines_and_columns(tmp_path):
    found = all_gather()
    ops(found, 1)[4]["dst_buff"][0]["index"] = 7
    path = tmp_path / "plan.json"
    for indent in (None, 1, 4):
        path.write_text(json.dumps(found, indent=indent))
        location = check_plan(path).findings[0].location
        lines = path.read_text().split("\n")
        rest = lines[location.line - 1][location.column - 1 :] + "".join(
            line.strip() for line in lines[location.line :]
        )
        assert (location.gpu, location.tb, location.step) == (1, 0, 4)
        assert rest.startswith('{"name": "put"')
    path.write_text('{"gpus": [\n  1,, 2]}')
    location = check_plan(path).findings[0].location
    assert (location.line, location.column) == (2, 5)


def test_a_wrong_result_is_told_at_the_operation_that_wrote_it(tmp_path):
    found = all_gather()
    ops(found, 2)[3]["src_buff"] = [buff("o", 1)]
    finding = next(finding for finding in check(tmp_path, found).findings if finding.code == "X0411")
    assert finding.message.startswith("output chunk 2 of rank 2 ends with ")
    assert finding.expected == "input chunk 0 of rank 2, as allgather wants"
    assert (finding.location.gpu, finding.location.tb, finding.location.step) == (2, 0, 3)


def test_offsets_beyond_32_bits_are_a_warning(tmp_path):
    found = all_gather()
    (warning,) = check(tmp_path, found).findings
    assert (warning.code, warning.warning) == ("X0409", True)
    assert warning.hint == f'"max_message_size": {2**32 - 1}'
    found["max_message_size"] = 2**32 - 1
    assert not check(tmp_path, found).findings


def exchange():
    """Out of place All-Reduce of two GPUs by scratch, with no credits but the data."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        block = [
            {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, 0)], **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {"name": "nop"},
            {"name": "re", "src_buff": [buff("i", 0), buff("s", 0)], "dst_buff": [buff("o", 0)]},
        ]
        gpus.append(gpu(rank, 2, (1, 1, 1), [block], ["s"]))
    return plan("allreduce", gpus)


def test_scratch_of_the_run_before_needs_a_credit(tmp_path):
    """A GPU that is ahead puts its second chunk where the first one has not been read yet."""
    found = exchange()
    finding, other = (finding for finding in check(tmp_path, found).findings if not finding.warning)
    assert finding.code == other.code == "X0414"
    assert finding.message == "put may touch scratch memory that re of the run before still needs"
    for rank in (0, 1):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        ops(found, rank)[:0] = [{"name": "rlxsignal", **channels}, {"name": "rlxwait", **channels}, {"name": "nop"}]
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def test_two_scratch_buffers_are_for_packets(tmp_path):
    """The runtime (2025) adds the offset of the second one to local scratch, and to remote scratch of packets only."""
    found = all_reduce()
    found["use_double_scratch_buffer"] = True
    assert "use_double_scratch_buffer" in check(tmp_path, found).findings[0].message
    found = all_gather()
    found["use_double_scratch_buffer"] = True
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def test_another_layout_of_the_same_plan(tmp_path):
    """What a file may leave out, say in several pieces or add is no matter."""
    found = all_reduce()
    for one in found["gpus"]:
        peers = one["channels"][0]["connected_to"]
        one["channels"] = [{"channel_type": "memory", "connected_to": [peer], "buff": "i"} for peer in peers]
        one["channels"].append({"channel_type": "port", "connected_to": []})
        block = one["threadblocks"][0]
        block["channels"] = [{"channel_type": "memory", "channel_ids": [k]} for k in range(len(peers))]
        block["remote_buffer_refs"] = [
            {"access_channel_type": "memory", "remote_buffer_ids": [k], "note": None}
            for k in range(len(one["remote_buffers"]))
        ]
        one.pop("semaphores", None)
        for op in block["ops"]:
            op["comment"] = "x"
    found.update(num_threads_per_block=1024, reuse_resources=False, buffer_alignment=16, unknown={"a": [1]})
    verdict = check(tmp_path, json.dumps(found, indent=3, sort_keys=True))
    assert set(verdict.checks.values()) == {"ok"}, verdict.diagnostics


def test_a_mutex_is_no_contest(tmp_path):
    """Whoever acquires first gives back before waiting for anything."""
    found = all_gather()
    guard = [{"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "sem_release", "semaphore_ids": [0]}]
    for one in found["gpus"]:
        one["semaphores"] = [{"init_value": 1}]
        one["threadblocks"] += [{"id": k, "channels": [], "ops": copy.deepcopy(guard)} for k in (1, 2)]
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def test_thousands_of_names_channels_and_semaphores_take_no_thousands_of_looks_each(tmp_path):
    """Each of these took a minute and more when work grew with the square of a count."""
    taking = [[{"name": name, "semaphore_ids": [0]}] * 64 for name in ("sem_release", "sem_acquire") for _ in range(60)]
    one = gpu(0, 1, (1, 1, 0), taking, [])
    one["semaphores"] = [{"init_value": 0}]
    verdict = check(tmp_path, plan("allreduce", [one], inplace=True))
    assert verdict.checks["deadlock"] == "ok"
    pair = [gpu(rank, 2, (1, 1, 0), [], []) for rank in range(2)]
    for rank, one in enumerate(pair):
        one["channels"] = [{"channel_type": "memory", "connected_to": [1 - rank] * 40_000}]
    assert check(tmp_path, plan("broadcast", pair)).checks["contract"] == "ok"
    size = 2**18
    copy = {"name": "copy", "src_buff": [buff("i", 0, size)], "dst_buff": [buff("s", 0, size)]}
    long = gpu(0, 1, (size, size, size), [[copy, {"name": "nop"}] * 32], [])
    assert check(tmp_path, plan("allreduce", [long], inplace=True)).ok
    path = tmp_path / "names.json"
    path.write_text("{" + ",".join(f'"k{k // 2}": 0' for k in range(80_000)) + "}")
    assert check_plan(path).checks["contract"] == "failed"


def test_packets_are_only_read(tmp_path):
    found = all_gather()
    found["protocol"] = "LL"
    assert check(tmp_path, found).checks == {
        "contract": "ok",
        "result": "skipped",
        "deadlock": "skipped",
        "race": "skipped",
    }


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError):
        check_plan(tmp_path / "none.json")


def by_get(shift=0):
    """Out of place All-to-All of 2 GPUs by reads: rank r gets chunk r of its peer, which belongs into slot `peer`."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        both = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        get = {
            "name": "get",
            "src_buff": [far(0, rank)],
            "dst_buff": [buff("s", rank + shift)],
            "channel_type": "memory",
        }
        copies = [
            {"name": "copy", "src_buff": [buff("s", rank + shift)], "dst_buff": [buff("o", 1 - rank)]},
            {"name": "copy", "src_buff": [buff("i", rank)], "dst_buff": [buff("o", rank)]},
        ]
        gpus.append(gpu(rank, 2, (2, 2, 3), [[*both, get, {"name": "nop"}, *copies, *both]], ["i"]))
    return plan("alltoall", gpus)


def test_a_get_with_different_indices_is_a_trap(tmp_path):
    assert set(check(tmp_path, by_get()).checks.values()) == {"ok"}
    verdict = check(tmp_path, by_get(1))
    assert [finding.code for finding in verdict.findings] == ["X0404"]
    assert "get with different indices" in verdict.findings[0].message


def test_a_put_from_two_kinds_of_buffers_is_a_trap(tmp_path):
    found = all_gather()
    ops(found)[4]["src_buff"][1] = buff("o", 0)
    assert "put from buffers of several types" in check(tmp_path, found).findings[0].message
