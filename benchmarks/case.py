"""A benchmark case: the measurement, its target, and whether the target is met."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collc.synthesis.bounds import lower_bound
from collc.synthesis.task import Task
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Schedule, StepSchedule
from collc.verification.schedule_check import verify_schedule

NO_VALUE = float("nan")


@dataclass(frozen=True, slots=True)
class Target:
    """Upper limits; None for no limit.

    reached: time of the schedule, in the unit of the case. ratio: `reached` by its bound. mib: peak memory in MiB.
    """

    seconds: float | None = None
    reached: float | None = None
    ratio: float | None = None
    mib: int | None = None

    def text(self) -> str:
        """The target as text for the table."""
        parts = [f"<= {self.reached:g}"] if self.reached is not None else []
        parts += [f"<= {self.ratio:g} LB" if self.ratio > 1 else "LB"] if self.ratio is not None else []
        parts += [f"< {self.seconds:g} s"] if self.seconds is not None else []
        parts += [f"< {self.mib} MiB"] if self.mib is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case.

    wall, cpu: seconds. mib: peak memory of the process in MiB.

    reached, bound: time of the schedule and its lower bound in `unit`; NaN if there are none.
    verified: None if there is nothing to verify.
    """

    wall: float
    cpu: float
    mib: int
    reached: float = NO_VALUE
    bound: float = NO_VALUE
    unit: str = ""
    verified: bool | None = None
    note: str = ""

    @property
    def seconds(self) -> float:
        """The smaller of both times: other processes lengthen wall time, threads lengthen CPU time."""
        return min(self.wall, self.cpu)

    def meets(self, target: Target) -> bool:
        """Whether no limit is exceeded and the schedule is not wrong."""
        return (
            self.verified is not False
            and (target.seconds is None or self.seconds < target.seconds)
            and (target.reached is None or self.reached <= target.reached + 1e-6)
            and (target.ratio is None or self.reached <= target.ratio * self.bound * (1 + 1e-9))
            and (target.mib is None or self.mib < target.mib)
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a suite. run: compiles the kernels, then measures. large: runs only with `--large`."""

    name: str
    run: Callable[[], Result]
    target: Target = Target()
    large: bool = False


class Watch:
    """A stop watch: times since its creation, and peak memory."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float, int]:
        """Wall-clock seconds, CPU seconds of all threads, MiB."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        return time.perf_counter() - self._wall, time.process_time() - self._cpu, peak


def task_of(network: Network, demand: Demand, model: LinkModel = LinkModel.STORE) -> Task:
    """The task of planning all chunks of a demand."""
    return Task(network, demand, model, np.arange(len(demand.chunks), dtype=np.int32))


def measure(
    plan: Callable[[], Schedule], network: Network, demand: Demand, model: LinkModel = LinkModel.STORE
) -> Result:
    """Plan a schedule, verify it and compute its bound; only planning is timed."""
    assert len(demand.chunks)  # expands patterns before the clock starts
    watch = Watch()
    schedule = plan()
    wall, cpu, mib = watch.read()
    verified = verify_schedule(Module("case", network, demand, model).with_schedule(schedule, "")).ok
    bound = lower_bound(network, demand, model).time
    reached = schedule.collective_time(network, demand)
    uniform = len(network.kinds) == 1 and len(np.unique(demand.chunks.size)) == 1 and model is LinkModel.STORE
    if uniform:
        step = int(network.occupancy(demand.chunks.size[:1])[0, 0] + network.latencies[0])
        return Result(wall, cpu, mib, reached / step, bound / step, "steps", verified, _layout(schedule))
    return Result(wall, cpu, mib, reached / 1e6, bound / 1e6, "us", verified)


def _layout(schedule: Schedule) -> str:
    return "" if isinstance(schedule, StepSchedule) else "rows"
