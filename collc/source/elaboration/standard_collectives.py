"""The collectives of the standard library as patterns, whose chunks are listed only on demand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from collc.source.elaboration.arithmetic import ALIGNMENT
from collc.source.elaboration.collectives import OPS
from collc.source.elaboration.values import ListArray, Value
from collc.ten.demand import Op, Standard
from collc.ten.standard_collectives import shapes

MOST_CHUNKS: Final = 256
"""Chunks per block that are tried at most if the program leaves the number to collc."""


@lru_cache(maxsize=64)
def chunk_numbers(standard: Standard, members: int) -> frozenset[int]:
    """Numbers of chunks per block, up to MOST_CHUNKS, that divide the size of a collective exactly.

    If chunks can be aligned, only those with which they are.
    """
    whole = frozenset(n for n in range(1, MOST_CHUNKS + 1) if standard.size % (n * standard.shape.parts(members)) == 0)
    aligned = frozenset(n for n in whole if standard.size % (ALIGNMENT * n * standard.shape.parts(members)) == 0)
    return aligned or whole


def _int(values: Mapping[str, Value], name: str, default: int) -> int:
    value = values.get(name)
    return int(value.data) if value is not None and isinstance(value.data, int) else default


def standard_of(name: str, members: int, values: Mapping[str, Value]) -> Standard:
    """A collective of the standard library with its arguments.

    members: size of the group. The size of all_to_allv is that of the largest row of `sizes`; the root of send_recv and
    multicast is their source.
    """
    op = values.get("op")
    size = _int(values, "size", 0)
    if name == "all_to_allv":
        size = _largest_row(values["sizes"])
    root = _int(values, "root", _int(values, "source", -1))
    kind = OPS.get(str(op.data), Op.COPY) if op is not None else Op.COPY
    return Standard(name, size, _int(values, "chunks", 1), root if members else -1, kind)


def _largest_row(sizes: Value) -> int:
    rows = sizes.data.uniform_items() if isinstance(sizes.data, ListArray) else None
    if not isinstance(rows, ListArray) or isinstance(rows.content, ListArray):
        return 0
    return max((int(rows.content[a:b].sum()) for a, b in zip(rows.start, rows.stop, strict=True)), default=0)


def lazy_count(name: str, members: int, values: Mapping[str, Value]) -> int | None:
    """The number of chunks of a run; None if its arguments may be wrong and it must be expanded to find errors."""
    shape = shapes()[name]
    if not shape.by_rule or members == 0:
        return None
    standard = standard_of(name, members, values)
    op = values.get("op")
    parts = shape.parts(members) * standard.chunks
    sound = (
        standard.chunks >= 1
        and standard.size >= 1
        and parts > 0
        and standard.size % parts == 0
        and standard.size // parts < 2**62
    )
    sound = sound and (not shape.has_root or 0 <= standard.root < members) and (op is None or op.data in OPS)
    return shape.blocks(members) * standard.chunks if sound else None
