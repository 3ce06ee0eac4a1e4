"""The scratch memory of the old runtime: allocated when the runtime starts, for the largest size of the file.

The runtime allocates `maxBytes` x `s_chunks` / `nchunksperloop` bytes on each GPU (docs/msccl-contract.md, section 5).
So a file with scratch needs a bound on its sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from collc.base.units import format_bytes
from collc.msccl.limits import LimitUse
from collc.msccl.options import Profile
from collc.msccl.program import Program

_LARGEST_BUFFER: Final = 4 << 30
"""Bytes of the largest buffer of a file with scratch, if the user gives no sizes."""

_USUAL_SCRATCH: Final = 1 << 30
"""Most bytes of scratch on a GPU if the user gives no sizes."""

_MOST_SCRATCH: Final = 80 << 30
"""Bytes of scratch of a GPU that are an error: all memory of an A100 or H100 of 80 GB."""


def scratch_bytes(program: Program, largest: int) -> int:
    """Bytes that the old runtime allocates on each GPU for buffers of up to `largest` bytes."""
    chunks = max((gpu.scratch_chunks for gpu in program.gpus), default=0)
    # `maxBytes` of the old runtime is excluded, so it is one more than the largest size.
    return (largest + 1) * chunks // program.chunks_per_loop


def bounded_scratch(program: Program, sizes_given: bool) -> Program:
    """The program with sizes for which the old runtime can allocate its scratch, and a note if they were bounded.

    sizes_given: whether the user gave the sizes; then they are kept, and the check of the file warns above 1 GiB of
    scratch. Programs of the executor, and those without scratch, stay as they are. Raises SourceError M0111 for sizes
    that need more than 80 GiB.
    """
    chunks = max((gpu.scratch_chunks for gpu in program.gpus), default=0)
    if program.profile is not Profile.OLD or not chunks:
        return program
    low, high = program.sizes
    if high is None or not sizes_given:
        fitting = ((_USUAL_SCRATCH + 1) * program.chunks_per_loop - 1) // chunks - 1
        usual = min(_LARGEST_BUFFER, fitting >> 20 << 20)
        if high is not None and high <= usual:
            return program
        largest = max(low, usual)
        note = (
            f"for buffers up to {format_bytes(largest)}: when the old runtime starts, it allocates scratch for the "
            f"largest size, here {_mebibytes(scratch_bytes(program, largest))} a GPU; 'sizes' allows larger buffers"
        )
        return replace(program, sizes=(low, largest), notes=(*program.notes, note))
    needed = scratch_bytes(program, high)
    if needed > _MOST_SCRATCH:
        what = "bytes of scratch on one GPU for its largest buffer"
        hint = "let 'sizes' end earlier; with 'profile: \"executor\"' the runtime allocates what a call needs"
        raise LimitUse(what, needed, _MOST_SCRATCH, hint).error()
    return program


def _mebibytes(size: int) -> str:
    return f"{-(-size >> 20)} MiB"
