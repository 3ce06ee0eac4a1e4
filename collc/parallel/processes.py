"""Tasks on processes of this machine or on a Dask cluster, and how many processes and how much memory they may use.

A process that dies (of a crash, or killed because memory was short) takes no other task with it: its task is tried once
more by a new process, then given up. All processes end when this one ends, however it ends.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any, Final, cast

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.interrupts import cleanup_on_termination, waiting_for_others
from collc.base.memory import CGROUP, LEAST, free_memory, limit_memory, text_of_system
from collc.base.wording import plural

if TYPE_CHECKING:
    from collc.parallel.journal import Journal

ATTEMPTS: Final = 2
"""How often a task is tried whose process dies."""

_THREADS: Final = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that say how many threads libraries start: one in each process, since several share the cores."""


CONNECT_SECONDS: Final = 10.0
"""How long to wait for an answer of the scheduler."""


@dataclass(frozen=True, slots=True)
class Processes:
    """The processes or the cluster that run tasks.

    jobs: processes; None: one for each core. memory: bytes of each; None: an equal part of 90 % of what is free.
    scheduler: the address of a Dask scheduler, to use its workers in place of processes.
    """

    jobs: int | None = None
    memory: int | None = None
    scheduler: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """A task without a result: its process ended each time that it was tried. reason: in words."""

    reason: str


def named_function(name: str) -> Callable[[Any], Any]:
    """The function of a module, as in "collc.application.sweep.sweep_case:run_case": a new process finds it by name."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def results_of(
    function: str,
    tasks: Mapping[str, object],
    where: Processes,
    progress: Callable[[float, str], None],
    noun: str,
    journal: Journal | None = None,
) -> dict[str, Any]:
    """The result of each task, or `Lost`, by key; tasks that the journal has are not run again.

    function: the name of a function of one argument, which must not raise. noun: what the progress counts.
    """
    results = {key: journal.done[key] for key in tasks if key in journal.done} if journal is not None else {}
    waiting = [key for key in tasks if key not in results]

    def report() -> None:
        progress(len(results) / max(1, len(tasks)), f"{len(results)} of {plural(len(tasks), noun)}")

    report()
    if where.scheduler is None:
        running = run_in_processes(function, [tasks[key] for key in waiting], where)
    else:
        running = run_on_cluster(function, [tasks[key] for key in waiting], where.scheduler)
    with closing(running), waiting_for_others():
        for number, result in running:
            results[waiting[number]] = result
            if journal is not None and not isinstance(result, Lost):
                journal.add(waiting[number], result)
            report()
    return results


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"its process was ended by {name}" + (", as the system does if memory is short" if -code == 9 else "")


def run_in_processes(
    function: str, tasks: Sequence[object], limits: Processes | None = None
) -> Generator[tuple[int, object]]:
    """Yield (number of the task, result) as tasks are done, in any order; a `Lost` for one without a result.

    function: the name of a function of one argument, see `named_function`; it must not raise. A process that may start
    no others runs the tasks itself. Closing the generator ends the processes, however busy they are; so their temporary
    files are in a folder that is removed here.
    """
    with cleanup_on_termination(), tempfile.TemporaryDirectory(prefix="collc-", ignore_cleanup_errors=True) as folder:
        yield from _run_in_processes(function, tasks, limits, folder)


def _run_in_processes(
    function: str, tasks: Sequence[object], limits: Processes | None, folder: str
) -> Generator[tuple[int, object]]:
    """Yield as `run_in_processes` does. folder: for temporary files of the processes."""
    if multiprocessing.current_process().daemon:  # such as a worker of a pool, which may start no process
        yield from enumerate(map(named_function(function), tasks))
        return
    limits = limits or Processes()
    count = max(1, min(limits.jobs or usable_cores(), len(tasks)))
    memory = limits.memory or memory_per_process(count) or 0
    waiting, tried = deque(range(len(tasks))), Counter[int]()
    idle: list[tuple[Connection[Any, Any], SpawnProcess]] = []
    working: dict[Connection[Any, Any], tuple[SpawnProcess, int]] = {}
    try:
        while waiting or working:
            while waiting and len(working) < count:
                connection, process = idle.pop() if idle else _start_process(function, memory, folder)
                task = waiting.popleft()
                tried[task] += 1
                working[connection] = process, task
                with contextlib.suppress(OSError):  # it has died, which `recv` finds
                    connection.send(tasks[task])
            for connection in wait(list(working)):
                assert isinstance(connection, Connection)
                process, task = working.pop(connection)
                try:
                    result: object = connection.recv()
                    idle.append((connection, process))
                except (EOFError, OSError):
                    process.join()
                    connection.close()
                    if tried[task] < ATTEMPTS:
                        waiting.append(task)
                        continue
                    result = Lost(_describe_exit(process.exitcode or 0))
                yield task, result
    finally:
        processes = [*(process for _, process in idle), *(process for process, _ in working.values())]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _start_process(function: str, memory: int, folder: str) -> tuple[Connection[Any, Any], SpawnProcess]:
    """A new process that runs tasks, and the connection to it."""
    context = multiprocessing.get_context("spawn")
    pipe: tuple[Any, Any] = context.Pipe()
    ours, theirs = pipe
    process = context.Process(target=_work, args=(theirs, function, memory, folder), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(connection: Connection[Any, Any], function: str, memory: int, folder: str) -> None:
    """The life of a process: tasks in, results out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first one ends the others
    _end_with_parent()
    tempfile.tempdir = folder
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


def usable_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its control group."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota, _, period = text_of_system(CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return max(1, cores)


def memory_per_process(processes: int) -> int | None:
    """Bytes that each of `processes` processes may take, at least LEAST; None if the system does not tell."""
    free = free_memory()
    return None if free is None else max(LEAST, free // processes)


# A Dask cluster. The package `distributed` is an extra: pip install 'collc[sweep]'.


def _import_distributed() -> Any:  # noqa: ANN401 (the package has no types)
    """Dask's package. Raises UsageError U0141 if it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        hint = "install it with: python -m pip install 'collc[sweep]'"
        raise UsageError(Diagnostic("U0141", "--scheduler needs the package 'distributed'", hint=hint)) from error


def run_on_cluster(function: str, tasks: Sequence[object], address: str) -> Generator[tuple[int, object]]:
    """Yield (number of the task, result) as tasks are done, in any order, as `run_in_processes` does.

    The workers need collc. A task whose worker dies goes to another one; Dask gives it up when several workers died of
    it. Raises UsageError U0142 if no scheduler answers at the address.
    """
    distributed = _import_distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = "start one with 'dask scheduler --host 127.0.0.1', and workers with 'dask worker tcp://127.0.0.1:8786'"
        message = f"no Dask scheduler answers at {address}"
        raise UsageError(Diagnostic("U0142", message, hint=hint)) from error
    with client:
        futures = {
            client.submit(named_function(function), task, pure=False): number for number, task in enumerate(tasks)
        }
        for future in distributed.as_completed(list(futures), loop=client.loop):
            number = futures.pop(future)
            # A result can be lost with the worker that keeps it: then `result` waits until it is computed again.
            error = future.exception()
            yield number, Lost(f"the cluster gave it up: {error}") if error else cast("object", future.result())
            future.release()
