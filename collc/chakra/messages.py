"""Which send and receive of the traces belong together, whether all nodes can run, and nodes as simulated tasks."""

from __future__ import annotations

import numpy as np

from collc.base.diagnostics import CheckFailed, Diagnostic, Note, SourceError
from collc.chakra.issue_order import issue_rules
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.tasks import DONE, Edges, TaskGraph
from collc.simulation.timing import Timing
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network


def matched_messages(traces: Traces) -> tuple[Int32Array, Int32Array]:
    """(sends, receives): int32[messages], the nodes at both ends of each message, in order of the send.

    The k-th send goes with the k-th receive of the same tag, ranks and size. Raises CheckFailed (X0506) if one of
    them is left.
    """
    rank = np.repeat(np.arange(traces.ranks), np.diff(traces.first))
    sends = np.flatnonzero(traces.kind == NodeType.SEND)
    receives = np.flatnonzero(traces.kind == NodeType.RECV)
    sent = _keys(traces, sends, rank[sends], traces.peer[sends])
    received = _keys(traces, receives, traces.peer[receives], rank[receives])
    by_key, partner = np.lexsort(sent), np.lexsort(received)
    if len(sends) != len(receives) or not np.array_equal(sent[:, by_key], received[:, partner]):
        raise _unmatched_error(traces, sends, receives, np.concatenate([sent, received], axis=1))
    order = np.argsort(by_key)
    return sends.astype(np.int32), receives[partner[order]].astype(np.int32)


def _keys(
    traces: Traces, nodes: Int64Array, source: Int32Array | Int64Array, target: Int32Array | Int64Array
) -> Int64Array:
    """int64[3, nodes]: size, ranks and tag."""
    ends = source.astype(np.int64) * traces.ranks + target
    return np.stack([traces.size[nodes], ends, traces.tag[nodes]])


def _unmatched_error(traces: Traces, sends: Int64Array, receives: Int64Array, keys: Int64Array) -> CheckFailed:
    """The error about the first node without a partner. keys: of sends and receives, as from `_keys`."""
    _, number = np.unique(keys, axis=1, return_inverse=True)
    number, count = number.reshape(-1), int(number.max()) + 1
    balance = np.bincount(number[: len(sends)], minlength=count) - np.bincount(number[len(sends) :], minlength=count)
    more_sends = balance[number[: len(sends)]] > 0
    more_receives = balance[number[len(sends) :]] < 0
    lonely = int(np.concatenate([sends[more_sends], receives[more_receives]]).min())
    other, verb = ("receive", "to") if traces.kind[lonely] == NodeType.SEND else ("send", "from")
    what = f"{traces.size[lonely]} bytes {verb} rank {traces.peer[lonely]} with tag {traces.tag[lonely]}"
    return CheckFailed(Diagnostic("X0506", f"{traces.label(lonely)}: no {other} matches it ({what})"))


def nodes_in_order(traces: Traces, sends: Int32Array, receives: Int32Array) -> list[int]:
    """The nodes that can run, each after those that it waits for. sends, receives: as from `matched_messages`."""
    before = np.concatenate([traces.before, sends])
    after = np.concatenate([traces.after, receives])
    order = np.argsort(before, kind="stable")
    offsets = np.searchsorted(before[order], np.arange(len(traces) + 1)).tolist()
    followers: list[int] = after[order].tolist()
    waits: list[int] = np.bincount(after, minlength=len(traces)).tolist()
    free = [node for node, count in enumerate(waits) if count == 0][::-1]
    nodes: list[int] = []
    while free:
        node = free.pop()
        nodes.append(node)
        for follower in followers[offsets[node] : offsets[node + 1]]:
            waits[follower] -= 1
            if waits[follower] == 0:
                free.append(follower)
    return nodes


def waiting_cycle(traces: Traces, sends: Int32Array, receives: Int32Array) -> list[int]:
    """Nodes that wait for one another, each for the next one and the last for the first; [] if all can run."""
    stuck = np.setdiff1d(np.arange(len(traces)), nodes_in_order(traces, sends, receives))
    if not len(stuck):
        return []
    before = np.concatenate([traces.before, sends])
    after = np.concatenate([traces.after, receives])
    blocking = np.isin(before, stuck) & np.isin(after, stuck)
    waits_for = dict(zip(after[blocking].tolist(), before[blocking].tolist(), strict=True))
    seen: dict[int, int] = {}
    node = int(stuck[0])
    while node not in seen:
        seen[node] = len(seen)
        node = waits_for[node]
    return list(seen)[seen[node] :]


def deadlock(traces: Traces, cycle: list[int]) -> CheckFailed:
    """The error about nodes that wait for one another (X0507)."""
    shown = [Note(f"{traces.label(node)} waits for") for node in cycle[:8]]
    last = f"and {len(cycle) - 8} more wait" if len(cycle) > 8 else f"{traces.label(cycle[0])} again"
    message = f"{traces.prefix}: {len(cycle)} nodes wait for one another forever"
    return CheckFailed(Diagnostic("X0507", message, notes=(*shown, Note(last))))


def trace_tasks(traces: Traces, network: Network, timing: Timing) -> TaskGraph:
    """One task for each node: a send is a message, over the route with the fewest hops.

    A receive is done when its message has arrived. Compute takes its duration, or 1 ns if that is 0. In ASTRA-sim's
    congestion-unaware model a message goes along the first dimension in which both ranks differ, and no further.
    Raises SourceError X0510 if the network has another number of NPUs, X0511 if no path leads to a receiver;
    CheckFailed X0506.
    """
    if traces.ranks != len(network.npus):
        message = f"there are traces of {traces.ranks} ranks, but {network.name} has {len(network.npus)} NPUs"
        raise SourceError(Diagnostic("X0510", message))
    sends, receives = matched_messages(traces)
    device = np.repeat(network.npus, np.diff(traces.first))
    target = device.copy()
    target[sends] = network.npus[traces.peer[sends]]
    goal = target
    if timing.issues_at_once and not timing.aware:
        goal = _first_turn(network, device, target)
    route = np.full(len(traces), -1, np.int32)
    try:
        routes, route[sends] = shortest_routes(network, device[sends], goal[sends])
    except NoRoute as error:
        node = int(sends[(device[sends] == error.source) & (target[sends] == error.target)][0])
        ends = f"{network.shown_name(error.source)} to {network.shown_name(error.target)}"
        message = f"{traces.label(node)}: {network.name} has no path from {ends}"
        raise SourceError(Diagnostic("X0511", message)) from error
    compute = np.where(traces.kind == NodeType.COMP, np.maximum(1, traces.duration * 1000), 0)
    issue, edges = None, Edges.all_of(traces.before, traces.after, DONE)
    if timing.issues_at_once:
        issue, edges = issue_rules(traces, sends, receives)
    return TaskGraph(
        size=np.where(traces.kind == NodeType.SEND, traces.size, 0),
        route=route,
        duration=compute * (1000 // timing.unit),
        source=device,
        target=target,
        routes=routes,
        edges=Edges.join([edges, Edges.all_of(sends, receives, DONE)]),
        issue=issue,
    )


def _first_turn(network: Network, source: Int32Array, target: Int32Array) -> Int32Array:
    """int32[messages]: the NPU that differs from the source in the first dimension only in which the target does."""
    goal, stride = source.copy(), 1
    for axis in network.axes:
        apart = (target // stride - source // stride) % axis.size != 0
        turn = source + (target // stride % axis.size - source // stride % axis.size) * stride
        goal = np.where(apart & (goal == source), turn, goal)
        stride *= axis.size
    return goal.astype(np.int32) if len(network.axes) > 1 else target
