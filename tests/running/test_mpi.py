"""Schedules over MPI: results, errors and the table of times. Needs collc[mpi]."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import collc
from collc.command.cli import main
from tests.lab.test_lab import needs_a_lab
from tests.running.test_rounds import ROOT, SCHEDULES

pytest.importorskip("mpi4py", reason="collc[mpi] is not installed: schedules over MPI are not tested")


def ranks_of(count: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on `count` ranks."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    whole = [str(mpiexec), "-n", str(count), sys.executable, *command]
    return subprocess.run(whole, check=False, capture_output=True, text=True, env=environment, timeout=240)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("schedules")
    collc.compile_text(SCHEDULES.replace("NET", "ring(4, bandwidth: 50GB/s, latency: 1us)"), output=path)
    return str(path)


def test_every_call_gives_what_numpy_computes(folder):
    done = ranks_of(4, "-m", "tests.running.mpi_ranks", "results", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(4):
        assert f"rank {rank} wrong [] served" in done.stdout, done.stdout
    files = {"allreduce: ar.run", "allgather: ag.run", "reducescatter: rs.run", "alltoall: aa.run", "broadcast: bc.run"}
    served = set(re.findall(r"\'([^\']*)\'", done.stdout))
    assert served == files | {"broadcast: no file for root 1", "reduce: no file of the collective"}


def test_memory_of_another_device_is_handed_to_mpi(folder):
    """By an array that is none of NumPy, in the place of CuPy's on a GPU; work on it ends before MPI reads it."""
    done = ranks_of(4, "-m", "tests.running.mpi_ranks", "device", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    served = "['allgather: ag.run', 'allreduce: ar.run', 'reduce: no file of the collective', 'reducescatter: rs.run']"
    lines = re.findall(r"rank \d wrong .*? waits (?:True|False)", done.stdout)  # line ends may come late
    assert sorted(lines) == [f"rank {r} wrong [] served {served} waits True" for r in range(4)]


def test_a_rank_that_makes_no_call_is_named(folder):
    done = ranks_of(4, "-m", "tests.running.mpi_ranks", "silent", folder)
    assert done.returncode == 3
    assert re.search(r"rank \d waits for .* rank \d \(allreduce of ar.run, round \d of 3\) for 1 seconds", done.stdout)


def test_the_table_of_times(folder):
    done = ranks_of(4, "-m", "collc.mpi", folder, "--bench", "--sizes", "4,4096", "--times", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert len(rows) == 4 * 2 * 2
    assert {row[2] for row in rows} == {"MPI", "ar.run", "ag.run", "rs.run", "aa.run"}
    assert {row[-1] for row in rows} == {"0"}
    listed = ranks_of(2, "-m", "collc.mpi", folder)
    assert "ar.run: allreduce of 4 ranks (not for 2)" in listed.stdout


def test_the_example():
    done = ranks_of(8, str(ROOT / "examples" / "mpi.py"))
    assert done.returncode == 0, done.stderr[-3000:]
    expected = ["the mean of ranks 0 to 7 is 3.5", "allreduce: 1 call by mean.run"]
    assert done.stdout.splitlines()[:2] == expected
    assert "allgather: 1 call by no file of the collective" in done.stdout


@needs_a_lab
def test_mpich_over_the_links_of_the_lab(tmp_path, capsys):
    """Of a group over a switch, whose links both ways forward; a collective without a call is a row with the reason."""
    text = "import std.topologies\nimport std.collectives\ntopology t = switched(3, bandwidth: 50GB/s, latency: 1us)\n"
    runs = "schedule s on t { run all_reduce([t.npu[2], t.npu[0]], size: 2MiB) }\n"
    (tmp_path / "p.coll").write_text(text + runs + "schedule g on t { run gather(t.npus, size: 3MiB) }\n")
    words = ["lab", str(tmp_path / "p.coll"), "--seconds", "0.2", "--runs", "1", "--mpich", "--json", "--schedule"]
    rows = {}
    for schedule in ("s", "g"):
        assert main([*words, schedule]) == 0
        rows[schedule] = json.loads(capsys.readouterr().out)["algorithms"][1]
    assert (rows["s"]["algorithm"], rows["s"]["reason"]) == ("MPICH", None)
    assert rows["s"]["measured_s"]
    assert rows["g"]["reason"] == "there is no call for gather"
