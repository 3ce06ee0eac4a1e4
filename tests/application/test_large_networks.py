"""Time limits on networks that are too large for a search: they have a verified schedule all the same."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Settings
from collc.base.diagnostics import SourceFile
from tests.cpu_time import at_most, slowness

TORUS = """import std.topologies
import std.collectives
topology t = torus3d(12, 12, 12, bandwidth: 50GB/s, latency: 0.5us)
schedule s on t { run all_to_all(t.npus, size: 1728MiB) }
"""
START = 2.0
"""Seconds of CPU for Python, imports and reading 100,000 lines."""


def random_links(npus: int, links: int) -> str:
    """A program for an All-Gather on a directed ring with further links at random."""
    source = random.Random(1)
    pairs = {(i, (i + 1) % npus) for i in range(npus)}
    while len(pairs) < links:
        a, b = source.sample(range(npus), 2)
        pairs.add((a, b))
    lines = "\n".join(f"link g[{a}] -> g[{b}] (bandwidth: 50GB/s, latency: 500ns)" for a, b in sorted(pairs))
    run = f"run all_gather(t.npus, size: {npus}MiB)"
    return f"import std.collectives\ntopology t {{\nnpu g[{npus}]\n{lines}\n}}\nschedule s on t {{ {run} }}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "limit"), [(TORUS, 10), (random_links(1000, 100_000), 2)], ids=["torus", "random"])
def test_a_large_network_has_a_schedule_at_the_limit(text: str, limit: int, tmp_path: Path) -> None:
    (tmp_path / "p.coll").write_text(text)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "collc", "compile", str(tmp_path / "p.coll"), "--time-limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    allowed = (limit + 2 + 0.1 * limit + START) * max(1.0, slowness())
    assert after.ru_utime - before.ru_utime < allowed


@pytest.mark.parametrize("limit", [0.01, 0.2])
def test_proofs_keep_small_limits(limit: float, tmp_path: Path) -> None:
    """Each question has the limit; without an answer the checks of the schedule hold all the same."""
    text = TORUS.replace("torus3d(12, 12, 12", "mesh2d(3, 3").replace("1728MiB", "81MiB")
    settings = Settings(output=tmp_path, time_limit=limit, prove=True, synthesizer="tacos")
    with at_most(6 * limit + 4):  # six questions; imports of Z3 and encoding included
        (report,) = compile_program(SourceFile("p.coll", text), settings).schedules
        assert report.checks["delivered"] == "ok"
        assert report.checks["proved"] in ("ok", "failed")
