"""The conditions of tasks: who has a chunk, and who wants it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from collc.synthesis.conditions import conditions_of
from collc.ten.demand import Op
from collc.ten.schedule import LinkModel
from tests.support import MiB, demand_of, ring
from tests.synthesis.cases import task_of

NPUS = 5


@given(st.data(), st.integers(1, 3))
def test_those_that_want_a_chunk_and_lack_it(data: st.DataObject, most: int) -> None:
    some = st.lists(st.integers(0, NPUS - 1), unique=True, min_size=1)
    pairs = data.draw(st.lists(st.tuples(some.map(lambda held: sorted(held[:most])), some.map(sorted)), min_size=1))
    task = task_of(ring(NPUS), demand_of([(MiB, *pair, Op.COPY) for pair in pairs]), LinkModel.PIPELINED)
    found = conditions_of(task)
    moving = [k for k, (held, wanted) in enumerate(pairs) if {*wanted} - {*held}]
    assert found.chunk.tolist() == moving
    for row, (held, wanted) in enumerate(pairs[k] for k in moving):
        assert [each.tolist() for each in found.row(row)] == [held, sorted({*wanted} - {*held})]
