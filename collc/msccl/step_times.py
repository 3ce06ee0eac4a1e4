"""The waits of a program as edges between tasks of the simulator, one task for each step."""

from __future__ import annotations

import numpy as np

from collc.runtime.replay import StepWaits
from collc.simulation.tasks import DONE, SENT, START, Edges
from collc.ten.arrays import Int64Array


def step_edges(waits: StepWaits, capacity: int) -> Edges:
    """Program order, dependencies, messages, and room on connections.

    A step starts when its threadblock has done the step before, its dependency is met, its message has arrived and its
    connection has room: when the receiver takes the message that came `capacity` messages before. A threadblock that
    sends is busy until the message has entered its first link.
    """
    tb, first = np.array(waits.tb, np.int64), np.array(waits.first, np.int64)
    later = np.flatnonzero(np.arange(len(tb)) > first[tb])
    on = np.array(waits.needs_tb, np.int64)
    waiting = np.flatnonzero(on >= 0)
    awaited = first[on[waiting]] + np.array(waits.needs_step, np.int64)[waiting]
    before, after = np.concatenate([later - 1, awaited]), np.concatenate([later, waiting])
    order = np.argsort(after, kind="stable")
    out, connection = _sort_by_connection(waits.sends)
    into, _ = _sort_by_connection(waits.receives)
    full = np.flatnonzero(np.arange(len(out)) - np.searchsorted(connection, connection) >= capacity)
    return Edges.join(
        [
            Edges.all_of(before[order].astype(np.int32), after[order].astype(np.int32), SENT),
            Edges.all_of(out.astype(np.int32), into.astype(np.int32), DONE),
            Edges.all_of(into[full - capacity].astype(np.int32), out[full].astype(np.int32), START),
        ]
    )


def _sort_by_connection(connections: list[int]) -> tuple[Int64Array, Int64Array]:
    """The steps with a connection, in order of it and of time, and the connection of each."""
    column = np.array(connections, np.int64)
    steps = np.flatnonzero(column >= 0)
    steps = steps[np.argsort(column[steps], kind="stable")]
    return steps, column[steps]
