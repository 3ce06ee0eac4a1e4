"""Connections: one for each (sender, receiver, channel), with a threadblock at each end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.msccl.check.model import RECEIVES, SENDS, FileProgram
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


def messages(program: FileProgram, connections: Connections) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Steps that send and steps that receive, each in order of connection and time, with their connections.

    Returns (send steps, their connections, receive steps, their connections), int64 each.
    """
    steps = program.steps
    out = np.flatnonzero(SENDS[steps.kind])
    into = np.flatnonzero(RECEIVES[steps.kind])
    out_at, into_at = connections.of_sender[steps.tb[out]], connections.of_receiver[steps.tb[into]]
    by_out, by_into = np.argsort(out_at, kind="stable"), np.argsort(into_at, kind="stable")
    return out[by_out], out_at[by_out], into[by_into], into_at[by_into]
