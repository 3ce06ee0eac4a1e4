"""`emit trace`: the timeline of a schedule as Chrome trace events."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from collc.command.cli import main
from collc.emit import trace
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
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
    assert [s["tid"] for s in slices] == transfers["link"].tolist()
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
        assert module.network.target[start["tid"]] == module.network.source[ends[number]["tid"]]
        assert start["ts"] < ends[number]["ts"]


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
