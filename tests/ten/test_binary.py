"""The binary form reads back exactly, stays on disk, and refuses broken files in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from collc.base.diagnostics import SourceError
from collc.ten.binary import load_module, save_module
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, StepSchedule, Transfers
from tests.support import all_gather, ring
from tests.ten.modules import content, modules


def rows_module() -> Module:
    rows = Transfers.of(np.array([0, 3, 1]), np.array([0, 1, 2]), np.array([0, 0, 20_031_250]))
    return Module("m", ring(4), all_gather([0, 1, 2, 3]), schedule=RowSchedule(LinkModel.STORE, rows))


def grid_module() -> Module:
    grid = np.full((3, 8), 65535, np.uint16)
    grid[1, 2] = 3
    return replace(rows_module(), schedule=StepSchedule(LinkModel.PIPELINED, grid, 7, 1))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules())
def test_reads_back(tmp_path: Path, module: Module) -> None:
    save_module(module, tmp_path)
    assert content(load_module(tmp_path)) == content(module)


@pytest.mark.parametrize("module", [rows_module(), grid_module()])
def test_columns_stay_on_disk(tmp_path: Path, module: Module) -> None:
    save_module(module, tmp_path)
    schedule = load_module(tmp_path).schedule
    column = schedule.chunk if isinstance(schedule, StepSchedule) else schedule.rows.chunk
    assert isinstance(column, np.memmap)


def test_a_schedule_that_went_is_gone(tmp_path: Path) -> None:
    save_module(rows_module(), tmp_path)
    save_module(replace(rows_module(), schedule=None), tmp_path)
    assert load_module(tmp_path).schedule is None


def head(folder: Path, **fields: object) -> None:
    path = folder / "schedule.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


BREAKS = {
    "no text": lambda f: (f / "module.ten").unlink(),
    "no utf-8": lambda f: (f / "module.ten").write_bytes(b"\xff\xfe"),
    "wrong text": lambda f: (f / "module.ten").write_text("ten 2"),
    "no json": lambda f: (f / "schedule.json").write_text("{"),
    "deep json": lambda f: (f / "schedule.json").write_text("[" * 60_000),
    "no object": lambda f: (f / "schedule.json").write_text("[]"),
    "version": lambda f: head(f, version=2),
    "model": lambda f: head(f, model="magic"),
    "layout": lambda f: head(f, layout=["rows"]),
    "no column": lambda f: (f / "link.npy").unlink(),
    "empty column": lambda f: (f / "link.npy").write_bytes(b""),
    "cut column": lambda f: (f / "link.npy").write_bytes((f / "link.npy").read_bytes()[:-2]),
    "rubbish column": lambda f: (f / "link.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': boo}  "),
    "pickled column": lambda f: np.save(f / "link.npy", np.array([{}], object), allow_pickle=True),
    "short column": lambda f: np.save(f / "link.npy", np.zeros(2, np.int32)),
    "wide column": lambda f: np.save(f / "link.npy", np.zeros((3, 1), np.int32)),
    "other type": lambda f: np.save(f / "link.npy", np.zeros(3, np.int64)),
    "not sorted": lambda f: np.save(f / "start.npy", np.array([5, 4, 3])),
}
GRID_BREAKS = {
    "no step": lambda f: head(f, step=0),
    "true step": lambda f: head(f, step=True),
    "huge step": lambda f: head(f, step=2**70),
    "reduce steps": lambda f: head(f, reduce_steps=-1),
    "other links": lambda f: np.save(f / "chunk.npy", np.zeros((3, 7), np.uint16)),
    "signed grid": lambda f: np.save(f / "chunk.npy", np.zeros((3, 8), np.int16)),
    "flat grid": lambda f: np.save(f / "chunk.npy", np.zeros(24, np.uint16)),
}


@pytest.mark.parametrize("name", [*BREAKS, *GRID_BREAKS])
def test_broken_files_are_refused_in_words(tmp_path: Path, name: str) -> None:
    save_module(grid_module() if name in GRID_BREAKS else rows_module(), tmp_path)
    (BREAKS | GRID_BREAKS)[name](tmp_path)
    with pytest.raises(SourceError) as caught:
        load_module(tmp_path)
    assert caught.value.diagnostics[0].message
