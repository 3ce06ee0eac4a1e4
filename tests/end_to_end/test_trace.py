"""`emit trace`: the timeline of a schedule as Chrome trace events."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from collc.command.cli import main
from collc.emit import trace
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel
from tests.support import all_gather, all_to_all, grid, ring, switched

KEYS = {"M": {"name", "pid", "args"}, "X": {"name", "pid", "tid", "ts", "dur"}, "i": {"name", "pid", "tid", "ts", "s"}}
KEYS |= {"s": {"name", "cat", "id", "pid", "tid", "ts"}, "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"}}


def planned(net, demand, model=LinkModel.PIPELINED) -> Module:
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32))
    return Module("m", net, demand, model).with_schedule(pccl(task, Effort()), "")


def traced(module: Module) -> tuple[list[dict], list[str]]:
    out = io.StringIO()
    notes = trace.write_trace(module, out)
    return json.loads(out.getvalue())["traceEvents"], notes


@pytest.mark.parametrize("net", [grid(2, 3), switched(6)], ids=["mesh", "switch"])
@pytest.mark.parametrize("model", LinkModel)
def test_events_are_those_of_the_schedule(net, model):
    module = planned(net, all_to_all(list(range(6))), model)
    events, notes = traced(module)
    assert notes == []
    for event in events:
        assert KEYS[event["ph"]] <= event.keys()
    transfers = module.transfers()
    slices = [event for event in events if event["ph"] == "X" and event["cat"] != "npu"]
    assert [s["tid"] - trace.FIRST_TRACK for s in slices] == transfers["link"].tolist()
    assert [s["args"]["start_ps"] for s in slices] == transfers["start_ps"].tolist()
    assert [s["args"]["arrival_ps"] for s in slices] == transfers["end_ps"].tolist()
    assert sum(event["ph"] == "i" for event in events) == int((transfers["target"] < 6).sum())
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert len(names) == net.link_count + 6
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"} <= names


def test_slices_of_a_track_do_not_overlap_and_arrows_join_hops():
    module = planned(grid(3, 3), all_gather(list(range(9)), chunks=2))
    events, _ = traced(module)
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(end <= begin + 1e-6 for (_, end), (begin, _) in pairwise(spans))
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    rows = module.transfers()
    forwarded = sum(int(source) != int(chunk) // 2 for chunk, source in zip(rows["chunk"], rows["source"], strict=True))
    assert len(starts) == forwarded
    for number, start in starts.items():
        into, out = (end["tid"] - trace.FIRST_TRACK for end in (start, ends[number]))
        assert module.network.target[into] == module.network.source[out]
        assert start["ts"] < ends[number]["ts"]


class Imported:
    """What Perfetto's importer makes of a file: events in order of time, slices on a stack for each track.

    Written after `JsonTraceParser` and `SliceTracker` of Perfetto v50. slices: (track, name, begin, end, depth). flows:
    the slices that each joins. lost: what the importer counts as errors.
    """

    def __init__(self, text: str) -> None:
        self.slices: list[list] = []
        self.flows: list[tuple[int, int]] = []
        self.lost: list[object] = []
        self.stacks: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.open: dict[object, int] = {}
        self.threads: dict[int, int] = {}
        events = json.loads(text)["traceEvents"]
        for event in sorted((e for e in events if e["ph"] != "M"), key=lambda e: int(e["ts"] * 1000)):
            self.event(event, (event["pid"], event["tid"]), int(event["ts"] * 1000))

    def event(self, event: dict, track: tuple[int, int], time: int) -> None:
        if event["tid"] in (0, event["pid"]) or self.threads.setdefault(event["tid"], event["pid"]) != event["pid"]:
            self.lost.append(("thread", event))
        stack = self.stacks[track]
        while stack and self.slices[stack[-1]][3] <= time:
            stack.pop()
        if event["ph"] == "X":
            end = time + int(event["dur"] * 1000)
            if stack and end > self.slices[stack[-1]][3]:
                self.lost.append(("overlaps", event))
            self.slices.append([track, event["name"], time, end, len(stack)])
            stack.append(len(self.slices) - 1)
        elif event["ph"] in "sf":
            key = (event["cat"], event["name"], event["id"])
            if not stack or (event["ph"] == "s") == (key in self.open):
                self.lost.append(("flow", event))
            elif event["ph"] == "s":
                self.open[key] = stack[-1]
            else:
                self.flows.append((self.open[key], stack[-1]))


@pytest.mark.parametrize("seed", range(4))
def test_an_importer_like_that_of_perfetto_loses_nothing(seed):
    """Odd sizes and rates: times have fractions of nanoseconds, which binary fractions of microseconds do not meet."""
    kind = LinkKind(123_457 * seed, Fraction(7 * 10**9 + 13, 3))
    net = switched(5, kind) if seed % 2 else grid(2, 3, kind=kind)
    module = planned(net, all_to_all(list(range(net.npu_count)), chunk=100_003 + seed))
    out = io.StringIO()
    trace.write_trace(module, out)
    found = Imported(out.getvalue())
    assert found.lost == []
    rows = module.transfers()
    links = [one for one in found.slices if one[0][0] == 1]
    assert len(links) == len(rows)
    assert {one[4] for one in found.slices} == {0}
    for one, two in found.flows:
        (_, into), (_, onward) = (found.slices[number][0] for number in (one, two))
        assert net.target[into - trace.FIRST_TRACK] == net.source[onward - trace.FIRST_TRACK]
        assert found.slices[one][1] == found.slices[two][1]  # the same chunk
        assert found.slices[one][3] <= found.slices[two][2] + 1


def test_large_schedules_are_cut(monkeypatch):
    monkeypatch.setattr(trace, "MOST_TRANSFERS", 5)
    events, notes = traced(planned(ring(4), all_gather([0, 1, 2, 3])))
    assert sum(event["ph"] == "X" and event["cat"] != "npu" for event in events) == 5
    assert "the first 5 of 12 transfers" in notes[0]


def test_written_by_compile(tmp_path):
    text = """import std.topologies
import std.collectives
topology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule s on t { run all_reduce(t.npus, size: 4MiB) emit trace("x.json") }
"""
    (tmp_path / "p.coll").write_text(text)
    assert main(["compile", str(tmp_path / "p.coll"), "-o", str(tmp_path), "--quiet"]) == 0
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    assert {event["cat"] for event in events if event["ph"] == "X"} == {"reduce", "copy", "npu"}
