"""The memory that this process may take: a limit that the system keeps, and what is left of it."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError, Span

try:
    import resource
except ImportError:  # Windows has none
    resource = None

SHARE: Final = 0.9
"""The share of the free memory that is taken at most; the rest is left to others."""

LEAST: Final = 1 << 28
"""Bytes of the smallest limit: Python and NumPy need about half of them."""

SMALL: Final = 1 << 26
"""Bytes that are not asked for: counting what is taken costs time too."""

CGROUP: Final = Path("/sys/fs/cgroup")


def free_memory(share: float = SHARE) -> int | None:
    """A share of the bytes that the machine, or its control group, has left; None if the system does not say."""
    free: int | None = None
    for line in text_of_system(Path("/proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            free = int(rest.split()[0]) * 1024
    limit, used = text_of_system(CGROUP / "memory.max"), text_of_system(CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        left = int(limit) - int(used)
        free = left if free is None else min(free, left)
    return None if free is None else max(1, int(free * share))


def limit_memory(size: int) -> None:
    """Limit the memory of this process to `size` bytes: then MemoryError. Nothing if the system cannot."""
    if resource is None:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


@contextmanager
def limited_memory(size: int | None) -> Generator[None]:
    """Limit what runs inside to `size` bytes; None: to what is free now, unless there is a limit already."""
    if resource is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if size is None and before[0] == resource.RLIM_INFINITY:
        free = free_memory()
        size = None if free is None else max(LEAST, free + _taken_bytes())
    if size is not None:
        limit_memory(size)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def memory_limit() -> int | None:
    """Bytes that this process may have; None if there is no limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def memory_left() -> int | None:
    """Bytes that this process may still take; None if there is no limit."""
    limit = memory_limit()
    return None if limit is None else max(0, limit - _taken_bytes())


def require(size: int, what: str, hint: str, at: Span | None = None, *, always: bool = False) -> None:
    """Raise SourceError U0109 if `size` bytes are more than the memory limit leaves, before they are allocated.

    what: what needs them, as in "5,000,000 chunks". hint: what to change. at: the place in the program.
    always: also if they are few.
    """
    limit = memory_limit() if always or size > SMALL else None
    left = None if limit is None else memory_left()
    if limit is None or left is None or size <= left:
        return
    message = f"{what} need about {gibibytes(size)} of memory, more than is left of {gibibytes(limit)}"
    raise SourceError(Diagnostic("U0109", message, at, hint=f"{hint}, or allow more with --memory-limit"))


def require_for_search(size: int, what: str, *, always: bool = False) -> None:
    """Raise SourceError U0109 if the main arrays of a search need more bytes than are left, before they are made.

    what: what they hold, as in "distances of 10,000 devices from 10,000 NPUs".
    """
    require(size, what, "use fewer chunks, a smaller network or another synthesizer", always=always)


def gibibytes(size: int) -> str:
    """Bytes as GiB, or as MiB if they are fewer."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"


def _taken_bytes() -> int:
    """Bytes of data that this process has, as the system counts them for its limit."""
    for line in text_of_system(Path("/proc/self/status")).splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def text_of_system(path: Path) -> str:
    """The text of a file with numbers of the system; "" if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@contextmanager
def without_collection() -> Generator[None]:
    """Run a block without that search: syntax trees, programs and plans have no cycles, and large ones are searched
    again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
