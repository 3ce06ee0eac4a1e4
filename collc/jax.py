"""Schedules of collc as collectives of JAX, for use in `jax.shard_map`. Needs collc[jax].

    total = collc.jax.all_reduce(gradients, "x", "out/sum.run")

A run file runs as permutations (`lax.ppermute`) of its rounds: all messages of a round are independent of one another,
so that XLA may have them under way together. Transformations of JAX apply: the gradient runs the rounds backwards, over
the same links in the other direction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from collc.runtime.run_program import RunProgram
from collc.runtime.schedules import Schedules, files_in, program_in
from collc.spmd.hlo import check_permutes
from collc.spmd.permutations import Plan, Rows, plan_of
from collc.spmd.slices import order_of

Schedule = str | os.PathLike[str] | RunProgram
"""A run file; a folder of them, of which a call takes the one for its collective and size; or a program as read."""
AxisName = str | tuple[str, ...]
"""One axis of the mesh, or several as one."""
Reduction = Callable[[jax.Array, jax.Array], jax.Array]

_OPS: dict[str, Reduction] = {
    "sum": jnp.add,
    "avg": jnp.add,
    "prod": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
}


def all_reduce(x: jax.Array, axis_name: AxisName, schedule: Schedule, op: str = "sum") -> jax.Array:
    """The reduction of x over an axis, as `lax.psum`. op: "sum", "avg", "prod", "max" or "min".

    Raises ValueError, as all calls here do, if no file of the schedule fits the call, or x does not divide into blocks.
    """
    return _call("allreduce", x, axis_name, schedule, op)


def all_gather(x: jax.Array, axis_name: AxisName, schedule: Schedule) -> jax.Array:
    """The arrays of all devices one after the other, as `lax.all_gather(x, axis_name, tiled=True)`."""
    return _call("allgather", x, axis_name, schedule)


def reduce_scatter(x: jax.Array, axis_name: AxisName, schedule: Schedule, op: str = "sum") -> jax.Array:
    """Each device's block of the reduction, as `lax.psum_scatter(x, axis_name, tiled=True)`."""
    return _call("reducescatter", x, axis_name, schedule, op)


def all_to_all(x: jax.Array, axis_name: AxisName, schedule: Schedule) -> jax.Array:
    """Block r to device r, as `lax.all_to_all(x, axis_name, 0, 0, tiled=True)`."""
    return _call("alltoall", x, axis_name, schedule)


def broadcast(x: jax.Array, axis_name: AxisName, schedule: Schedule, root: int = 0) -> jax.Array:
    """The array of the device `root` on all devices."""
    return _call("broadcast", x, axis_name, schedule, root=root)


def reduce(x: jax.Array, axis_name: AxisName, schedule: Schedule, op: str = "sum", root: int = 0) -> jax.Array:
    """The reduction on the device `root`; other devices get arrays with any contents."""
    return _call("reduce", x, axis_name, schedule, op, root)


def gather(x: jax.Array, axis_name: AxisName, schedule: Schedule, root: int = 0) -> jax.Array:
    """The arrays of all devices one after the other on the device `root`; others get arrays with any contents."""
    return _call("gather", x, axis_name, schedule, root=root)


def scatter(x: jax.Array, axis_name: AxisName, schedule: Schedule, root: int = 0) -> jax.Array:
    """Each device's block of the array of the device `root`. Arrays of other devices have the shape of the root's."""
    return _call("scatter", x, axis_name, schedule, root=root)


def devices(schedule: Schedule, available: Sequence[Any] | None = None) -> list[Any]:
    """The devices in the order of the ranks of a schedule, for a mesh with one axis.

    available: the default is `jax.devices()`. TPUs are found by the coordinates of their chips, which must be those of
    the NPUs, as in `chip[z, y, x]`; other devices keep their order. Raises ValueError if there are not as many devices
    as ranks, if their grid is not the grid of the program, or if a message of the schedule would go from a chip to
    another that is no neighbour.
    """
    available = jax.devices() if available is None else list(available)
    programs = {program.npus: program for _, program in _files(schedule) if program.ranks == len(available)}
    if len(programs) != 1:
        text = f"{len(programs)} orders of NPUs in files for {len(available)} devices, but there must be one"
        raise ValueError(f"{_name(schedule)}: {text}")
    return order_of(*programs.values(), available)


def check(compiled: Any, schedule: Schedule) -> int:
    """Check a compiled function, or the text of its HLO, that makes one call by a schedule of one file.

    Raises ValueError if XLA changed what moves: other permutations than those of the schedule, other numbers of rows,
    or more of them one after the other. Returns the number of permutations.
    """
    files = _files(schedule)
    if len(files) != 1:
        raise ValueError(f"{_name(schedule)}: {len(files)} files, but there must be one")
    return check_permutes(compiled if isinstance(compiled, str) else compiled.as_text(), _plan(files[0][1]))


def _call(
    coll: str, x: jax.Array, axis_name: AxisName, schedule: Schedule, op: str = "sum", root: int = -1
) -> jax.Array:
    """Run the file that serves a call."""
    x = jnp.asarray(x)
    shape, ranks = x.shape, lax.axis_size(axis_name)
    what = f"{coll} of {x.dtype}{list(x.shape)} by {_name(schedule)}"
    chosen = Schedules(_files(schedule), "", 0, ranks).choose(coll, x.nbytes, root, x.dtype.name)
    if not isinstance(chosen, tuple):
        raise ValueError(f"{what}: {chosen}")  # noqa: TRY004
    if op not in _OPS:
        raise ValueError(f"{what}: no reduction '{op}': there are {', '.join(_OPS)}")
    plan = _plan(chosen[1])
    (lead, *rest), (given, taken) = shape or (1,), plan.blocks
    if lead % given:
        raise ValueError(f"{what}: the leading axis does not divide into {given} blocks")
    rows, length = given * plan.chunks, x.size // given
    divides = lead % rows == 0
    if not divides:
        elements = -(-length // plan.chunks)
        x = jnp.pad(x.reshape(given, length), ((0, 0), (0, elements * plan.chunks - length)))
    source = x.reshape(rows, lead // rows, *rest) if divides else x.reshape(rows, elements)
    result = _run(plan, source, axis_name, _OPS[op])
    if not divides:
        result = result.reshape(taken, -1)[:, :length]
    if op == "avg":
        result = result / ranks if jnp.issubdtype(x.dtype, jnp.inexact) else result // ranks
    return result.astype(x.dtype).reshape(shape if given == taken else (lead // given * taken, *rest))


def _run(plan: Plan, source: jax.Array, axis_name: AxisName, reduction: Reduction) -> jax.Array:
    """Execute a plan on the rows of the input. Returns the rows of the output.

    All rows that a level sends are one gather, on which all its writes depend, so that XLA writes without a copy.
    """
    rank = lax.axis_index(axis_name)

    def own(table: NDArray[Any]) -> Any:
        if (table == table[0]).all():
            return table[0]
        return lax.dynamic_index_in_dim(table, rank, keepdims=False, allow_negative_indices=False)

    def read(rows: Rows) -> jax.Array:
        return memory.at[own(np.where(rows < plan.rows, rows, 0))].get(mode="promise_in_bounds")

    def write(rows: Rows, data: jax.Array) -> jax.Array:
        return memory.at[own(rows)].set(data, mode="drop", unique_indices=True)

    memory = jnp.zeros((plan.rows, *source.shape[1:]), source.dtype)
    memory = lax.dynamic_update_slice_in_dim(memory, source, own(plan.source)[0], 0)
    for level in plan.levels:
        if level.permutations:
            parts = jnp.split(read(level.sends), np.cumsum([each.length for each in level.permutations[:-1]]))
            moves = zip(parts, level.permutations, strict=True)
            arrived = [lax.ppermute(part, axis_name, permutation.pairs) for part, permutation in moves]
            memory = write(level.receives, jnp.concatenate(arrived))
        for work in level.work:
            data = read(work.first)
            if work.reduces.any():
                reduces = own(work.reduces).reshape(-1, *[1] * (data.ndim - 1))
                data = jnp.where(reduces, reduction(data, read(work.second)), data)
            memory = write(work.target, data)
    return lax.dynamic_slice_in_dim(memory, own(plan.target)[0], plan.blocks[1] * plan.chunks)


def _name(schedule: Schedule) -> str:
    """For messages."""
    return schedule.name if isinstance(schedule, RunProgram) else os.fspath(schedule)


def _files(schedule: Schedule) -> tuple[tuple[str, RunProgram], ...]:
    """The run files of a schedule, which are read again only if they were written since.

    Raises ValueError, with its name, for a damaged file; OSError for one that cannot be read.
    """
    if isinstance(schedule, RunProgram):
        return ((schedule.name, schedule),)
    path = Path(schedule)
    files = files_in(path) if path.is_dir() else [path]
    return tuple((str(file), _read(file, file.stat().st_mtime_ns)) for file in files)


@lru_cache(1024)  # a file that is written again is another entry
def _read(file: Path, _written: int) -> RunProgram:
    return program_in(file.read_bytes(), file)


@lru_cache(1024)
def _plan(program: RunProgram) -> Plan:
    return plan_of(program)
