"""`collc topology`: what a person checks about a network before a schedule is planned on it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, cast

import numpy as np

from collc.application.program_files import named_network, standard_demand
from collc.base.tables import Column, Table, records_of, table_of
from collc.base.units import format_time, shown_bytes, shown_rate
from collc.base.wording import plural
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_to
from collc.graph.memory_traffic import fed_for
from collc.graph.translations import find_translations
from collc.source.host_lists import compressed_hosts
from collc.synthesis.bounds import ideal_bound
from collc.ten.arrays import Int32Array
from collc.ten.endpoint import Endpoint, least
from collc.ten.limited import link_rates
from collc.ten.network import LinkKind, Network

SIZE: Final = 1 << 30
"""Bytes of the collectives whose bounds are shown."""

COLLECTIVES: Final = ("all_gather", "all_reduce", "all_to_all")
EXACT_PAIRS: Final = 1024
"""NPUs up to which distances of all pairs are computed; above, from one NPU of each orbit."""

BISECTED: Final = 4096
"""Devices up to which halves are cut."""

BOUNDED: Final = 10_000
"""NPUs up to which collectives are bounded: the narrowest set of NPUs takes a flow to each of them."""

RateSpan = tuple[Fraction, Fraction] | None
"""The least and the most bytes per second; None if a link has no bandwidth."""


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Devices of one family.

    links: out of one, least and most. rate_out, rate_in: of the links of one. labels: what the machine calls the
    devices, () if nothing says it.
    """

    name: str
    count: int
    is_switch: bool
    links: tuple[int, int]
    rate_out: RateSpan
    rate_in: RateSpan
    labels: tuple[str, ...] = ()

    @property
    def real_names(self) -> str:
        """The labels in short: `node[1-4]/GPU[0-7]`."""
        hosts = dict.fromkeys(label.rpartition("/")[0] for label in self.labels)
        own = dict.fromkeys(label.rpartition("/")[2] for label in self.labels)
        parts = [", ".join(compressed_hosts([*names])) for names in (hosts, own)]
        text = "/".join(name for name in parts if name)
        return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Links of one kind between two families. both: whether each is there in both directions; count: of one."""

    ends: tuple[str, str]
    both: bool
    count: int
    kind: LinkKind


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The least time of a collective, and what sets it."""

    collective: str
    size: int
    time: int
    limit: str


def _span(ends: Sequence[object]) -> str:
    """Two ends, or one if they are equal."""
    return " .. ".join(dict.fromkeys(map(str, ends)))


def _rate(title: str, key: str, rates: Callable[[DeviceRow], RateSpan]) -> Column[DeviceRow]:
    return Column(
        title,
        key,
        lambda row: None if (ends := rates(row)) is None else [float(rate) for rate in ends],
        lambda ends: _span([shown_rate(Fraction(rate)) for rate in ends]),
    )


_DEVICES: Final[Sequence[Column[DeviceRow]]] = (
    Column("devices", "name", lambda row: row.name),
    Column("count", "count", lambda row: row.count),
    Column("kind", "switch", lambda row: row.is_switch, lambda switch: "switch" if switch else "NPU"),
    Column("", "labels", lambda row: list(row.labels)),
    Column("links out", "links_out", lambda row: list(row.links), _span),
    _rate("rate out", "rate_out", lambda row: row.rate_out),
    _rate("rate in", "rate_in", lambda row: row.rate_in),
)
_CALLED: Final[Column[DeviceRow]] = Column("called", "", lambda row: row.real_names)

_LINKS: Final[Sequence[Column[LinkRow]]] = (
    Column("links", "", lambda row: f"{row.ends[0]} {'<->' if row.both else '->'} {row.ends[1]}"),
    Column("", "from", lambda row: row.ends[0]),
    Column("", "to", lambda row: row.ends[1]),
    Column("", "both", lambda row: row.both),
    Column("count", "count", lambda row: row.count),
    Column("bandwidth", "", lambda row: row.kind.bandwidth, shown_rate),
    Column("", "bandwidth", lambda row: None if row.kind.bandwidth is None else float(row.kind.bandwidth)),
    Column("latency", "latency_ps", lambda row: row.kind.latency, format_time),
)

_LIMITS: Final[Sequence[Column[LimitRow]]] = (
    Column("collective", "collective", lambda row: row.collective),
    Column("size", "size", lambda row: row.size, shown_bytes),
    Column("time at least", "time_ps", lambda row: row.time, format_time),
    Column("bandwidth at most", "", lambda row: row.size * 1000 / row.time, "{:.2f} GB/s".format),
    Column("limited by", "limited_by", lambda row: row.limit),
)


@dataclass(frozen=True, slots=True)
class TopologySummary:
    """What a network is. facts: properties and values, as text; values: the same facts as numbers, for JSON."""

    name: str
    network: Network
    devices: tuple[DeviceRow, ...]
    links: tuple[LinkRow, ...]
    facts: tuple[tuple[str, str], ...]
    values: Mapping[str, object]
    limits: tuple[LimitRow, ...]

    def as_json(self) -> dict[str, object]:
        """The object that `--json` prints; rates in bytes per second, times in picoseconds."""
        return {
            "topology": self.name,
            "devices": records_of(_DEVICES, self.devices),
            "links": records_of(_LINKS, self.links),
            **self.values,
            "limits": records_of(_LIMITS, self.limits),
        }

    def tables(self) -> list[Table]:
        """The tables for people."""
        called = [_CALLED] if any(row.labels for row in self.devices) else []
        return [
            table_of([*_DEVICES, *called], self.devices),
            table_of(_LINKS, self.links),
            Table(("property", "value"), self.facts),
            table_of(_LIMITS, self.limits),
        ]


def summarize(target: str, definitions: Mapping[str, str]) -> TopologySummary:
    """The summary of FILE.coll:TOPOLOGY, or of the only topology of FILE.coll. Raises as `named_network`."""
    network = named_network(target, definitions)
    return summary_of(network, network.name)


def summary_of(network: Network, name: str) -> TopologySummary:
    """The summary of a network."""
    complete = all(kind.bandwidth and kind.latency is not None for kind in network.kinds)
    facts: list[tuple[str, str]] = []
    for row, kind in enumerate(network.endpoint_kinds):
        count = int((network.endpoint == row).sum())
        if count and kind != Endpoint():
            rates = (("inject", kind.inject), ("eject", kind.eject), ("memory", kind.memory))
            said = [f"{name} {shown_rate(rate)}" for name, rate in rates if rate is not None]
            times = (("overhead", kind.overhead), ("launch", kind.launch))
            said += [f"{name} {format_time(time)}" for name, time in times if time]
            mode = f" ({kind.mode})" if kind.memory is not None else ""
            facts.append(("limits of NPUs", f"{', '.join(said)}{mode}: {count} of {network.npu_count}"))
    translations = find_translations(network)
    orbits = len(network.npus) if translations is None else network.npu_count // translations.count
    values: dict[str, object] = {
        "translations": [] if translations is None else list(translations.sizes),
        "orbits": orbits,
    }
    symmetry = "none found"
    if translations is not None:
        alike = "all NPUs are alike" if orbits == 1 else f"{orbits} kinds of NPUs"
        symmetry = f"{translations.count} translations ({' x '.join(map(str, translations.sizes))}); {alike}"
    facts.append(("symmetry", symmetry))
    if len(network.npus) > 1 and network.link_count > 0 and complete:
        _add_diameter(network, facts, values)
        values["bisection_at_most"] = None
        if network.device_count <= BISECTED:
            narrowest = min(_cut_between(network, half) for half in _halves(network))
            values["bisection_at_most"] = float(narrowest)
            facts.append(("bisection", f"at most {shown_rate(narrowest)} from half of the NPUs to the others"))
    bounded = values.get("diameter_hops") is not None and len(network.npus) <= BOUNDED
    if len(network.npus) > BOUNDED:
        facts.append(("collectives", f"not bounded: more than {BOUNDED:,} NPUs"))
    members: dict[tuple[str, bool], list[int]] = {}  # by name without indices, as node[*].gpu[*], the present devices
    for device in np.flatnonzero(network.present).tolist():
        pattern = re.sub(r"\[[^.]*", "[*]", network.device_name(device))
        members.setdefault((pattern, network.is_switch(device)), []).append(device)
    families = [(pattern, np.array(numbers, np.int32)) for (pattern, _), numbers in members.items()]
    devices, links = tuple(_devices(network, families)), tuple(_links(network, families))
    limits = tuple(_limits(network)) if bounded else ()
    return TopologySummary(name, network, devices, links, tuple(facts), values, limits)


def _devices(network: Network, families: Sequence[tuple[str, Int32Array]]) -> Iterator[DeviceRow]:
    sums = [_rates_of_devices(network, sent=sent) for sent in (True, False)]
    degree = np.bincount(network.source, minlength=network.device_count)
    for name, devices in families:
        numbers: list[int] = devices.tolist()
        own = [None if rates is None else [rates[device] for device in numbers] for rates in sums]
        spans: list[RateSpan] = [None if rates is None else (min(rates), max(rates)) for rates in own]
        links = int(degree[devices].min()), int(degree[devices].max())
        real = tuple(network.real_name(device) for device in numbers)
        labels = real if any(real) else ()
        yield DeviceRow(name, len(devices), network.is_switch(numbers[0]), links, spans[0], spans[1], labels)


def _rates_of_devices(network: Network, *, sent: bool) -> list[Fraction] | None:
    """For each device the bytes per second of its links, and of an NPU no more than it can send or receive; None if
    a kind has no bandwidth.
    """
    if any(kind.bandwidth is None for kind in network.kinds):
        return None
    sums = link_rates(network, network.source if sent else network.target)
    for npu in range(len(network.endpoint)):
        endpoint = network.endpoint_of(npu)
        sums[npu] = least(endpoint.send if sent else endpoint.receive, sums[npu]) or sums[npu]
    return sums


def _links(network: Network, families: Sequence[tuple[str, Int32Array]]) -> Iterator[LinkRow]:
    pattern = np.zeros(network.device_count, np.int64)
    for number, (_, devices) in enumerate(families):
        pattern[devices] = number
    keys = np.stack([pattern[network.source], pattern[network.target], network.kind], axis=1)
    rows, counts = np.unique(keys, axis=0, return_counts=True)
    table = {(int(a), int(b), int(kind)): count for (a, b, kind), count in zip(rows, counts.tolist(), strict=True)}
    for (a, b, kind), count in table.items():
        both = table.get((b, a, kind)) == count
        if a == b:
            inside = np.flatnonzero((keys == (a, b, kind)).all(axis=1))
            source, target = network.source[inside], network.target[inside]
            there, back = np.lexsort((source, target)), np.lexsort((target, source))
            both = np.array_equal(source[there], target[back]) and np.array_equal(target[there], source[back])
        if not both or a <= b:
            each = count // 2 if both and a == b else count
            yield LinkRow((families[a][0], families[b][0]), both, each, network.kinds[kind])


def _add_diameter(network: Network, facts: list[tuple[str, str]], values: dict[str, object]) -> None:
    """The most hops and the longest least latency between two NPUs."""
    exact = len(network.npus) <= EXACT_PAIRS
    targets = network.npus if exact else network.npus[:1]
    lengths = (np.ones(network.link_count, np.int64), np.maximum(network.latencies[network.kind], 1))
    graph = Digraph.of(network)
    hops, time = (int(distances_to(graph, length, targets)[:, network.npus].max()) for length in lengths)
    joined = hops < UNREACHABLE
    values |= {"diameter_hops": hops if joined else None, "diameter_ps": time if joined else None}
    values["diameter_exact"] = exact
    seen = "" if exact else f" (to {network.device_name(int(targets[0]))})"
    text = f"{plural(hops, 'hop')}, {format_time(time)} of latency{seen}"
    facts.append(("diameter", text if joined else "no path leads from some NPU to another"))


def _halves(network: Network) -> list[set[int]]:
    """Halves of the NPUs: the first ones, those in the lower half of a dimension, every second one."""
    npus: list[int] = network.npus.tolist()
    count = len(npus) // 2
    halves = [set(npus[:count]), set(npus[::2][:count])]
    width = 1
    for axis in network.axes:
        lower = {npu for npu in npus if (npu // width) % axis.size < axis.size // 2}
        if 2 * len(lower) == len(npus):
            halves.append(lower)
        width *= axis.size
    return halves


def _cut_between(network: Network, half: set[int]) -> Fraction:
    """Bytes per second out of a half of the NPUs to the others, switches on the better side."""
    import networkx

    rates = [kind.bandwidth or Fraction(0) for kind in network.kinds]
    unit = math.lcm(*(rate.denominator for rate in rates))
    widths = [int(rate * unit) for rate in rates]
    ends: list[list[int]] = [network.source.tolist(), network.target.tolist(), network.kind.tolist()]
    capacity: Counter[tuple[int, int]] = Counter()
    for begin, end, kind in zip(*ends, strict=True):
        capacity[begin, end] += widths[kind]
    graph: networkx.DiGraph[int] = networkx.DiGraph()
    source, sink = network.device_count, network.device_count + 1
    graph.add_edges_from((*pair, {"capacity": width}) for pair, width in capacity.items())
    graph.add_edges_from((source, npu) if npu in half else (npu, sink) for npu in network.npus.tolist())
    return Fraction(int(cast("Any", networkx).maximum_flow_value(graph, source, sink)), unit)


def _limits(network: Network) -> Iterator[LimitRow]:
    """The bounds of collectives of the standard library over all NPUs."""
    parts = len(network.npus)
    unit = parts * (1 << 20 if parts <= 1 << 10 else 1 << 10)
    size = SIZE if SIZE % parts == 0 else -(-SIZE // unit) * unit
    for collective in COLLECTIVES:
        demand = standard_demand(network, collective, size)
        bound = ideal_bound(fed_for(network, demand), demand)
        if bound.time > 0:
            yield LimitRow(collective, size, network.launch + bound.time, bound.name)
