"""Programs that run on an emulated network, and when their messages moved."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.emit.run import run_program
from collc.lab.emulated_network import NPU_COMMAND, EmulatedNetwork, LinkPath, Switches, packet_of
from collc.msccl.check.collectives import KNOWN
from collc.msccl.check.results import CollectiveCall
from collc.msccl.lowering.execution import MESSAGES_IN_FLIGHT, program_simulation
from collc.msccl.program import Program
from collc.msccl.running.data import RunData, unknown_result
from collc.msccl.running.over_tcp import Answer, Workers, raise_if_failed
from collc.runtime.collectives import INPUT
from collc.runtime.rank_program import Call, memory_bounds
from collc.runtime.run_program import RunProgram
from collc.runtime.tcp import AT_ONCE, Event, Route
from collc.simulation.engine import Simulation
from collc.simulation.routing import shortest_routes
from collc.ten.limited import without_limits
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network

Float64Array = NDArray[np.float64]

ELEMENT: Final = np.dtype("float32")


@dataclass(frozen=True, eq=False)
class Experiment:
    """A lowered program, as it runs in the lab.

    program: with the bytes that a chunk has there. file: the program as the runtime reads it. network: with the
    bandwidths that links have there, and without latencies. share: these over those of the program. elements: of a
    chunk. paths: of the connections, in order. plan: the simulation of the program on that network, with a task for
    each step.
    """

    program: Program
    file: RunProgram
    network: Network
    share: Fraction
    elements: int
    paths: tuple[LinkPath, ...]
    plan: Simulation

    @staticmethod
    def of(program: Program, module: Module, share: Fraction, elements: int) -> Experiment:
        """An experiment with a share of all bandwidths. module: of the program, with its schedule, on its network.

        Raises ValueError if links have no bandwidth.
        """
        file = run_program(program, module)
        paths = tuple(_path_of_connections(program, file))
        scaled = replace(program, chunk_bytes=elements * ELEMENT.itemsize)
        model = module.model if module.schedule is None else module.schedule.model
        network = _slow_network(module.network, share)
        packet = packet_of(network, {link for path in paths for link in path})
        plan = program_simulation(scaled, network, model, packet)
        return Experiment(scaled, file, network, share, elements, paths, plan)

    @staticmethod
    def of_seconds(program: Program, module: Module, total: Fraction, seconds: float) -> Experiment:
        """An experiment whose links carry `total` bytes a second in all, with chunks such that it takes `seconds`.

        Other arguments and errors as of `of`.
        """
        used = sorted({link for message in program.messages for link in message.path})
        kinds = module.network.kinds
        share = total / sum(kinds[int(module.network.kind[link])].bandwidth or Fraction(0) for link in used)
        experiment = Experiment.of(program, module, share, 1 << 18)
        for _ in range(2):  # the time is affine in the elements: packets have their own
            elements = max(1, round(experiment.elements * seconds * 1e12 / experiment.plan.time_ps))
            experiment = Experiment.of(program, module, share, elements)
        return experiment

    @property
    def data(self) -> RunData:
        """The memory of all ranks with random inputs, and what their outputs must be.

        Raises UsageError (X0202) if that is not known, (X0205) if the memory is too large.
        """
        file, inplace = self.file, not self.file.out_of_place
        if file.coll not in KNOWN:
            raise unknown_result(file.coll)
        call = CollectiveCall(file.coll, file.ranks, file.chunks_per_loop, file.root, inplace)
        chunks, layout = file.layout(inplace=inplace)
        data = RunData(call, layout, chunks[:, INPUT].tolist(), ELEMENT, self.elements, file.op or "sum", 0)
        for rank in range(file.ranks):
            data.fill_input(0, rank)
        return data


def reroute(program: Program, network: Network) -> Program:
    """The program with messages on shortest paths of another network with these NPUs. Raises NoRoute if there are none.

    For schedules with direct links in the place of switches, on the network with its switches.
    """
    pairs = sorted({(message.source, message.target) for message in program.messages})
    ends = network.npus[np.array(pairs, np.int64).reshape(-1, 2)]
    routes, numbers = shortest_routes(network, ends[:, 0], ends[:, 1])
    paths = [tuple(routes.links[routes.offsets[n] : routes.offsets[n + 1]].tolist()) for n in numbers.tolist()]
    path_of = dict(zip(pairs, paths, strict=True))
    moved = (replace(message, path=path_of[message.source, message.target]) for message in program.messages)
    return replace(program, messages=tuple(moved))


def _slow_network(network: Network, share: Fraction) -> Network:
    """A network with this share of all bandwidths, and without latencies and limits of NPUs."""
    kinds = tuple(LinkKind(0, None if kind.bandwidth is None else kind.bandwidth * share) for kind in network.kinds)
    return replace(without_limits(network), kinds=kinds)


def _path_of_connections(program: Program, file: RunProgram) -> Iterator[LinkPath]:
    """The path of each connection; lowering gives each one path."""
    steps = [step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps]
    path_of: dict[int, LinkPath] = {}
    for step, connection in zip(steps, file.waits.sends, strict=True):
        if connection >= 0:
            path = program.messages[step.send].path
            assert path_of.setdefault(connection, path) == path
    return (path_of[number] for number in range(len(file.connections)))


@dataclass(frozen=True, slots=True)
class Failure:
    """A link that is taken away while a program runs, some seconds after its start."""

    link: int
    at: float


@dataclass(frozen=True, eq=False)
class Measurement:
    """One run. seconds: from the common start to the end of the last rank. wrong: whether outputs differ from NumPy's.
    cpu: the share of the processors of this machine that was busy. queued, begun, arrived: float64[steps], when the
    message that a step sends was queued by its sender, had begun to arrive, and had arrived, in seconds from the start;
    infinite if it did not.
    """

    seconds: float
    wrong: bool
    cpu: float
    queued: Float64Array
    begun: Float64Array
    arrived: Float64Array


class Laboratory:
    """An emulated network with the processes of all ranks, connected."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._data = experiment.data
        self._memory = self._data.memory.copy()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            experiment, npus = self._experiment, self._experiment.network.npus.tolist()
            between = {int(experiment.network.target[link]) for path in experiment.paths for link in path[:-1]}
            silence = 1 + 2 * experiment.plan.time_ps / 1e12
            switches = stack.enter_context(Switches(sorted(between)))
            self._workers = stack.enter_context(Workers([NPU_COMMAND] * len(npus), silence))
            memory, inplace = self._memory, self._data.call.inplace
            steps = experiment.file.operands(inplace=inplace).count
            capacity = MESSAGES_IN_FLIGHT[experiment.program.protocol]
            call = Call(experiment.elements, ELEMENT.name, self._data.op, inplace, max(1, *steps), capacity)
            ports = self._workers.load(experiment.file, call, "0.0.0.0")
            pids = {npu: worker.pid for npu, worker in zip(npus, self._workers.processes, strict=True)}
            pids |= {device: process.pid for device, process in switches.processes.items()}
            self._network = EmulatedNetwork(experiment.network, pids)
            self._network.build(experiment.paths)
            bounds = memory_bounds(experiment.file, inplace=inplace)[1:-1].tolist()
            self._workers.connect(self._routes(ports), np.split(memory, bounds))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _routes(self, ports: Sequence[int]) -> Iterator[Route]:
        for number, (_, receiver, _) in enumerate(self._experiment.file.connections.key.tolist()):
            source, target = self._network.addresses(number)
            # More than this waits in the queue of a link, before what comes later on another connection. With 256 KiB
            # schedules took 4 to 34 % longer.
            yield Route(target, ports[receiver], source, AT_ONCE)

    def run(self, failure: Failure | None = None) -> Measurement:
        """Run the program once.

        Raises CheckFailed (X0209) if a rank fails, (X0211) if the link cannot be taken away, (X0212) with the link if
        messages on it do not arrive, (X0214) if the run ends before the failure.
        """
        start = time.monotonic() + 0.2  # all ranks have been told by then
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(self._take_away, failure, start, ended) if failure else None
            before = _cpu_times()
            try:
                answers = self._workers.execute(start, moments=True)
            finally:
                ended.set()
            after = _cpu_times()
        queued, begun, arrived = _moments_of_steps(self._experiment.file, answers, start)
        raise_if_lost(self._experiment, answers, queued, arrived)
        seconds = max(values["ended"] for values, _ in answers) - start
        if failure and taken and not taken.result():
            link = self._experiment.network.shown_link(failure.link)
            text = f"the run ended after {seconds:.3f} s: link {link} was to be taken away at {failure.at:g} s"
            raise CheckFailed(Diagnostic("X0214", text, hint="choose an earlier --at"))
        self._data.memory[:] = np.frombuffer(b"".join(content for _, content in answers), ELEMENT).reshape(
            self._data.memory.shape
        )
        self._data.wrong.clear()
        self._data.finish()
        for rank in range(self._experiment.file.ranks):
            self._data.compare_output(0, rank)
        busy, total = (late - early for late, early in zip(after, before, strict=True))
        return Measurement(seconds, bool(self._data.wrong), busy / max(1, total), queued, begun, arrived)

    def _take_away(self, failure: Failure, start: float, ended: threading.Event) -> bool:
        """Take the link away at its time. Returns False if the run ended before. Raises CheckFailed (X0211)."""
        if ended.wait(start + failure.at - time.monotonic()):
            return False
        self._network.take_away(failure.link)
        return True


def raise_if_lost(
    experiment: Experiment, answers: Sequence[Answer], queued: Float64Array, arrived: Float64Array
) -> None:
    """Raise CheckFailed (X0209) if a rank failed, (X0212) if messages were queued and did not arrive.

    queued, arrived: as in `Measurement`. A rank that failed says nothing of what arrived at it.
    """
    if any("error" in values and not values.get("of_another") for values, _ in answers):
        raise_if_failed(answers)
    sends, ends = experiment.file.waits.sends, experiment.file.connections.key.tolist()
    lost = [
        step
        for step in np.flatnonzero(np.isfinite(queued) & ~np.isfinite(arrived)).tolist()
        if "moments" in answers[ends[sends[step]][1]][0]
    ]
    if not lost:
        raise_if_failed(answers)
        return
    first = lost[int(np.argmin(queued[lost]))]
    later = np.flatnonzero(np.isfinite(arrived) & (arrived > queued[first])).tolist()
    passed = {link for step in later for link in experiment.paths[sends[step]]}
    path = experiment.paths[sends[first]]
    suspects = [link for link in path if link not in passed] or path
    names = " or ".join(map(experiment.network.shown_link, suspects if len(path) > 1 else path))
    sender, receiver, _ = ends[sends[first]]
    what = f"what rank {sender} sent to rank {receiver} at {queued[first]:.3f} s did not arrive"
    raise CheckFailed(Diagnostic("X0212", f"link {names} carries nothing: {what}"))


def _moments_of_steps(file: RunProgram, answers: Sequence[Answer], at: float) -> tuple[Float64Array, ...]:
    """float64[3, steps]: when the message of each step was queued, began to arrive and had arrived; see Measurement."""
    sends = np.array(file.waits.sends)
    moments = np.full((len(Event), len(sends)), np.inf)
    by_connection: dict[tuple[int, int], list[float]] = defaultdict(list)
    for values, _ in answers:
        for event, connection, moment in values.get("moments", ()):
            by_connection[event, connection].append(moment - at)
    for (event, connection), times in by_connection.items():
        moments[event, np.flatnonzero(sends == connection)[: len(times)]] = times
    return tuple(moments)


def _cpu_times() -> tuple[int, int]:
    """Ticks in which the processors of this machine worked, but for those who yield to others, and all ticks."""
    line = Path("/proc/stat").read_text("ascii").partition("\n")[0]
    user, nice, system, idle, waiting, *interrupts = (int(word) for word in line.split()[1:9])
    busy = user + system + sum(interrupts)
    return busy, busy + nice + idle + waiting
