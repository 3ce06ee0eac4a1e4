"""Clusters by symmetry: the whole compilation of one collective, from the text of the program to the checked schedule.

cpu, MiB: of the process, with the start of Python. bound: the ideal time, a lower bound for any number of chunks. The
note has the bound for the chunks as they are. The published boxes (ForestColl, arXiv 2402.06787) have the throughput
reached and the published optimum beside it. Sizes are those of one GPU's buffer. If a NIC or a GPU is dead, the plan
of the whole cluster is repaired. "listed, checked": all transfers one by one, instead of the proof.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import collc
from benchmarks.case import Case, Result, Target, Watch
from benchmarks.problems import program_of
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.synthesis.bounds import ideal_bound
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule
from collc.verification import verify_schedule
from collc.verification.copy_replay import copies_are_right
from tests.support import GiB, MiB, all_gather
from tests.synthesis.throughput_networks import a100, mi250

KINDS: Final = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
EXACT: Final = 1024
"""GPUs up to which the ideal time of an All-Reduce is that of the worst partition."""

DGX: Final = {"dgx_h100": (2, 4, 16, 64, 128, 512, 1024), "dgx_a100": (2, 16, 64)}
"""Nodes of eight GPUs."""

OTHERS: Final = (
    "gb200_nvl72()",
    "rail_only(32, 8, 450GB/s, 50GB/s, 0.35us, 0.85us)",
    "rail_optimized(32, 8, 450GB/s, 50GB/s, 0.35us, 0.85us, spines: 8)",
    "leaf_spine(16, 16, 16, 50GB/s, 50GB/s, 0.5us)",
    "leaf_spine(16, 16, 4, 50GB/s, 50GB/s, 0.5us)",
    "fat_tree(8, 50GB/s, 0.5us)",
    "fat_tree(16, 50GB/s, 0.5us)",
)
"""Networks of the standard module: one switch, rails, full and oversubscribed leaves, fat trees."""

SIZES: Final = {"1 MiB": (MiB, 1), "16 MiB": (16 * MiB, 2), "1 GiB": (GiB, 8)}
"""Bytes of a buffer, and chunks of a block (All-to-All: one)."""

SMALL: Final = {
    (2, 1024): 2.44,
    (2, 8192): 2.64,
    (16, 1024): 2.72,
    (16, 8192): 3.44,
    (64, 1024): 3.28,
    (64, 8192): 4.42,
}
"""All-Reduce of few bytes, by nodes of H100: the most microseconds; one-shot on levels, closed forms + 0.5 %."""

PUBLISHED: Final = ((a100, 2, 256, 346.67), (a100, 4, 64, 266.67), (a100, 8, 32, 228.57), (mi250, 2, 256, 354.13))
"""Networks, nodes, chunks of a GPU, and the optimal throughput in GB/s that ForestColl gives."""

DAMAGED: Final = {"a dead NIC": "link gpu[0, 0] <-> leaf[0]", "a dead GPU": "npu gpu[0, 0]"}
"""What a cluster has lost."""

GROUPS: Final = {
    "each rail": ("for r in 0..8 {{ run {kind}(t.gpu[*, r], size: 128MiB, chunks: {chunks}) }}", 1.02),
    "each node": ("for n in 0..{nodes} {{ run {kind}(t.gpu[n, *], size: 128MiB, chunks: {chunks}) }}", None),
    "each node and each rail": (
        "for n in 0..{nodes} {{ run {kind}(t.gpu[n, *], size: 128MiB, chunks: {chunks}) }}\n    "
        "for r in 0..8 {{ run {kind}(t.gpu[*, r], size: 128MiB, chunks: {chunks}) }}",
        None,
    ),
    "half of the nodes": ("run {kind}(t.gpu[0..{half}, *], size: 1GiB, chunks: {chunks})", None),
}
"""Groups whose collectives run at the same time, and the most of the ideal time. The ideal time of a node counts
its NICs too, and the one of half of the nodes counts sums in the other half."""

LISTED: Final = (*((512, kind) for kind in KINDS), (8192, "all_gather"))
"""GPUs and collectives of which all transfers are listed and checked one by one."""


def program(network: str, kind: str, size: int, chunks: int) -> str:
    return program_of(network, kind, size, chunks, 'symmetric(link_model: "pipelined")')


def grouped_program(network: str, runs: str) -> str:
    return (
        "import std.clusters\nimport std.collectives\n"
        f"topology t = {network}\n"
        f'schedule s on t {{\n    {runs}\n    synthesize auto(link_model: "pipelined")\n}}\n'
    )


def measure_compilation(text: str) -> Result:
    watch = Watch()
    report = collc.compile_text(text).schedules[0]
    wall, _, mib = watch.read()
    assert report.time_ps is not None
    assert report.bound_ps is not None
    assert report.ideal_ps is not None
    note = f"  {report.ideal_ps / report.time_ps:.1%} of ideal; these chunks need {report.bound_ps / 1e6:.2f} us"
    checked = set(report.checks.values()) == {"ok"}
    return Result(wall, time.process_time(), mib, report.time_ps / 1e6, report.ideal_ps / 1e6, "us", checked, note)


def planned(network: str, kind: str, chunks: int) -> Module:
    """A program for 1 GiB, compiled."""
    return collc.compile_text(program(network, kind, GiB, chunks)).schedules[0].kept_module()


def are_right(module: Module) -> bool:
    """Whether all transfers are, listed and checked one by one."""
    schedule = module.schedule
    assert schedule is not None
    if not module.demand.chunks.op.any():
        return copies_are_right(module, schedule, Clock.of(module.network, module.demand, module.model))
    rows = RowSchedule(module.model, schedule.transfers)
    return verify_schedule(module.with_schedule(rows, ""), large=0).ok


def measure_listed(gpus: int, kind: str) -> Result:
    """All transfers of 1 GiB with one chunk per block (512 GPUs: four, but for All-to-All)."""
    module = planned(f"dgx_h100({gpus // 8})", kind, 4 if gpus == 512 and kind != "all_to_all" else 1)
    are_right(planned("dgx_h100(2)", kind, 1))  # compiles kernels
    watch = Watch()
    right = are_right(module)
    wall, cpu, mib = watch.read()
    assert module.schedule is not None
    return Result(wall, cpu, mib, verified=right, note=f"  {len(module.schedule):,} transfers")


def measure_published(network: Network, chunks: int, published: float) -> Result:
    """All-Gather of 1 GiB by `forest`."""
    chunk = GiB // (network.npu_count * chunks)
    demand = all_gather(list(range(network.npu_count)), chunk=chunk, chunks=chunks)
    module = Module("case", network, demand, LinkModel.PIPELINED)
    watch = Watch()
    found = Invert().run(Synthesize("forest").run(module, PassContext()), PassContext())
    wall, cpu, mib = watch.read()
    assert found.schedule is not None
    reached = found.schedule.collective_time(found.network, demand)
    size = chunk * chunks * network.npu_count
    ideal = ideal_bound(network, demand).time
    note = f"  {size / reached * 1e3:.2f} GB/s, published optimum {published}, ideal {size / ideal * 1e3:.2f}"
    return Result(wall, cpu, mib, reached / 1e6, ideal / 1e6, "us", verify_schedule(found).ok, note)


def target_of(gpus: int, kind: str, size: str) -> Target:
    """Limits of CPU and memory; at 1 GiB also of the time by the ideal one, if that one is exact."""
    ratio = None
    if size == "1 GiB" and gpus >= 128 and (kind != "all_reduce" or gpus <= EXACT):
        ratio = 1.01 if gpus >= 512 or kind == "all_to_all" else 1.02
    return Target(3.0 if gpus <= 512 else 10.0, ratio=ratio, mib=4096)


def grouped_cases() -> list[Case]:
    """Collectives of groups, by `auto`."""
    found: list[Case] = []
    for what, (runs, ratio) in GROUPS.items():
        for nodes in (16, 64):
            for kind in KINDS:
                chunks = 4 if kind == "all_to_all" else 8
                text = runs.format(kind=kind, nodes=nodes, half=nodes // 2, chunks=chunks)
                run = partial(measure_compilation, grouped_program(f"dgx_h100({nodes})", text))
                found.append(Case(f"dgx_h100({nodes}), {what}: {kind}", run, Target(60.0, ratio=ratio)))
    return found


def cases() -> list[Case]:
    found: list[Case] = []
    networks = [(f"{name}({nodes})", 8 * nodes) for name, every in DGX.items() for nodes in every]
    for network, gpus in networks:
        for kind in KINDS:
            for size, (count, chunks) in SIZES.items():
                parts = 1 if kind == "all_to_all" else chunks
                run = partial(measure_compilation, program(network, kind, count, parts))
                found.append(Case(f"{network} {kind} {size}", run, target_of(gpus, kind, size)))
    for (nodes, size), time_us in SMALL.items():
        run = partial(measure_compilation, program(f"dgx_h100({nodes})", "all_reduce", size, 1))
        found.append(Case(f"dgx_h100({nodes}) all_reduce {size // 1024} KiB", run, Target(3.0, time_us)))
    for network in OTHERS:
        name = network.partition("GB/s")[0]
        for kind in KINDS:
            run = partial(measure_compilation, program(network, kind, GiB, 1 if kind == "all_to_all" else 8))
            found.append(Case(f"{name}) {kind} 1 GiB", run, Target(3.0)))
    for what, lost in DAMAGED.items():
        for nodes, chunks in ((16, 8), (64, 4), (128, 1), (128, 4), (1024, 1)):
            for kind in KINDS:
                network = f"dgx_h100({nodes}) without {{ {lost} }}"
                run = partial(measure_compilation, program(network, kind, GiB, 1 if kind == "all_to_all" else chunks))
                name = f"dgx_h100({nodes}), {what}: {kind} 1 GiB, {chunks} chunks"
                found.append(Case(name, run, Target(10.0, ratio=1.05, mib=1024)))
    found += grouped_cases()
    for gpus, kind in LISTED:
        seconds = 10.0 if gpus > 512 else 5.0 if kind == "all_to_all" else 1.0
        run = partial(measure_listed, gpus, kind)
        found.append(Case(f"{gpus} GPUs {kind} listed, checked", run, Target(seconds, mib=4096)))
    for make, nodes, chunks, published in PUBLISHED:
        run = partial(measure_published, make(nodes), chunks, published)
        found.append(Case(f"{make.__name__} x{nodes} all_gather 1 GiB by forest", run, Target(ratio=1 / 0.98)))
    return found
