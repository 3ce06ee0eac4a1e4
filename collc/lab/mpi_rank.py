"""A process that runs a collective of MPI as one rank, for comparison with schedules. Its argument: a call, as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

CALLS: Final = ("allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce")
"""The collectives, as MSCCL calls them, that there are calls for."""


def main() -> None:
    """Call once, then some times from a common moment on; rank 0 prints the seconds until the last rank is done."""
    given = json.loads(sys.argv[1])
    comm = import_module("mpi4py.MPI").COMM_WORLD
    call = _call_of(comm, given["coll"], given["root"], given["elements"])
    call()
    seconds: list[float] = []
    for _ in range(given["runs"]):
        start = comm.bcast(time.monotonic() + 0.2)  # namespaces have one clock
        time.sleep(max(0.0, start - time.monotonic()))
        call()
        ends = comm.gather(time.monotonic())
        seconds.append(max(ends or [start]) - start)
    if comm.rank == 0:
        print(json.dumps(seconds))


def _call_of(comm: Any, coll: str, root: int, elements: int) -> Callable[[], Any]:  # noqa: ANN401 (of mpi4py)
    """A call of a collective. elements: of the buffer that MSCCL counts."""
    part = elements // comm.size
    whole, received = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    blocks, others = np.ones((2, part * comm.size), np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "allreduce": lambda: comm.Allreduce(whole, received),
        "allgather": lambda: comm.Allgather(blocks[:part], others),
        "reducescatter": lambda: comm.Reduce_scatter_block(blocks, others[:part]),
        "alltoall": lambda: comm.Alltoall(blocks, others),
        "broadcast": lambda: comm.Bcast(whole, root),
        "reduce": lambda: comm.Reduce(whole, received, root=root),
    }
    return calls[coll]


if __name__ == "__main__":
    main()
