"""Cores: NPUs that hold the partials of a chunk between them and exchange them, until each has the whole sum.

Cores lie along the Cartesian factors of the network: a torus is a product of rings, a hypercube of edges. Edges belong
to one factor if they share a triangle, lie opposite to each other in a square, or meet without spanning exactly one
square (the relations of Feder, "Product graph representations", 1992, here for neighbouring edges only). For products
of rings, paths, cliques and trees this gives the factors; for other graphs it may give one factor if there are more.
The NPUs of a clique, a ring or a path exchange partials by messages in rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations, zip_longest
from typing import Final, NamedTuple

import numpy as np

from collc.base.disjoint_sets import DisjointSets
from collc.graph.digraph import Digraph
from collc.graph.distances import hop_counts
from collc.ten.arrays import Int32Array
from collc.ten.network import Network

Neighbours = Mapping[int, set[int]]
"""The vertices next to each vertex; symmetric."""


def cartesian_factors(near: Neighbours) -> list[dict[int, set[int]]]:
    """The graph of each factor: the edges of one class, on all vertices. In order of the least edge of each class."""
    classes = DisjointSets[tuple[int, int]]()

    def join(one_end: int, a: int, other_end: int, b: int) -> None:
        classes.join((min(one_end, a), max(one_end, a)), (min(other_end, b), max(other_end, b)))

    for v in sorted(near):
        for a, b in combinations(sorted(near[v]), 2):
            common = near[a] & near[b]
            if b in near[a] or len(common) != 2:
                join(v, a, v, b)
            else:
                (w,) = common - {v}
                join(v, a, b, w)
                join(v, b, a, w)
    factors: dict[tuple[int, int], dict[int, set[int]]] = {}
    for v in sorted(near):
        for a in sorted(near[v]):
            factors.setdefault(classes.root((min(v, a), max(v, a))), {u: set() for u in near})[v].add(a)
    return list(factors.values())


def components(graphs: list[dict[int, set[int]]]) -> list[tuple[int, ...]]:
    """The connected components of the union of some graphs on the same vertices, each ascending, by first vertex."""
    joined = DisjointSets[int]()
    for graph in graphs:
        for v, ends in graph.items():
            for a in ends:
                joined.join(v, a)
    parts: dict[int, list[int]] = {}
    for v in sorted(graphs[0]) if graphs else ():
        parts.setdefault(joined.root(v), []).append(v)
    return [tuple(component) for component in parts.values()]


class PartialMessage(NamedTuple):
    """A partial from one NPU to another. came_from: the NPU from which the sender got it last, and kept it apart; -1:
    what the sender holds. kept: whether the receiver only keeps it apart, and adds it to nothing.
    """

    source: int
    target: int
    came_from: int = -1
    kept: bool = False


Rounds = tuple[tuple[PartialMessage, ...], ...]
"""The messages of each round. All messages of a round leave before any of them arrives."""


def line_rounds(members: Iterable[int], near: Mapping[int, set[int]], *, in_turns: bool = False) -> list[Rounds]:
    """The ways in which some NPUs can exchange partials, [] if they form no clique, ring or path.

    near: the neighbours of each among them. in_turns: of an odd ring, the two ways that use its links in turns, in
    place of the one that is shorter by a round and uses all of them. An even ring has two ways that use them in turns.
    """
    line = sorted(members)
    if all(len(near[npu]) == len(line) - 1 for npu in line):
        return [(tuple(PartialMessage(a, b) for a, b in permutations(line, 2)),)]
    order = _in_order(line, near)
    if order is None:
        return []
    closed = order[0] in near[order[-1]]
    if closed and len(order) % 2 == 0:
        return [tuple(neighbour_exchange(order[turn:] + order[:turn])) for turn in (0, 1)]
    if in_turns and is_odd_ring(order, near):
        return [tuple(odd_ring_exchange(order, turn)) for turn in (0, 1)]
    return [tuple(running_messages(order, closed))]


def is_odd_ring(members: Collection[int], near: Mapping[int, set[int]]) -> bool:
    """Whether connected NPUs form a ring of five, seven, ... near: the neighbours of each among them."""
    return len(members) % 2 == 1 and len(members) > 3 and all(len(near[npu]) == 2 for npu in members)


def _in_order(line: list[int], near: Mapping[int, set[int]]) -> list[int] | None:
    """The NPUs of a path from one end to the other, or of a ring all round; None if they form neither."""
    ends = [npu for npu in line if len(near[npu]) == 1]
    if len(ends) not in (0, 2) or any(len(near[npu]) > 2 for npu in line):
        return None
    order = [min(ends or line)]
    while ahead := near[order[-1]] - set(order[-2:]):
        if min(ahead) == order[0]:
            break
        order.append(min(ahead))
    return order if len(order) == len(line) else None


def neighbour_exchange(order: list[int]) -> Iterator[tuple[PartialMessage, ...]]:
    """Neighbour exchange on an even ring: pairs swap, first the pairs at even positions, then those at odd ones, ...

    From the third round on an NPU sends what it received in the round before, so that each round adds the sum of one
    more pair (Chen et al., "Performance evaluation of allgather algorithms on terascale Linux cluster", 2005).
    """
    count = len(order)
    for number in range(count // 2):
        messages: list[PartialMessage] = []
        for first in range(number % 2, count, 2):
            a, b = first, (first + 1) % count
            for source, target, behind in ((a, b, a - 1), (b, a, b + 1)):
                came_from = order[behind % count] if number > 1 else -1
                messages.append(PartialMessage(order[source], order[target], came_from))
        yield tuple(messages)


def running_messages(order: list[int], closed: bool) -> Iterator[tuple[PartialMessage, ...]]:
    """On a path or an odd ring: what each NPU held at first runs on in both directions."""
    count = len(order)
    for number in range(count // 2 if closed else count - 1):
        messages: list[PartialMessage] = []
        for source in range(count):
            for step in (1, -1):
                target, behind, origin = source + step, source - step, source - step * number
                if closed or (min(target, origin) >= 0 and max(target, origin) < count):
                    came_from = order[behind % count] if number else -1
                    messages.append(PartialMessage(order[source], order[target % count], came_from))
        yield tuple(messages)


def odd_ring_exchange(order: list[int], turn: int) -> Iterator[tuple[PartialMessage, ...]]:
    """Neighbour exchange on an odd ring, in (n + 1) / 2 rounds. Turns 0 and 1 use different links in each round.

    It is the exchange of an even ring on which a twin of the first NPU follows the last one; the first NPU does the
    work of its twin. What arrives at one of the two, the other one forwards. In turn 0 they are a pair at first, so
    both of them have the first's own partial, and nothing else. In turn 1 the first swaps with its successor, and the
    twin, which has nothing to give, gets the partial of the last NPU. The first keeps that apart, since it goes to its
    successor alone. In round 2 the last NPU sends all that it holds, so that its partial is also added up at the first,
    and runs on once more, with a pair. Therefore those who get it once more keep apart what came first.
    """
    count = len(order)
    rounds = (count + 1) // 2
    for number in range(rounds):
        messages: list[PartialMessage] = []
        for low in range((number + 1 + turn) % 2, count + 1, 2):
            high = (low + 1) % (count + 1)
            for source, target in ((low, high), (high, low)):
                if _is_spared(source, target, number, turn, count):
                    continue
                behind = {0: -1, count: 1}.get(source, 2 * source - target)
                holds = number < 2 or (turn and number == 2 and source >= count - 1)
                again = (source, target) == ((count - 1, count) if number == 0 else (number - 2, number - 1))
                kept = bool(turn) and number != 1 and again and number + 2 < rounds
                came_from = -1 if holds else order[behind % count]
                messages.append(PartialMessage(order[source % count], order[target % count], came_from, kept))
        yield tuple(messages)


def _is_spared(source: int, target: int, number: int, turn: int, count: int) -> bool:
    """Whether nothing is sent in a round: between the first NPU and its twin, by the twin when it has nothing, and in
    the last round by one of the neighbours of the first, if both would bring the same.

    source, target: positions, `count` for the twin. number: of the round.
    """
    if {source, target} == {0, count} or (turn and number == 0 and source == count):
        return True
    last = number == (count - 1) // 2 and number > 0
    return last and number % 2 != turn and (source, target) == ((1, 0) if turn else (count - 1, count))


MOST_CORES: Final = 4096
"""Cores of one kind that are looked at, at most."""

MOST_PAIRS: Final = 200_000
"""Pairs of links that meet up to which factors and cliques are looked for."""


@dataclass(frozen=True, slots=True)
class Core:
    """NPUs that exchange partials.

    members: NPUs, ascending. radius: links from the members to the NPU of the group that is farthest from them.
    """

    members: tuple[int, ...]
    rounds: Rounds = ()
    radius: int = 0

    @property
    def relays(self) -> bool:
        """Whether an NPU sends on a partial that it keeps apart."""
        return any(message.came_from >= 0 for message in chain.from_iterable(self.rounds))


@dataclass(frozen=True, slots=True)
class CoreKind:
    """Cores with equally many members and rounds."""

    name: str
    cores: tuple[Core, ...]

    @property
    def size(self) -> int:
        """Members of each core."""
        return len(self.cores[0].members)

    @property
    def rounds(self) -> int:
        """Rounds of each core."""
        return len(self.cores[0].rounds)

    def messages(self, chunks: int) -> int:
        """Messages for some chunks in all: to the cores, in them, and back to the NPUs that cores of this kind span."""
        spanned = len({npu for core in self.cores for npu in core.members})
        inside = min(sum(map(len, core.rounds)) for core in self.cores)
        return chunks * (2 * (spanned - self.size) + inside)

    def looks(self, chunks: int) -> int:
        """Messages and members of cores that the choice of a core for each chunk looks at."""
        return chunks * sum(len(core.members) + sum(map(len, core.rounds)) for core in self.cores)


def core_kinds(network: Network, group: Int32Array) -> Iterator[CoreKind]:
    """The cores among the NPUs of a group: single NPUs, linked pairs, cliques, and lines along the Cartesian
    factors of the network, from one factor to all of them.
    """
    hops = hop_counts(Digraph.of(network))[np.ix_(group, group)]
    column = {npu: number for number, npu in enumerate(group.tolist())}
    near = neighbours(network, group)
    pairs = sum(len(ends) ** 2 for ends in near.values())
    for kind in chain(_small_kinds(near, pairs <= MOST_PAIRS), _factor_kinds(near) if pairs <= MOST_PAIRS else ()):
        columns = ([column[npu] for npu in core.members] for core in kind.cores)
        radii = (int(hops[:, members].min(axis=1).max()) for members in columns)
        cores = (replace(core, radius=radius) for core, radius in zip(kind.cores, radii, strict=True))
        yield CoreKind(kind.name, tuple(cores))


def neighbours(network: Network, group: Iterable[int]) -> dict[int, set[int]]:
    """For each NPU of a group, those that links join with it in both directions."""
    members = {int(npu) for npu in group}
    links = set(zip(network.source.tolist(), network.target.tolist(), strict=True))
    near: dict[int, set[int]] = {npu: set() for npu in members}
    for u, v in links:
        if u != v and u in members and v in members and (v, u) in links:
            near[u].add(v)
    return near


def _small_kinds(near: dict[int, set[int]], cliques: bool) -> Iterator[CoreKind]:
    """Single NPUs, linked pairs, and, if asked for, cliques."""
    members = sorted(near)
    yield CoreKind("vertex", tuple(Core((npu,)) for npu in members))
    edges = [(u, v) for u in members for v in sorted(near[u]) if u < v][:MOST_CORES]
    if edges:
        yield CoreKind("edge", tuple(Core((u, v), ((PartialMessage(u, v), PartialMessage(v, u)),)) for u, v in edges))
    if not cliques:
        return
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for clique in sorted(set(_cliques(near, edges))):
        by_size.setdefault(len(clique), []).append(clique)
    for size in sorted(by_size):
        one_shot = (Core(clique, line_rounds(clique, _neighbours_within(near, clique))[0]) for clique in by_size[size])
        yield CoreKind(f"clique of {size}", tuple(one_shot))


def _neighbours_within(near: Mapping[int, set[int]], members: Iterable[int]) -> dict[int, set[int]]:
    """The neighbours of some NPUs among themselves."""
    chosen = set(members)
    return {npu: near[npu] & chosen for npu in chosen}


def _cliques(near: dict[int, set[int]], edges: list[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """For each edge a maximal clique of three or more with it, which takes NPUs in ascending order."""
    for u, v in edges:
        clique, common = {u, v}, near[u] & near[v]
        while common:
            taken = min(common)
            clique.add(taken)
            common &= near[taken]
        if len(clique) > 2:
            yield tuple(sorted(clique))


def _factor_kinds(near: dict[int, set[int]]) -> Iterator[CoreKind]:
    """Cores that span one, two, ... factors, which they exchange along one after the other, in any rotation. None if
    there are more factors than a product of as many NPUs has.
    """
    factors = cartesian_factors(near)
    if 1 << len(factors) > len(near):
        return
    cores: dict[tuple[int, int], list[Core]] = {}
    for span in range(1, len(factors) + 1):
        for first in range(len(factors)):
            chosen = [factors[(first + number) % len(factors)] for number in range(span)]
            for members in components(chosen):
                for core in _spanning_cores(members, chosen):
                    cores.setdefault((len(members), len(core.rounds)), []).append(core)
    for size, rounds in sorted(cores):
        if size > 2:
            yield CoreKind(f"line of {size} in {rounds}", tuple(cores[size, rounds][:MOST_CORES]))


def _spanning_cores(members: tuple[int, ...], factors: list[dict[int, set[int]]]) -> Iterator[Core]:
    """The cores of some members that exchange along factors, one after the other, if that gives the sum. An odd ring
    has two kinds of rounds: with odd rings among the factors, first the cores of one kind, then the cores of the other.
    """
    inner = [_neighbours_within(factor, members) for factor in factors]
    yield from _cores_along(members, inner, in_turns=False)
    if any(is_odd_ring(line, near) for near in inner for line in components([near])):
        yield from _cores_along(members, inner, in_turns=True)


def _cores_along(members: tuple[int, ...], factors: list[dict[int, set[int]]], *, in_turns: bool) -> Iterator[Core]:
    """The cores of all vertices of some graphs. in_turns: see line_rounds."""
    choices: list[list[Rounds]] = []
    for inner in factors:
        lines = [line_rounds(line, _neighbours_within(inner, line), in_turns=in_turns) for line in components([inner])]
        if not all(lines):
            return
        count = max(map(len, lines))
        choices.append([_side_by_side([line[turn % len(line)] for line in lines]) for turn in range(count)])
    for turn in range(max(map(len, choices))):
        core = Core(members, tuple(chain.from_iterable(rounds[turn % len(rounds)] for rounds in choices)))
        if _gives_sum(core):
            yield core


def _side_by_side(lines: list[Rounds]) -> Rounds:
    """The rounds of several lines at the same time, none if all lines are single NPUs."""
    rounds = (tuple(chain.from_iterable(messages)) for messages in zip_longest(*lines, fillvalue=()))
    return tuple(messages for messages in rounds if messages)


def _gives_sum(core: Core) -> bool:
    """Whether every member ends with the partials of all, each once."""
    held = {npu: 1 << number for number, npu in enumerate(core.members)}
    kept: dict[tuple[int, int], int] = {}
    for messages in core.rounds:
        carried = [held[m.source] if m.came_from < 0 else kept.get((m.came_from, m.source), 0) for m in messages]
        for message, partial in zip(messages, carried, strict=True):
            if not partial or (held[message.target] & partial and not message.kept):
                return False
            held[message.target] |= 0 if message.kept else partial
            kept[message.source, message.target] = partial
    return all(partial == (1 << len(core.members)) - 1 for partial in held.values())
