"""Elaboration of large programs, with or without the expansion of chunks."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.case import Case, Result, Watch

HEAD = "import std.topologies\nimport std.collectives\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"


def measure_elaboration(topology: str, run: str, expand: bool) -> Result:
    from collc.source import load_program

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.coll"
        path.write_text(
            f"{HEAD}topology t = ring(4, {LINK})\nschedule s on t {{ run all_gather(t.npus, size: 4MiB) }}\n"
        )
        load_program(path)
        path.write_text(f"{HEAD}topology t = {topology}\nschedule s on t {{ run {run} }}\n")
        watch = Watch()
        request = load_program(path).schedules[0]
        chunks = len(request.demand.chunks) if expand else int(request.demand.first_chunk[-1])
        wall, cpu, mib = watch.read()
    return Result(wall, cpu, mib, note=f"{request.network.link_count:,} links, {chunks:,} chunks")


def cases() -> list[Case]:
    programs = {
        "All-Gather, mesh2d(200, 200)": (f"mesh2d(200, 200, {LINK})", "all_gather(t.npus, size: 40000MiB)", True),
        "All-to-All, 1,000 NPUs": (f"ring(1000, {LINK})", "all_to_all(t.npus, size: 1000MiB)", True),
        "All-to-All, 10,000 NPUs, not expanded": (
            f"ring(10000, {LINK})", "all_to_all(t.npus, size: 10000MiB)", False,
        ),
    }  # fmt: skip
    return [Case(name, lambda p=program: measure_elaboration(*p)) for name, program in programs.items()]
