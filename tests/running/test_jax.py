"""Schedules as collectives of JAX, on devices of the host: results, gradients, and what XLA makes. Needs collc[jax]."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import collc
from tests.running.test_rounds import ROOT, SCHEDULES

# Level 0 makes the code of the host sooner; the optimised HLO is the same.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64 --xla_backend_optimization_level=0"
jax = pytest.importorskip("jax", reason="collc[jax] is not installed: schedules in JAX are not tested")
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

import collc.jax  # noqa: E402

NETS = {
    "torus2d(4, 2, bandwidth: 45GB/s, latency: 1us)": {"ag": 7, "rs": 7, "ar": 14, "aa": 12},
    "ring(8, bandwidth: 45GB/s, latency: 1us)": {"ag": 7, "rs": 7, "ar": 14, "aa": 16},
    "hypercube(3, bandwidth: 45GB/s, latency: 1us)": {"ag": 7, "rs": 7, "ar": 14, "aa": 12},
}
"""Networks of eight NPUs, and the permutations of their schedules: each NPU receives seven chunks in an All-Gather."""
CALLS = {
    "ag": (collc.jax.all_gather, lambda x: lax.all_gather(x, "x", tiled=True)),
    "rs": (collc.jax.reduce_scatter, lambda x: lax.psum_scatter(x, "x", tiled=True)),
    "ar": (collc.jax.all_reduce, lambda x: lax.psum(x, "x")),
    "aa": (collc.jax.all_to_all, lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True)),
}


def compiled_to(path, net: str, text: str = SCHEDULES.replace("chunks: 2", "chunks: 1")):
    collc.compile_text(text.replace("NET", net), output=path)
    return path


def on_devices(function, ranks: int, **options):
    """A function on shards of all its arguments."""
    mesh, split = Mesh(jax.devices()[:ranks], ("x",)), PartitionSpec("x")
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=split, out_specs=split, **options))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("net", NETS)
def test_eight_devices_give_what_lax_gives(tmp_path, net):
    folder, data = compiled_to(tmp_path, net), numbers(8 * 64, 3)
    for name, (call, of_lax) in CALLS.items():
        schedule = folder / f"{name}.run"
        compiled = on_devices(lambda x, call=call, schedule=schedule: call(x, "x", schedule), 8).lower(data).compile()
        assert collc.jax.check(compiled, schedule) == NETS[net][name]
        np.testing.assert_allclose(compiled(data), on_devices(of_lax, 8)(data), atol=2e-6)


def test_sixty_four_devices_give_what_lax_gives(tmp_path):
    net = "tpu_v4_slice(4, 4, 4)"
    text = SCHEDULES.replace("topologies", "clusters").replace("chunks: 2", "chunks: 1")
    folder, data = compiled_to(tmp_path, net, text), numbers(64 * 64, 2)
    for name, count in {"ag": 63, "rs": 64, "ar": 126, "aa": 192}.items():
        call, of_lax = CALLS[name]
        schedule = folder / f"{name}.run"
        compiled = on_devices(lambda x, call=call, schedule=schedule: call(x, "x", schedule), 64).lower(data).compile()
        assert collc.jax.check(compiled, schedule) == count
        np.testing.assert_allclose(compiled(data), on_devices(of_lax, 64)(data), atol=1e-5)


def test_gradients(tmp_path):
    """The gradient of an All-Gather is a Reduce-Scatter over the same rounds, backwards."""
    folder, data = compiled_to(tmp_path, "ring(4, bandwidth: 45GB/s, latency: 1us)", SCHEDULES), numbers(4 * 8, 5)
    for name, (call, of_lax) in CALLS.items():
        scheduled = on_devices(lambda x, call=call, name=name: call(x, "x", folder / f"{name}.run"), 4, check_vma=False)
        wanted = on_devices(of_lax, 4, check_vma=False)
        weights = numbers(*wanted(data).shape)[::-1]
        mine, other = (jax.vjp(function, data)[1](weights)[0] for function in (scheduled, wanted))
        np.testing.assert_allclose(mine, other, atol=1e-6)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return compiled_to(tmp_path_factory.mktemp("ring"), "ring(4, bandwidth: 45GB/s, latency: 1us)", SCHEDULES)


def test_shapes(ring):
    """Leading axes that divide into chunks, and others."""
    data = [numbers(4, *shape) for shape in ((16, 3), (16,), (12, 5), (4, 1, 7), (0, 3))]

    def moved(shard):
        x = shard[0]
        gathered = collc.jax.all_gather(x, "x", ring / "ag.run")
        return gathered[None], collc.jax.all_to_all(x, "x", ring)[None], collc.jax.broadcast(x, "x", ring)[None]

    for given, results in zip(data, on_devices(lambda shards: jax.tree.map(moved, shards), 4)(data), strict=True):
        parts = given.reshape(4, 4, given.shape[1] // 4, *given.shape[2:])
        gathered, transposed, copied = (np.asarray(result) for result in results)
        assert np.array_equal(gathered, [np.concatenate(given)] * 4)
        assert np.array_equal(transposed, parts.swapaxes(0, 1).reshape(given.shape))
        assert np.array_equal(copied, [given[0]] * 4)


def test_types(ring):
    types = ("bfloat16", "float8_e4m3fn", "int4", "uint32", "bool", "complex64")
    data = {dtype: jnp.asarray(numbers(12, 5) * 3).astype(dtype) for dtype in types}
    gathered = on_devices(lambda shards: jax.tree.map(lambda x: collc.jax.all_gather(x, "x", ring), shards), 4)(data)
    for dtype, result in gathered.items():
        assert result.dtype == data[dtype].dtype
        assert np.array_equal(np.asarray(result).reshape(4, 12, 5)[2], np.asarray(data[dtype])), dtype


def test_reductions_and_scalars(ring):
    data = np.arange(4 * 6, dtype=np.int32).reshape(4, 6) * 7 % 5 - 2

    def reduced(x):
        results = {op: collc.jax.all_reduce(x, "x", ring, op) for op in ("sum", "avg", "prod", "max", "min")}
        results["mean"] = collc.jax.all_reduce(x.astype(jnp.bfloat16), "x", ring, "avg")
        total = collc.jax.all_reduce(x.sum(), "x", ring)
        assert total.shape == ()
        return results | {"total": total[None]}

    results = {name: np.asarray(value) for name, value in on_devices(reduced, 4)(data).items()}
    assert (results["total"] == data.sum()).all()
    functions = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}
    for name, function in functions.items():
        assert np.array_equal(results[name].astype(np.float64), [function(data.astype(np.float64), axis=0)] * 4), name
    assert np.array_equal(results["avg"], [data.sum(0) // 4] * 4)


def test_roots(tmp_path):
    text = """
    import std.topologies
    import std.collectives
    topology t = ring(4, bandwidth: 45GB/s, latency: 1us)
    schedule rd on t { run reduce(t.npus, root: 1, size: 64KiB) emit run }
    schedule ga on t { run gather(t.npus, root: 1, size: 64KiB) emit run }
    schedule sc on t { run scatter(t.npus, root: 1, size: 64KiB) emit run }
    """
    folder, data = compiled_to(tmp_path, "", text), numbers(4 * 8, 3)

    def rooted(x):
        return (
            collc.jax.reduce(x, "x", folder, root=1),
            collc.jax.gather(x, "x", folder, root=1),
            collc.jax.scatter(x, "x", folder, root=1),
        )

    reduced, gathered, scattered = (np.asarray(result) for result in on_devices(rooted, 4)(data))
    np.testing.assert_allclose(reduced[8:16], data.reshape(4, 8, 3).sum(0), atol=1e-6)
    assert np.array_equal(gathered[32:64], data)
    assert np.array_equal(scattered, data[8:16])


@pytest.mark.parametrize("shape", [(2, 4), (2, 2)])
def test_one_axis_of_two_and_two_as_one(ring, shape):
    mesh, split = Mesh(np.array(jax.devices()[: np.prod(shape)]).reshape(shape), ("a", "b")), PartitionSpec(("a", "b"))
    axes, groups = ("b", 2) if shape == (2, 4) else (("a", "b"), 1)
    data = numbers(mesh.size * 4, 3)
    total = jax.shard_map(lambda x: collc.jax.all_reduce(x, axes, ring), mesh=mesh, in_specs=split, out_specs=split)
    given, result = (values.reshape(groups, 4, 4, 3) for values in (data, np.asarray(jax.jit(total)(data))))
    np.testing.assert_allclose(result[:, 3], given.sum(1), atol=1e-6)


def test_files_that_do_not_fit(ring, tmp_path):
    def call(schedule, function=collc.jax.all_reduce, ranks=4, rows=4, **options):
        on_devices(lambda x: function(x, "x", schedule, **options), ranks)(np.zeros((ranks * rows, 2)))

    for message, arguments in {
        r"allreduce of float32\[4, 2\] by .*ag.run: no file of the collective": (ring / "ag.run",),
        "no file for 8 ranks": (ring, collc.jax.all_reduce, 8),
        "the leading axis does not divide into 4 blocks": (ring, collc.jax.reduce_scatter, 4, 6),
    }.items():
        with pytest.raises(ValueError, match=message):
            call(*arguments)
    with pytest.raises(ValueError, match="no reduction 'xor': there are sum, avg"):
        call(ring, op="xor")
    with pytest.raises(ValueError, match="no file for root 1"):
        call(ring, collc.jax.broadcast, root=1)
    (tmp_path / "bad.run").write_bytes((ring / "ar.run").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"bad\.run: a damaged run file"):
        call(tmp_path)
    with pytest.raises(FileNotFoundError):
        call(tmp_path / "none.run")


def test_a_file_that_is_written_again_is_read_again(ring, tmp_path):
    path, data = tmp_path / "s.run", numbers(4, 3)
    for written, (source, call) in enumerate({"ar": collc.jax.all_reduce, "bc": collc.jax.broadcast}.items()):
        path.write_bytes((ring / f"{source}.run").read_bytes())
        os.utime(path, ns=(written, written))
        on_devices(lambda x, call=call: call(x, "x", path), 4).lower(data)  # an All-Reduce serves no Broadcast


def test_the_order_of_devices(ring):
    assert collc.jax.devices(ring, jax.devices()[3::-1]) == jax.devices()[3::-1]
    with pytest.raises(ValueError, match="0 orders of NPUs in files for 3 devices"):
        collc.jax.devices(ring, jax.devices()[:3])


def test_functions_that_move_something_else(ring, tmp_path):
    compiled = on_devices(lambda x: lax.psum(x, "x"), 4).lower(numbers(4, 3)).compile()
    with pytest.raises(ValueError, match="the HLO has 0 collective-permutes, the schedule 6 permutations"):
        collc.jax.check(compiled, ring / "ar.run")
    for folder, count in ((ring, 5), (tmp_path, 0)):
        with pytest.raises(ValueError, match=f"{count} files, but there must be one"):
            collc.jax.check(compiled, folder)


def test_the_example():
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    command = [sys.executable, str(ROOT / "examples" / "jax_shard_map.py")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    *_, loss, checked = done.stdout.splitlines()
    assert loss.startswith("step 40: loss 0.000")
    assert checked == "14 collective-permutes, as in the schedule"
