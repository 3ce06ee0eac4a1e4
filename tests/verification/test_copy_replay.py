"""The replay of copies block by block: right schedules are found right, and whatever it calls right is."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from collc.synthesis.symmetric import symmetric_module
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification.copy_replay import copies_are_right
from collc.verification.valid_transfers import clock_of
from collc.verification.verdict import Findings
from tests.cpu_time import at_most
from tests.support import all_gather, all_reduce, all_to_all
from tests.synthesis.clusters import pods, rails
from tests.verification.interpreter import interpret
from tests.verification.random_modules import random_module

GATHERED = Module("m", rails(3, 4, spine=True), all_gather(list(range(12)), chunk=4096, chunks=2), LinkModel.PIPELINED)


@dataclass(frozen=True, eq=False)
class InBlocks(RowSchedule):
    """Rows in blocks of seven."""

    def blocks(self, rows: int = 7) -> Iterator[Transfers]:
        return super().blocks(7)


def is_right(module: Module) -> bool:
    assert module.schedule is not None
    clock = clock_of(module, module.schedule, Findings(module.network, module.demand))
    return clock is not None and copies_are_right(module, module.schedule, clock)


def rows_of(module: Module) -> Transfers:
    found = symmetric_module(module, Effort())
    assert found.schedule is not None
    return found.schedule.transfers


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize("kind", [all_gather, all_to_all])
def test_right_schedules(model: LinkModel, kind: type) -> None:
    for net in (rails(3, 4, spine=True), pods(2, 2, 3)):
        module = Module("m", net, kind(net.npus.tolist(), chunk=4096, chunks=3), model)
        rows = rows_of(module)
        for layout in (RowSchedule, InBlocks):
            assert is_right(module.with_schedule(layout(model, rows), ""))


def test_wrong_schedules() -> None:
    rows = rows_of(GATHERED)
    early, chunk, link = rows.start.copy(), rows.chunk.copy(), rows.link.copy()
    early[40:] -= 1
    chunk[9] = (chunk[9] + 1) % 24
    link[9] = (link[9] + 1) % GATHERED.network.link_count
    there = np.arange(len(rows)) != 30
    wrong = [
        Transfers(rows.chunk, rows.link, early, rows.reduce),
        Transfers(chunk, rows.link, rows.start, rows.reduce),
        Transfers(rows.chunk, link, rows.start, rows.reduce),
        Transfers(rows.chunk, rows.link, rows.start[::-1].copy(), rows.reduce),
        Transfers(rows.chunk, rows.link, rows.start, ~rows.reduce),
        Transfers(np.full_like(chunk, 24), rows.link, rows.start, rows.reduce),
        Transfers(rows.chunk, np.full_like(link, -1), rows.start, rows.reduce),
        rows.select(there),
        rows.select(slice(0, len(rows) - 1)),
        rows.select(slice(0, 0)),
    ]
    for each in wrong:
        assert not is_right(GATHERED.with_schedule(InBlocks(LinkModel.PIPELINED, each), ""))


def test_what_is_left_to_other_checks() -> None:
    net, rows = GATHERED.network, rows_of(GATHERED)
    few = replace(net, buffers=np.full(net.switch_count, 50, np.int64))
    adding = replace(net, reduces=np.ones(net.switch_count, np.bool_))
    for other in (few, adding):
        module = replace(GATHERED, network=other)
        assert not is_right(module.with_schedule(RowSchedule(LinkModel.PIPELINED, rows), ""))
    schedule = RowSchedule(LinkModel.PIPELINED, rows)
    relayed = replace(rows, relayed=np.zeros(len(rows), np.int32))
    assert not is_right(GATHERED.with_schedule(RowSchedule(LinkModel.PIPELINED, relayed), ""))
    summed = replace(GATHERED, demand=all_reduce(list(range(12)), chunk=4096, chunks=2))
    assert not is_right(summed.with_schedule(schedule, ""))


def test_agrees_with_the_interpreter() -> None:
    seen: Counter[bool] = Counter()
    for seed in range(1000):
        module = random_module(seed)
        if module.schedule is not None and is_right(module):
            expected = interpret(module)
            assert all(expected.values()), seed
            seen[True] += 1
    assert seen[True] > 10


@pytest.mark.slow
def test_8192_gpus_are_listed_and_checked_in_bounded_memory() -> None:
    """An All-Gather of 134 million transfers. Issue: 10 s and 4 GB on an idle core."""
    net = rails(1024, 8, spine=True)
    module = Module("m", net, all_gather(list(range(8192)), chunk=2**17), LinkModel.PIPELINED)
    found = symmetric_module(module, Effort())
    assert is_right(replace(GATHERED.with_schedule(RowSchedule(LinkModel.PIPELINED, rows_of(GATHERED)), "")))
    with at_most(30):
        assert is_right(found)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20
