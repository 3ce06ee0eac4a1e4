"""Names in the text form: quoting, and the labels of devices, links and chunks.

A name that is not unique is replaced by its number (`%17`), so that every text reads back to the same module.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from collc.ten.demand import Demand
from collc.ten.network import DeviceFamily, Network

_KEYWORDS: Final = """
    algorithm as at axis bandwidth bound buffer chunk chunks demand family from group injected inverted keep kind lane
    latency link max message min model module multicast names network note npus of op options over phase pipelined
    planned post pre prod ready received reduce reduces removed root rows run schedule seed send set standard step steps
    store strides sum switches ten uint16 uint32 unknown unwound
"""
KEYWORDS: Final = frozenset(_KEYWORDS.split())
"""Words of the format; a name that is one of them must be quoted."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")


def quote(text: str) -> str:
    """The text as a JSON string, quotes included."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def word(name: str) -> str:
    """The name, quoted if it is a keyword or not an identifier."""
    return name if _NAME.fullmatch(name) and name not in KEYWORDS else quote(name)


def with_index(name: str, index: Sequence[int]) -> str:
    """`x[0, 1]`, or `x` without indices."""
    return f"{word(name)}[{', '.join(map(str, index))}]" if index else word(name)


def time_text(picoseconds: int) -> str:
    """A time in picoseconds, written exactly, in microseconds: `80.125us`."""
    whole, part = divmod(abs(picoseconds), 10**6)
    fraction = f".{part:06d}".rstrip("0") if part else ""
    return f"{'-' if picoseconds < 0 else ''}{whole}{fraction}us"


def rate_text(rate: Fraction) -> str:
    """A rate in bytes per second, written exactly: `50GiB/s`, `12.5GB/s`, `100/3B/s`."""
    for unit, scale in (("GiB/s", 2**30), ("GB/s", 10**9), ("MiB/s", 2**20), ("MB/s", 10**6), ("KiB/s", 2**10)):
        if rate >= scale and (rate / scale).denominator == 1:
            return f"{rate / scale}{unit}"
    thousandths = rate / 10**9 * 1000
    if thousandths.denominator == 1:
        whole, fraction = divmod(thousandths.numerator, 1000)
        return f"{whole}" + f".{fraction:03d}".rstrip("0") + "GB/s"
    return f"{rate}B/s"


def numbers_text(numbers: Iterable[int]) -> str:
    """`0..9, 12`: three or more consecutive numbers become a range, whose end is excluded."""
    parts: list[str] = []
    run: list[int] = []
    for number in numbers:
        if run and number == run[-1] + 1:
            run.append(number)
            continue
        parts += _run_text(run)
        run = [number]
    return ", ".join(parts + _run_text(run))


def _run_text(run: list[int]) -> list[str]:
    return [f"{run[0]}..{run[-1] + 1}"] if len(run) > 2 else [str(number) for number in run]


def unique(labels: list[str]) -> list[str]:
    """The labels, with `%NUMBER` in place of those that occur more than once."""
    seen = dict(zip(labels, range(len(labels)), strict=True))
    if len(seen) == len(labels):
        return labels
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return [label if counts[label] == 1 else f"%{number}" for number, label in enumerate(labels)]


def device_labels(families: tuple[DeviceFamily, ...], count: int) -> list[str]:
    """The label of each device."""
    labels = [f"%{number}" for number in range(count)]
    for family in families:
        if 0 in family.shape:
            continue
        name = word(family.name)
        members: list[tuple[int, tuple[int, ...]]] = [(family.first, ())]
        for size, stride in zip(family.shape, family.strides, strict=True):
            members = [(number + k * stride, (*index, k)) for number, index in members for k in range(size)]
        for number, index in members:
            if 0 <= number < count:
                labels[number] = f"{name}[{', '.join(map(str, index))}]" if index else name
    return unique(labels)


def link_labels(source: Sequence[int], target: Sequence[int], devices: list[str]) -> list[str]:
    """The label of each link: `a -> b`, and `a -> b lane 1` for the second of parallel ones."""
    lanes: dict[tuple[int, int], int] = {}
    labels: list[str] = []
    for ends in zip(source, target, strict=True):
        lane = lanes.get(ends, 0)
        lanes[ends] = lane + 1
        label = f"{devices[ends[0]]} -> {devices[ends[1]]}"
        labels.append(f"{label} lane {lane}" if lane else label)
    return labels


def network_link_labels(network: Network) -> list[str]:
    """The label of each link of a network."""
    devices = device_labels(network.families, network.device_count)
    return link_labels(network.source.tolist(), network.target.tolist(), devices)


def chunk_labels(demand: Demand) -> list[str]:
    """The label of each chunk: `RUN:x[i, c]`."""
    labels: list[str] = []
    for number, table in enumerate(demand.tables):
        names = [(f"{number}:{word(family.name)}", family.rank) for family in table.families]
        families: list[int] = table.family.tolist()
        for family, index in zip(families, table.index.tolist(), strict=True):
            name, rank = names[family]
            labels.append(f"{name}[{', '.join(map(str, index[:rank]))}]" if rank else name)
    return unique(labels)
