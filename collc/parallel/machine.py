"""How many processes and how much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from collc.base.memory import LEAST, free_memory

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
    """Bytes that each of `processes` processes may take, at least LEAST; None where the system does not tell."""
    free = free_memory()
    return None if free is None else max(LEAST, free // processes)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
