"""A picture of the threadblocks of a file for a runtime: a row for each, with a box for each of its steps."""

from __future__ import annotations

from functools import partial
from typing import Final

from collc.msccl.inspecting.inspection import DrawnStep, Inspection
from collc.pictures.charts import legend
from collc.pictures.picture import Picture, join_lines, mark, rect, text, text_width

_MOST_GPUS: Final = 16
"""GPUs that are drawn at most."""
_CELL: Final = 46
_ROW: Final = 22


def threadblock_picture(contents: Inspection) -> Picture:
    """The threadblocks as rows of steps, coloured by operation; of large files the first 16 GPUs."""
    kinds_of_color: dict[int, list[str]] = {}
    for kind, color in contents.colors.items():
        kinds_of_color.setdefault(color, []).append(kind)
    entries = [(partial(_symbol, _look(color)), ", ".join(kinds)) for color, kinds in kinds_of_color.items()]
    parts, y = legend([*entries, (partial(_symbol, "hit awaited"), "others wait for it")])
    gpus = [contents.drawn(gpu) for gpu in range(min(len(contents.gpus), _MOST_GPUS))]
    rows = [row for gpu in gpus for row in gpu.rows]
    left = 34 + max((text_width(label, 10.5) for label, _ in rows), default=0)
    for gpu in gpus:
        parts.append(text(10, y + 18, gpu.heading))
        y += 26
        for label, steps in gpu.rows:
            parts.append(text(24, y + 14, label, "small"))
            parts += (_box(left + k * _CELL, y, step, contents.colors[step.kind]) for k, step in enumerate(steps))
            y += _ROW
    if len(gpus) < len(contents.gpus):
        y += 18
        parts.append(text(10, y, f"the first {len(gpus)} of {len(contents.gpus)} GPUs are drawn", "muted small"))
    width = max(640, left + max((len(steps) for _, steps in rows), default=0) * _CELL + 20)
    counts = f"{len(contents.gpus)} GPUs, {contents.totals['threadblocks']} threadblocks"
    return Picture(width, y + 12, join_lines(parts), f"{contents.name}: {contents.coll}", counts)


def _look(color: int) -> str:
    return f"f{color}" if color >= 0 else "box"


def _symbol(look: str, x: float, y: float) -> str:
    return rect(x + 8, y - 10, 14, 12, look)


def _box(x: float, y: float, step: DrawnStep, color: int) -> str:
    shape = rect(x, y, _CELL - 3, _ROW - 4, _look(color) + (" awaited" if step.awaited else ""))
    return mark(step.tip, shape + text(x + 3, y + 13, step.text, "tiny onfill" if color >= 0 else "tiny"))
