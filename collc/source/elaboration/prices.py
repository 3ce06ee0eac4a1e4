"""Elaboration of prices: of tables of prices, and of the `price` statements of designs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Final

from collc.base.resources import standard_library
from collc.base.wording import did_you_mean
from collc.source.elaboration.file_context import FileContext, ProgramContext
from collc.source.elaboration.frames import Frame
from collc.source.imports import load_source_files
from collc.source.parsing.expressions import Identifier
from collc.source.parsing.syntax import Price, PriceTable, Statement
from collc.source.problems import fail, unknown
from collc.source.types import FLOAT
from collc.ten.training import TIERS, PartCosts

PARTS: Final = ("link", "switch", "nic")

DEFAULT_TABLE: Final = "libra_lowest"
"""The table of `std.prices` for tiers whose prices a design leaves out."""


def table_prices(node: PriceTable, context: FileContext) -> dict[str, PartCosts]:
    """The prices of the tiers of a table. Raises SourceError, and AlreadyReported for errors in its statements."""
    found: dict[str, PartCosts] = {}

    def statement(inner: Statement, frame: Frame) -> None:
        assert isinstance(inner, Price)
        add_price(found, inner, frame, context)

    context.run_body(node.body, statement)
    if not found:
        hint = "add: price inter_pod (link: 7.8, switch: 18, nic: 31.6)"
        raise fail("E0913", f"table '{node.name.name}' has no prices", node.name.span, hint=hint)
    return found


def add_price(prices: dict[str, PartCosts], node: Price, frame: Frame, context: FileContext) -> None:
    """`price inter_pod (link: 7.8, switch: 18, nic: 31.6)`: dollars per GB/s; parts that are left out are free.

    Raises SourceError E0913.
    """
    check_tier(node.tier)
    if node.tier.name in prices:
        raise fail("E0913", f"the prices of '{node.tier.name}' are given twice", node.tier.span)
    given: dict[str, Fraction] = {}
    for argument in node.arguments:
        name = "" if argument.name is None else argument.name.name
        if name not in PARTS or name in given:
            hint = did_you_mean(name, PARTS, "price inter_pod (link: 7.8, switch: 18, nic: 31.6)")
            raise fail("E0913", "a price is that of a link, a switch or a nic, each once", argument.span, hint=hint)
        value = Fraction(context.coerce(argument.value, frame, FLOAT, "a price").data)
        if value < 0:
            raise fail("E0913", "a price must not be negative", argument.value.span)
        given[name] = value
    if not given.get("link"):
        raise fail("E0913", "the price of a link must be more than 0", node.span)
    prices[node.tier.name] = PartCosts(**given)


def check_tier(name: Identifier) -> None:
    """Raise SourceError E0913 if there is no such tier."""
    if name.name not in TIERS:
        raise unknown("E0913", "tier", name.name, TIERS, name.span)


@cache
def default_prices() -> Mapping[str, PartCosts]:
    """The prices of all tiers in the default table of the standard library. Not to be changed."""
    context = ProgramContext().context(load_source_files(standard_library()["prices"]).main)
    (node,) = context.file.look_up("price table", DEFAULT_TABLE)
    assert isinstance(node, PriceTable)
    return table_prices(node, context)
