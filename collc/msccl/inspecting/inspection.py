"""What a file for a runtime contains: totals, a row for each GPU, and its threadblocks for a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collc.base.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class DrawnStep:
    """A step: its label, its kind, whether other steps wait for it, and its tooltip."""

    text: str
    kind: str
    awaited: bool
    tip: str


@dataclass(frozen=True, slots=True)
class DrawnGpu:
    """A GPU: its heading, and its threadblocks as (label, boxes)."""

    heading: str
    rows: Sequence[tuple[str, Sequence[DrawnStep]]]


@dataclass(frozen=True, eq=False)
class Inspection:
    """The contents of a file.

    name, coll: of the file and its collective. totals: by name. gpus: by GPU, each a value by name; peers and channels
    are ascending numbers. columns: heading of the table -> name of the value. colors: number of the colour by kind of
    step; -1: none. drawn: the threadblocks of a GPU. warnings: why the runtime may never select the file.
    """

    name: str
    coll: str
    totals: Mapping[str, Any]
    gpus: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    colors: Mapping[str, int]
    drawn: Callable[[int], DrawnGpu]
    warnings: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The rows and totals, as `inspect --json` prints them."""
        return {**self.totals, "gpus": list(self.gpus)}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows."""
        rows = [tuple(_cell(name, row[name]) for name in self.columns.values()) for row in self.gpus]
        return tuple(self.columns), rows


def _cell(name: str, value: Any) -> str:  # noqa: ANN401
    if isinstance(value, int):
        return str(value)
    return "/".join(map(str, value)) if name == "chunks" else ranges(value)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `0-3 5 8-9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return " ".join("-".join(map(str, part)) for part in parts)
