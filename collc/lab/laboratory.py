"""Programs that run on an emulated network, and when their messages moved."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.emit.run import run_program
from collc.lab.emulated_network import NPU_COMMAND, EmulatedNetwork, LinkPath, Switches
from collc.msccl.check.collectives import KNOWN
from collc.msccl.check.results import CollectiveCall
from collc.msccl.lowering.execution import MESSAGES_IN_FLIGHT, program_simulation
from collc.msccl.program import Program
from collc.msccl.running.data import RunData, unknown_result
from collc.msccl.running.over_tcp import Answer, Workers, raise_if_failed
from collc.runtime.collectives import INPUT
from collc.runtime.rank_program import Call, memory_bounds
from collc.runtime.run_program import RunProgram
from collc.runtime.tcp import Event, Route
from collc.simulation.engine import Simulation
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network

Float64Array = NDArray[np.float64]

ELEMENT: Final = np.dtype("float32")

SEND_BUFFER: Final = 64 << 10
"""Bytes that the socket of a connection holds: more of them wait in the queue of a link, before what comes later on
another connection. With 256 KiB schedules took 4 to 34 % longer.
"""

_LEAD: Final = 0.2
"""Seconds from the command to the common start of all ranks."""


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
    def of(program: Program, module: Module, total: float, seconds: float) -> Experiment:
        """An experiment whose links carry `total` bytes per second together, with chunks such that it takes `seconds`.

        module: of the program, with its schedule. Raises ValueError if links have no bandwidth.
        """
        file = run_program(program, module)
        paths = tuple(_path_of_connections(program, file))
        used = sorted({link for path in paths for link in path})
        kinds = module.network.kinds
        rates = [kinds[int(module.network.kind[link])].bandwidth or Fraction(0) for link in used]
        share = Fraction(total) / sum(rates)
        slowed = tuple(LinkKind(0, None if kind.bandwidth is None else kind.bandwidth * share) for kind in kinds)
        network = replace(module.network, kinds=slowed, endpoint=np.empty(0, np.int32), endpoint_kinds=())
        model = module.model if module.schedule is None else module.schedule.model
        probe = replace(program, chunk_bytes=1 << 20)
        per_byte = program_simulation(probe, network, model).time / probe.chunk_bytes
        elements = max(1, round(seconds * 1e12 / per_byte / ELEMENT.itemsize))
        scaled = replace(program, chunk_bytes=elements * ELEMENT.itemsize)
        return Experiment(scaled, file, network, share, elements, paths, program_simulation(scaled, network, model))

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


def _path_of_connections(program: Program, file: RunProgram) -> Iterator[LinkPath]:
    """The path of each connection; lowering gives each one path."""
    steps = [step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps]
    found: dict[int, LinkPath] = {}
    for step, connection in zip(steps, file.waits.sends, strict=True):
        if connection >= 0:
            path = program.messages[step.send].path
            assert found.setdefault(connection, path) == path
    return (found[number] for number in range(len(file.connections)))


@dataclass(frozen=True, slots=True)
class Failure:
    """A link that is taken away while a program runs, so many seconds after its start."""

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
            one, npus = self._experiment, self._experiment.network.npus.tolist()
            between = {int(one.network.target[link]) for path in one.paths for link in path[:-1]}
            silence = 1 + 2 * one.plan.time_ps / 1e12
            switches = stack.enter_context(Switches(sorted(between)))
            self._workers = stack.enter_context(Workers([NPU_COMMAND] * len(npus), "0.0.0.0", silence))
            memory, inplace = self._memory, self._data.call.inplace
            steps = one.file.operands(inplace=inplace).count
            call = Call(one.elements, ELEMENT.name, self._data.op, inplace, max(1, *steps), _capacity(one.program))
            ports = self._workers.load(one.file, call)
            pids = {npu: worker.pid for npu, worker in zip(npus, self._workers.processes, strict=True)}
            pids |= {device: process.pid for device, process in switches.processes.items()}
            self._network = EmulatedNetwork(one.network, pids)
            self._network.build(one.paths)
            bounds = memory_bounds(one.file, inplace=inplace)[1:-1].tolist()
            self._workers.connect(self._routes(ports), np.split(memory, bounds))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _routes(self, ports: Sequence[int]) -> Iterator[Route]:
        for number, (_, receiver, _) in enumerate(self._experiment.file.connections.key.tolist()):
            source, target = self._network.addresses(number)
            yield Route(target, ports[receiver], source, SEND_BUFFER)

    def run(self, failure: Failure | None = None) -> Measurement:
        """Run the program once.

        Raises CheckFailed (X0209) if a rank fails, (X0212) with the link if messages on one do not arrive.
        """
        at = time.monotonic() + _LEAD
        timer = threading.Timer(_LEAD + failure.at, self._network.take_away, [failure.link]) if failure else None
        if timer:
            timer.start()
        before = _cpu_times()
        answers = self._workers.execute(at, moments=True)
        after = _cpu_times()
        if timer:
            timer.cancel()
            timer.join()
        moments = _moments_of_steps(self._experiment.file, answers, at)
        self._raise_if_lost(answers, *moments)
        self._data.memory[:] = np.frombuffer(b"".join(content for _, content in answers), ELEMENT).reshape(
            self._data.memory.shape
        )
        self._data.wrong.clear()
        self._data.finish()
        for rank in range(self._experiment.file.ranks):
            self._data.compare_output(0, rank)
        seconds = max(values["ended"] for values, _ in answers) - at
        busy, total = (late - early for late, early in zip(after, before, strict=True))
        return Measurement(seconds, bool(self._data.wrong), busy / max(1, total), *moments)

    def _raise_if_lost(self, answers: Sequence[Answer], queued: Float64Array, _: object, arrived: Float64Array) -> None:
        """Raise CheckFailed (X0212) if messages were queued and did not arrive, (X0209) if a rank failed otherwise."""
        lost = np.flatnonzero(np.isfinite(queued) & ~np.isfinite(arrived))
        if not len(lost):
            raise_if_failed(answers)
            return
        one, waits = self._experiment, self._experiment.file.waits
        first = int(lost[np.argmin(queued[lost])])
        passed = {link for step in np.flatnonzero(np.isfinite(arrived) & (arrived > queued[first])).tolist()
                  for link in one.paths[waits.sends[step]]}
        path = one.paths[waits.sends[first]]
        suspects = [link for link in path if link not in passed] or path
        names = " or ".join(one.network.shown_link(link) for link in suspects)
        source, target, _ = one.file.connections.key[waits.sends[first]].tolist()
        text = f"link {names} carries nothing: what rank {source} sent to rank {target} at {queued[first]:.3f} s did not arrive"
        raise CheckFailed(Diagnostic("X0212", text))


def _capacity(program: Program) -> int:
    return MESSAGES_IN_FLIGHT[program.protocol]


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
    """Ticks in which the processors of this machine worked, and all ticks, since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
