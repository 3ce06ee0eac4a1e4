"""What failures cost a long run, by what is done about each of them: a Monte Carlo simulation with published rates.

Failures arrive at random, each of one part. A spare takes as long to start as a job does. With a restart, the run
stands still for that time. If a failure can be worked around, the run stands still for a shorter time, goes on without
the part until the spare is ready, and stands still again while the spare joins. Three losses add up: standstill,
communication that takes longer, GPUs that are missing. Times between failures are those of undamaged work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean, stdev
from typing import Final, NamedTuple

from collc.application.fallbacks.published_rates import CAUSES, Cause, FailureRates


class State(NamedTuple):
    """How a run goes on without some parts. slowdown: of communication, 1 for none. lost: GPUs that it lacks."""

    slowdown: float
    lost: int


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is done about failures.

    name: for people. seconds: of standstill until the run goes on without the failed parts. after: how it goes on,
    given all parts that have failed; None if it can't, so that it restarts.
    """

    name: str
    seconds: float
    after: Callable[[frozenset[str]], State | None]


RESTART: Final = Recovery("restart", 0.0, lambda _failed: None)
"""A restart after each failure."""


@dataclass(frozen=True, slots=True)
class FailingParts:
    """What may fail, by name. parts: devices and links of each. causes: the parts that each cause makes fail."""

    parts: Mapping[str, tuple[frozenset[int], frozenset[tuple[int, int]]]]
    causes: Mapping[Cause, Sequence[str]]

    def without_contained(self, failed: frozenset[str]) -> frozenset[str]:
        """The failed parts, less those that have failed with the others, as the NIC of a node that failed."""
        if len(failed) < 2:
            return failed
        return frozenset(name for name in failed if not self.has_failed(name, failed - {name}))

    def has_failed(self, name: str, failed: Collection[str]) -> bool:
        """Whether a part has failed with others: its devices are among theirs, its links too or end in them."""
        dead = frozenset[int]().union(*(self.parts[each][0] for each in failed))
        cut = frozenset[tuple[int, int]]().union(*(self.parts[each][1] for each in failed))
        devices, links = self.parts[name]
        return devices <= dead and all(pair in cut or not dead.isdisjoint(pair) for pair in links)


class Event(NamedTuple):
    """A failure. time: in seconds. copy: in which copy of the network. part: what fails; None: something else."""

    time: float
    copy: int
    part: str | None


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """Draws runs of some seconds on some copies of a network, with the causes of published rates.

    enough: failures in all runs together, at least.
    """

    parts: FailingParts
    rates: FailureRates
    copies: int
    seconds: float
    seed: int = 0
    enough: int = 5000

    def runs(self, expected: float) -> list[list[Event]]:
        """Runs with this number of failures on average, each in order of time."""
        random, runs = Random(self.seed), list[list[Event]]()
        for _ in range(self._count_runs(expected)):
            times, share = list[float](), 0.0
            while (share := share - math.log(1 - random.random()) / expected) < 1:
                times.append(share)
            runs.append([self._event(share, random) for share in times])
        return runs

    def runs_with(self, failures: int) -> list[list[Event]]:
        """Runs with this number of failures each."""
        random = Random(self.seed)
        return [
            [self._event(share, random) for share in sorted(random.random() for _ in range(failures))]
            for _ in range(self._count_runs(failures))
        ]

    def _event(self, share: float, random: Random) -> Event:
        (cause,) = random.choices(CAUSES, cum_weights=self.rates.cumulative_shares)
        names = self.parts.causes.get(cause, ())
        copy, part = int(random.random() * self.copies), int(random.random() * len(names))
        return Event(share * self.seconds, copy, names[part] if names else None)

    def _count_runs(self, failures: float) -> int:
        """Runs with this number of failures each; 20 or more, for the standard error of their mean."""
        return max(20, math.ceil(self.enough / max(failures, 1)))


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over runs. failures, restarts: their numbers. stalled, slower, missing: the losses in seconds.

    error: the standard error of the sum of the losses.
    """

    failures: float
    restarts: float
    stalled: float
    slower: float
    missing: float
    error: float

    @property
    def total(self) -> float:
        """All losses, in seconds."""
        return self.stalled + self.slower + self.missing

    def as_json(self, seconds: float) -> dict[str, float]:
        """The numbers, with the slowdown of the whole run of some seconds."""
        numbers = {name: getattr(self, name) for name in ("failures", "restarts")}
        numbers |= {f"{name}_seconds": getattr(self, name) for name in ("stalled", "slower", "missing", "error")}
        return {"slowdown": 1 + self.total / seconds, **numbers}


@dataclass(slots=True)
class LongRun:
    """A run of some seconds on some GPUs, in lockstep. start, join: seconds until a job or a spare runs, and until a
    spare that runs has joined the others.
    """

    parts: FailingParts
    gpus: int
    seconds: float
    start: float
    join: float
    _after: dict[tuple[str, frozenset[str], str], tuple[frozenset[str], State | None]] = field(
        default_factory=dict[tuple[str, frozenset[str], str], tuple[frozenset[str], State | None]]
    )

    def losses(self, runs: Sequence[Sequence[Event]], recovery: Recovery) -> Losses:
        """The mean losses of some runs."""
        rows = [self._losses_of(events, recovery) for events in runs]
        restarts, stalled, slower, missing = map(fmean, zip(*rows, strict=True))
        error = stdev(sum(row[1:]) for row in rows) / math.sqrt(len(rows))
        return Losses(fmean(map(len, runs)), restarts, stalled, slower, missing, error)

    def _losses_of(self, events: Sequence[Event], recovery: Recovery) -> tuple[float, float, float, float]:
        """Of one run: restarts, and seconds of standstill, of more communication, and of all GPUs that are missing."""
        failed, since, back = dict[int, tuple[frozenset[str], State]](), 0.0, 0.0
        restarts, stalled, slower, missing = 0, 0.0, 0.0, 0.0
        for time, copy, part in (*events, Event(self.seconds, 0, None)):
            if failed:
                lasted = min(time, back) - since
                slower += (max(state.slowdown for _, state in failed.values()) - 1) * lasted
                missing += sum(state.lost for _, state in failed.values()) / self.gpus * lasted
                since = time
                if time >= back:
                    failed.clear()
                    stalled += self.join
            if time == self.seconds:
                break
            own = failed[copy][0] if copy in failed else frozenset[str]()
            dead, after = (own, None) if part is None else self._next(recovery, own, part)
            if after is None:
                restarts += 1
                stalled += self.start
                failed.clear()
            elif dead != own:
                stalled += recovery.seconds
                failed[copy] = dead, after
                since, back = time, time + self.start
        return restarts, stalled, slower, missing

    def _next(self, recovery: Recovery, failed: frozenset[str], part: str) -> tuple[frozenset[str], State | None]:
        """What has failed after one more failure, and how the run goes on."""
        key = recovery.name, failed, part
        if key not in self._after:
            new = failed if failed and self.parts.has_failed(part, failed) else failed | {part}
            new = self.parts.without_contained(new)
            self._after[key] = new, recovery.after(new)
        return self._after[key]
