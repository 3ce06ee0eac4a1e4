"""Moving pictures: the data is that of the schedule, and a critical path is a chain that nothing could shorten."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collc.passes.registry import Invert, PassContext, Synthesize
from collc.pictures.device_groups import device_groups
from collc.pictures.link_use import LinkUse, use_of_schedule
from collc.pictures.moving_picture import Clip, clip_of, critical_path
from collc.pictures.picture import MOST_MARKS, SERIES
from collc.source.elaboration.elaborate import load_topology
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests.pictures.test_schedule_pictures import planned, repeated
from tests.support import all_gather, all_reduce, fully_connected, grid, ring


def unpacked(column: list[Any]) -> list[int]:
    width, text = column
    return np.frombuffer(base64.b64decode(text), f"<u{width}").tolist()


@pytest.fixture(params=list(LinkModel))
def use(request: pytest.FixtureRequest) -> LinkUse:
    return use_of_schedule(planned(grid(3, 3), all_gather(list(range(9))), request.param))


def test_rows_are_the_transfers(use: LinkUse) -> None:
    clip = clip_of(use, "a")
    data, shown = json.loads(clip.data), json.loads(clip.network)
    network = use.network
    assert clip.lists_rows
    assert (np.cumsum(unpacked(data["begin"])) * data["unit"]).tolist() == use.begin.tolist()
    kinds = [data["kinds"][kind] for kind in unpacked(data["kind"])]
    assert [kind[0] * data["unit"] for kind in kinds] == (use.free - use.begin).tolist()
    assert [kind[1] * data["unit"] for kind in kinds] == (use.arrive - use.begin).tolist()
    lines = [shown["lines"][line][:2] for line in unpacked(data["line"])]
    assert lines == np.stack([network.source[use.link], network.target[use.link]], axis=1).tolist()
    names = [data["items"][item] for item in unpacked(data["item"])]
    assert names == [use.name(row) for row in range(len(use))]
    assert [unpacked(column) for column in data["held"]] == [[1] * 9, list(range(9))]
    places = [device[1:] for device in shown["devices"]]
    assert len({tuple(place) for place in places}) == 9


def test_what_has_no_name_has_a_colour(use: LinkUse) -> None:
    data = json.loads(clip_of(use, "a", named=False).data)
    colors = np.array(unpacked(data["owner"]))[unpacked(data["item"])]
    assert colors.tolist() == (use.owner % SERIES).tolist()
    assert data["items"] is data["held"] is None
    assert {len(kind) for kind in data["kinds"]} == {2}


def check_parts(use: LinkUse, clip: Clip, line_of: list[int]) -> None:
    """The levels of lines, and what devices have received, counted part by part. line_of: of each link; -1: inside."""
    data, shown = json.loads(clip.data), json.loads(clip.network)
    unit = data["unit"]
    assert 207 * unit < use.time < 208 * unit
    levels = np.zeros((len(shown["lines"]), 208))
    for line, begin, kind in zip(
        unpacked(data["line"]), np.cumsum(unpacked(data["begin"])).tolist(), unpacked(data["kind"]), strict=True
    ):
        length, _, level = data["kinds"][kind]
        assert not levels[line, begin : begin + length].any()
        levels[line, begin : begin + length] = level
    expected = np.zeros_like(levels)
    lines = np.array(line_of)[use.link]
    for part in range(208):
        inside = np.minimum(use.free, (part + 1) * unit) - np.maximum(use.begin, part * unit)
        busy = np.bincount(lines + 1, np.maximum(0, inside), len(levels) + 1)[1:]
        widest = np.minimum(shown["links"], 4)
        expected[:, part] = 4 * np.ceil(busy * widest / (np.array(shown["links"]) * unit)) / widest
    assert np.array_equal(levels, expected)
    assert unpacked(data["carried"]) == np.bincount(lines + 1, minlength=len(levels) + 1)[1:].tolist()


def test_many_rows_are_drawn_as_the_use_of_links(use: LinkUse) -> None:
    long = repeated(use, 16 * MOST_MARKS // len(use) + 1)
    clip = clip_of(long, "a")
    assert not clip.lists_rows
    assert clip.notes == (f"{len(long):,} transfers are drawn as the use of links in 208 parts of the time",)
    network, shown = use.network, json.loads(clip.network)
    line_of = {(source, target): k for k, (source, target, _) in enumerate(shown["lines"])}
    ends = zip(network.source.tolist(), network.target.tolist(), strict=True)
    check_parts(long, clip, [line_of[pair] for pair in ends])
    data = json.loads(clip.data)
    assert unpacked(data["received"]) == np.bincount(network.target[long.link], minlength=9).tolist()
    arrived = np.reshape(unpacked(data["arrived"]), (9, 16))
    for device in range(9):
        arrive = np.sort(long.arrive[network.target[long.link] == device])
        for k in range(16):
            assert arrived[device, k] == arrive[-(-(k + 1) * len(arrive) // 16) - 1] // data["unit"]


def loaded(network: Network) -> LinkUse:
    """A transfer on each link, at different times."""
    links = np.arange(network.link_count, dtype=np.int32)
    rows = Transfers.of(np.zeros(len(links), np.int32), links, 10**6 * (links % 7).astype(np.int64))
    module = Module("m", network, all_gather([0, 1]), LinkModel.STORE)
    return use_of_schedule(module.with_schedule(RowSchedule(LinkModel.STORE, rows), ""))


def test_a_large_network_is_drawn_by_node(tmp_path: Path) -> None:
    program = tmp_path / "n.coll"
    program.write_text("import std.clusters\ntopology t = dgx_h100(64)\n")
    network = load_topology(program, "t", {})
    use = loaded(network)
    clip = clip_of(use, "a")
    shown = json.loads(clip.network)
    leaves = [f"leaf[{k}]" for k in range(8)]
    assert [name for name, *_ in shown["devices"]] == [*(f"gpu[{n}, *]" for n in range(64)), *leaves, "spine"]
    assert all(len(device) == 3 for device in shown["devices"])
    assert shown["links"] == [1] * (2 * 64 * 8 + 2 * 8)
    assert clip.notes[0].startswith("each circle is a group of NPUs, such as gpu[0, *], a line is as wide")
    of = [*np.repeat(np.arange(64), 8), *range(64), *range(64, 73)]
    line_of = {(source, target): k for k, (source, target, _) in enumerate(shown["lines"])}
    ends = zip(network.source.tolist(), network.target.tolist(), strict=True)
    check_parts(use, clip, [line_of.get((of[a], of[b]), -1) for a, b in ends])
    data = json.loads(clip.data)
    assert unpacked(data["received"])[:64] == [8 + 16] * 64  # from the leaves; to NPUs and the switch inside


@pytest.mark.parametrize(("most", "labels"), [(9, 9), (4, 3), (1, 1)])
def test_groups_are_of_consecutive_nodes(most: int, labels: int) -> None:
    network = grid(9, 2)
    groups = device_groups(network, most, most)
    assert groups.npu_groups == len(groups.labels) == labels
    assert groups.labels[0] == ("npu[0, *]" if labels == 9 else "npu[0, *] …")
    assert groups.of.tolist() == [npu // 2 // (9 // labels) for npu in range(18)]
    few = groups.network_of(network)
    assert few.link_count == 2 * (labels - 1)


def test_a_network_of_many_links_is_drawn_by_groups() -> None:
    """All of 100 NPUs are linked: 9,900 lines are too many."""
    network = fully_connected(100)
    use = loaded(network)
    clip = clip_of(use, "a")
    shown = json.loads(clip.network)
    assert len(shown["devices"]) == 50
    assert set(shown["links"]) == {4}
    line_of = {(source, target): k for k, (source, target, _) in enumerate(shown["lines"])}
    ends = zip(network.source.tolist(), network.target.tolist(), strict=True)
    check_parts(use, clip, [line_of.get((a // 2, b // 2), -1) for a, b in ends])


def test_groups_between_which_nothing_moves() -> None:
    network = fully_connected(100)
    none = Transfers.of(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))
    module = Module("m", network, all_gather([0, 1]), LinkModel.STORE)
    clip = clip_of(use_of_schedule(module.with_schedule(RowSchedule(LinkModel.STORE, none), "")), "a")
    data = json.loads(clip.data)
    assert unpacked(data["arrived"]) == [0] * (50 * 16)
    assert unpacked(data["line"]) == []


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
