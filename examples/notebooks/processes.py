# %% [markdown]
# # Running on processes
#
# A schedule can move real data without any GPU. `emit run` writes it as a run file, which collc's own runtime executes:
# here one process for each rank, over TCP of this machine. The results of all ranks are compared with NumPy.

# %%
import tempfile
from pathlib import Path

import pandas as pd

import collc

folder = Path(tempfile.mkdtemp())
program = """
import std.topologies
import std.collectives

topology cube = hypercube(2, bandwidth: 12.5GB/s, latency: 2us)

schedule sum on cube {
    run all_reduce(cube.npus, size: 4MiB)
    emit run("sum.run")
}

schedule gather on cube {
    run all_gather(cube.npus, size: 4MiB)
    emit run("gather.run")
}
"""
report = collc.compile(program, output=folder)
report

# %%
runs = collc.run(folder / "sum.run", transport="tcp", count=1 << 18, op="avg")
assert runs.ok
runs

# %% [markdown]
# The file in one thread, with the events in several random orders: a result that depended on the order would differ.

# %%
orders = collc.run(folder / "gather.run", runs=5, dtype="int32")
assert orders.ok
orders

# %% [markdown]
# A run file has been checked before it was written. What happens to one that is damaged?

# %%
damaged = folder / "damaged.run"
data = bytearray((folder / "sum.run").read_bytes())
data[len(data) // 2] ^= 1
damaged.write_bytes(data)
try:
    collc.run(damaged)
except collc.CollcError as error:
    print(error)
else:
    raise AssertionError("the damage was not found")

# %% [markdown]
# A file has threadblocks with steps for every rank, which send, receive and add. It is small:

# %%
sizes = [(path.name, path.stat().st_size) for path in sorted(folder.glob("*.run"))]
pd.DataFrame(sizes, columns=["file", "bytes"])

# %% [markdown]
# The same folder serves training: `COLLC_SCHEDULES=folder torchrun ...` with `collc.torch`, and `collc.mpi` for MPI.
# The files `examples/pytorch_ddp.py` and `examples/mpi.py` do it, and docs/running.md explains it.
