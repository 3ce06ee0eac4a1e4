"""The elaborator against the naive evaluator: random programs, and everything in the standard library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from collc.source.elaboration.elaborate import load_program
from tests.reference.compare import assert_same
from tests.reference.evaluator import evaluate
from tests.reference.programs import programs
from tests.stdlib import test_algorithms, test_collectives, test_topologies

HEAD = "import std.topologies import std.collectives import std.algorithms import std.clusters "

MADE_OF_FACTORS = re.compile(r"topology t = (\(*\w+\([^)]*\) \*|unwound|reversed\(\w+\([^)]*\) \*)")
"""Programs in which the language does not define the order of links and the names of switches."""


def compare(text: str, folder: Path) -> None:
    """Elaborate a program with both."""
    path = folder / "program.coll"
    path.write_text(text, encoding="utf-8")
    found, wanted = load_program(path).schedules, evaluate(text, folder).schedules()
    for request, schedule in zip(found, wanted, strict=True):
        assert_same(request, schedule, ordered=MADE_OF_FACTORS.search(text) is None)


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=programs())
def test_random_programs(text: str, tmp_path: Path) -> None:
    compare(text, tmp_path)


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=programs())
def test_many_random_programs(text: str, tmp_path: Path) -> None:
    compare(text, tmp_path)


WITH_RATES = [e for e in test_topologies.SAME if "us" in e or "dgx" in e]
MACHINES = [e for e in test_topologies.COUNTS if e.startswith(("dgx", "gb200", "mi300", "tpu"))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expression", [*WITH_RATES, *MACHINES])
def test_topologies_of_the_library(expression: str, tmp_path: Path) -> None:
    compare(HEAD + f"topology t = {expression} schedule s on t {{ run broadcast(t.npus, size: 1MiB) }}", tmp_path)


@pytest.mark.parametrize(
    "call",
    [
        *test_collectives.SAME,
        "send_recv(g, size: 60B, source: 2, target: 0, chunks: 2)",
        "multicast(g, size: 60B, source: 1, targets: {0, 2})",
        "all_to_allv(g, sizes: [[0B, 5B, 2B], [1B, 0B, 0B], [4B, 4B, 3B]], chunk: 2B)",
        "all_to_allv(g, sizes: [[3B * i + j * 1B for j in 0..3] for i in 0..3], chunk: 2B)",
        'reduce(g, size: 12KiB, chunks: 2, root: 2, op: "prod")',
    ],
)
def test_collectives_of_the_library(call: str, tmp_path: Path) -> None:
    """Also compares the patterns of the standard collectives with their text."""
    start = "topology t = ring(5, bandwidth: 1GB/s, latency: 1us) group g = [t[2], t[0], t[3]] "
    compare(HEAD + start + f"schedule s on t {{ run {call} }}", tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "collective"), test_algorithms.STEPS)
def test_algorithms_of_the_library(name: str, collective: str, tmp_path: Path) -> None:
    for n in (1, 2, 5, 8):
        rooted = f", root: {n // 2}" if collective in test_algorithms.ROOTED else ""
        run = f"run {collective}(t.npus, size: {5040 * n}B, chunks: 2{rooted}) using {name}"
        start = f"topology t = fully_connected({n}, bandwidth: 1GB/s, latency: 1us) "
        compare(HEAD + start + f"schedule s on t {{ {run} }}", tmp_path)


def test_arguments_of_an_algorithm(tmp_path: Path) -> None:
    run = "run all_to_all(t.npus, size: 144B) using hierarchical(shape: [3, 2, 2])"
    start = "topology t = fully_connected(12, bandwidth: 1GB/s, latency: 1us) "
    compare(HEAD + start + f"schedule s on t {{ {run} }}", tmp_path)


def test_the_comparison_sees_a_difference(tmp_path: Path) -> None:
    path = tmp_path / "program.coll"
    text = HEAD + "topology t = ring(4, bandwidth: 1GB/s, latency: 1us) schedule s on t { run all_gather(t.npus, 8B) }"
    path.write_text(text, encoding="utf-8")
    for old, new in (("ring(4", "line(4"), ("1us", "2us"), ("8B", "4B"), ("all_gather", "all_to_all")):
        with pytest.raises(AssertionError):
            assert_same(load_program(path).schedules[0], evaluate(text.replace(old, new)).schedules()[0])


LINK = "bandwidth: 50GiB/s, latency: 0.5us"
CHANGED_TOPOLOGIES = [
    "dgx_h100(2) with { switch leaf[2..5] (buffer: 3, multicast: true), switch leaf[4] (reduce: true), switch spine "
    "(buffer: 7), switch s (buffer: 2), link s <-> spine (bandwidth: 3GB/s, latency: 0us) }",
    f"ring(3, {LINK}) * switched(4, bandwidth: 1GB/s, latency: 2us)",
    f"ring(3, {LINK}) * fully_connected(2, {LINK}) * switched(4, bandwidth: 1GB/s, latency: 2us)",
    f"switched(2, {LINK}) * (ring(3, {LINK}) * switched(2, bandwidth: 1GB/s, latency: 2us))",
    f"mesh2d(2, 3, {LINK}) * ring(3, {LINK})",
    f"unwound(switched(5, {LINK}), degree: 2)",
    f"unwound(switched(4, {LINK}))",
    f"unwound(ring(3, {LINK}) * switched(4, {LINK}))",
    f"reversed(ring(4, {LINK}, one_way: true))",
    f"mesh2d(4, 2, {LINK}) without {{ npu 5, link 2 <-> 3 }}",
    f"mesh2d(4, 3, {LINK}) without {{ npu npu[2, 3], link npu[0, 0] -> npu[0, 1] }}",
    "dgx1() without { link gpu[0] <-> gpu[1] lanes 1, link gpu[2] -> gpu[3] lanes 2, npu gpu[4..6] }",
    "dgx_h100(3) without { switch leaf[3], link gpu[0, *] <-> leaf[4], link gpu[1, 4..6] -> nvswitch[1] }",
    "dgx_h100(2) without { switch spine, switch leaf[1..8] }",
    "dgx1() without { link gpu[0] <-> gpu[1] lanes 1, link gpu[0] -> gpu[1] lanes 1 }",
    "dgx1() with { link gpu[0] <-> gpu[1] (bandwidth: 12.5GB/s) lanes 1, link gpu[0] -> 1 (latency: 9us) lanes 1 }",
    "dgx1() with { link gpu[0..3] <-> gpu[0..3] (bandwidth: 1GB/s), link gpu[0] -> 1 (latency: 9us) }",
    "dgx1() with { link gpu[*] <-> gpu[*] (bandwidth: 1GB/s), link gpu[7] -> gpu[*] (latency: 9us) }",
    "dgx_h100(3) with { link gpu[*, 3] <-> leaf[3] (bandwidth: 25GB/s), "
    "link gpu[0, i] -> leaf[i] (latency: 1us) for i in 0..3 }",
    "dgx_h100(2) with { npu spare[2, 2], switch s (buffer: 3), link s <-> spine (bandwidth: 3GB/s, latency: 0us), "
    "link spare[1, i] <-> s (bandwidth: 1GB/s, latency: 1us) lanes 2 for i in 0..2, "
    "link spare[0, i] <-> spare[1, i] (bandwidth: 1GB/s, latency: 5us) for i in 0..2 }",
    f"ring(3, {LINK}) * switched(3, {LINK}) with {{ npu b, link b <-> 0 ({LINK}), link 0 -> 1 (latency: 2us) }}",
    f"(ring(4, {LINK}) without {{ npu 2 }}) with {{ link 1 <-> 3 ({LINK}), link 0 <-> 1 (latency: 2us) }}",
]


@pytest.mark.parametrize("expression", CHANGED_TOPOLOGIES)
def test_changed_topologies(expression: str, tmp_path: Path) -> None:
    compare(HEAD + f"topology t = {expression}\nschedule s on t {{ run all_gather(t.npus, size: 110880B) }}", tmp_path)


CASES = {
    "product_of_products": (
        "topology t = (ring(3, @) * line(2, @)) * switched(2, @) schedule s on t { run all_gather(t.npus, size: 12B) }"
    ),
    "slices_of_a_product": (
        "topology t = mesh2d(3, 2, @) * ring(2, @) group g = t.npu[1, *, 0] group h = t.npu[*, 2, *] group a "
        "= t.npu schedule s on t { run all_gather(g, size: 12B) run all_gather(h, size: 12B) run "
        "all_gather(a, size: 12B)}"
    ),
    "order_of_slices": (
        "topology t = ring(3, @) * line(3, @) group h = t.npu[*, *] group k = t.npu[{2,0}, 1..3] schedule s "
        "on t { run all_gather(h, size: 36B) run all_gather(k, size: 12B)}"
    ),
    "factor_without": (
        "topology t = ring(4, @) * switched(3, @) without { npu 3 } schedule s on t { run all_gather(t.npus, "
        "size: 11B) }"
    ),
    "product_without": (
        "topology t = (ring(4, @) * switched(3, @)) without { npu 3, link npu[0, 0] -> npu[1, 0] } group g = "
        "t.npu[*, 0] schedule s on t { run all_gather(t.npus, size: 11B) run all_gather(g, size: 3B) }"
    ),
    "unwound_product": (
        "topology t = unwound(ring(4, @) * switched(5, @), degree: 2) schedule s on t { run "
        "all_gather(t.npus, size: 20B) }"
    ),
    "slice_of_unwound": (
        "topology t = unwound(switched(5, @)) group g = t.npu[1..4] schedule s on t { run all_gather(g, size: 3B) }"
    ),
    "reversed_product": (
        "topology t = reversed(line(2, @) * switched(2, @)) schedule s on t { run all_gather(t.npus, size: 4B) }"
    ),
    "copies_in_copies": (
        "topology n { npu a[2] switch x for i in 0..2 { link a[i] <-> x (@) } } topology m { use n as deep[2]"
        " switch y for i in 0..2 { link deep[i].x <-> y (@) } } topology t { use m as k[2,2] switch z for i "
        "in 0..2, j in 0..2 { link k[i,j].y -> z (@) link z -> k[i,j].deep[1].a[0] (@) link k[i, "
        "j].deep[1].a[0] <-> k[i, j].y (@) } } group g = t.k[1, 0].npus group h = t.k[*, 1].deep[*].a[1] "
        "group l = t.k[0, 0].deep[1].a schedule s on t { run broadcast(t.npus, size: 4B) run all_gather(g, "
        "4B) run all_gather(h, 4B) run all_gather(l, 4B) }"
    ),
    "family_of_two_indices": (
        "topology t = rail_only(2, 2, local: 1GB/s, rail: 1GB/s, local_latency: 1us, rail_latency: 2us) group"
        " g[i in 0..2, j in 0..2] = [t.npu[i, j], t.npu[1 - i, j]] schedule s on t { for i in 0..2, j in 0..2"
        " if i != j { run all_reduce(g[i, j], size: 2B * (i + 1) * (j + 1)) } }"
    ),
    "params_and_lets": (
        "let n = 3 param k: int = n + 1 topology t = torus2d(k, n, @) group r[y in 0..n] = t.npu[y, *] "
        "schedule s on t { for y in 0..n { let m = 4 * (y + 1) if y != 1 { run all_reduce(r[y], size: m * "
        '1kB, chunks: y + 1, op: "max") using bidirectional_ring } else { run reduce(r[y], size: 3kB, root: '
        "index(r[y], t.npu[1, 2])) } } }"
    ),
    "lists_as_arguments": (
        "topology t = ring(4, @) collective c(g: group, s: list) { for i in 0..len(g) { let lim = s[i] for j "
        "in 0..len(g) if lim[j] > 0B and i != j { chunk q[i, j]: lim[j] pre q[i, j] at g[i] post q[i, j] at "
        "{g[k] for k in j..len(g)} } } } schedule s on t { run c(t.npus, s: [[i * j * 8B for j in 0..4] for i"
        " in 0..4]) }"
    ),
    "two_groups": (
        "topology t = ring(4, @) collective c(g: group, h: group, s: bytes) { chunk w: s pre w at g post "
        "sum(w) at h for m in h { chunk v[index(h, m)]: s pre v[index(h, m)] at m post v[index(h, m)] at g[0]"
        " } } schedule s on t { run c([t[0], t[2]], [t[3], t[1]], 8B) run c(g: t.npus[1..3], s: 4B, h: "
        "t.npus) }"
    ),
    "interleaved": """
        topology t {
            npu a[6]
            switch s[2] (buffer: 3, reduce: true)
            npu b[2]
            for i in 0..6 {
                let half = i // 3
                link a[i] <-> s[half] (@)
                if i % 2 == 0 {
                    link a[i] -> b[half] (bandwidth: 1GB/s * (i + 1), latency: 1ns)
                } else if i == 3 {
                    link b[1] -> a[3] (@)
                } else {
                    for k in 0..i, j in k..3 {
                        link a[i] -> s[k % 2] (@)
                        link b[j % 2] <-> s[0] (bandwidth: 2GB/s, latency: 5ns)
                    }
                }
                link s[half] -> b[0] (@)
            }
        }
        collective c(g: group) {
            for i in 0..len(g) {
                chunk x[i]: 1B + i * 2B
                for j in i + 1..len(g) {
                    let d = j - i
                    chunk y[i, d]: min(4B, d * 1B)
                    pre y[i, d] at g[i]
                    post y[i, d] at {g[k] for k in i..j + 1 if k % 2 == 0 or k == j}
                }
                pre x[i] at {g[k] for k in 0..i + 1}
                pre x[i] at g[len(g) - 1]
                if i in {1, 3} { post sum(x[i]) at g } else { post x[i] at {g[0], g[i]} | {g[1]} - {g[0]} }
            }
        }
        schedule s on t { run c(t.a) for k in 1..3 { run c(t.npus) } }""",
    "copies": """
        topology node(n: int) {
            npu gpu[n]
            switch sw
            for i in 0..n { link gpu[i] <-> sw (@) }
        }
        topology pod {
            use node(3) as node[2]
            use node(2) as extra
            switch spine
            for k in 0..2, i in 0..3 { link node[k].gpu[i] <-> spine (bandwidth: 1GB/s, latency: 3us) }
            link extra.gpu[0] <-> spine (bandwidth: 1GB/s, latency: 3us)
        }
        group rail[i in 0..3] = [pod.node[k].gpu[i] for k in 0..2]
        schedule s on pod {
            for i in 0..3 { run all_gather(rail[i], size: 2KiB) }
            run broadcast(pod.extra.gpu, size: 1KiB)
            run all_reduce(pod.node[1].gpu[1..3], size: 2KiB)
        }""",
    "values": """
        param n: int = 5
        let sizes = [(i + 1) * 1KiB for i in 0..n]
        let total = sum(sizes)
        let odd = {i for i in 0..n if i % 2 == 1} | {0}
        topology t = fully_connected(n, @)
        collective c(g: group, sizes: list) {
            for i in 0..len(g) if i in odd or i == n - 1 {
                chunk x[i]: max(sizes[i], 2KiB) + total / 15 - 3 * 1KiB // 2
                pre x[i] at g[i]
                post x[i] at {g[j] for j in odd} & {g[j] for j in 0..i + 1} | {g[index(g, g[i])]}
            }
        }
        schedule s on t { run c(t.npus, sizes) run c([t[k] for k in [4, 2, 0, 1, 3]], sizes) }""",
}
"""Programs for which the two once differed, or that the generator does not produce; @ is a kind of link."""


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, tmp_path: Path) -> None:
    compare(HEAD + CASES[name].replace("@", "bandwidth: 1GB/s, latency: 1us"), tmp_path)
