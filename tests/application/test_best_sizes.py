"""`sizes: auto`: a file is limited to the sizes for which it is the best known."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import collc
from collc.application.emit import file_times
from collc.application.emit.file_times import SIZES, _Comparison
from collc.base.units import format_bytes
from collc.tuning import nccl_shapes

PROGRAM = """
import std.topologies
import std.collectives
import std.algorithms
topology t = fully_connected(4, bandwidth: 50GB/s, latency: 0.5us)
collective mine(g: group) {
    chunk x: 4KiB
    pre x at g[0]
    post x at g
}
schedule s on t {
    run RUN
    synthesize auto(link_model: "pipelined")
    emit EMIT
}
"""

ALL_REDUCE = "all_reduce(t.npus, size: 4MiB, chunks: 1)"


@pytest.fixture(autouse=True)
def plan_for_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small part of the work."""
    monkeypatch.setattr(file_times, "PLANNED", (2**21,))
    monkeypatch.setattr(nccl_shapes, "PIECES", (1,))


def compiled(folder: Path, run: str, emit: str) -> collc.ScheduleReport:
    text = PROGRAM.replace("RUN", run).replace("EMIT", emit)
    report = collc.compile_text(text, output=folder)
    report.raise_if_failed()
    return report["s"]


def test_a_file_has_the_sizes_of_the_remark(tmp_path: Path) -> None:
    report = compiled(tmp_path, ALL_REDUCE, 'msccl("s.xml", sizes: auto)')
    (remark,) = (note for note in report.notes if note.startswith("sizes: auto"))
    algo = ET.parse(tmp_path / "s.xml").getroot()
    low, high = int(algo.get("minBytes", "-1")), int(algo.get("maxBytes", "-1"))
    assert SIZES[0] <= low < high == 2**32
    assert remark.startswith(f"sizes: auto: {format_bytes(low)} .. 4GiB; ")
    plan = compiled(tmp_path, ALL_REDUCE, 'mscclpp("s.json", sizes: auto)')
    assert json.loads((tmp_path / "s.json").read_text())["max_message_size"] == 2**31
    assert any(note.startswith("sizes: auto: ") and " .. 2GiB; " in note for note in plan.notes)
    assert "finds NCCL's ring and NCCL's tree and what auto finds for 2MiB at most 2 % faster" in remark


def test_plans_and_groups_have_sizes_too(tmp_path: Path) -> None:
    run = "all_gather([t.npu[2], t.npu[0], t.npu[3]], size: 3MiB, chunks: 1)"
    report = compiled(tmp_path, run, 'mscclpp("s.json", sizes: auto)')
    plan = json.loads((tmp_path / "s.json").read_text())
    assert 0 < plan["min_message_size"] < plan["max_message_size"] <= 2**32
    assert any(note.startswith("sizes: auto") for note in report.notes)


@pytest.mark.parametrize(
    ("run", "emit", "message"),
    [
        ("mine(t.npus)", 'msccl("s.xml", profile: "old", coll: "custom", sizes: auto)', "not for mine"),
        (f"{ALL_REDUCE} using ring", 'msccl("s.xml", sizes: auto)', "the best known for no size: at "),
    ],
)
def test_where_there_are_no_sizes(tmp_path: Path, run: str, emit: str, message: str) -> None:
    text = PROGRAM.replace("RUN", run).replace("EMIT", emit).replace('synthesize auto(link_model: "pipelined")', "")
    with pytest.raises(collc.SourceError) as caught:
        collc.compile_text(text, output=tmp_path)
    (found,) = caught.value.diagnostics
    assert found.code == "M0119"
    assert message in found.message
    assert found.span is not None
    assert list(tmp_path.iterdir()) == []


def test_a_value_of_the_program_named_auto_is_a_range(tmp_path: Path) -> None:
    text = PROGRAM.replace("RUN", ALL_REDUCE).replace("EMIT", 'msccl("s.xml", sizes: auto)')
    collc.compile_text("let auto = 1MiB .. 2MiB\n" + text, output=tmp_path).raise_if_failed()
    algo = ET.parse(tmp_path / "s.xml").getroot()
    assert (algo.get("minBytes"), algo.get("maxBytes")) == (str(2**20), str(2**21))


def column(*times: int) -> list[int | None]:
    """These times, then 1000 for all sizes that are left."""
    return [*times, *[1000] * (len(SIZES) - len(times))]


def test_the_longest_sequence_of_sizes_is_kept() -> None:
    other = column(*[100] * 10)
    own: list[int | None] = [None, 90, 200, 102, 101, 99, 103, *[99] * 3, *[1020] * (len(SIZES) - 10)]
    found = _Comparison(own, {"NCCL's ring": other})
    kept = found.longest_range()
    assert kept == list(range(7, len(SIZES)))
    assert found.ends(kept)[1] == SIZES[-1]
    assert _Comparison(own, {"a": other, "b": column(*[50] * len(SIZES))}).longest_range() == []


def test_a_range_ends_where_others_become_faster() -> None:
    """Own times grow from 100 to 300, those of the others from 140 to 260: they meet in the middle."""
    own = column(100, 300, *[2000] * (len(SIZES) - 2))
    other = column(140, 260, *[1000] * (len(SIZES) - 2))
    found = _Comparison(own, {"NCCL's ring": other})
    assert found.longest_range() == [0]
    low, high = found.ends([0])
    assert low == SIZES[0]
    assert high + 1 == pytest.approx((SIZES[0] + SIZES[1]) / 2, abs=(SIZES[1] - SIZES[0]) / 16 + 1)
    assert "1.40 times as fast" in found.gain([0])
    assert found.nearest() == "at 1KiB it takes 0.71 times as long as NCCL's ring"
