"""`python -m benchmarks mscclpp`: what the kernels of MSCCL++'s tests take on two nodes, planned from one node.

Measured times are the targets of its tests (microsoft/mscclpp, test/deploy/perf_ndmv5.jsonl and perf_ndmv4.jsonl of
August 2026); kernels have the numbers of test/mscclpp-test. Each is an algorithm here, with its pieces and its order.
No time of two nodes is in a value: launches, packets and the hop over the network are those of `std.runtimes`, and the
rates of copies and the exchange of kernel 4 follow from times of eight A100. For large sizes there are none of eight
H100: of the vendor's rate they get the share that A100 reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import collc

MIB: Final = 1 << 20
GIB: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Machine:
    """nvlink, nic: bytes per second and GPU, of the vendor. name: in `std.runtimes`."""

    name: str
    nvlink: float
    nic: float


H100: Final = Machine("h100", 450e9, 50e9)
A100: Final = Machine("a100", 300e9, 25e9)

MESSAGES: Final = 2
"""Messages, one after the other, from a GPU to each other one in an All-Reduce of one node. Kernel 4 passes three
barriers of all blocks with them; on two nodes, it sends eight and passes twelve."""


def on_eight(measured: dict[int, float]) -> tuple[float, float]:
    """(bytes per second through NVLink, seconds without bytes) of an All-Reduce of two sizes over eight GPUs."""
    (size, time), (larger, longer) = measured.items()
    per_byte = (longer - time) / (larger - size)
    return 2 * 7 / 8 / per_byte, time - size * per_byte


COPIED, WITHOUT_BYTES = on_eight({16 * MIB: 156.81e-6, 32 * MIB: 288.65e-6})
SHARES: Final = {
    4: COPIED / A100.nvlink,
    3: 2 * 7 / 8 * GIB / 7719.85e-6 / A100.nvlink,
    2: 7 / 8 * GIB / 3683.13e-6 / A100.nvlink,
    0: 7 / 8 * GIB / 3887.87e-6 / A100.nvlink,
}
"""Of the vendor's rate, what the kernel of one node reaches that copies as this one does (kernel 1 beside 2 and 0)."""


@dataclass(frozen=True, slots=True)
class Row:
    """measured: seconds. run: of the program below."""

    collective: str
    shown: str
    size: int
    kernel: int
    run: str
    machine: Machine
    measured: float


ROWS: Final = [
    Row(collective, shown, size, kernel, run, machine, measured)
    for collective, shown, size, kernel, run, *times in (
        ("All-Reduce", "8 KiB", 8192, 2, "sum_whole", 15.10e-6, 18.42e-6),
        ("All-Reduce", "24 MiB", 24 * MIB, 4, "sum_pieces", 212.39e-6, 311.28e-6),
        ("All-Reduce", "48 MiB", 48 * MIB, 4, "sum_pieces", 363.40e-6, 517.43e-6),
        ("All-Reduce", "3 GiB", 3 * GIB, 4, "sum_pieces", 19321.02e-6, 25565.46e-6),
        ("All-Reduce", "3 GiB", 3 * GIB, 3, "sum_pieces", 15989.38e-6, 26955.85e-6),
        ("All-Gather", "3 GiB", 3 * GIB, 2, "gather_pieces", 7480.40e-6, 13168.31e-6),
        ("All-to-All", "1 GiB", GIB, 0, "all_to_all", 11076.24e-6, 23071.5e-6),
    )
    for machine, measured in zip((H100, A100), times, strict=True)
]

PROGRAM: Final = """
import std.algorithms
import std.collectives
import std.runtimes
topology two_nodes(nvlink: rate, hop: time, nic: rate, network: time, launch: time, to_all: bool) {
    npu gpu[2, 8] (launch: launch)
    for n in 0..2, i in 0..8, j in 0..8 if i != j {
        link gpu[n, i] -> gpu[n, j] (bandwidth: nvlink / 7, latency: hop)
    }
    if to_all {
        switch fabric
        for n in 0..2, i in 0..8 { link gpu[n, i] <-> fabric (bandwidth: nic, latency: network / 2) }
    } else {
        for i in 0..8 { link gpu[0, i] <-> gpu[1, i] (bandwidth: nic, latency: network) }
    }
}
collective sum_whole(g: group, size: bytes) { chunk x: size  pre x at g  post sum(x) at g }
# Kernel 2: each GPU of a node sends its buffer to all others, then its sum to its partner in the other node.
algorithm kernel(g: group, size: bytes) implements sum_whole(g, size) {
    for me in 0..16, j in 0..8 if me % 8 != j { reduce x from g[me] to g[me - me % 8 + j] at 0 }
    for me in 0..16 { reduce x from g[me] to g[(me + 8) % 16] at 1 }
}
collective sum_pieces(g: group, size: bytes) {
    for i in 0..16 { chunk third[i]: size / 48  pre third[i] at g  post sum(third[i]) at g }
    for i in 0..16 { chunk rest[i]: size / 24  pre rest[i] at g  post sum(rest[i]) at g }
}
# Kernels 3 and 4: sums of a third and of the rest for the partner in the other node, which go there while the next
# piece is added; then the gathering in the opposite order.
algorithm kernel(g: group, size: bytes) implements sum_pieces(g, size) {
    for me in 0..16, j in 0..8 if me % 8 != j {
        let peer = me - me % 8 + j
        let partner = (me + 8) % 16
        reduce third[partner] from g[peer] to g[me] at 0
        reduce rest[partner] from g[peer] to g[me] at 1
        reduce third[me] from g[peer] to g[me] at 2
        reduce rest[me] from g[peer] to g[me] at 3
        send third[me] from g[me] to g[peer] at 4
        send rest[me] from g[me] to g[peer] at 5
        send rest[partner] from g[me] to g[peer] at 6
        send third[partner] from g[me] to g[peer] at 7
    }
    for me in 0..16 {
        let partner = (me + 8) % 16
        reduce third[partner] from g[me] to g[partner] at 1
        reduce rest[partner] from g[me] to g[partner]
        send rest[me] from g[me] to g[partner]
        send third[me] from g[me] to g[partner] at 6
    }
}
collective gather_pieces(g: group, size: bytes) {
    for i in 0..16 { chunk third[i]: size / 48  pre third[i] at g[i]  post third[i] at g }
    for i in 0..16 { chunk rest[i]: size / 24  pre rest[i] at g[i]  post rest[i] at g }
}
algorithm kernel(g: group, size: bytes) implements gather_pieces(g, size) {
    for me in 0..16, j in 0..8 if me % 8 != j {
        let peer = me - me % 8 + j
        let partner = (me + 8) % 16
        send third[me] from g[me] to g[peer] at 0
        send rest[me] from g[me] to g[peer] at 1
        send rest[partner] from g[me] to g[peer] at 2
        send third[partner] from g[me] to g[peer] at 3
    }
    for me in 0..16 {
        let partner = (me + 8) % 16
        send rest[me] from g[me] to g[partner]
        send third[me] from g[me] to g[partner] at 2
    }
}
"""


def schedule(name: str, row: Row) -> str:
    """The topology and the schedule of a row."""
    machine, hop, nic, to_all = row.machine, "mscclpp_nvlink", row.machine.nic, row.run == "all_to_all"
    if row.run == "sum_whole":  # packets carry as many flags as bytes
        nvlink, nic = f"mscclpp_{machine.name}_packets", nic / 2
    else:
        nvlink = f"{SHARES[row.kernel] * machine.nvlink / 1e9:.3f}GB/s"
    if row.kernel == 4:
        hop = f"({WITHOUT_BYTES * 1e6:.3f}us - mscclpp_a100_launch) / {MESSAGES}"
    links = f"nvlink: {nvlink}, hop: {hop}, nic: {nic / 1e9}GB/s, network: mscclpp_network"
    chunks, algorithm, congestion = (", chunks: 16", "direct", "allow congestion") if to_all else ("", "kernel", "")
    return f"""
topology {name}_t = two_nodes({links}, launch: mscclpp_{machine.name}_launch, to_all: {str(to_all).lower()})
schedule {name} on {name}_t {{
    run {row.run}({name}_t.npus, size: {row.size}B{chunks}) using {algorithm}
    synthesize fixed(link_model: "pipelined") {congestion}
}}
"""


def planned(rows: Sequence[Row]) -> list[float]:
    """Seconds of each row, of a schedule that passed all checks."""
    text = PROGRAM + "".join(schedule(f"row{k}", row) for k, row in enumerate(rows))
    with TemporaryDirectory() as folder:
        path = Path(folder, "mscclpp.coll")
        path.write_text(text)
        report = collc.compile(path, output=folder)
    return [(report[f"row{k}"].time_ps or 0) * 1e-12 for k in range(len(rows))]


def table(rows: Sequence[Row]) -> tuple[list[str], list[float]]:
    """A line for each kernel and size, measured and planned on H100 and on A100; and planned / measured - 1."""
    lines = ["| 16 GPUs | size | kernel | H100, measured | planned | | A100, measured | planned | |", "|---" * 9 + "|"]
    times = planned(rows)
    errors = [time / row.measured - 1 for row, time in zip(rows, times, strict=True)]
    for k in range(0, len(rows), 2):
        cells = "".join(
            f" {1e6 * rows[one].measured:,.1f} us | {1e6 * times[one]:,.1f} us | {100 * errors[one]:+.0f} % |"
            for one in (k, k + 1)
        )
        lines.append(f"| {rows[k].collective} | {rows[k].shown} | {rows[k].kernel} |{cells}")
    return lines, errors


def main(_arguments: list[str]) -> int:
    """Print the table."""
    print("\n".join(table(ROWS)[0]))
    return 0
