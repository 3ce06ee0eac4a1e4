"""A run that says that it is a standard collective, and is not, is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import SourceError, SourceFile
from collc.ten.declared import contradiction
from collc.ten.demand import ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.module import Module
from collc.ten.text import format_module, parse_module
from tests.support import ring
from tests.ten.standard_runs import KINDS, standard_run

GROUP = [2, 0, 3, 1]


def good(kind: str, chunks: int = 2) -> Run:
    return standard_run(kind, GROUP, chunks, 1, Op.MAX, 1000)


def part_of(run: Run) -> str:
    found = contradiction(run)
    return "" if found is None else found.part


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_run_is_accepted(kind: str) -> None:
    assert contradiction(good(kind)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_that_is_changed_is_found(kind: str) -> None:
    run = good(kind)
    standard = run.standard
    assert isinstance(standard, Standard)
    assert part_of(replace(run, standard=replace(standard, size=standard.size + 1))) == "size"
    assert part_of(replace(run, standard=replace(standard, size=standard.size - 1))) == "size"
    if kind != "all_to_allv":
        assert part_of(replace(run, standard=replace(standard, chunks=1))) == "chunks"
        assert part_of(replace(run, standard=replace(standard, chunks=0))) == "chunks"
    for root in {-1, 0, 4} - {standard.root}:
        assert part_of(replace(run, standard=replace(standard, root=root))) == "root"
    for op in set(Op) - {standard.op}:
        assert part_of(replace(run, standard=replace(standard, op=op))) == "op"
    assert part_of(replace(run, standard=replace(standard, kind="all_gathers"))) == "kind"


@pytest.mark.parametrize("kind", KINDS)
def test_another_name_is_refused(kind: str) -> None:
    run = good(kind, chunks=1)
    assert run.standard is not None
    also = {("broadcast", "multicast"), ("send_recv", "multicast"), ("all_to_all", "all_to_allv")}  # special cases
    for other in KINDS:
        if other != kind and (kind, other) not in also:
            assert part_of(replace(run, standard=replace(run.standard, kind=other))), other


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 2), st.data())
def test_a_chunk_with_other_holders_size_or_reduction_is_refused(kind: str, chunks: int, data: st.DataObject) -> None:
    run = good(kind, chunks)
    table = run.pattern
    assert isinstance(table, ChunkTable)
    chunk = data.draw(st.integers(0, len(table) - 1))
    what = data.draw(st.sampled_from(["pre", "post", "size", "op"]))
    if what in ("pre", "post"):
        column = getattr(table, what).copy()
        members = data.draw(st.sets(st.integers(0, 3), max_size=4))
        before = set(table.sets[int(column[chunk])].tolist())
        free = what == "post" and (kind == "multicast" or (kind == "send_recv" and len(members) == 1))
        if members == before or free or (kind == "all_to_allv" and len(members) == 1):
            return
        column[chunk] = len(table.sets)
        rows = [table.sets[k].tolist() for k in range(len(table.sets))]
        changed = replace(table, sets=HolderSets.of([*rows, sorted(members)]), **{what: column})
    elif what == "size":
        size = table.size.copy()
        size[chunk] += 1
        changed = replace(table, size=size)
        if kind == "all_to_allv" and chunk < len(table) - len(GROUP):  # not of the NPU that sends most
            return
    else:
        op = table.op.copy()
        op[chunk] = int(Op.SUM)
        changed = replace(table, op=op)
    assert part_of(replace(run, pattern=changed))


def test_the_message_points_at_the_part() -> None:
    texts = {
        ("1600B", "1601B"): "1601B",
        ("chunks 2", "chunks 3"): "3 root",
        ("root 1", "root 0"): "0 {",
        ("standard scatter", "standard gather"): "gather 1600B",
        ("post @", "post max @"): "scatter 1600B",
    }
    run = standard_run("scatter", GROUP, 2, 1, Op.SUM, 200)
    text = format_module(Module("m", ring(4), Demand((run,))))
    assert parse_module(SourceFile("m.ten", text)).demand.runs[0].standard == run.standard
    for (old, new), at in texts.items():
        assert old in text
        with pytest.raises(SourceError) as error:
            parse_module(SourceFile("m.ten", text.replace(old, new, 1)))
        (message,) = error.value.diagnostics
        assert message.code == "T0107"
        assert message.span is not None
        assert message.span.file.text[message.span.start :].startswith(at)


def test_an_operation_that_the_chunks_do_not_have() -> None:
    run = standard_run("reduce", GROUP, 2, 1, Op.SUM, 200)
    text = format_module(Module("m", ring(4), Demand((run,)))).replace("post sum", "post max")
    with pytest.raises(SourceError, match="op sum, but chunk 0 of the run is reduced with max"):
        parse_module(SourceFile("m.ten", text))


def test_an_empty_group_has_no_chunks() -> None:
    run = good("all_gather")
    table = run.pattern.expand()
    none = replace(
        table,
        **{name: getattr(table, name)[:0] for name in ("size", "pre", "post", "op", "family", "index")},
    )
    assert contradiction(replace(run, group=np.empty(0, np.int32), pattern=none)) is None
