"""Designs on networks that are no products: the designs of the product with their sizes, or a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.application.design.designs import DesignReport, solve_designs
from collc.base.diagnostics import SourceFile
from collc.command.cli import main

PROGRAM = """
import std.topologies
topology own(n: int) {
    npu a[n]
    switch hub
    for i in 0..n { link a[i] <-> hub }
}
topology net = NETWORK
workload w (tensor: 4, data: 4) {
    layer (forward: 1ms) {
        forward tensor all_reduce 64MiB
        weight_gradient data all_reduce 48MiB
    }
}
design d on net {
    train w
    require sum(bandwidth) == 100GB/s
    minimize time
}
"""


def design(network: str) -> DesignReport:
    return solve_designs(SourceFile("p.coll", PROGRAM.replace("NETWORK", network)), {})["d"]


@pytest.mark.parametrize(
    ("network", "same"),
    [
        ("torus2d(4, 4)", "ring(4) * ring(4)"),
        ("torus2d(2, 8)", "ring(2) * ring(8)"),
        ("torus3d(4, 2, 2)", "ring(4) * ring(2) * ring(2)"),
        ("hypercube(4)", "ring(2) * ring(2) * ring(2) * ring(2)"),
        ("mesh2d(8, 2)", "line(8) * ring(2)"),
        ("rail_only(4, 4)", "switched(4) * switched(4)"),
        ("torus2d(16, 1)", "ring(16)"),
        ("own(4) * ring(4)", "switched(4) * ring(4)"),
    ],
)
def test_the_design_is_that_of_the_product(network: str, same: str) -> None:
    found, wanted = design(network), design(same)
    assert found.dimensions == wanted.dimensions
    assert found.optimum == wanted.optimum
    assert [d.message for d in found.diagnostics] == [d.message for d in wanted.diagnostics]
    assert all("line" in d.message for d in found.diagnostics)


@pytest.mark.parametrize(
    ("network", "messages"),
    [
        ("dragonfly(4, 4)", ["designed as one of 16 NPUs, timed and priced like a ring"]),
        ("torus2d(4, 4) without { link 0 <-> 1 }", ["designed as one of 16 NPUs"]),
        ("torus2d(6, 3) without { npu 5, npu 6 }", ["designed as one of 16 NPUs"]),
        ("(ring(6) * ring(3)) without { npu 5, npu 6 }", ["designed as one of 16 NPUs"]),
        ("mesh2d(4, 4)", ["dimension 0 of 'net' is a line of 4", "dimension 1 of 'net' is a line of 4"]),
        ("torus2d(4, 2) * switched(2)", ["dimension 0 of 'net' is a torus2d of 8 NPUs"]),
        ("rail_optimized(4, 4)", ["links between switches of 'net' have no price"]),
        ("leaf_spine(4, 4, 2)", ["links between switches of 'net' have no price"]),
        ("ring(4) * switched(4)", []),
        ("fully_connected(16)", []),
    ],
)
def test_what_the_model_fits_in_part_is_said(network: str, messages: list[str]) -> None:
    report = design(network)
    assert report.ok
    assert [(d.code, d.warning) for d in report.diagnostics] == [("E0923", True)] * len(messages)
    for text, found in zip(messages, report.diagnostics, strict=True):
        assert text in found.message
        assert found.span is not None
        assert found.span.text == "net"


def test_the_table_and_json_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.coll"
    file.write_text(PROGRAM.replace("NETWORK", "dragonfly(4, 4)"))
    assert main(["design", str(file)]) == 0
    shown = capsys.readouterr()
    assert "100.0 (as one dimension)" in shown.out
    assert "E0923" in shown.err
    assert main(["design", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [d["code"] for d in found["diagnostics"]] == ["E0923"]
    assert found["designs"][0]["dimensions"][0]["kind"] == "dragonfly"
    file.write_text(PROGRAM.replace("NETWORK", "torus2d(4, 4)"))
    assert main(["design", str(file)]) == 0
    assert "as one" not in capsys.readouterr().out


def test_switches_that_reduce() -> None:
    """All-Reduce of s bytes sends s instead of 2 s (p - 1) / p over a switch that adds: 1.5 s and s / 4 in all."""
    text = PROGRAM.replace("NETWORK", "ring(4) * switched(4, reduce: true)").replace(
        "tensor: 4, data: 4", "tensor: 16, data: 1"
    )
    found = solve_designs(SourceFile("p.coll", text), {})["d"]
    assert found.optimum.time == pytest.approx(1e6 + 1.75 * 64 * 2**20 / 100, rel=1e-9)
