"""`python -m benchmarks failures [WORD]`: collectives after a failure, by `auto`, against bounds and baselines.

Each row is a program of its own process: a cluster or torus that lacks a part, or has a slower link, and a collective
of SIZE bytes for each GPU (All-Gather: in all). Times are microseconds, and `ratio` is the time by the ideal of the
damaged network; the ideal holds for any number of chunks. `ring` and `R2CCL` are times by that ideal too, without
latencies, of what does not adapt to the failure:

- ring: the slowest node sends what a ring over all GPUs passes on, 2 (N - 1) / N of a buffer in an All-Reduce and half
  of that in an All-Gather; in an All-to-All, each node of a cluster sends its blocks over what it has left. A ring in a
  torus uses two links of a chip, and no dead one.
- R2CCL (Wang et al., arXiv 2512.25059): an All-Reduce in which the damaged node, which lost the share X of its
  bandwidth, takes no part in a share of the sums; max(2, 1 / (1 - X)) / 2 of a ring without failures.

With WORD only rows that have it in them. CPU seconds and MiB are those of the whole compilation, with the start of
Python, bounds and checks. Exit code 1 if a row misses its target.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

import collc

SIZE: Final = 1 << 30
KINDS: Final = ("all_reduce", "all_gather", "all_to_all")
NIC_RATE, ICI_RATE = 50e9, 50e9
"""Bytes a second of a NIC of `dgx_h100`, and of a link of `tpu_v4_slice`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A program and its target.

    node: bytes a second that leave a node (a chip of a torus) without failures. members: NPUs of a node. left: the
    share of `node` that the damaged one has. within: the target of time by ideal. seconds: of CPU.
    """

    network: str
    failure: str
    kind: str
    chunks: str
    npus: int
    members: int
    node: float
    left: float
    within: float
    seconds: float
    lines: str = ""

    @property
    def name(self) -> str:
        """What tells it from others."""
        return f"{self.network}, {self.failure}, {self.kind}, {self.chunks}"

    def text(self) -> str:
        """Its program."""
        imports = "import std.clusters\nimport std.collectives\nimport std.topologies\n"
        size = f"len(t.npus) * 16 * ({SIZE}B // (len(t.npus) * 16))"
        topology = f"topology t = {self.network} {self.lines}\n"
        run = f"    run {self.kind}(t.npus, size: {size}, chunks: {self.chunks})\n"
        return f'{imports}{topology}schedule s on t {{\n{run}    synthesize auto(link_model: "pipelined")\n}}\n'

    def ring(self) -> float | None:
        """Microseconds of a ring, or of a direct All-to-All, over what the damaged node has left."""
        if self.members == 1:  # a chip
            return None if self.kind == "all_to_all" else 2 * (1 - 1 / self.npus) * SIZE / (2 * ICI_RATE) * 1e6
        others = 1 - (self.members if self.kind == "all_to_all" else 1) / self.npus
        data = SIZE * others * {"all_reduce": 2, "all_gather": 1, "all_to_all": self.members}[self.kind]
        return data / (self.node * self.left) * 1e6

    def split(self) -> float | None:
        """Microseconds by R2CCL's formula."""
        if self.kind != "all_reduce":
            return None
        return max(2.0, 1 / self.left) * (1 - 1 / self.npus) * SIZE / self.node * 1e6


@dataclass(frozen=True, slots=True)
class Measured:
    """What the compilation of a row gave. time, ideal: microseconds. cpu: seconds. checked: whether it is right."""

    time: float
    ideal: float
    cpu: float
    mib: int
    checked: bool
    by: str


CLUSTERS: Final = {
    "a NIC": ("without { link gpu[0, 0] <-> leaf[0] }", 7 / 8),
    "a GPU": ("without { npu gpu[0, 0] }", 7 / 8),
    "a NIC at half rate": ("with { link gpu[0, 0] <-> leaf[0] (bandwidth: 25GB/s) }", 15 / 16),
    "an NVLink": ("without { link gpu[0, 0] <-> nvswitch[0] }", 1),
    "an NVLink at half rate": ("with { link gpu[0, 0] <-> nvswitch[0] (bandwidth: 225GB/s) }", 1),
}
"""What is wrong with a cluster, and the share of the node's bandwidth to others that is left."""

TORI: Final = {
    "a link": ("without { link chip[0, 0, 0] <-> chip[0, 0, 1] }", 5 / 6),
    "a chip": ("without { npu chip[0, 0, 0] }", 5 / 6),
    "a link at half rate": ("with { link chip[0, 0, 0] <-> chip[0, 0, 1] (bandwidth: 25GB/s) }", 11 / 12),
}
"""What is wrong with a torus, and the share of a chip's bandwidth that is left."""

SHAPES: Final = ((4, 4, 4), (4, 4, 8), (8, 8, 8), (8, 8, 16), (16, 16, 16), (16, 16, 32))


def cluster_rows() -> Iterator[Row]:
    """One of 128 to 8,192 GPUs after a failure; those inside of nodes on 128 GPUs."""
    for nodes, chunks in ((16, "auto"), (64, "auto"), (1024, "1"), (1024, "2"), (1024, "4")):
        for failure, (lines, left) in CLUSTERS.items():
            inside = "NVLink" in failure or "rate" in failure
            if inside and nodes > 16:
                continue
            for kind in KINDS:
                if nodes == 1024 and (kind != "all_reduce") != (chunks == "1"):
                    continue
                within = 1.02 if kind == "all_reduce" else 1.01
                node = 8 * NIC_RATE
                network = f"dgx_h100({nodes})"
                parts = "1" if inside and kind == "all_to_all" else chunks
                yield Row(network, failure, kind, parts, 8 * nodes, 8, node, left, within, 10.0, lines)


def torus_rows() -> Iterator[Row]:
    """Tori after a failure."""
    for shape in SHAPES:
        x, y, z = shape
        npus = x * y * z
        for failure, (lines, left) in TORI.items():
            if "rate" in failure and npus > 512:
                continue
            for kind in ("all_reduce", "all_to_all"):
                parts = "1" if kind == "all_to_all" else "auto" if npus < 512 else "8"
                node = 6 * ICI_RATE
                yield Row(f"tpu_v4_slice({x}, {y}, {z})", failure, kind, parts, npus, 1, node, left, 1.05, 5.0, lines)


def measure(row: Row) -> Measured:
    """Compile a row."""
    report = collc.compile_text(row.text()).schedules[0]
    assert report.time_ps is not None
    assert report.ideal_ps is not None
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    checked = set(report.checks.values()) == {"ok"}
    by = report.kept_module().algorithm
    return Measured(report.time_ps / 1e6, report.ideal_ps / 1e6, time.process_time(), mib, checked, by)


def table_row(row: Row, found: Measured) -> str:
    """A line of the table, in Markdown."""
    ratio = found.time / found.ideal
    good = found.checked and ratio <= row.within and found.cpu <= row.seconds
    cells = (
        row.network, row.failure, row.kind, row.chunks, f"{found.time:,.1f}", f"{found.ideal:,.1f}", f"{ratio:.3f}",
        *("" if other is None else f"{other / found.ideal:.3f}" for other in (row.ring(), row.split())), found.by,
        f"{found.cpu:.1f}", f"{found.mib}", "yes" if good else "WRONG" if not found.checked else "no",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


HEAD: Final = (
    "| network | failure | collective | chunks | time | ideal | ratio | ring | R2CCL | by | CPU | MiB | target |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a row misses its target."""
    rows = {row.name: row for row in (*cluster_rows(), *torus_rows())}
    if arguments[:1] == ["--row"]:
        print(json.dumps(asdict(measure(rows[arguments[1]]))))
        return 0
    print(HEAD)
    missed = 0
    for name, row in rows.items():
        if any(word not in name for word in arguments):
            continue
        command = [sys.executable, "-m", "benchmarks", "failures", "--row", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            print(f"| {name.replace(', ', ' | ')} | FAILED: {why} |", flush=True)
            missed += 1
            continue
        line = table_row(row, Measured(**json.loads(done.stdout.splitlines()[-1])))
        missed += not line.endswith("yes |")
        print(line, flush=True)
    return 1 if missed else 0
