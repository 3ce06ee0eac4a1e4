"""The naive evaluator against results derived by hand from the rules of the language."""

from __future__ import annotations

import pytest

from tests.reference.evaluator import Topology, evaluate
from tests.reference.values import Device

GB = 10**9


def topology(text: str) -> Topology:
    return evaluate(f"import std.topologies {text} schedule s on t {{ }}").schedules()[0].topology


def ends(t: Topology) -> list[tuple[int, int]]:
    return [(k.source.number, k.target.number) for k in t.links]


def test_links_are_numbered_in_order_of_declaration() -> None:
    text = "topology t { npu a[2] switch s npu b for i in 0..2 { link a[i] <-> s link a[i] -> b } }"
    assert ends(topology(text)) == [(0, 3), (3, 0), (0, 2), (1, 3), (3, 1), (1, 2)]


def test_a_matrix_has_its_source_in_the_row() -> None:
    assert ends(topology("topology t { npu a[3] links [[0, 2, 0], [0, 0, 1], [1, 0, 0]] }")) == [
        (0, 1),
        (0, 1),
        (1, 2),
        (2, 0),
    ]


def test_a_product_counts_its_first_dimension_fastest() -> None:
    t = topology("topology t = line(3, 1GB/s, 1us) * ring(2, 2GB/s, 2us)")
    assert [d.label for d in t.npus[:4]] == ["npu[0, 0]", "npu[1, 0]", "npu[2, 0]", "npu[0, 1]"]
    slow = {(k.source.number, k.target.number) for k in t.links if k.bandwidth == GB}
    assert slow == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4)}
    assert set(ends(t)) - slow == {(0, 3), (3, 0), (1, 4), (4, 1), (2, 5), (5, 2)}


def test_a_switched_factor_has_a_switch_for_each_line() -> None:
    t = topology("topology t = ring(3, 1GB/s, 1us) * switched(4, 2GB/s, 2us)")
    assert (len(t.npus), len(t.switches), len(t.links)) == (12, 3, 24 + 24)


def test_without_keeps_the_numbers() -> None:
    t = topology("topology t = ring(5) without { npu 2, link 4 -> 0 }")
    assert [d.number for d in t.npus if d.present] == [0, 1, 3, 4]
    assert set(ends(t)) == {(0, 1), (1, 0), (3, 4), (4, 3), (0, 4)}


def test_unwound() -> None:
    t = topology("topology t = unwound(switched(4, bandwidth: 60GB/s, latency: 300ns), degree: 2)")
    assert set(ends(t)) == {(i, (i + d) % 4) for i in range(4) for d in (1, 2)}
    assert {(k.latency, k.bandwidth) for k in t.links} == {(600_000, 30 * GB)}
    assert t.switches == []


def test_copies_have_names_and_numbers_of_their_own() -> None:
    text = "topology n { npu a switch x npu b link a -> x } topology t { npu head use n as m[2] link head -> m[1].b }"
    t = topology(text)
    assert [d.label for d in t.npus] == ["head", "m[0].a", "m[0].b", "m[1].a", "m[1].b"]
    assert [d.label for d in t.switches] == ["m[0].x", "m[1].x"]
    assert ends(t) == [(1, 5), (3, 6), (0, 4)]


@pytest.mark.parametrize(
    ("group", "members"),
    [
        ("t.npus", [0, 1, 2, 3, 4, 5]),
        ("t.npu[1, *]", [3, 4, 5]),
        ("t.npu[*, 1]", [1, 4]),
        ("t.npu[*, 1..3]", [1, 2, 4, 5]),
        ("t.npu[1, [2, 0]]", [5, 3]),
        ("t.npu[1, {2, 0}]", [3, 5]),
        ("[t[4], t.npu[0, 2]]", [4, 2]),
        ("[t[i] for i in 0..6 if i % 2 == 1]", [1, 3, 5]),
        ("t.npus[1..3]", [1, 2]),
        ("rows[1]", [3, 4, 5]),
    ],
)
def test_groups(group: str, members: list[int]) -> None:
    text = "import std.topologies topology t = mesh2d(3, 2) group rows[y in 0..2] = t.npu[y, *] "
    found: list[Device] = evaluate(text + f"group g = {group}").globals["g"]
    assert [d.number for d in found] == members


def test_a_user_defined_collective() -> None:
    text = (
        "import std.topologies collective c(g: group, size: bytes) {"
        " for i in 0..2 { chunk x[i]: size / 2 pre x[i] at g[i] if i == 0 { pre x[i] at g[2] }"
        " post x[i] at {g[1], g[2]} }"
        ' chunk y: 3B pre y at g post reduce(y, "min") at g[0] }'
        " topology t = ring(3) schedule s on t { run c(t.npus, size: 8B) }"
    )
    chunks = evaluate(text).schedules()[0].runs[0].chunks
    assert [(c.name, c.indices, c.size, c.pre, c.post, c.op) for c in chunks] == [
        ("x", (0,), 4, [0, 2], [1, 2], "copy"),
        ("x", (1,), 4, [1], [1, 2], "copy"),
        ("y", (), 3, [0, 1, 2], [0], "min"),
    ]


def test_params_can_be_set_with_definitions() -> None:
    assert evaluate("param n: int = 2 let v = n * 3", n=5).globals["v"] == 15
