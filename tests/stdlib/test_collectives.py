"""The collectives of the standard library against those built in Python."""

from __future__ import annotations

import pytest

from collc.ten.demand import Demand, Op
from tests import support
from tests.reference.evaluator import Chunk, evaluate, library

GROUP = [2, 0, 3]
HEAD = "import std.topologies import std.collectives topology t = ring(5) group g = [t[2], t[0], t[3]] "


def chunks_of(call: str) -> list[Chunk]:
    return evaluate(HEAD + f"schedule s on t {{ run {call} }}").schedules()[0].runs[0].chunks


Row = tuple[tuple[int, ...], int, list[int], list[int], str]


def rows(chunks: list[Chunk]) -> list[Row]:
    return [(c.indices, c.size, c.pre, c.post, c.op) for c in chunks]


def expected(demand: Demand) -> list[Row]:
    table = demand.tables[0]
    return [
        (
            tuple(table.index[i].tolist()),
            int(table.size[i]),
            table.sets[int(table.pre[i])].tolist(),
            table.sets[int(table.post[i])].tolist(),
            Op(int(table.op[i])).name.lower(),
        )
        for i in range(len(table))
    ]


SAME = {
    "all_gather(g, size: 60B)": support.all_gather(GROUP, 20),
    "all_gather(g, 60B, chunks: 2)": support.all_gather(GROUP, 10, 2),
    "reduce_scatter(g, size: 60B, chunks: 2)": support.reduce_scatter(GROUP, 10, 2),
    'reduce_scatter(g, size: 60B, op: "max")': support.reduce_scatter(GROUP, 20, 1, Op.MAX),
    "all_reduce(g, size: 60B, chunks: 4)": support.all_reduce(GROUP, 5, 4),
    'all_reduce(g, size: 60B, op: "prod")': support.all_reduce(GROUP, 20, 1, Op.PROD),
    "all_to_all(g, size: 60B, chunks: 2)": support.all_to_all(GROUP, 10, 2),
    "broadcast(g, size: 60B, chunks: 3, root: 1)": support.broadcast(GROUP, 20, 3, 1),
    "broadcast(g, size: 60B)": support.broadcast(GROUP, 60),
    "reduce(g, size: 60B, chunks: 3, root: 2)": support.reduce(GROUP, 20, 3, 2),
    'reduce(g, size: 60B, op: "min")': support.reduce(GROUP, 60, 1, 0, Op.MIN),
    "scatter(g, size: 60B, chunks: 2, root: 1)": support.scatter(GROUP, 10, 2, 1),
    "gather(g, size: 60B, chunks: 2, root: 1)": support.gather(GROUP, 10, 2, 1),
}


@pytest.mark.parametrize("call", SAME)
def test_same_as_built_in_python(call: str) -> None:
    assert rows(chunks_of(call)) == expected(SAME[call])


def test_send_recv() -> None:
    assert rows(chunks_of("send_recv(g, size: 60B)")) == [((0,), 60, [2], [0], "copy")]
    assert rows(chunks_of("send_recv(g, size: 60B, source: 2, target: 0, chunks: 2)")) == [
        ((c,), 30, [3], [2], "copy") for c in (0, 1)
    ]


def test_multicast() -> None:
    assert rows(chunks_of("multicast(g, size: 60B)")) == [((0,), 60, [2], [0, 3], "copy")]
    assert rows(chunks_of("multicast(g, size: 60B, source: 1, targets: {0})")) == [((0,), 60, [0], [2], "copy")]


def test_all_to_allv_cuts_blocks_into_chunks() -> None:
    found = rows(chunks_of("all_to_allv(g, sizes: [[0B, 5B, 2B], [1B, 0B, 0B], [4B, 4B, 3B]], chunk: 2B)"))
    assert [(i, size) for i, size, _, _, _ in found] == [
        ((0, 1, 0), 2),
        ((0, 1, 1), 2),
        ((0, 1, 2), 1),
        ((0, 2, 0), 2),
        ((1, 0, 0), 1),
        ((2, 0, 0), 2),
        ((2, 0, 1), 2),
        ((2, 1, 0), 2),
        ((2, 1, 1), 2),
        ((2, 2, 0), 2),
        ((2, 2, 1), 1),
    ]
    assert {(pre[0], post[0]) for _, _, pre, post, _ in found} == {(2, 0), (2, 3), (0, 2), (3, 2), (3, 0), (3, 3)}


def test_every_collective_of_the_library_is_tested() -> None:
    found = {x.name.name for x in library("collectives").statements}
    assert found == {c.partition("(")[0] for c in SAME} | {"send_recv", "multicast", "all_to_allv"}
