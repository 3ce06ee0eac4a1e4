"""MSCCL files on networks with switches: the time of the file, simulated, against that of its schedule.

reached: of the program, simulated as `collc simulate` does with its file. bound: of the schedule or, if it is
larger, what the format allows (the busiest link with all instances, or the slots of the fullest connection). cpu: of
lowering, with all its attempts. The note has the time of the schedule and the size of the file.
"""

from __future__ import annotations

import io
from functools import partial
from typing import Final

from benchmarks.case import Case, Result, Target, Watch
from benchmarks.problems import program_of
from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import CompileReport
from collc.application.compile.planning import BuildInput
from collc.application.settings import Settings
from collc.base.diagnostics import SourceFile
from collc.emit.msccl import write_xml
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import quality
from collc.source.elaboration.elaborate import load_program

ALL: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")

RATES: Final = "450GB/s, 50GB/s, 0.35us, 0.85us"

NETWORKS: Final = {
    "dgx_h100(2)": (1, 4),
    "dgx_h100(4)": (1, 4),
    "dgx_a100(4)": (1, 4),
    "gb200_nvl72()": (1, 4),
    "fat_tree(4, 50GB/s, 0.5us)": (1, 4),
    f"rail_optimized(4, 4, {RATES})": (1, 4),
    f"rail_only(4, 4, {RATES})": (1, 4),
    "dgx_h100(8)": (1, 4),
    "dgx_h100(16)": (1, 4),
    "fat_tree(8, 50GB/s, 0.5us)": (1, 4),
    f"rail_optimized(16, 8, {RATES}, spines: 8)": (1, 4),
    f"rail_only(16, 8, {RATES})": (1, 4),
}
"""Networks, and chunks of a block that are tried on them."""

LARGE: Final = ("dgx_h100(16)", "fat_tree(8", "rail_optimized(16", "rail_only(16")
"""Those with 128 GPUs, which run only with `--large`."""

SIZE: Final = 64 << 20


def measure_replay(text: str) -> Result:
    request = load_program(SourceFile("p.coll", text)).schedules[0]
    settings = Settings(planned_for=("msccl",), keep_modules=True)
    report = build_schedule(BuildInput(request, settings))
    CompileReport((report,)).raise_if_failed()
    module = report.kept_module()
    watch = Watch()
    found = lower(module)
    wall, cpu, mib = watch.read()
    own = quality(found, module)
    out = io.BytesIO()
    write_xml(found, out)
    bound = max(own.schedule, own.busiest_link, own.fullest_pair)
    mebibytes = len(out.getvalue()) / 2**20
    note = f"  {own.replay / own.schedule:.3f} of the schedule ({own.schedule / 1e6:.2f} us), {mebibytes:.1f} MiB"
    return Result(wall, cpu, mib, own.replay / 1e6, bound / 1e6, "us", None, note)


def cases() -> list[Case]:
    found: list[Case] = []
    for network, numbers in NETWORKS.items():
        large = network.startswith(LARGE)
        for chunks in numbers:
            for kind in ALL:
                name = f"{network.partition(', ')[0].rstrip(')')}) {kind} {chunks}"
                run = partial(measure_replay, program_of(network, kind, SIZE, chunks, "auto"))
                found.append(Case(name, run, Target(10.0, ratio=1.10), large))
    return found
