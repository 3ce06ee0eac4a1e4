"""`collc.solve_designs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

import collc
from collc.api.compiling import DesignOptions

PROGRAM = """
import std.topologies
param total: rate = 100GB/s
topology net = ring(4) * switched(8)
workload w (tensor: 1, data: 32) { layer (forward: 0s) { weight_gradient data all_reduce 1000000000B } }
design pod on net { train w require sum(bandwidth) == total minimize time emit libra("pod/") }
design late on net { train w require sum(bandwidth) == total require time <= 1ms minimize cost }
"""


def test_a_design_of_a_file_with_its_files(tmp_path: Path) -> None:
    path = tmp_path / "p.coll"
    path.write_text(PROGRAM, encoding="utf-8")
    report = collc.solve_designs(path, design="pod", output=tmp_path)
    best = report["pod"].optimum
    assert best.bandwidth == pytest.approx([2400 / 31, 700 / 31], rel=1e-8)
    assert best.time == pytest.approx(19_375_000, rel=1e-9)
    assert best.cost == pytest.approx(51_385.81, abs=0.005)
    assert report["pod"].alternatives["equal"].time == pytest.approx(best.time * best.speedup)
    assert {Path(file).name for file in report["pod"].files} >= {"pod.libra.json", "pod.lp", "pod.smt2"}
    assert (len(report), [design.name for design in report], report.ok) == (1, ["pod"], True)
    assert "19.375ms" in report._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "message" in report["pod"]._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_a_design_without_a_solution(tmp_path: Path) -> None:
    with pytest.raises(collc.NoSchedule, match="'late' cannot meet its deadline"):
        collc.solve_designs(PROGRAM, output=tmp_path)
    report = collc.solve_designs(PROGRAM, output=tmp_path, errors="report")
    assert (report.ok, report["pod"].ok, report["late"].ok) == (False, True, False)
    assert report["late"].diagnostics[0].code == "E0918"
    assert repr(report["late"]) == "<DesignReport late: no solution>"
    with pytest.raises(ValueError, match="design 'late' has no solution"):
        report["late"].optimum  # noqa: B018  # pyright: ignore[reportUnusedExpression]


def test_wrong_arguments() -> None:
    with pytest.raises(collc.UsageError, match="no design 'pdo'"):
        collc.solve_designs(PROGRAM, design="pdo")
    with pytest.raises(TypeError, match="no keyword 'desing'; did you mean 'design'"):
        cast("Any", collc.solve_designs)(PROGRAM, desing="pod")
    with pytest.raises(KeyError, match="did you mean 'late'"):
        collc.solve_designs(PROGRAM, design="late", definitions={"total": "1TB/s"}, errors="report")["lat"]


def test_the_page_names_every_keyword() -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")
    section = page[page.index("## Designs") :]
    for keyword in DesignOptions.__annotations__:
        assert f"`{keyword}`" in section
