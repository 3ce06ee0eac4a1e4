"""Signals: Ctrl-C keeps the best schedule so far; who is ended while files are written tidies up first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__)
"""What asks a process to end."""


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


class _Ended(KeyboardInterrupt):
    """Leaves what is being done."""


@contextmanager
def tidy_when_ended() -> Generator[None]:
    """SIGTERM and SIGHUP first leave what is inside, which tidies up, and then do what they do otherwise.

    Outside the main thread, where signals cannot be caught, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if not came:
            came.append(number)
            raise _Ended

    before = {number: signal.getsignal(number) for number in _ENDING}
    caught = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in caught:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
