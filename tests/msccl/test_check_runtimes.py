"""The check of MSCCL files: what one runtime does with a file and another does not (docs/msccl-contract.md)."""

from __future__ import annotations

import pytest

from collc.msccl.check import check_file
from collc.msccl.running.run_file import run_file

from .programs import (
    Block,
    File,
    Gpu,
    direct_all_reduce,
    direct_gather,
    direct_scatter,
    exchange,
    ring_all_gather,
    ring_all_reduce,
    star_all_gather_by_scratch,
    write,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30


def check(tmp_path, file, **options):
    return check_file(write(tmp_path / "f.xml", file), **options)


def both_ways(coll: str = "reduce", cnt: int = 8, **options) -> File:
    """Two ranks that both send `cnt` chunks and then receive as many; rank 0 is the root. What nobody wants goes to
    scratch."""
    wanted = ("rrc", ("o", 0)) if coll == "reduce" else ("r", ("s", 0))
    root = Block(1, 1).add("s", ("i", 0), ("s", 0), cnt).add(wanted[0], ("i", 0), wanted[1], cnt)
    other = Block(0, 0).add("s", ("i", 0), ("o", 0), cnt)
    other.add("r", ("i", 0), ("s" if coll == "reduce" else "o", 0), cnt)
    tbs = [root] if coll == "reduce" else [root, Block().add("cpy", ("i", 0), ("o", 0), cnt)]
    return File(coll, cnt, [Gpu((cnt, cnt, cnt), tbs), Gpu((cnt, cnt, cnt), [other])], **options)


@pytest.mark.parametrize("coll", ["reduce", "broadcast"])
def test_messages_of_reduce_and_broadcast_have_512_kib(tmp_path, coll):
    """At most 2 messages are in flight, so M must be 4 and a chunk 128 KiB: 1 MiB in all, not 4 MiB."""
    verdict = check(tmp_path, both_ways(coll), root=0)
    assert verdict.summary.largest_safe == MIB
    assert verdict.checks == {"contract": "ok", "result": "ok", "deadlock": "failed", "race": "ok"}
    assert 'maxBytes="1048576"' in next(told.hint for told in verdict.diagnostics if told.code == "X0140")
    for size, answer in ((MIB, "ok"), (MIB + 8, "failed"), (1_300_000, "failed")):
        file = both_ways(coll)
        file.max_bytes = size
        assert check(tmp_path, file, root=0).checks["deadlock"] == answer


@pytest.mark.parametrize(("proto", "safe"), [("LL", 9 * 16 * KIB), ("LL128", 9 * 288_000)])
def test_messages_of_reduce_are_no_shorter_with_ll(tmp_path, proto, safe):
    """Of 9 chunks, 8 messages are in flight if a message has 2 chunks."""
    assert check(tmp_path, both_ways("reduce", 9, proto=proto), root=0).summary.largest_safe == safe


@pytest.mark.parametrize("coll", ["reduce", "broadcast"])
def test_a_run_of_reduce_and_broadcast_hangs_above_1_mib(tmp_path, coll):
    path = write(tmp_path / "f.xml", both_ways(coll))
    (safe,) = run_file(path, count=MIB, dtype="uint8", root=0)
    (hung,) = run_file(path, count=MIB + 8, dtype="uint8", root=0)
    assert safe.ok
    assert hung.hung


def test_scratch_that_the_old_runtime_cannot_allocate(tmp_path):
    """Rank 0 has 1 scratch chunk of 3: a third of maxBytes is allocated."""
    file = star_all_gather_by_scratch(3)
    for size, answer, warned in ((3 * GIB, "ok", False), (3 * GIB + 3, "ok", True), (240 * GIB, "ok", True)):
        file.max_bytes = size
        verdict = check(tmp_path, file, profile="old")
        assert verdict.checks["contract"] == answer, size
        assert [told.warning for told in verdict.diagnostics if told.code == "X0121"] == [True] * warned
    for size in (240 * GIB + 3, 2**62, 2**63 - 1):
        file.max_bytes = size
        verdict = check(tmp_path, file, profile="old")
        assert verdict.checks["contract"] == "failed"
        (told,) = (told for told in verdict.diagnostics if told.code == "X0121")
        assert f'maxBytes="{3 * GIB}"' in told.hint
        assert "of scratch on gpu 0" in told.message
        assert check(tmp_path, file).checks["contract"] == "ok"


@pytest.mark.parametrize(("size", "shown"), [(6 * GIB, "2.0 GiB"), (6 << 40, "2.0 TiB"), (6 << 60, "2.0 EiB")])
def test_the_size_of_scratch_has_a_fitting_unit(tmp_path, size, shown):
    file = star_all_gather_by_scratch(3)
    file.max_bytes = size
    (told,) = (told for told in check(tmp_path, file, profile="old").diagnostics if told.code == "X0121")
    assert f"allocates {shown} of scratch" in told.message


def test_scratch_of_the_gpu_that_has_most_counts(tmp_path):
    file = direct_all_reduce(3)
    file.gpus[2].chunks = (3, 3, 300)
    file.max_bytes = GIB
    verdict = check(tmp_path, file, profile="old")
    assert verdict.checks["contract"] == "failed"
    assert any("100.0 GiB of scratch on gpu 2" in told.message for told in verdict.diagnostics)


def test_files_without_scratch_may_have_any_size(tmp_path):
    file = ring_all_gather(4, both=False)
    file.max_bytes = 2**62
    assert not check(tmp_path, file, profile="old").diagnostics


def test_scratch_with_the_default_size_of_the_old_runtime(tmp_path):
    """If maxBytes is missing it is 128 MiB."""
    text = star_all_gather_by_scratch(3).text().replace(' maxBytes="0"', "")
    assert check(tmp_path, text, profile="old").ok
    text = text.replace('s_chunks="1"', 's_chunks="3000"')
    assert "X0121" in {told.code for told in check(tmp_path, text, profile="old").diagnostics}


@pytest.mark.parametrize("make", [direct_gather, direct_scatter])
def test_the_executor_never_selects_gather_and_scatter(tmp_path, make):
    verdict = check(tmp_path, make())
    assert verdict.ok
    (told,) = verdict.diagnostics
    assert (told.code, told.warning) == ("X0110", True)
    assert "never selects it" in told.message
    assert "MSCCL++" in told.hint


@pytest.mark.parametrize(("inplace", "outofplace", "warned"), [(1, 1, True), (1, 0, False), (0, 1, False)])
def test_the_old_runtime_reads_only_inplace(tmp_path, inplace, outofplace, warned):
    file = ring_all_reduce(3)
    file.inplace, file.outofplace, file.max_bytes = inplace, outofplace, GIB
    verdict = check(tmp_path, file, profile="old")
    assert verdict.ok
    assert [told.code for told in verdict.diagnostics] == ["X0110"] * warned
    assert all(told.warning and "reads only inplace" in told.message for told in verdict.diagnostics)
    assert not check(tmp_path, file).diagnostics


@pytest.mark.parametrize("side", ["send", "recv"])
def test_a_connection_that_only_one_side_names_hangs_at_setup(tmp_path, side):
    """No step uses it, and the file would be right otherwise."""
    file = exchange(2)
    file.nchannels = 2
    peers = {"send": 1} if side == "send" else {"recv": 1}
    file.gpus[0].tbs[1] = Block(**peers, chan=1).add("cpy", ("i", 0), ("o", 0), 2)
    verdict = check(tmp_path, file)
    assert verdict.checks["contract"] == "failed"
    (told,) = verdict.diagnostics
    assert told.code == "X0112"
    other = {"send": "receives", "recv": "sends"}[side]
    assert f"no threadblock {other} on this connection" in told.message


def test_files_of_msccl_tools_for_the_old_runtime(tmp_path):
    """They have no outofplace, no range of sizes, and 0 chunks of a buffer that no step names."""
    text = """<algo name="ag" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1">
"""
    for rank in range(2):
        one, other = (f's="{k}" srcbuf="o" dstbuf="o" cnt="1" depid="-1" deps="-1" hasdep="0"' for k in range(2))
        text += f'''<gpu id="{rank}" i_chunks="0" o_chunks="2" s_chunks="0">
<tb id="0" send="{1 - rank}" recv="{1 - rank}" chan="0">
<step {one} type="s" srcoff="{rank}" dstoff="{rank}"/>
<step {other} type="r" srcoff="{1 - rank}" dstoff="{1 - rank}"/>
</tb></gpu>
'''
    path = tmp_path / "f.xml"
    path.write_text(text + "</algo>\n")
    verdict = check_file(path, profile="old")
    assert verdict.ok, verdict.diagnostics
    assert (verdict.summary.inplace, verdict.summary.outofplace) == (True, False)
    assert all(report.ok for report in run_file(path, profile="old"))
    assert "X0105" in {told.code for told in check_file(path).diagnostics}
    path.write_text(path.read_text().replace('i_chunks="0"', 'i_chunks="3"'))
    assert "X0116" in {told.code for told in check_file(path, profile="old").diagnostics}
