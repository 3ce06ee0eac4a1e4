"""Runs on real data: right files give NumPy's results in any order, wrong ones show."""

from __future__ import annotations

import pytest

from collc.application.run.file_runs import run_program
from collc.base.diagnostics import CheckFailed, UsageError
from collc.msccl.running.data import DTYPES
from collc.msccl.running.run_file import run_file

from .programs import GOOD, all_to_all, direct_all_reduce, exchange, ring_all_gather, ring_all_reduce, write


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("transport", ["memory", "threads"])
def test_good_files(tmp_path, name, transport):
    file = GOOD[name]()
    path = write(tmp_path / "f.xml", file)
    count = file.nchunksperloop * 6
    reports = run_file(
        path, dtype="float32", count=count, runs=2 if transport == "threads" else 10, transport=transport, seed=5
    )
    assert all(report.ok for report in reports)
    assert len(reports) == (2 if transport == "threads" else 10) * (file.inplace + file.outofplace)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_types_and_operations(tmp_path, dtype, op):
    path = write(tmp_path / "f.xml", ring_all_reduce(4))
    assert all(report.ok for report in run_file(path, dtype=dtype, op=op, count=12, runs=2))


def test_a_wrong_sum_shows(tmp_path):
    file = ring_all_reduce(4)
    file.gpus[1].tbs[0].steps[1]["srcoff"] = 2
    reports = run_file(write(tmp_path / "f.xml", file), dtype="int32")
    assert [report.ok for report in reports] == [False, False]
    assert reports[0].wrong[0].got != reports[0].wrong[0].expected


def test_undefined_output_shows(tmp_path):
    file = ring_all_gather(4)
    file.gpus[2].tbs.pop()
    out, inside = run_file(write(tmp_path / "f.xml", file))
    assert [(w.rank, w.chunk) for w in out.wrong] == [(2, 2)]
    assert inside.ok


def test_a_race_shows_in_some_order(tmp_path):
    file = direct_all_reduce(3)
    file.gpus[1].tbs[2].steps[1].update(depid=-1, deps=-1)
    reports = run_file(write(tmp_path / "f.xml", file), runs=40)
    assert 0 < sum(report.ok for report in reports) < 40


@pytest.mark.parametrize("transport", ["memory", "threads"])
def test_size_dependent_deadlock(tmp_path, transport):
    path = write(tmp_path / "f.xml", exchange(8))
    assert run_file(path, dtype="uint8", count=4 * 2**20, transport=transport)[0].ok
    (report,) = run_file(path, dtype="uint8", count=8 * 2**20, transport=transport)
    assert report.hung == ((0, 0, 0), (1, 0, 0))


def test_same_seed_same_run(tmp_path):
    path = write(tmp_path / "f.xml", ring_all_reduce(4))
    assert run_file(path, seed=3, count=40) == run_file(path, seed=3, count=40)


def test_errors(tmp_path):
    path = write(tmp_path / "f.xml", all_to_all(4))
    with pytest.raises(UsageError, match="cannot be cut into the chunks"):
        run_file(write(tmp_path / "g.xml", ring_all_reduce(4)), count=6)
    with pytest.raises(UsageError, match="dtype"):
        run_file(path, dtype="bfloat16")
    with pytest.raises(UsageError, match="op"):
        run_file(path, op="xor")
    with pytest.raises(UsageError, match="cannot read"):
        run_file(tmp_path / "none.xml")
    with pytest.raises(CheckFailed):
        run_file(write(tmp_path / "h.xml", all_to_all(4).text().replace('send="1"', 'send="2"', 1)))
    with pytest.raises(UsageError, match="not known"):
        run_file(write(tmp_path / "i.xml", all_to_all(4).text().replace("alltoall", "send")))


def test_too_many_elements_are_refused_before_memory_is_taken(tmp_path):
    path = write(tmp_path / "f.xml", ring_all_reduce(4))
    with pytest.raises(UsageError, match="GiB") as caught:
        run_file(path, count=10**13)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "X0205"
    most = int(diagnostic.hint.split()[1])
    assert 10**6 < most < 10**10
    assert most % 4 == 0
    with pytest.raises(UsageError, match="GiB"):
        run_file(path, count=most + 4)


def test_what_is_no_msccl_file_is_named(tmp_path):
    path = write(tmp_path / "f", "ten 1\n")
    with pytest.raises(UsageError, match=r"is a \.ten file, and 'collc run' takes") as caught:
        run_program(path)
    assert caught.value.diagnostics[0].code == "X0206"
    assert "collc verify" in caught.value.diagnostics[0].hint
