"""A plan as a program of collc's own runtime, in which accesses to memory of other gpus are messages.

The result of a plan without races is that of any order in which its operations can run (`check_plan`). One such order
is taken: each rank does its part in this order, one step after another, so that no rank waits for a later one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from collc.msccl.check.results import CollectiveCall
from collc.msccl.check_plan.memory import address
from collc.msccl.check_plan.model import PACKETS, SCRATCH, Operation, Plan, SlotRange
from collc.msccl.running.over_tcp import call_program
from collc.runtime.collectives import MemoryLayout
from collc.runtime.operations import RECEIVES, SENDS, StepKind
from collc.runtime.run_program import RunProgram

_Place = tuple[int, int]
"""(buffer, first slot)."""


def program_of_plan(plan: Plan, call: CollectiveCall, layout: MemoryLayout, order: Iterable[Operation]) -> RunProgram:
    """The program of one launch. layout: of the memory of the plan. order: of the operations."""
    return _Translation(plan, layout).program(call, order)


class _Translation:
    """The steps of all ranks: the rank at the other end or -1, kind, source and target (buffer, slot), and count.

    Behind the scratch slots of a gpu are its packets, and behind these the slots in which it adds, `work`.
    """

    def __init__(self, plan: Plan, layout: MemoryLayout) -> None:
        self.plan, self.layout = plan, layout
        self.steps: list[list[tuple[int, StepKind, _Place, _Place, int]]] = [[] for _ in plan.chunks]
        self.work: list[int] = [0] * len(plan.chunks)

    def program(self, call: CollectiveCall, order: Iterable[Operation]) -> RunProgram:
        """The program of the operations."""
        for op in order:
            for move in op.moves:
                self._move(op.location.gpu, move.sources, move.targets)
        chunks = np.array(self.plan.chunks, np.int64).reshape(-1, 3)
        chunks[:, SCRATCH] = 2 * chunks[:, SCRATCH] + self.work
        blocks: list[tuple[int, int, int, int]] = []
        rows: list[list[int]] = []
        for rank in range(len(chunks)):
            self._add_rank(rank, blocks, rows)
        tables = np.array(blocks, np.int32).reshape(-1, 4), np.array(rows, np.int32).reshape(-1, 10)
        return call_program(self.plan.name, call, chunks, *tables)

    def _move(self, gpu: int, sources: Sequence[SlotRange], targets: Sequence[SlotRange]) -> None:
        """Let every target become the sum of the sources, in the memory of the gpu if there are several of either."""
        first, *others = sources
        if len(sources) == len(targets) == 1 and gpu in (first.gpu, targets[0].gpu):
            self._transfer(first.gpu, self._place(first), targets[0].gpu, self._place(targets[0]), first.size)
            return
        sums = SCRATCH, 2 * self.plan.chunks[gpu][SCRATCH]
        self.work[gpu] = max(self.work[gpu], first.size)
        self._transfer(first.gpu, self._place(first), gpu, sums, first.size)
        for other in others:
            self._transfer(other.gpu, self._place(other), gpu, sums, other.size, adds=True)
        for target in targets:
            self._transfer(gpu, sums, target.gpu, self._place(target), first.size)

    def _transfer(
        self, sender: int, source: _Place, receiver: int, target: _Place, size: int, *, adds: bool = False
    ) -> None:
        if sender == receiver:
            self.steps[sender].append((-1, StepKind.RE if adds else StepKind.CPY, source, target, size))
            return
        self.steps[sender].append((receiver, StepKind.S, source, source, size))
        kind = StepKind.RRC if adds else StepKind.R
        self.steps[receiver].append((sender, kind, target, target, size))

    def _place(self, slots: SlotRange) -> _Place:
        if slots.buffer == PACKETS:
            return SCRATCH, self.plan.chunks[slots.gpu][SCRATCH] + slots.index
        return slots.buffer, address(self.layout, slots) - int(self.layout.base[slots.gpu, slots.buffer])

    def _add_rank(self, rank: int, blocks: list[tuple[int, int, int, int]], rows: list[list[int]]) -> None:
        """Append the threadblocks of a rank, one for each peer, and their steps: each waits for the one before it."""
        steps: dict[int, list[list[int]]] = defaultdict(list)  # by peer
        peers = [peer for peer, *_ in self.steps[rank] if peer >= 0] or [-1]
        number = {peer: position for position, peer in enumerate(sorted(set(peers)))}
        peer, before = peers[0], [0]
        for other, kind, source, target, count in self.steps[rank]:
            last, peer = peer, other if other >= 0 else peer
            before[-1] = int(last != peer)
            wait = (number[last], len(steps[last]) - 1) if last != peer else (-1, -1)
            before = [kind, *source, *target, count, *wait, 0]
            steps[peer].append(before)
        for peer in number:
            kinds = [kind for kind, *_ in steps[peer]]
            rows += [[len(blocks), *row] for row in steps[peer]]
            blocks.append((rank, peer if SENDS[kinds].any() else -1, peer if RECEIVES[kinds].any() else -1, 0))
