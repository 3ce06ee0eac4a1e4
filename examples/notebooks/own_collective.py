# %% [markdown]
# # A collective of your own
#
# A collective says who has which chunk at the start, and who must have it at the end. Here workers send gradients to a
# server, which sends its weights to them, and a monitor wants a copy of one loss. No library has this collective.

# %%
import pandas as pd

import collc

program = """
topology cluster {
    npu server
    npu worker[4]
    npu monitor
    for i in 0..4 { link server <-> worker[i] (bandwidth: 12GB/s, latency: 2us) }
    for i in 0..3 { link worker[i] <-> worker[i + 1] (bandwidth: 40GB/s, latency: 1us) }
    link worker[3] -> monitor (bandwidth: 1GB/s, latency: 10us)
}

collective exchange(workers: group, size: bytes, parts: int) {
    for p in 0..parts {
        chunk weights[p]: size / parts
        pre  weights[p] at cluster.server
        post weights[p] at workers

        chunk gradients[p]: size / parts
        pre  gradients[p] at workers
        post sum(gradients[p]) at cluster.server
    }
    chunk loss: 4kB
    pre  loss at workers[2]
    post loss at cluster.monitor
}

param parts: int = 2

schedule iteration on cluster {
    run exchange(cluster.worker, size: 8MiB, parts: parts)
}
"""
report = collc.compile(program)
report

# %% [markdown]
# The way of the loss, transfer by transfer:

# %%
iteration = report["iteration"].to_frame(names=True)
iteration[iteration.chunk.str.contains("loss")][["source", "target", "start_ps", "end_ps"]]

# %% [markdown]
# More parts let the links work at the same time: while the server receives one part, it sends another one, and workers
# add what passes. Each part pays latencies of its own, so the gain becomes smaller.

# %%
times = {}
for parts in 1, 2, 4, 8, 16:
    times[parts] = collc.compile(program, definitions={"parts": parts})["iteration"].time_ps / 1e6
assert times[16] < times[1] / 2
pd.Series(times, name="us").rename_axis("parts").to_frame()

# %% [markdown]
# A wrong program gets a message with its place. Here the monitor loses its only link:

# %%
try:
    collc.compile(program.replace("link worker[3] -> monitor", "link monitor -> worker[3]"))
except collc.CollcError as error:
    print(error)
else:
    raise AssertionError("the monitor cannot be reached")

# %% [markdown]
# The schedule is checked before it is reported. `collc.verify` makes the same checks on any schedule, whoever made it:

# %%
collc.verify(report["iteration"])
