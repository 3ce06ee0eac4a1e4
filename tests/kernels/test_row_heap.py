"""The heap of compiled code gives what `heapq` does."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collc.kernels.row_heap import Row, clear_rows, pop_row, push_row, with_rows

FEW = st.integers(0, 4)


@given(st.lists(st.one_of(st.tuples(FEW, FEW, FEW), st.none()), max_size=60))
def test_heaps_of_rows_are_those_of_heapq(steps: list[Row | None]) -> None:
    """None takes the least row out."""
    rows, heap = np.zeros((1, 3), np.int64), list[Row]()
    for step in steps:
        if step is not None:
            rows = with_rows(rows, 1)
            push_row(rows, step)
            heappush(heap, step)
        elif heap:
            assert pop_row(rows) == heappop(heap)
        assert rows[0, 0] == len(heap)
    while heap:
        assert pop_row(rows) == heappop(heap)
    clear_rows(rows)
    assert rows[0, 0] == 0
