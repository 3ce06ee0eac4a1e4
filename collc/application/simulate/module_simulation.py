"""The simulation of the schedule of a module."""

from __future__ import annotations

from dataclasses import replace

from collc.base.diagnostics import CheckFailed, Diagnostic, SourceError
from collc.simulation.engine import Deadlock, Simulation, simulate
from collc.simulation.hops import Hops
from collc.simulation.tasks import Edges
from collc.simulation.timing import Timing
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock


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
        found = simulate(network, message_tasks(network, demand, rows, ends), timing)
        # Links that the messages of a multicast share carry it once.
        once = Hops.of(network, tasks_of_transfers(network, demand, rows, Edges.of([])), timing)
        return replace(found, carried=once)
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
