"""What the ranks of test_mpi.py do: `mpiexec -n RANKS python -m tests.running.mpi_ranks CHECK FOLDER`."""

from __future__ import annotations

import sys
import time

import numpy as np
from mpi4py import MPI

import collc.mpi

WORLD = MPI.COMM_WORLD
OPS = {"sum": np.add.reduce, "max": np.maximum.reduce, "min": np.minimum.reduce, "prod": np.multiply.reduce}


def results(folder: str) -> None:
    """Every collective, type, reduction and placement against NumPy."""
    comm, wrong = collc.mpi.Communicator(WORLD, folder), []
    rank, ranks = comm.rank, comm.size
    for dtype in ("float32", "int64", "uint8"):
        for size in (1, 64, 4099):
            all_data = np.random.default_rng(size).integers(0, 3, (ranks, ranks * size)).astype(dtype)
            own = all_data[rank, :size].copy()
            for op, function in OPS.items():
                taken = own.copy()
                comm.all_reduce(taken, op=op)
                apart = np.zeros_like(own)
                comm.all_reduce(own, apart, op)
                wanted = function(all_data[:, :size], axis=0, dtype=dtype)
                wrong += [f"all_reduce {op} {dtype} {size}"] * (
                    not (taken == wanted).all() or not (apart == wanted).all()
                )
            taken = own.copy()
            comm.all_reduce(taken, op="avg")
            total = all_data[:, :size].sum(0, dtype=dtype)
            wrong += ["avg"] * (not (taken == (total / ranks if dtype == "float32" else total // ranks)).all())
            taken = np.zeros(ranks * size, dtype)
            comm.all_gather(own, taken)
            wrong += ["all_gather"] * (not (taken == all_data[:, :size].reshape(-1)).all())
            given, taken = all_data[rank].copy(), np.zeros(size, dtype)
            comm.reduce_scatter(given, taken)
            block = slice(rank * size, (rank + 1) * size)
            wrong += ["reduce_scatter"] * (not (taken == all_data[:, block].sum(0, dtype=dtype)).all())
            wrong += ["input"] * (not (given == all_data[rank]).all())
            taken = np.zeros(ranks * size, dtype)
            comm.all_to_all(given, taken)
            wrong += ["all_to_all"] * (not (taken == all_data[:, block].reshape(-1)).all())
            for root in (0, 1):
                taken = own.copy()
                comm.broadcast(taken, root)
                wrong += [f"broadcast {root}"] * (not (taken == all_data[root, :size]).all())
                taken[:] = 9
                comm.prepare("broadcast", own, taken, root=root)()
                wrong += [f"broadcast {root} to another array"] * (not (taken == all_data[root, :size]).all())
            call = comm.prepare("allreduce", own, apart)
            for _ in range(3):
                apart[:] = 0
                call()
                wrong += ["prepared"] * (not (apart == all_data[:, :size].sum(0, dtype=dtype)).all())
            comm.reduce(own, apart, root=1)
            wrong += ["reduce"] * (rank == 1 and not (apart == all_data[:, :size].sum(0, dtype=dtype)).all())
    waves, taken = np.full(3, 1j * rank), np.zeros(3, complex)
    comm.all_reduce(waves, taken, "avg")
    wrong += ["avg of complex numbers"] * (not (taken == 1j * sum(range(ranks)) / ranks).all())
    taken = np.zeros(3 * ranks, complex)
    comm.prepare("allgather", waves, taken, "avg")()
    wrong += ["avg without a reduction"] * (not (taken == 1j * np.repeat(np.arange(ranks), 3)).all())
    for call in (("allgather", waves, taken[1:]), ("reducescatter", taken[1:], waves), ("gathers", waves, waves)):
        try:
            comm.prepare(*call)
            wrong.append(f"no error for {call[0]}")
        except ValueError:
            pass
    served = sorted({f"{coll}: {by}" for coll, by in comm.counts})
    print(f"rank {rank} wrong {wrong} served {served}", flush=True)


class OnDevice:
    """An array in the memory of a device, as far as one can tell: MPI gets its address, and NumPy its functions."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host

    def __getattr__(self, name: str) -> object:
        if name in ("dtype", "flags", "nbytes", "size"):
            return getattr(self.host, name)
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.host)

    @property
    def __cuda_array_interface__(self) -> dict:
        return self.host.__array_interface__ | {"version": 3}

    def __array_ufunc__(self, function: np.ufunc, method: str, *given: object, **options: object) -> object:
        outputs = tuple(array.host for array in options.pop("out"))
        getattr(function, method)(*(getattr(array, "host", array) for array in given), out=outputs, **options)

    def __array_function__(self, function: object, _types: object, given: tuple, options: dict) -> object:
        return OnDevice(function(given[0].host, *given[1:], **options))

    def __getitem__(self, index: object) -> object:
        return OnDevice(self.host[index])

    def __setitem__(self, index: object, values: object) -> None:
        self.host[index] = values.host

    def reshape(self, *shape: int) -> object:
        return OnDevice(self.host.reshape(*shape))

    def view(self, dtype: type) -> object:
        return OnDevice(self.host.view(dtype))

    def copy(self) -> object:
        return OnDevice(self.host.copy())


class cuda:  # noqa: N801 (as CuPy calls it)
    waits = 0

    @classmethod
    def get_current_stream(cls) -> type:
        return cls

    @classmethod
    def synchronize(cls) -> None:
        cls.waits += 1


def device(folder: str) -> None:
    """Arrays that are not NumPy's, by schedules and by MPI's own calls."""
    comm, wrong = collc.mpi.Communicator(WORLD, folder), []
    ranks, total = comm.size, sum(range(comm.size))
    for size in (4 * ranks, 4099):
        own, taken = OnDevice(np.full(size, float(comm.rank))), OnDevice(np.zeros(size))
        comm.all_reduce(own, taken)
        wrong += ["all_reduce"] * (not (taken.host == total).all() or not (own.host == comm.rank).all())
        comm.all_reduce(taken, op="avg")
        wrong += ["avg in place"] * (not (taken.host == total).all())
        comm.reduce(own, taken, "max")
        wrong += ["reduce by MPI"] * (comm.rank == 0 and not (taken.host == ranks - 1).all())
        every = OnDevice(np.zeros(ranks * size))
        comm.all_gather(own, every)
        wrong += ["all_gather"] * (not (every.host == np.repeat(np.arange(ranks), size)).all())
        comm.reduce_scatter(every, own)
        wrong += ["reduce_scatter"] * (not (own.host == ranks * comm.rank).all())
    served = sorted({f"{coll}: {by}" for coll, by in comm.counts})
    print(f"rank {comm.rank} wrong {wrong} served {served} waits {cuda.waits > 8}", flush=True)


def silent(folder: str) -> None:
    """The last rank makes no call; the others say for whom they wait."""
    comm = collc.mpi.Communicator(WORLD, folder, seconds=1)
    if comm.rank < comm.size - 1:
        try:
            comm.all_reduce(np.ones(8))
        except collc.mpi.ScheduleError as error:
            print(error, flush=True)
            time.sleep(1)  # MPICH drops output that it has not read when a rank aborts
            WORLD.Abort(3)
    WORLD.Barrier()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
