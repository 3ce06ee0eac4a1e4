"""Least steps by SMT (Cai et al., "Synthesizing Optimal Collective Algorithms", SCCL), for small cases.

For every number of steps from the lower bound on, Z3 is asked for a schedule; the first that exists is
optimal, since all smaller numbers were refuted.
"""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, alike, conditions_of
from collc.synthesis.exact.encoding import Encoding
from collc.synthesis.task import Effort, Task
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Schedule, Transfers

SECONDS = 60.0
"""How long a search takes at most where nothing else is said."""


class NoShorter(NoSchedule):
    """Z3 has shown that there is no schedule of so few steps."""


def exact(
    task: Task, effort: Effort, timeout: float | None = None, most: int | None = None, work: int | None = None
) -> Schedule:
    """A schedule of as few steps as possible, proved.

    timeout: seconds for the whole search; None: the time limit of the effort, or a minute. most: steps that it
    may have. work: what Z3 may spend on each number of steps, in its own unit, which is the same on every machine (a
    million takes about a second); None for no limit. Raises SourceError where links or chunks differ, links or
    chunks are planned already, or the network has switches; NoSchedule where the time is over, NoShorter where more
    than `most` steps are needed.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    need_steps(conditions)
    step = int(conditions.clock.total.max())
    hops = hop_table(task.network)
    conditions.far(hops[conditions.targets])
    seconds = allowed(effort) if timeout is None else timeout
    end = monotonic() + seconds
    steps = max(1, -(-task_bound(task).time // step))
    while most is None or steps <= most:
        effort.progress(0.0, f"exact: looking for {steps} steps")
        question = Encoding(conditions, hops.tolist(), steps, effort)
        answer = question.ask(end, work)
        if answer:
            rows = question.transfers()
            return RowSchedule(task.model, replace(rows, start=rows.start * step))
        if answer is None:
            within = f"within {seconds:g} s" if monotonic() >= end else "before it was stopped"
            message = f"no schedule was found {within}; there is none of fewer than {steps} steps"
            raise NoSchedule(Diagnostic("S0201", message, hint="give it more time, or use another way of synthesis"))
        steps += 1
    raise NoShorter(Diagnostic("S0201", f"there is no schedule of {most} steps: it takes {steps} at least"))


def allowed(effort: Effort) -> float:
    """Seconds that a search may take."""
    return SECONDS if effort.time_limit is None else effort.time_limit


def hop_table(network: Network) -> Int64Array:
    """int64[devices, devices]: links on a shortest path to the row from the column, UNREACHABLE for none."""
    one = np.ones(network.link_count, np.int64)
    return distances_to(Digraph.of(network), one, np.arange(network.device_count, dtype=np.int32))


def need_steps(conditions: Conditions) -> None:
    """Raises SourceError where a problem has no equal steps, or is not free from the start."""
    task = conditions.task
    network = task.network
    reason = ""
    if not alike(conditions):
        reason = "links and chunks that all take equal time, with link model 'store'"
    elif network.has_switches:
        reason = "direct links; unwind the switches"
    elif conditions.release.any() or (task.reserved is not None and len(task.reserved)):
        reason = "all links and chunks free from the start"
    if reason:
        raise SourceError(Diagnostic("S0304", f"exact search needs {reason}", hint="use auto, tacos or pccl instead"))
