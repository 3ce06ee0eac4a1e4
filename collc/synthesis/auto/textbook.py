"""The textbook algorithms of a standard library, as candidates: laid out on the links of a network, without congestion.

An algorithm is laid out as `using` does (collc/synthesis/fixed). If two of its messages would meet on a link, they
go one after the other, in the order in which they would have started; so most algorithms run on every connected
network, though not always well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.fixed.layout import lay_out
from collc.synthesis.fixed.send_paths import SendPaths
from collc.synthesis.retiming import MOST_TRANSFERS, shifted_left
from collc.synthesis.task import AlgorithmLibrary
from collc.ten.algorithm import AlgorithmSends
from collc.ten.demand import ChunkTable, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers


class TextbookAlgorithm:
    """An algorithm for all runs of a module.

    messages: in all, about, were each sent from where a chunk is to where it is wanted. paths: on the module's network.
    shape: the sizes of dimensions, for an algorithm that takes them.
    """

    def __init__(
        self,
        module: Module,
        library: AlgorithmLibrary,
        name: str,
        messages: int,
        paths: SendPaths,
        shape: Sequence[int] = (),
    ) -> None:
        self.name, self.messages = name, messages
        self._module, self._library, self._paths, self._shape = module, library, paths, shape

    @cached_property
    def _sends(self) -> list[AlgorithmSends]:
        """Those of each run. Raises SourceError if the algorithm does not fit."""
        demand, found = self._module.demand, list[AlgorithmSends]()
        for number, run in enumerate(demand.runs):
            assert run.standard is not None
            shape = self._shape if len(run.group) == self._module.network.npu_count else ()
            sends = self._library.sends(run.standard, len(run.group), self.name, shape)
            found.append(sends.renumber(run.group, int(demand.first_chunk[number])))
        return found

    @cached_property
    def least_time(self) -> int:
        """Picoseconds that its schedule takes at least: as long as what it sends occupies the busiest links.

        Raises SourceError if the algorithm does not fit.
        """
        demand = self._module.demand
        sends = AlgorithmSends.concatenate(self._sends)
        column = np.unique(demand.chunks.size, return_inverse=True)[1].reshape(-1)[sends.chunk]
        kinds, counts = np.unique(np.stack([sends.source, sends.target, column]), axis=1, return_counts=True)
        loads: Counter[tuple[int, int]] = Counter()
        for kind, count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
            for ends, time in self._paths.load(*kind).items():
                loads[ends] += count * time
        return max(loads.values(), default=0)

    def build(self) -> Module:
        """The module with the algorithm laid out. Raises CollcError if it does not run on the network."""
        module, network, demand = self._module, self._module.network, self._module.demand
        parts = [lay_out(network, demand, run, sends, module.model) for run, sends in enumerate(self._sends)]
        rows = Transfers.concatenate(parts)
        apart = shifted_left(network, demand, module.model, rows) if len(rows) <= 2 * MOST_TRANSFERS else None
        if apart is None:
            raise NoSchedule(Diagnostic("S0201", f"the messages of {self.name} meet on links too often"))
        return module.with_schedule(RowSchedule(module.model, apart), self.name)


def textbook_algorithms(module: Module, library: AlgorithmLibrary) -> Iterator[TextbookAlgorithm]:
    """The algorithms that may serve a module, in the order of the library; none if they cannot.

    All runs are of one kind of standard collective, nothing is planned yet, and no switch has a limited buffer. An
    algorithm that takes a shape gets that of the product that the network is.
    """
    standards = [run.standard for run in module.demand.runs]
    kinds = {standard.kind if standard is not None else "" for standard in standards}
    network = module.network
    many = sum(len(run.pattern) for run in module.demand.runs) > MOST_TRANSFERS
    if len(kinds) != 1 or many or module.schedule is not None or network.has_limited_buffers:
        return
    messages = sum(_messages(table) for table in module.demand.tables)
    shape, paths = dimension_sizes(network), SendPaths(network, Clock.of(network, module.demand, module.model))
    for name in library.names(kinds.pop()):
        sizes = shape if name == "hierarchical" else ()
        if messages <= MOST_TRANSFERS and (name != "hierarchical" or 1 < len(shape) <= MOST_DIMENSIONS):
            yield TextbookAlgorithm(module, library, name, messages, paths, sizes)


MOST_DIMENSIONS = 4
"""Dimensions that the algorithms of the library take."""


def _messages(table: ChunkTable) -> int:
    """The messages that the chunks of a table need, if each goes directly to its targets."""
    pre, post = table.sets.sizes[table.pre], table.sets.sizes[table.post]
    return int(post.sum()) + int(pre[table.op != Op.COPY].sum())


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

    It is for all NPUs of a network with two to MOST_DIMENSIONS dimensions.
    """
    shape = dimension_sizes(network) if members == len(network.npus) else []
    return shape if 1 < len(shape) <= MOST_DIMENSIONS else []
