"""Classes of failures by symmetry, compared with isomorphisms that networkx finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from collc.base.diagnostics import SourceFile
from collc.graph.symmetries import SWITCHES, PartClasses, classify_parts, exchange_switches, find_symmetries
from collc.source.elaboration.elaborate import load_program, load_topology
from collc.ten.network import Network
from collc.ten.parts import Part, devices_and_links
from collc.verification.renaming_check import is_automorphism

NETWORKS = {
    "rail_only(3, 2, 2GB/s, 1GB/s, 1us, 1us)": "nic",
    "ring(6, bandwidth: 1GB/s, latency: 1us)": "cable",
    "ring(5, bandwidth: 1GB/s, latency: 1us)": "npu",
    "torus2d(3, 3, bandwidth: 1GB/s, latency: 1us)": "cable",
    "torus2d(3, 4, bandwidth: 1GB/s, latency: 1us)": "npu",
    "hypercube(3, bandwidth: 1GB/s, latency: 1us)": "npu",
    "fully_connected(5, bandwidth: 1GB/s, latency: 1us)": "cable",
    "mesh2d(2, 3, bandwidth: 1GB/s, latency: 1us)": "npu",
    "pods": "nic",
    "twins": "switch",
}
"""Expressions, with the parts of which two fail."""

PODS = """
topology twins {
    npu gpu[2, 2]
    switch nvswitch[6]
    switch leaf[2]
    for n in 0..2, i in 0..2 {
        link gpu[n, i] <-> leaf[i] (bandwidth: 1GB/s, latency: 1us)
        for s in 0..3 { link gpu[n, i] <-> nvswitch[3 * n + s] (bandwidth: 8GB/s, latency: 1us) }
    }
}
topology pods {
    npu gpu[4, 2]
    switch node[4]
    switch pod[2]
    switch core
    for n in 0..4, i in 0..2 {
        link gpu[n, i] <-> node[n] (bandwidth: 8GB/s, latency: 1us)
        link gpu[n, i] <-> pod[n // 2] (bandwidth: 1GB/s, latency: 1us)
    }
    for p in 0..2 { link pod[p] <-> core (bandwidth: 1GB/s, latency: 1us) }
    part nic[n in 0..4, i in 0..2] = { link gpu[n, i] <-> pod[n // 2] }
}
"""


def network_and_parts(expression: str, kind: str) -> tuple[Network, tuple[Part, ...]]:
    head = "import std.clusters\nimport std.topologies\nimport std.collectives\n" + PODS
    text = f"{head}topology t = {expression}\n"
    network = load_topology(SourceFile("p", text), "t")
    size = len(network.npus)
    text += f"schedule s on t {{ run all_gather(t.npus, size: {size}MiB) failures any {kind} }}"
    failures = load_program(SourceFile("p", text)).schedules[0].failures
    assert failures is not None
    return network, failures.parts


def classify_pairs(network: Network, parts: tuple[Part, ...]) -> tuple[np.ndarray, PartClasses]:
    pairs = np.array([*combinations(range(len(parts)), 2)], np.int64)
    symmetries = find_symmetries(network, lambda _npus: True)
    exchanges = exchange_switches(network, symmetries)
    return pairs, classify_parts(network, parts, pairs, symmetries.all + exchanges, 1000)


def marked_graph(network: Network, parts: list[Part]) -> nx.DiGraph:
    """The network as a graph in which the failed parts are marked."""
    devices, links = (set(numbers.tolist()) for numbers in devices_and_links(network, parts))
    graph = nx.DiGraph()
    graph.add_nodes_from((d, {"mark": (d < network.npu_count, d in devices)}) for d in range(network.device_count))
    rows = zip(network.source.tolist(), network.target.tolist(), network.kind.tolist(), strict=True)
    graph.add_edges_from((a, b, {"mark": (kind, k in links)}) for k, (a, b, kind) in enumerate(rows))
    return graph


def alike(left: nx.DiGraph, right: nx.DiGraph) -> bool:
    return nx.is_isomorphic(left, right, lambda a, b: a["mark"] == b["mark"], lambda a, b: a["mark"] == b["mark"])


@pytest.mark.parametrize("expression", NETWORKS)
def test_pairs_are_of_one_class_if_an_automorphism_takes_one_to_the_other(expression: str) -> None:
    network, parts = network_and_parts(expression, NETWORKS[expression])
    pairs, classes = classify_pairs(network, parts)
    firsts = np.unique(classes.number, return_index=True)[1]
    graphs = [marked_graph(network, [parts[part] for part in pairs[row]]) for row in firsts]
    for number in range(len(firsts)):
        last = np.flatnonzero(classes.number == number)[-1]
        assert alike(graphs[number], marked_graph(network, [parts[part] for part in pairs[last]]))
    for left, right in combinations(graphs if expression != "pods" else [], 2):  # nodes of a pod are no coordinate
        assert not alike(left, right)
    assert len(firsts) < len(pairs)


def test_the_classes_of_a_cluster() -> None:
    network, parts = network_and_parts("dgx_h100(3)", "nic")
    assert np.bincount(classify_pairs(network, parts)[1].number).tolist() == [84, 24, 168]  # in a node, on a rail, else
    for kind in ("nic", "gpu", "node", "rail", "cable"):
        network, parts = network_and_parts("dgx_h100(3)", kind)
        symmetries = find_symmetries(network, lambda _npus: True)
        rows = np.arange(len(parts))[:, None]
        classes = classify_parts(network, parts, rows, symmetries.all, 1000)
        assert classes.number.max() + 1 == (3 if kind == "cable" else 1)  # NVLinks, NICs, uplinks of leaves


def test_switches_with_the_same_links_are_alike_only_if_they_are_of_one_kind() -> None:
    network, _ = network_and_parts("twins", "switch")
    symmetries = find_symmetries(network, lambda _npus: True)
    exchanges = exchange_switches(network, symmetries)
    assert [each.move for each in exchanges] == [(SWITCHES, 4, 5, 0), (SWITCHES, 4, 6, 0)]
    assert all(is_automorphism(network, each.devices) for each in exchanges)
    buffers = network.buffers.copy()
    buffers[1] = 7
    other = replace(network, buffers=buffers)
    without = exchange_switches(other, find_symmetries(other, lambda _npus: True))
    assert [each.move for each in without] == [(SWITCHES, 4, 6, 0), (SWITCHES, 7, 8, 0), (SWITCHES, 7, 9, 0)]


def test_words_take_the_first_set_to_each() -> None:
    network, parts = network_and_parts("dgx_h100(3)", "gpu")
    symmetries = find_symmetries(network, lambda _npus: True)
    pairs, classes = classify_pairs(network, parts)
    firsts = np.unique(classes.number, return_index=True)[1]
    for row, pair in enumerate(pairs):
        devices = [parts[part].devices[0] for part in pairs[firsts[classes.number[row]]]]
        for number in classes.words(row):
            devices = [int(symmetries.all[number].devices[device]) for device in devices]
        assert sorted(devices) == [parts[part].devices[0] for part in pair]


def test_classes_beyond_the_limit_are_left() -> None:
    network, parts = network_and_parts("mesh2d(2, 3, bandwidth: 1GB/s, latency: 1us)", "npu")
    classes = classify_parts(network, parts, np.arange(6)[:, None], find_symmetries(network, lambda _npus: True).all, 1)
    assert classes.number.tolist() == [0, 0, -1, -1, 0, 0]


def test_moves_that_are_not_wanted_are_left_out() -> None:
    network, _ = network_and_parts("dgx_h100(3)", "gpu")
    assert find_symmetries(network, lambda npus: bool(npus[0] == 0)).all
    assert all(each.devices[0] == 0 for each in find_symmetries(network, lambda npus: bool(npus[0] == 0)).all)
    assert find_symmetries(network, lambda _npus: False).all == ()
