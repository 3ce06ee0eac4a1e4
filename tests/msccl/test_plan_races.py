"""The check of MSCCL++ plans: reuse of scratch, semaphores as a mutex, and large numbers of both."""

from __future__ import annotations

import copy
import json

import pytest

from collc.msccl.check import ExpectedResult, WantedChunk
from collc.msccl.check_plan import check_plan

from .hand_plans import all_gather, buff, far, gpu, ops, plan


def check(tmp_path, found):
    path = tmp_path / "plan.json"
    path.write_text(found if isinstance(found, str) else json.dumps(found))
    return check_plan(path)


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
    """A GPU that is ahead puts its second chunk on the first one, which has not been read yet."""
    found = exchange()
    finding, other = (finding for finding in check(tmp_path, found).findings if not finding.warning)
    assert finding.code == other.code == "X0414"
    assert finding.message == "put may touch scratch memory that re of the run before still needs"
    for rank in (0, 1):
        channels = {"channel_type": "memory", "channel_ids": [0]}
        ops(found, rank)[:0] = [{"name": "rlxsignal", **channels}, {"name": "rlxwait", **channels}, {"name": "nop"}]
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


def test_a_move_does_not_write_overlapping_ranges(tmp_path):
    """Both targets of one sum get the same data, but chunk 1 is the first of one range and the last of the other."""
    channels = {"channel_type": "memory", "channel_ids": [0]}
    for second, expected in ((1, "failed"), (2, "ok"), (0, "ok")):
        targets = [buff("o", 0, 2), far(0, 0, 2), far(0, second, 2)]
        block = [
            {"name": "res", "src_buff": [buff("i", 0, 2), buff("i", 2, 2)], "dst_buff": targets, **channels},
            {"name": "nop"},
            {"name": "signal", **channels},
            {"name": "wait", **channels},
        ]
        credit = [{"name": "signal", **channels}, {"name": "wait", **channels}, {"name": "nop"}]
        gpus = [gpu(rank, 2, (4, 4, 4), [[*credit, *copy.deepcopy(block)]], ["s"]) for rank in range(2)]
        verdict = check(tmp_path, plan("allreduce", gpus))
        assert verdict.checks["race"] == expected
        overlaps = [finding for finding in verdict.findings if finding.code == "X0412"]
        assert all("its threads work at once" in finding.message for finding in overlaps)


def test_a_mutex_is_no_contest(tmp_path):
    """Whoever acquires first gives back before waiting for anything."""
    found = all_gather()
    guard = [{"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "sem_release", "semaphore_ids": [0]}]
    for one in found["gpus"]:
        one["semaphores"] = [{"init_value": 1}]
        one["threadblocks"] += [{"id": k, "channels": [], "ops": copy.deepcopy(guard)} for k in (1, 2)]
    assert set(check(tmp_path, found).checks.values()) == {"ok"}


@pytest.mark.slow
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


def hears_and_releases(position, ids):
    """Gpu 0 waits for two others, which put their chunks to it, and releases a semaphore without a nop; another
    threadblock copies the chunk of one of them then. position: of that one among the channels. ids: that are released.
    """
    both, each = {"channel_type": "memory", "channel_ids": [0, 1]}, {"channel_type": "memory", "channel_ids": [0]}
    first = [{"name": "signal", **both}, {"name": "wait", **both}, {"name": "sem_release", "semaphore_ids": ids}]
    acquire = [{"name": "sem_acquire", "semaphore_ids": [number]} for number in ids]
    copy = {"name": "copy", "src_buff": [buff("s", position)], "dst_buff": [buff("o", 0)]}
    root = gpu(0, 3, (1, 1, 2), [first, [*acquire, {"name": "nop"}, copy]], [])
    root["semaphores"] = [{"init_value": 0}] * 2
    gpus = [root]
    for rank in (1, 2):
        put = {"name": "put", "src_buff": [buff("i", 0)], "dst_buff": [far(0, rank - 1)], **each}
        ops = [{"name": "wait", **each}, {"name": "nop"}, put, {"name": "nop"}, {"name": "signal", **each}]
        gpus.append(gpu(rank, 3, (1, 1, 0), [ops], ["s"]))
    return plan("custom", gpus)


@pytest.mark.parametrize(("position", "ids", "races"), [(0, [0], False), (1, [0], True), (0, [0, 1], True)])
def test_a_release_follows_what_its_thread_has_heard(tmp_path, position, ids, races):
    """Thread k waits on the k-th channel and releases the k-th semaphore."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(hears_and_releases(position, ids)))
    wanted = ExpectedResult({(0, 0): WantedChunk(frozenset({(position + 1, 0)}))})
    verdict = check_plan(path, expected=wanted)
    assert ("X0412" in {message.code for message in verdict.diagnostics}) == races, verdict.diagnostics
