"""The textbook algorithms of a standard library, as candidates: laid out on the links of a network, without congestion.

An algorithm is laid out as `using` does (collc/synthesis/fixed). If two of its messages would meet on a link, they
go one after the other, in the order in which they would have started; so most algorithms run on every connected
network, though not always well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.fixed.layout import lay_out
from collc.synthesis.retiming import MOST_TRANSFERS, shifted_left
from collc.synthesis.task import AlgorithmLibrary
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

Count = Callable[[int], None]


def textbook_algorithms(
    module: Module, library: AlgorithmLibrary
) -> Iterator[tuple[str, int, Callable[[Module, Count], Module]]]:
    """The algorithms that may serve a module, in the order of the library; none if they cannot.

    Yields the name, about how many messages it has, and a function that lays the algorithm out on the network of a
    module with the demand, and calls a function with the links that it has looked at. It raises CollcError if the
    algorithm does not fit or does not run there.

    All runs are of standard collectives for which there is the algorithm, nothing is planned yet, and no switch has a
    limited buffer. An algorithm that takes a shape gets the shape of the product that the network is.
    """
    kinds = dict.fromkeys(run.standard.kind if run.standard is not None else "" for run in module.demand.runs)
    network = module.network
    many = sum(len(run.pattern) for run in module.demand.runs) > MOST_TRANSFERS
    if "" in kinds or many or module.schedule is not None or network.has_limited_buffers:
        return
    messages = module.demand.pair_count
    if messages > MOST_TRANSFERS:
        return
    first, *others = map(library.names, kinds)
    for name in first:
        serves = all(name in names for names in others)
        if serves and (name != "hierarchical" or hierarchical_shape(network, len(network.npus))):
            yield name, messages, partial(_laid_out_module, library, name)


def _laid_out_module(library: AlgorithmLibrary, name: str, module: Module, count: Count) -> Module:
    """The module with an algorithm laid out. Raises CollcError if it does not fit or does not run on the network."""
    network, demand, parts = module.network, module.demand, list[Transfers]()
    for number in range(len(demand.runs)):
        sends = textbook_sends(library, network, demand, number, name)
        parts.append(lay_out(network, demand, number, sends, module.model, count=count))
    rows = Transfers.concatenate(parts)
    apart = shifted_left(network, demand, module.model, rows) if len(rows) <= 2 * MOST_TRANSFERS else None
    if apart is None and _are_apart(rows, Clock.of(network, demand, module.model)):
        apart = rows
    if apart is None:
        raise NoSchedule(Diagnostic("S0201", f"the messages of {name} meet on links too often"))
    return module.with_schedule(RowSchedule(module.model, apart), name)


def _are_apart(rows: Transfers, clock: Clock) -> bool:
    """Whether each transfer leaves its link before the next one enters it."""
    order = np.lexsort((rows.start, rows.link))
    link, start, end = rows.link[order], rows.start[order], (rows.start + clock.busy_of(rows))[order]
    return bool(((link[1:] != link[:-1]) | (start[1:] >= end[:-1])).all())


def textbook_sends(
    library: AlgorithmLibrary, network: Network, demand: Demand, number: int, name: str
) -> AlgorithmSends:
    """The sends of an algorithm between the NPUs of a run of a standard collective. Raises SourceError if it does not
    fit. number: of the run.
    """
    run = demand.runs[number]
    assert run.standard is not None
    shape = hierarchical_shape(network, len(run.group)) if name == "hierarchical" else ()
    sends = library.sends(run.standard, len(run.group), name, shape)
    return sends.renumber(run.group, int(demand.first_chunk[number]))


MOST_DIMENSIONS = 4
"""Dimensions that the algorithms of the library take."""


def dimension_sizes(network: Network) -> list[int]:
    """The sizes of the dimensions of the product that a network is, or of the one array that all NPUs form.

    The fastest first; [] if they form none.
    """
    if network.axes:
        return [axis.size for axis in network.axes]
    first = network.families[0] if network.families else None
    if first is None or first.count != network.npu_count:
        return []
    order = sorted(range(len(first.shape)), key=lambda axis: first.strides[axis])
    return [first.shape[axis] for axis in order if first.shape[axis] > 1]


def hierarchical_shape(network: Network, members: int) -> list[int]:
    """The sizes of dimensions for `hierarchical` over a group of `members` NPUs; [] if it does not fit.

    It is for all NPUs of a network with two to MOST_DIMENSIONS dimensions, of which none has failed.
    """
    shape = dimension_sizes(network)
    return shape if 1 < len(shape) <= MOST_DIMENSIONS and members == len(network.npus) == math.prod(shape) else []
