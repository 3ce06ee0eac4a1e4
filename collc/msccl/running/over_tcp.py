"""Execution of an MSCCL file by one process for each rank, over TCP connections of this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.msccl.check.model import CAPACITY, FileProgram
from collc.msccl.running.data import Array, RunData
from collc.runtime.data import Operands
from collc.runtime.frames import read_frame, write_frame
from collc.runtime.rank_program import RankProgram

SILENCE_SECONDS: Final = 60.0
"""How long a rank waits for a message. When one rank has ended, the others have as long again as it took, and twice
these seconds to say for what they wait.
"""


@dataclass(frozen=True, slots=True)
class TcpRun:
    """seconds: from the first start of a rank to the last end. sent: messages of all ranks."""

    seconds: float
    sent: int


def rank_programs(
    program: FileProgram, operands: Operands, data: RunData, messages: Sequence[int], merge: int
) -> list[RankProgram]:
    """The program of each rank. operands: of all steps, with slots in the memory of `data`."""
    waits, connections = program.waits, program.connections
    columns = (waits.tb, waits.sends, waits.receives, waits.needs_tb, waits.needs_step, waits.sets)
    work = (operands.kind, operands.source, operands.target, operands.count, messages)
    steps = np.stack([np.array(column, np.int64) for column in (*columns, *work)], axis=1)
    bounds = _memory_bounds(program)
    programs: list[RankProgram] = []
    for rank, (low, high) in enumerate(zip(program.gpu_first[:-1], program.gpu_first[1:], strict=True)):
        first = program.tbs.first[low : high + 1]
        own = steps[first[0] : first[-1]].copy()
        own[:, 0] -= low
        own[:, 3] = np.where(own[:, 3] >= 0, own[:, 3] - low, -1)
        own[:, 7:9] -= bounds[rank]
        used = np.flatnonzero((connections.key[:, :2] == rank).any(axis=1))
        for column in (1, 2):
            own[:, column] = np.where(own[:, column] >= 0, np.searchsorted(used, own[:, column]), -1)
        ends = np.column_stack([used, connections.key[used, :2]])
        programs.append(
            RankProgram(
                rank,
                int(bounds[rank + 1] - bounds[rank]),
                data.memory.shape[1],
                data.memory.dtype.name,
                data.op,
                CAPACITY[program.proto],
                merge,
                first - first[0],
                own,
                ends,
            )
        )
    return programs


def run_over_tcp(program: FileProgram, programs: Sequence[RankProgram], data: RunData) -> TcpRun:
    """Execute programs on the memory of a run, and leave there what the ranks have at the end.

    Raises CheckFailed (X0209) if a rank fails, or if messages stay out.
    """
    memories = np.split(data.memory, _memory_bounds(program)[1:-1].tolist())
    workers = [_start_worker() for _ in programs]
    try:
        answers = _Conversation(workers).run(programs, memories)
        failed = [(rank, *failure) for rank, answer in enumerate(answers) if (failure := _failure(answer[0]))]
        if failed:
            rank, _, text = min(failed, key=lambda row: (row[1], row[0]))
            raise CheckFailed(Diagnostic("X0209", f"rank {rank} of the run over TCP failed: {text}"))
        for memory, (_, content) in zip(memories, answers, strict=True):
            memory[:] = np.frombuffer(content, memory.dtype).reshape(memory.shape)
        reports = [values for values, _ in answers]
        seconds = max(values["ended"] for values in reports) - min(values["began"] for values in reports)
        return TcpRun(seconds, sum(values["sent"] for values in reports))
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


_Answer = tuple[dict[str, Any], bytes]
_Worker = subprocess.Popen[bytes]


class _Conversation:
    """What is said to the workers, in turns: all are spoken to, then all answer."""

    def __init__(self, workers: Sequence[_Worker]) -> None:
        self._workers = workers

    def run(self, programs: Sequence[RankProgram], memories: Sequence[Array]) -> list[_Answer]:
        token = secrets.token_hex(16)
        begin = {"token": token, "seconds": SILENCE_SECONDS}
        answers = self._turn([(begin, program.to_bytes()) for program in programs])
        if not any(_failure(values) for values, _ in answers):
            ports = {"ports": [values["port"] for values, _ in answers]}
            answers = self._turn([(ports, memory.tobytes()) for memory in memories])
        if not any(_failure(values) for values, _ in answers):
            answers = self._turn([({}, b"") for _ in programs])
        return answers

    def _turn(self, frames: Sequence[tuple[dict[str, Any], bytes]]) -> list[_Answer]:
        """The answers of all workers; those that say nothing for too long are killed."""
        with ThreadPoolExecutor(len(self._workers)) as pool:
            asked = [pool.submit(_ask, worker, *frame) for worker, frame in zip(self._workers, frames, strict=True)]
            began = time.monotonic()
            silent = [True] * len(asked)
            try:
                wait(asked, return_when=FIRST_COMPLETED)
                wait(asked, timeout=time.monotonic() - began + 2 * SILENCE_SECONDS)
                silent = [not answer.done() for answer in asked]
            finally:  # the pool waits for its threads, and these for the workers: after Ctrl-C, too
                for worker in compress(self._workers, silent):
                    worker.kill()
            return list(map(_answer_of, asked, silent))


def _start_worker() -> _Worker:
    # One thread for NumPy: ranks are many. With -P, nothing in the current folder is imported.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    code = "import sys; sys.path.append(sys.argv[1]); from collc.runtime.worker import main; main()"
    command = [sys.executable, "-P", "-c", code, str(Path(__file__).parents[3])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _ask(worker: _Worker, values: dict[str, Any], data: bytes) -> _Answer:
    assert worker.stdin is not None
    assert worker.stdout is not None
    write_frame(worker.stdin, values, data)
    return read_frame(worker.stdout)


def _answer_of(answer: Future[_Answer], silent: bool) -> _Answer:
    try:
        return answer.result()
    except (OSError, EOFError):
        return {"error": "it does not answer" if silent else "its process ended"}, b""


def _failure(values: dict[str, Any]) -> tuple[bool, str] | None:
    """What went wrong at a rank, and whether another one may be the cause."""
    if values.get("hung"):
        tb, step, reason, rank = values["hung"][0]
        what = {"receive": f"a message from rank {rank}", "send": f"room for a message to rank {rank}"}
        return True, f"its threadblock {tb} waits at step {step} for {what.get(reason, f'threadblock {rank}')}"
    return (bool(values.get("of_another")), str(values["error"])) if "error" in values else None


def _memory_bounds(program: FileProgram) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[gpus + 1]: where the memory of each gpu begins in that of all, and the end."""
    return np.concatenate([[0], np.cumsum(program.chunks.sum(axis=1))]).astype(np.int64)
