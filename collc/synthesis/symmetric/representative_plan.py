"""The plan for what one NPU of a Cayley graph sends, which translations move to all others."""

from __future__ import annotations

from dataclasses import dataclass

from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class RepresentativePlan:
    """The transfers of what NPU 0 sends, one a row, in any order.

    end: steps in all, or picoseconds. start: when each transfer starts, in the same unit. generator: its link, as a
    generator. sender: the NPU that it leaves. chunk: which chunk of NPU 0: 0 .. chunks - 1 in an All-Gather,
    NPU * chunks + c for the chunks to an NPU in an All-to-All. half: -1 if the translations to all NPUs do it; 0 or 1
    if only those to NPUs of even or odd index along `axis` do. None: all do all.
    """

    end: int
    start: Int32Array | Int64Array
    generator: Int32Array
    sender: Int32Array
    chunk: Int32Array
    half: Int32Array | None = None
    axis: int = 0
