"""The elaborator against the naive evaluator: random programs, and everything in the standard library."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from collc.source import load_program
from tests.reference.compare import assert_same
from tests.reference.evaluator import evaluate
from tests.reference.programs import programs
from tests.stdlib import test_algorithms, test_collectives, test_topologies

HEAD = "import std.topologies import std.collectives import std.algorithms import std.clusters "


def compare(text: str, folder: Path) -> None:
    """Elaborate a program both ways."""
    path = folder / "program.coll"
    path.write_text(text, encoding="utf-8")
    found, wanted = load_program(path).schedules, evaluate(text, folder).schedules()
    for request, schedule in zip(found, wanted, strict=True):
        assert_same(request, schedule, ordered=" * " not in text.partition("\ngroup")[0] and "unwound" not in text)


@settings(
    max_examples=40,
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
    ],
)
def test_collectives_of_the_library(call: str, tmp_path: Path) -> None:
    """Also that the patterns of the standard collectives are what their text says."""
    start = "topology t = ring(5, bandwidth: 1GB/s, latency: 1us) group g = [t[2], t[0], t[3]] "
    compare(HEAD + start + f"schedule s on t {{ run {call} }}", tmp_path)


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
