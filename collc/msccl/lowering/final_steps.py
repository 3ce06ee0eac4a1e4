"""The steps of a final program in the form that the interpreter executes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.msccl.interpreter.replay import StepWaits
from collc.msccl.program import Program, Step
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, eq=False)
class FinalSteps:
    """All steps, by rank, threadblock and position, and what they wait for.

    rank, threadblock, position: int64[steps], the place of each. send, receive: int64[steps], its messages, -1 for
    none. to: int64[steps], the rank to which its threadblock sends.
    """

    steps: list[Step]
    rank: Int64Array
    threadblock: Int64Array
    position: Int64Array
    send: Int64Array
    receive: Int64Array
    to: Int64Array
    waits: StepWaits


def list_steps(program: Program) -> FinalSteps:
    """The steps of a program in which each waits for one other step at most."""
    blocks = [(gpu.rank, number, tb) for gpu in program.gpus for number, tb in enumerate(gpu.threadblocks)]
    steps = [step for _, _, tb in blocks for step in tb.steps]
    lengths = np.array([len(tb.steps) for _, _, tb in blocks], np.int64)
    first = np.append([0], np.cumsum(lengths)).astype(np.int64)
    row = np.repeat(np.arange(len(blocks)), lengths)
    columns = [(rank, number, tb.send) for rank, number, tb in blocks]
    rank, threadblock, to = np.array(columns, np.int64).reshape(-1, 3)[row].T
    send = np.fromiter((step.send for step in steps), np.int64, len(steps))
    receive = np.fromiter((step.receive for step in steps), np.int64, len(steps))
    connections: dict[tuple[int, int, int], int] = {}
    sender, receiver = dict[int, int](), dict[int, int]()
    ends: list[tuple[int, int]] = []
    for number, (gpu, _, tb) in enumerate(blocks):
        out = connections.setdefault((gpu, tb.send, tb.channel), len(connections)) if tb.send >= 0 else -1
        into = connections.setdefault((tb.receive, gpu, tb.channel), len(connections)) if tb.receive >= 0 else -1
        sender[out] = receiver[into] = number
        ends.append((out, into))
    out, into = np.array(ends, np.int64).reshape(-1, 2)[row].T
    row_of = {(gpu, number): row for row, (gpu, number, _) in enumerate(blocks)}
    awaited = [
        (row_of[gpu, step.waits[0].threadblock], step.waits[0].step) if step.waits else (-1, -1)
        for gpu, _, tb in blocks
        for step in tb.steps
    ]
    waits = StepWaits(
        first=first.tolist(),
        tb=row.tolist(),
        sends=np.where(send >= 0, out, -1).tolist(),
        receives=np.where(receive >= 0, into, -1).tolist(),
        needs_tb=[number for number, _ in awaited],
        needs_step=[step for _, step in awaited],
        sets=[step.awaited for step in steps],
        sender=[sender.get(number, -1) for number in range(len(connections))],
        receiver=[receiver.get(number, -1) for number in range(len(connections))],
    )
    return FinalSteps(steps, rank, threadblock, np.arange(len(steps)) - first[row], send, receive, to, waits)
