"""The trees along which contributions travel: short paths over links with little load, as messages from NPU to NPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.synthesis.one_shot.levels import Contribution
from collc.ten.network import Network


@dataclass(eq=False)
class Message:
    """A contribution on its path from one NPU to another, with only switches between.

    chunks: the number of the set of chunks. stage: of the contribution. links: of the path. came_over: the link over
    which the sender received the contribution; -1 if it is what the sender holds. adds: whether the receiver adds it to
    its sum, or only forwards it. following: the messages in which the receiver forwards it.
    """

    chunks: int
    stage: int
    sender: int
    receiver: int
    links: tuple[int, ...]
    came_over: int = -1
    adds: bool = True
    following: list[Message] = field(default_factory=list["Message"])

    def remaining_time(self, total: Sequence[int]) -> int:
        """Picoseconds until the last receiver below has the contribution. total: by link, see LinkTimes."""
        below = max((message.remaining_time(total) for message in self.following), default=0)
        return sum(total[link] for link in self.links) + below


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """busy, total: picoseconds, by link, that all chunks of a set keep it busy, and until the first has arrived."""

    busy: Sequence[int]
    total: Sequence[int]


class TreePlanner:
    """Lays the trees of all contributions one after another, and each once more while the others stay."""

    def __init__(self, network: Network, sets: Sequence[LinkTimes]) -> None:
        self._npus, self._sets = network.npu_count, sets
        self._source: list[int] = network.source.tolist()
        self._target: list[int] = network.target.tolist()
        offsets, links = Digraph.of(network).out_edges
        self._out: list[list[int]] = [links[low:high].tolist() for low, high in pairwise(offsets.tolist())]
        self._load = [0] * network.link_count

    def trees(self, contributions: Sequence[Contribution]) -> list[list[Message]]:
        """For each contribution, the messages that its holders send, with those that follow them.

        Raises SourceError if no path leads from its holders to a target.
        """
        trees: list[list[Message]] = [[] for _ in contributions]
        for _ in range(2):
            for number, contribution in enumerate(contributions):
                self._add_load(trees[number], -1)
                trees[number] = self._tree(contribution)
                self._add_load(trees[number], 1)
        return trees

    def _add_load(self, messages: Sequence[Message], sign: int) -> None:
        for message in messages:
            busy = max(self._sets[message.chunks].busy[link] for link in message.links)
            for link in message.links:
                self._load[link] += sign * busy
            self._add_load(message.following, sign)

    def _tree(self, contribution: Contribution) -> list[Message]:
        """The messages of a contribution that lead to its targets."""
        into = self._messages_into(contribution)
        holders = set(contribution.holders)
        begins: list[Message] = []
        needed: set[int] = set()
        for target in contribution.targets:
            npu, following = target, None
            while npu not in holders:
                if npu not in into:
                    message = f"no path leads from NPU {min(holders)} to NPU {npu}"
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
        for npu in needed.difference(contribution.targets):
            into[npu].adds = False
        return begins

    def _messages_into(self, contribution: Contribution) -> dict[int, Message]:
        """The message that brings a contribution to each other NPU first (Dijkstra).

        All other contributions on a link count as time, and so do the messages of this one that use the link before.
        """
        times, load = self._sets[contribution.chunks], self._load
        busy, total = times.busy, times.total
        own, arrival = [0] * len(load), dict.fromkeys(contribution.holders, 0)
        into: dict[int, Message] = {}
        in_switches: set[tuple[int, int]] = set()
        holders = set(contribution.holders)

        def time(path: tuple[int, ...]) -> int:
            return arrival[self._source[path[0]]] + sum([total[link] + load[link] + own[link] for link in path])

        heap: list[tuple[int, tuple[int, ...]]] = [
            (time((link,)), (link,)) for npu in arrival for link in self._out[npu]
        ]
        heapify(heap)
        while heap:
            known, path = heappop(heap)
            device, sender = self._target[path[-1]], self._source[path[0]]
            entered = device, sender if sender in holders else contribution.holders[0]  # a switch, once for each holder
            if device in arrival or entered in in_switches:
                continue
            if (now := time(path)) > known:  # since the path was found, messages of this contribution took its links
                heappush(heap, (now, path))
                continue
            if device < self._npus:
                into[device] = Message(contribution.chunks, contribution.stage, sender, device, path)
                arrival[device] = now
                for link in path:
                    own[link] += max([busy[step] for step in path])
                path = ()
            else:
                in_switches.add(entered)
            for link in self._out[device]:
                heappush(heap, (time((*path, link)), (*path, link)))
        return into
