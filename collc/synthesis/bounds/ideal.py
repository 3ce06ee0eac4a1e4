"""The ideal of a demand: a lower bound on its time that holds for any number of chunks.

The data that must enter a set of devices takes at least its bytes divided by the bandwidth of the links into the set,
and it needs the latencies of a path (collc/synthesis/bounds/fluid.py). For standard collectives the narrowest set is
found exactly (collc/graph/throughput.py), and the sets that the bounds of given chunks use are tried too. An All-Reduce
needs more than any one set shows (collc/synthesis/bounds/partitions.py); on small networks a linear program says how
much (collc/synthesis/bounds/reduce_flows.py).

An NPU whose rates are limited must receive what it wants and does not hold, and send what only it holds. Both take at
least the bytes divided by its rate. If it is the only connection between parts of the network, it must also forward to
each part all that this part wants from the others. On networks without switches every chunk that arrives was sent by an
NPU and is received by one, so all arrivals together take at least their bytes divided by the sum of the rates of all
senders, and by the sum of the rates of all receivers.

On each link there is at least one message. Its overhead delays what it carries as a latency does, and no more is said
of overheads here: how many messages there are depends on the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import Final

import numpy as np

from collc.graph.automorphisms import kind_code, mix_bits, refine_colours
from collc.graph.digraph import Digraph, weakly_connected
from collc.graph.distances import UNREACHABLE, distances_to, hop_counts
from collc.synthesis.bounds.cuts import narrow_sets, npu_sets, searched_runs
from collc.synthesis.bounds.fluid import SECOND, Fluid, fluid_of
from collc.synthesis.bounds.partitions import partition_bounds, several_runs_bounds
from collc.synthesis.bounds.path_loads import PathLoads
from collc.synthesis.bounds.reduce_flows import reduce_flow_bounds
from collc.synthesis.bounds.set_names import name_of_links_into
from collc.synthesis.bounds.timing import DETAILED_DEVICES, MOST_CUTS, parts_of
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import Int32Array, Int64Array, unique_rows
from collc.ten.demand import Demand, Run
from collc.ten.endpoint import least
from collc.ten.limited import Ports, link_rates
from collc.ten.module import Bound
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel


def endpoint_bounds(network: Network, sizes: Int64Array, traffic: list[Traffic]) -> Iterator[Bound]:
    """All such bounds; none if NPUs have no limits. sizes: int64, bytes by the size numbers of `traffic`.

    Raises ValueError if links have no latency.
    """
    ports = Ports.of(network)
    if not len(ports):
        return
    latency = network.latencies[network.kind]
    for sends in (True, False):
        yield from _of_each(network, sizes @ _chunk_counts(network, sizes, traffic, sends), latency, sends)
        if len(network.npus) <= MOST_CUTS:
            passed = sizes @ _passed_on(network, len(sizes), traffic, sends)
            yield from _of_each(network, passed, latency, sends, _ONLY_CONNECTION)
    if not network.has_switches:
        for sends in sorted(set(ports.sends), reverse=True):
            yield from _of_all(network, sizes, traffic, int(latency.min()), sends)


_ONLY_CONNECTION: Final = ", the only connection between parts of the network"


def _chunk_counts(network: Network, sizes: Int64Array, traffic: list[Traffic], sends: bool) -> Int64Array:
    """int64[sizes, devices]: the chunks of each size that each device must send, or receive."""
    counts = np.zeros((len(sizes), network.device_count), np.int64)
    for part in traffic:
        found = part.sent_chunks() if sends else part.received_chunks()
        counts[:, : found.shape[1]] += found
    return counts


def port_bounds(network: Network, sizes: Int64Array, traffic: list[Traffic]) -> Iterator[Bound]:
    """What each NPU must send, receive or relay in these chunks, each of which has an overhead there, and a latency.

    A message takes no less on its link than at the ports of its ends, and a latency more. Nothing if messages have no
    overhead at NPUs.
    """
    ports = Ports.of(network)
    if not any(ports.overheads):
        return
    taken, best = ports.occupancy(sizes), 0
    nearest = np.full((2, network.device_count), UNREACHABLE, np.int64)
    for row, ends in enumerate((network.target, network.source)):
        np.minimum.at(nearest[row], ends, network.latencies[network.kind])
    counts = [("", [_chunk_counts(network, sizes, traffic, sends) for sends in (False, True)])]
    if len(network.npus) <= MOST_CUTS:
        passed = [_passed_on(network, len(sizes), traffic, sends) for sends in (False, True)]
        counts.append((_ONLY_CONNECTION, passed))
    for which, chunks in counts:
        for port, (device, sends) in enumerate(zip(ports.devices, ports.sends, strict=True)):
            work = int(taken[port] @ chunks[sends][:, device])
            if work and work + int(nearest[int(sends), device]) > best:
                best = work + int(nearest[int(sends), device])
                yield Bound(best, ports.name(network, port) + which)


def _passed_on(network: Network, size_count: int, traffic: list[Traffic], sends: bool) -> Int64Array:
    """int64[sizes, devices]: the chunks that each NPU with a limit must send to (receive from) the parts into which the
    network falls without it, each of which reaches the others, and it, over nothing else; 0 if it stays in one part.
    """
    found = np.zeros((size_count, network.device_count), np.int64)
    for npu in network.npus.tolist():
        endpoint = network.endpoint_of(npu)
        if (endpoint.send if sends else endpoint.receive) is None and not endpoint.overhead:
            continue
        apart = (network.source != npu) & (network.target != npu)
        label = weakly_connected(Digraph(network.device_count, network.source[apart], network.target[apart]))
        parts = np.setdiff1d(label[network.npus], label[npu])
        if len(parts) > 1:
            for part in parts.tolist():
                inside = (label == part) == sends
                for one in traffic:
                    found[:, npu] += one.chunks_into(inside).counts
    return found


def _of_each(
    network: Network, volume: Int64Array, latency: Int64Array, sends: bool, which: str = ""
) -> Iterator[Bound]:
    """The NPU that takes longest to send, or receive, its bytes (int64[devices]), and a latency."""
    ends = network.source if sends else network.target
    nearest = np.full(network.device_count, UNREACHABLE, np.int64)
    np.minimum.at(nearest, ends, latency)
    best, worst = 0, -1
    for npu in network.npus.tolist():
        endpoint = network.endpoint_of(npu)
        rate = endpoint.send if sends else endpoint.receive
        if rate is not None and volume[npu] and nearest[npu] < UNREACHABLE:
            time = _duration(int(volume[npu]), rate) + int(nearest[npu])
            if time > best:
                best, worst = time, npu
    if worst >= 0:
        endpoint, name = network.endpoint_of(worst), network.shown_name(worst)
        yield Bound(best, (endpoint.send_limit(name) if sends else endpoint.receive_limit(name)) + which)


def _of_all(network: Network, sizes: Int64Array, traffic: list[Traffic], latency: int, sends: bool) -> Iterator[Bound]:
    """The fewest transfers, and what all NPUs can send, or receive, together."""
    width = link_rates(network, network.source if sends else network.target)
    npus: list[int] = network.npus.tolist()
    limits = [network.endpoint_of(npu).send if sends else network.endpoint_of(npu).receive for npu in npus]
    if not any(limits):
        return
    pairs = zip(limits, npus, strict=True)
    rate = sum((least(limit, width[npu]) or Fraction(0) for limit, npu in pairs), Fraction(0))
    detailed = network.device_count <= DETAILED_DEVICES and any(part.pairwise for part in traffic)
    hops = hop_counts(Digraph.of(network)) if detailed else None
    volume = sum(int(sizes @ part.transfers(hops)) for part in traffic)
    if not volume or not rate:
        return
    memory = all(network.endpoint_of(npu).fed_by_memory == network.endpoint_of(npu).send for npu in npus)
    what = "ejection" if not sends else "memory" if memory else "injection"
    yield Bound(_duration(volume, rate) + latency, f"the {what} of all NPUs")


def _duration(volume: int, rate: Fraction) -> int:
    """Picoseconds for some bytes."""
    return -(-volume * SECOND // rate)


PATH_WORK: Final = 1_000_000
"""Sources x links that the search for the longest path may visit."""


@lru_cache(maxsize=2)  # `auto` and the report ask for the same ones
def ideal_bound(network: Network, demand: Demand, model: LinkModel = LinkModel.PIPELINED) -> Bound:
    """The largest such bound found, in picoseconds, with its name. That for `pipelined` is valid for both link models.

    Raises ValueError if links have no bandwidth or latency.
    """
    return max(_ideal_bounds(network, demand, model), key=lambda bound: bound.time, default=Bound(0, "nothing moves"))


def forget_demands() -> None:
    """Let go what is kept of the last demands: for large ones as much as for their schedules."""
    for kept in (ideal_bound, fluid_of, narrow_sets):
        kept.cache_clear()


def _ideal_bounds(network: Network, demand: Demand, model: LinkModel) -> Iterator[Bound]:
    network = _with_delays(network)
    fluid = fluid_of(network, demand)
    if fluid is None:
        return
    traffic = fluid.traffic
    yield from endpoint_bounds(network, fluid.sizes, traffic)
    best = 0
    for bound in _bounds(fluid, demand):
        best = max(best, bound.time)
        yield bound
    if model is LinkModel.STORE and network.latencies[network.kind].any():
        largest = max(_largest_chunk(family.first) for family in demand.by_family.families)
        yield from _bounds(fluid.with_stored_chunks(largest), demand)
    path = longest_path(network, traffic, network.latencies, 0, best)
    yield Bound(path.time, f"the {path.name}")


def _with_delays(network: Network) -> Network:
    """The network on whose links latencies contain the overhead of one message."""
    if not any(kind.overhead for kind in network.kinds):
        return network
    kinds = (
        kind if kind.latency is None else LinkKind(kind.latency + kind.overhead, kind.bandwidth)
        for kind in network.kinds
    )
    return replace(network, kinds=tuple(kinds))


def longest_path(network: Network, traffic: list[Traffic], cost: Int64Array, size: int, known: int = 0) -> Bound:
    """The longest of the shortest paths that chunks of size number `size` or more must take, if that can be longer than
    a time that is known.

    cost: int64[kinds], picoseconds.
    """
    best = Bound(0, "")
    if longest_by_first(network, cost) <= known:
        return best
    sources, distance = distances_from_npus(network, cost, traffic)
    for part in traffic:
        time, start, end = part.longest(distance, sources, size)
        if best.time < time < UNREACHABLE:
            best = Bound(time, f"path from {network.shown_name(start)} to {network.shown_name(end)}")
    return best


def longest_by_first(network: Network, cost: Int64Array) -> int:
    """Picoseconds in which a chunk gets from any NPU to any other over the first one.

    cost: int64[kinds], picoseconds.
    """
    graph, length, npus = Digraph.of(network), cost[network.kind], network.npus
    return sum(int(distances_to(each, length, npus[:1])[0, npus].max()) for each in (graph, graph.reverse()))


def distances_from_npus(network: Network, cost: Int64Array, traffic: list[Traffic]) -> tuple[Int32Array, Int64Array]:
    """(sources int32; distances int64[sources, devices], picoseconds), from all NPUs. If PATH_WORK does not allow this,
    from one of each class that neither links nor traffic tell apart, and the farthest from each of these as long as it
    allows them; or else from as many as it allows.

    cost: int64[kinds], picoseconds.
    """
    npus, length = network.npus, cost[network.kind]
    backward = Digraph.of(network).reverse()
    most = max(1, PATH_WORK // max(1, network.link_count))
    if most >= len(npus):
        return npus, distances_to(backward, length, npus)
    first = _first_of_each_class(network, traffic)
    if len(first) <= most:
        distance = distances_to(backward, length, first)
        near = np.where(distance[:, npus] < UNREACHABLE, distance[:, npus], -1)
        farthest = np.setdiff1d(npus[near.argmax(axis=1)], first)[: most - len(first)].astype(np.int32)
        return np.append(first, farthest), np.concatenate([distance, distances_to(backward, length, farthest)])
    first = distances_to(backward, length, npus[:1])
    near = first[0, : network.npu_count]
    farthest = int(np.where(near < UNREACHABLE, near, -1).argmax())
    even = npus[np.linspace(0, len(npus) - 1, max(1, most - 1)).astype(np.int64)]  # with the first one
    npus = np.unique(np.append(even, farthest)).astype(np.int32)
    return npus, np.concatenate([first, distances_to(backward, length, npus[1:])])


def _first_of_each_class(network: Network, traffic: list[Traffic]) -> Int32Array:
    """int32: of the NPUs that what they send and get and refined colours do not tell apart the first one."""
    colour = np.zeros(network.device_count, np.uint64)
    for part in traffic:
        roles = part.roles()
        colour[: len(roles)] += roles
    colour = refine_colours(mix_bits(colour), network.source, network.target, kind_code(network), 0)
    _, first = np.unique(colour[network.npus], return_index=True)
    return network.npus[np.sort(first)]


def _largest_chunk(run: Run) -> int:
    """Bytes of the largest chunk that a run can have with any number of chunks: all that has the same conditions."""
    standard = run.standard
    if standard is None:
        table = run.pattern.expand()
        _, alike = unique_rows([table.pre, table.post, table.op])
        return int(np.bincount(alike, table.size).max(initial=1))
    blocks = max(1, standard.shape.parts(len(run.group)))
    return max(1, -(-standard.size // blocks))


def _bounds(fluid: Fluid, demand: Demand) -> Iterator[Bound]:
    best = 0
    for inside, best in fluid.times_into(chain(npu_sets(fluid), narrow_sets(fluid, demand))):
        yield Bound(best, name_of_links_into(fluid.network, inside))
    yield from _slot_bounds(fluid)
    for run in searched_runs(fluid, demand):
        yield from partition_bounds(fluid, run)
    yield from several_runs_bounds(fluid, demand)
    yield from reduce_flow_bounds(fluid, demand)
    loads = PathLoads.of(fluid, demand)
    if loads is not None:
        yield from loads.bounds(best)


def _slot_bounds(fluid: Fluid) -> Iterator[Bound]:
    """What all parts of a network must get, or send, over switches with few slots."""
    if not fluid.network.has_limited_buffers:
        return
    for parts in parts_of(fluid.network, fluid.traffic):
        for backward in (False, True):
            volume = int(fluid.sizes @ (parts.leaving if backward else parts.entering))
            yield Bound(fluid.time_between(parts.label, volume, backward), parts.name)
