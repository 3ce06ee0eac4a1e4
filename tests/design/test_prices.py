"""Tables of prices: the default one, those of users, and prices of single designs."""

from __future__ import annotations

from fractions import Fraction

from collc.base.diagnostics import SourceFile
from collc.source.elaboration.designs import default_prices
from collc.source.elaboration.elaborate import load_program
from collc.source.standard_library import std_source
from collc.ten.training import TIERS, PartCosts

HEAD = """
    import std.topologies
    topology net = switched(3)
    workload w (tensor: 1, data: 3) { layer (forward: 1ms) { weight_gradient data all_reduce 1MiB } }
"""

EXAMPLE = PartCosts(Fraction(2), Fraction(24), Fraction(48))


def prices_of(tables: str, statements: str) -> dict[str, PartCosts]:
    """The prices of a design with these statements, after these tables."""
    design = f"design d on net {{ train w {statements} require sum(bandwidth) == 10GB/s minimize time }}"
    return dict(load_program(SourceFile("d.coll", HEAD + tables + design)).designs[0].prices)


def test_default_prices_are_in_the_standard_library() -> None:
    assert tuple(default_prices()) == TIERS
    assert default_prices()["inter_pod"] == PartCosts(Fraction("7.8"), Fraction(18), Fraction("31.6"))
    assert prices_of("", "") == default_prices()
    assert "Won et al., LIBRA" in std_source("libra_lowest")


def test_a_table_prices_some_tiers_and_a_design_comes_before_it() -> None:
    table = "prices ours { let n = 24 price inter_pod (link: 2, switch: n, nic: 2 * n) price inter_node (link: 3) }"
    ours = {"inter_pod": EXAMPLE, "inter_node": PartCosts(Fraction(3))}
    assert prices_of(table, "prices ours") == {**default_prices(), **ours}
    stated = {"inter_pod": PartCosts(Fraction(1))}
    for statements in ("prices ours price inter_pod (link: 1)", "price inter_pod (link: 1) prices ours"):
        assert prices_of(table, statements) == {**default_prices(), **ours, **stated}


def test_tables_can_be_imported() -> None:
    assert prices_of("import std.prices\n", "prices libra_lowest") == default_prices()


def test_three_npus_on_a_switch_between_pods() -> None:
    """The example of LIBRA with the prices 2, 24 and 48: $60 + $720 + $1,440."""
    parts = prices_of("prices ours { price inter_pod (link: 2, switch: 24, nic: 48) }", "prices ours")["inter_pod"]
    assert [30 * part for part in (parts.link, parts.switch, parts.nic)] == [60, 720, 1440]
