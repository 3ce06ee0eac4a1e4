"""What a file for a runtime contains: totals, a row for each GPU, and a picture of its threadblocks as SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from collc.base.diagnostics import Diagnostic

DRAWN_GPUS: Final = 16
"""GPUs that are drawn at most."""
_CELL: Final = 46
_ROW: Final = 22
_LABEL: Final = 210
_LEGEND: Final = 34


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
    are ascending numbers. columns: heading of the table -> name of the value. colors: fill of the boxes, by kind of
    step. drawn: the threadblocks of a GPU. warnings: why the runtime may never select the file.
    """

    name: str
    coll: str
    totals: Mapping[str, Any]
    gpus: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]
    colors: Mapping[str, str]
    drawn: Callable[[int], DrawnGpu]
    warnings: tuple[Diagnostic, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The rows and totals, as `inspect --json` prints them."""
        return {**self.totals, "gpus": list(self.gpus)}

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Headings and rows."""
        rows = [tuple(_cell(name, row[name]) for name in self.columns.values()) for row in self.gpus]
        return tuple(self.columns), rows

    def svg(self) -> str:
        """The threadblocks as rows of steps, coloured by operation; the first 16 GPUs of large files."""
        ranks = len(self.gpus)
        drawn = min(ranks, DRAWN_GPUS)
        some = f" (GPUs 0 .. {drawn - 1} of {ranks})" if drawn < ranks else ""
        title = f"{self.name}: {self.coll}, {ranks} GPUs, {self.totals['threadblocks']} threadblocks{some}"
        return _draw(title, self.colors, [self.drawn(gpu) for gpu in range(drawn)])


def _cell(name: str, value: Any) -> str:  # noqa: ANN401
    if isinstance(value, int):
        return str(value)
    return "/".join(map(str, value)) if name == "chunks" else ranges(value)


def _draw(title: str, colors: Mapping[str, str], groups: Sequence[DrawnGpu]) -> str:
    """The SVG text. colors: fill by kind, in order of the legend; kinds of one colour share an entry."""
    longest = max((len(boxes) for group in groups for _, boxes in group.rows), default=0)
    legend = list(_legend(colors))
    top = _LEGEND + 20 * len(legend) + 10
    width = max(_LABEL + longest * _CELL + 20, 640)
    height = top + sum(26 + _ROW * len(group.rows) for group in groups) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(10, 22, title, 15),
        *(line for row in legend for line in row),
        *_groups(groups, colors, top),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(colors: Mapping[str, str]) -> Iterator[list[str]]:
    """The legend as rows of SVG elements that fit into the smallest width."""
    names: dict[str, list[str]] = {}
    for kind, color in colors.items():
        names.setdefault(color, []).append(kind)
    entries = [(color, ", ".join(kinds)) for color, kinds in names.items()]
    x, y, row = 10, _LEGEND, list[str]()
    for color, label in [*entries, ("none", "black border: others wait for it")]:
        needed = 32 + 7 * len(label)
        if x + needed > 640:
            yield row
            x, y, row = 10, y + 20, []
        stroke = "#000" if color == "none" else "#555"
        row.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{color}" stroke="{stroke}"/>')
        row.append(_text(x + 18, y + 12, label, 12))
        x += needed
    yield row


def _groups(groups: Sequence[DrawnGpu], colors: Mapping[str, str], y: int) -> Iterator[str]:
    for group in groups:
        yield _text(10, y + 15, group.heading, 13)
        y += 26
        for label, boxes in group.rows:
            yield _text(24, y + 14, label, 11)
            for position, box in enumerate(boxes):
                yield _box(_LABEL + position * _CELL, y, box, colors[box.kind])
            y += _ROW


def _box(x: int, y: int, box: DrawnStep, color: str) -> str:
    border = "#000" if box.awaited else "#bbb"
    shape = f'width="{_CELL - 3}" height="{_ROW - 4}" fill="{color}" stroke="{border}"'
    text = _text(x + 3, y + 13, box.text, 9)
    return f'<g><rect x="{x}" y="{y}" {shape}/><title>{escape(box.tip)}</title>{text}</g>'


def _text(x: int, y: int, text: str, size: int) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'


def ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers as ranges: `0-3 5 8-9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return " ".join("-".join(map(str, part)) for part in parts)
