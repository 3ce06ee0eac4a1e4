"""Every algorithm of the standard library, executed by the naive executor for 1 to 9 members."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2

import pytest

from tests.reference.evaluator import Run, evaluate, library
from tests.reference.executor import busiest, most_ports, rounds, steps_of, unmet

HEAD = "import std.topologies import std.collectives import std.algorithms "
ROOTED = ("broadcast", "reduce", "scatter", "gather")


def depth(n: int) -> int:
    return ceil(log2(n))


def bidirectional(n: int, k: int) -> int:
    """Steps of the bidirectional All-Gather; see the comment in the library."""
    if n == 2:
        return k
    return (n - 1) // 2 * k + (ceil(k / 2) if n % 2 == 0 else 0)


def bidirectional_all_to_all(n: int, k: int) -> int:
    half = (n - 1) // 2
    if n == 2:
        return k
    return half * (half + 1) // 2 * k + (n // 2 * ceil(k / 2) if n % 2 == 0 else 0)


def doubling(n: int, k: int) -> int:
    p = 2 ** int(log2(n))
    if n == p:
        return (n - 1) * k
    return k * (p - 1 + sum(min(2**m, n - p) for m in range(int(log2(p)))) + n)


def tree(n: int, chunks: int) -> int:
    return depth(n) - 1 + ceil(chunks / min(2, n - 1))


Steps = Callable[[int, int], int]

STEPS: dict[tuple[str, str], Steps] = {
    ("ring", "all_gather"): lambda n, k: (n - 1) * k,
    ("ring", "reduce_scatter"): lambda n, k: (n - 1) * k,
    ("ring", "all_reduce"): lambda n, k: 2 * (n - 1) * k,
    ("ring", "broadcast"): lambda n, k: n - 2 + k,
    ("ring", "reduce"): lambda n, k: n - 2 + k,
    ("ring", "scatter"): lambda n, k: (n - 1) * k,
    ("ring", "gather"): lambda n, k: (n - 1) * k,
    ("ring", "all_to_all"): lambda n, k: n * (n - 1) // 2 * k,
    ("bidirectional_ring", "all_gather"): bidirectional,
    ("bidirectional_ring", "reduce_scatter"): bidirectional,
    ("bidirectional_ring", "all_reduce"): lambda n, k: 2 * bidirectional(n, k),
    ("bidirectional_ring", "broadcast"): lambda n, k: n // 2 - 1 + k,
    ("bidirectional_ring", "reduce"): lambda n, k: n // 2 - 1 + k,
    ("bidirectional_ring", "all_to_all"): bidirectional_all_to_all,
    ("direct", "all_gather"): lambda n, k: k,
    ("direct", "reduce_scatter"): lambda n, k: k,
    ("direct", "all_reduce"): lambda n, k: 2 * k,
    ("direct", "all_to_all"): lambda n, k: k,
    ("direct", "broadcast"): lambda n, k: k,
    ("direct", "reduce"): lambda n, k: k,
    ("direct", "scatter"): lambda n, k: k,
    ("direct", "gather"): lambda n, k: k,
    ("pairwise", "all_gather"): lambda n, k: (n - 1) * k,
    ("pairwise", "reduce_scatter"): lambda n, k: (n - 1) * k,
    ("pairwise", "all_reduce"): lambda n, k: 2 * (n - 1) * k,
    ("pairwise", "all_to_all"): lambda n, k: (n - 1) * k,
    ("recursive_halving_doubling", "all_gather"): doubling,
    ("recursive_halving_doubling", "reduce_scatter"): doubling,
    ("recursive_halving_doubling", "all_reduce"): lambda n, k: 2 * doubling(n, k),
    ("binomial_tree", "broadcast"): lambda n, k: depth(n) - 1 + k,
    ("binomial_tree", "reduce"): lambda n, k: depth(n) - 1 + k,
    ("double_binary_tree", "broadcast"): tree,
    ("double_binary_tree", "reduce"): tree,
    ("double_binary_tree", "all_reduce"): lambda n, k: 2 * tree(n, n * k),
    ("hierarchical", "all_gather"): lambda n, k: (n - 1) * k,
    ("hierarchical", "reduce_scatter"): lambda n, k: (n - 1) * k,
    ("hierarchical", "all_reduce"): lambda n, k: 2 * (n - 1) * k,
    ("hierarchical", "all_to_all"): lambda n, k: (n - 1) * k,
}

ONE_PORT = ("ring", "pairwise", "recursive_halving_doubling", "hierarchical")
"""Algorithms in which every member sends at most one chunk and receives at most one in a step."""


def run_of(collective: str, n: int, using: str, arguments: str = "") -> Run:
    """One run on n fully connected NPUs, with 5040 bytes a block."""
    what = f"run {collective}(t.npus, {arguments}) using {using}"
    return evaluate(HEAD + f"topology t = fully_connected({n}) schedule s on t {{ {what} }}").schedules()[0].runs[0]


def textbook(name: str, collective: str, n: int, k: int, root: int = 0) -> Run:
    rooted = f", root: {root}" if collective in ROOTED else ""
    return run_of(collective, n, name, f"size: {5040 * n}B, chunks: {k}{rooted}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "collective"), STEPS)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 8, 9])
def test_result_and_steps(name: str, collective: str, n: int) -> None:
    for k in (1, 2, 3) if n < 6 else (1, 2):
        run = textbook(name, collective, n, k, root=n // 2)
        assert unmet(run) == []
        assert steps_of(run.moves or []) == STEPS[name, collective](n, k)
        assert busiest(run) == 1
        if name in ONE_PORT:
            assert most_ports(run) == 1


@pytest.mark.parametrize(("name", "collective"), STEPS)
def test_one_member_sends_nothing(name: str, collective: str) -> None:
    run = textbook(name, collective, 1, 2)
    assert (run.moves, unmet(run)) == ([], [])


def test_every_algorithm_of_the_library_is_tested() -> None:
    found = {(x.name.name, x.implements.function.name) for x in library("algorithms").statements[1:]}
    assert found == {*STEPS, ("direct", "all_to_allv")}


def test_the_table_has_the_numbers_of_the_textbooks() -> None:
    assert [STEPS["ring", "all_reduce"](n, 1) for n in (2, 4, 8)] == [2, 6, 14]
    assert [STEPS["bidirectional_ring", "all_gather"](8, k) for k in (1, 2)] == [4, 7]
    assert [STEPS["binomial_tree", "broadcast"](n, 1) for n in (2, 5, 8, 9)] == [1, 3, 3, 4]
    assert STEPS["bidirectional_ring", "all_to_all"](8, 2) == 2 * 8 * 8 // 8


@pytest.mark.parametrize(("n", "exchanges"), [(2, 1), (4, 2), (8, 3)])
def test_recursive_doubling_has_log2_exchanges(n: int, exchanges: int) -> None:
    for collective, times in (("all_gather", 1), ("reduce_scatter", 1)):
        assert rounds(textbook("recursive_halving_doubling", collective, n, 1)) == times * exchanges


@pytest.mark.parametrize("shape", [[2, 4], [4, 2], [3, 3], [2, 2, 2], [3, 2, 2], [2, 2, 1, 3], [5]])
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_hierarchical_sends_along_one_dimension_after_another(collective: str, shape: list[int]) -> None:
    n = 1
    for size in shape:
        n *= size
    run = run_of(collective, n, f"hierarchical(shape: {shape})", f"size: {5040 * n}B, chunks: 2")
    assert unmet(run) == []
    assert steps_of(run.moves or []) == 2 * STEPS["ring", collective](n, 1)
    stride, lines = 1, set()
    for size in shape:
        for i in range(n):
            place = i // stride % size
            lines.add((i, i + stride * ((place + 1) % size - place)))
        stride *= size
    assert {(m.source, m.target) for m in run.moves or []} <= lines
    assert most_ports(run) == 1


@pytest.mark.parametrize("shape", [[2, 4], [3, 3], [2, 3, 2]])
def test_hierarchical_all_to_all(shape: list[int]) -> None:
    n = 1
    for size in shape:
        n *= size
    run = run_of("all_to_all", n, f"hierarchical(shape: {shape})", f"size: {n * 8}B, chunks: 2")
    assert unmet(run) == []
    assert steps_of(run.moves or []) == 2 * sum(n // p * (p - 1) for p in shape)
    assert most_ports(run) == 1


@pytest.mark.parametrize(("name", "one_way"), [("ring", True), ("bidirectional_ring", False)])
def test_rings_use_the_links_of_a_ring(name: str, one_way: bool) -> None:
    for collective in (c for a, c in STEPS if a == name):
        for n in (3, 6, 7):
            offsets = [1] if one_way else [1, n - 1]
            moves = textbook(name, collective, n, 1, root=1).moves or []
            assert {(m.target - m.source) % n for m in moves} <= set(offsets)


@pytest.mark.parametrize("n", range(3, 20))
def test_both_trees_share_the_work(n: int) -> None:
    run = textbook("double_binary_tree", "broadcast", n, 2)
    passing_on = [{m.source for m in run.moves or [] if m.chunk == c} - {0} for c in (0, 1)]
    assert not passing_on[0] & passing_on[1]
    assert steps_of(run.moves or []) == depth(n)


def test_all_to_allv_has_no_empty_chunks() -> None:
    sizes = "[[0B, 5B, 2B], [1B, 0B, 0B], [4B, 4B, 3B]]"
    run = run_of("all_to_allv", 3, "direct", f"sizes: {sizes}, chunk: 2B")
    assert [c.size for c in run.chunks if c.indices[:2] == (0, 1)] == [2, 2, 1]
    assert not [c for c in run.chunks if c.indices[:2] in ((0, 0), (1, 2))]
    assert sum(c.size for c in run.chunks) == 19
    assert unmet(run) == []
    assert steps_of(run.moves or []) == 3


def test_the_executor_finds_errors() -> None:
    run = textbook("ring", "all_reduce", 4, 1)
    moves = run.moves or []
    assert unmet(Run(run.collective, run.group, run.chunks, moves[:-1]))
    doubled = [*moves, *(m for m in moves if m.reduce and m.step == 2)]
    assert unmet(Run(run.collective, run.group, run.chunks, doubled))
    assert busiest(Run(run.collective, run.group, run.chunks, doubled)) == 2
