"""Equal chunks of custom collectives that are planned as bundles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import collc
from collc.synthesis.auto import synthesizer
from collc.ten.bundled_schedule import BundledSchedule
from collc.ten.module import Module
from collc.ten.schedule import Schedule, Transfers
from collc.verification import verify_schedule

PROGRAM = """
import std.topologies
topology net = mesh2d(2, 2, bandwidth: 3GB/s, latency: 0.5us)
collective many(g: group) {
    for c in 0..5, i in 0..len(g), j in 0..len(g) if i != j {
        chunk x[i, j, c]: 1000B + 1000B * (i % 2)
        pre  x[i, j, c] at g[i]
        post WANTED at g[j]
    }
}
schedule s on net {
    run many(net.npus)
    synthesize auto(link_model: "MODEL")
}
"""


def planned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, wanted: str = "x[i, j, c]", model: str = "pipelined"
) -> Module:
    """The module of PROGRAM if 10 chunks are many, and two bundles of a kind enough."""
    monkeypatch.setattr(synthesizer, "SPARE_WORK", 10)
    monkeypatch.setattr(synthesizer, "FIRST_WORK", 24)
    path = folder / "many.coll"
    path.write_text(PROGRAM.replace("WANTED", wanted).replace("MODEL", model))
    module = collc.compile(path)["s"].module
    assert module is not None
    return module


def test_bundles_are_right_chunk_by_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = planned(tmp_path, monkeypatch)
    schedule = module.schedule
    assert isinstance(schedule, BundledSchedule)
    assert len(np.diff(schedule.first)) == 24
    assert len(schedule) == len(schedule.transfers) > schedule.row_count
    assert verify_schedule(module).ok
    assert verify_schedule(module, large=1).ok
    listed = Transfers.concatenate(list(schedule.blocks(7)))
    assert listed.is_sorted
    for column in ("chunk", "link", "start"):
        assert np.array_equal(getattr(listed, column), getattr(schedule.transfers, column))
    assert module.collective_time() == Schedule.collective_time(schedule, module.network, module.demand)
    assert module.bound is not None
    assert module.bound.time <= module.collective_time()
    hurried = replace(module, schedule=replace(schedule, distance=schedule.distance - 1))
    assert not verify_schedule(hurried).ok


@pytest.mark.parametrize(("wanted", "model"), [("sum(x[i, j, c])", "pipelined"), ("x[i, j, c]", "store")])
def test_sums_and_links_that_store_are_planned_chunk_by_chunk(
    wanted: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = planned(tmp_path, monkeypatch, wanted, model).schedule
    assert schedule is not None
    assert not isinstance(schedule, BundledSchedule)
