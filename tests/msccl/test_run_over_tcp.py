"""Runs of files by one process for each rank, over TCP: bytes move between processes, and failures name a rank."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from collc.base.diagnostics import CheckFailed, UsageError
from collc.lab.emulated_network import NPU_COMMAND
from collc.msccl.check.symbolic import call_of
from collc.msccl.running import over_tcp
from collc.msccl.running.run_file import _load, run_file
from collc.runtime import tcp
from collc.runtime.frames import read_frame, write_frame
from collc.runtime.rank_program import Call, RankProgram
from collc.runtime.run_program import RunProgram
from tests.lab.test_lab import needs_a_lab

from .programs import GOOD, exchange, ring_all_reduce, write


@pytest.mark.parametrize("name", ["direct all-reduce", "scatter"])
def test_good_files(tmp_path, name):
    file = GOOD[name]()
    reports = run_file(write(tmp_path / "f.xml", file), count=file.nchunksperloop * 6, transport="tcp")
    in_memory = run_file(tmp_path / "f.xml", count=file.nchunksperloop * 6)
    assert all(report.ok and report.seconds > 0 for report in reports)
    assert [dataclasses.replace(report, seconds=None) for report in reports] == in_memory


def test_messages_larger_than_buffers_of_sockets(tmp_path):
    """8 MiB each way in messages of 2 MiB: a run in which no side reads before it has sent everything would hang."""
    path = write(tmp_path / "f.xml", exchange(8))
    (report,) = run_file(path, dtype="uint8", count=4 * 2**20, transport="tcp")
    assert report.ok


def test_a_wrong_sum_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numpy.py").write_text("raise SystemExit")  # no worker imports what lies in the current folder
    file = ring_all_reduce(3)
    file.gpus[1].tbs[0].steps[1]["srcoff"] = 2
    assert not any(report.ok for report in run_file(write(tmp_path / "f.xml", file), dtype="int32", transport="tcp"))


def test_a_file_that_waits_for_itself_starts_no_process(tmp_path, monkeypatch):
    file = ring_all_reduce(3)
    for gpu in file.gpus:  # all receive before they send
        first, second, *others = gpu.tbs[0].steps
        gpu.tbs[0].steps = [second | {"s": 0}, first | {"s": 1}, *others]
    monkeypatch.setattr(over_tcp, "_start_worker", pytest.fail)
    reports = run_file(write(tmp_path / "f.xml", file), transport="tcp")
    assert [report.hung for report in reports] == 2 * [((0, 0, 0), (1, 0, 0), (2, 0, 0))]


def test_too_many_ranks(tmp_path, monkeypatch):
    monkeypatch.setattr("collc.msccl.running.data.RANKS_LIMIT", 3)
    with pytest.raises(UsageError, match="4 ranks are too many"):
        run_file(write(tmp_path / "f.xml", ring_all_reduce(4)), transport="tcp")
    with pytest.raises(UsageError, match="unknown transport 'pigeon'"):
        run_file(tmp_path / "f.xml", transport="pigeon")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "message"),
    [(signal.SIGKILL, "rank 1 .*: its process ended"), (signal.SIGSTOP, "rank 1 .*: it does not")],
)
def test_a_rank_that_fails_is_named(tmp_path, monkeypatch, number, message):
    """A rank that is killed, or stopped, after it has answered once: nothing hangs, and no result is given."""
    started, start, ask = [], over_tcp._start_worker, over_tcp._ask

    def start_worker(prefix, module):
        started.append(start(prefix, module))
        return started[-1]

    def ask_worker(process, values, data):
        if "routes" in values and process is started[1]:
            os.kill(process.pid, number)
        return ask(process, values, data)

    monkeypatch.setattr(over_tcp, "SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(over_tcp, "_start_worker", start_worker)
    monkeypatch.setattr(over_tcp, "_ask", ask_worker)
    with pytest.raises(CheckFailed, match=message):
        run_file(write(tmp_path / "f.xml", ring_all_reduce(3)), transport="tcp")
    assert len(started) == 3
    assert all(process.poll() is not None for process in started)


@pytest.mark.slow
def test_a_rank_that_waits_says_for_what(tmp_path, monkeypatch):
    """One that lost its steps sends nothing, so another one waits for its message."""
    monkeypatch.setattr(over_tcp, "SILENCE_SECONDS", 3.0)
    made = over_tcp.run_program_of

    def without_rank_2(*arguments):
        program = made(*arguments)
        rows = program.blocks[program.steps[:, 0], 0] != 2
        return dataclasses.replace(program, steps=program.steps[rows], when=program.when[rows])

    monkeypatch.setattr("collc.msccl.running.over_tcp.run_program_of", without_rank_2)
    with pytest.raises(CheckFailed, match=r"rank 0 .*: its threadblock 0 waits at step 1 for a message from rank 2"):
        run_file(write(tmp_path / "f.xml", ring_all_reduce(3)), transport="tcp")


def some_file(tmp_path) -> RunProgram:
    program, _ = _load(write(tmp_path / "f.xml", ring_all_reduce(3)), None, "executor")
    return over_tcp.run_program_of(program, call_of(program, "allreduce", -1, inplace=False))


def some_program(tmp_path) -> RankProgram:
    return RankProgram.of(some_file(tmp_path), 1, Call(4, "float32", "sum", inplace=False, merge=2, capacity=2))


def test_a_message_that_is_too_long_is_refused(tmp_path):
    """No peer can make a rank reserve more memory than a message of the program takes."""
    ours, theirs = tcp.socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        incoming = tcp._Incoming(ours, some_program(tmp_path), 0, [])
        theirs.sendall(tcp.HEADER.pack(2**40))
        with pytest.raises(tcp.LinkError, match="1099511627776 bytes"):
            incoming.read()


@needs_a_lab
def test_connections_to_different_ranks_share_ports_of_the_sender():
    """In a namespace with 20 ports for senders: 40 connections to four receivers."""
    code = """
import socket
from collc.runtime.tcp import Route, connect
open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("40000 40019")
listeners = [socket.create_server(("127.0.0.1", port)) for port in range(5000, 5004)]
links = [connect(Route("127.0.0.1", 5000 + number % 4, "", 0), 1.0) for number in range(40)]
print(len(links))
"""
    command = [*NPU_COMMAND, "sh", "-c", 'ip link set lo up && exec "$0" "$@"', sys.executable, "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "40\n"


@pytest.mark.parametrize("answers", [0, 1])
def test_a_worker_whose_starter_is_gone_says_nothing(tmp_path, monkeypatch, answers):
    """It finds nobody who reads its first answer, or after that the end of its input."""
    monkeypatch.setattr(over_tcp.subprocess, "Popen", partial(subprocess.Popen, stderr=subprocess.PIPE))
    worker = over_tcp._start_worker([], "collc.runtime.worker")
    call = Call(4, "float32", "sum", inplace=False, merge=2, capacity=2)
    begin = {"token": "", "seconds": 3, "call": dataclasses.asdict(call), "host": over_tcp.HOST, "rank": 1}
    if not answers:
        worker.stdout.close()
    write_frame(worker.stdin, begin, some_file(tmp_path).to_bytes())
    if answers:
        read_frame(worker.stdout)
        worker.send_signal(signal.SIGINT)
    assert worker.communicate()[1] == b""
    assert worker.returncode == 0


def test_the_worker_loads_no_compiler():
    code = "import collc.runtime.worker, sys; print(*(name for name in sys.modules if name.startswith('collc')))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(made.stdout.split())
    assert "collc.runtime.worker" in modules
    assert modules <= {"collc", "collc.version"} | {name for name in modules if name.startswith("collc.runtime")}
