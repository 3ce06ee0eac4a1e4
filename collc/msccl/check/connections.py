"""Connections: one for each (sender, receiver, channel), with a threadblock at each end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.msccl.check.model import FileProgram
from collc.msccl.interpreter.operations import RECEIVES, SENDS, StepKind
from collc.msccl.interpreter.replay import StepWaits
from collc.ten.arrays import Int64Array


@dataclass(frozen=True, eq=False)
class Connections:
    """Connections in order of (sender gpu, receiver gpu, channel).

    key: int64[connections, 3]. sender, receiver: rows of the threadblocks at the ends, -1 for none.
    of_sender, of_receiver: int64[threadblocks], the connection that a threadblock sends on or
    receives from, -1 for none.
    """

    key: Int64Array
    sender: Int64Array
    receiver: Int64Array
    of_sender: Int64Array
    of_receiver: Int64Array

    def __len__(self) -> int:
        return len(self.key)

    def name(self, number: int) -> str:
        """For messages: `gpu 0 -> gpu 1, channel 0`."""
        source, target, channel = (int(x) for x in self.key[number])
        return f"gpu {source} -> gpu {target}, channel {channel}"


def connect(program: FileProgram) -> Connections:
    """Find the ends of every connection. If two threadblocks share an end, the first one counts."""
    tbs = program.tbs
    rows = np.arange(len(tbs), dtype=np.int64)
    out = np.stack([tbs.gpu, tbs.send, tbs.chan], axis=1).astype(np.int64)
    into = np.stack([tbs.recv, tbs.gpu, tbs.chan], axis=1).astype(np.int64)
    sends, receives = rows[tbs.send >= 0], rows[tbs.recv >= 0]
    both = np.concatenate([out[sends], into[receives]])
    key, number = np.unique(both, axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_sender, of_receiver = np.full(len(tbs), -1, np.int64), np.full(len(tbs), -1, np.int64)
    of_sender[sends], of_receiver[receives] = number[: len(sends)], number[len(sends) :]
    sender, receiver = np.full(len(key), -1, np.int64), np.full(len(key), -1, np.int64)
    sender[of_sender[sends[::-1]]] = sends[::-1]
    receiver[of_receiver[receives[::-1]]] = receives[::-1]
    return Connections(key, sender, receiver, of_sender, of_receiver)


def waits_of(program: FileProgram, connections: Connections) -> StepWaits:
    """The waits of a program whose contract is not `broken`."""
    steps = program.steps
    sends = np.where(SENDS[steps.kind], connections.of_sender[steps.tb], -1)
    receives = np.where(RECEIVES[steps.kind], connections.of_receiver[steps.tb], -1)
    on = np.where(steps.depid >= 0, program.gpu_first[program.step_gpu] + steps.depid, -1)
    sets = (steps.hasdep == 1) & (steps.kind != StepKind.NOP)
    return StepWaits(
        program.tbs.first.tolist(),
        steps.tb.tolist(),
        sends.tolist(),
        receives.tolist(),
        on.tolist(),
        steps.deps.tolist(),
        sets.tolist(),
        connections.sender.tolist(),
        connections.receiver.tolist(),
    )
