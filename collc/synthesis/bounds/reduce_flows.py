"""What All-Reduces need of the links together, for any number of chunks, by one linear program.

Take a byte of an All-Reduce, the arrivals of its messages one after another, and the first NPU r that knows the sum.
Until then messages have taken the contribution of every member to r; after that, one more message arrives at each other
member. Both use links, and no message counts twice. The program has flows for the former and counts of the latter, for
all bytes, which may have different first NPUs; the links and the limits of NPUs carry them in the least time. It also
holds with time reversed, on the reversed network. A partition of the NPUs (collc/synthesis/bounds/partitions.py) shows
less if some NPUs are better places for sums than others.

The flows of a member's contribution go from NPU to NPU, and only NPUs add: a message through switches is a flow of its
sender to another NPU. A switch may send what it stores several times, one copy after another: of a last arrival only
the last link counts, and with time reversed such a switch would add, so that networks with switches have no reversed
program. Nothing is claimed of networks with switches that add or multicast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from collc.synthesis.bounds.fluid import SECOND, Fluid
from collc.synthesis.bounds.path_loads import LARGEST_PRICE, MOST_FLOWS, rounded_prices, solve_program
from collc.ten.demand import Demand, Run
from collc.ten.limited import Ports
from collc.ten.module import Bound
from collc.ten.network import Network

Terms = list[tuple[int, float]]
"""A sum of variables, by number, each times a factor."""


def reduce_flow_bounds(fluid: Fluid, demand: Demand) -> Iterator[Bound]:
    """The bounds of the program and, without switches, of the reversed one.

    None without All-Reduces, if it would be too large, or if the links of all NPUs have equal rates in all, so that
    none is a better place for sums.
    """
    network = fluid.network
    runs = [run for run in demand.runs if run.standard is not None and run.standard.shape.phases > 1]
    runs = [run for run in runs if len(run.group) > 1]
    pairs = len(network.npus) * (len(network.npus) - 1) if network.has_switches else network.link_count
    adds = network.reduces.any() or network.multicast.any()
    if not runs or adds or 2 * sum(len(run.group) for run in runs) * pairs > MOST_FLOWS:
        return
    widths = [np.bincount(ends, fluid.capacity, network.device_count) for ends in (network.source, network.target)]
    if not network.has_endpoints and all(np.ptp(width[network.npus]) == 0 for width in widths):
        return
    largest = max(_size(run) for run in runs)
    for directed in (network,) if network.has_switches else (network, network.reverse()):
        program = _Program(directed)
        for run in runs:
            program.add_run(run, _size(run) / largest)
        least = program.least_time(fluid)
        if least is not None:
            time, link = least
            name = f"the links on the paths of sums, such as {network.shown_link(link)}"
            latency = int(fluid.waits[network.kind].min())
            yield Bound(math.ceil(largest * SECOND * time / (int(fluid.capacity.max()) * fluid.unit)) + latency, name)


def _size(run: Run) -> int:
    assert run.standard is not None
    return run.standard.size


class _Program:
    """The linear program on a network, which may be reversed; in parts of the largest run and link.

    The variables are numbered. equal, most: sums that are equal to a number, and at most a number. on_link: by link the
    variables that it carries. late: by member what it needs of last arrivals.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.variables = 0
        self.equal: list[tuple[Terms, float]] = []
        self.most: list[tuple[Terms, float]] = []
        self.on_link: list[list[int]] = [[] for _ in range(network.link_count)]
        self.late: dict[int, tuple[Terms, float]] = {}
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()

    def variable(self) -> int:
        """A new one, of 0 or more."""
        self.variables += 1
        return self.variables - 1

    def flow(self, links: list[int]) -> dict[int, int]:
        """A variable for each of some links; what enters a switch leaves it."""
        flow = {link: self.variable() for link in links}
        through: dict[int, Terms] = {}
        for link, amount in flow.items():
            self.on_link[link].append(amount)
            for end, sign in ((self._target[link], 1), (self._source[link], -1)):
                if end >= self.network.npu_count:
                    through.setdefault(end, []).append((amount, sign))
        self.equal += [(terms, 0) for terms in through.values()]
        return flow

    def messages(self) -> dict[tuple[int, int], Terms]:
        """What each NPU sends to each other one, over links and switches."""
        sent: dict[tuple[int, int], Terms] = {}
        npus = self.network.npu_count
        ends = list(enumerate(zip(self._source, self._target, strict=True)))
        for npu in self.network.npus.tolist():
            links = [link for link, (start, end) in ends if end != npu and (start == npu or start >= npus)]
            for link, amount in self.flow(links).items():
                if self._target[link] < npus:
                    sent.setdefault((npu, self._target[link]), []).append((amount, 1))
        return sent

    def add_run(self, run: Run, size: float) -> None:
        """Messages take what each member has to the first NPUs that know the sum; other members get a last arrival."""
        first: dict[int, int] = {npu: self.variable() for npu in self.network.npus.tolist()}
        self.equal.append(([(share, 1) for share in first.values()], size))
        sent = self.messages()
        for member in run.group.tolist():
            left: dict[int, Terms] = {npu: [(share, 1)] for npu, share in first.items()}
            for (start, end), amounts in sent.items():
                carried = self.variable()
                self.most.append(([(carried, 1), *((amount, -1) for amount, _ in amounts)], 0))
                left[start].append((carried, 1))
                left[end].append((carried, -1))
            self.equal += [(terms, size if npu == member else 0) for npu, terms in left.items()]
            terms, needed = self.late.setdefault(member, ([], 0))
            self.late[member] = [*terms, (first[member], 1)], needed + size

    def least_time(self, fluid: Fluid) -> tuple[Fraction, int] | None:
        """A little less than the least time, rounded so that the last bits of the solver do not matter, and the link
        that costs most; None if the solver finds none.
        """
        arriving: dict[int, Terms] = {}
        for link, target in enumerate(self._target):
            amount = self.variable()
            self.on_link[link].append(amount)
            arriving.setdefault(target, []).append((amount, 1))
        for member, (terms, needed) in self.late.items():
            self.most.append(([(one, -factor) for one, factor in (*arriving.get(member, []), *terms)], -needed))
        time, widest = self.variable(), int(fluid.capacity.max())
        carried = [([(amount, 1.0) for amount in amounts], 0) for amounts in self.on_link]
        for (terms, _), capacity in zip(carried, fluid.capacity.tolist(), strict=True):
            terms.append((time, -capacity / widest))
        ports = Ports.of(fluid.network)
        for device, sends, rate in zip(ports.devices, ports.sends, ports.rates, strict=True):
            if rate is not None:
                links = np.flatnonzero((fluid.network.source if sends else fluid.network.target) == device).tolist()
                terms = [(amount, 1.0) for link in links for amount in self.on_link[link]]
                carried.append(([*terms, (time, -float(rate / fluid.unit) / widest)], 0))
        every = [([(number, -1.0)], 0) for number in range(self.variables)]
        rows = [*self.equal, *carried, *self.most, *every]
        entries = [(factor, row, number) for row, (terms, _) in enumerate(rows) for number, factor in terms]
        value, row, column = np.array(entries, np.float64).T
        limits, cost = np.array([limit for _, limit in rows], np.float64), np.zeros(self.variables)
        cost[time] = 1
        table = value, row.astype(np.int64), column.astype(np.int64)
        least, price = solve_program(table, limits, len(self.equal), cost)
        worst = rounded_prices(price[: len(self.on_link)] * fluid.capacity)
        if worst is None or least <= 0:
            return None
        level = Fraction(2) ** math.frexp(least)[1] / LARGEST_PRICE
        return (round(least / float(level)) - 1) * level, int(worst.argmax())
