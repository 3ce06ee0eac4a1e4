"""The check of MSCCL++ plans: good ones pass, and every way of breaking one is caught by the right check."""

from __future__ import annotations

import copy
import json

import pytest

from collc.base.diagnostics import UsageError
from collc.msccl.check_plan import check_plan

from .hand_plans import GOOD, all_gather, all_reduce, buff, by_semaphore, ops, read_reduce


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
    "17 semaphores of an operation": (
        all_gather,
        lambda p: (
            p["gpus"][0].update(semaphores=[{"init_value": 0}] * 17),
            ops(p).insert(0, {"name": "sem_release", "semaphore_ids": list(range(17))}),
        ),
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


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_that_is_no_rank(tmp_path, root):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(all_gather()))
    with pytest.raises(UsageError) as error:
        check_plan(path, root=root)
    assert [one.code for one in error.value.diagnostics] == ["X0203"]


def test_a_plan_must_compute_the_collective_that_it_names(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(all_gather()))
    found = check_plan(path, collective="allreduce").findings
    assert [(one.check, one.code, one.expected) for one in found if not one.warning] == [
        ("contract", "X0416", "allreduce")
    ]
    assert check_plan(path, collective="all_gather").ok


def test_a_plan_of_packets_may_have_none(tmp_path):
    """The protocol LL only doubles the scratch."""
    found = all_gather()
    found["protocol"] = "LL"
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError):
        check_plan(tmp_path / "none.json")
