"""The limits of NPUs: their attributes, and `limited(t, memory: 300GB/s)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from collc.base.diagnostics import Span
from collc.base.wording import did_you_mean, listed
from collc.source.elaboration.operators import shown
from collc.source.parsing.expressions import Argument
from collc.source.problems import fail
from collc.source.types import RATE, STRING, Type
from collc.ten.endpoint import DEFAULT_MODE, MEMORY_TRAFFIC, Endpoint
from collc.ten.limited import with_endpoints
from collc.ten.network import Network

RATES: Final = ("inject", "eject", "memory")
NPU_ATTRIBUTES: Final[dict[str, Type]] = {**dict.fromkeys(RATES, RATE), "endpoint": STRING}


def endpoint_of(given: Mapping[str, Any], arguments: Sequence[Argument], span: Span) -> Endpoint:
    """The limits with some attributes, by name. span: of what has them. Raises SourceError."""
    places = {argument.name.name: argument.span for argument in arguments if argument.name is not None}
    rates: list[Fraction | None] = []
    for name in RATES:
        rate = given.get(name)
        if rate is not None and rate <= 0:
            raise fail("E0306", f"a rate '{name}' of {shown(rate, RATE)} is not more than 0", places.get(name, span))
        rates.append(None if rate is None else Fraction(rate))
    mode = given.get("endpoint", DEFAULT_MODE)
    if mode not in MEMORY_TRAFFIC:
        hint = did_you_mean(mode, MEMORY_TRAFFIC, f"there are {listed(MEMORY_TRAFFIC)}")
        raise fail("E0326", f"unknown kind of endpoint '{mode}'", places.get("endpoint", span), hint=hint)
    if "endpoint" in given and rates[2] is None:
        hint = f'give the rate of the memory too: memory: 300GB/s, endpoint: "{mode}"'
        raise fail("E0326", "'endpoint' has no effect without 'memory'", places.get("endpoint", span), hint=hint)
    return Endpoint(*rates, mode=mode)


def endpoint_with(before: Endpoint, given: Mapping[str, Any], arguments: Sequence[Argument], span: Span) -> Endpoint:
    """The limits with some attributes, and those of before where they say nothing. Raises SourceError."""
    kept = {name: rate for name in RATES if (rate := getattr(before, name)) is not None}
    mode = {} if before.memory is None else {"endpoint": before.mode}
    return endpoint_of({**kept, **mode, **given}, arguments, span)


def limited(network: Network, endpoint: Endpoint, has_mode: bool) -> Network:
    """The network with limits at all NPUs, and with the tighter ones where there were some.

    has_mode: whether the mode of the endpoint was given; else that of an NPU which has a rate of memory stays.
    """
    found: list[Endpoint] = []
    for npu in range(network.npu_count):
        before = network.endpoint_of(npu)
        kept = before.memory is not None and not has_mode
        found.append(before.tighter(replace(endpoint, mode=before.mode) if kept else endpoint))
    return with_endpoints(network, found)
