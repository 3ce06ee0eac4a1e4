"""Ctrl-C while a schedule is synthesized: keep the best so far."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def stopping_at_interrupt() -> Generator[Callable[[], bool]]:
    """Yields what tells whether there was a first Ctrl-C; the second raises KeyboardInterrupt.

    The handler that was there is put back. Outside the main thread, where signals cannot be caught, nothing changes.
    """
    seen = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield seen.is_set
        return

    def handle(_number: int, _frame: object) -> None:
        if seen.is_set():
            raise KeyboardInterrupt
        seen.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield seen.is_set
    finally:
        signal.signal(signal.SIGINT, before)
