"""Point-to-point calls by the rules of NCCL, between threads of one process: no GPU is needed, nothing is buffered.

A batch (group) is issued as one unit, and all of it is under way together; the next one of a rank begins when it is
over. A message moves when both ends are under way; of each two ranks, sends meet receives in the order of their calls,
with equal sizes. The first batch of a rank makes the communicator, for which it waits for all others. What a batch
receives may not overlap with what else it touches.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Wire:
    """What the ranks have under way, by sender and receiver. ended: ranks without further batches."""

    ranks: int
    under_way: dict[int, list[tuple[int, int, Any]]] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)
    error: str = ""

    def run(self, rank: int, calls: list[tuple[int, int, Any]]) -> None:
        """Issue a batch of (sender, receiver, tensor), and wait for its end. Raises RuntimeError if there is none."""
        with self.changed:
            self.under_way[rank] = calls
            self.begun.add(rank)
            self._move()
            self.changed.wait_for(lambda: self.error or not calls)
            if self.error:
                raise RuntimeError(self.error)
            del self.under_way[rank]

    def end(self, rank: int) -> None:
        """A rank has no further batches."""
        with self.changed:
            self.ended.add(rank)
            self.begun.add(rank)
            self._move()

    def _move(self) -> None:
        moves = len(self.begun) == self.ranks
        while moves:
            moves = False
            for rank, calls in self.under_way.items():
                for pair in {call[:2] for call in calls if call[0] == rank}:
                    others = self.under_way.get(pair[1], [])
                    if receive := next((call for call in others if call[:2] == pair), None):
                        send = next(call for call in calls if call[:2] == pair)
                        self._meet(send, receive)
                        calls.remove(send)
                        others.remove(receive)
                        moves = True
        waiting = {rank for rank, calls in self.under_way.items() if calls}
        if len(waiting | self.ended) == self.ranks and waiting:
            self.error = self.error or f"ranks {sorted(waiting)} wait for one another"
        self.changed.notify_all()

    def _meet(self, send: tuple[int, int, Any], receive: tuple[int, int, Any]) -> None:
        if len(send[2]) != len(receive[2]):
            self.error = f"a message of {len(send[2])} elements meets one of {len(receive[2])}"
        else:
            receive[2].copy_(send[2])


class Nccl:
    """The inner backend of one rank."""

    def __init__(self, wire: Wire, rank: int) -> None:
        self.wire, self.rank = wire, rank
        self.calls: list[tuple[int, int, Any]] | None = None

    def _start_coalescing(self, _device: object) -> None:
        assert self.calls is None
        self.calls = []

    def send(self, tensors: list[Any], peer: int, _tag: int) -> None:
        assert self.calls is not None, "a call outside of a batch"
        self.calls.append((self.rank, peer, tensors[0]))

    def recv(self, tensors: list[Any], peer: int, _tag: int) -> None:
        assert self.calls is not None, "a call outside of a batch"
        self.calls.append((peer, self.rank, tensors[0]))

    def _end_coalescing(self, _device: object) -> Nccl:
        calls, self.calls = self.calls, None
        ranges = sorted((tensor.data_ptr(), tensor.nbytes, peer == self.rank) for peer, _, tensor in calls)
        for (first, size, sends), (second, _, also) in pairwise(ranges):
            assert first + size <= second or (sends and also), "memory that is received and used in one batch"
        self.wire.run(self.rank, calls)
        return self

    def wait(self) -> None:
        """The batch is over already."""
