"""What NPUs read from memory for each byte that they send, by collective, against counts made by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from collc.base.diagnostics import SourceFile
from collc.graph.memory_traffic import fed_for, hierarchical_share
from collc.source.elaboration.elaborate import load_program
from collc.ten.demand import Demand
from collc.ten.endpoint import MEMORY_TRAFFIC
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.text import format_module, parse_module

LINK = "bandwidth: 25GB/s, latency: 0.5us"


def requested(topology: str, runs: str, mode: str = "baseline") -> tuple[Network, Demand]:
    """The network and the demand of a schedule whose NPUs have 90 GB/s of memory."""
    text = (
        "import std.topologies import std.collectives "
        f'topology t = limited({topology}, memory: 90GB/s, endpoint: "{mode}") schedule s on t {{ {runs} }}'
    )
    request = load_program(SourceFile("t.coll", text)).schedules[0]
    return request.network, request.demand


def traffic(network: Network) -> Fraction:
    kind = network.endpoint_of(0)
    return kind.traffic or MEMORY_TRAFFIC[kind.mode]


def sent_by_an_engine(sizes: tuple[int, ...]) -> Fraction:
    """Parts of the buffer that NPU 0 sends, step by step: rings along the first dimension, then along each other one
    (a Reduce-Scatter and an All-Gather of the part that the first left), and the first again.
    """
    part, sent = Fraction(1), Fraction(0)
    for _ in range(sizes[0] - 1):  # Reduce-Scatter
        sent += part / sizes[0]
    part /= sizes[0]
    for size in sizes[1:]:
        for _ in range(2 * (size - 1)):
            sent += part / size
    for _ in range(sizes[0] - 1):  # All-Gather
        sent += part
    return sent


@pytest.mark.parametrize(("sizes", "less"), [((4, 2, 2), 3), ((4, 4, 4), 3.375), ((4, 8, 8), 3.5625)])
def test_an_engine_reads_less_by_the_formula_for_its_torus(sizes: tuple[int, ...], less: float) -> None:
    """16, 64 and 256 NPUs of Rashidi et al., who have 3.5 times less on average."""
    torus = f"torus3d({', '.join(map(str, sizes))}, {LINK})"
    networks = [requested(torus, "run all_reduce(t.npus, size: 64MiB)", mode)[0] for mode in MEMORY_TRAFFIC]
    baseline, offload = map(traffic, networks)
    assert baseline == Fraction(3, 2)
    assert float(baseline / offload) == less
    assert offload == 1 / sent_by_an_engine(sizes)


def test_what_an_engine_sends_as_counted_step_by_step() -> None:
    for sizes in product((2, 3, 4, 8), (2, 3, 5), (2, 4)):
        assert hierarchical_share(sizes) == sent_by_an_engine(sizes)
        assert hierarchical_share(sizes[:1]) == Fraction(2 * (sizes[0] - 1), sizes[0])


RUNS = {
    "all_reduce": (Fraction(3, 2), Fraction(5, 8)),  # 5 inputs of a chunk; 4 partials and 4 copies are sent
    "reduce_scatter": (Fraction(2), Fraction(5, 4)),
    "all_gather": (Fraction(1), Fraction(1, 4)),
    "all_to_all": (Fraction(1), Fraction(1)),
    "broadcast": (Fraction(1), Fraction(1, 4)),
    "reduce": (Fraction(2), Fraction(5, 4)),
    "scatter": (Fraction(1), Fraction(1)),
    "gather": (Fraction(1), Fraction(1)),
}
"""On a ring of 5: with kernels, and with engines."""


@pytest.mark.parametrize("collective", RUNS)
@pytest.mark.parametrize("chunks", [1, 3])
def test_traffic_by_collective(collective: str, chunks: int) -> None:
    """Also if the chunks are counted one by one, as for a collective of one's own."""
    for mode, wanted in zip(MEMORY_TRAFFIC, RUNS[collective], strict=True):
        run = f"run {collective}(t.npus, size: 15MiB, chunks: {chunks})"
        network, demand = requested(f"ring(5, {LINK})", run, mode)
        assert traffic(network) == wanted
        listed = Demand(tuple(replace(run, standard=None) for run in demand.runs))
        assert traffic(fed_for(network, listed)) == wanted


@pytest.mark.parametrize(
    ("runs", "baseline", "offload"),
    [
        ("run reduce_scatter(t.npus, size: 15MiB) run all_gather(t.npus, size: 15MiB)", Fraction(3, 2), Fraction(3, 4)),
        ("run all_reduce(t.npu[1..4], size: 15MiB)", Fraction(3, 2), Fraction(3, 4)),
        ("run send_recv(t.npus, size: 15MiB, source: 0, target: 2)", Fraction(1), Fraction(1)),
        ("run all_reduce(t.npu[1..2], size: 15MiB) run all_gather(t.npus, size: 15MiB)", Fraction(1), Fraction(1, 4)),
    ],
    ids=["both", "group", "one", "alone"],
)
def test_traffic_of_several_runs_and_of_groups(runs: str, baseline: Fraction, offload: Fraction) -> None:
    for mode, wanted in (("baseline", baseline), ("offload", offload)):
        assert traffic(requested(f"ring(5, {LINK})", runs, mode)[0]) == wanted


def test_what_npus_send_follows_and_files_keep_it() -> None:
    """9 GB/s of traffic 2 feed half of what they feed with traffic 1, in the text form too."""
    rates = {}
    for collective in ("reduce_scatter", "all_gather"):
        network, demand = requested(f"ring(5, {LINK})", f"run {collective}(t.npus, size: 15MiB)")
        rates[collective] = network.endpoint_of(0).send
        text = format_module(Module("m", network, demand))
        assert f"endpoint baseline traffic {2 if collective == 'reduce_scatter' else 1} for 1" in text
        assert parse_module(SourceFile("m.ten", text)).network.endpoint_kinds == network.endpoint_kinds
    assert rates == {"reduce_scatter": 45 * 10**9, "all_gather": 90 * 10**9}


def test_networks_without_memory_are_left_alone() -> None:
    network, demand = requested(f"ring(5, {LINK})", "run all_gather(t.npus, size: 15MiB)")
    free = replace(network, endpoint_kinds=tuple(replace(kind, memory=None) for kind in network.endpoint_kinds))
    assert fed_for(free, demand) is free
