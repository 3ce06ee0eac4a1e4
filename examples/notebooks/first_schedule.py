# %% [markdown]
# # A first schedule
#
# A program says which collective runs on which network. collc finds a schedule, checks it, and says how near it is to
# the best possible. Here nine NPUs on a mesh gather 1 MiB from each of them.

# %%
import collc

program = """
import std.topologies
import std.collectives

topology mesh = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)

schedule gather on mesh {
    run all_gather(mesh.npus, size: 9MiB)
    synthesize tacos(seed: 7, trials: 8)
    verify optimal
}
"""
report = collc.compile(program)
report

# %% [markdown]
# The time meets the lower bound: eight chunks must enter each corner over its two links, so no schedule is shorter. The
# schedule itself:

# %%
gather = report["gather"]
assert gather.time_ps == gather.bound_ps
gather

# %% [markdown]
# All transfers, as a table. Times are integers in picoseconds.

# %%
transfers = gather.to_frame(names=True)
transfers[["chunk", "source", "target", "start_ps", "end_ps"]].head(8)

# %% [markdown]
# How busy is each link? The links in the middle of the mesh have most to do.

# %%
busy = (transfers.end_ps - transfers.start_ps).groupby(transfers.link).sum() / gather.time_ps
busy.sort_values().plot.barh(figsize=(7, 6), title="share of the time in which each link is busy")
# %% [markdown]
# The network can also be built in Python. More chunks do not help here: with one, the links into the
# corners never rest.

# %%
mesh = collc.Network.mesh(3, 3, bandwidth="50GiB/s", latency="0.5us")
for chunks in 1, 2, 4:
    schedule = collc.all_gather(mesh, size="9MiB", chunks=chunks).compile()["schedule"]
    print(f"{chunks} chunks per block: {schedule.time_ps / 1e6:.2f} us, {schedule.of_ideal:.1%} of ideal")
