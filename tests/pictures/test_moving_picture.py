"""Moving pictures: the data is that of the schedule, and a critical path is a chain that nothing could shorten."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.pictures.link_use import LinkUse, use_of_schedule
from collc.pictures.moving_picture import clip_of, critical_path
from collc.pictures.picture import MOST_MARKS, WIDTH
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from tests.pictures.test_schedule_pictures import planned, repeated
from tests.support import all_gather, all_reduce, grid, ring


def unpacked(column: list[Any]) -> list[int]:
    width, text = column
    return np.frombuffer(base64.b64decode(text), f"<u{width}").tolist()


@pytest.fixture(params=list(LinkModel))
def use(request: pytest.FixtureRequest) -> LinkUse:
    return use_of_schedule(planned(grid(3, 3), all_gather(list(range(9))), request.param))


def test_rows_are_the_transfers(use: LinkUse) -> None:
    clip = clip_of(use, "a")
    data = json.loads(clip.data)
    network = use.network
    assert clip.lists_rows
    assert [begin * data["unit"] for begin in unpacked(data["begin"])] == use.begin.tolist()
    kinds = [data["kinds"][kind] for kind in unpacked(data["kind"])]
    assert [kind[0] * data["unit"] for kind in kinds] == (use.free - use.begin).tolist()
    assert [kind[1] * data["unit"] for kind in kinds] == (use.arrive - use.begin).tolist()
    lines = [data["lines"][line][:2] for line in unpacked(data["line"])]
    assert lines == np.stack([network.source[use.link], network.target[use.link]], axis=1).tolist()
    names = [data["items"][item] for item in unpacked(data["item"])]
    assert names == [use.name(row) for row in range(len(use))]
    assert [unpacked(column) for column in data["held"]] == [list(range(9)), list(range(9))]
    places = [device[1:] for device in data["devices"]]
    assert len({tuple(place) for place in places}) == 9


def test_many_rows_are_joined_and_no_link_is_idle_that_was_busy(use: LinkUse) -> None:
    long = repeated(use, 16 * MOST_MARKS // len(use) + 1)
    clip = clip_of(long, "a")
    assert not clip.lists_rows
    assert clip.notes == (f"of {len(long):,} transfers, those of a link that touch are drawn as one",)
    data = json.loads(clip.data)
    assert len(unpacked(data["begin"])) < len(long) / 2
    covered = np.zeros((len(data["lines"]), WIDTH + 1), np.bool_)
    for line, begin, kind in zip(*(unpacked(data[name]) for name in ("line", "begin", "kind")), strict=True):
        covered[line, begin : begin + data["kinds"][kind][0]] = True
    line_of = {(source, target): k for k, (source, target, _) in enumerate(data["lines"])}
    for row in range(0, len(long), 97):
        link = int(long.link[row])
        line = line_of[int(long.network.source[link]), int(long.network.target[link])]
        assert covered[line, int(long.begin[row]) // data["unit"]]


@pytest.mark.parametrize("demand", [all_gather(list(range(6))), all_reduce(list(range(6)))])
def test_a_critical_path_is_a_chain_from_the_start_to_the_last_arrival(demand: Demand) -> None:
    """Each transfer follows the last one that brought its chunk or left its link."""
    context = PassContext()
    module = Module("m", ring(6), demand, LinkModel.PIPELINED)
    use = use_of_schedule(Invert().run(Synthesize("pccl").run(module, context), context))
    path = critical_path(use)
    assert int(use.arrive[path[-1]]) == use.time
    assert int(use.begin[path[0]]) == 0
    network = use.network
    for before, after in pairwise(path):
        link, begin = use.link[after], use.begin[after]
        came = (use.item == use.item[after]) & (network.target[use.link] == network.source[link])
        ends = np.concatenate([use.arrive[came], use.free[use.link == link]])
        last = int(ends[ends <= begin].max())
        assert (came[before] and use.arrive[before] == last) or (use.link[before] == link and use.free[before] == last)


def test_a_pause_ends_no_critical_path(use: LinkUse) -> None:
    late = replace(use, begin=use.begin + 5, free=use.free + 5, arrive=use.arrive + 5, time=use.time + 5)
    assert critical_path(late) == critical_path(use)
    nothing = np.zeros(0, np.int64)
    assert critical_path(replace(use, link=nothing, begin=nothing, free=nothing, arrive=nothing, item=nothing)) == []
