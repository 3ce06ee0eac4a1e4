"""One task of `collc tune`: a schedule is synthesized and written for runtimes, and the files are simulated."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

from collc.application.compile.compilation import built_module
from collc.application.emit.file_times import Runtime, costs_of, file_times, read_tasks, write_file
from collc.application.program_files import ProgramFiles, load_files
from collc.application.settings import Settings
from collc.application.sweep.sweep_case import failure_of, with_textbook_algorithm
from collc.base.diagnostics import CollcError, Diagnostic
from collc.base.wording import plural
from collc.msccl.communicators import communicators_of, network_of_groups
from collc.msccl.options import MscclOptions, Profile, Protocol
from collc.passes.synthesizers import searching_synthesizers
from collc.simulation.engine import Deadlock, expect_many
from collc.simulation.routing import NoRoute
from collc.source.program import ScheduleRequest
from collc.ten.module import Module
from collc.ten.network import Network
from collc.tuning.nccl_shapes import nccl_times, shapes_of
from collc.tuning.protocols import ProtocolCost


@dataclass(frozen=True, slots=True)
class TunedProgram:
    """The schedule that is tuned: of which program, with which values of params."""

    program: ProgramFiles
    definitions: tuple[tuple[str, str], ...]
    schedule: str
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """A schedule to try. algorithm: a synthesizer or an algorithm of `std.algorithms`; None: what the program says.

    chunks: per block. size: bytes of the buffer for which it is planned. in_network: for plans only, with switches that
    add and multicast (NVLS); else from GPU to GPU.
    """

    algorithm: str | None
    chunks: int
    size: int
    in_network: bool = False

    @property
    def kinds(self) -> tuple[Runtime, ...]:
        """The kinds of files that the schedule is made for."""
        return ("mscclpp",) if self.in_network else ("msccl", "mscclpp", "run")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How a schedule is written. channels: most channels; None: as many as the runtime allows. profile: the runtime of
    an MSCCL file or a run file. dtype: of the elements, for run files.
    """

    kind: Runtime
    instances: int
    channels: int | None
    profile: Profile = Profile.EXECUTOR
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class TuningTask:
    """A schedule, the files to write of it, and the sizes for which they are simulated; plan None: what they are
    compared with.
    """

    tuned: TunedProgram
    plan: SchedulePlan | None
    files: tuple[FileOptions, ...]
    costs: tuple[ProtocolCost, ...]
    sizes: tuple[int, ...]


class FileTimes(TypedDict):
    """Picoseconds of one file for each size with a protocol, None if it cannot serve one. file: its FileOptions."""

    file: int
    protocol: str
    times: list[int | None]


class TuningResult(TypedDict):
    """What a task gives. synthesizer: what found the schedule. errors: of what failed, with the code."""

    synthesizer: str
    files: list[FileTimes]
    errors: list[str]
    compared: dict[str, list[int | None]]


def run_tuning_task(task: TuningTask) -> TuningResult:
    """Do one task; errors of any kind are in the result."""
    result: TuningResult = {"synthesizer": "", "files": [], "errors": [], "compared": {}}
    expect_many()
    try:
        if task.plan is None:
            result["compared"] = _compare_with_nccl(task)
            return result
        request, module = planned_module(task.tuned, task.plan)
        result["synthesizer"] = module.algorithm or ""
        for number, options in enumerate(task.files):
            try:
                result["files"] += _simulate_files(task, request.network, module, number, options)
            except CollcError as error:
                result["errors"].append(f"{_words(options)}: {_first_message(error.diagnostics)}")
            except (Deadlock, NoRoute) as error:
                result["errors"].append(f"{_words(options)}: it cannot be simulated: {error}")
    except Exception as error:
        result["errors"].append(_first_message(failure_of(error)[0]))
    return result


def _words(options: FileOptions) -> str:
    channels = f", {options.channels} channels" if options.channels is not None else ""
    return f"{options.kind}, {plural(options.instances, 'instance')}{channels}"


def _first_message(messages: Sequence[Diagnostic]) -> str:
    first = messages[0] if messages else Diagnostic("S0401", "a check failed")
    return f"[{first.code}] {first.message}"


def planned_module(tuned: TunedProgram, plan: SchedulePlan) -> tuple[ScheduleRequest, Module]:
    """The schedule of a plan, verified and fit for its kinds of files. Raises CollcError if there is none."""
    request = request_for(tuned, plan.size, plan.chunks)
    textbook = plan.algorithm is not None and plan.algorithm not in searching_synthesizers()
    if textbook and plan.algorithm is not None:
        request = with_textbook_algorithm(request, plan.algorithm)
    settings = Settings(
        synthesizer=None if textbook else plan.algorithm,
        seed=tuned.seed,
        link_model="pipelined",
        planned_for=plan.kinds,
        keep_modules=True,
    )
    return request, built_module(request, settings)


@lru_cache(maxsize=4)
def as_written(tuned: TunedProgram) -> ScheduleRequest:
    """The schedule's request with the size and the chunks of the program. Raises CollcError if it is wrong."""
    return load_files(tuned.program, dict(tuned.definitions), tuned.schedule, None).schedules[0]


def request_for(tuned: TunedProgram, size: int, chunks: int) -> ScheduleRequest:
    """The schedule's request with about `size` bytes, a multiple of 16 bytes for each chunk of each rank."""
    unit = 16 * chunks * len(as_written(tuned).demand.runs[0].group)
    loaded = load_files(tuned.program, dict(tuned.definitions), tuned.schedule, chunks, -(-size // unit) * unit)
    return of_the_group(replace(loaded.schedules[0], emits=(), checks=()))


def of_the_group(request: ScheduleRequest) -> ScheduleRequest:
    """The request on the members of the run's group alone, by rank, as a file for a runtime has them."""
    network = network_of_groups(request.network, request.demand)
    (communicator,) = communicators_of(network, request.demand)
    return replace(request, network=communicator.network, demand=communicator.demand)


def file_options(options: FileOptions, protocol: str, sizes: tuple[int, int | None] = (0, None)) -> MscclOptions:
    """The options of a file as `emit` has them."""
    return MscclOptions(
        instances=options.instances,
        profile=options.profile,
        protocol=Protocol(protocol),
        channels=options.channels,
        sizes=sizes,
        dtype=options.dtype,
    )


def _simulate_files(
    task: TuningTask, network: Network, module: Module, number: int, options: FileOptions
) -> Iterator[FileTimes]:
    """The times of one file, with each protocol that its kind has. Raises what writing it raises."""
    in_network = task.plan is not None and task.plan.in_network
    costs = [cost for cost in costs_of(options.kind, task.costs) if cost.name == "Simple" or not in_network]
    with tempfile.TemporaryDirectory(prefix="collc-") as folder:
        path = Path(folder) / "file"
        for number_of_cost, cost in enumerate(costs):
            other_program = options.kind == "mscclpp" or options.profile is Profile.RCCL
            if number_of_cost == 0 or other_program:
                write_file(module, file_options(options, cost.name), options.kind, path)
            file = read_tasks(path, network, options.kind, cost.name, options.profile)
            times = file_times(task.sizes, network, file, cost, options.kind)
            yield {"file": number, "protocol": cost.name, "times": times}


def _compare_with_nccl(task: TuningTask) -> dict[str, list[int | None]]:
    """The bound for each size, and NCCL's own algorithms with the best protocol."""
    from collc.synthesis.bounds import ideal_bound
    from collc.ten.schedule import LinkModel

    compared: dict[str, list[int | None]] = {"ideal": []}
    requests = [request_for(task.tuned, size, 1) for size in task.sizes]
    for request in requests:
        ideal = ideal_bound(request.network, request.demand, LinkModel.PIPELINED)
        compared["ideal"].append(request.network.launch + ideal.time)
    network, run = requests[0].network, requests[0].demand.runs[0]
    if run.standard is not None and len(run.group) == len(network.npus):
        root = max(0, run.standard.root)
        for shape in shapes_of(run.standard.kind):
            times = nccl_times(network, run.standard.kind, shape, task.sizes, task.costs, root)
            compared[f"nccl_{shape}"] = times
    return compared
