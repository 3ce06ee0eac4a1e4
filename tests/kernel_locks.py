"""Test workers share compiled kernels: while one compiles a kernel, the others wait and load it from Numba's cache."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FOLDER = Path(tempfile.gettempdir()) / "collc-test-locks"


@contextmanager
def _locked(name: str, held: set[str]) -> Generator[None]:
    """Hold the lock of a name, unless this process holds it already (kernels that call themselves)."""
    import fcntl

    if name in held:
        yield
        return
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        held.add(name)
        try:
            yield
        finally:
            held.discard(name)


def share_compiled_kernels() -> None:
    """Let one process at a time compile a given kernel. Does nothing if the system has no file locks."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return
    from numba.core.dispatcher import Dispatcher

    compile_kernel = Dispatcher.compile
    held: set[str] = set()

    def compile_alone(self: Any, signature: Any) -> Any:
        function = self.py_func
        if not function.__module__.startswith("collc."):  # Numba's own may call each other in any order
            return compile_kernel(self, signature)
        with _locked(f"{function.__module__}.{function.__qualname__}", held):
            return compile_kernel(self, signature)

    Dispatcher.compile = compile_alone
