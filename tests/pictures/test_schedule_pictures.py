"""Pictures of schedules: bars and lines are where the transfers are, sums of bytes agree, large ones are limited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from collc.application.simulate.module_simulation import simulated_module
from collc.pictures.charts import bytes_label, time_label
from collc.pictures.link_use import LinkUse, use_of_schedule, use_of_simulation
from collc.pictures.picture import MOST_MARKS
from collc.pictures.schedule_pictures import (
    MOST_ROWS,
    SPANS,
    gantt_picture,
    load_map,
    ten_picture,
    utilisation_chart,
)
from collc.simulation.timing import ExactTiming
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests.pictures.drawn import SVG, overlaps, root_of, texts, tips
from tests.support import all_gather, all_reduce, all_to_all, grid, network, ring, switched


def planned(net: Network, demand, model: LinkModel = LinkModel.PIPELINED) -> Module:
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32))
    return Module("m", net, demand, model).with_schedule(pccl(task, Effort()), "")


@pytest.fixture(scope="module")
def gather() -> Module:
    return planned(grid(3, 3), all_gather(list(range(9))))


@pytest.fixture(scope="module")
def exchange() -> Module:
    return planned(switched(6), all_to_all(list(range(6))))


@pytest.fixture
def use(gather: Module) -> LinkUse:
    return use_of_schedule(gather)


def test_the_use_of_links_is_that_of_the_schedule(gather: Module, use: LinkUse) -> None:
    table = gather.transfers()
    assert use.begin.tolist() == table["start_ps"].tolist()
    assert use.arrive.tolist() == table["end_ps"].tolist()
    assert use.time == gather.collective_time()
    assert int(use.bytes_per_link.sum()) == int(table["size_bytes"].sum()) == 72 * 2**20
    first = [int(gather.demand.chunks.sets[pre][0]) for pre in gather.demand.chunks.pre.tolist()]
    assert use.owner.tolist() == [first[chunk] for chunk in table["chunk"].tolist()]


@pytest.mark.parametrize("model", LinkModel)
def test_a_simulation_gives_the_same_use(model: LinkModel) -> None:
    """A pipelined schedule without gaps is replayed at its own times."""
    module = planned(ring(6), all_gather(list(range(6))), model)
    ours = use_of_schedule(module)
    theirs = use_of_simulation(simulated_module(module, ExactTiming(model)))
    assert ours.bytes_per_link.tolist() == theirs.bytes_per_link.tolist()
    assert ours.busy_per_link.tolist() == theirs.busy_per_link.tolist()
    assert theirs.time <= ours.time
    assert theirs.name(0).startswith("message npu[")


def test_utilisation_adds_up(use: LinkUse) -> None:
    for spans in (1, 7, 60):
        shares = use.utilisation(spans)
        assert shares.mean() == pytest.approx(use.busy_per_link.sum() / use.time / use.network.link_count)
        assert 0 <= shares.min() <= shares.max() <= 1 + 1e-9
    assert len(replace(use, time=0).utilisation(3)) == 0


def test_the_time_expanded_network_has_a_line_for_each_transfer(use: LinkUse) -> None:
    picture = ten_picture(use)
    assert overlaps(picture) == []
    assert len(tips(picture)) == len(use) == 72
    name, size = use.name(0), bytes_label(int(use.size[0]))
    assert any(
        tip.startswith(f"{name}, {size}: {use.network.link_name(int(use.link[0]))}, 0ps to") for tip in tips(picture)
    )
    drawn = [p.get("d", "") for p in root_of(picture).iter(f"{SVG}path") if (p.get("class") or "")[0] == "s"]
    begins = sorted({float(path[1:].split(" ")[0]) for path in drawn})
    steps = sorted(set(use.begin.tolist()))
    assert len(begins) == len(steps)
    shares = [(x - begins[0]) / (begins[-1] - begins[0]) for x in begins]
    assert shares == pytest.approx([step / steps[-1] for step in steps], abs=1e-3)


def test_bars_are_as_long_as_links_are_busy(use: LinkUse) -> None:
    picture = gantt_picture(use)
    assert overlaps(picture) == []
    bars = [r for r in root_of(picture).iter(f"{SVG}rect") if r.get("rx") == "1.5"]
    assert len(bars) == len(use)
    widths = {round(float(r.get("width", 0)), 1) for r in bars}
    assert len(widths) == len(set((use.free - use.begin).tolist())) == 1


def test_bytes_between_devices(exchange: Module) -> None:
    use = use_of_schedule(exchange)
    picture = load_map(use)
    assert overlaps(picture) == []
    said = tips(picture)
    assert len(said) == 12
    for link in range(12):
        ends = use.network.link_name(link).replace(" -> ", " to ")
        assert f"{ends}: {bytes_label(int(use.bytes_per_link[link]))}" in said


def test_many_devices_are_shown_by_node() -> None:
    net = grid(16, 16)
    module = Module("m", net, all_gather(list(range(256))), LinkModel.STORE)
    empty = Transfers.of(*(np.arange(2, dtype=np.int32) for _ in range(2)), np.zeros(2, np.int64))
    use = use_of_schedule(module.with_schedule(RowSchedule(LinkModel.STORE, empty), ""))
    picture = load_map(use)
    assert "npu[15, *]" in texts(picture)
    assert "from: senders (sums)" in texts(picture)
    full = {tip for tip in tips(picture) if tip.endswith("MiB")}
    rows = [(int(net.source[link]) // 16, int(net.target[link]) // 16) for link in (0, 1)]
    assert full == {f"npu[{a}, *] to npu[{b}, *]: {rows.count((a, b))}MiB" for a, b in rows}
    assert overlaps(picture) == []
    assert sum(label.startswith("npu[") for label in texts(ten_picture(use))) == MOST_ROWS + 2  # two in the legend


def repeated(use: LinkUse, times: int) -> LinkUse:
    """The transfers of a schedule several times, one after the other."""
    shift = np.repeat(np.arange(times, dtype=np.int64) * use.time, len(use))

    def again(column: np.ndarray) -> np.ndarray:
        return np.tile(column, times)

    return replace(
        use,
        link=again(use.link),
        begin=again(use.begin) + shift,
        free=again(use.free) + shift,
        arrive=again(use.arrive) + shift,
        size=again(use.size),
        owner=again(use.owner),
        reduce=again(use.reduce),
        kept=again(use.kept),
        item=again(use.item),
        time=use.time * times,
    )


def test_long_schedules_are_limited_and_say_so(use: LinkUse) -> None:
    long = repeated(use, 60)
    assert len(long) > MOST_MARKS
    ten = ten_picture(long)
    assert len(tips(ten)) == MOST_MARKS
    assert f"{MOST_MARKS} of {len(long)} transfers" in texts(ten)
    gantt = gantt_picture(long)
    assert len(tips(gantt)) < len(long) / 2
    assert sum(int(tip.split(": ")[1].split(" ")[0]) for tip in tips(gantt)) == len(long)
    assert any("drawn as one" in words for words in texts(gantt))


def test_transfers_that_do_not_exist_are_left_out(gather: Module) -> None:
    rows = Transfers.of(np.array([0, 99, 1]), np.array([0, 1, 77]), np.zeros(3, np.int64))
    module = gather.with_schedule(RowSchedule(LinkModel.STORE, rows), "")
    assert len(use_of_schedule(module)) == 1
    with pytest.raises(ValueError, match="no schedule"):
        use_of_schedule(replace(module, schedule=None))


def test_utilisation_of_several(use: LinkUse) -> None:
    shares = use.utilisation(SPANS).tolist()
    picture = utilisation_chart([("ours", use.time, shares), ("ring", 2 * use.time, shares), ("none", 1, [])])
    assert {"ours", "ring"} <= set(texts(picture))
    assert "none" not in texts(picture)
    cut = utilisation_chart([("ours", use.time, shares), ("ring", 90 * use.time, shares)], until=4 * use.time)
    ends = [tip for tip in tips(cut) if tip.startswith("ring")]
    assert len(ends) <= 4
    assert ends[-1].endswith(time_label(4 * use.time))
    assert overlaps(picture) == []


def test_switches_of_nodes_follow_their_npus_and_sums_are_explained():
    """Two nodes of three NPUs with a switch each, and a switch between all."""
    links = [(i, 6 + i // 3) for i in range(6)] + [(i, 8) for i in range(6)]
    net = network(6, [pair for a, b in links for pair in ((a, b), (b, a))], switches=3, shape=(2, 3))
    module = join(solve(Module("m", net, all_reduce(list(range(6)))), lambda task: pccl(task, Effort())))
    shown = texts(ten_picture(use_of_schedule(module)))
    rows = [net.device_name(device) for device in (0, 1, 2, 6, 3, 4, 5, 7, 8)]
    assert [text for text in shown if text in rows][-9:] == rows
    assert "colour: the NPU where a sum ends; dashed: is added" in shown
    assert "colour: the NPU where a sum ends; pale: is added" in texts(gantt_picture(use_of_schedule(module)))


def test_the_legend_has_whole_names():
    module = planned(network(8, [(a, b) for a in range(8) for b in range(8) if a != b]), all_gather(list(range(8))))
    for picture in (ten_picture(use_of_schedule(module)), gantt_picture(use_of_schedule(module))):
        shown = texts(picture)
        legend = shown[: shown.index("colour: the NPU where a chunk begins")]
        assert legend == [module.network.device_name(npu) for npu in range(len(legend))]
        assert len(legend) >= 6


def test_many_transfers_have_thin_lines():
    widths = []
    for chunks in (1, 12):
        module = planned(grid(3, 3), all_gather(list(range(9)), chunks=chunks))
        root = root_of(ten_picture(use_of_schedule(module)))
        widths.append({path.get("stroke-width") for path in root.iter(f"{SVG}path") if path.get("stroke-width")})
    assert widths == [{"1.3"}, {"0.58"}]


def test_a_chart_that_ends_before_a_curve_says_so():
    curves = [("a", 100, [1.0, 0.5]), ("b", 900, [0.5, 0.5])]
    assert "time (some go on after its end)" in texts(utilisation_chart(curves, until=400))
    assert "time" in texts(utilisation_chart(curves, until=900))


def test_what_is_only_kept_apart_is_said() -> None:
    """The first partial of a sum is added by its receiver, the second one is only kept there."""
    module = Module("m", ring(3), all_reduce([0, 1, 2]))
    rows = Transfers.of(np.zeros(2, np.int32), np.array([0, 3], np.int32), np.zeros(2, np.int64), reduce=True)
    kept = replace(rows, kept=np.array([False, True]))
    use = use_of_schedule(replace(module, schedule=RowSchedule(LinkModel.STORE, kept)))
    assert use.reduce.tolist() == [True, False]
    said = tips(gantt_picture(use))
    assert sum("(added to what the target holds)" in tip for tip in said) == 1
    assert sum("(kept apart)" in tip for tip in said) == 1
    assert module.with_schedule(RowSchedule(LinkModel.STORE, kept), "").transfers().kept.tolist() == [False, True]
