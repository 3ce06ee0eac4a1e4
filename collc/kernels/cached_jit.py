"""Numba's compiler with its cache on disk, which may be damaged or impossible to write without any harm but time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from numba import config, njit
from numba.core.runtime import rtsys
from numba.core.types import unliteral

from collc.base.memory import require_for_search
from collc.base.trusted_folders import UntrustedFolder, is_trusted

if TYPE_CHECKING:
    from numba.core.caching import FunctionCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

FIRST_KERNEL: Final = 96 << 20
"""Bytes that LLVM takes before it loads or compiles its first kernel; it ends the process if it gets none."""

NEXT_KERNEL: Final = 24 << 20
"""Bytes that it takes at most for another one."""


def jit(**options: object) -> Callable[[Kernel], Kernel]:
    """A decorator: `numba.njit` with the options.

    Nothing is cached if there is no folder that can be written, or if others can write to it.
    """

    def compile_it(function: Kernel) -> Kernel:
        if config.CACHE_DIR and not _may_run(config.CACHE_DIR):  # Numba makes a folder in it
            return njit(**options)(function)
        try:
            kernel = njit(cache=True, no_cfunc_wrapper=True, **options)(function)
        except RuntimeError:
            return njit(**options)(function)
        if not _may_run(kernel._cache.cache_path):
            return njit(**options)(function)
        file = kernel._cache._cache_file
        file._source_stamp = file._source_stamp, _stamps_of_folder()
        kernel._cache = _ForgivingCache(kernel._cache)
        return kernel

    return lambda function: _for_any_number(compile_it(function))


def jit_of_called(**options: object) -> Callable[[Kernel], Kernel]:
    """As `jit`, for a function that compiled code alone calls: what Python needs to call it takes a third of the time
    to compile. It is cached with those that call it.
    """
    return lambda function: _for_any_number(njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function))


def _for_any_number(kernel: Any) -> Any:  # noqa: ANN401
    """The kernel, which compiled callers take for numbers of any value, not anew for each constant argument."""
    template_for = kernel.get_call_template

    def get_call_template(args: Sequence[Any], kws: dict[str, Any]) -> object:
        return template_for([unliteral(arg) for arg in args], {name: unliteral(arg) for name, arg in kws.items()})

    kernel.get_call_template = get_call_template
    return kernel


@cache
def _stamps_of_folder() -> tuple[tuple[str, int, int], ...]:
    """Name, time and size of each file of this folder: a kernel is compiled with those that it calls, and Numba looks
    at its own file only. Old code that is called with the arguments of new code may crash.
    """
    stats = ((path.name, path.stat()) for path in sorted(Path(__file__).parent.glob("*.py")))
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


@cache
def _may_run(folder: str) -> bool:
    """Whether code from a cache folder may be run. Warns UntrustedFolder, once, if not."""
    if is_trusted(Path(folder)):
        return True
    message = f"compiled functions are not kept: others can write to {folder}, or replace it"
    warnings.warn(message, UntrustedFolder, stacklevel=2)
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
            rtsys.initialize(context)  # all that loading needs; the public method prepares to compile first: 0.4 s
            return self._cache._load_overload(signature, context)
        except Exception:  # pickle and LLVM raise of everything
            with suppress(Exception):
                self._cache.flush()
            return None

    def save_overload(self, signature: object, data: object) -> None:
        """Keep the machine code for the next process, if the folder can be written."""
        with suppress(Exception):
            self._cache.save_overload(signature, data)
