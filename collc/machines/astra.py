"""ASTRA-sim's network file as a product of topologies of the standard library, one for each dimension."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from collc.base.diagnostics import SourceFile
from collc.base.units import decimal
from collc.base.wording import did_you_mean
from collc.machines.reading import compose_yaml, line_span, wrong, yaml_fields, yaml_items

_KEYS: Final = ("topology", "npus_count", "bandwidth", "latency")
_SHAPES: Final = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switched"}
MAX_CHARACTERS: Final = 64 << 10


def read_astra(source: SourceFile) -> str:
    """The expression of the network in the language, as `ring(4, ...) * switched(2, ...)`.

    Bandwidths are GiB/s and latencies nanoseconds, as ASTRA-sim counts. Raises SourceError X0601 with the line.
    """
    rows = _rows(source)
    factors: list[str] = []
    for shape, count, rate, time in zip(*(rows[key] for key in _KEYS), strict=True):
        name = shape[0]
        if name not in _SHAPES:
            hint = did_you_mean(name, _SHAPES, "there are Ring, FullyConnected and Switch")
            raise wrong(f"there is no topology '{name[:40]}'", line_span(source, shape[1]), hint)
        text = count[0]
        npus = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if not 2 <= npus <= 1_000_000:
            message = f"npus_count is a whole number from 2 to 1,000,000, not '{text[:40]}'"
            raise wrong(message, line_span(source, count[1]))
        bandwidth, latency = _number(source, *rate), _number(source, *time)
        if not bandwidth:
            raise wrong("a bandwidth of 0", line_span(source, rate[1]))
        said = f"bandwidth: {decimal(bandwidth, 12)}GiB/s, latency: {decimal(latency, 12)}ns"
        factors.append(f"{_SHAPES[name]}({npus}, {said})")
    return " * ".join(factors)


def _number(source: SourceFile, text: str, line: int) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(-1)
    if not 0 <= value <= 10**9:
        raise wrong(f"a number from 0 to 1,000,000,000 is expected, not '{text[:40]}'", line_span(source, line))
    return value


def _rows(source: SourceFile) -> dict[str, list[tuple[str, int]]]:
    """The items of each key with their lines."""
    rows: dict[str, list[tuple[str, int]]] = {}
    for key, value in yaml_fields(compose_yaml(source, MAX_CHARACTERS)).items():
        if key not in _KEYS:
            hint = did_you_mean(key, _KEYS, "the keys are topology, npus_count, bandwidth and latency")
            span = line_span(source, int(value.start_mark.line) + 1)
            raise wrong(f"a network file has no key '{key[:40]}'", span, hint)
        rows[key] = [(str(item.value), int(item.start_mark.line) + 1) for item in yaml_items(value)]
    for key in _KEYS:
        if key not in rows:
            raise wrong(f"{source.name} has no '{key}'", hint=f"a network file has {', '.join(_KEYS)}")
        if not rows[key]:
            raise wrong(f"'{key}' is a list with an item for each dimension, as in [ 4, 2 ]", line_span(source, 1))
    lengths = {len(row) for row in rows.values()}
    if len(lengths) > 1:
        counts = ", ".join(f"{key} {len(rows[key])}" for key in _KEYS)
        raise wrong(f"the lists have different lengths: {counts}", line_span(source, 1))
    return rows
