# %% [markdown]
# # Design of a network
#
# How much bandwidth should each dimension of a network have? A design asks for the best answer, for a training workload
# and a budget. The network has three dimensions: rings of 4, 8 fully connected, and 128 on switches.

# %%
import pandas as pd

import collc

program = """
import std.topologies
import std.workloads

param budget: rate = 500GB/s

topology net = ring(4) * fully_connected(8) * switched(128)

design fastest on net {
    train gpt3
    require sum(bandwidth) == budget
    minimize time
}

design cheapest on net {
    train gpt3
    require sum(bandwidth) == budget
    minimize time * cost
}
"""
report = collc.solve_designs(program)
report

# %% [markdown]
# `fastest` looks for the shortest time of a training iteration, `cheapest` for the best performance per dollar. Beside
# the optimum there are simple rules to compare with, such as equal bandwidths.

# %%
fastest = report["fastest"]
for name, design in {"optimum": fastest.optimum, **fastest.alternatives}.items():
    bandwidths = ", ".join(f"{rate:.0f}" for rate in design.bandwidth)
    print(f"{name:8} {bandwidths:>14} GB/s   {design.time / 1e6:.1f} ms   ${design.cost / 1e6:.1f} million")
assert all(fastest.optimum.time <= (1 + 1e-9) * other.time for other in fastest.alternatives.values())

# %% [markdown]
# What a larger budget is good for:

# %%
rows = []
for budget in range(100, 1001, 100):
    solved = collc.solve_designs(program, definitions={"budget": f"{budget}GB/s"})
    for name in "fastest", "cheapest":
        best = solved[name].optimum
        rows.append((name, budget, best.time / 1e6, best.cost / 1e6))
table = pd.DataFrame(rows, columns=["design", "budget", "ms", "millions"])
table.pivot(index="budget", columns="design", values="ms").plot(
    marker="o", xlabel="GB/s of each NPU", ylabel="time of an iteration in ms", figsize=(7, 4), grid=True
)

# %%
table.pivot(index="budget", columns="design", values="millions").plot(
    marker="o", xlabel="GB/s of each NPU", ylabel="cost in millions of dollars", figsize=(7, 4), grid=True
)

# %% [markdown]
# The model counts bytes and no latencies, and collectives that go one dimension after another. What a schedule makes of
# such a network, `collc.compile` tells: give the topology these bandwidths, and run a collective on it.
