"""Handlers of signals: the first Ctrl-C, SIGTERM or SIGHUP ends a search, which keeps its best schedule; a clock ends
what does not stop when it is asked to; elsewhere SIGTERM and SIGHUP first remove temporary files.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from collc.base.diagnostics import CollcError

_TERMINATION_SIGNALS: Final = tuple(
    signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__
)
"""Signals that ask a process to end; Windows has no SIGHUP."""


GRACE: Final = 1.0
"""Seconds of processor time after a time limit, or after Ctrl-C, for what runs to stop by itself."""

_BUSY: Final = 5.0
"""A machine that is busy with other processes gives this one that part of a processor, or what runs is ended anyway."""


_CALLBACKS: Final = frozenset({"_raw_object_cache_notify", "_raw_object_cache_getbuffer"})
"""Functions that llvmlite's compiler calls."""


class OutOfTime(BaseException):
    """Raised in the main thread, wherever it is, when the time of `ended_after` is over."""


@dataclass(slots=True)
class _Clock:
    """Handler of SIGALRM, which counts `grace` seconds of processor time from the first signal on. imports: those that
    run when it is made.
    """

    grace: float
    imports: int
    over: bool = False
    raised: bool = False
    _cpu: float = 0.0
    _wall: float = 0.0

    def start(self, seconds: float) -> None:
        """Let the grace begin after that many seconds."""
        self._wall = 0.0
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        """Count on, or raise OutOfTime; nothing if what it waits for is over, since the signal may come late."""
        if self.over:
            return
        cpu, wall = time.process_time(), time.monotonic()
        if not self._wall:
            self._cpu, self._wall = cpu, wall
        left = self.grace - (cpu - self._cpu)
        if left <= 0 or wall - self._wall > _BUSY * self.grace:
            if _in_callback(frame) or _running_imports(frame) > self.imports:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                return
            signal.setitimer(signal.ITIMER_REAL, GRACE)  # again: a callback of C code may swallow the first one
            self.raised = True
            raise OutOfTime
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.01))


def _in_callback(frame: FrameType | None) -> bool:
    """Whether llvmlite runs, or has called the function that runs: in a callback an exception is printed and lost, and
    an object of llvmlite that is half made prints a traceback when it is deleted.
    """
    while frame is not None:
        if frame.f_code.co_name in _CALLBACKS or str(frame.f_globals.get("__name__")).startswith("llvmlite."):
            return True
        frame = frame.f_back
    return False


def _running_imports(frame: FrameType | None) -> int:
    """Calls of the import system that run: a module whose import is broken off can be half made in the next one."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == "<frozen importlib._bootstrap>"
        frame = frame.f_back
    return count


@contextmanager
def _never_lost() -> Generator[None]:
    """OutOfTime that Python cannot raise, as in the finalizer of an object, is raised again soon, not printed."""
    before = sys.unraisablehook

    def handle(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, OutOfTime):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            before(lost)

    sys.unraisablehook = handle
    try:
        yield
    finally:
        sys.unraisablehook = before


def _has_clock() -> bool:
    """Whether the clock can be used: in the main thread, on a system that has it, if nobody else uses it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return False
    return signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@contextmanager
def ended_after(seconds: float | None, grace: float = GRACE) -> Generator[None]:
    """What runs inside is ended by OutOfTime after that many seconds and `grace` seconds of processor time.

    seconds: None: only after a Ctrl-C. If the processor is busy with others, the grace takes up to _BUSY times as
    long. Compiled code and C code end when they return to Python. Does nothing in other threads, on Windows, and if
    the clock of the process (ITIMER_REAL) is in use. If C code, as NumPy's, takes OutOfTime for an error of its own and
    raises another one, OutOfTime is raised all the same.
    """
    if not _has_clock():
        yield
        return
    clock = _Clock(grace, _running_imports(inspect.currentframe()))
    signal.signal(signal.SIGALRM, clock)
    if seconds is not None:
        clock.start(seconds)
    try:
        with _never_lost():
            yield
    except CollcError:
        raise
    except Exception as error:
        if clock.raised:
            raise OutOfTime from error
        raise
    finally:
        clock.over = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@contextmanager
def waiting_for_others() -> Generator[None]:
    """What runs inside waits for other processes, and takes no processor time: `ended_after` gives it no grace."""
    clock = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
    if not isinstance(clock, _Clock):
        yield
        return
    before, clock.grace = clock.grace, 0.0
    try:
        yield
    finally:
        clock.grace = before


@contextmanager
def stopping_at_signals() -> Generator[Callable[[], bool]]:
    """Yield a function that says whether a signal came: Ctrl-C, SIGTERM or SIGHUP. The second one raises
    KeyboardInterrupt.

    The previous handlers are restored at the end; SIGTERM and SIGHUP stay ignored if they were. Python handles signals
    only in the main thread; in other threads the function returns False, and no handler is installed.
    """
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield interrupted.is_set
        return

    def interrupt(_number: int, _frame: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        clock = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
        if isinstance(clock, _Clock) and not clock.over:
            clock.grace = GRACE
            clock.start(0)

    terminations = _caught_terminations()
    signal.signal(signal.SIGINT, interrupt)
    for number in terminations:
        signal.signal(number, _raise_interrupt)  # Z3 catches SIGINT while it works, and no other signal
    try:
        yield interrupted.is_set
    finally:
        for number, handler in {signal.SIGINT: before, **terminations}.items():
            signal.signal(number, handler)


def _caught_terminations() -> dict[signal.Signals, Any]:
    """The handlers of the termination signals that are not ignored and do not end a search."""
    left = (signal.SIG_IGN, None, _raise_interrupt)
    return {number: handler for number in _TERMINATION_SIGNALS if (handler := signal.getsignal(number)) not in left}


def _raise_interrupt(_number: int, _frame: object) -> None:
    signal.raise_signal(signal.SIGINT)


class _Terminated(KeyboardInterrupt):
    """Raised by a termination signal, so that context managers clean up."""


@contextmanager
def cleanup_on_termination() -> Generator[None]:
    """SIGTERM and SIGHUP raise an exception inside the context, so that it cleans up; then the signal is raised again
    with its previous handler.

    Ignored signals stay ignored, and inside `stopping_at_signals` nothing changes. Python handles signals only in the
    main thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if not received:
            received.append(number)
            raise _Terminated

    caught = _caught_terminations()
    for number in caught:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])
