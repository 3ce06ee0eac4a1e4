"""Traffic of collectives, groups on dimensions, and training loops."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceFile
from collc.design.problem import collective_time, constant, default_tiers, largest, weighted_sum
from collc.design.training_time import communication_time, group_traffic, traffic, training_time
from collc.source.elaboration.elaborate import load_program
from collc.ten.training import KINDS, LOOPS, LayerTraffic, LoopNode, TrainingLayer, Workload, group_parts
from tests.design.papers import dimensions

parts = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@settings(deadline=None)
@given(st.integers(0, 10**12), parts)
def test_traffic_adds_up_to_that_of_the_whole_group(size: int, p: list[int]) -> None:
    """Over all dimensions an NPU sends as much as in one dimension of all NPUs, but in All-to-All."""
    n, direct = prod(p), [False] * len(p)
    assert sum(traffic("all_reduce", size, p, direct)) == Fraction(2 * size * (n - 1), n)
    assert sum(traffic("all_gather", size, p, direct)) == size * (n - 1)
    scattered = traffic("reduce_scatter", size * n, p, direct)
    assert scattered == traffic("all_gather", size, p, direct)
    for sent, part in zip(traffic("all_to_all", size, p, direct), p, strict=True):
        assert sent == size - Fraction(size, part)


def test_in_network_reduction() -> None:
    assert traffic("all_reduce", 1000, (5, 2, 4), (False, True, False)) == (1600, 200, 150)
    assert traffic("all_reduce", 1000, (1, 2), (True, True)) == (0, 1000)


def test_reducing_switches_save_a_reduce_scatter_nothing() -> None:
    """An NPU sends the shards of all others whether a switch adds them or their owners do."""
    assert traffic("reduce_scatter", 1000, (5, 2, 4), (True, True, True)) == (800, 100, 75)


def test_send_recv_crosses_the_last_dimension_of_the_group() -> None:
    assert traffic("send_recv", 7, (4, 2, 1), (False,) * 3) == (0, 7, 0)
    assert traffic("send_recv", 7, (1, 1), (False,) * 2) == (0, 0)
    with pytest.raises(ValueError, match="scan"):
        traffic("scan", 7, (1, 1), (False,) * 2)
    assert "send_recv" in KINDS


def test_groups_on_dimensions() -> None:
    assert group_parts((4, 8, 4, 32), 16) == ((4, 4, 1, 1), (1, 2, 4, 32))
    assert group_parts((16, 8, 32), 128) == ((16, 8, 1), (1, 1, 32))
    assert group_parts((16, 8, 32), 1) == ((1, 1, 1), (16, 8, 32))
    assert group_parts((4, 8), 12) is None
    assert group_parts((4, 8), 64) is None


def test_tiers() -> None:
    assert default_tiers(1) == ("inter_pod",)
    assert default_tiers(3) == ("inter_package", "inter_node", "inter_pod")
    assert default_tiers(5) == ("inter_chiplet", "inter_chiplet", "inter_package", "inter_node", "inter_pod")


LAYER = TrainingLayer(
    "layer0",
    (Fraction(1000), Fraction(2000), Fraction(3000)),
    (
        LayerTraffic("forward", "tensor", "all_reduce", 1600),
        LayerTraffic("input_gradient", "tensor", "all_to_all", 1600),
        LayerTraffic("weight_gradient", "data", "reduce_scatter", 800),
        LayerTraffic("weight_gradient", "data", "all_gather", 400),
    ),
)


def workload(loop: LoopNode, layers: tuple[TrainingLayer, ...] = (LAYER, LAYER)) -> Workload:
    return Workload("w", 16, 256, loop, layers)


def test_training_loops() -> None:
    """At 1 GB/s in each of 16 * 8 * 32 NPUs; the times in ns are those of the formulas by hand."""
    dims, rates = dimensions("3D"), (1.0, 1.0, 1.0)
    forward, inputs = 2 * 1600 * 15 / 16, 1600 * 15 / 16
    weights = 800 * 7 / 8 + 400 * 32 * 7
    assert training_time(workload(LOOPS["no_overlap"]), dims).value(rates) == 2 * (6 + forward + inputs + weights)
    overlapped = 2 * (1 + forward + 2 + max(inputs, 3 + weights))
    assert training_time(workload(LOOPS["tp_dp_overlap"]), dims).value(rates) == overlapped
    assert communication_time(workload(LOOPS["no_overlap"]), dims).value(rates) == 2 * (forward + inputs + weights)
    time = {name: LoopNode("time", name=name) for name in ("forward_communication", "weight_gradient_communication")}
    whole = LoopNode("max", tuple(LoopNode("sum", (part,)) for part in time.values()))
    assert training_time(workload(whole), dims).value(rates) == 2 * max(forward, weights)
    each = LoopNode("scale", (LoopNode("max", tuple(time.values())),), factor=Fraction(1, 2))
    assert training_time(workload(each), dims).value(rates) == max(forward, weights)
    with pytest.raises(ValueError, match="do not fit"):
        training_time(Workload("w", 3, 1, LOOPS["no_overlap"], (LAYER,)), dims)


def test_traffic_of_groups() -> None:
    tensor, data = group_traffic(workload(LOOPS["no_overlap"], (LAYER,)), dimensions("3D"))
    assert tensor == (Fraction(3 * 1600 * 15, 16), 0, 0)
    assert data == (0, 700 + 400 * 32 * 7, Fraction(100 * 31, 32) + 400 * 31)


sizes = st.lists(st.integers(0, 10**9).map(Fraction), min_size=2, max_size=2)


@settings(deadline=None)
@given(st.lists(sizes, min_size=1, max_size=4), st.integers(0, 1000), st.integers(1, 9))
def test_normal_form_keeps_the_value(rows: list[list[Fraction]], time: int, factor: int) -> None:
    """Sums and maxima have the values of the formulas; a multiple of a maximum is the same maximum."""
    rates = (3.0, 7.0)
    options = [*(collective_time(row) for row in rows), constant(time, 2)]
    values = [max(float(a) / 3, float(b) / 7) for a, b in rows]
    found = largest(options)
    assert found.value(rates) == pytest.approx(max([*values, time]))
    multiple = largest([weighted_sum([(factor, option)], 2) for option in options])
    assert [m for _, m in multiple.maxima] == [m for _, m in found.maxima]
    both = weighted_sum([(1, found), (2, multiple)], 2)
    assert len(both.maxima) == len(found.maxima)
    assert both.value(rates) == pytest.approx((1 + 2 * factor) * found.value(rates))


LOOP = """
let half = 0.5
workload w (tensor: 16, data: 256) {
    loop TIME
    repeat 2 {
        layer (forward: 1us, weight_gradient: 3us) {
            forward tensor all_reduce 1600B
            weight_gradient data reduce_scatter 800B
        }
    }
    layer (forward: 5us) { }
}
"""
FORWARD, WEIGHTS = 2 * 1600 * 15 / 16, 800 * 7 / 8
LOOP_TIMES = {
    "no_overlap": 2 * (4000 + FORWARD + WEIGHTS) + 5000,
    "forward_compute + 2 * forward_communication": 7000 + 4 * FORWARD,
    "max(sum(forward_compute), sum(forward_communication), 3 * sum(weight_gradient_communication))": max(
        7000, 2 * FORWARD, 6 * WEIGHTS
    ),
    "max(forward_compute, forward_communication)": 2 * max(1000, FORWARD) + 5000,
    "half * max(sum(forward_compute) + weight_gradient_compute)": 0.5 * (7000 + 6000),
}


@pytest.mark.parametrize("loop", LOOP_TIMES)
def test_loops_that_are_written(loop: str) -> None:
    (found,) = load_program(SourceFile("p.coll", LOOP.replace("TIME", loop))).workloads
    assert training_time(found, dimensions("3D")).value((1.0, 1.0, 1.0)) == pytest.approx(LOOP_TIMES[loop], rel=1e-12)
