"""The workloads of the standard library against the numbers of the LIBRA paper and of the models."""

from __future__ import annotations

from fractions import Fraction

import pytest

from collc.base.diagnostics import SourceError, SourceFile
from collc.design.training_time import group_traffic, training_time
from collc.source.elaboration.elaborate import load_program
from collc.ten.training import Workload
from tests.design.papers import NETWORKS, TRAFFIC, dimensions, time_of

NAMES = {"GPT-3": "gpt3", "MSFT-1T": "msft_1t", "Turing-NLG": "turing_nlg", "ResNet-50": "resnet50"}

PROGRAM = """
import std.topologies
import std.workloads
topology net = ring(4) * fully_connected(8) * ring(4) * switched(32)
design d on net { train NAME  require sum(bandwidth) == 1TB/s  minimize time }
"""


def workload(name: str) -> Workload:
    program = load_program(SourceFile("p.coll", PROGRAM.replace("NAME", name)))
    assert program.workloads == ()
    return program.designs[0].train[0].workload


@pytest.mark.parametrize("name", NAMES)
def test_compute_and_traffic_of_the_paper(name: str) -> None:
    """Compute time and bytes are those of the paper exactly; its numbers for ResNet-50 are rounded."""
    found = workload(NAMES[name])
    for network in NETWORKS:
        compute, rows = TRAFFIC[name, network]
        dims = dimensions(network)
        assert training_time(found, dims).constant == compute
        tensor, data = group_traffic(found, dims)
        groups = [row for row in (tensor, data) if any(row)]
        assert len(groups) == len(rows)
        for own, published in zip(groups, rows, strict=True):
            assert own == pytest.approx([Fraction(x) for x in published], rel=1e-7)


@pytest.mark.parametrize("name", ["GPT-3", "Turing-NLG"])
def test_the_time_is_that_of_the_summed_traffic(name: str) -> None:
    """Since all collectives of a group are alike, layer by layer or all at once makes no difference."""
    for network in NETWORKS:
        rates = [100.0, 30.0, 7.0, 3.0][: len(NETWORKS[network])]
        own = training_time(workload(NAMES[name]), dimensions(network)).value(rates)
        assert own == pytest.approx(time_of(name, network).value(rates), rel=1e-12)


def gradient_bytes(found: Workload) -> int:
    return sum(item.size for layer in found.layers for item in layer.traffic if item.phase == "weight_gradient")


def test_models_have_as_many_parameters_as_published() -> None:
    assert gradient_bytes(workload("resnet50")) / 2 == pytest.approx(25.5e6, rel=0.01)
    assert gradient_bytes(workload("dlrm")) / 2 == pytest.approx(57.4e6, rel=0.01)
    assert gradient_bytes(workload("turing_nlg")) / 4 * 78 == pytest.approx(17e9, rel=0.01)
    assert gradient_bytes(workload("gpt3")) * 16 / 4 * 96 == pytest.approx(175e9, rel=0.01)
    assert gradient_bytes(workload("gnmt")) / 2 == pytest.approx(249e6, rel=0.01)
    layers = [layer for layer in workload("gnmt").layers if layer.times[0]]
    flop = 2 * 6400 * (18 * 8 * 1024**2 + 32000 * 1024)
    assert float(3 * sum(layer.times[0] for layer in layers)) == pytest.approx(3 * flop / 234, rel=1e-9)


def test_an_unknown_workload_is_found_in_no_import() -> None:
    with pytest.raises(SourceError) as caught:
        workload("gpt2")
    assert [d.code for d in caught.value.diagnostics] == ["E0901"]
