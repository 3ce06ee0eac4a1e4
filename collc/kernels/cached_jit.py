"""Numba's compiler with its cache on disk, which may be damaged or impossible to write without any harm but time.

What lies in the cache is run, so that a folder that others own or can write is not used.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from numba import njit

from collc.base.memory import require_for_search

if TYPE_CHECKING:
    from numba.core.caching import FunctionCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

FIRST_KERNEL: Final = 96 << 20
"""Bytes that LLVM takes before it loads or compiles its first kernel; it ends the process if it gets none."""

NEXT_KERNEL: Final = 24 << 20
"""Bytes that it takes at most for another one."""


def jit(**options: object) -> Callable[[Kernel], Kernel]:
    """A decorator: `numba.njit` with the options. Nothing is cached if there is no folder to be written, or if others
    can write to it.
    """

    def compile_it(function: Kernel) -> Kernel:
        try:
            kernel = njit(cache=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)
        if not is_private(kernel._cache.cache_path, function.__code__.co_filename):
            return njit(**options)(function)
        kernel._cache = _ForgivingCache(kernel._cache)
        return kernel

    return compile_it


@cache
def is_private(folder: str, source: str) -> bool:
    """Whether nobody else can put code into a cache folder.

    The folder, what is in it, and all folders above it belong to this user, to root, or to the owner of the source file
    of the kernel, which is run anyway. No other can write to the folder; above it are also folders such as /tmp, in
    which only owners can rename (the sticky bit). True on Windows.
    """
    if sys.platform == "win32":
        return True
    real = Path(folder).resolve()
    owners = {0, os.geteuid(), Path(source).stat().st_uid}
    for path in (real, *real.parents):
        status = path.stat()
        shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid))
        if status.st_uid not in owners or (shared and (path == real or not status.st_mode & stat.S_ISVTX)):
            return False
    return all(path.lstat().st_uid in owners for path in real.iterdir())


def _is_own_group(number: int) -> bool:
    """Whether a group is root's, or of this user alone: many systems make such a group for each user."""
    import grp
    import pwd

    with suppress(KeyError):
        user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(number)
        return number == 0 or (group.gr_name == user and not {*group.gr_mem} - {user})
    return False


class _ForgivingCache:
    """Numba's cache of a kernel; if its files are damaged or cannot be written, the kernel is compiled again."""

    _used: ClassVar[list[bool]] = []
    """Not empty if this process has loaded a kernel."""

    def __init__(self, cache: FunctionCache) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> object:
        return getattr(self._cache, name)

    def load_overload(self, signature: object, context: object) -> object:
        """The machine code; None if there is none, or it cannot be read.

        Raises SourceError U0109 if the memory limit leaves too little to load it, or to compile the kernel.
        """
        require_for_search(NEXT_KERNEL if self._used else FIRST_KERNEL, "compiled functions", always=True)
        self._used.append(True)
        return self._read(signature, context)

    def _read(self, signature: object, context: object) -> object:
        try:
            return self._cache.load_overload(signature, context)
        except Exception:  # pickle and LLVM raise of everything
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, signature: object, data: object) -> None:
        """Keep the machine code for the next process, if the folder can be written."""
        with suppress(Exception):
            self._cache.save_overload(signature, data)
