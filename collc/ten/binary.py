"""The binary form: a folder of NumPy files that can be memory-mapped, and the rest as a .ten text.

`module.ten` holds the module without its schedule; `schedule.json` its layout; `chunk.npy`, and for rows
`link.npy`, `start.npy`, `reduce.npy`, its columns. Nothing is pickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import Diagnostic, SourceError, SourceFile
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Schedule, StepSchedule, Transfers
from collc.ten.text.read import parse_module
from collc.ten.text.write import format_module

VERSION: Final = 1
_MOST_TEXT: Final = 1 << 30
_INT64: Final = 2**63 - 1
_COLUMNS: Final = {"chunk": "int32", "link": "int32", "start": "int64", "reduce": "bool"}


def save_module(module: Module, folder: Path) -> None:
    """Write a module into a folder, which is made where it is missing.

    Raises OSError where that can not be done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.ten").write_text(format_module(replace(module, schedule=None)), "utf-8")
    head = folder / "schedule.json"
    schedule = module.schedule
    if schedule is None:
        head.unlink(missing_ok=True)
        return
    fields: dict[str, int | str] = {"version": VERSION, "model": schedule.model.value}
    if isinstance(schedule, StepSchedule):
        fields |= {"layout": "steps", "step": schedule.step, "reduce_steps": schedule.reduce_steps}
        np.save(folder / "chunk.npy", schedule.chunk, allow_pickle=False)
    else:
        fields |= {"layout": "rows"}
        rows = schedule.transfers
        columns = {"chunk": rows.chunk, "link": rows.link, "start": rows.start, "reduce": rows.reduce}
        for name, column in columns.items():
            np.save(folder / f"{name}.npy", column, allow_pickle=False)
    head.write_text(json.dumps(fields, indent=1, sort_keys=True) + "\n", "utf-8")


def load_module(folder: Path) -> Module:
    """Read a module that `save_module` wrote; the schedule's columns stay on disk (memory-mapped).

    Raises SourceError (T0110) where a file is missing, broken or does not fit the others,
    and what `parse_module` raises.
    """
    text_file = folder / "module.ten"
    try:
        if text_file.stat().st_size > _MOST_TEXT:
            _broken(text_file, f"is larger than {_MOST_TEXT} bytes")
        text = text_file.read_text("utf-8")
    except OSError as error:
        _broken(text_file, f"can not be read ({error.strerror})")
    except UnicodeDecodeError:
        _broken(text_file, "is not text in UTF-8")
    module = parse_module(SourceFile(str(text_file), text))
    if not (folder / "schedule.json").exists():
        return module
    return replace(module, schedule=_schedule(folder, module.network.link_count))


def _broken(path: Path, why: str) -> NoReturn:
    raise SourceError(
        Diagnostic("T0110", f"{path.name} {why}", hint=f"{path.parent} is no module in the binary form, or was damaged")
    )


@dataclass(frozen=True, slots=True)
class _Head:
    """The fields of schedule.json."""

    path: Path
    fields: dict[str, object]

    def integer(self, name: str, low: int) -> int:
        """A whole number, at least `low`."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= _INT64:
            _broken(self.path, f"has no whole number {name!r} of at least {low}")
        return value

    def one_of(self, name: str, *choices: str) -> str:
        """One of several words."""
        value = self.fields.get(name)
        if not isinstance(value, str) or value not in choices:
            _broken(self.path, f"has no {name!r} that is {' or '.join(choices)}")
        return value


def _head(path: Path) -> _Head:
    try:
        with path.open("rb") as file:
            content = file.read(1 << 16)
        found: object = json.loads(content)
    except OSError as error:
        _broken(path, f"can not be read ({error.strerror})")
    except (ValueError, RecursionError):
        _broken(path, "is not JSON")
    if not isinstance(found, dict):
        _broken(path, "is not a JSON object")
    return _Head(path, cast("dict[str, object]", found))


def _schedule(folder: Path, links: int) -> Schedule:
    head = _head(folder / "schedule.json")
    if head.integer("version", 0) != VERSION:
        _broken(head.path, f"is not of version {VERSION}")
    model = LinkModel(head.one_of("model", "store", "pipelined"))
    if head.one_of("layout", "rows", "steps") == "steps":
        path = folder / "chunk.npy"
        grid = _array(path)
        if grid.ndim != 2 or grid.shape[1] != links or grid.dtype.name not in {"uint16", "uint32"}:
            _broken(path, f"is {grid.dtype}{list(grid.shape)}, not uint16 or uint32[steps, {links}]")
        return StepSchedule(model, grid, head.integer("step", 1), head.integer("reduce_steps", 0))
    columns = {name: _array(folder / f"{name}.npy") for name in _COLUMNS}
    count = columns["chunk"].shape
    for name, dtype in _COLUMNS.items():
        column = columns[name]
        if column.ndim != 1 or column.shape != count or column.dtype.name != dtype:
            _broken(folder / f"{name}.npy", f"is {column.dtype}{list(column.shape)}, not {dtype}{list(count)}")
    rows = Transfers(columns["chunk"], columns["link"], columns["start"], columns["reduce"])
    _sorted(folder, rows)
    return RowSchedule(model, rows)


def _sorted(folder: Path, rows: Transfers, block: int = 1 << 22) -> None:
    """Rows must be sorted by (start, link, chunk), looked at in pieces that overlap by one row."""
    for low in range(0, len(rows), block):
        part = slice(low, low + block + 1)
        start, link, chunk = rows.start[part], rows.link[part], rows.chunk[part]
        same_start, same_link = start[1:] == start[:-1], link[1:] == link[:-1]
        falls = (start[1:] < start[:-1]) | (same_start & (link[1:] < link[:-1]))
        falls |= same_start & same_link & (chunk[1:] < chunk[:-1])
        if falls.any():
            _broken(folder / "start.npy", f"is not sorted at row {low + int(falls.argmax()) + 1}")


def _array(path: Path) -> NDArray[Any]:
    try:
        found: object = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        _broken(path, f"can not be read ({error.strerror or 'no NumPy file'})")
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        _broken(path, "is no NumPy file of plain numbers")
    if not isinstance(found, np.ndarray):
        _broken(path, "is no NumPy file of plain numbers")
    return cast("NDArray[Any]", found)
