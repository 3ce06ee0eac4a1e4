"""Connections between threadblocks, and the waits of their steps, from the tables of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.runtime.operations import RECEIVES, SENDS, StepKind
from collc.runtime.replay import StepWaits

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]


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

    @staticmethod
    def of(gpu: Int32Array, send: Int32Array, recv: Int32Array, chan: Int32Array) -> Connections:
        """Of threadblocks, given by their gpus, peers (-1: none) and channels; an end that two share is the first's."""
        rows = np.arange(len(gpu), dtype=np.int64)
        out = np.stack([gpu, send, chan], axis=1).astype(np.int64)
        into = np.stack([recv, gpu, chan], axis=1).astype(np.int64)
        sends, receives = rows[send >= 0], rows[recv >= 0]
        key, number = np.unique(np.concatenate([out[sends], into[receives]]), axis=0, return_inverse=True)
        number = number.reshape(-1)
        of_sender, of_receiver = np.full(len(gpu), -1, np.int64), np.full(len(gpu), -1, np.int64)
        of_sender[sends], of_receiver[receives] = number[: len(sends)], number[len(sends) :]
        sender, receiver = np.full(len(key), -1, np.int64), np.full(len(key), -1, np.int64)
        sender[of_sender[sends[::-1]]] = sends[::-1]
        receiver[of_receiver[receives[::-1]]] = receives[::-1]
        return Connections(key, sender, receiver, of_sender, of_receiver)

    def __len__(self) -> int:
        return len(self.key)

    def name(self, number: int) -> str:
        """For messages: `gpu 0 -> gpu 1, channel 0`."""
        source, target, channel = (int(x) for x in self.key[number])
        return f"gpu {source} -> gpu {target}, channel {channel}"


def waits_of(
    connections: Connections, gpu: Int32Array, first: Int64Array, steps: tuple[NDArray[Any], ...]
) -> StepWaits:
    """The waits of all steps of a program whose contract is not broken.

    gpu: of each threadblock, ascending. first: int64[threadblocks + 1], their first steps. steps: columns: threadblock,
    kind, threadblock of the gpu and step of it that the step waits for (-1: none), and whether its counter moves.
    """
    tb, kind, depid, deps, hasdep = steps
    first_block = np.searchsorted(gpu, np.arange(int(gpu.max(initial=-1)) + 2))
    on = np.where(depid >= 0, first_block[gpu[tb]] + depid, -1)
    return StepWaits(
        first.tolist(),
        tb.tolist(),
        np.where(SENDS[kind], connections.of_sender[tb], -1).tolist(),
        np.where(RECEIVES[kind], connections.of_receiver[tb], -1).tolist(),
        on.tolist(),
        deps.tolist(),
        ((hasdep == 1) & (kind != StepKind.NOP)).tolist(),
        connections.sender.tolist(),
        connections.receiver.tolist(),
    )
