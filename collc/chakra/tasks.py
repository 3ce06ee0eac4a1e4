"""The nodes of traces as tasks of the simulator."""

from __future__ import annotations

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.chakra.messages import matched_messages
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.tasks import DONE, Edges, TaskGraph
from collc.ten.network import Network


def trace_tasks(traces: Traces, network: Network, unit: int) -> TaskGraph:
    """One task for each node: a send is a message, over the route with the fewest hops.

    A receive is done when its message has arrived. Compute takes its duration, or 1 ns where that is 0.
    unit: picoseconds per unit of time. Raises SourceError X0510 where the network has another number of NPUs, X0511
    where no path leads to a receiver; CheckFailed X0506.
    """
    if traces.ranks != len(network.npus):
        message = f"there are traces of {traces.ranks} ranks, but {network.name} has {len(network.npus)} NPUs"
        raise SourceError(Diagnostic("X0510", message))
    sends, receives = matched_messages(traces)
    device = np.repeat(network.npus, np.diff(traces.first))
    target = device.copy()
    target[sends] = network.npus[traces.peer[sends]]
    route = np.full(len(traces), -1, np.int32)
    try:
        routes, route[sends] = shortest_routes(network, device[sends], target[sends])
    except NoRoute as error:
        node = int(sends[(device[sends] == error.source) & (target[sends] == error.target)][0])
        ends = f"{network.shown_name(error.source)} to {network.shown_name(error.target)}"
        message = f"{traces.label(node)}: {network.name} has no path from {ends}"
        raise SourceError(Diagnostic("X0511", message)) from error
    compute = np.where(traces.kind == NodeType.COMP, np.maximum(1, traces.duration * 1000), 0)
    edges = [Edges.all_of(traces.before, traces.after, DONE), Edges.all_of(sends, receives, DONE)]
    return TaskGraph(
        size=np.where(traces.kind == NodeType.SEND, traces.size, 0),
        route=route,
        duration=compute * (1000 // unit),
        source=device,
        target=target,
        routes=routes,
        edges=Edges.joined(edges),
    )
