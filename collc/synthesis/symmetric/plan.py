"""What is planned for one NPU of a Cayley graph, and moved to all others."""

from __future__ import annotations

from dataclasses import dataclass

from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class Plan:
    """What is done with what NPU 0 sends, one row a transfer, in any order.

    end: steps in all, or picoseconds. start: when, in the same unit. generator: over which. sender: the NPU that it
    leaves.
    chunk: which of NPU 0's: 0 .. chunks - 1 in an All-Gather, NPU * chunks + c for the one to an NPU in an All-to-All.
    half: -1: what all NPUs do; 0, 1: what only those do whose index along `axis` is even, or odd. None: all do all.
    """

    end: int
    start: Int32Array | Int64Array
    generator: Int32Array
    sender: Int32Array
    chunk: Int32Array
    half: Int32Array | None = None
    axis: int = 0
