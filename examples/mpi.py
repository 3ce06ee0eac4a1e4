"""An average over eight ranks of MPI by a schedule of collc, and an All-Gather by MPI itself.

pip install collc[mpi]
mpiexec -n 8 python examples/mpi.py
"""

from __future__ import annotations

import tempfile

import numpy as np
from mpi4py import MPI

import collc
import collc.mpi

PROGRAM = """
import std.topologies
import std.collectives
topology cube = hypercube(3, bandwidth: 12.5GB/s, latency: 5us)
schedule mean on cube {
    run all_reduce(cube.npus, size: 1MiB, op: "avg")
    emit run
}
"""


def main() -> None:
    """Compile on rank 0, then run on all ranks."""
    world = MPI.COMM_WORLD
    with tempfile.TemporaryDirectory() as own:
        folder = world.bcast(own)
        if not world.rank:
            collc.compile_text(PROGRAM, output=folder)
        world.Barrier()
        comm = collc.mpi.Communicator(world, folder)  # has read the files of all ranks when it is there
    data = np.full(1000, float(world.rank))
    comm.all_reduce(data, op="avg")
    everyone = np.zeros(8 * 1000)
    comm.all_gather(data, everyone)
    if not world.rank:
        print(f"the mean of ranks 0 to 7 is {everyone.mean()}")
        for (collective, by), count in comm.counts.items():
            print(f"{collective}: {count} call by {by}")


if __name__ == "__main__":
    main()
