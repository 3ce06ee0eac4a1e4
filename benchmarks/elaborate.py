"""Elaboration of large programs: seconds to load and to expand, and peak memory; run this file."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from collc.source import load_program

HEAD = "import std.topologies\nimport std.collectives\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
CASES = {
    "a small one first": (f"ring(4, {LINK})", "all_gather(t.npus, size: 4MiB)", True),
    "all_gather, mesh2d(200, 200)": (f"mesh2d(200, 200, {LINK})", "all_gather(t.npus, size: 40000MiB)", True),
    "all_to_all, 1,000 NPUs": (f"ring(1000, {LINK})", "all_to_all(t.npus, size: 1000MiB)", True),
    "all_to_all, 10,000 NPUs, not expanded": (f"ring(10000, {LINK})", "all_to_all(t.npus, size: 10000MiB)", False),
}


def main() -> None:
    """Print a line for each case."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (topology, run, expand) in CASES.items():
            path = Path(folder) / "program.coll"
            path.write_text(f"{HEAD}topology t = {topology}\nschedule s on t {{ run {run} }}\n")
            start = time.perf_counter()
            request = load_program(path).schedules[0]
            loaded = time.perf_counter()
            chunks = len(request.demand.chunks) if expand else int(request.demand.first_chunk[-1])
            expanded = time.perf_counter()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{name:40} {request.network.link_count:>8,} links {chunks:>12,} chunks   "
                f"load {loaded - start:6.3f} s   expand {expanded - loaded:6.3f} s   peak {memory} MB"
            )


if __name__ == "__main__":
    main()
