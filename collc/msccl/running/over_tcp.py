"""Execution of a program by one process for each rank, over TCP connections of this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.msccl.check.model import FileProgram
from collc.msccl.check.results import CollectiveCall
from collc.msccl.running.data import Array, RunData, RunReport
from collc.runtime.frames import read_frame, write_frame
from collc.runtime.rank_program import Call, memory_bounds
from collc.runtime.run_program import RunProgram
from collc.runtime.tcp import Route

HOST: Final = "127.0.0.1"
"""The address of ranks on one machine."""

SILENCE_SECONDS: Final = 60.0
"""How long a rank waits for a message. When one rank has ended, the others have as long again as it took, and twice
these seconds to say for what they wait.
"""


def run_program_of(program: FileProgram, call: CollectiveCall) -> RunProgram:
    """The program of a file in the form of the runtime, for one call."""
    tbs, steps = program.tbs, program.steps
    columns = (steps.kind, steps.srcbuf, steps.srcoff, steps.dstbuf, steps.dstoff, steps.cnt)
    blocks = np.stack([tbs.gpu, tbs.send, tbs.recv, tbs.chan], axis=1)
    table = np.stack([steps.tb, *columns, steps.depid, steps.deps, steps.hasdep], axis=1)
    return call_program(program.name, call, program.chunks, blocks, table)


def call_program(
    name: str, call: CollectiveCall, chunks: NDArray[np.int64], blocks: NDArray[np.int32], steps: NDArray[np.int32]
) -> RunProgram:
    """The program of a file of another kind, for one call. chunks, blocks, steps: as in RunProgram."""
    return RunProgram(
        name=name,
        coll=call.coll,
        root=call.root,
        op="",
        chunks_per_loop=call.total,
        in_place=call.inplace,
        out_of_place=not call.inplace,
        sizes=(0, 0),
        chunk_bytes=0,
        time_ps=0,
        npus=("",) * call.ranks,
        labels=(),
        chunks=chunks,
        blocks=blocks,
        steps=steps,
        when=np.zeros(len(steps), np.int64),
    )


def run_over_tcp(program: RunProgram, data: RunData, merge: int, capacity: int) -> RunReport:
    """Execute a program on the inputs of a run, with a process for each rank.

    merge, capacity: as in `Call`. Raises CheckFailed (X0209) if a rank fails, or if messages stay out.
    """
    ranks = range(program.ranks)
    for rank in ranks:
        data.fill_input(0, rank)
    memory, inplace = data.memory, data.call.inplace
    call = Call(memory.shape[1], memory.dtype.name, data.op, inplace, merge, capacity)
    memories = np.split(memory, memory_bounds(program, inplace=inplace)[1:-1].tolist())
    with Workers([()] * len(memories), SILENCE_SECONDS) as workers:
        ports = workers.load(program, call, HOST)
        ends = program.connections.key.tolist()
        workers.connect([Route(HOST, ports[receiver], "", 0) for _, receiver, _ in ends], memories)
        answers = workers.execute()
    raise_if_failed(answers)
    for part, (_, content) in zip(memories, answers, strict=True):
        part[:] = np.frombuffer(content, part.dtype).reshape(part.shape)
    data.finish()
    for rank in ranks:
        data.compare_output(0, rank)
    reports = [values for values, _ in answers]
    seconds = max(values["ended"] for values in reports) - min(values["began"] for values in reports)
    return data.report(sum(values["sent"] for values in reports), [], seconds)


Answer = tuple[dict[str, Any], bytes]
"""Of a worker: values, and the memory of its rank."""


class Workers:
    """A process for each rank. They are spoken to in turns: all of them, then all answer. At the end they are killed.

    processes: by rank.
    """

    def __init__(self, prefixes: Sequence[Sequence[str]], seconds: float, module: str = "collc.runtime.worker") -> None:
        """prefixes: for each rank, the words before the command of its process. seconds: how long they wait for a
        message. module: what they execute.
        """
        self._seconds = seconds
        self.processes: list[subprocess.Popen[bytes]] = [_start_worker(prefix, module) for prefix in prefixes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def load(self, program: RunProgram, call: Call, host: str) -> list[int]:
        """Give them a program. host: the address at which they listen. Returns their ports.

        Raises CheckFailed (X0209).
        """
        begin = {"token": secrets.token_hex(16), "seconds": self._seconds, "call": asdict(call), "host": host}
        file = program.to_bytes()
        answers = self.turn([(begin | {"rank": rank}, file) for rank in range(len(self.processes))])
        raise_if_failed(answers)
        return [values["port"] for values, _ in answers]

    def connect(self, routes: Iterable[Route], memories: Sequence[Array]) -> None:
        """Let them connect. routes: of all connections. memories: of the ranks. Raises CheckFailed (X0209)."""
        links = {"routes": [(number, *route) for number, route in enumerate(routes)]}
        raise_if_failed(self.turn([(links, memory.tobytes()) for memory in memories]))

    def execute(self, at: float = 0.0, *, moments: bool = False) -> list[Answer]:
        """Let them execute the program once, on the memory that they were given, and wait for their answers.

        at: the start, in seconds of the monotonic clock. moments: whether they tell when messages moved.
        """
        return self.turn([({"at": at, "moments": moments}, b"") for _ in self.processes])

    def turn(self, frames: Sequence[tuple[dict[str, Any], bytes]]) -> list[Answer]:
        """The answers of all workers; those that say nothing for too long after the first one are killed.

        The first one may take as long as it likes: it ends its own waits, for messages and for connections.
        """
        with ThreadPoolExecutor(len(self.processes)) as pool:
            pairs = zip(self.processes, frames, strict=True)
            asked = {pool.submit(_ask, worker, *frame): worker for worker, frame in pairs}
            silent, began = asked.keys(), time.monotonic()
            try:
                wait(asked, return_when=FIRST_COMPLETED)
                silent = wait(asked, timeout=time.monotonic() - began + 2 * self._seconds).not_done
            finally:  # the pool waits for its threads, and these for the workers: after Ctrl-C, too
                for answer in silent:
                    asked[answer].kill()
            return [_answer_of(answer, answer in silent) for answer in asked]


def raise_if_failed(answers: Sequence[Answer]) -> None:
    """Raise CheckFailed (X0209) if a rank failed, or waits for what does not come."""
    failed = [(rank, *failure) for rank, answer in enumerate(answers) if (failure := _failure(answer[0]))]
    if failed:
        rank, _, text = min(failed, key=lambda row: (row[1], row[0]))
        raise CheckFailed(Diagnostic("X0209", f"rank {rank} of the run over TCP failed: {text}"))


def _start_worker(prefix: Sequence[str], module: str) -> subprocess.Popen[bytes]:
    # One thread for NumPy: ranks are many. With -P, nothing in the current folder is imported.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    code = f"import sys; sys.path.append(sys.argv[1]); from collc.runtime.frames import serve; serve('{module}')"
    command = [*prefix, sys.executable, "-P", "-c", code, str(Path(__file__).parents[3])]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _ask(worker: subprocess.Popen[bytes], values: dict[str, Any], data: bytes) -> Answer:
    assert worker.stdin is not None
    assert worker.stdout is not None
    write_frame(worker.stdin, values, data)
    return read_frame(worker.stdout)


def _answer_of(answer: Future[Answer], silent: bool) -> Answer:
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
