"""Larger messages never make a program deadlock, so that one simulation decides for a range of sizes."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from collc.msccl.collectives import Collective
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.execution import deadlocking_message_sizes, terminates
from collc.msccl.options import Placement, Profile, Protocol
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock


@pytest.mark.parametrize("seed", range(30))
def test_programs_that_end_also_end_with_larger_messages(seed: int) -> None:
    """Random programs of two to four GPUs that exchange messages of several chunks, many of which deadlock."""
    program = random_exchange(seed)
    ends = [terminates(program, chunks) for chunks in range(1, MOST_CHUNKS + 1)]
    assert ends == sorted(ends)
    found = deadlocking_message_sizes(program)
    assert found == [chunks for chunks, ended in enumerate(ends, 1) if not ended]


def test_random_exchanges_end_at_some_sizes_only() -> None:
    kinds = Counter(
        (terminates(program, 1), terminates(program, MOST_CHUNKS)) for program in map(random_exchange, range(200))
    )
    assert min(kinds[False, True], kinds[True, True]) > 20


def random_exchange(seed: int) -> Program:
    """Threadblocks with one peer to send to and one to receive from, in random order of sends, receives and relays."""
    draw = random.Random(seed)
    ranks = draw.randint(2, 4)
    counts = [draw.randint(1, 24) for _ in range(draw.randint(1, 5))]
    gpus: list[Gpu] = []
    for rank in range(ranks):
        before = (rank - 1) % ranks
        pending = [Op.SEND, Op.RECEIVE] * len(counts)
        draw.shuffle(pending)
        steps: list[Step] = []
        done: Counter[Op] = Counter()
        for op in pending:
            number = done[op]
            done[op] += 1
            last = steps[-1] if steps else None
            if op is Op.SEND and last and last.receive == number + before * 8 and last.send < 0 and draw.random() < 0.7:
                steps[-1] = replace(last, op=Op.RECEIVE_COPY_SEND, send=number + rank * 8)
                continue
            sends = number + rank * 8 if op is Op.SEND else -1
            takes = number + before * 8 if op is Op.RECEIVE else -1
            steps.append(Step(op, (0, 0, 0, 0), counts[number], Slot("o", 0), Slot("o", 0), takes, sends))
        gpus.append(Gpu(rank, 32, 32, 0, (), (Threadblock((rank + 1) % ranks, before, 0, tuple(steps)),)))
    collective = Collective("all_reduce", "allreduce", ranks, 32, 32)
    return Program(
        "random", collective, Profile.EXECUTOR, Protocol.SIMPLE, Placement.OUT, (0, None), 1, 1, 1, (), tuple(gpus)
    )
