"""Tasks on processes of this machine, and how many processes and how much memory they may use.

A process that dies (of a crash, or killed because memory was short) takes no other task with it: its task is tried once
more by a new process, then given up. All processes end when this one ends, however it ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final, cast

from collc.base.memory import LEAST, free_memory, limit_memory
from collc.parallel.tasks import Lost, named_function

ATTEMPTS: Final = 2
"""How often a task is tried whose process dies."""

_THREADS: Final = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that say how many threads libraries start: one in each process, where several share the cores."""


@dataclass(frozen=True, slots=True)
class Processes:
    """How many processes (None: one for each core), and the bytes of memory of each (None: an equal part of 90 % of
    what is free).
    """

    jobs: int | None = None
    memory: int | None = None


@dataclass(eq=False)
class _Worker:
    """A process and the number of the task that it works on."""

    process: SpawnProcess
    connection: Connection[Any, Any]
    task: int = -1


@dataclass(eq=False)
class _Pool:
    function: str
    tasks: Sequence[object]
    memory: int
    workers: list[_Worker] = field(default_factory=list[_Worker])
    tried: dict[int, int] = field(default_factory=dict[int, int])

    def start(self) -> None:
        """Start one more process."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.function, self.memory), daemon=True)
        process.start()
        theirs.close()
        self.workers.append(_Worker(process, cast("Connection[Any, Any]", ours)))

    def give(self, worker: _Worker, waiting: deque[int]) -> None:
        """Give the next task to an idle process."""
        if waiting:
            worker.task = waiting.popleft()
            self.tried[worker.task] = self.tried.get(worker.task, 0) + 1
            with contextlib.suppress(OSError):  # it has died, which `take` finds
                worker.connection.send(self.tasks[worker.task])

    def take(self, worker: _Worker, waiting: deque[int]) -> tuple[int, object] | None:
        """The number and result of a task that is done; None if its process died and it will be tried again."""
        task = worker.task
        try:
            result: object = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join()
            self.workers.remove(worker)
            code = worker.process.exitcode or 0
            worker.connection.close()
            self.start()
            if self.tried[task] < ATTEMPTS:
                waiting.append(task)
                return None
            return task, Lost(_describe_exit(code))
        worker.task = -1
        return task, result

    def stop(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
            worker.connection.close()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was ended by {name}" + (", as the system does where memory is short" if -code == 9 else "")


def run_in_processes(
    function: str, tasks: Sequence[object], limits: Processes | None = None
) -> Generator[tuple[int, object]]:
    """Yield (number of the task, result) as tasks are done, in any order; a `Lost` for one without a result.

    function: the name of a function of one argument, see `named_function`; it must not raise. Closing the generator
    ends the processes.
    """
    limits = limits or Processes()
    count = max(1, min(limits.jobs or usable_cores(), len(tasks)))
    memory = limits.memory or memory_per_process(count) or 0
    pool = _Pool(function, tasks, memory)
    waiting = deque(range(len(tasks)))
    try:
        if tasks:
            for _ in range(count):
                pool.start()
        while waiting or any(worker.task >= 0 for worker in pool.workers):
            for worker in pool.workers:
                if worker.task < 0:
                    pool.give(worker, waiting)
            busy = {worker.connection: worker for worker in pool.workers if worker.task >= 0}
            for ready in wait(list(busy)):
                found = pool.take(busy[ready], waiting)  # pyright: ignore[reportArgumentType]
                if found is not None:
                    yield found
    finally:
        pool.stop()


def _work(connection: Connection[Any, Any], function: str, memory: int) -> None:
    """The life of a process: tasks in, results out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first one ends the others
    _end_with_parent()
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    if memory:
        limit_memory(memory)
    run = named_function(function)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            connection.send(run(connection.recv()))


def _end_with_parent() -> None:
    """End this process when its parent ends, also while it works on a task."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_CGROUP: Final = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its control group."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return max(1, cores)


def memory_per_process(processes: int) -> int | None:
    """Bytes that each of `processes` processes may take, at least LEAST; None if the system does not tell."""
    free = free_memory()
    return None if free is None else max(LEAST, free // processes)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
