"""Edge colourings: proper, and with as few colours as the largest degree."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from collc.graph.edge_colouring import colour_edges


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(3, 7)), max_size=24))
def test_no_two_edges_of_a_colour_meet_and_no_colour_is_more_than_the_largest_degree(edges):
    colours = colour_edges(edges)
    for side in (0, 1):
        assert max(Counter((edge[side], colour) for edge, colour in zip(edges, colours, strict=True)).values(), default=1) == 1  # fmt: skip # noqa: E501
    degrees = Counter((side, edge[side]) for edge in edges for side in (0, 1))
    assert set(colours) == set(range(max(degrees.values(), default=0)))


def test_a_path_of_two_colours_is_swapped():
    """First fit alone would take a third colour for the last edge."""
    assert sorted(colour_edges([(0, 0), (1, 1), (0, 1), (1, 0)])) == [0, 0, 1, 1]
    assert sorted(colour_edges([(0, 0), (1, 1), (2, 1), (1, 2), (0, 2)])) == [0, 0, 0, 1, 1]
