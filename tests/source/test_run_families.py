"""Loops over groups: kept as families, and equal to the runs that are written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError
from collc.ten.demand import Demand, FamilyRuns
from tests.source.test_elaborate import load

HEAD = """
import std.topologies
import std.collectives
topology net = mesh2d(4, 3, bandwidth: 100GB/s, latency: 0.5us)
group row[y in 0..3] = net.npu[y, *]
group line[x in 0..4] = net.npu[*, x]
group pair[x in 0..4, y in 0..2] = [net[11 - x - 4 * y], net[x]]
"""


def demand_of(folder: Path, body: str) -> Demand:
    """The demand of a schedule on `net`."""
    (request,) = load(folder, f"{HEAD}schedule s on net {{ {body} }}").schedules
    assert len(request.runs) == len(request.demand.runs)
    return request.demand


def assert_equal(left: Demand, right: Demand) -> None:
    """Compares all chunks; sets of holders are compared by their members."""
    assert [run.group.tolist() for run in left.runs] == [run.group.tolist() for run in right.runs]
    assert [run.standard for run in left.runs] == [run.standard for run in right.runs]
    assert left.first_chunk.tolist() == right.first_chunk.tolist()
    assert (left.chunk_count, left.least_transfers) == (right.chunk_count, right.least_transfers)
    for one, other in ((left.chunks, right.chunks), *zip(left.tables, right.tables, strict=True)):
        assert one.families == other.families
        for name in ("size", "op", "family", "index"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        for column in ("pre", "post"):
            rows = zip(getattr(one, column).tolist(), getattr(other, column).tolist(), strict=True)
            assert all(one.sets[a].tolist() == other.sets[b].tolist() for a, b in rows)


ROWS = [f"row[{y}]" for y in range(3)]
LINES = [f"line[{x}]" for x in range(4)]
SUM = "run all_reduce({}, size: 12KiB) "


@pytest.mark.parametrize(
    ("loop", "written", "families"),
    [
        ("for y in 0..3 { run all_reduce(row[y], size: 12KiB) }", [SUM.format(g) for g in ROWS], 1),
        (
            "for x in 0..4 { run all_reduce(line[x], size: 12KiB)  run all_gather(row[0], size: 12KiB) }",
            [SUM.format(g) + "run all_gather(row[0], size: 12KiB) " for g in LINES],
            8,  # groups that do not vary are no family
        ),
        (
            "for x in 0..4 { run all_reduce(line[x], size: 12KiB)  run broadcast(line[3 - x], size: 6B, root: 2) }",
            [SUM.format(f"line[{x}]") + f"run broadcast(line[{3 - x}], size: 6B, root: 2) " for x in range(4)],
            2,
        ),
        (
            "for x in 0..4 if x != 1 { let y = x  run all_to_all([net[y], net[11 - y], net[4]], size: 6B, chunks: 2) }",
            [f"run all_to_all([net[{x}], net[{11 - x}], net[4]], size: 6B, chunks: 2) " for x in (0, 2, 3)],
            1,
        ),
        (
            "for y in 0..2 { if y == 0 { run all_reduce(row[y], size: 12KiB) } "
            "for x in 0..4 { run gather(pair[x, y], size: 4B) } }",
            [
                *(SUM.format("row[0]"), *(f"run gather(pair[{x}, 0], size: 4B) " for x in range(4))),
                *(f"run gather(pair[{x}, 1], size: 4B) " for x in range(4)),
            ],
            2,
        ),
        ("for x in 0..4 { run broadcast(line[x], size: 6B, root: x % 3) }", None, 4),
        ("for n in 1..4 { run all_gather([net[i] for i in 0..n], size: 12B) }", None, 3),
    ],
)
def test_a_loop_is_what_is_written_out(loop: str, written: list[str] | None, families: int, tmp_path: Path) -> None:
    found = demand_of(tmp_path, loop)
    assert len(found.by_family.families) == families
    assert isinstance(found.runs, FamilyRuns) == (families < len(found.runs))
    if written is not None:
        assert_equal(found, demand_of(tmp_path, "".join(written)))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.permutations(range(12)), min_size=2, max_size=5), st.integers(2, 5), st.integers(1, 3))
def test_groups_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, orders: list[list[int]], size: int, chunks: int
) -> None:
    folder = tmp_path_factory.mktemp("run")
    call = f"size: {60 * size * chunks}B, chunks: {chunks})"
    groups = [order[:size] for order in orders]
    for collective in ("all_reduce", "all_gather", "reduce", "scatter", "all_to_all"):
        one = f"for k in 0..{len(groups)} {{ run {collective}([net[i] for i in {groups}[k]], {call} }}"
        written = "".join(f"run {collective}([{', '.join(f'net[{i}]' for i in group)}], {call} " for group in groups)
        found = demand_of(folder, one)
        assert len(found.by_family.families) == 1
        assert_equal(found, demand_of(folder, written))


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("for y in 0..4 { run all_reduce(row[y], size: 12KiB) }", "E0414", "[3]"),
        ("for x in 0..4 { run all_reduce(line[x], size: 10B) }", "E0218", "10 bytes / 3"),
        ("for x in 0..4 { run all_reduce([net[x], net[2]], size: 12B) }", "E0401", "twice"),
        ("for x in 0..4 { run all_reduce([i for i in 0..x], size: 12B) }", "E0211", "group"),
        ('for x in 0..4 { run all_reduce(line[x], size: 12KiB) emit ten("f.ten") }', "", ""),
    ],
)
def test_errors_in_a_loop(body: str, code: str, text: str, tmp_path: Path) -> None:
    if not code:
        demand_of(tmp_path, body)
        return
    with pytest.raises(SourceError) as error:
        demand_of(tmp_path, body)
    assert error.value.diagnostics[0].code == code
    assert text in error.value.diagnostics[0].message


def test_a_loop_of_100_000_groups_makes_one_family(tmp_path: Path) -> None:
    program = """
import std.clusters
import std.collectives
topology net = dgx_h100(12500)
group tp[n in 0..12500] = net.gpu[n, *]
schedule s on net {
    for n in 0..12500 { run all_reduce(tp[n], size: 64MiB) }
    for r in 0..4, n in 0..25000 { run broadcast([net[n], net[n + 25000 * r]], size: 1MiB) if n != n + 25000 * r }
}
""".replace(" if n != n + 25000 * r", "").replace("r in 0..4", "r in 1..4")
    (request,) = load(tmp_path, program).schedules
    assert len(request.demand.runs) == 12500 + 75000
    assert [len(family) for family in request.demand.by_family.families] == [12500, 75000]


def test_a_slice_with_a_loop_variable_differs_in_each_iteration(tmp_path: Path) -> None:
    collective = """
collective columns(g: group) {
    for x in 0..4 {
        chunk c[x]: 4B
        pre  c[x] at net.npu[0, x]
        post c[x] at net.npu[*, x]
    }
}
"""
    (request,) = load(tmp_path, f"{HEAD}{collective}schedule s on net {{ run columns(net.npus) }}").schedules
    table = request.demand.chunks
    assert [table.sets[post].tolist() for post in table.post.tolist()] == [[x, 4 + x, 8 + x] for x in range(4)]


def test_the_members_of_copies_differ_in_each_iteration(tmp_path: Path) -> None:
    program = """
import std.collectives
topology node {
    npu gpu[4]
    for i in 0..4 { link gpu[i] <-> gpu[(i + 1) % 4] (bandwidth: 1GB/s, latency: 1us) }
}
topology net {
    use node as node[3]
    for n in 0..3, i in 0..4 { link node[n].gpu[i] <-> node[(n + 1) % 3].gpu[i] (bandwidth: 1GB/s, latency: 1us) }
}
group inside[n in 0..3] = net.node[n].gpu[1..3]
schedule s on net { for n in 0..3 { run all_gather(inside[n], size: 4B) } }
"""
    (request,) = load(tmp_path, program).schedules
    assert [run.group.tolist() for run in request.demand.runs] == [[4 * n + 1, 4 * n + 2] for n in range(3)]


def test_wrong_arguments_of_more_chunks_than_are_listed(tmp_path: Path) -> None:
    """67 million chunks of an All-to-All, which are never listed."""
    head = "import std.clusters\nimport std.collectives\ntopology net = dgx_h100(1024)\n"
    for call, code in (("size: 64000001B", "E0218"), ("size: 0B", "E0408"), ("size: 64MiB, chunks: 2", "")):
        program = f"{head}schedule s on net {{ run all_to_all(net.npus, {call}) }}"
        if not code:
            load(tmp_path, program)
            continue
        with pytest.raises(SourceError) as error:
            load(tmp_path, program)
        assert [d.code for d in error.value.diagnostics] == [code]
