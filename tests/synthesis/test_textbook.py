"""The textbook algorithms of the standard library, and the networks that `hierarchical` is for."""

from __future__ import annotations

import numpy as np
import pytest

from collc.base.diagnostics import CollcError
from collc.source.standard_algorithms import StandardAlgorithms, hierarchical_shape
from collc.ten.demand import Op, Standard
from collc.ten.transform import remove_parts
from tests.support import grid, ring

LIBRARY = StandardAlgorithms()


def test_the_library_refuses_what_an_algorithm_does_not_serve() -> None:
    assert LIBRARY.names("all_gather")[:2] == ("ring", "bidirectional_ring")
    assert LIBRARY.names("unknown") == ()
    with pytest.raises(CollcError):
        LIBRARY.sends(Standard("all_gather", 1024, 1), 4, "unknown")
    sends = LIBRARY.sends(Standard("reduce", 1024, 1, 2, Op.MAX), 4, "direct")
    assert len(sends) == 3
    assert set(sends.target.tolist()) == {2}


def test_hierarchical_is_for_all_npus_of_networks_with_dimensions() -> None:
    mesh = grid(3, 4)
    assert sorted(hierarchical_shape(mesh, 12)) == [3, 4]
    assert hierarchical_shape(mesh, 4) == []
    assert hierarchical_shape(ring(8), 8) == []
    assert hierarchical_shape(remove_parts(mesh, [5], np.empty(0, np.int64)), 11) == []
