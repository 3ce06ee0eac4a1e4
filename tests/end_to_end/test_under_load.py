"""Under load nothing but time changes: programs compiled beside busy processes give the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import collc

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TIMES = 2
"""How often each program is compiled beside busy processes."""

SEARCHED = """
import std.topologies
import std.collectives

topology loop = ring(5, bandwidth: 50GB/s, latency: 1us)
topology torus = torus2d(4, 4, bandwidth: 50GB/s, latency: 1us)

schedule reduced on torus { run all_reduce(torus.npus, size: 64KiB, chunks: auto) synthesize auto emit ten emit msccl }
schedule asked on loop { run all_gather(loop.npus, size: 5MiB) verify optimal emit ten }
"""
"""`auto` asks all synthesizers and chooses the number of chunks; `optimal` asks Z3."""


@pytest.fixture
def load() -> Iterator[None]:
    """Twice as many busy processes as there are processors."""
    busy = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(busy) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def files_of(program: str | Path, folder: Path, time_limit: float | None) -> dict[str, bytes]:
    """The files that a program gives, by name."""
    collc.compile(program, output=folder, time_limit=time_limit)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "time_limit"), [("dgx1", 3600.0), ("searched", None), ("searched", 3600.0)])
def test_bytes_do_not_depend_on_load(
    tmp_path: Path, name: str, time_limit: float | None, request: pytest.FixtureRequest
) -> None:
    program = EXAMPLES / f"{name}.coll"
    if name == "searched":
        program = tmp_path / "searched.coll"
        program.write_text(SEARCHED)
    expected = files_of(program, tmp_path / "alone", time_limit)
    assert expected
    request.getfixturevalue("load")
    for number in range(TIMES):
        assert files_of(program, tmp_path / f"beside{number}", time_limit) == expected
