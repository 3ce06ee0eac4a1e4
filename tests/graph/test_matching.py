from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from collc.graph.matching import extend_matching, first_by_class, prioritised_matching

ITEMS = 6

OFFERS = st.lists(st.integers(0, (1 << ITEMS) - 1), max_size=6)
"""For each port the items that it can be matched to."""


def bits(items: int) -> list[int]:
    return [1 << k for k in range(ITEMS) if items >> k & 1]


def can_match(items: list[int], offers: list[int]) -> bool:
    """Whether all of some items can be matched at once, by NetworkX."""
    return maximum(offers, sum(items)) == len(items)


def maximum(offers: list[int], items: int = (1 << ITEMS) - 1) -> int:
    graph: nx.Graph[tuple[str, int]] = nx.Graph()
    ports = [("port", port) for port in range(len(offers))]
    graph.add_nodes_from(ports)
    for port, offer in enumerate(offers):
        graph.add_edges_from((("port", port), ("item", bit)) for bit in bits(offer & items))
    return len(nx.bipartite.hopcroft_karp_matching(graph, ports)) // 2


def first_matched(order: list[int], offers: list[int]) -> list[int]:
    """The items of a greedy choice in this order, by testing whether all of them can be matched."""
    kept: list[int] = []
    for item in order:
        if can_match([*kept, item], offers):
            kept.append(item)
    return kept


@given(OFFERS, st.lists(st.integers(0, 2), min_size=ITEMS, max_size=ITEMS))
def test_prioritised_matching_has_the_first_classes(offers: list[int], rank: list[int]) -> None:
    classes = [sum(1 << item for item in range(ITEMS) if rank[item] == number) for number in range(3)]
    chosen = prioritised_matching(offers, classes)
    assert all(not bit or bit in bits(offer) for bit, offer in zip(chosen, offers, strict=True))
    order = [bit for alike in classes for bit in bits(alike)]
    assert sorted(bit for bit in chosen if bit) == sorted(first_matched(order, offers))


@given(OFFERS, st.data())
def test_extending_keeps_matched_ports_and_is_maximum(offers: list[int], data: st.DataObject) -> None:
    chosen = [0] * len(offers)
    for port in data.draw(st.permutations(range(len(offers)))):
        free = [bit for bit in bits(offers[port]) if bit not in chosen]
        chosen[port] = data.draw(st.sampled_from([0, *free]))
    before = list(chosen)
    extend_matching(offers, chosen, [])
    assert all(not bit or bit in bits(offer) for bit, offer in zip(chosen, offers, strict=True))
    assert all(chosen[port] for port, bit in enumerate(before) if bit)
    matched = [bit for bit in chosen if bit]
    assert len(matched) == len(set(matched)) == maximum(offers)


def test_the_first_class_with_an_item_decides() -> None:
    assert first_by_class(0b1110, [0b0001, 0b1100, 0b0010]) == 0b0100
    assert first_by_class(0b1110, []) == 0b0010


@given(OFFERS)
def test_the_reference_of_these_tests_is_right(offers: list[int]) -> None:
    """`maximum` agrees with Hall's theorem: the number of ports less the largest deficiency of a set of them."""
    ports = range(len(offers))
    wants = [0]
    for size in range(1, len(offers) + 1):
        for some in combinations(ports, size):
            reach = 0
            for port in some:
                reach |= offers[port]
            wants.append(size - reach.bit_count())
    assert maximum(offers) == len(offers) - max(wants)
