"""The check of MSCCL++ plans: good ones pass, and every way of breaking one is caught by the right check."""

from __future__ import annotations

import copy
import json

import pytest

from collc.diagnostics import UsageError
from collc.msccl.check_plan import check_plan


def buff(kind, index, size=1):
    return {"type": kind, "index": index, "size": size}


def far(buffer, index, size=1):
    return {"buffer_id": buffer, "index": index, "size": size}


def gpu(rank, n, chunks, ops, remote, kind="memory"):
    """One threadblock per list of ops, all with channels to all others (in order of rank) and all remote buffers."""
    peers = [peer for peer in range(n) if peer != rank]
    count = len(remote) * len(peers)
    return {
        "id": rank,
        "input_chunks": chunks[0],
        "output_chunks": chunks[1],
        "scratch_chunks": chunks[2],
        "channels": [{"channel_type": kind, "connected_to": peers}],
        "remote_buffers": [{"rank": p, "type": b, "access_channel_types": [kind]} for b in remote for p in peers],
        "threadblocks": [
            {
                "id": number,
                "channels": [{"channel_type": kind, "channel_ids": list(range(len(peers)))}],
                "remote_buffer_refs": [{"access_channel_type": kind, "remote_buffer_ids": list(range(count))}],
                "ops": block,
            }
            for number, block in enumerate(ops)
        ],
    }


def plan(coll, gpus, inplace=False):
    return {"name": "by hand", "collective": coll, "protocol": "Simple", "inplace": inplace, "gpus": gpus}


def all_gather(n=3, kind="memory"):
    """Everybody puts its chunk into everybody's output, then signals and waits."""
    gpus = []
    for rank in range(n):
        channels = {"channel_type": kind, "channel_ids": list(range(n - 1))}
        put = [buff("i", 0)] * (n - 1), [far(k, rank) for k in range(n - 1)]
        ops = [
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]},
            {"name": "put", "src_buff": put[0], "dst_buff": put[1], **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        gpus.append(gpu(rank, n, (1, n, 0), [ops], ["o"], kind))
    return plan("allgather", gpus)


def all_reduce(n=3):
    """In place: chunk r of everybody to the scratch of rank r, sum there, and back; credits where memory is reused."""
    gpus = []
    for rank in range(n):
        peers = [peer for peer in range(n) if peer != rank]
        channels = {"channel_type": "memory", "channel_ids": list(range(n - 1))}
        slot = [sum(q < rank for q in range(n) if q != peer) for peer in peers]
        put = {
            "src_buff": [buff("i", peer) for peer in peers],
            "dst_buff": [far(k, slot[k]) for k in range(n - 1)],
        }
        ops = [
            {"name": "put", **put, **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
            {"name": "nop"},
            {
                "name": "res",
                "src_buff": [buff("i", rank), *(buff("s", k) for k in range(n - 1))],
                "dst_buff": [buff("i", rank), *(far(n - 1 + k, rank) for k in range(n - 1))],
                **channels,
            },
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        gpus.append(gpu(rank, n, (n, 0, n - 1), [ops], ["s", "i"]))
    return plan("allreduce", gpus, inplace=True)


def read_reduce(n=2):
    """Reduce-Scatter out of place by reading the others' inputs; two threadblocks that meet at barriers."""
    gpus = []
    for rank in range(n):
        channels = {"channel_type": "memory", "channel_ids": list(range(n - 1))}

        def reduce(part, rank=rank):
            slot = rank * 2 + part
            return {
                "name": "rre",
                "src_buff": [buff("i", slot), *(far(k, slot) for k in range(n - 1))],
                "dst_buff": [buff("o", part)],
                "channel_type": "memory",
            }

        meet = [{"name": "barrier", "barrier_id": number, "num_threadblocks": 2} for number in (0, 1)]
        both = [{"name": "signal", **channels}, {"name": "wait", **channels}]
        first = [*both, meet[0], reduce(0), meet[1], *both]
        second = [dict(meet[0]), reduce(1), dict(meet[1])]
        gpus.append(gpu(rank, n, (2 * n, 2, 0), [first, second], ["i"]))
    return plan("reducescatter", gpus)


def by_semaphore():
    """One threadblock copies to scratch, another one from there, after a semaphore."""
    gpus = []
    for rank in range(2):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        first = [
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("s", 0)]},
            {"name": "nop"},
            {"name": "sem_release", "semaphore_ids": [0]},
            {"name": "copy", "src_buff": [buff("i", 0)], "dst_buff": [buff("o", rank)]},
        ]
        second = [
            {"name": "sem_acquire", "semaphore_ids": [0]},
            {"name": "nop"},
            {"name": "put", "src_buff": [buff("s", 0)], "dst_buff": [far(0, rank)], **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        made = gpu(rank, 2, (1, 2, 1), [first, second], ["o"])
        made["semaphores"] = [{"init_value": 0}]
        gpus.append(made)
    return plan("allgather", gpus)


def by_port():
    found = all_gather(3, "port")
    for one in found["gpus"]:
        ops = one["threadblocks"][0]["ops"]
        ops[1]["name"] = "pws"
        del ops[3]
    return found


GOOD = {
    "all-gather": all_gather,
    "all-gather over ports": lambda: all_gather(3, "port"),
    "put with signal": by_port,
    "all-reduce": all_reduce,
    "read and reduce": read_reduce,
    "semaphore": by_semaphore,
}


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return check_plan(path)


@pytest.mark.parametrize("name", GOOD)
def test_good_plans_pass(tmp_path, name):
    verdict = check(tmp_path, GOOD[name]())
    assert set(verdict.checks.values()) == {"ok"}, verdict.diagnostics


def ops(found, rank=0, tb=0):
    return found["gpus"][rank]["threadblocks"][tb]["ops"]


KINDS = {
    "wrong place": (all_gather, lambda p: ops(p)[1]["dst_buff"][0].update(index=2), "result", "X0411"),
    "put dropped": (all_gather, lambda p: ops(p).pop(1), "result", "X0411"),
    "wrong source": (all_reduce, lambda p: ops(p)[0]["src_buff"][0].update(index=0), "result", "X0411"),
    "operand twice": (all_reduce, lambda p: ops(p)[5]["src_buff"][2].update(index=0), "result", "X0411"),
    "no nop before the signal": (all_gather, lambda p: ops(p).pop(2), "race", "X0413"),
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
    "no semaphore": (by_semaphore, lambda p: (ops(p).pop(2), ops(p, 0, 1).pop(0)), "race", "X0412"),
    "put without a credit": (all_reduce, lambda p: ops(p).append(dict(ops(p)[0])), "race", "X0412"),
    "signal dropped": (all_gather, lambda p: ops(p).pop(3), "deadlock", "X0410"),
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
    "wait dropped": (all_gather, lambda p: ops(p).pop(4), "contract", "X0407"),
    "acquire dropped": (by_semaphore, lambda p: ops(p, 0, 1).pop(0), "contract", "X0407"),
    "pws over memory": (all_gather, lambda p: ops(p)[1].update(name="pws"), "contract", "X0404"),
    "unknown operation": (all_gather, lambda p: ops(p)[0].update(name="push"), "contract", "X0404"),
    "sizes": (
        all_gather,
        lambda p: ops(p)[0]["src_buff"][0].update(size=1) or ops(p)[0]["dst_buff"][0].update(size=2, index=0),
        "contract",
        "X0404",
    ),
    "local put": (all_gather, lambda p: ops(p)[1]["dst_buff"].__setitem__(0, buff("o", 0)), "contract", "X0404"),
    "index outside": (all_gather, lambda p: ops(p)[0]["dst_buff"][0].update(index=3), "contract", "X0405"),
    "remote index outside": (all_gather, lambda p: ops(p)[1]["dst_buff"][0].update(index=3), "contract", "X0405"),
    "no such channel": (all_gather, lambda p: ops(p)[3].update(channel_ids=[2]), "contract", "X0403"),
    "no such buffer": (all_gather, lambda p: ops(p)[1]["dst_buff"][0].update(buffer_id=5), "contract", "X0403"),
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


def test_no_json(tmp_path):
    assert check(tmp_path, "{").findings[0].code == "X0401"
    assert check(tmp_path, "[]").checks["contract"] == "failed"


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
    ops(found)[1]["src_buff"][1] = buff("o", 0)
    assert "put from buffers of several types" in check(tmp_path, found).findings[0].message
