"""`collc simulate`: the time of traces or of a schedule on a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collc.application.simulate.module_simulation import no_rates, simulated_module
from collc.application.simulate.simulation_report import CongestionModel, SimulationReport, Workload
from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError, UsageError
from collc.msccl.file_kinds import kind_of
from collc.simulation.bandwidth import collectives_of_nccl_tests
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.routing import NoRoute
from collc.simulation.timing import AstraTiming, ExactTiming, Timing
from collc.ten.demand import Demand
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

        Raises UsageError U0148 where another link model is asked for than that of the schedule, or of ASTRA-sim.
        """
        aware, given = self.model == "aware", LinkModel.PIPELINED if self.astra else link_model
        if self.link_model is not None and given not in (None, self.link_model):
            whose = "ASTRA-sim's" if self.astra else "that of the schedule"
            message = f"the link model is {whose}, '{given}': --link-model {self.link_model} cannot change it"
            raise UsageError(Diagnostic("U0148", message))
        return (
            AstraTiming(aware)
            if self.astra
            else ExactTiming(given or self.link_model or LinkModel.PIPELINED, aware=aware)
        )


def simulate_file(path: Path, settings: SimulationSettings) -> SimulationReport:
    """Simulate the traces PREFIX.<rank>.et, a `.ten` file, a schedule of a program, an MSCCL file, or an MSCCL++ plan.

    Raises UsageError where the settings do not fit the file, SourceError where a file is wrong, CheckFailed where
    something waits forever.
    """
    from collc.chakra.reader import trace_ranks

    if trace_ranks(path):
        return _simulated_traces(path, settings)
    try:
        kind = kind_of(path)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        hint = "give a .coll or .ten file, or the common name of traces: DIR/algo for DIR/algo.0.et"
        raise UsageError(Diagnostic("U0106", message, hint=hint)) from error
    if kind in ("msccl", "mscclpp"):
        return _simulated_program(path, kind, settings)
    if settings.network is not None or settings.on is not None:
        message = f"{path} has a network of its own: --network and --on are for others"
        raise UsageError(Diagnostic("U0131", message))
    if kind == "coll":
        module, _ = compiled_module(path, settings.schedule, settings.definitions)
        return _simulated_schedule(path, module, settings)
    from collc.ten.files import read_module

    return _simulated_schedule(path, read_module(path), settings)


# Traces


def _simulated_traces(path: Path, settings: SimulationSettings) -> SimulationReport:
    from collc.chakra.messages import deadlock, matched_messages, trace_tasks, waiting_cycle
    from collc.chakra.reader import read_traces
    from collc.chakra.workload import workload_beside

    network = _network_of(path, settings)
    traces = read_traces(path)
    timing = settings.timing()
    graph = trace_tasks(traces, network, timing.unit)
    try:
        found = simulate(network, graph, timing)
    except Deadlock as error:
        raise deadlock(traces, waiting_cycle(traces, *matched_messages(traces))) from error
    except OverflowError as error:
        raise SourceError(Diagnostic("X0508", f"{path}: the simulated time exceeds 64 bits")) from error
    except ValueError as error:
        raise no_rates(network) from error
    return SimulationReport(
        path, "chakra", settings.model, settings.astra, Workload(*workload_beside(path, traces.ranks)), found
    )


def _simulated_program(path: Path, kind: str, settings: SimulationSettings) -> SimulationReport:
    """The simulation of a file for a runtime."""
    from collc.msccl.simulating.file_tasks import file_tasks, sound_program
    from collc.msccl.simulating.plan_tasks import plan_tasks, sound_plan

    size = settings.size
    if size is None:
        from collc.application.program_files import no_size

        raise no_size(path)
    network = _network_of(path, settings)

    def tasks_on(gpus: int, coll: str, make: Callable[[], TaskGraph]) -> SimulationReport:
        if gpus != len(network.npus):
            message = f"{path} is for {gpus} GPUs, but {network.name} has {len(network.npus)} NPUs"
            raise SourceError(Diagnostic("X0510", message))
        found = _simulated_tasks(path, network, make, settings)
        known = {name.replace("_", ""): name for name in collectives_of_nccl_tests()}
        workload = Workload(known.get(coll.replace("_", "").lower(), ""), size)
        return SimulationReport(path, kind, settings.model, settings.astra, workload, found)

    if kind == "msccl":
        program = sound_program(path, settings.profile)
        return tasks_on(program.ngpus, program.coll, lambda: file_tasks(program, network, size))
    plan, chunks = sound_plan(path)
    return tasks_on(len(plan.chunks), plan.collective, lambda: plan_tasks(plan, chunks, network, size))


def _simulated_tasks(
    path: Path, network: Network, make: Callable[[], TaskGraph], settings: SimulationSettings
) -> Simulation:
    """The simulation of tasks that are made for a network."""
    try:
        return simulate(network, make(), settings.timing())
    except NoRoute as error:
        ends = f"{network.shown_name(error.source)} to {network.shown_name(error.target)}"
        raise SourceError(Diagnostic("X0511", f"{path}: {network.name} has no path from {ends}")) from error
    except Deadlock as error:
        raise CheckFailed(Diagnostic("S0401", f"{path}: the steps wait for one another forever")) from error
    except OverflowError as error:
        raise SourceError(Diagnostic("X0508", f"{path}: the simulated time exceeds 64 bits")) from error
    except ValueError as error:
        raise no_rates(network) from error


def _network_of(path: Path, settings: SimulationSettings) -> Network:
    """The network for a file that has none. Raises UsageError U0130 where none or two are named, and as its readers."""
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


# Schedules


def compiled_module(path: Path, schedule: str | None, definitions: Mapping[str, str]) -> tuple[Module, Network]:
    """The module of one schedule of a program, and the network that the program says; nothing is written.

    schedule, definitions: which one, and values of params. Raises what the compilation raises.
    """
    from collc.application.compile.compile_report import CompileReport
    from collc.application.compile.planning import BuildInput
    from collc.application.compile.schedule_build import build_schedule
    from collc.application.program_files import not_one_schedule
    from collc.application.settings import Settings
    from collc.source.elaboration.elaborate import load_program

    program = load_program(path, definitions, schedule)
    if len(program.schedules) != 1:
        raise not_one_schedule(path, len(program.schedules))
    request = program.schedules[0]
    report = build_schedule(BuildInput(request, Settings(keep_modules=True, write=False)))
    CompileReport((report,)).raise_if_failed()
    return report.kept_module(), request.network


def _simulated_schedule(path: Path, module: Module, settings: SimulationSettings) -> SimulationReport:
    if module.schedule is None:
        raise CheckFailed(Diagnostic("C0205", f"{path} has no schedule: there is nothing to simulate"))
    timing = settings.timing(module.schedule.model)
    found = simulated_module(module, timing)
    return SimulationReport(path, "schedule", settings.model, settings.astra, _workload_of(module.demand), found)


def _workload_of(demand: Demand) -> Workload:
    """The collective of a demand of one run of the standard library."""
    standard = demand.standard
    if standard is None:
        return Workload()
    return Workload(standard.kind, standard.size)
