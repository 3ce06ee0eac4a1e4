"""`collc simulate`: the time of traces or of a schedule on a network, and the report of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from collc.application.file_kinds import call_for
from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError, UsageError
from collc.base.reading import read_text
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time, percent, shown_bytes, shown_rate
from collc.simulation.astra_file import unused_keys
from collc.simulation.bandwidth import bandwidths, collectives_of_nccl_tests
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.timing import AstraTiming, ExactTiming, Timing
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel

if TYPE_CHECKING:
    from collc.msccl.check.model import Profile
    from collc.simulation.tasks import TaskGraph


_NETWORK_HINT: Final = "give it with --network FILE.yml, or with --on FILE.coll:TOPOLOGY"


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How to simulate.

    network: an ASTRA-sim network file. on: FILE.coll:TOPOLOGY. Traces and files for runtimes need one of them.
    size: bytes of the buffer, for a file for a runtime. profile: the runtime that will load it.
    astra: ASTRA-sim's truncated nanoseconds in place of exact picoseconds. model: whether messages queue at links.
    link_model: of exact times, for what has no schedule that says it; None: pipelined.
    schedule, definitions: of a program, which schedule, and values of its params.
    """

    network: Path | None = None
    on: str | None = None
    size: int | None = None
    profile: Profile = "executor"
    astra: bool = False
    model: CongestionModel = "aware"
    link_model: LinkModel | None = None
    schedule: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])

    def timing(self, link_model: LinkModel | None = None) -> Timing:
        """The durations of messages. link_model: of a schedule.

        Raises UsageError U0148 if another link model is asked for than that of the schedule, or of ASTRA-sim.
        """
        aware, given = self.model == "aware", LinkModel.PIPELINED if self.astra else link_model
        if self.link_model is not None and given not in (None, self.link_model):
            whose = "ASTRA-sim's" if self.astra else "the schedule's"
            message = f"the link model is {whose}, '{given}': --link-model {self.link_model} cannot change it"
            raise UsageError(Diagnostic("U0148", message))
        return (
            AstraTiming(aware)
            if self.astra
            else ExactTiming(given or self.link_model or LinkModel.PIPELINED, aware=aware)
        )


def simulate_file(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate the traces PREFIX.<rank>.et, a `.ten` file, a schedule of a program, an MSCCL file, or an MSCCL++ plan.

    Raises UsageError if the settings do not fit the file, SourceError if a file is wrong, CheckFailed if
    something waits forever.
    """
    report: SimulationReport = call_for(path, "simulate", settings)
    if settings.network is None or not settings.network.is_file():
        return report
    return replace(report, notes=tuple(unused_keys(read_text(settings.network))))


def simulate_traces(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate Chakra traces. Raises as `simulate_file` does."""
    from collc.chakra.messages import deadlock, matched_messages, trace_tasks, waiting_cycle
    from collc.chakra.reader import read_traces
    from collc.chakra.workload import workload_beside

    network = _network_of(path, settings)
    traces = read_traces(path)
    timing, workload = settings.timing(), Workload(*workload_beside(path, traces.ranks))
    try:
        simulation = _simulate(path, network, workload, lambda: trace_tasks(traces, network, timing), timing)
    except Deadlock as error:
        raise deadlock(traces, waiting_cycle(traces, *matched_messages(traces))) from error
    return SimulationReport(path, "chakra", settings.model, settings.astra, workload, simulation)


def _simulate(
    path: Path, network: Network, workload: Workload, make_tasks: Callable[[], TaskGraph], timing: Timing
) -> Simulation:
    """The simulation of the tasks of a file. Raises Deadlock and NoRoute, SourceError as `simulate_file` does."""
    try:
        return simulate(_network_with_traffic(network, workload.collective), make_tasks(), timing)
    except OverflowError as error:
        raise SourceError(Diagnostic("X0508", f"{path}: the simulated time exceeds 64 bits")) from error
    except ValueError as error:
        from collc.application.simulate.module_simulation import no_rates

        raise no_rates(network) from error


def _network_with_traffic(network: Network, collective: str) -> Network:
    """The network with the memory traffic of a collective over all NPUs; of an All-Reduce if there is no name."""
    if not collective or all(kind.memory is None for kind in network.endpoint_kinds):
        return network
    from collc.application.program_files import standard_demand
    from collc.graph.memory_traffic import fed_for

    return fed_for(network, standard_demand(network, collective, len(network.npus) << 20))


def simulate_msccl(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate an MSCCL file. Raises as `simulate_file` does."""
    from collc.msccl.simulating import file_tasks, sound_program

    network, size = _network_and_size(path, settings)
    program = sound_program(path, settings.profile)
    of_file = path, "msccl", program.coll, program.ngpus
    return _simulate_runtime_file(*of_file, lambda: file_tasks(program, network, size), network, size, settings)


def simulate_plan(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate an MSCCL++ plan. Raises as `simulate_file` does."""
    from collc.msccl.simulating import plan_tasks, sound_plan

    network, size = _network_and_size(path, settings)
    plan, chunks = sound_plan(path)
    of_file = path, "mscclpp", plan.collective, len(plan.chunks)
    return _simulate_runtime_file(*of_file, lambda: plan_tasks(plan, chunks, network, size), network, size, settings)


def _network_and_size(path: Path, settings: SimulationSettings) -> tuple[Network, int]:
    """What to simulate a file for a runtime with. Raises UsageError U0134 without a size, and as `_network_of`."""
    if settings.size is None:
        from collc.application.program_files import no_size

        raise no_size(path)
    return _network_of(path, settings), settings.size


def _simulate_runtime_file(
    path: Path,
    kind: str,
    coll: str,
    ranks: int,
    make_tasks: Callable[[], TaskGraph],
    network: Network,
    size: int,
    settings: SimulationSettings,
) -> SimulationReport:
    if ranks != len(network.npus):
        message = f"{path} is for {ranks} GPUs, but {network.name} has {len(network.npus)} NPUs"
        raise SourceError(Diagnostic("X0510", message))
    known = {name.replace("_", ""): name for name in collectives_of_nccl_tests()}
    workload = Workload(known.get(coll.replace("_", "").lower(), ""), size)
    try:
        simulation = _simulate(path, network, workload, make_tasks, settings.timing())
    except NoRoute as error:
        ends = f"{network.shown_name(error.source)} to {network.shown_name(error.target)}"
        raise SourceError(Diagnostic("X0511", f"{path}: {network.name} has no path from {ends}")) from error
    except Deadlock as error:
        raise CheckFailed(Diagnostic("S0401", f"{path}: the steps wait for one another forever")) from error
    return SimulationReport(path, kind, settings.model, settings.astra, workload, simulation)


def _network_of(path: Path, settings: SimulationSettings) -> Network:
    """The network for a file that has none. Raises UsageError U0130 if none or two are named, and as its readers."""
    if (settings.network is None) == (settings.on is None):
        what = (
            "the network of the traces is missing" if settings.on is None else "--network and --on both name a network"
        )
        raise UsageError(Diagnostic("U0130", f"{path}: {what}", hint=_NETWORK_HINT))
    if settings.network is not None:
        from collc.chakra.network_file import read_network

        return read_network(settings.network)
    assert settings.on is not None
    from collc.application.program_files import named_network

    return named_network(settings.on, settings.definitions)


def compiled_module(path: Path, schedule: str | None, definitions: Mapping[str, str]) -> tuple[Module, Network]:
    """The module of one schedule of a program, and the network that the program says; nothing is written.

    schedule, definitions: which one, and values of params. Raises what the compilation raises.
    """
    from collc.application.compile.compilation import built_module
    from collc.application.program_files import not_one_schedule
    from collc.application.settings import Settings
    from collc.source.elaboration.elaborate import load_program

    program = load_program(path, definitions, schedule)
    if len(program.schedules) != 1:
        raise not_one_schedule(path, len(program.schedules))
    request = program.schedules[0]
    return built_module(request, Settings(keep_modules=True, write=False)), request.network


def simulate_program(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate a schedule of a program. Raises as `simulate_file` does."""
    return _simulate_schedule(path, lambda: compiled_module(path, settings.schedule, settings.definitions)[0], settings)


def simulate_ten(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate a `.ten` file. Raises as `simulate_file` does."""
    from collc.ten.binary import read_module

    return _simulate_schedule(path, lambda: read_module(path), settings)


def _simulate_schedule(path: Path, read: Callable[[], Module], settings: SimulationSettings) -> SimulationReport:
    """The report of a schedule. Raises UsageError U0131 if the settings name a network, and what `read` raises."""
    if settings.network is not None or settings.on is not None:
        message = f"{path} has a network of its own: --network and --on are for others"
        raise UsageError(Diagnostic("U0131", message))
    from collc.application.simulate.module_simulation import simulated_module

    module = read()
    if module.schedule is None:
        raise CheckFailed(Diagnostic("C0205", f"{path} has no schedule: there is nothing to simulate"))
    simulation = simulated_module(module, settings.timing(module.schedule.model))
    standard = module.demand.standard
    workload = Workload() if standard is None else Workload(standard.kind, standard.size)
    return SimulationReport(path, "schedule", settings.model, settings.astra, workload, simulation)


_Link = tuple[Simulation, int]

_LINKS: Final[Sequence[Column[_Link]]] = (
    Column("busiest links", "", lambda at: at[0].network.shown_link(at[1])),
    Column("", "link", lambda at: at[0].network.link_name(at[1])),
    Column("bytes", "bytes", lambda at: int(at[0].sent_bytes[at[1]]), shown_bytes),
    Column("busy", "busy_ps", lambda at: int(at[0].busy[at[1]]) * at[0].unit, format_time),
    Column("queued", "queued_ps", lambda at: int(at[0].queued[at[1]]) * at[0].unit, format_time),
    Column("utilisation", "utilisation", lambda at: round(float(at[0].busy[at[1]]) / max(1, at[0].time), 6), percent),
)

CongestionModel = Literal["aware", "unaware"]


@dataclass(frozen=True, slots=True)
class Workload:
    """What is simulated: a collective of the standard library ("" for none), and its size in bytes (0: not known)."""

    collective: str = ""
    size: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class SimulationReport:
    """A simulation, with what was simulated.

    kind: "chakra", "schedule" or "msccl". model: whether messages queue at links. astra: in ASTRA-sim's nanoseconds.
    notes: remarks on the network file.
    """

    file: Path
    kind: str
    model: CongestionModel
    astra: bool
    workload: Workload
    simulation: Simulation
    notes: tuple[str, ...] = ()

    @property
    def time_ps(self) -> int:
        """Picoseconds until everything is done, with the launch."""
        return self.simulation.call_ps

    def bandwidths(self) -> tuple[Fraction | None, Fraction | None]:
        """Algorithm and bus bandwidth in bytes per second; None if size or collective are not known."""
        work = self.workload
        return bandwidths(work.collective, work.size, len(self.simulation.network.npus), self.time_ps)

    def as_json(self) -> dict[str, object]:
        """The object that `simulate --json` prints."""
        simulation = self.simulation
        algorithm, bus = (None if rate is None else float(rate) for rate in self.bandwidths())
        return {
            "file": str(self.file),
            "kind": self.kind,
            "model": self.model,
            "astra": self.astra,
            "collective": self.workload.collective or None,
            "size": self.workload.size or None,
            "time_ps": self.time_ps,
            "ranks_ps": [time * simulation.unit for time in simulation.rank_times.tolist()],
            "algorithm_bandwidth": algorithm,
            "bus_bandwidth": bus,
            "utilisation": [round(share, 6) for share in simulation.utilisation(20).tolist()],
            "notes": list(self.notes),
            "links": records_of(_LINKS, [(simulation, link) for link in range(simulation.network.link_count)]),
        }

    def tables(self) -> list[Table]:
        """What was measured, and the links that are occupied longest."""
        simulation = self.simulation
        busiest = np.argsort(-simulation.busy, kind="stable")[:10].tolist()
        links = [(simulation, link) for link in busiest if simulation.sent_bytes[link]]
        return [Table(("measure", "value"), list(self._rows())), table_of(_LINKS, links)]

    def _rows(self) -> Iterator[tuple[str, str]]:
        simulation = self.simulation
        rule = "ASTRA-sim, congestion-" if self.astra else "exact, congestion-"
        yield "time", format_time(self.time_ps) + (f" ({simulation.time} cycles)" if self.astra else "")
        yield "model", f"{rule}{self.model}"
        yield (
            "network",
            f"{simulation.network.name}: {len(simulation.network.npus)} NPUs, {simulation.network.link_count} links",
        )
        yield "messages", str(int(np.count_nonzero(simulation.graph.route >= 0)))
        if self.workload.size:
            yield "collective", f"{self.workload.collective or 'custom'}, {shown_bytes(self.workload.size)}"
        for name, rate in zip(("algorithm", "bus"), self.bandwidths(), strict=True):
            if rate is not None:
                yield f"{name} bandwidth", shown_rate(round(rate, -6))
        yield "sent over links", shown_bytes(int(simulation.sent_bytes.sum()))
        yield "queued at links", format_time(int(simulation.queued.sum()) * simulation.unit)
        used = simulation.utilisation(1)
        if len(used):
            yield "mean utilisation", percent(float(used[0]))

    def __repr__(self) -> str:
        return f"<SimulationReport {self.file}: {format_time(self.time_ps)}, congestion-{self.model}>"
