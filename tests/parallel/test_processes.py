"""Tasks on processes: all results, whatever happens to the processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from collc.base.interrupts import GRACE, ended_after
from collc.parallel.processes import Lost, Processes, memory_per_process, results_of, run_in_processes, usable_cores

HERE = "tests.parallel.functions"


def test_every_task_has_its_result() -> None:
    found = dict(run_in_processes(f"{HERE}:square", list(range(9)), Processes(jobs=2)))
    assert found == {n: n * n for n in range(9)}
    assert dict(run_in_processes(f"{HERE}:square", [])) == {}


def test_a_worker_of_a_pool_runs_the_tasks_itself() -> None:
    """It may start no process: multiprocessing raises an AssertionError."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(results_in_itself) == ([0, 1, 4], True)


def results_in_itself() -> tuple[list[int], bool]:
    squares = dict(run_in_processes(f"{HERE}:square", [0, 1, 2]))
    return [squares[k] for k in range(3)], dict(run_in_processes(f"{HERE}:identity", [0]))[0] == os.getpid()


def test_no_more_processes_than_asked_for() -> None:
    found = dict(run_in_processes(f"{HERE}:identity", list(range(8)), Processes(jobs=1)))
    assert len(set(found.values())) == 1
    assert os.getpid() not in found.values()


def test_a_process_that_dies_takes_no_other_task_with_it(tmp_path: Path) -> None:
    tasks = [(str(tmp_path), n) for n in range(5)]
    found = dict(run_in_processes(f"{HERE}:ended_by_kill", tasks, Processes(jobs=2)))
    lost = found.pop(2)
    assert isinstance(lost, Lost)
    assert "SIGKILL" in lost.reason
    assert found == {0: 0, 1: 1, 3: 3, 4: 4}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.0", "1.0", "1.1", "2.0", "2.1", "3.0", "4.0"]


def test_memory_is_limited() -> None:
    """Fails if the limit is not set: 4 GiB of pages that are written would be there."""
    limits = Processes(jobs=1, memory=2**30)
    found = dict(run_in_processes(f"{HERE}:allocated", [2**20, 2**32], limits))
    assert found == {0: "1", 1: "MemoryError"}


def test_the_machine_has_cores_and_memory() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    one, two = memory_per_process(1), memory_per_process(2)
    assert one is None or (two is not None and two < one)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """kill -9 of the parent: its processes end, also those that work on a task."""
    script = f"""
        from collc.parallel.processes import Processes, run_in_processes
        if __name__ == "__main__":
            tasks = [({str(tmp_path)!r}, n) for n in range(2)]
            list(run_in_processes("{HERE}:slow_square", tasks, Processes(jobs=2)))
    """
    (tmp_path / "parent.py").write_text(textwrap.dedent(script))
    root = str(Path(__file__).parent.parent.parent)
    environment = {**os.environ, "PYTHONPATH": root}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], env=environment)
    for _ in range(1500):
        children = [int(path.name.partition(".")[2]) for path in tmp_path.glob("[01].*")]
        if len(children) == 2:
            break
        time.sleep(0.02)
    assert len(children) == 2
    parent.kill()
    parent.wait()
    for _ in range(1500):
        if not any(_runs(child) for child in children):
            return
        time.sleep(0.02)
    pytest.fail("a process outlived its parent")


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_processes_that_are_ended_leave_no_temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the time limit of `tune` is over."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    busy = tmp_path / "busy"
    tasks: list[object] = ["", str(busy)]
    running = run_in_processes("tests.parallel.functions:waits_or_returns", tasks, Processes(jobs=2))
    assert next(running) == (0, None)
    assert list(temporary.iterdir())
    running.close()
    assert busy.exists()
    assert not list(temporary.iterdir())


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no clock")
def test_waiting_for_processes_needs_no_grace_after_a_time_limit() -> None:
    """It takes no processor time, in which the grace is counted: `tune` went on for 5 s."""
    graces: list[float] = []

    def progress(_share: float, _words: str) -> None:
        graces.append(getattr(signal.getsignal(signal.SIGALRM), "grace"))  # noqa: B009

    with ended_after(1000.0):
        results_of("tests.parallel.functions:square", {"a": 3}, Processes(jobs=1), progress, "task")
        progress(1.0, "")
    assert graces == [GRACE, 0.0, GRACE]
