"""Schedules of collc over MPI, with arrays of NumPy and CuPy: `collc.mpi.Communicator(comm, "out/")`. Needs collc[mpi].

A call for which the folder has a run file runs as the rounds of the file (`collc.runtime.rounds`), over persistent
requests. All other calls are MPI's own. `mpiexec -n 8 python -m collc.mpi out/ --bench` measures both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from collc.runtime.buffers import Buffers, fits
from collc.runtime.collectives import REDUCING
from collc.runtime.placement import names_of_process
from collc.runtime.rank_program import OPS, divide
from collc.runtime.rounds import Message, Rows
from collc.runtime.run_program import RunProgram
from collc.runtime.schedules import ScheduleError, Schedules

Array = Any
"""Of NumPy, or of a library that answers NumPy's functions and offers `__cuda_array_interface__`, as CuPy does: such
memory is handed to MPI as it is, and the MPI must be one that takes it.
"""

_MPI_OPS = {"sum": MPI.SUM, "avg": MPI.SUM, "prod": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN}


class Communicator:
    """The ranks of a communicator of mpi4py, and the run files of a folder for them.

    counts: as in `Schedules`: calls by collective, and by file or reason.
    """

    def __init__(self, comm: Any, folder: str | os.PathLike[str], npu: str = "", seconds: float = 60) -> None:
        """npu: the name or label of this rank's NPU in the programs; "": as it is found (`collc.runtime.placement`).
        seconds: how long a rank waits for the messages of a round.

        Raises ValueError for a damaged file, if the ranks have different files, if only some ranks name their NPUs, and
        if a file is for nearly these NPUs; OSError without a folder.
        """
        self._comm: Any = comm.Dup()  # so that no message of the caller matches one of ours
        self.seconds: float = seconds
        self.rank: int = comm.rank
        self.size: int = comm.size
        self.schedules: Schedules = Schedules.read(
            Path(folder), self.rank, self.size, comm.allgather(names_of_process(npu))
        )
        self.counts = self.schedules.counts
        if len(set(comm.allgather(self.schedules.digest))) > 1:
            raise ValueError(f"the ranks have different files in {folder}")

    def prepare(self, coll: str, given: Array, taken: Array, op: str = "sum", root: int = -1) -> Callable[[], None]:
        """A call that can be made any number of times: a function, which every rank calls.

        coll: as MSCCL calls it: "allreduce", "allgather", "reducescatter", "alltoall", "broadcast" or "reduce". given,
        taken: input and output, C-contiguous; they may share memory as MPI's in place. op: "sum", "avg", "prod",
        "max" or "min". Raises ValueError for other arguments.
        """
        if not (given.flags.c_contiguous and taken.flags.c_contiguous) or given.dtype != taken.dtype or op not in OPS:
            raise ValueError("input and output are C-contiguous, of one type, and op is one of " + ", ".join(OPS))
        if not fits(coll, self.size, given.size, taken.size):
            raise ValueError(f"{coll} on {self.size} ranks from {given.size} elements does not give {taken.size}")
        given, taken = given.reshape(-1), taken.reshape(-1)
        by_mpi = self.of_mpi(coll, given, taken, op, root)
        chosen = self.schedules.choose(coll, given.nbytes, root, given.dtype.name) if given.size else "no elements"
        self.schedules.count(coll, chosen if isinstance(chosen, str) else chosen[0])
        if isinstance(chosen, str):
            return by_mpi
        return _Prepared(self, self._comm, *chosen, given, taken, op)

    def all_reduce(self, given: Array, taken: Array | None = None, op: str = "sum") -> None:
        """Reduce over all ranks; in place if there is no output."""
        self._call("allreduce", given, given if taken is None else taken, op)

    def all_gather(self, given: Array, taken: Array) -> None:
        """Concatenate the inputs of all ranks."""
        self._call("allgather", given, taken)

    def reduce_scatter(self, given: Array, taken: Array, op: str = "sum") -> None:
        """Reduce over all ranks; each gets its block."""
        self._call("reducescatter", given, taken, op)

    def all_to_all(self, given: Array, taken: Array) -> None:
        """Send block r to rank r."""
        self._call("alltoall", given, taken)

    def broadcast(self, data: Array, root: int = 0) -> None:
        """Copy the array of the root to all ranks."""
        self._call("broadcast", data, data, root=root)

    def reduce(self, given: Array, taken: Array, op: str = "sum", root: int = 0) -> None:
        """Reduce to the root; the outputs of other ranks may hold anything."""
        self._call("reduce", given, taken, op, root)

    def _call(self, coll: str, given: Array, taken: Array, op: str = "sum", root: int = -1) -> None:
        call = self.prepare(coll, given, taken, op, root)
        call()
        if isinstance(call, _Prepared):
            call.release()

    def of_mpi(self, coll: str, given: Array, taken: Array, op: str = "sum", root: int = -1) -> Callable[[], None]:
        """MPI's own call. The arguments are those of `prepare`. Raises ValueError for an unknown collective."""
        comm, reduction = self._comm, _MPI_OPS[op]
        joined = _address(given) < _address(taken) + taken.nbytes and _address(taken) < _address(given) + given.nbytes
        source = MPI.IN_PLACE if joined else given
        calls: dict[str, Callable[[], Any]] = {
            "allreduce": lambda: comm.Allreduce(source, taken, reduction),
            "allgather": lambda: comm.Allgather(source, taken),
            "reducescatter": lambda: comm.Reduce_scatter_block(given.copy() if joined else given, taken, reduction),
            "alltoall": lambda: comm.Alltoall(source, taken),
            "broadcast": lambda: comm.Bcast(taken, root),
            "reduce": lambda: comm.Reduce(given.copy() if joined else given, taken, reduction, root),
        }
        if coll not in calls:
            raise ValueError(f"no collective '{coll}': there are {', '.join(calls)}")

        def call() -> None:
            if coll == "broadcast" and self.rank == root and not joined:
                taken[:] = given
            _settle(taken)
            calls[coll]()
            if op == "avg" and coll in REDUCING:
                divide(taken, self.size)

        return call


class _Prepared:
    """A program on the memory of a call, with persistent requests for the messages of its rounds."""

    def __init__(
        self,
        owner: Communicator,
        comm: Any,
        name: str,
        program: RunProgram,
        given: Array,
        taken: Array,
        op: str,
    ) -> None:
        self._seconds, self._given, self._taken = owner.seconds, given, taken
        self._buffers = Buffers(program, owner.rank, given, taken, _zeros, _address)
        rounds = owner.schedules.rounds(name, program, inplace=self._buffers.inplace)
        rows = self._buffers.rows(rounds, _zeros)
        self._name, self._rank, self._ranks, self._op = f"{program.coll} of {name}", owner.rank, owner.size, op
        self._divides = op == "avg" and program.coll in REDUCING
        self._rounds: list[tuple[list[tuple[Any, str, int]], list[tuple[Array, Array, Array | None]]]] = []
        for step in rounds.rounds:
            receives = [(comm.Recv_init(_bytes(rows, m), m.peer), "a message from", m.peer) for m in step.receives]
            sends = [(comm.Send_init(_bytes(rows, m), m.peer), "room for a message to", m.peer) for m in step.sends]
            self._rounds.append((receives + sends, [rows.operands(work) for work in step.work]))

    def __call__(self) -> None:
        """Run. Raises ScheduleError if a message does not come in time."""
        self._buffers.load(self._given)
        reduce = OPS[self._op]
        for number, (messages, works) in enumerate(self._rounds):
            requests = [request for request, *_ in messages]
            _settle(self._taken)
            MPI.Prequest.Startall(requests)
            self._wait(number, messages, requests)
            for target, first, second in works:
                if second is None:
                    target[:] = first
                else:
                    reduce(first, second, out=target)
        if self._divides:
            divide(self._buffers.target, self._ranks)
        self._buffers.store(self._taken)

    def release(self) -> None:
        """Free the requests."""
        for messages, _ in self._rounds:
            for request, *_ in messages:
                request.Free()
        self._rounds.clear()

    def _wait(self, number: int, messages: list[tuple[Any, str, int]], requests: list[Any]) -> None:
        """Wait for all requests of a round. `Waitall` would keep the core, which another rank may need."""
        deadline = time.monotonic() + self._seconds
        while not MPI.Prequest.Testall(requests):
            time.sleep(0)
            if time.monotonic() > deadline:
                waiting = next(((what, peer) for request, what, peer in messages if not request.Test()), None)
                if waiting is not None:
                    where = f"{self._name}, round {number + 1} of {len(self._rounds)}"
                    text = f"rank {self._rank} waits for {waiting[0]} rank {waiting[1]} ({where})"
                    raise ScheduleError(f"{text} for {self._seconds:g} seconds")


def _bytes(rows: Rows, message: Message) -> tuple[Array, Any]:
    """The memory of a message, for MPI."""
    return rows(message.first, message.length).view(np.uint8), MPI.BYTE


def _zeros(like: Array, elements: int) -> Array:
    return np.zeros_like(like, shape=elements)


def _address(array: Array) -> int:
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return int(interface["data"][0])


def _settle(array: Array) -> None:
    """Wait for what writes to arrays of this kind on a GPU, since MPI does not."""
    if hasattr(array, "__cuda_array_interface__"):
        sys.modules[type(array).__module__.partition(".")[0]].cuda.get_current_stream().synchronize()


_BUS = {"allreduce": 2.0, "allgather": 1.0, "reducescatter": 1.0, "alltoall": 1.0}
"""The bus bandwidth of nccl-tests is this many times (ranks - 1) / ranks of the bandwidth of the algorithm."""

_ROW = "{:>14} {:>11} {:>20} {:>10} {:>11} {:>11} {:>5}"


def _seconds(call: Callable[[], None], taken: Array, times: int) -> float:
    """The median time of a call on the slowest rank in seconds, after one that is not counted."""
    spent: list[float] = []
    for _ in range(times + 1):
        taken[:] = 0
        MPI.COMM_WORLD.Barrier()
        began = time.perf_counter()
        call()
        spent.append(time.perf_counter() - began)
    return MPI.COMM_WORLD.allreduce(statistics.median(spent[1:]), MPI.MAX)


def bench(comm: Communicator, sizes: list[int], times: int) -> None:
    """Print a table as nccl-tests do, with MPI's own calls beside: the median time of the slowest rank, bandwidths, and
    the numbers that differ from MPI's. comm: of all ranks.
    """
    if not comm.rank:
        print(_ROW.format("collective", "bytes", "by", "time us", "algbw GB/s", "busbw GB/s", "wrong"))
    for coll, factor in _BUS.items():
        for size in sizes:
            count = max(1, size // 4 // comm.size) * comm.size
            part = count // comm.size
            given = np.arange(part if coll == "allgather" else count, dtype=np.float32) % 7 + comm.rank
            taken = np.zeros(part if coll == "reducescatter" else count, np.float32)
            chosen = comm.schedules.choose(coll, given.nbytes, dtype=given.dtype.name)
            calls = {"MPI": comm.of_mpi(coll, given, taken)}
            if not isinstance(chosen, str):
                calls[chosen[0]] = comm.prepare(coll, given, taken)
            wanted = None
            for by, call in calls.items():
                seconds = _seconds(call, taken, times)
                wanted = taken.copy() if wanted is None else wanted
                wrong = MPI.COMM_WORLD.allreduce(int((~np.isclose(taken, wanted)).sum()))
                rate = count * 4 / seconds / 1e9
                bus = rate * factor * (comm.size - 1) / comm.size
                numbers = f"{seconds * 1e6:.1f}", f"{rate:.3f}", f"{bus:.3f}"
                if not comm.rank:
                    print(_ROW.format(coll, count * 4, by, *numbers, wrong), flush=True)


def main() -> None:
    """The command: `python -m collc.mpi FOLDER --bench`."""
    parser = argparse.ArgumentParser(prog="python -m collc.mpi", description=str(__doc__).partition("\n")[0])
    parser.add_argument("folder", help="with the run files")
    parser.add_argument("--bench", action="store_true", help="measure schedules and MPI's own calls")
    parser.add_argument("--sizes", default="4,65536,1048576", help="bytes, divided by commas")
    parser.add_argument("--times", type=int, default=20, help="how often each is measured")
    chosen = parser.parse_args()
    comm = Communicator(MPI.COMM_WORLD, chosen.folder)
    if chosen.bench:
        bench(comm, [int(size) for size in chosen.sizes.split(",")], chosen.times)
    elif not comm.rank:
        for name, program in comm.schedules.files:
            fits = "" if program.ranks == comm.size else f" (not for {comm.size})"
            print(f"{name}: {program.coll} of {program.ranks} ranks{fits}")


if __name__ == "__main__":
    main()
