"""A picture of the threadblocks of a file for a runtime: a row for each, with a box for each of its steps."""

from __future__ import annotations

from functools import partial

from collc.msccl.inspecting import DrawnStep, Inspection
from collc.pictures.charts import legend
from collc.pictures.picture import Picture, join_lines, mark, rect, text, text_width


def threadblock_picture(contents: Inspection) -> Picture:
    """The threadblocks as rows of steps, coloured by operation; of large files the first 16 GPUs."""
    kinds_of_color: dict[int, list[str]] = {}
    for kind, color in contents.colors.items():
        kinds_of_color.setdefault(color, []).append(kind)
    entries = [(partial(_symbol, _look(color)), ", ".join(kinds)) for color, kinds in kinds_of_color.items()]
    parts, y = legend([*entries, (partial(_symbol, "hit awaited"), "others wait for it")])
    gpus = [contents.drawn(gpu) for gpu in range(len(contents.gpus))[:16]]
    cell, row_height = 46, 22
    rows = [row for gpu in gpus for row in gpu.rows]
    left = 34 + max((text_width(label, 10.5) for label, _ in rows), default=0)
    for gpu in gpus:
        parts.append(text(10, y + 18, gpu.heading))
        y += 26
        for label, steps in gpu.rows:
            parts.append(text(24, y + 14, label, "small"))
            parts += (
                _box(left + k * cell, y, cell - 3, row_height - 4, step, contents.colors[step.kind])
                for k, step in enumerate(steps)
            )
            y += row_height
    if len(gpus) < len(contents.gpus):
        y += 18
        parts.append(text(10, y, f"the first {len(gpus)} of {len(contents.gpus)} GPUs are drawn", "muted small"))
    width = max(640, left + max((len(steps) for _, steps in rows), default=0) * cell + 20)
    counts = f"{len(contents.gpus)} GPUs, {contents.totals['threadblocks']} threadblocks"
    return Picture(width, y + 12, join_lines(parts), f"{contents.name}: {contents.coll}", counts)


def _look(color: int) -> str:
    return f"f{color}" if color >= 0 else "box"


def _symbol(look: str, x: float, y: float) -> str:
    return rect(x + 8, y - 10, 14, 12, look)


def _box(x: float, y: float, width: float, height: float, step: DrawnStep, color: int) -> str:
    shape = rect(x, y, width, height, _look(color) + (" awaited" if step.awaited else ""))
    return mark(step.tip, shape + text(x + 3, y + 13, step.text, "tiny onfill" if color >= 0 else "tiny"))
