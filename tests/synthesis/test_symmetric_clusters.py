"""Schedules of clusters by symmetry: valid on all shapes of networks, and as near to the bounds as was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import collc
from benchmarks.problems import program_of
from collc.base.diagnostics import SourceError
from collc.graph.translations import find_translations
from collc.passes.synthesizers import auto
from collc.synthesis.symmetric import is_cluster, symmetric_module
from collc.synthesis.symmetric.class_timetable import ClassTimes, Routes
from collc.synthesis.symmetric.level_plan import levels_of
from collc.synthesis.task import Effort
from collc.ten.demand import Demand
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, RowSchedule
from collc.ten.text.write import format_module
from collc.verification import verify_schedule
from collc.verification.schedule_check import is_proved
from tests.support import MiB, all_gather, all_reduce, all_to_all, broadcast, network, reduce_scatter, switched
from tests.synthesis.clusters import NIC, NVLINK, both, fat_tree, pods, rails, shuffled, unlisted

KINDS = {
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_reduce": all_reduce,
    "all_to_all": all_to_all,
}
NETWORKS = [
    switched(6),
    rails(4, 4),
    rails(3, 8, spine=True),
    pods(3, 2, 2),
    pods(2, 3, 4, spines=2),
    pods(2, 4, 2, oversubscribed=4),
    fat_tree(4),
    shuffled(pods(2, 2, 3), 1),
    shuffled(fat_tree(4), 2),
]


def module_of(net: Network, kind: str, chunks: int, model: LinkModel) -> Module:
    """Ranks are not in the order of NPUs."""
    group = np.random.default_rng(net.npu_count).permutation(net.npu_count).tolist()
    return Module("m", net, KINDS[kind](group, chunk=4096, chunks=chunks), model)


def planned(module: Module) -> tuple[Module, FactoredSchedule]:
    found = symmetric_module(module, Effort())
    assert isinstance(found.schedule, FactoredSchedule)
    return found, found.schedule


def time_of(net: Network, kind: str, chunks: int, size: int = 2**30) -> int:
    demand = unlisted(kind, net.npu_count, chunks, size)
    module, schedule = planned(Module("m", net, demand, LinkModel.PIPELINED))
    return schedule.collective_time(net, module.demand)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("net", NETWORKS, ids=lambda net: net.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", LinkModel)
def test_schedules_are_valid(net: Network, kind: str, model: LinkModel) -> None:
    for chunks in (1, 3):
        module, schedule = planned(module_of(net, kind, chunks, model))
        rows = RowSchedule(model, schedule.transfers)
        verdict = verify_schedule(module.with_schedule(rows, ""))
        assert verdict.ok, verdict.diagnostics
        assert len(rows) == len(schedule)
        assert rows.collective_time(net, module.demand) == schedule.collective_time(net, module.demand)


@given(st.integers(2, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=20, deadline=None)
def test_any_pods(count: int, nodes: int, size: int, spines: int, over: int, data: st.DataObject) -> None:
    net = shuffled(pods(count, nodes, size, spines, over), data.draw(st.integers(0, 9)))
    kind, model = data.draw(st.sampled_from(list(KINDS))), data.draw(st.sampled_from(LinkModel))
    module, schedule = planned(module_of(net, kind, 2, model))
    verdict = verify_schedule(module.with_schedule(RowSchedule(model, schedule.transfers), ""))
    assert verdict.ok, verdict.diagnostics


def test_large_buffers_come_near_the_cut_of_a_node() -> None:
    """The bound is what enters a node, over its eight NICs of 50 GB/s; the numbers are those of a prototype."""
    for nodes, chunks, limit in ((16, 8, 1.02), (64, 4, 1.01), (64, 8, 1.01)):
        net = rails(nodes, 8, spine=True)
        bound = (nodes - 1) / nodes * 2**30 / 400e9 * 1e12
        assert time_of(net, "all_gather", chunks) <= limit * bound
        assert time_of(net, "reduce_scatter", chunks) <= limit * bound
        assert time_of(net, "all_reduce", chunks) <= 2 * limit * bound
        assert time_of(net, "all_to_all", 1) <= 1.01 * 8 * (nodes - 1) * (2**30 / net.npu_count) / 50e9 * 1e12


def test_small_buffers_pay_one_latency_of_each_level() -> None:
    nodes = 64
    time = time_of(rails(nodes, 8), "all_gather", 1, MiB)
    assert time <= 1.06 * ((nodes - 1) / nodes * MiB / 400e9 * 1e12 + 2 * (850_000 + 350_000))


@pytest.mark.parametrize(
    ("nodes", "size", "crossed"),
    [
        (16, 1024, (1, 1)),  # one-shot in the nodes, one-shot on the rails
        (16, 8192, (2, 1)),  # scattered and gathered in the nodes, one-shot on the rails
        (16, 2**20, (2, 2)),
        (64, 1024, (2, 1)),
    ],
)
def test_small_sums_cross_a_level_once(nodes: int, size: int, crossed: tuple[int, int]) -> None:
    """Latencies of the levels, and bytes over the links of a GPU; closed forms of a prototype."""
    nvlink, rail = 700_000, 1_700_000
    bytes_in_node = 7 * size if crossed[0] == 1 else 2 * 7 * size / 8
    share = size if crossed[0] == 1 else size / 8
    over_rail = share * (nodes - 1) * (1 if crossed[1] == 1 else 2 / nodes)
    data = bytes_in_node / 450e9 * 1e12 + over_rail / 50e9 * 1e12
    time = time_of(rails(nodes, 8, spine=True), "all_reduce", 1, size)
    assert time <= 1.01 * (crossed[0] * nvlink + crossed[1] * rail + data)
    if crossed != (2, 2):
        assert time < 2 * (nvlink + rail)  # what a Reduce-Scatter and an All-Gather take at least


@pytest.mark.parametrize("net", [*NETWORKS, switched(9)], ids=lambda net: net.name)
def test_small_sums_are_valid(net: Network) -> None:
    group = np.random.default_rng(1).permutation(net.npu_count).tolist()
    for chunk, chunks in ((8, 2), (256, 1), (4096, 1)):
        demand = all_reduce(group, chunk=chunk, chunks=chunks)
        module, schedule = planned(Module("m", net, demand, LinkModel.PIPELINED))
        rows = RowSchedule(LinkModel.PIPELINED, schedule.transfers)
        verdict = verify_schedule(module.with_schedule(rows, ""))
        assert verdict.ok, verdict.diagnostics
        assert is_proved(module, schedule)


def test_one_switch_meets_its_bound() -> None:
    net, size = switched(12), 12 * MiB
    rate, latency = float(net.kinds[0].bandwidth or 0), net.kinds[0].latency or 0
    each = MiB / rate * 1e12
    for kind in ("all_gather", "reduce_scatter", "all_to_all"):
        time = time_of(net, kind, 1, size)
        assert time == pytest.approx(12 * each + 2 * latency, abs=20)  # eleven chunks, and the last goes on


def test_several_switches_carry_equally_much() -> None:
    """Of four chunks to seven others, each of four switches carries seven; the last one goes on."""
    links = [link for npu in range(8) for switch in range(8, 12) for link in both(npu, switch, NVLINK)]
    each = MiB / float(NVLINK.bandwidth or 0) * 1e12
    for kind in ("all_gather", "reduce_scatter", "all_to_all"):
        time = time_of(network(8, links, switches=4), kind, 4, 32 * MiB)
        assert time == pytest.approx(8 * each + 2 * (NVLINK.latency or 0), abs=20)


def test_levels_are_gpus_then_nodes_then_pods() -> None:
    net = pods(3, 4, 2)
    group = find_translations(net)
    assert group is not None
    times = ClassTimes.of(net, group, LinkModel.PIPELINED, MiB)
    distance = Routes(net, group, times, through=False).distance[group.orbits[0]]
    levels = levels_of(group, distance)
    assert levels is not None
    assert [moves.tolist() for moves in levels] == [[8, 16], [2, 4, 6], [1]]
    assert levels_of(group, np.where(np.arange(24) < 8, distance, 2**62)) is None  # pods that nothing joins


def test_8192_gpus_are_planned_and_proved_without_listing_chunks() -> None:
    net = rails(1024, 8, spine=True)
    rates = {"all_gather": 400e9, "all_reduce": 200e9, "all_to_all": 50e9}
    for kind, rate in rates.items():
        module, schedule = planned(Module("m", net, unlisted(kind, 8192, 1, 2**30), LinkModel.PIPELINED))
        assert verify_schedule(module).ok
        assert len(schedule) == 8192 * len(schedule.rows)
        bound = 2**30 / rate * 1023 / 1024 * 1e12
        assert schedule.collective_time(net, module.demand) <= 1.01 * bound


def test_a_compilation_lists_no_blocks() -> None:
    text = program_of("dgx_h100(2)", "all_to_all", MiB, 1, 'symmetric(link_model: "pipelined")')
    module = collc.compile_text(text).schedules[0].kept_module()
    assert isinstance(module.schedule, FactoredSchedule)
    assert "tables" not in vars(module.demand)


def test_auto_lists_no_millions_of_chunks() -> None:
    module = Module("m", rails(300, 8), unlisted("all_to_all", 2400, 1, 2**30), LinkModel.PIPELINED)
    found = auto(module, Effort())
    assert found.algorithm == "symmetric"
    assert "21,561,600 transfers" in found.notes[-1]
    assert verify_schedule(found).ok


def test_nodes_of_directly_linked_gpus() -> None:
    """Eight nodes of four GPUs that are all linked to each other, and rails; rings in the nodes are left to others."""
    for inner in (range(1, 4), (1, 3)):
        links = [(4 * n + i, 4 * n + (i + by) % 4, NVLINK) for n in range(8) for i in range(4) for by in inner]
        links += [link for npu in range(32) for link in both(npu, 32 + npu % 4, NIC)]
        net = network(32, links, switches=4, shape=(8, 4))
        module = module_of(net, "all_reduce", 1, LinkModel.PIPELINED)
        if len(inner) == 3:
            assert verify_schedule(planned(module)[0]).ok
        else:
            with pytest.raises(SourceError):
                symmetric_module(module, Effort())


def test_factored_schedules_are_written_as_rows() -> None:
    module, schedule = planned(module_of(rails(2, 2), "all_reduce", 1, LinkModel.STORE))
    rows = module.with_schedule(RowSchedule(schedule.model, schedule.transfers), "")
    assert format_module(module) == format_module(replace(rows, algorithm=module.algorithm))
    assert schedule.transfers.is_sorted
    blocks = list(schedule.blocks(10))
    assert len(blocks) > 2
    assert np.array_equal(np.concatenate([block.link for block in blocks]), schedule.transfers.link)


def test_what_is_no_cluster_is_left_to_others() -> None:
    limited = switched(4, buffer=2)
    uneven = network(4, [link for n in range(3) for link in both(n, 4, NIC)] + both(0, 3, NIC), switches=1)
    for net in (limited, uneven):
        module = module_of(net, "all_gather", 1, LinkModel.STORE)
        assert not is_cluster(module)
        with pytest.raises(SourceError) as error:
            symmetric_module(module, Effort())
        assert error.value.diagnostics[0].code == "S0303"
    group = all_gather([0, 1, 2])
    assert not is_cluster(Module("m", switched(4), group))
    two = Demand((*group.runs, *group.runs))
    assert not is_cluster(Module("m", switched(3), two))
    assert not is_cluster(Module("m", switched(3), broadcast([0, 1, 2])))
    assert is_cluster(Module("m", switched(3), group))


def test_links_without_bandwidth_are_named() -> None:
    shape = replace(switched(4), kinds=(LinkKind(None, None),))
    with pytest.raises(SourceError) as error:
        symmetric_module(Module("m", shape, all_gather([0, 1, 2, 3])), Effort())
    assert error.value.diagnostics[0].code == "S0105"


@pytest.mark.parametrize("over", [1, 2, 4])
def test_oversubscribed_pods_come_near_the_cut_of_a_node(over: int) -> None:
    """Sixteen nodes in four pods: what enters a node takes longer than what enters a pod over shared links."""
    net = pods(4, 4, 8, 1, over)
    chunks, chunk = 16, 2**18
    bound = 15 * chunks * chunk / 50e9 * 1e12
    assert time_of(net, "all_gather", chunks, 128 * chunks * chunk) <= 1.03 * bound
    assert time_of(net, "all_reduce", chunks, 128 * chunks * chunk) <= 2 * 1.03 * bound
    pod_cut = 32 * 96 * chunk * over / (32 * 50e9) * 1e12
    assert time_of(net, "all_to_all", 1, 128 * chunk) <= 1.05 * max(120 * chunk / 50e9 * 1e12, pod_cut)


def test_fat_trees_use_all_of_their_links() -> None:
    """Every GPU receives without a pause, once the first chunk has crossed six links."""
    net, chunk = fat_tree(8), 2**18
    each = chunk / 50e9 * 1e12
    for kind in ("all_gather", "all_to_all"):
        time = time_of(net, kind, 4, 128 * 4 * chunk)
        assert time <= (127 * 4 + 5) * each + 6 * (NIC.latency or 0) + 100
