"""Elaboration of large programs, with or without the expansion of chunks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.case import Case, Result, Target, Watch

HEAD = "import std.topologies\nimport std.collectives\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"


def measure_elaboration(topology: str, run: str, expand: bool) -> Result:
    from collc.source.elaboration.elaborate import load_program

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


RATE = "(bandwidth: 25GB/s, latency: 1us)"


def _links() -> list[str]:
    lines = ["npu gpu[1000]"]
    return lines + [f"  link gpu[{i % 1000}] -> gpu[{(i + 1 + i // 1000) % 1000}] {RATE}" for i in range(100_000)]


def _matrix() -> list[str]:
    rows = [", ".join(str(int(i != j and (i + j) % 7 == 0)) for j in range(1000)) for i in range(1000)]
    return ["npu gpu[1000]", "links [", *(f"  [{row}]," for row in rows), f"] {RATE}"]


def _devices() -> list[str]:
    return [f"  npu host_{i}" for i in range(100_000)]


def measure_source(lines: Callable[[], list[str]]) -> Result:
    """A topology of plain declarations, read from its file."""
    from collc.source.elaboration.elaborate import load_topology

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.coll"
        path.write_text("topology t { npu one }\n")
        load_topology(path, "t")
        path.write_text("\n".join(["topology t {", *lines(), "}\n"]))
        watch = Watch()
        network = load_topology(path, "t")
        wall, cpu, mib = watch.read()
        size = path.stat().st_size / 1e6
    return Result(wall, cpu, mib, note=f"{size:.1f} MB, {size / cpu:.1f} MB/s, {network.link_count:,} links")


VALUES: dict[str, tuple[Callable[[int], str], Target]] = {
    "lines of let, six forms": (
        lambda i: (
            f"let x{i} = " + (f"{i}", f"-{i}.5us", f'"name {i}"', f"[{i}, {i + 1}]", f"{i} * 2MiB", f"x{i - 5}")[i % 6]
        ),
        Target(),
    ),
    "lines of comments": (lambda i: f"# {i}", Target(seconds=0.08)),
}
"""Lines of which programs have many; tables of links are rows of their own, whose lines machines write."""


def measure_values(text: str) -> Result:
    """A program of values at the top of a file, parsed, checked and evaluated."""
    from collc.base.diagnostics import SourceFile
    from collc.source.elaboration.elaborate import load_program

    load_program(SourceFile("program.coll", text[: text.index("\n", 50_000) + 1]))
    watch = Watch()
    load_program(SourceFile("program.coll", text))
    wall, cpu, mib = watch.read()
    return Result(wall, cpu, mib, note=f"{len(text) / 1e6:.1f} MB, {len(text) / 1e6 / cpu:.1f} MB/s")


def value_cases() -> list[Case]:
    texts = {name: "\n".join(map(line, range(50_000))) + "\n" for name, (line, _) in VALUES.items()}
    return [Case(f"50,000 {name}", partial(measure_values, text), VALUES[name][1]) for name, text in texts.items()]


def cases() -> list[Case]:
    programs = {
        "All-Gather, mesh2d(200, 200)": (f"mesh2d(200, 200, {LINK})", "all_gather(t.npus, size: 40000MiB)", True),
        "All-to-All, 1,000 NPUs": (f"ring(1000, {LINK})", "all_to_all(t.npus, size: 1000MiB)", True),
        "All-to-All, 10,000 NPUs, not expanded": (
            f"ring(10000, {LINK})", "all_to_all(t.npus, size: 10000MiB)", False,
        ),
    }  # fmt: skip
    sources = {
        "100,000 lines of links": (_links, Target(seconds=1.2)),
        "matrix of links, 1,000 x 1,000": (_matrix, Target(seconds=0.6)),
        "100,000 lines of NPUs": (_devices, Target(seconds=0.35)),
    }
    return [
        *(Case(name, lambda p=program: measure_elaboration(*p)) for name, program in programs.items()),
        *(Case(name, lambda s=lines: measure_source(s), target) for name, (lines, target) in sources.items()),
        *value_cases(),
    ]
