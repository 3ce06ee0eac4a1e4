"""Chakra traces of a schedule for ASTRA-sim 2.0: a custom collective, its workload, the system and the network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import percent
from collc.chakra.algorithm import Algorithm, TimeOfTraces, algorithm_of
from collc.chakra.layout import Partials, lay_out
from collc.chakra.schema import REDUCTION_NS, CollectiveType, NodeType
from collc.chakra.workload import WORKLOAD
from collc.chakra.writer import ValueField, attribute, node_bytes, write_trace, write_traces
from collc.msccl.lowering.messages import messages_between, messages_of
from collc.simulation.engine import MOST_SIMULATED, simulate
from collc.simulation.message_tasks import message_routes
from collc.simulation.routing import shortest_routes
from collc.simulation.schedule_tasks import ChunkMoves, schedule_tasks
from collc.simulation.tasks import Routes
from collc.simulation.timing import AstraTiming
from collc.ten.arrays import Int32Array
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, MessageHops, RowSchedule


def algorithm_of_module(module: Module, time_of_traces: TimeOfTraces | None = None) -> Algorithm:
    """The messages of a module's schedule. A chunk that passes a switch is one message over several links.

    time_of_traces: see `algorithm_of`.
    Raises SourceError X0513 if a switch multicasts or reduces, CheckFailed if the schedule is wrong, ValueError
    if a link has no bandwidth.
    """
    network, demand, schedule = module.network, module.demand, module.schedule
    if schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    rows = schedule.transfers if not network.has_switches or isinstance(schedule, RowSchedule) else None
    if rows is not None and rows.messages is not None:
        # The messages queue at links, each over all of its hops.
        hops = MessageHops.of(rows.messages.number, rows.start)
        ends = rows.start + Clock.of(network, demand, module.model).total_of(rows)
        moves = ChunkMoves.of_messages(network, rows, ends, hops.first, hops.last)
        routes, route = message_routes(rows, hops)
        order = np.lexsort((rows.start[hops.first], moves.start))
        reduce = rows.adds[hops.first][order]
        place = np.repeat(np.argsort(order), np.diff(routes.offsets)[route])
        starts = rows.start[hops.rows[np.argsort(place, kind="stable")]]
        return algorithm_of(network, demand, moves.select(order), routes, route[order], reduce, time_of_traces, starts)
    if rows is not None and not network.has_switches:
        ends = rows.start + Clock.of(network, demand, module.model).total_of(rows)
        moves = ChunkMoves.of(network, rows, ends)
        return algorithm_of(network, demand, moves, Routes.single_links(network), rows.link, rows.adds)
    try:
        messages, _ = messages_of(module)
    except SourceError as error:
        what = "a switch multicasts or reduces a chunk, and traces have messages from NPU to NPU only"
        hint = "synthesize on 'unwound(t, degree: d)', or declare the switch with 'multicast: false, reduce: false'"
        raise SourceError(Diagnostic("X0513", f"no traces of '{module.name}': {what}", hint=hint)) from error
    paths = list(dict.fromkeys(message.path for message in messages))
    number = {path: row for row, path in enumerate(paths)}
    moves = ChunkMoves(
        np.array([m.chunk for m in messages], np.int32),
        network.npus[[m.source for m in messages]],
        network.npus[[m.target for m in messages]],
        np.array([m.start for m in messages], np.int64),
        np.array([m.arrival for m in messages], np.int64),
    )
    route = np.array([number[m.path] for m in messages], np.int32)
    reduce = np.array([m.reduce and not m.kept for m in messages], np.bool_)
    return algorithm_of(network, demand, moves, Routes.of(paths), route, reduce, time_of_traces)


def write_chakra(module: Module, name: str, folder: Path) -> list[str]:
    """Write NAME.<rank>.et and, as far as ASTRA-sim has words for them, the workload, system and network files.

    name: of the traces. Returns remarks for the report. Raises what `algorithm_of_module` raises.
    """
    network, demand, schedule, partials = module.network, module.demand, module.schedule, _partials_apart(module)

    def time_of_traces(algorithm: Algorithm) -> int:
        if len(algorithm.route) > MOST_SIMULATED:
            return algorithm.time
        return lay_out(algorithm, demand, network, partials).time

    algorithm = algorithm_of_module(module, time_of_traces)
    layout = lay_out(algorithm, demand, network, partials)
    write_traces(folder / name, layout.traces, layout.names(algorithm, demand, partials))
    algorithm = replace(algorithm, time=layout.time)
    if network.has_endpoints:
        assert schedule is not None
        rows = schedule.transfers
        ends = rows.start + Clock.of(network, demand, schedule.model).total_of(rows)
        # In ASTRA-sim's model, without reductions, with the limits of NPUs as the schedule orders them.
        time = simulate(network, schedule_tasks(network, demand, rows, ends), AstraTiming()).time
        algorithm = replace(algorithm, schedule_time=time)
    notes = _write_workload(module, name, folder)
    text, note = network_text(module.network, algorithm)
    if text:
        (folder / "network.yml").write_text(text, encoding="utf-8")
    return [*notes, *(text for text in (note, _delay_note(module, algorithm)) if text)]


def _delay_note(module: Module, algorithm: Algorithm) -> str:
    """A remark if the traces take another time than the schedule.

    Both times are those of ASTRA-sim's model, and have 1 ns for each reduction; if NPUs have limits, that of the
    schedule has none, and the traces may take so much longer.
    """
    time, least = algorithm.time, algorithm.schedule_time
    limited = module.network.has_endpoints
    if time == least or (limited and 0 <= time - least <= _longest_sum(algorithm)):
        return ""
    why = "messages are forwarded in the order of their arrival"
    if int(np.diff(algorithm.routes.offsets).max(initial=0)) == 1:
        why = "no ids of nodes let ASTRA-sim issue those that are ready at once in the order of the schedule"
    if limited:
        why = "no node says in which order an NPU with limits sends and receives"
    how = f"{percent(time / least - 1)} longer" if time > least else f"{percent(1 - time / least)} less time"
    both = f"in ASTRA-sim's model {time} ns, the schedule {least} ns"
    return f"Chakra: the traces take {how} than the schedule: {why} ({both})"


def _longest_sum(algorithm: Algorithm) -> int:
    """Nanoseconds of the reductions on the chain of messages that has most of them: an NPU adds one after another."""
    moves = algorithm.moves
    place = moves.chunk.astype(np.int64) * (int(moves.target.max(initial=0)) + 1) + moves.target
    _, inverse = np.unique(place, return_inverse=True)
    own: list[int] = np.bincount(inverse, weights=algorithm.reduced)[inverse].astype(np.int64).tolist()
    longest = list(own)
    pairs: list[tuple[int, int]] = np.stack([algorithm.after, algorithm.before], axis=1).tolist()
    for after, before in sorted(pairs):
        longest[after] = max(longest[after], longest[before] + own[after])
    return REDUCTION_NS * max(longest, default=0)


def _partials_apart(module: Module) -> Partials:
    """What NPUs relay and keep apart; nothing if messages queue."""
    schedule, partials = module.schedule, Partials({}, set())
    if not isinstance(schedule, RowSchedule) or schedule.rows.messages is not None:
        return partials
    rows = schedule.transfers
    if rows.relayed is None and rows.kept is None:
        return partials
    came: dict[tuple[int, int], list[tuple[int, int]]] = {}
    messages = messages_of(module)[0] if module.network.has_switches else messages_between(module)
    for number, message in enumerate(messages):
        came.setdefault((message.chunk, message.path[-1]), []).append((message.arrival, number))
        if message.kept:
            partials.kept.add(number)
    for number, message in enumerate(messages):
        before = [other for other in came.get((message.chunk, message.relayed), []) if other[0] <= message.start]
        if before:
            partials.origin[number] = max(before)[1]
    return partials


_KEYS: Final = {
    "all_reduce": (CollectiveType.ALL_REDUCE, "all-reduce"),
    "all_gather": (CollectiveType.ALL_GATHER, "all-gather"),
    "reduce_scatter": (CollectiveType.REDUCE_SCATTER, "reduce-scatter"),
    "all_to_all": (CollectiveType.ALL_TO_ALL, "all-to-all"),
}


def _write_workload(module: Module, name: str, folder: Path) -> list[str]:
    """Write the workload of every rank, and system.json, which names the algorithm. Returns remarks."""
    standard = module.demand.standard
    if standard is None or standard.kind not in _KEYS:
        known = ", ".join(sorted(_KEYS))
        return [
            f"Chakra: no workload and system file, which ASTRA-sim has for one run of {known} only; "
            "collc simulates the traces"
        ]
    kind, key = _KEYS[standard.kind]
    ranks = len(module.network.npus)
    size = standard.size // ranks if standard.kind == "all_gather" else standard.size
    values = attribute("comm_type", ValueField.INT64, int(kind)) + attribute("comm_size", ValueField.INT64, size)
    node = node_bytes(0, standard.kind, NodeType.COLL, attributes=attribute("is_cpu_op", ValueField.BOOL, 0) + values)
    for rank in range(ranks):
        write_trace(folder / f"{WORKLOAD}.{rank}.et", [node])
    system = {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        f"{key}-implementation-custom": [name],
    }
    (folder / "system.json").write_text(json.dumps(system, indent=2) + "\n", encoding="utf-8")
    return []


def network_text(network: Network, algorithm: Algorithm) -> tuple[str, str]:
    """(network file, ""), or ("", why ASTRA-sim's congestion-aware backend cannot express the network).

    That backend knows networks of one dimension with equal links. Where messages go between neighbours only, a
    FullyConnected network of such links is exact; through one switch to which all NPUs are joined, a Switch; if NPUs
    forward messages, a Ring, if they take its shortest routes.
    """
    used = np.unique(algorithm.routes.of_tasks(algorithm.route)[1])
    problem = _inexpressible(network, used, algorithm)
    if problem:
        return "", f"Chakra: no network file, since ASTRA-sim cannot express this network: {problem}"
    kind = network.kinds[int(network.kind[used[0]])]
    assert kind.bandwidth is not None
    assert kind.latency is not None
    forwarded = int(np.diff(algorithm.routes.offsets).max(initial=0)) > 1
    lines = {
        "topology": "Switch" if network.has_switches else "Ring" if forwarded else "FullyConnected",
        "npus_count": str(len(network.npus)),
        "bandwidth": repr(float(kind.bandwidth / 2**30)),
        "latency": repr(kind.latency / 1000),
    }
    remarks = {"bandwidth": "  # GiB/s", "latency": "  # ns"}
    return "".join(f"{key}: [ {value} ]{remarks.get(key, '')}\n" for key, value in lines.items()), ""


def _inexpressible(network: Network, used: Int32Array, algorithm: Algorithm) -> str:
    """Why the file cannot express the network, "" if it can. used: int32, the links that carry messages."""
    if not len(used):
        return "no message is sent"
    if len(Ports.of(network)):
        return "its NPUs limit what they send and receive"
    if network.kinds[int(network.kind[used[0]])].overhead:
        return "its messages have an overhead"
    if len(set(network.kind[used].tolist())) > 1:
        return "its links differ in latency or bandwidth"
    pairs = network.source[used].astype(np.int64) * network.device_count + network.target[used]
    if len(np.unique(pairs)) < len(pairs):
        return "there are parallel links between two devices"
    if not network.has_switches:
        return _no_ring(network, algorithm)
    lengths = np.diff(algorithm.routes.offsets)[algorithm.route]
    switches = np.unique(network.target[used][network.target[used] >= network.npu_count])
    if len(switches) > 1:
        return "messages pass several switches"
    return "" if bool((lengths == 2).all()) else "some messages pass a switch and others do not"


def _no_ring(network: Network, algorithm: Algorithm) -> str:
    """Why NPUs that forward messages are not those of a Ring; "" if they are, or if there are none."""
    routes, route = algorithm.routes, algorithm.route
    if int(np.diff(routes.offsets).max(initial=0)) == 1:
        return ""
    apart = (network.target - network.source) % len(network.npus)
    every = len(network.npus) == network.npu_count and network.link_count == 2 * network.npu_count
    if not every or set(apart.tolist()) != {1, network.npu_count - 1}:
        return "NPUs forward messages, and its links are not those of a Ring"
    shortest, row = shortest_routes(network, algorithm.moves.source, algorithm.moves.target)
    taken, wanted = routes.of_tasks(route), shortest.of_tasks(row)
    same = np.array_equal(taken[0], wanted[0]) and np.array_equal(taken[1], wanted[1])
    return "" if same else "messages take other routes than those of a Ring"
