"""Data of runs: random inputs, the outputs that NumPy computes from them, their comparison and size limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, UsageError
from collc.msccl.check.collectives import KNOWN, REDUCING, TOTAL, canonical, wanted_output

Array = NDArray[Any]
DTYPES: Final = ("float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64")
OPS: Final[dict[str, Any]] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True, slots=True)
class WrongChunk:
    """An output chunk with wrong numbers: its rank and number, and the first wrong element."""

    rank: int
    chunk: int
    got: float
    expected: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run in one placement.

    op: the reduction, None if the collective has none. count: elements as NCCL counts them. messages: messages or
    signals sent. hung: (gpu, tb, step) of the threadblocks that wait forever. error: the largest relative error.
    """

    inplace: bool
    seed: int
    dtype: str
    op: str | None
    count: int
    messages: int
    hung: tuple[tuple[int, int, int], ...]
    wrong: tuple[WrongChunk, ...]
    error: float

    @property
    def ok(self) -> bool:
        """Whether it ended and the outputs of all ranks agree with NumPy."""
        return not self.hung and not self.wrong


SHOWN: Final = 8
"""Wrong chunks that a report lists at most."""


def check_choices(dtype: str, op: str | None) -> None:
    """Raise UsageError (X0200) for an unknown type or reduction; op None: that of the file."""
    if dtype not in DTYPES or (op is not None and op not in OPS):
        known = DTYPES if dtype not in DTYPES else tuple(OPS)
        what = f"unknown dtype '{dtype}'" if dtype not in DTYPES else f"unknown op '{op}'"
        raise UsageError(Diagnostic("X0200", what, hint=f"there are {', '.join(known)}"))


def op_of(redop: str, path: Path) -> str:
    """The reduction that a file names, "sum" if it names none.

    Raises UsageError (X0200) for one that is not supported.
    """
    op = redop.lower() or "sum"
    if op not in OPS:
        hint = f"choose the reduction with --op: {', '.join(OPS)}"
        raise UsageError(
            Diagnostic("X0200", f"{path} says redop '{redop}', which 'collc run' does not support", hint=hint)
        )
    return op


def unknown_result(collective: str) -> UsageError:
    """The error for a file whose collective does not determine a result."""
    hint = f"name the collective: {', '.join(KNOWN)}"
    if canonical(collective) == "custom":
        hint = "--collective names one; 'collc verify FILE --program FILE.coll --schedule NAME' checks what has no name"
    return UsageError(Diagnostic("X0202", f"the result of collective '{collective}' is not known", hint=hint))


def random_data(generator: np.random.Generator, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """Random inputs whose sums do not overflow; shape: (chunks, elements)."""
    if dtype.kind == "f":
        return generator.uniform(0.5, 1.5, shape).astype(dtype)
    return generator.integers(0, 100, shape, dtype=dtype)


def undefined_data(generator: np.random.Generator, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    """The contents of memory that was never written: NaN, or random numbers for integers."""
    return np.full(shape, np.nan, dtype) if dtype.kind == "f" else generator.integers(100, 127, shape, dtype=dtype)


def expected_data(coll: str, root: int, op: str, inputs: Sequence[Array], total: int) -> list[Array | None]:
    """The output of every rank, (chunks, elements); None: it may hold anything.

    coll: one of `KNOWN`. total: chunks of the total buffer, as `collectives` counts them.
    """
    made: dict[tuple[Sequence[int], range], Array] = {}
    rules = [wanted_output(coll, rank, len(inputs), total, root) for rank in range(len(inputs))]
    for ranks, chunks in {rule for rule in rules if rule is not None}:
        parts = [inputs[rank][chunks.start : chunks.stop] for rank in ranks]
        sums = coll in REDUCING
        made[ranks, chunks] = OPS[op].reduce(parts, axis=0, dtype=parts[0].dtype) if sums else np.concatenate(parts)
    return [None if rule is None else made[rule] for rule in rules]


def compare_outputs(rank: int, got: Array, expected: Array, ranks: int, op: str) -> tuple[list[WrongChunk], float]:
    """The chunks of a rank that differ by more than another order of sums explains, and the largest relative error."""
    if got.dtype.kind != "f" or op in ("max", "min"):
        bad, error = got != expected, 0.0
    else:
        wide, target = got.astype(np.float64), expected.astype(np.float64)
        off = np.abs(wide - target) / np.abs(target)
        bad, error = ~(off <= 2 * ranks * float(np.finfo(got.dtype).eps)), float(np.max(off, initial=0.0))
    wrong: list[WrongChunk] = []
    for chunk in np.flatnonzero(bad.any(axis=1)).tolist():
        element = int(np.argmax(bad[chunk]))
        wrong.append(WrongChunk(rank, chunk, float(got[chunk, element]), float(expected[chunk, element])))
    return wrong, error


def chunk_elements(count: int | None, coll: str, ranks: int, chunks: int, default: int) -> int:
    """Elements of a chunk. count: elements as NCCL counts them, None: `default` in a chunk. chunks: of all buffers.

    Raises UsageError (X0204) if the count cannot be cut into chunks.
    """
    if count is None:
        return default
    factor = ranks if coll in TOTAL else 1
    elements, rest = divmod(count * factor, chunks)
    if rest or elements < 1:
        text = f"a count of {count} cannot be cut into the chunks of this file, so that no runtime chooses it"
        rule = f"count * {factor} must be a multiple of its {chunks} chunks"
        raise UsageError(Diagnostic("X0204", text, hint=rule))
    return elements


MOST_BYTES: Final = 2**30
"""Bytes of the buffers of all gpus; results, messages and the comparison take up to five times as much again."""


def check_size(slots: int, elements: int, itemsize: int, unit: int) -> None:
    """Raise UsageError (X0205) if `slots` slots of `elements` elements of `itemsize` bytes are too large.

    unit: elements of --count for one element in each slot.
    """
    needed = slots * elements * itemsize
    if needed <= MOST_BYTES:
        return
    most = MOST_BYTES // (slots * itemsize) * unit
    message = f"the buffers of all ranks would take {needed / 2**30:,.1f} GiB, and 'collc run' takes {MOST_BYTES >> 30}"
    hint = f"--count {most} at most, or a smaller --dtype"
    raise UsageError(Diagnostic("X0205", message, hint=hint))
