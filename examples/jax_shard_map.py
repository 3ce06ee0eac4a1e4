"""Train a linear model with JAX on eight devices, whose gradients are averaged by a schedule of collc.

pip install collc[jax]
python examples/jax_shard_map.py
"""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault(
    "XLA_FLAGS", "--xla_force_host_platform_device_count=8"
)  # without TPUs: eight devices of the host

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec

import collc
import collc.jax

PROGRAM = """
import std.topologies
import std.collectives
topology slice = torus2d(4, 2, bandwidth: 45GB/s, latency: 1us)
schedule gradients on slice {
    run all_reduce(slice.npus, size: 1MiB, op: "avg")
    emit run
}
"""


def main() -> None:
    """Compile the schedule, train, and check what XLA made of it."""
    with tempfile.TemporaryDirectory() as folder:
        collc.compile_text(PROGRAM, output=folder)
        schedule = f"{folder}/gradients.run"
        mesh = Mesh(collc.jax.devices(schedule), ("x",))

        def step(weights: jax.Array, inputs: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
            loss, gradient = jax.value_and_grad(lambda w: jnp.mean((inputs @ w - targets) ** 2))(weights)
            gradient = collc.jax.all_reduce(gradient, "x", schedule, op="avg")
            return weights - 0.1 * gradient, loss[None]

        same, split = PartitionSpec(), PartitionSpec("x")
        mapped = jax.shard_map(step, mesh=mesh, in_specs=(same, split, split), out_specs=(same, split), check_vma=False)
        train = jax.jit(mapped)
        inputs = jax.random.normal(jax.random.key(0), (512, 64))
        wanted = jnp.arange(64.0) / 64
        weights, targets = jnp.zeros(64), inputs @ wanted
        for number in range(1, 41):
            weights, losses = train(weights, inputs, targets)
            if number % 10 == 0:
                print(f"step {number}: loss {losses.mean():.5f}")
        compiled = train.lower(weights, inputs, targets).compile()
        print(f"{collc.jax.check(compiled, schedule)} collective-permutes, as in the schedule")


if __name__ == "__main__":
    main()
