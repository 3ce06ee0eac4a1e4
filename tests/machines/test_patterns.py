"""Loops over links yield just the links, and clusters that are not quite regular stay short programs."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.application.machines.importing import import_machine
from collc.base.diagnostics import SourceFile
from collc.machines.loops import loops
from collc.machines.reading import ImportOptions
from collc.source.formatting.format import format_source
from tests.machines import formats
from tests.machines.formats import links

RATES = {"nvlink": "450GB/s", "nic": "400Gb/s", "uplink": "1600Gb/s"}
ONE = {"nic": "400Gb/s", "uplink": "1600Gb/s"}


def evaluated(found):
    """The pairs of loops, evaluated as Python, whose // and % are those of the language for numbers of at least 0."""
    made = []

    def visit(loop, ranges, place):
        if not ranges:
            if not loop.condition or eval(loop.condition, dict(place)):
                made.append(tuple(tuple(eval(text, dict(place)) for text in end) for end in (loop.source, loop.target)))
            return
        (name, text), *rest = ranges
        start, dots, stop = text.partition("..")
        values = range(eval(start, dict(place)), eval(stop, dict(place))) if dots else eval(text, dict(place))
        for value in values:
            visit(loop, rest, place | {name: value})

    for loop in found:
        visit(loop, loop.ranges, {})
    return sorted(made)


def leaves(sizes):
    """The links from GPU k of each node to the leaf of its node; sizes: nodes below each leaf."""
    of = [leaf for leaf, size in enumerate(sizes) for _ in range(size)]
    return [((node, k), (leaf,)) for node, leaf in enumerate(of) for k in range(4)]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(0, 3), st.randoms(use_true_random=False))
def test_loops_yield_the_links(sizes, lost, chance):
    pairs = leaves(sizes)
    chance.shuffle(pairs)
    pairs = pairs[lost:]
    found = loops(pairs) if pairs else []
    assert found is None or evaluated(found) == sorted(pairs)


@settings(max_examples=30)
@given(st.sets(st.tuples(st.tuples(st.integers(0, 4), st.integers(0, 2)), st.tuples(st.integers(0, 3))), min_size=1))
def test_loops_of_any_links(pairs):
    found = loops(sorted(pairs))
    assert found is None or evaluated(found) == sorted(pairs)


@settings(max_examples=30)
@given(st.sets(st.tuples(st.tuples(st.integers(0, 5)), st.tuples(st.integers(0, 5))), min_size=1))
def test_loops_between_single_devices(pairs):
    found = loops(sorted(pairs))
    assert found is None or evaluated(found) == sorted(pairs)


def test_leaves_of_unequal_size_are_one_loop_over_a_table():
    found = loops(leaves([31, 32, 32, 31, 32, 31]))
    assert found is not None
    assert len(found) == 1
    assert evaluated(found) == sorted(leaves([31, 32, 32, 31, 32, 31]))


def test_missing_links_are_loops_around_them():
    pairs = [((node, k), (k,)) for node in range(200) for k in range(8)]
    lost = [((17, 3), (3,)), ((17, 4), (4,)), ((120, 0), (0,))]
    found = loops([pair for pair in pairs if pair not in lost])
    assert found is not None
    assert len(found) <= 8
    assert evaluated(found) == sorted({*pairs} - {*lost})


@pytest.mark.parametrize("gpus", [1, 8])
def test_a_thousand_nodes_on_leaves_of_unequal_size(imported, gpus):
    chance, first, rows = random.Random(3), 1, []
    for leaf in range(32):
        size = chance.choice([31, 32])
        rows.append(f"SwitchName=leaf{leaf} Nodes=gpu[{first:04}-{first + size - 1:04}]")
        first += size
    text = "\n".join([*rows, "SwitchName=root Switches=leaf[0-31]"])
    network, program = imported(text, gpus_per_node=gpus, definitions=RATES if gpus > 1 else ONE)
    assert network.npu_count == (first - 1) * gpus
    assert program.count("\n") < 80  # 8,042 with a line for each link
    assert program.count("use pod_node") == 1


def test_a_nic_that_is_not_plugged_in(imported):
    """One of 512 cables is missing: the others stay loops."""
    hosts = [(f"node{n:02}", f"mlx5_{at}", at) for n in range(64) for at in range(8) if (n, at) != (40, 5)]
    cables = [(leaf, 8) for leaf in range(8)]
    text = formats.ibnetdiscover([*(f"leaf{at}" for at in range(8)), "spine"], cables, hosts)
    node = formats.nccl_node(8, switch_links=18, nics=[(f"mlx5_{at}", 400_000) for at in range(8)])
    network, program = imported(text, node=("nccl", node))
    assert program.count("\n") < 70
    nics = [pair for pair in links(network) if pair[0] < 512 and pair[1] >= 512 + 64]
    assert len(nics) == 511
    assert not any(a == 40 * 8 + 5 for a, *_ in nics)


def test_a_long_list_of_links_has_the_layout_of_the_formatter(tmp_path):
    chance = random.Random(5)
    edges = {(chance.randrange(300), chance.randrange(300)): chance.choice([1, 2]) for _ in range(2000)}
    listed = [{"source": a, "target": b, "bw": rate} for (a, b), rate in edges.items() if a != b]
    graph = {"directed": True, "multigraph": False, "nodes": [{"id": n} for n in range(300)], "edges": listed}
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    program = import_machine(ImportOptions((tmp_path / "graph.json",), capacity="bw=GB/s", npu="all"))
    assert program.count("\n") > 1600
    assert format_source(SourceFile("pod.coll", program)) == program
    assert formats.network_of(program, "pod", tmp_path).link_count == len(listed)
