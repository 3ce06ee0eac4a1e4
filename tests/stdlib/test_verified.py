"""Programs with algorithms of the library, compiled and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Settings

HEAD = "import std.topologies import std.collectives import std.algorithms import std.clusters "
LINK = "bandwidth: 50GiB/s, latency: 0.5us"


@pytest.mark.parametrize(
    ("topology", "run"),
    [
        (f"ring(6, {LINK})", "all_reduce(t.npus, size: 6MiB) using ring"),
        (f"ring(6, {LINK})", "reduce_scatter(t.npus, size: 6MiB, chunks: 2) using bidirectional_ring"),
        (f"switched(4, {LINK})", "all_reduce(t.npus, size: 4MiB) using ring"),
        (f"switched(5, {LINK})", "all_reduce(t.npus, size: 5MiB) using recursive_halving_doubling"),
        (f"switched(5, {LINK})", "reduce(t.npus, size: 5MiB) using binomial_tree"),
        (f"fully_connected(5, {LINK})", "all_reduce(t.npus, size: 5MiB) using double_binary_tree"),
        (f"fully_connected(5, {LINK})", "all_reduce(t.npus, size: 5MiB) using direct"),
        ("dgx_a100(2)", "all_reduce(t.npus, size: 16MiB) using hierarchical(shape: [8, 2])"),
    ],
)
def test_algorithms_verify(topology: str, run: str, tmp_path: Path) -> None:
    """On a switch, partials pass through it unchanged."""
    path = tmp_path / "program.coll"
    path.write_text(HEAD + f"topology t = {topology} schedule s on t {{ run {run} }}", encoding="utf-8")
    report = compile_program(path, Settings(output=tmp_path)).schedules[0]
    assert set(report.checks.values()) == {"ok"}
