"""How many processes and how much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CGROUP: Final = Path("/sys/fs/cgroup")

SHARE: Final = 0.9
"""The share of the free memory that all processes together may take."""


def usable_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its control group."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return max(1, cores)


def memory_per_process(processes: int) -> int | None:
    """Bytes that each of so many processes may take; None where the system does not say what is free."""
    free: int | None = None
    for line in _read(Path("/proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            free = int(rest.split()[0]) * 1024
    limit, used = _read(_CGROUP / "memory.max"), _read(_CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        left = int(limit) - int(used)
        free = left if free is None else min(free, left)
    return None if free is None else max(1, int(free * SHARE)) // processes


def limit_memory(size: int) -> None:
    """Let this process take at most so many bytes more; beyond that, MemoryError. Without effect where unsupported."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
