"""The time limit of one schedule: how long each phase of its compilation may still take."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime, ended_after

ALLOWANCE: Final = 2.0
"""Seconds after the time limit in which the schedule that was found is bounded, checked and written."""

SHARE: Final = 0.1
"""The same, as a share of the time limit: large networks have long limits."""


@dataclass(slots=True)
class BuildClock:
    """seconds: the time limit of the search, counted from the creation of this object; None: there is none.

    used: seconds of it that are used up before. reserved: how much earlier the search ends, for what may have to be
    planned then. When the search has ended, there is what is left of the limit, and ALLOWANCE and SHARE, counted as
    processor time; of what is reserved only the processor time is missing that the search took over its limit, since a
    busy machine takes longer to end it.
    """

    seconds: float | None
    reserved: float = 0.0
    used: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _rest: float = 0.0
    _cpu: float = 0.0
    _over: float = 0.0

    def __post_init__(self) -> None:
        self._began -= self.used

    def end_search(self) -> None:
        """Begin to count the time after the search."""
        if self.seconds is not None:
            left = max(self._began + self.seconds - time.monotonic(), self.reserved - self._over, 0.0)
            allowed = max(ALLOWANCE / 2, ALLOWANCE - (0.0 if left else self._over))
            self._rest, self._cpu = left + allowed + SHARE * self.seconds, time.process_time()

    def left(self) -> float:
        """Seconds of processor time that are left after the search, for all but proofs."""
        return self._rest - (time.process_time() - self._cpu)

    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.seconds is not None and self.left() <= 0

    @contextmanager
    def paused(self) -> Generator[None]:
        """What happens inside has a time limit of its own and is not counted."""
        began = time.process_time()
        try:
            yield
        finally:
            self._cpu += time.process_time() - began

    @contextmanager
    def preparing(self, what: str) -> Generator[None]:
        """What comes before the search: NoSchedule S0202 where that takes longer than the limit."""
        try:
            with ended_after(None if self.seconds is None else self.seconds - self.used):
                yield
        except OutOfTime:
            raise NoSchedule(self.over(what, "nothing was written")) from None

    @contextmanager
    def searching(self) -> Generator[None]:
        """Ends a search that does not stop by itself: OutOfTime. What it takes over its limit is not there later."""
        with ended_after(None if self.seconds is None else self.seconds - self.reserved - self.used) as used:
            try:
                yield
            finally:
                self._over = used()

    def finishing(self, *, but: float = 0.0, least: float = 0.01) -> AbstractContextManager[object]:
        """Ends what comes after the search when it has used what is left: OutOfTime.

        but: seconds that are kept for what comes then, half of what is left at most. least: what it has in any case.
        """
        if self.seconds is None:
            return nullcontext()
        return ended_after(0.0, max(least, self.left() - min(but, self.left() / 2)))

    def sparing(self, but: float) -> AbstractContextManager[object]:
        """Ends what can be left out when it has used half of what is left, or all but what is needed: OutOfTime.

        but: seconds that are kept for what cannot be left out.
        """
        if self.seconds is None:
            return nullcontext()
        return ended_after(0.0, max(0.01, min(self.left() / 2, self.left() - but)))

    @contextmanager
    def keeping(self, what: str, *, but: float = 0.0, least: float = 0.01) -> Generator[None]:
        """Run a phase without which nothing can be written. Raises NoSchedule S0202 where its time is over."""
        try:
            with self.finishing(but=but, least=least):
                yield
        except OutOfTime:
            raise NoSchedule(self.over(what, "nothing was written")) from None

    def between(self) -> NoSchedule:
        """The error S0202 where OutOfTime was raised as one phase ended and before the next one began."""
        return NoSchedule(self.over("the next phase began", "nothing more was written"))

    def over(self, what: str, so: str) -> Diagnostic:
        """The message S0202: the time was over while something was done, and what follows."""
        limit = "after Ctrl-C" if self.seconds is None else f"at the time limit of {self.seconds:g} s"
        message = f"stopped {limit} while {what}: {so}"
        return Diagnostic("S0202", message, hint="give it more time with --time-limit, or use a smaller network")
