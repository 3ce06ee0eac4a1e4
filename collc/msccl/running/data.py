"""Data of runs: random inputs, the outputs that NumPy computes from them, their comparison and size limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, UsageError
from collc.base.wording import SHOWN
from collc.msccl.check.collectives import KNOWN, canonical, wanted_output
from collc.msccl.check.results import CollectiveCall
from collc.runtime.collectives import INPUT, OUTPUT, REDUCING, TOTAL, MemoryLayout
from collc.runtime.rank_program import OPS, divide

Array = NDArray[Any]
TransportName = Literal["memory", "threads", "tcp"]
"""What carries messages: queues in one thread, in a random order of events, or in a thread for each threadblock; or TCP
connections between a process for each rank.
"""
THREADS_LIMIT: Final = 512
RANKS_LIMIT: Final = 64
"""Threads and processes at most."""
DTYPES: Final = ("float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64")


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
    seconds: that the ranks took, over TCP.
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
    seconds: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it ended and the outputs of all ranks agree with NumPy."""
        return not self.hung and not self.wrong


def check_choices(dtype: str, op: str | None) -> None:
    """Raise UsageError (X0200) for an unknown type or reduction; op None: the file's."""
    if dtype not in DTYPES or (op is not None and op not in OPS):
        known = DTYPES if dtype not in DTYPES else tuple(OPS)
        what = f"unknown dtype '{dtype}'" if dtype not in DTYPES else f"unknown op '{op}'"
        raise UsageError(Diagnostic("X0200", what, hint=f"there are {', '.join(known)}"))


def check_transport(transport: str, threadblocks: int, ranks: int) -> None:
    """Raise UsageError for an unknown transport (X0200), and for more threads or processes than may be (X0201)."""
    known = get_args(TransportName)
    if transport not in known:
        hint = f"there are {', '.join(known)}"
        raise UsageError(Diagnostic("X0200", f"unknown transport '{transport}'", hint=hint))
    count, what, most = {
        "threads": (threadblocks, "threadblocks are too many for real threads", THREADS_LIMIT),
        "tcp": (ranks, "ranks are too many for processes of their own", RANKS_LIMIT),
    }.get(transport, (0, "", 0))
    if count > most:
        text = f"{count} {what} (at most {most})"
        raise UsageError(Diagnostic("X0201", text, hint="leave the transport out: all runs in one thread then"))


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


class RunData:
    """The memory of all gpus in a run, with random inputs for each launch, and what the outputs must be.

    memory: (slots, elements); what was never written is NaN, or random numbers for integers. inputs, expected: by
    launch and rank; None: the output may hold anything. wrong, error: of the outputs that have been compared.
    """

    def __init__(
        self,
        call: CollectiveCall,
        layout: MemoryLayout,
        input_chunks: Sequence[int],
        dtype: np.dtype[Any],
        elements: int,
        op: str,
        seed: int,
        launches: int = 1,
    ) -> None:
        """Raise UsageError (X0205) if the buffers are too large."""
        self.call: CollectiveCall = call
        self.layout: MemoryLayout = layout
        self.op: str = op
        self.seed: int = seed
        unit = call.total // (call.ranks if call.coll in TOTAL else 1)
        _check_size(layout.size + launches * sum(input_chunks), elements, dtype.itemsize, unit)
        self.count: int = elements * unit
        self.generator: np.random.Generator = np.random.default_rng(seed)
        self.memory: Array = np.empty((layout.size, elements), dtype)
        self.clear(0, layout.size)
        self.inputs: list[list[Array]] = [
            [self._random_input((chunks, elements), dtype) for chunks in input_chunks] for _ in range(launches)
        ]
        self.expected: list[list[Array | None]] = [_expected_outputs(call, op, inputs) for inputs in self.inputs]
        self.wrong: list[WrongChunk] = []
        self.error: float = 0.0

    def _random_input(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
        """Numbers whose sums do not overflow."""
        if dtype.kind == "f":
            return self.generator.uniform(0.5, 1.5, shape).astype(dtype)
        return self.generator.integers(0, 100, shape, dtype=dtype)

    def clear(self, begin: int, end: int) -> None:
        """Let slots hold what memory holds that was never written."""
        rows = self.memory[begin:end]
        rows[:] = np.nan if rows.dtype.kind == "f" else self.generator.integers(100, 127, rows.shape, dtype=rows.dtype)

    def fill_input(self, launch: int, rank: int) -> None:
        """Store the input of a rank."""
        data, begin = self.inputs[launch][rank], int(self.layout.base[rank, INPUT])
        self.memory[begin : begin + len(data)] = data

    def finish(self) -> None:
        """Divide the sums of averages, as the ranks do in the end."""
        if self.op == "avg" and self.call.coll in REDUCING:
            for rank, expected in enumerate(self.expected[0]):
                begin = int(self.layout.base[rank, OUTPUT])
                divide(self.memory[begin : begin + (0 if expected is None else len(expected))], self.call.ranks)

    def compare_output(self, launch: int, rank: int) -> None:
        """Record the chunks that differ by more than another order of sums explains, and the largest relative error."""
        expected, begin = self.expected[launch][rank], int(self.layout.base[rank, OUTPUT])
        if expected is None:
            return
        got = self.memory[begin : begin + len(expected)]
        bad = got != expected
        if got.dtype.kind == "f" and self.op not in ("max", "min"):
            off = np.abs(got.astype(np.float64) - expected) / np.abs(expected.astype(np.float64))
            bad = ~(off <= 2 * self.call.ranks * float(np.finfo(got.dtype).eps))
            self.error = max(self.error, float(np.max(off, initial=0.0)))
        for chunk in np.flatnonzero(bad.any(axis=1)).tolist():
            element = int(np.argmax(bad[chunk]))
            self.wrong.append(WrongChunk(rank, chunk, float(got[chunk, element]), float(expected[chunk, element])))

    def report(self, messages: int, hung: Sequence[tuple[int, int, int]], seconds: float | None = None) -> RunReport:
        """The report of the run. messages, hung, seconds: as in it."""
        op, wrong = self.op if self.call.coll in REDUCING else None, tuple(self.wrong[:SHOWN])
        place, dtype = self.call.inplace, self.memory.dtype.name
        return RunReport(place, self.seed, dtype, op, self.count, messages, tuple(hung), wrong, self.error, seconds)


def _expected_outputs(call: CollectiveCall, op: str, inputs: Sequence[Array]) -> list[Array | None]:
    """The output of every rank, (chunks, elements), as NumPy computes it; None: it may hold anything."""
    made: dict[tuple[Sequence[int], range], Array] = {}
    rules = [wanted_output(call.coll, rank, call.ranks, call.total, call.root) for rank in range(call.ranks)]
    for ranks, chunks in {rule for rule in rules if rule is not None}:
        parts = [inputs[rank][chunks.start : chunks.stop] for rank in ranks]
        sums = call.coll in REDUCING
        made[ranks, chunks] = OPS[op].reduce(parts, axis=0, dtype=parts[0].dtype) if sums else np.concatenate(parts)
        if sums and op == "avg":
            divide(made[ranks, chunks], len(ranks))
    return [None if rule is None else made[rule] for rule in rules]


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


def _check_size(slots: int, elements: int, itemsize: int, unit: int) -> None:
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
