"""What the times of a schedule say: its steps, its queues, and whether it is faster than a bound allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from collc.base.units import format_time
from collc.base.wording import plural
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.schedule import LinkModel


class ImpossibleTime(Exception):
    """A fault of collc: a time below a proved lower bound."""


def check_possible(name: str, time: int | None, *bounds: tuple[int | None, object]) -> None:
    """Raise ImpossibleTime if a time (picoseconds) is below one of some bounds, each with what sets it."""
    for least, what in bounds:
        if time is not None and least is not None and time < least:
            checked = f"'{name}' passed all checks in {format_time(time)}"
            raise ImpossibleTime(f"{checked}, but nothing can take less than {format_time(least)} ({what})")


def step_count(module: Module, time: int) -> int | None:
    """Number of steps in `time` picoseconds, each of latency + size / bandwidth; None if there are no steps.

    That is if links or chunks differ, if there are none, if the link model is not `store`, or if `time` is not a
    multiple of one step.
    """
    network = module.network
    used = np.unique(network.kind)
    if module.model is not LinkModel.STORE or len({network.kinds[int(kind)] for kind in used}) != 1:
        return None  # before the chunks of a large demand are listed
    sizes = module.demand.chunks.size
    if not len(sizes) or sizes.min() != sizes.max():
        return None
    step = int(network.latencies[used[0]] + network.occupancy(sizes[:1])[int(used[0]), 0])
    return time // step if step and time % step == 0 else None


def ends_of_runs(demand: Demand, times: Sequence[int]) -> str:
    """A remark on when the first and the last runs of a schedule end; "" if all end at once.

    times: picoseconds of each run.
    """
    if len(set(times)) < 2:
        return ""
    first, last = min(times), max(times)
    ends = times.index(first), len(times) - 1 - times[::-1].index(last)
    names = [f"{run.collective} over {plural(len(run.group), 'NPU')}" for run in map(demand.runs.__getitem__, ends)]
    return f"the first run ends at {format_time(first)} ({names[0]}), the last one at {format_time(last)} ({names[1]})"


def queueing_note(module: Module) -> str:
    """A remark on the queues of links; "" if no message waits."""
    assert module.schedule is not None
    rows = module.schedule.transfers
    if rows.messages is None:
        return ""
    waited = np.where(rows.messages.number >= 0, rows.start - rows.messages.ready, 0)
    if not waited.any():
        return ""
    links = len(np.unique(rows.link[waited > 0]))
    longest = format_time(int(waited.max()))
    total = format_time(int(waited.sum()))
    return f"congestion: messages queue at {plural(links, 'link')}, the longest for {longest}, all together for {total}"
