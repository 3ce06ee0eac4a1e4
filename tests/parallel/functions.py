"""Functions that the processes of the tests run."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path


def square(task: int) -> int:
    return task * task


def identity(_task: object) -> int:
    return os.getpid()


def ended_by_kill(task: tuple[str, int]) -> int:
    """The process is killed at task 2 always, and at task 1 the first time; each try leaves a file."""
    folder, number = task
    tries = len(list(Path(folder).glob(f"{number}.*")))
    (Path(folder) / f"{number}.{tries}").touch()
    if number == 2 or (number == 1 and not tries):
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def allocated(size: int) -> str:
    import numpy as np

    try:
        return str(np.ones(size, np.uint8)[0])
    except MemoryError:
        return "MemoryError"


def slow_square(task: tuple[str, int]) -> int:
    """Leaves a file with the number of its process, and waits for the file `go`."""
    folder, number = task
    (Path(folder) / f"{number}.{os.getpid()}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.02)
    return number * number


def waits_or_returns(task: str) -> None:
    """Waits without an end in a temporary folder, of which a file tells; for "" ends when there is such a folder."""
    parent = Path(tempfile.gettempdir())
    if not task:
        while not list(parent.glob("collc-*/file")):
            time.sleep(0.02)
        return
    with tempfile.TemporaryDirectory(prefix="collc-") as folder:
        Path(task).touch()
        (Path(folder) / "file").touch()
        time.sleep(3600)
