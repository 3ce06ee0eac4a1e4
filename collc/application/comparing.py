"""`collc compare`: a schedule against textbook algorithms and the ideal, all simulated on one network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from collc.application.comparison_report import Alternative, Comparison
from collc.application.ring_order import RINGS, along_links
from collc.application.simulating import compiled_module, simulated_module
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, SourceError
from collc.msccl.file_kinds import kind_of
from collc.passes.context import PassContext
from collc.passes.registry import Invert
from collc.passes.synthesize import Synthesize
from collc.simulation.bandwidth import COLLECTIVES
from collc.simulation.engine import Simulation
from collc.simulation.timing import ExactTiming
from collc.source.standard_algorithms import StandardAlgorithms
from collc.synthesis.bounds import ideal_bound
from collc.synthesis.fixed.queued import lay_out_queued
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand, Run, Standard
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule
from collc.verification import verify_schedule

TEXTBOOK: Final = (*RINGS, "direct", "recursive_halving_doubling", "double_binary_tree", "hierarchical")
"""The algorithms of the standard library that a schedule is compared with."""

SYNTHESIZED: Final = ("themis",)
"""Published algorithms that are synthesizers here."""

MOST_MESSAGES: Final = 400_000
"""Messages of an algorithm up to which it is laid out: 2 s of CPU time for 100,000."""

_MOST_DIMENSIONS: Final = 4
"""Dimensions that the textbook algorithm `hierarchical` takes."""

Progress = Callable[[float | None, str], None]


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """schedule, definitions: of a program, which schedule, and values of its params."""

    schedule: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])


def compare_file(path: Path, settings: CompareSettings, progress: Progress) -> Comparison:
    """Compare a schedule of a program, or that of a `.ten` file.

    Raises SourceError C0209 where a run is of no standard collective, and what compilation or reading raises.
    """
    if path != Path("-") and kind_of(path) == "ten":
        from collc.ten.files import read_module

        module = read_module(path)
        network = module.network
    else:
        progress(None, "compiling the schedule")
        module, network = compiled_module(path, settings.schedule, settings.definitions)
    if module.schedule is None:
        raise CheckFailed(Diagnostic("C0205", f"{path} has no schedule: there is nothing to compare"))
    return compare(module, network, progress)


def compare(module: Module, network: Network, progress: Progress) -> Comparison:
    """Compare the schedule of a module with all alternatives that run on a network.

    network: that of the module, where its schedule has no direct links in the place of switches.
    """
    standards = [_standard(run) for run in module.demand.runs]
    own = simulated_module(module, ExactTiming(module.model)).time_ps
    ideal = ideal_bound(network, module.demand, module.model)
    found = [Alternative(module.algorithm or "this schedule", own, own=True)]
    for name, other in simulated_alternatives(module, network, progress):
        if isinstance(other, str):
            found.append(Alternative(name, None, other))
        else:
            found.append(Alternative(name, other.time_ps))
    kinds, sizes = {one.kind for one in standards}, {one.size for one in standards}
    ranks = {len(run.group) for run in module.demand.runs}
    alike = len(kinds) == len(sizes) == len(ranks) == 1
    collective = kinds.pop() if alike else ""
    return Comparison(
        module.name,
        network.name,
        collective if collective in COLLECTIVES else "",
        sizes.pop() if alike else 0,
        ranks.pop() if alike else 0,
        tuple(found),
        ideal.time,
        ideal.name,
    )


def simulated_alternatives(
    module: Module, network: Network, progress: Progress
) -> Iterator[tuple[str, Simulation | str]]:
    """Each alternative to the schedule of a module with its simulation on a network, or with why there is none.

    Raises SourceError C0209 where a run is of no standard collective.
    """
    standards = [_standard(run) for run in module.demand.runs]
    blank = Module(module.name, network, module.demand, module.model)
    names = (*TEXTBOOK, *SYNTHESIZED)
    for number, name in enumerate(names):
        progress(number / len(names), f"simulating {name}")
        try:
            other = _synthesized(blank, name) if name in SYNTHESIZED else _textbook(blank, standards, name)
            if not verify_schedule(other).ok:
                raise CheckFailed(Diagnostic("S0401", f"the schedule of {name} is wrong"))
            yield name, simulated_module(other, ExactTiming(module.model))
        except CollcError as error:
            yield name, error.diagnostics[0].message if error.diagnostics else "it fails"


def _standard(run: Run) -> Standard:
    if run.standard is None:
        message = f"run {run.collective} is of no standard collective, for which there are textbook algorithms"
        raise SourceError(Diagnostic("C0209", message, hint="compare schedules of collectives of std.collectives"))
    return run.standard


def _synthesized(blank: Module, name: str) -> Module:
    context = PassContext()
    return Invert().run(Synthesize(name).run(blank, context), context)


def _textbook(blank: Module, standards: Sequence[Standard], name: str) -> Module:
    """The module with an algorithm whose messages queue. Raises CollcError where it is for other collectives."""
    network, demand = blank.network, blank.demand
    runs = {
        number: (_statements(network, demand, number, standard, name), None)
        for number, standard in enumerate(standards)
    }
    messages = sum(len(sends) for sends, _ in runs.values())
    if messages > MOST_MESSAGES:
        raise CheckFailed(Diagnostic("S0201", f"left out: {messages} messages, more than {MOST_MESSAGES}"))
    schedule = RowSchedule(blank.model, lay_out_queued(network, demand, runs, blank.model))
    return blank.with_schedule(schedule, name)


def _statements(network: Network, demand: Demand, number: int, standard: Standard, name: str) -> AlgorithmSends:
    """The statements of a run, between NPUs."""
    run = demand.runs[number]
    library = StandardAlgorithms()
    if name not in library.names(standard.kind):
        raise CheckFailed(Diagnostic("S0201", f"there is none for {standard.kind}"))
    shape: list[int] = []
    if name == "hierarchical":
        shape = _shape(network) if len(run.group) == len(network.npus) else []
        if not 1 < len(shape) <= _MOST_DIMENSIONS:
            raise CheckFailed(Diagnostic("S0201", "the group has no two to four dimensions"))
    sends = library.sends(standard, len(run.group), name, shape)
    first = int(demand.first_chunk[number])
    placed = replace(
        sends,
        chunk=(sends.chunk + first).astype(sends.chunk.dtype),
        source=run.group[sends.source],
        target=run.group[sends.target],
    )
    return along_links(network, run, placed, name, first) if name in RINGS else placed


def _shape(network: Network) -> list[int]:
    """The sizes of the dimensions of the product that a network is, or of the one array that all NPUs form."""
    if network.axes:
        return [axis.size for axis in network.axes]
    family = network.families[0] if network.families else None
    if family is None or family.count != network.npu_count:
        return []
    order = sorted(range(len(family.shape)), key=lambda axis: family.strides[axis])
    return [family.shape[axis] for axis in order if family.shape[axis] > 1]
