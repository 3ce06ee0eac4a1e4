"""Tasks on a Dask cluster: a scheduler and two workers on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from collc.parallel.processes import Lost, run_on_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="'distributed' is not installed"),
]

ROOT = Path(__file__).parent.parent.parent
SECONDS = 120


class Cluster:
    """A scheduler and workers, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self.scheduler = self.start("distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard")
        wait_for(self.file.exists)
        self.workers = [self.worker(), self.worker()]

    def start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", module, "--scheduler-file", str(self.file), *words]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=environment, cwd=self.folder, stdout=log, stderr=log)

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    made.stop()


def wait_for(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_worker_that_is_killed_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Both workers are in the middle of a task when one of them is killed: its task goes to the other one."""
    work = tmp_path / "work"
    work.mkdir()
    results = run_on_cluster(
        "tests.parallel.functions:slow_square", [(str(work), n) for n in range(8)], cluster.address
    )
    found: list[tuple[int, object]] = []
    collector = threading.Thread(target=lambda: found.extend(results))
    collector.start()
    wait_for(lambda: len({path.name.partition(".")[2] for path in work.glob("[0-9].*")}) == 2)
    cluster.workers[0].kill()
    cluster.workers[0].wait()
    (work / "go").touch()
    collector.join(SECONDS)
    assert not collector.is_alive()
    assert dict(found) == {n: n * n for n in range(8)}
    assert len(found) == 8
    tries = [path.name.partition(".")[0] for path in work.glob("[0-9].*")]
    assert len(tries) == 9, "the task of the killed worker was tried twice"


def test_a_task_that_kills_workers_is_given_up(cluster: Cluster, tmp_path: Path) -> None:
    """Dask starts no new workers by itself here, so more of them join."""
    cluster.workers += [cluster.worker() for _ in range(4)]
    tasks = [(str(tmp_path), n) for n in (0, 2, 3)]
    found = dict(run_on_cluster("tests.parallel.functions:ended_by_kill", tasks, cluster.address))
    assert isinstance(found.pop(1), Lost)
    assert found == {0: 0, 2: 3}


def test_the_command_gives_the_same_table_as_on_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    """The workers run in another folder, and get the program and what it imports sent."""
    (tmp_path / "sizes.coll").write_text("let whole = 4MiB\n")
    (tmp_path / "p.coll").write_text(
        'import std.topologies\nimport std.collectives\nimport "sizes.coll"\nparam n: int = 2\n'
        "topology t = ring(n, bandwidth: 1GB/s, latency: 0s)\n"
        "schedule s on t { run all_gather(t.npus, size: whole) synthesize tacos }\n"
    )
    command = [sys.executable, "-m", "collc", "sweep", "p.coll", "-D", "n=2,3,4,8", "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["-o", "a.csv"], ["-o", "b.csv", "--scheduler", cluster.address]):
        done = subprocess.run(
            [*command, *words], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 1
        assert "E0218" in done.stderr
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.csv").read_text().count("\n") == 5


class LostOnce:
    """A future whose result was lost with its worker: it is pending again when it is asked, and has no error."""

    status = "pending"
    released = False

    def exception(self) -> None:
        """Dask waits until the task has run again."""

    def result(self) -> int:
        return 5

    def release(self) -> None:
        self.released = True


class OneTask:
    """A client of one task, which stands for the package, too."""

    loop = None

    def __init__(self, *_args: object, **_options: object) -> None:
        self.future = LostOnce()

    def __enter__(self) -> OneTask:
        return self

    def __exit__(self, *_args: object) -> None:
        assert self.future.released

    def submit(self, *_args: object, **_options: object) -> LostOnce:
        return self.future


def test_a_result_that_is_lost_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    package = SimpleNamespace(Client=OneTask, as_completed=lambda futures, **_options: futures)
    monkeypatch.setattr("collc.parallel.processes._import_distributed", lambda: package)
    assert list(run_on_cluster("tests.parallel.functions:square", [2], "tcp://nowhere:1")) == [(0, 5)]
