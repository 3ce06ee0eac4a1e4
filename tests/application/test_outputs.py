"""Files of a schedule: what is told of one that fails its check, and the stages of a lowering."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

import collc
from collc.base.rendering import render
from collc.emit import msccl
from collc.msccl.program import Program
from tests.end_to_end.programs import HEAD, LINK, build

PAIR = HEAD + f"topology t = ring(4, {LINK})\n"
PROGRAM = PAIR + 'schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize tacos emit msccl("a.xml") }'


@pytest.mark.parametrize("limit", [None, 0])
def test_a_file_that_fails_its_check_is_told_by_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    """limit: of bytes above which the checker keeps no text of the file, but names lines in words."""
    right = msccl.xml_lines

    def wrong(program: Program, out: BinaryIO) -> None:
        out.writelines(line.replace('type="r"', 'type="x"').encode() for line in right(program))

    monkeypatch.setattr(msccl, "write_xml", wrong)
    if limit is not None:
        monkeypatch.setattr("collc.msccl.check.findings.SPAN_LIMIT", limit)
    (tmp_path / "p.coll").write_text(PROGRAM)
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path).schedules
    assert report.exit == 4
    assert report.checks["contract"] == "failed"
    told = render(report.diagnostics)
    assert f"{tmp_path / 'a.xml'}:" in told
    assert "a.xml was not written" in told
    assert ".draft" not in told
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


def test_limits_are_told_before_a_schedule_is_sought(tmp_path: Path) -> None:
    text = PAIR + "schedule s on t { run all_gather(t.npus, size: 1GiB, chunks: 16384) emit msccl }"
    (tmp_path / "p.coll").write_text(text)
    (report,) = collc.compile(tmp_path / "p.coll", output=tmp_path).schedules
    (told,) = report.diagnostics
    assert told.code == "M0111"
    assert "65535 as the last chunk of a buffer, 32768 more than the 32767" in told.message
    assert told.span is not None
    assert told.span.file.text[told.span.start : told.span.end] == "emit msccl"
    assert report.algorithm is None
