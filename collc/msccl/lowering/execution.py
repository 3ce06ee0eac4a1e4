"""Execution of a final program: whether it can deadlock, and how long it takes on its network.

A connection holds few messages, so an order of steps can block forever. A step with `cnt` k is ceil(k / M) messages,
where M depends on the bytes of a chunk, so on the size of the buffer (docs/msccl-contract.md, section 5). Waits are
monotone: what can run now can still run later. So one simulation with any timing decides for all timings.

The steps wait as `step_times` says. Local work (copies, reductions, flags) takes no time, as in a schedule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.msccl.limits import LIMITS, MOST_CHUNKS
from collc.msccl.options import Profile, Protocol
from collc.msccl.program import Program, Step
from collc.msccl.step_times import step_edges
from collc.runtime.replay import StepWaits, replay
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.routing import send_order
from collc.simulation.tasks import Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, eq=False)
class FinalSteps:
    """All steps, by rank, threadblock and position, and what they wait for.

    rank, threadblock, position: int64[steps], the place of each. send: int64[steps], the message that it sends, -1 for
    none. to: int64[steps], the rank to which its threadblock sends.
    """

    steps: list[Step]
    rank: Int64Array
    threadblock: Int64Array
    position: Int64Array
    send: Int64Array
    to: Int64Array
    waits: StepWaits


def list_steps(program: Program) -> FinalSteps:
    """The steps of a program in which each waits for one other step at most."""
    blocks = [(gpu.rank, number, tb) for gpu in program.gpus for number, tb in enumerate(gpu.threadblocks)]
    steps = [step for _, _, tb in blocks for step in tb.steps]
    lengths = np.array([len(tb.steps) for _, _, tb in blocks], np.int64)
    first = np.append([0], np.cumsum(lengths)).astype(np.int64)
    row = np.repeat(np.arange(len(blocks)), lengths)
    columns = [(rank, number, tb.send) for rank, number, tb in blocks]
    rank, threadblock, to = np.array(columns, np.int64).reshape(-1, 3)[row].T
    send = np.fromiter((step.send for step in steps), np.int64, len(steps))
    receive = np.fromiter((step.receive for step in steps), np.int64, len(steps))
    connections: dict[tuple[int, int, int], int] = {}
    sender, receiver = dict[int, int](), dict[int, int]()
    ends: list[tuple[int, int]] = []
    for number, (gpu, _, tb) in enumerate(blocks):
        out = connections.setdefault((gpu, tb.send, tb.channel), len(connections)) if tb.send >= 0 else -1
        into = connections.setdefault((tb.receive, gpu, tb.channel), len(connections)) if tb.receive >= 0 else -1
        sender[out] = receiver[into] = number
        ends.append((out, into))
    out, into = np.array(ends, np.int64).reshape(-1, 2)[row].T
    row_of = {(gpu, number): row for row, (gpu, number, _) in enumerate(blocks)}
    awaited = [
        (row_of[gpu, step.waits[0].threadblock], step.waits[0].step) if step.waits else (-1, -1)
        for gpu, _, tb in blocks
        for step in tb.steps
    ]
    waits = StepWaits(
        first=first.tolist(),
        tb=row.tolist(),
        sends=np.where(send >= 0, out, -1).tolist(),
        receives=np.where(receive >= 0, into, -1).tolist(),
        needs_tb=[number for number, _ in awaited],
        needs_step=[step for _, step in awaited],
        sets=[step.awaited for step in steps],
        sender=[sender.get(number, -1) for number in range(len(connections))],
        receiver=[receiver.get(number, -1) for number in range(len(connections))],
    )
    return FinalSteps(steps, rank, threadblock, np.arange(len(steps)) - first[row], send, to, waits)


MESSAGES_IN_FLIGHT: Final = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}
"""Messages that a connection holds; then its sender blocks."""

_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 32 << 10, Protocol.LL128: 576_000}
"""Most bytes of a message."""

_RCCL_MESSAGE_BYTES: Final = {Protocol.SIMPLE: 2 << 20, Protocol.LL: 16 << 10, Protocol.LL128: 50_176}
"""Most bytes of a message of RCCL (docs/msccl-contract.md, section 7)."""


def message_bytes(program: Program) -> int:
    """Most bytes of one message of a program."""
    most = (_RCCL_MESSAGE_BYTES if program.profile is Profile.RCCL else _MESSAGE_BYTES)[program.protocol]
    # With Simple, the chunkSteps of `reduce` and `broadcast` are 1, of other collectives 4.
    quarter = program.protocol is Protocol.SIMPLE and program.collective.coll in {"reduce", "broadcast"}
    return most // 4 if quarter else most


def chunks_per_message(program: Program, size: int | None) -> int:
    """How many chunks of a step one message carries (M), for a buffer of `size` bytes; None: arbitrarily large."""
    if size is None:
        return 1
    chunk = max(1, size // program.chunks_per_loop)
    return min(MOST_CHUNKS, max(1, message_bytes(program) // chunk))


def largest_size(program: Program, per_message: int) -> int:
    """The largest buffer in bytes whose messages carry at least `per_message` chunks."""
    return message_bytes(program) // per_message * program.chunks_per_loop


def deadlocking_message_sizes(program: Program) -> list[int]:
    """The chunks per message, among those of the program's range of sizes, at which it deadlocks; ascending.

    If the program ends with some number of chunks per message, it ends with every larger one: each step then is fewer
    messages, and taking for them the moments of as many of the messages before, the last one included, gives a valid
    order in which no connection holds more.
    """
    low = chunks_per_message(program, program.sizes[1])
    high = chunks_per_message(program, program.sizes[0])
    placed, capacity = list_steps(program), MESSAGES_IN_FLIGHT[program.protocol]
    if _ends(placed, capacity, low):
        return []
    fails, ends = low, high + 1  # `high + 1` stands for none in the range
    while ends - fails > 1:
        middle = (fails + ends) // 2
        if _ends(placed, capacity, middle):
            ends = middle
        else:
            fails = middle
    return list(range(low, ends))


def terminates(program: Program, per_message: int) -> bool:
    """Whether the program comes to its end if a message carries at most `per_message` chunks."""
    return _ends(list_steps(program), MESSAGES_IN_FLIGHT[program.protocol], per_message)


def _ends(placed: FinalSteps, capacity: int, per_message: int) -> bool:
    messages = [-(-step.count // per_message) for step in placed.steps]
    return not replay(placed.waits, messages, capacity)[1]


class Blocked(ValueError):
    """The threadblocks of a program wait for one another forever."""


def _hop_times(program: Program, network: Network, model: LinkModel, link: int, count: int) -> tuple[int, int]:
    """How long a message of `count` chunks occupies a link, and how long it takes to the other end, in picoseconds."""
    timing = ExactTiming(model, program.instances)
    return timing.hop(count * program.chunk_bytes, network.kinds[int(network.kind[link])])


def busiest_link(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds for which the most loaded link is occupied, a lower bound on the program's time.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[int, int] = defaultdict(int)
    for (link, count), number in Counter((link, m.count) for m in program.messages for link in m.path).items():
        taken[link] += number * _hop_times(program, network, model, link, count)[0]
    return max(taken.values(), default=0)


def fullest_pair(program: Program, network: Network, model: LinkModel) -> int:
    """A lower bound in picoseconds: the messages of one GPU to another, as many in flight as all channels hold.

    Raises ValueError if links have no bandwidth.
    """
    taken: dict[tuple[int, int], int] = defaultdict(int)
    classes = Counter((m.source, m.target, m.path, m.count) for m in program.messages)
    for (source, target, path, count), number in classes.items():
        times = (_hop_times(program, network, model, link, count)[1] for link in path)
        taken[source, target] += number * sum(times)
    room = (
        LIMITS[program.profile].channels // program.instances * program.instances * MESSAGES_IN_FLIGHT[program.protocol]
    )
    return max(taken.values(), default=0) // room


def replay_time(program: Program, network: Network, model: LinkModel) -> int:
    """Picoseconds until the last step of a final program is done. Raises as `program_simulation` does."""
    return program_simulation(program, network, model).time


def program_simulation(program: Program, network: Network, model: LinkModel, packet: int = 0) -> Simulation:
    """The simulation of a final program, with a task for each step, by rank, threadblock and position.

    packet: as in `Timing`.
    Raises Blocked if the program deadlocks with one chunk in each message, ValueError if links have no bandwidth.
    """
    placed = list_steps(program)
    try:
        return simulate(
            network, _step_tasks(program, network, placed), ExactTiming(model, program.instances, packet=packet)
        )
    except Deadlock as error:
        step = int(error.waiting[0])
        message = f"threadblock {placed.threadblock[step]} of GPU {placed.rank[step]} blocks forever"
        raise Blocked(message) from error


def _step_tasks(program: Program, network: Network, placed: FinalSteps) -> TaskGraph:
    """One task for each step: the message that it sends, or local work that takes no time.

    What could happen at one time goes in the order in which `collc simulate` takes the steps of a file.
    """
    routes: dict[tuple[int, ...], int] = {}
    route_of = np.array([*(routes.setdefault(m.path, len(routes)) for m in program.messages), -1], np.int32)
    size_of = np.array([*(m.count * program.chunk_bytes for m in program.messages), 0], np.int64)
    device = network.npus[placed.rank]
    return TaskGraph(
        size=size_of[placed.send],
        route=route_of[placed.send],
        duration=np.zeros(len(placed.steps), np.int64),
        source=device,
        target=device,
        routes=Routes.of(list(routes)),
        edges=step_edges(placed.waits, MESSAGES_IN_FLIGHT[program.protocol]),
        order=send_order(placed.rank, placed.to, len(program.gpus), placed.position),
        hop_order=np.arange(len(placed.steps), dtype=np.int64),
        any_lane=True,
    )
