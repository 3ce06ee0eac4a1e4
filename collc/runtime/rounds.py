"""A run program as rounds, for libraries whose messages are posted together and then awaited (torch, MPI).

In a round a rank posts all its receives and sends, waits for them, and then works on its own memory. A message is sent
in the first round in which what it carries is there, and a connection carries one message in each round (`joined`: any
number). So a round depends on earlier ones alone, and no order in which ranks reach their rounds can block them.

What arrives before its slots may be overwritten waits in a spare slot. Moments: the exchange of round k is at 2 k, the
work after it at 2 k + 1.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collc.runtime.operations import RECEIVES, SENDS, StepKind
from collc.runtime.replay import UNLIMITED, replay
from collc.runtime.run_program import RunProgram


class Message(NamedTuple):
    """A message: its number, the rank at the other end, and the first slot and the number of slots here."""

    number: int
    peer: int
    first: int
    length: int


class Work(NamedTuple):
    """Work on neighbouring slots: `target` becomes `first` reduced with `second`, or a copy of it (`second` is -1)."""

    target: int
    first: int
    second: int
    length: int


@dataclass(frozen=True, slots=True)
class Round:
    """What one rank does: the messages in order of their numbers, then the work in order."""

    sends: list[Message] = field(default_factory=list[Message])
    receives: list[Message] = field(default_factory=list[Message])
    work: list[Work] = field(default_factory=list[Work])

    @property
    def messages(self) -> list[Message]:
        """All messages."""
        return [*self.sends, *self.receives]


@dataclass(frozen=True, slots=True)
class RankRounds:
    """The rounds of one rank. numbers: of each round, counted over all ranks. buffers: the first slot and the number of
    slots of its input, output, scratch and spare slots; input and output may share some.
    """

    rounds: list[Round]
    numbers: list[int]
    buffers: tuple[tuple[int, int], ...]


class Rows:
    """The memory of one call: vectors of NumPy or torch, or bytes, with some elements for each slot, by buffer."""

    def __init__(self, rounds: RankRounds, vectors: Sequence[Any], width: int) -> None:
        """vectors: of the buffers, in their order. width: elements of a slot."""
        self._rounds, self._vectors, self._width = rounds, vectors, width
        parts = zip(rounds.buffers, vectors, strict=True)
        self._parts = sorted(
            ((first, size, vector) for (first, size), vector in parts if size), key=lambda part: -part[1]
        )

    def __call__(self, first: int, count: int) -> Any:  # noqa: ANN401
        """Some neighbouring rows, as a view of a vector."""
        for begin, size, vector in self._parts:  # the longest first, which may contain another one
            if 0 <= first - begin < size:
                return vector[(first - begin) * self._width : (first - begin + count) * self._width]
        raise IndexError(first)

    def operands(self, work: Work) -> tuple[Any, Any, Any]:
        """The target of some work, what is copied or reduced there, and what it is reduced with or None."""
        second = None if work.second < 0 else self(work.second, work.length)
        return self(work.target, work.length), self(work.first, work.length), second

    def as_bytes(self, octets: Callable[[Any], memoryview], size: int) -> Rows:
        """The same memory as bytes. octets: the bytes of a vector. size: of an element."""
        return Rows(self._rounds, [octets(vector) for vector in self._vectors], self._width * size)


def rounds_of(program: RunProgram, *, inplace: bool, joined: bool = False) -> list[RankRounds]:
    """The rounds of all ranks. Raises ValueError for a program that never ends (`collc verify` says so earlier).

    joined: a connection may carry several messages in a round, so that there are as few rounds as can be.
    """
    return _Planner(program, inplace=inplace, joined=joined).plan()


class _Planner:
    """Walks through the steps in one possible order, and gives each message and each piece of work its moment.

    written, read: by slot, the last moment at which it is written and read. Spare slots have numbers from the end of
    the memory of all ranks on; their uses are moments of `written` and `read` too.
    """

    def __init__(self, program: RunProgram, *, inplace: bool, joined: bool) -> None:
        self.program = program
        self.pause: int = 0 if joined else 2  # moments between two messages of a connection
        self.chunks, self.layout = program.layout(inplace=inplace)
        self.operands, self.waits = program.operands(inplace=inplace), program.waits
        self.written: dict[int, int] = defaultdict(int)
        self.read: dict[int, int] = defaultdict(int)
        self.spares: list[tuple[int, int, int, int]] = []  # rank, first slot, count, moment of the arrival
        self.end: int = self.layout.size
        self.works: list[list[tuple[int, Work]]] = [[] for _ in range(program.ranks)]
        self.messages: list[tuple[int, int, int, int, int, int, int]] = []
        self.in_transit: dict[int, deque[tuple[int, int, int, int]]] = defaultdict(deque)
        self.last: dict[int, int] = defaultdict(int)

    def plan(self) -> list[RankRounds]:
        """The rounds."""
        order, blocked = replay(self.waits, [1] * len(self.operands.kind), UNLIMITED)
        if blocked:
            raise ValueError(f"{self.program.name} never ends: {len(blocked)} threadblocks wait forever")
        ranks = self.program.blocks[self.program.steps[:, 0], 0].tolist()
        for step in order:
            self._step(step, ranks[step])
        return self._rounds()

    def _step(self, step: int, rank: int) -> None:
        work = self.operands
        kind, count = StepKind(work.kind[step]), work.count[step]
        source, target = work.source[step], work.target[step]
        result = source
        if RECEIVES[kind]:
            result = self._receive(step, rank, kind in (StepKind.R, StepKind.RCS))
        if kind in (StepKind.CPY, StepKind.RE):
            self._work(rank, Work(target, source, target if kind is StepKind.RE else -1, count))
        elif kind in (StepKind.RRC, StepKind.RRCS, StepKind.RRS):
            into = result if kind is StepKind.RRS else target
            self._work(rank, Work(into, source, result, count))
            result = into
        if SENDS[kind]:
            self._send(step, rank, result, count)

    def _send(self, step: int, rank: int, first: int, count: int) -> None:
        connection = self.waits.sends[step]
        ready = max(self.written[slot] for slot in range(first, first + count))
        moment = max(ready // 2 * 2 + 2, self.last[connection] + self.pause)
        self.last[connection] = moment
        self._mark(self.read, first, count, moment)
        self.in_transit[connection].append((moment, rank, first, count))

    def _receive(self, step: int, rank: int, stores: bool) -> int:
        """Receive the next message of a step's connection. Returns the first slot that holds it."""
        moment, sender, first, count = self.in_transit[self.waits.receives[step]].popleft()
        target = self.operands.target[step]
        last = max(max(self.written[slot], self.read[slot]) for slot in range(target, target + count))
        direct = stores and last < moment
        into = target if direct else self.end
        if not direct:
            self.spares.append((rank, into, count, moment))
            self.end += count
        self._mark(self.written, into, count, moment)
        self.messages.append((moment, len(self.messages), sender, rank, first, into, count))
        if stores and not direct:
            self._work(rank, Work(target, into, -1, count))
        return into

    def _work(self, rank: int, work: Work) -> None:
        sources = [slot + k for slot in (work.first, work.second) if slot >= 0 for k in range(work.length)]
        targets = range(work.target, work.target + work.length)
        ready = max(self.written[slot] for slot in sources)
        free = max(max(self.written[slot], self.read[slot]) for slot in targets)
        moment = max(ready, free) | 1
        for slot in sources:
            self.read[slot] = max(self.read[slot], moment)
        self._mark(self.written, work.target, work.length, moment)
        self.works[rank].append((moment, work))

    def _mark(self, moments: dict[int, int], first: int, count: int, moment: int) -> None:
        for slot in range(first, first + count):
            moments[slot] = max(moments[slot], moment)

    def _rounds(self) -> list[RankRounds]:
        spare_slots, spare_sizes = self._place_spares()
        own: list[dict[int, Round]] = [defaultdict(Round) for _ in self.works]
        for moment, number, sender, receiver, first, into, count in sorted(self.messages):
            source, target = spare_slots.get(first, first), spare_slots.get(into, into)
            own[sender][moment // 2].sends.append(Message(number, receiver, source, count))
            own[receiver][moment // 2].receives.append(Message(number, sender, target, count))
        for rank, works in enumerate(self.works):
            for moment, work in sorted(works, key=lambda pair: pair[0]):
                target, first, second = (spare_slots.get(slot, slot) for slot in work[:3])
                own[rank][moment // 2].work.append(Work(target, first, second, work.length))
        return [
            RankRounds(
                [rounds[number] for number in sorted(rounds)],
                sorted(rounds),
                (
                    *zip(self.layout.base[rank].tolist(), self.chunks[rank].tolist(), strict=True),
                    (self.layout.size, spare_sizes[rank]),
                ),
            )
            for rank, rounds in enumerate(own)
        ]

    def _place_spares(self) -> tuple[dict[int, int], list[int]]:
        """By spare slot, its place from the end of all memory on; and how many each rank has.

        A place is taken again when what it held was used for the last time. Spares keep their neighbours.
        """
        free: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        sizes, slots = [0] * self.program.ranks, dict[int, int]()
        for rank, first, count, moment in sorted(self.spares, key=lambda row: row[3]):
            reusable = [place for place in free[rank, count] if place[0] < moment]
            if reusable:
                place = min(reusable)
                free[rank, count].remove(place)
                begin = place[1]
            else:
                begin, sizes[rank] = sizes[rank], sizes[rank] + count
            used = max(max(self.read[slot], self.written[slot]) for slot in range(first, first + count))
            free[rank, count].append((used, begin))
            slots |= {first + k: self.layout.size + begin + k for k in range(count)}
        return slots, sizes
