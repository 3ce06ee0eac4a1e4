"""The simulation of the schedule of a module, and of textbook algorithms in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collc.application.compile.ring_order import RINGS, along_links
from collc.application.settings import Progress
from collc.base.diagnostics import CheckFailed, CollcError, Diagnostic, SourceError
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.hops import Hops
from collc.simulation.tasks import Edges
from collc.simulation.timing import ExactTiming, Timing
from collc.source.standard_algorithms import StandardAlgorithms, hierarchical_shape, textbook_sends
from collc.synthesis.fixed.queued import lay_out_queued
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Run, Standard
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule
from collc.verification import verify_schedule


def simulated_module(module: Module, timing: Timing) -> Simulation:
    """The simulation of a module's schedule: each transfer starts as soon as its chunk is there and its link is free.

    Without congestion, a message of several hops, as over switches, takes the time of its bytes once (see `Timing`).
    Raises CheckFailed S0401 where a transfer never starts, SourceError if links have no bandwidth.
    """
    from collc.simulation.message_tasks import message_tasks
    from collc.simulation.schedule_tasks import schedule_tasks, tasks_of_transfers

    network, demand, schedule = module.network, module.demand, module.schedule
    if schedule is None:
        raise ValueError(f"module {module.name} has no schedule")
    rows = schedule.transfers
    try:
        ends = rows.start + Clock.of(network, demand, schedule.model).total_of(rows)
        if timing.aware:
            return simulate(network, schedule_tasks(network, demand, rows, ends), timing)
        simulation = simulate(network, message_tasks(network, demand, rows, ends), timing)
        # Links that the messages of a multicast share carry it once.
        once = Hops.of(network, tasks_of_transfers(network, demand, rows, Edges.of([])), timing)
        return replace(simulation, carried=once)
    except Deadlock as error:
        raise CheckFailed(Diagnostic("S0401", "the transfers of the schedule wait for one another")) from error
    except ValueError as error:
        raise no_rates(network) from error
    except IndexError as error:
        hint = "'collc verify' says what is wrong"
        raise CheckFailed(
            Diagnostic("S0401", "a transfer names a chunk or a link that does not exist", hint=hint)
        ) from error


def no_rates(network: Network) -> SourceError:
    """The error for links without rates."""
    message = f"links of '{network.name}' have no bandwidth or latency"
    return SourceError(Diagnostic("S0105", message, hint="only a design chooses bandwidths itself"))


TEXTBOOK: Final = (*RINGS, "direct", "recursive_halving_doubling", "double_binary_tree", "hierarchical")
"""The algorithms of the standard library that a schedule is compared with."""

SYNTHESIZED: Final = ("themis",)
"""Published algorithms that are synthesizers here."""

MOST_MESSAGES: Final = 400_000
"""Messages of an algorithm up to which it is laid out: 2 s of CPU time for 100,000."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """An algorithm with its simulation, or the reason why there is none. module: with its schedule, if it has one."""

    name: str
    simulation: Simulation | None
    reason: str = ""
    module: Module | None = None

    @property
    def time_ps(self) -> int | None:
        """Picoseconds, with the launch; None without a simulation."""
        return None if self.simulation is None else self.simulation.call_ps


def simulated_alternatives(module: Module, network: Network, progress: Progress) -> Iterator[Alternative]:
    """Each alternative to the schedule of a module, simulated on a network.

    Raises SourceError C0209 if a run is of no standard collective.
    """
    standards = [standard_of(run) for run in module.demand.runs]
    blank = Module(module.name, network, module.demand, module.model)
    names = (*TEXTBOOK, *SYNTHESIZED)
    for number, name in enumerate(names):
        progress(number / len(names), f"simulating {name}")
        try:
            if name in SYNTHESIZED:
                context = PassContext()
                other = Invert().run(Synthesize(name).run(blank, context), context)
            else:
                other = _textbook(blank, standards, name)
            if not verify_schedule(other).ok:
                raise CheckFailed(Diagnostic("S0401", f"the schedule of {name} is wrong"))
            yield Alternative(name, simulated_module(other, ExactTiming(module.model)), module=other)
        except CollcError as error:
            yield Alternative(name, None, error.diagnostics[0].message if error.diagnostics else "it fails")


def standard_of(run: Run) -> Standard:
    """The standard collective of a run. Raises SourceError C0209 if it is of none."""
    if run.standard is None:
        message = f"run {run.collective} is not a standard collective, and textbook algorithms exist only for these"
        raise SourceError(Diagnostic("C0209", message, hint="compare schedules of collectives of std.collectives"))
    return run.standard


def _textbook(blank: Module, standards: Sequence[Standard], name: str) -> Module:
    """The module of an algorithm whose messages queue. Raises CollcError if it is for other collectives."""
    network, demand = blank.network, blank.demand
    runs: dict[int, tuple[AlgorithmSends, None]] = {}
    for number, (run, standard) in enumerate(zip(demand.runs, standards, strict=True)):
        if name not in StandardAlgorithms.names(standard.kind):
            raise CheckFailed(Diagnostic("S0201", f"there is none for {standard.kind}"))
        if name == "hierarchical" and not hierarchical_shape(network, len(run.group)):
            raise CheckFailed(Diagnostic("S0201", "the group has no two to four dimensions"))
        sends = textbook_sends(network, demand, number, name)
        if name in RINGS:
            sends = along_links(network, run, sends, name, int(demand.first_chunk[number]))
        runs[number] = (sends, None)
    messages = sum(len(sends) for sends, _ in runs.values())
    if messages > MOST_MESSAGES:
        raise CheckFailed(Diagnostic("S0201", f"left out: {messages} messages, more than {MOST_MESSAGES}"))
    return blank.with_schedule(RowSchedule(blank.model, lay_out_queued(network, demand, runs, blank.model)), name)
