"""Execution of an MSCCL file by one process for each rank, over TCP connections of this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Final

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.msccl.check.model import FileProgram
from collc.msccl.check.results import CollectiveCall
from collc.msccl.running.data import Array, RunData
from collc.runtime.frames import read_frame, write_frame
from collc.runtime.rank_program import Call, memory_bounds
from collc.runtime.run_program import RunProgram

SILENCE_SECONDS: Final = 60.0
"""How long a rank waits for a message. When one rank has ended, the others have as long again as it took, and twice
these seconds to say for what they wait.
"""


@dataclass(frozen=True, slots=True)
class TcpRun:
    """seconds: from the first start of a rank to the last end. sent: messages of all ranks."""

    seconds: float
    sent: int


def run_program_of(program: FileProgram, call: CollectiveCall) -> RunProgram:
    """The program of a file in the form of the runtime, for one call."""
    tbs, steps = program.tbs, program.steps
    columns = (steps.kind, steps.srcbuf, steps.srcoff, steps.dstbuf, steps.dstoff, steps.cnt)
    return RunProgram(
        name=program.name,
        coll=call.coll,
        root=call.root,
        op=program.redop,
        chunks_per_loop=program.nchunksperloop,
        in_place=program.inplace,
        out_of_place=program.outofplace,
        sizes=(program.min_bytes, program.size_limit or 0),
        chunk_bytes=0,
        time_ps=0,
        npus=("",) * program.ngpus,
        labels=(),
        chunks=program.chunks,
        blocks=np.stack([tbs.gpu, tbs.send, tbs.recv, tbs.chan], axis=1),
        steps=np.stack([steps.tb, *columns, steps.depid, steps.deps, steps.hasdep], axis=1),
        when=np.zeros(len(steps), np.int64),
    )


def run_over_tcp(program: RunProgram, data: RunData, merge: int, capacity: int) -> TcpRun:
    """Execute a program on the memory of a run, and leave there what the ranks have at the end.

    merge, capacity: as in `Call`. Raises CheckFailed (X0209) if a rank fails, or if messages stay out.
    """
    memory, inplace = data.memory, data.call.inplace
    call = Call(memory.shape[1], memory.dtype.name, data.op, inplace, merge, capacity)
    memories = np.split(memory, memory_bounds(program, inplace=inplace)[1:-1].tolist())
    workers = [_start_worker() for _ in memories]
    try:
        answers = _Conversation(workers).run(program, call, memories)
        failed = [(rank, *failure) for rank, answer in enumerate(answers) if (failure := _failure(answer[0]))]
        if failed:
            rank, _, text = min(failed, key=lambda row: (row[1], row[0]))
            raise CheckFailed(Diagnostic("X0209", f"rank {rank} of the run over TCP failed: {text}"))
        for part, (_, content) in zip(memories, answers, strict=True):
            part[:] = np.frombuffer(content, part.dtype).reshape(part.shape)
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

    def run(self, program: RunProgram, call: Call, memories: Sequence[Array]) -> list[_Answer]:
        begin = {"token": secrets.token_hex(16), "seconds": SILENCE_SECONDS, "call": asdict(call)}
        file = program.to_bytes()
        answers = self._turn([(begin | {"rank": rank}, file) for rank in range(len(memories))])
        if not any(_failure(values) for values, _ in answers):
            ports = {"ports": [values["port"] for values, _ in answers]}
            answers = self._turn([(ports, memory.tobytes()) for memory in memories])
        if not any(_failure(values) for values, _ in answers):
            answers = self._turn([({}, b"") for _ in memories])
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
