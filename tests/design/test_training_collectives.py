"""Training iterations with simulated collectives (benchmarks/training.py) against LIBRA's formula."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.training import NETWORKS, WORKLOADS, iteration, standard_workloads
from collc.design.problem import NetworkDimension
from collc.design.training_time import training_time
from collc.ten.training import LOOPS, LayerTraffic, TrainingLayer, Workload

REDUCE = LayerTraffic("weight_gradient", "data", "all_reduce", 4_000_000)
LAYER = TrainingLayer("a", (Fraction(10**6), Fraction(10**6), Fraction(10**6)), (REDUCE,))
SMALL = Workload("small", 1, 4, LOOPS["no_overlap"], (LAYER, replace(LAYER, traffic=()), LAYER))


def test_a_ring_without_latency_takes_the_time_of_the_formula() -> None:
    """100 GB/s per NPU in two directions; one direction of the textbook ring halves it."""
    found = iteration(SMALL, "ring(4, bandwidth: 50GB/s, latency: 0s)", 4)
    ring = NetworkDimension("ring", 4, "inter_pod", False, False, Fraction(1))
    for rate, time in (
        (100, found.synthesized),
        (100, found.textbook["bidirectional_ring"]),
        (50, found.textbook["ring"]),
    ):
        assert time / 1000 == pytest.approx(training_time(SMALL, [ring]).value([rate]), rel=1e-9)
    assert found.compute == 9 * 10**6
    assert found.ideal == found.synthesized


@pytest.mark.parametrize(
    "wrong",
    [
        replace(SMALL, tensor=2),
        replace(SMALL, loop=LOOPS["tp_dp_overlap"]),
        replace(SMALL, layers=(replace(LAYER, traffic=(replace(REDUCE, kind="all_to_all"),)),)),
    ],
)
def test_other_workloads_are_refused(wrong: Workload) -> None:
    with pytest.raises(ValueError, match="is not a data-parallel workload"):
        iteration(wrong, "ring(4, bandwidth: 50GB/s, latency: 0s)", 4)


def test_the_workloads_are_those_of_the_standard_library() -> None:
    assert set(WORKLOADS) <= set(standard_workloads())
    assert len(NETWORKS) == 2


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_resnet50_trains_faster_with_synthesized_collectives(network: str) -> None:
    """Within 2 % of the ideal on both networks of the thesis, and ahead of all textbook algorithms."""
    expression, npus = NETWORKS[network]
    found = iteration(standard_workloads()["resnet50"], expression, npus)
    assert found.compute == pytest.approx(1_095_314_000, rel=1e-6)
    assert found.synthesized <= 1.02 * found.ideal
    assert min(found.textbook.values()) > 1.005 * found.synthesized
