"""The check of MSCCL files: buffers too small, numbers too large, sizes that no run has."""

from __future__ import annotations

import pytest

from collc.msccl.check import check_file, symbolic
from collc.msccl.check.symbolic import execute
from tests.cpu_time import at_most

from .programs import (
    Block,
    File,
    Gpu,
    chain_broadcast,
    chain_reduce,
    direct_gather,
    direct_scatter,
    exchange,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    write,
)

CUSTOM = {
    "allgather": ring_all_gather,
    "allreduce": ring_all_reduce,
    "reducescatter": ring_reduce_scatter,
    "broadcast": chain_broadcast,
    "reduce": chain_reduce,
    "gather": direct_gather,
    "scatter": direct_scatter,
}


def check(tmp_path, file, **options):
    return check_file(write(tmp_path / "f.xml", file), **options)


def custom(coll, **options):
    file = CUSTOM[coll](**options)
    file.coll, file.max_bytes = "custom", 2**20
    return file


@pytest.mark.parametrize("coll", CUSTOM)
def test_custom_files_that_do_a_collective(tmp_path, coll):
    assert check(tmp_path, custom(coll), collective=coll, profile="old").ok


@pytest.mark.parametrize("coll", CUSTOM)
@pytest.mark.parametrize("buffer", [0, 1])
def test_custom_files_with_a_buffer_that_is_too_small(tmp_path, coll, buffer):
    """No step touches the buffers of the last gpu, so that nothing but their size is wrong: NPU 0 is the root."""
    rooted = coll in ("broadcast", "reduce", "gather", "scatter")
    file = custom(coll, **({"root": 0} if rooted else {}))
    needs = {"broadcast": 1, "scatter": 1, "reduce": 0, "gather": 0}.get(coll, buffer)
    sizes = list(file.gpus[3].chunks)
    sizes[buffer] = max(0, sizes[buffer] - 1)
    file.gpus[3].chunks = tuple(sizes)
    for tb in file.gpus[3].tbs:
        tb.steps = []
    verdict = check(tmp_path, file, collective=coll, profile="old")
    short = [told for told in verdict.diagnostics if told.code == "X0116"]
    assert bool(short) == (needs == buffer)
    assert not verdict.ok
    if short:
        assert f"{'io'[buffer]}_chunks is {sizes[buffer]}, but {coll} over 4 ranks has" in short[0].message
        assert "at least" in short[0].notes[0].message or file.inplace


@pytest.mark.parametrize("coll", ["gather", "reduce"])
def test_a_root_whose_output_is_too_small(tmp_path, coll):
    """Only the result knows the root; a missing slot is undefined."""
    file = custom(coll, root=1)
    i, o, s = file.gpus[1].chunks
    file.gpus[1].chunks = (i, o - 1, s)
    for tb in file.gpus[1].tbs:
        for step in tb.steps:
            step["dstoff"] = min(int(step["dstoff"]), o - 2)
            step["cnt"] = min(int(step["cnt"]), o - 1)
    if coll == "reduce":
        for gpu in file.gpus:
            for tb in gpu.tbs:
                for step in tb.steps:
                    step["cnt"] = o - 1
    verdict = check(tmp_path, file, collective=coll, root=1, profile="old")
    assert verdict.checks["contract"] == "ok"
    assert verdict.checks["result"] == "failed"
    assert any(f"output chunk {o - 1} of rank 1 ends with undefined" in told.message for told in verdict.diagnostics)


def test_a_root_whose_input_is_too_small(tmp_path):
    """A chunk beyond every input buffer is no other rank's chunk."""
    file = custom("broadcast", root=0)
    for gpu in file.gpus:
        gpu.chunks = (1, 2, 0)
        for tb in gpu.tbs:
            for step in tb.steps:
                step["cnt"] = 1
    file.inplace = 0
    verdict = check(tmp_path, file, collective="broadcast", root=0, profile="old")
    assert verdict.checks["result"] == "failed"
    assert any("expected: input chunk 1 of rank 0" in told.notes[0].message for told in verdict.diagnostics)


def test_a_custom_file_in_place_whose_part_reaches_too_far(tmp_path):
    file = custom("allgather")
    file.gpus[0].chunks = (2, 4, 0)
    verdict = check(tmp_path, file, collective="allgather", profile="old")
    assert [told.code for told in verdict.diagnostics if not told.warning] == ["X0116"]
    file.inplace = 0
    assert check(tmp_path, file, collective="allgather", profile="old").ok


SAFE = 16 * 2**19
"""The largest size without deadlock of eight chunks each way, by hand: M = 4, so chunks of 512 KiB."""


@pytest.mark.parametrize(("more", "answer"), [(0, "ok"), (1, "ok"), (15, "ok"), (16, "failed"), (17, "failed")])
def test_sizes_are_multiples_of_nchunksperloop(tmp_path, more, answer):
    """Above the largest safe size, the next one that a run can have is a chunk count larger."""
    verdict = check(tmp_path, exchange(8, max_bytes=SAFE + more))
    assert verdict.checks["deadlock"] == answer
    assert verdict.summary.largest_safe == SAFE


@pytest.mark.parametrize(
    ("least", "most", "warned"), [(17, 31, True), (17, 32, False), (16, 31, False), (0, 15, True), (0, 16, False)]
)
def test_a_range_of_sizes_without_a_multiple(tmp_path, least, most, warned):
    verdict = check(tmp_path, exchange(8, min_bytes=least, max_bytes=most))
    assert verdict.ok
    assert [told.warning for told in verdict.diagnostics if told.code == "X0110"] == [True] * warned
    assert all("never selected" in told.message for told in verdict.diagnostics)


@pytest.mark.parametrize("flag", ["inplace", "outofplace"])
@pytest.mark.parametrize("value", [-1, 2])
def test_flags_are_0_or_1(tmp_path, flag, value):
    file = ring_all_gather()
    setattr(file, flag, value)
    verdict = check(tmp_path, file)
    assert verdict.checks["contract"] == "failed"
    (told,) = verdict.diagnostics
    assert (told.code, told.message, told.notes[0].message) == ("X0110", f"{flag} is {value}", "expected: 0 or 1")


ABSURD = 2**31 - 1
REACH = 32767 + 71
"""Chunks that steps can reach: 16-bit offsets, and counts up to 71."""


@pytest.mark.parametrize("chunks", [REACH + 1, 30_000_000, ABSURD])
@pytest.mark.parametrize("coll", ["broadcast", "reduce"])
def test_more_chunks_in_a_loop_than_steps_can_reach(tmp_path, coll, chunks):
    verdict = check(tmp_path, File(coll, chunks, [Gpu((1, 1, 0)), Gpu((1, 1, 0))]))
    told = verdict.diagnostics[0]
    assert (told.code, told.message.split(":")[0]) == ("X0110", f"nchunksperloop is {chunks}")
    assert told.notes[0].message.startswith(f"expected: at most {REACH}")
    assert verdict.checks["result"] == "skipped"


@pytest.mark.parametrize("chunks", [REACH + 1, ABSURD])
@pytest.mark.parametrize("buffer", [0, 1, 2])
def test_more_chunks_in_a_buffer_than_steps_can_reach(tmp_path, buffer, chunks):
    file = ring_all_gather()
    sizes = list(file.gpus[2].chunks)
    sizes[buffer] = chunks
    file.gpus[2].chunks = tuple(sizes)
    told = check(tmp_path, file).diagnostics[0]
    name = f"{'ios'[buffer]}_chunks"
    assert (told.code, told.message) == ("X0116", f"gpu 2: {name} is {chunks}, more than steps can reach")


def test_as_many_scratch_chunks_as_steps_can_reach(tmp_path):
    file = ring_all_gather()
    file.gpus[2].chunks = (1, 4, REACH)
    assert check(tmp_path, file).ok


def test_many_buffers_of_a_size_that_one_may_have(tmp_path):
    """300 x 2 x 32,768 slots, of which the file names one in thirty thousand."""
    verdict = check(tmp_path, File("broadcast", 2**15, [Gpu((1, 1, 0))] * 300))
    (told,) = [told for told in verdict.diagnostics if told.code == "X0110"]
    assert told.message == f"{300 * 2 * 2**15} chunks in the buffers of 300 ranks"
    assert told.notes[0].message == f"expected: at most {2**24} to be checked"


def runs(monkeypatch, tmp_path, file):
    """The verdict of a file, and how often it was run to get it."""
    count = [0]

    def counted(*arguments, **options):
        count[0] += 1
        return execute(*arguments, **options)

    monkeypatch.setattr(symbolic, "execute", counted)
    return check(tmp_path, file), count[0]


def test_a_root_is_looked_for_within_bounds(tmp_path, monkeypatch):
    """Work counts slots and ranks, not only steps, of which these files have none."""
    _, count = runs(monkeypatch, tmp_path, File("broadcast", 5000, [Gpu((1, 1, 0))] * 50))
    assert count <= 12
    _, count = runs(monkeypatch, tmp_path, File("broadcast", 1, [Gpu((1, 1, 0))] * 400))
    assert count <= 201


def test_every_root_of_a_small_file_is_tried(tmp_path, monkeypatch):
    """50 ranks with 100 chunks in each buffer: more slots than the file has steps."""
    _, count = runs(monkeypatch, tmp_path, File("broadcast", 100, [Gpu((100, 100, 0))] * 50))
    assert count == 51 + 1  # once to guess, once for each rank, once for the messages


@pytest.mark.parametrize("make", [chain_broadcast, chain_reduce, direct_gather, direct_scatter])
@pytest.mark.parametrize("outofplace", [0, 1])
def test_outputs_tell_the_root(tmp_path, monkeypatch, make, outofplace):
    """Every rank passes its own data round as well, so that what moves says nothing of the root."""
    n, root = 12, 7
    file = make(n, root)
    file.outofplace, file.nchannels = outofplace, 2
    for rank, gpu in enumerate(file.gpus):
        i, o, _ = gpu.chunks
        gpu.chunks = (i, o, n)
        noise = Block((rank + 1) % n, (rank - 1) % n, 1)
        for slot in range(n if rank != root else 1):
            noise.add("s", ("s", slot), ("s", slot))
        for slot in range(n if (rank - 1) % n != root else 1):
            noise.add("r", ("s", slot), ("s", slot))
        gpu.tbs.append(noise)
    verdict, count = runs(monkeypatch, tmp_path, file)
    assert verdict.summary.root == root
    assert verdict.checks["result"] == "ok"
    assert count <= 4


def test_wrong_chunks_are_counted_to_the_last(tmp_path):
    verdict = check(tmp_path, File("broadcast", 5000, [Gpu((1, 1, 0))] * 50))
    told = [told.message for told in verdict.diagnostics if told.code == "X0131"]
    assert len(told) == 13
    assert told[-1] == f"{50 * 5000 - 12} more of this kind (result)"


def test_millions_of_empty_slots_are_counted_and_not_listed(tmp_path):
    """500 empty gpus in 60 kB: 16 million wrong output chunks took 35 s and 2 GB."""
    head = '<algo name="a" proto="Simple" nchannels="1" nchunksperloop="32000" ngpus="500" coll="allgather" '
    head += 'inplace="0" outofplace="1" minBytes="0" maxBytes="0">\n'
    gpus = [f'<gpu id="{gpu}" i_chunks="64" o_chunks="32000" s_chunks="0"></gpu>\n' for gpu in range(500)]
    (path := tmp_path / "f.xml").write_text(head + "".join(gpus) + "</algo>\n")
    with at_most(5):
        verdict = check_file(path)
    assert verdict.checks["result"] == "failed"
    assert any(f"{500 * 32000 - len(verdict.findings)} more of this kind" in d.message for d in verdict.diagnostics)
