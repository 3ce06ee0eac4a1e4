# %% [markdown]
# # A sweep with plots
#
# Which synthesizer is best for which size? On a ring of eight NPUs, an All-Reduce of a few KiB wants few steps, and one
# of many MiB wants all links busy.

# %%
import pandas as pd

import collc

program = """
import std.topologies
import std.collectives

param size: bytes = 1MiB

topology loop = ring(8, bandwidth: 50GB/s, latency: 1us)

schedule sum on loop { run all_reduce(loop.npus, size: size, chunks: 1) }
"""
sizes = [4**k * 1024 for k in range(1, 9)]  # 4 KiB to 64 MiB
rows = []
for synthesizer in "exchange", "one_shot", "symmetric", "auto":
    for size in sizes:
        schedule = collc.compile(program, definitions={"size": f"{size}B"}, synthesizer=synthesizer)["sum"]
        rows.append((synthesizer, size, schedule.time_ps / 1e6, schedule.ideal_ps / 1e6))
table = pd.DataFrame(rows, columns=["synthesizer", "bytes", "us", "ideal"])
times = table.pivot(index="bytes", columns="synthesizer", values="us").assign(ideal=table.groupby("bytes").ideal.min())
times

# %% [markdown]
# `auto` is never far from the best of them, and nothing is below the ideal.

# %%
assert (times.auto <= 1.03 * times[["exchange", "one_shot", "symmetric"]].min(axis=1)).all()
assert (times.ideal <= times.min(axis=1)).all()
times.plot(loglog=True, marker="o", xlabel="bytes", ylabel="time in us", figsize=(7, 4), grid=True)
# %% [markdown]
# The same times as bus bandwidth, as nccl-tests define it: 2 (n - 1) / n times the bytes, by the time.

# %%
bandwidth = times.rdiv(2 * 7 / 8 * times.index.to_series(), axis=0) / 1e3
bandwidth.plot(logx=True, marker="o", xlabel="bytes", ylabel="bus bandwidth in GB/s", figsize=(7, 4), grid=True)

# %% [markdown]
# For many cases the command `collc sweep` does this in parallel, resumes after an interruption, and writes a table:
#
#     collc sweep examples/sweep.coll -D size=1MiB,16MiB -D nodes=2,4 --algorithm auto,forest -o table.csv
#     pandas.read_csv("table.csv")
