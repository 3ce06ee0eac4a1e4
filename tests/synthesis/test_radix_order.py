"""Sorting by digits against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from collc.synthesis import radix_order
from collc.synthesis.radix_order import sorted_by


def both(keys: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.array(keys, np.int64), np.arange(len(keys), dtype=np.int32)


@given(st.lists(st.integers(0, 2**62 - 1) | st.integers(0, 5), max_size=60))
@settings(max_examples=60, deadline=None)
def test_like_numpy(keys: list[int]) -> None:
    order = np.argsort(np.array(keys, np.int64), kind="stable")
    for piece in (1, 7, 1 << 22):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(radix_order, "PIECE", piece)
            found, values = sorted_by(*both(keys), lambda: None)
        assert found.tolist() == sorted(keys)
        assert values.tolist() == order.tolist()


def test_it_asks_whether_to_stop_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(radix_order, "PIECE", 10)
    sorted_by(*both(list(range(100))), lambda: calls.append(1))
    assert len(calls) == 20
