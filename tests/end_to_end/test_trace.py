"""`emit trace`: the timeline of a schedule as Chrome trace events."""

from __future__ import annotations

import io
import json
import shutil
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


@pytest.mark.parametrize("latency", [500_000, 333])
def test_what_perfetto_needs(latency):
    """Perfetto counts whole nanoseconds. Slices of a track must follow each other or lie inside each other, or it drops
    them; both ends of an arrow must lie in slices of their tracks, and agree in name, category and id."""
    kind = LinkKind(latency, Fraction(3 * 10**11))
    events, _ = traced(planned(grid(2, 3, kind=kind), all_to_all(list(range(6)), chunk=10**6 + 1)))
    tracks, names = defaultdict(list), set()
    for event in events:
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            names.add((event["name"], event["pid"], event.get("tid")))
            continue
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            begin = int(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((begin, begin + int(event["dur"] * 1000)))
    for track, spans in tracks.items():
        assert ("thread_name", *track) in names
        spans.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    arrows = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            arrows[event["name"], event["cat"], event["id"]].append(event["ph"])
            assert event["ph"] == "s" or event["bp"] == "e"
            at = int(event["ts"] * 1000)
            assert any(begin <= at < end for begin, end in tracks[event["pid"], event["tid"]])
    assert set(map(tuple, arrows.values())) == {("s", "f")}


def test_perfetto_opens_it(tmp_path):
    """With Perfetto's trace processor, where its program is on this machine; the package itself would load it from the
    network."""
    processor = pytest.importorskip("perfetto.trace_processor", reason="perfetto is not installed")
    program = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if program is None:
        pytest.skip("trace_processor_shell is not on the PATH: https://get.perfetto.dev/trace_processor")
    module = planned(grid(2, 3), all_to_all(list(range(6))))
    path = tmp_path / "x.json"
    with path.open("w") as out:
        trace.write_trace(module, out)
    events = json.loads(path.read_text())["traceEvents"]
    config = processor.TraceProcessorConfig(bin_path=program)
    with processor.TraceProcessor(trace=str(path), config=config) as opened:
        slices, flows = (
            next(iter(opened.query(f"select count(*) as n from {table}"))).n for table in ("slice", "flow")
        )
        lost = list(opened.query("select name, value from stats where severity != 'info' and value > 0"))
    assert flows == sum(event["ph"] == "s" for event in events)
    assert slices == sum(event["ph"] in "Xi" for event in events)
    assert lost == []


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
