"""`collc compare`: a schedule against textbook algorithms and the ideal, all simulated on one network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collc.application.compare.alternatives import simulated_alternatives, standard_of
from collc.application.compare.comparison_report import Alternative, Comparison
from collc.application.file_kinds import kind_of
from collc.application.settings import Progress
from collc.application.simulate.module_simulation import simulated_module
from collc.application.simulate.simulating import compiled_module
from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.simulation.bandwidth import collectives_of_nccl_tests
from collc.simulation.timing import ExactTiming
from collc.synthesis.bounds import ideal_bound
from collc.ten.module import Module
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class CompareSettings:
    """schedule, definitions: of a program, which schedule, and values of its params."""

    schedule: str | None = None
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])


def compare_file(path: Path, settings: CompareSettings, progress: Progress) -> Comparison:
    """Compare a schedule of a program, or that of a `.ten` file.

    Raises SourceError C0209 where a run is of no standard collective, and what compilation or reading raises.
    """
    kind = kind_of(path)
    if kind is not None and kind.name == "ten":
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
    standards = [standard_of(run) for run in module.demand.runs]
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
        collective if collective in collectives_of_nccl_tests() else "",
        sizes.pop() if alike else 0,
        ranks.pop() if alike else 0,
        tuple(found),
        ideal.time,
        ideal.name,
    )
