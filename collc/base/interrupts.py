"""Handlers of signals: Ctrl-C ends a search, which keeps its best schedule; SIGTERM and SIGHUP first remove temporary
files.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

_TERMINATION_SIGNALS: Final = tuple(
    signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__
)
"""Signals that ask a process to end; Windows has no SIGHUP."""


@contextmanager
def stopping_at_interrupt() -> Generator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed. A second Ctrl-C raises KeyboardInterrupt.

    The previous handler is restored at the end. Python handles signals only in the main thread; in other threads the
    function returns False, and no handler is installed.
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield interrupted.is_set
        return

    def handle(_number: int, _frame: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted.is_set
    finally:
        signal.signal(signal.SIGINT, before)


class _Terminated(KeyboardInterrupt):
    """Raised by a termination signal, so that context managers clean up."""


@contextmanager
def cleanup_on_termination() -> Generator[None]:
    """SIGTERM and SIGHUP raise an exception inside the context, so that it cleans up; then the signal is raised again
    with its previous handler.

    Ignored signals stay ignored. Python handles signals only in the main thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if not received:
            received.append(number)
            raise _Terminated

    before = {number: signal.getsignal(number) for number in _TERMINATION_SIGNALS}
    caught = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in caught:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
