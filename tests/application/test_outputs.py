"""Files of a schedule: messages about one that fails its check, and the stages of a lowering."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

import collc
from collc.base.diagnostics import SourceError, render
from collc.emit import msccl
from collc.msccl.program import Program
from tests.end_to_end.programs import HEAD, LINK, build

PAIR = HEAD + f"topology t = ring(4, {LINK})\n"
PROGRAM = PAIR + 'schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize tacos emit msccl("a.xml") }'


@pytest.mark.parametrize("limit", [None, 0])
def test_a_file_that_fails_its_check_is_named_by_its_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """limit: number of bytes above which the checker keeps no text of the file and names lines in its messages only."""
    right = msccl.xml_lines

    def wrong(program: Program, out: BinaryIO) -> None:
        out.writelines(line.replace('type="r"', 'type="x"').encode() for line in right(program))

    monkeypatch.setattr(msccl, "write_xml", wrong)
    if limit is not None:
        monkeypatch.setattr("collc.msccl.check.findings.SPAN_LIMIT", limit)
    (tmp_path / "p.coll").write_text(PROGRAM)
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path, errors="report").schedules
    assert report.exit == 4
    assert report.checks["contract"] == "failed"
    text = render(report.diagnostics)
    assert f"{tmp_path / 'a.xml'}:" in text
    assert "a.xml was not written" in text
    assert ".draft" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["p.coll"]


def test_the_stages_of_a_lowering_can_be_written(tmp_path: Path) -> None:
    """With the options of the MSCCL file that the program asks for."""
    text = PROGRAM.replace('"a.xml"', '"a.xml", instances: 2')
    (report,) = build(tmp_path, text, emit=("msccl_stages",))
    assert [path.name for path in report.files] == ["a.xml", "s.msccl_stages"]
    stages = (tmp_path / "s.msccl_stages").read_text()
    headings = [line for line in stages.splitlines() if line.startswith("#")]
    names = ["select", "merge", "assign", "allocate", "repeat", "depend"]
    assert headings == [f"# {number} {name}" for number, name in enumerate(names, 1)]
    before, after = stages.split("# 5 repeat")
    assert "tb 0 send=" in before.split("# 3 assign")[1]
    assert "tb 0 send=" not in before.split("# 3 assign")[0]
    assert after.count("  tb ") == 2 * 2 * before.split("# 4 allocate")[1].count("  tb ")
    alone = PAIR + 'schedule s on t { run all_gather(t.npus, size: 4MiB) emit msccl_stages(protocol: "LL") }'
    (report,) = build(tmp_path, alone)
    assert "contract" not in report.checks


def test_limits_are_reported_before_synthesis(tmp_path: Path) -> None:
    text = PAIR + "schedule s on t { run all_gather(t.npus, size: 1GiB, chunks: 16384) emit msccl }"
    (tmp_path / "p.coll").write_text(text)
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path, errors="report").schedules
    (message,) = report.diagnostics
    assert message.code == "M0111"
    assert "65535 as the last chunk of a buffer, 32768 more than the 32767" in message.message
    assert message.span is not None
    assert message.span.file.text[message.span.start : message.span.end] == "emit msccl"
    assert report.synthesizer is None


ALL_REDUCE = PAIR + "schedule s on t {{ run all_reduce(t.npus, size: 4MiB) synthesize tacos {} }}"


def test_the_old_runtime_gets_a_file_for_each_placement(tmp_path: Path) -> None:
    """The runtime reads only `inplace`, so that one file is not used for both placements."""
    (report,) = build(tmp_path, ALL_REDUCE.format('emit msccl("sub/a.xml", profile: "old")'))
    assert [path.relative_to(tmp_path).as_posix() for path in report.files] == ["sub/a.out.xml", "sub/a.in.xml"]
    assert [b'inplace="1"' in path.read_bytes() for path in report.files] == [False, True]
    assert {"a.out.xml: for calls out of place", "a.in.xml: for calls in place"} <= {*report.notes}
    assert [note.split(":")[0] for note in report.notes if "MSCCL:" in note] == ["a.out.xml, a.in.xml"]
    assert {report.checks[name] for name in ("contract", "result", "deadlock", "race")} == {"ok"}
    for placement, flag in (("in", True), ("out", False)):
        (report,) = build(tmp_path, ALL_REDUCE.format(f'emit msccl(profile: "old", placement: "{placement}")'))
        (path,) = report.files
        assert path.name == "s.msccl"
        assert (b' inplace="1"' in path.read_bytes()) is flag


def test_a_failed_check_removes_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = msccl.xml_lines

    def wrong_in_place(program: Program, out: BinaryIO) -> None:
        bad = "x" if program.placement.in_place else "r"
        out.writelines(line.replace('type="r"', f'type="{bad}"').encode() for line in right(program))

    monkeypatch.setattr(msccl, "write_xml", wrong_in_place)
    (tmp_path / "p.coll").write_text(ALL_REDUCE.format('emit msccl("a.xml", profile: "old")'))
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path, errors="report").schedules
    assert report.checks["contract"] == "failed"
    assert f"{tmp_path / 'a.in.xml'}:" in render(report.diagnostics)
    assert [path.name for path in tmp_path.iterdir()] == ["p.coll"]


@pytest.mark.parametrize("name", ["a.xml", "a.in.xml", "a.out.xml", "./a.in.xml"])
def test_the_names_of_both_files_cannot_be_used_again(tmp_path: Path, name: str) -> None:
    (tmp_path / "p.coll").write_text(ALL_REDUCE.format(f'emit msccl("a.xml", profile: "old") emit ten("{name}")'))
    with pytest.raises(SourceError) as caught:
        collc.compile(tmp_path / "p.coll", output=tmp_path)
    (message,) = caught.value.diagnostics
    assert (message.code, message.message) == ("U0204", f"two files are called {name}")


def test_names_that_differ_in_case_only_are_warned_about(tmp_path: Path) -> None:
    (tmp_path / "p.coll").write_text(ALL_REDUCE.format('emit ten("b/A.ten") emit ten("b/a.ten") emit ten("b/c.ten")'))
    (message,) = collc.compile(tmp_path / "p.coll", output=tmp_path).diagnostics
    assert (message.code, message.warning, message.message[:19]) == ("U0210", True, "b/a.ten and b/A.ten")


def test_a_gather_for_the_executor_is_warned_about(tmp_path: Path) -> None:
    text = PAIR + "schedule s on t {{ run {}(t.npus, size: 4MiB) synthesize tacos emit msccl }}"
    for collective in ("gather", "scatter", "broadcast"):
        (report,) = build(tmp_path, text.format(collective))
        found = [(message.code, message.warning) for message in report.diagnostics]
        assert found == ([] if collective == "broadcast" else [("X0110", True)])


def test_a_plan_for_large_buffers_only_is_refused_before_synthesis(tmp_path: Path) -> None:
    (tmp_path / "p.coll").write_text(ALL_REDUCE.format("emit mscclpp(sizes: 2GiB .. 3GiB)"))
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path, errors="report").schedules
    (message,) = report.diagnostics
    assert message.code == "M0113"
    assert message.span is not None
    assert message.span.file.text[message.span.start :].startswith("emit mscclpp")
    assert report.time_ps is None
