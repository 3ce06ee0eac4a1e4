"""The trees along which contributions travel: short paths over links with little load, as messages from NPU to NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.ten.network import Network


@dataclass(eq=False)
class Message:
    """A contribution on its path from one NPU to another, with only switches between.

    chunks: the number of the set of chunks. links: of the path. came_over: the link over which the sender received the
    contribution; -1 if it is the sender's own. adds: whether the receiver adds it to its sum, or only forwards it.
    following: the messages in which the receiver forwards it.
    """

    chunks: int
    sender: int
    receiver: int
    links: tuple[int, ...]
    came_over: int = -1
    adds: bool = True
    following: list[Message] = field(default_factory=list["Message"])


@dataclass(frozen=True, slots=True)
class ContributionSet:
    """The contributions to a set of chunks. members: the NPUs that contribute, and receive the sums. busy, total:
    picoseconds, by link, that all chunks of a contribution keep it busy, and until the first of them has arrived.
    """

    members: Sequence[int]
    busy: Sequence[int]
    total: Sequence[int]


class TreePlanner:
    """Lays the trees of all contributions one after another, and each once more while the others stay."""

    def __init__(self, network: Network, sets: Sequence[ContributionSet]) -> None:
        self._npus, self._sets = network.npu_count, sets
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        offsets, links = Digraph.of(network).out_edges
        self._out: list[list[int]] = [links[low:high].tolist() for low, high in pairwise(offsets.tolist())]
        self._load = [0] * network.link_count

    def trees(self) -> list[list[Message]]:
        """For each contribution, the messages that its contributor sends, with those that follow them.

        Raises SourceError if a member cannot reach another one.
        """
        trees: dict[tuple[int, int], list[Message]] = {}
        for _ in range(2):
            for number, contributions in enumerate(self._sets):
                for root in contributions.members:
                    self._add_load(trees.get((number, root), ()), -1)
                    trees[number, root] = self._tree(number, root)
                    self._add_load(trees[number, root], 1)
        return list(trees.values())

    def _add_load(self, messages: Sequence[Message], sign: int) -> None:
        for message in messages:
            busy = max(self._sets[message.chunks].busy[link] for link in message.links)
            for link in message.links:
                self._load[link] += sign * busy
            self._add_load(message.following, sign)

    def _tree(self, number: int, root: int) -> list[Message]:
        """The messages of a contribution that lead to members of its set."""
        into = self._messages_into(number, root)
        members = self._sets[number].members
        begins: list[Message] = []
        needed: set[int] = set()
        for member in members:
            npu, following = member, None
            while npu != root:
                if npu not in into:
                    message = f"no path leads from NPU {root} to NPU {npu}"
                    hint = "add links, or leave one of them out of the group"
                    raise SourceError(Diagnostic("S0301", message, hint=hint))
                message = into[npu]
                if following is not None:
                    message.following.append(following)
                    following.came_over = message.links[-1]
                if npu in needed:
                    break
                needed.add(npu)
                npu, following = message.sender, message
            else:
                begins += [following] if following is not None else []
        for npu in needed.difference(members):
            into[npu].adds = False
        return begins

    def _messages_into(self, number: int, root: int) -> dict[int, Message]:
        """The message that brings a contribution to each NPU first (Dijkstra).

        All other contributions on a link count as time, and so do the messages of this one that use the link before.
        """
        busy, total, load = self._sets[number].busy, self._sets[number].total, self._load
        own, arrival = [0] * len(load), {root: 0}
        into: dict[int, Message] = {}
        in_switches: set[int] = set()

        def time(path: tuple[int, ...]) -> int:
            return arrival[self._source[path[0]]] + sum([total[link] + load[link] + own[link] for link in path])

        heap: list[tuple[int, tuple[int, ...]]] = [(time((link,)), (link,)) for link in self._out[root]]
        heapify(heap)
        while heap:
            known, path = heappop(heap)
            device = self._target[path[-1]]
            if device in arrival or device in in_switches:
                continue
            if (now := time(path)) > known:  # since the path was found, messages of this contribution took its links
                heappush(heap, (now, path))
                continue
            if device < self._npus:
                into[device] = Message(number, self._source[path[0]], device, path)
                arrival[device] = now
                for link in path:
                    own[link] += max([busy[step] for step in path])
                path = ()
            else:
                in_switches.add(device)
            for link in self._out[device]:
                heappush(heap, (time((*path, link)), (*path, link)))
        return into
