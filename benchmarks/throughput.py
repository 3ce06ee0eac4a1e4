"""The targets of forest with `chunks: auto`: programs as a user writes them, compiled from their text.

reached: time; bound: the fluid optimum of the links (ideal). The latencies are those of the throughput networks of the
tests: GPU to NVSwitch 0.35 us, to other switches 0.5 us, between GPUs 0.7 us, MI250 to its switch 1 us.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import collc
from benchmarks.case import Case, Result, Target, Watch
from tests.synthesis.throughput_networks import MI250_LANES

MI250: Final = f"""topology mi250(nodes: int) {{
    npu gpu[nodes, 16]
    switch ib
    let lanes = [{", ".join("[" + ", ".join(row) + "]" for row in MI250_LANES)}]
    for n in 0..nodes, a in 0..16, b in 0..16 if lanes[a][b] > 0 {{
        link gpu[n, a] -> gpu[n, b] (bandwidth: lanes[a][b] * 50GB/s, latency: 0.7us)
    }}
    for n in 0..nodes, a in 0..16 {{ link gpu[n, a] <-> ib (bandwidth: 16GB/s, latency: 1us) }}
}}
topology a100(nodes: int) {{
    npu gpu[nodes, 8]
    switch nvswitch[nodes]
    switch ib
    for n in 0..nodes, i in 0..8 {{
        link gpu[n, i] <-> nvswitch[n] (bandwidth: 300GB/s, latency: 0.35us)
        link gpu[n, i] <-> ib (bandwidth: 25GB/s, latency: 0.5us)
    }}
}}
"""
H100: Final = "dgx_h100({}, nic_latency: 0.5us, spine_latency: 0.5us)"
MESH: Final = "mesh2d(8, 8, bandwidth: 50GB/s, latency: 0.7us)"

TARGETS: Final = (
    ("mi250(2)", "all_gather", "1GiB", 0.98),
    ("a100(2)", "all_gather", "1GiB", 0.99),
    (H100.format(4), "all_gather", "1GiB", 0.99),
    (H100.format(16), "all_gather", "1GiB", 0.99),
    ("dgx1()", "all_gather", "1GiB", 0.99),
    (MESH, "all_gather", "1GiB", 0.99),
    (MESH, "all_reduce", "1GiB", 0.95),
    ("a100(2)", "all_gather", "16MiB", 0.95),
    (H100.format(4), "all_gather", "16MiB", 0.95),
    ("mi250(2)", "all_gather", "16MiB", 0.9),
)
"""Networks, collectives, sizes, and the share of the optimum to be reached."""


def measure_program(network: str, kind: str, size: str) -> Result:
    text = f"""import std.clusters
import std.topologies
import std.collectives
{MI250}
topology t = {network}
schedule s on t {{
    run {kind}(t.npus, size: {size}, chunks: auto)
    synthesize forest(link_model: "pipelined")
}}
"""
    watch = Watch()
    report = collc.compile_text(text).schedules[0]
    wall, _, mib = watch.read()
    assert report.time_ps is not None
    assert report.ideal_ps is not None
    module = report.kept_module()
    bytes_ = sum(run.standard.size for run in module.demand.runs if run.standard is not None)
    checked = set(report.checks.values()) == {"ok"}
    note = f"  {bytes_ / report.time_ps * 1e3:.2f} GB/s, {report.chunks_per_block} chunks"
    return Result(wall, time.process_time(), mib, report.time_ps / 1e6, report.ideal_ps / 1e6, "us", checked, note)


def cases() -> list[Case]:
    return [
        Case(
            f"{network.partition(',')[0]}) {kind} {size}",
            partial(measure_program, network, kind, size),
            Target(ratio=1 / share),
        )
        for network, kind, size, share in TARGETS
    ]
