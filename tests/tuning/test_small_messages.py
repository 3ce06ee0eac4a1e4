"""What small messages cost: fits of several files, and the orders and times of runtimes that fits give."""

from __future__ import annotations

import json
from fractions import Fraction
from math import log2
from pathlib import Path

import pytest

import collc
from benchmarks import mscclpp
from collc.base.diagnostics import SourceFile
from collc.command.cli import main
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.simulation.engine import simulate
from collc.simulation.timing import ExactTiming
from collc.source.elaboration.elaborate import load_program
from collc.synthesis.task import Effort
from collc.ten.module import Module
from collc.ten.network import LinkKind
from collc.ten.schedule import LinkModel
from collc.tuning.nccl_shapes import nccl_graphs
from collc.verification import verify_schedule
from tests.support import all_reduce, fully_connected

pytestmark = pytest.mark.usefixtures("folder")

KIB = 1024
HEAD = "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"

MSCCLPP = {
    "h100": {24: 6.18, 48: 6.62, 72: 6.91},
    "a100": {8: 6.51, 24: 7.24, 48: 7.91, 72: 8.28},
}
"""KiB: microseconds of an All-Reduce over eight GPUs (microsoft/mscclpp, test/deploy/perf_ndmv5.jsonl and ndmv4)."""


def write_table(name: str, seconds: dict[int, float], head: str = "") -> None:
    """A table as mscclpp-test prints it, with one half of the columns. seconds: by bytes."""
    rows = "".join(f"{size:>12} {size // 4:>12} {time * 1e6:.4f} 1.0 1.0 0\n" for size, time in seconds.items())
    Path(name).write_text(head + HEAD + rows)


def fitted(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["calibrate", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


SIZES = [KIB << k for k in range(0, 16, 3)]


def test_all_values_are_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Rings of 4 and 8 ranks, and an All-to-All, whose messages are sent in one step."""
    launch, latency, overhead, rate = 5e-6, 0.8e-6, 0.3e-6, 40e9
    files: list[str] = []
    for test, ranks, steps, share in (
        ("all_gather", 4, 3, 3 / 4),
        ("all_reduce", 8, 14, 14 / 8),
        ("alltoall", 8, 1, 7 / 8),
    ):
        messages = 7 if test == "alltoall" else steps
        name = f"{test}.txt"
        head = f"# Collective test starting: {test}_perf\n"
        head += "".join(f"#  Rank  {rank} Group  0 Pid 1 on n1 device 0\n" for rank in range(ranks))
        times = {s: launch + steps * latency + messages * overhead + share * s / rate for s in SIZES}
        write_table(name, times, head)
        files.append(name)
    values = fitted(capsys, *files)["values"]
    expected = {"launch": launch, "latency": latency, "overhead": overhead, "seconds_per_byte": 1 / rate}
    assert values == pytest.approx(expected, rel=1e-2)
    assert main(["calibrate", *files, "--name", "nic", "-o", "nic.coll"]) == 0
    text = Path("nic.coll").read_text()
    assert all(f"let nic_{name} = " in text for name in ("launch", "latency", "overhead", "bandwidth"))
    Path("p.coll").write_text(
        'import "nic.coll"\nimport std.topologies\nimport std.collectives\n'
        "topology t = limited(ring(4, bandwidth: nic_bandwidth, latency: nic_latency), overhead: nic_overhead, "
        "launch: nic_launch)\nschedule s on t { run all_gather(t.npus, size: 64KiB) }\n"
    )
    assert main(["check", "p.coll"]) == 0


def test_values_that_only_show_together_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    write_table("a.txt", {size: 4e-6 + size / 1e10 for size in SIZES})
    words = ["calibrate", "a.txt", "--algorithm", "two_shot", "--collective", "all_reduce", "--ranks", "8"]
    assert main(words) == 0
    out = capsys.readouterr()
    assert "X0707" in out.err
    assert "latency and overhead cannot be told apart" in out.err
    assert "let link_launch = 4us" in out.out
    assert main([*words, "--launch", "3us"]) == 0
    assert "let link_latency = 500ns" in capsys.readouterr().out


def test_a_fit_needs_more_times_than_values(capsys: pytest.CaptureFixture[str]) -> None:
    write_table("a.txt", {8 * KIB: 5e-6, 16 * KIB: 6e-6})
    for none in ([], ["--sizes", "1GiB..2GiB"]):
        assert main(["calibrate", "a.txt", "--algorithm", "ring", "--ranks", "2", *none]) == 1
        assert "X0703" in capsys.readouterr().err


def test_a_fit_that_is_far_off_gives_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    write_table("a.txt", {size: 5e-6 + size / 1e10 for size in SIZES})
    words = ["calibrate", "a.txt", "--algorithm", "ring", "--ranks", "2", "--collective", "all_gather"]
    assert main([*words, "--launch", "5us"]) == 0
    assert "X0706" not in capsys.readouterr().err
    assert main([*words, "--launch", "50us"]) == 0
    assert "X0706" in capsys.readouterr().err


def test_the_lab_gives_a_launch_and_a_share_of_the_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, float | None]] = [{"predicted_s": None, "measured_s": 0.9, "ratio": None}]
    rows += [{"predicted_s": s, "measured_s": 0.01 + 1.25 * s, "ratio": 1.3} for s in (0.2, 0.4, 0.8)]
    Path("lab.json").write_text(json.dumps({"algorithms": rows}))
    assert main(["calibrate", "lab.json"]) == 0
    out = capsys.readouterr().out
    assert "let link_share = 0.8\n" in out
    assert "let link_launch = 10ms\n" in out
    assert main(["calibrate", "lab.json", "--launch", "10ms"]) == 0
    out = capsys.readouterr()
    assert ("let link_launch = 10ms\n" in out.out, "let link_share = 0.8\n" in out.out, out.err) == (True, True, "")
    rows[1]["measured_s"] = float("nan")
    Path("lab.json").write_text(json.dumps({"algorithms": rows}))
    assert main(["calibrate", "lab.json"]) == 1  # two times are left, for two values
    assert "X0703" in capsys.readouterr().err
    Path("lab.json").write_text("{}")
    assert main(["calibrate", "lab.json"]) != 0


@pytest.mark.parametrize("machine", MSCCLPP)
def test_rows_of_mscclpp_lie_on_a_line(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The values of std.runtimes: the launch is what remains without two hops of 0.6 us."""
    write_table("a.txt", {size * KIB: time * 1e-6 for size, time in MSCCLPP[machine].items()})
    found = fitted(capsys, "a.txt", "--algorithm", "two_shot", "--collective", "all_reduce", "--ranks", "8")
    assert isinstance(found["largest_error"], float)
    assert found["largest_error"] < 0.025
    values = found["values"]
    assert isinstance(values, dict)
    launch, rate = {"h100": (4.6, 117), "a100": (5.2, 64)}[machine]
    assert values["launch"] * 1e6 - 1.2 == pytest.approx(launch, abs=0.05)
    assert 1e-9 / values["seconds_per_byte"] == pytest.approx(rate, abs=1)


def nccl_time(nodes: int, shape: str) -> float:
    """Microseconds of NCCL's shape in the simulation, for an All-Reduce of 1 KiB with LL."""
    values = f"nvlink_latency: nccl_{shape}_ll_nvlink / 2, nic_latency: nccl_{shape}_ll_network / 2"
    text = "import std.clusters import std.collectives import std.topologies import std.runtimes\n"
    text += f"topology t = limited(dgx_h100({nodes}, {values}), launch: nccl_{shape}_ll_launch)\n"
    text += "schedule s on t { run all_reduce(t.npus, size: 1KiB) }"
    network = load_program(SourceFile("t.coll", text)).schedules[0].network
    (graph, *_) = nccl_graphs(network, "all_reduce", shape)
    return simulate(network, graph.of_size(KIB), ExactTiming(LinkModel.PIPELINED)).call_ps / 1e6


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
def test_simulated_rings_and_trees_take_what_nccl_expects(nodes: int) -> None:
    """NCCL's tuning model with LL (src/graph/tuning.cc), for 8 to 64 GPUs.

    For rings it takes 2 (N - 1) of the hops for those over the network of N nodes; a block that starts at the end of a
    node passes 2 N, of which each takes 2.1 us longer.
    """
    tree = 6.8 + 2 * (7 * 0.6 + log2(nodes) * 5)
    assert nccl_time(nodes, "tree") == pytest.approx(tree, rel=0.005)
    over = 2 * nodes if nodes > 1 else 0
    ring = 6.6 + (2 * (8 * nodes - 1) - over) * 0.6 + over * 2.7
    assert nccl_time(nodes, "ring") == pytest.approx(ring, rel=0.005)


HELD_OUT = """
import std.clusters
import std.topologies
import std.collectives
import std.runtimes
let nvlink = mscclpp_nvlink / 2
let nic = mscclpp_network / 2
topology h100 = limited(dgx_h100(2, nvlink: mscclpp_h100_packets, nvlink_latency: nvlink, nic_latency: nic),
                        launch: mscclpp_h100_launch)
topology a100 = limited(dgx_a100(2, nvlink: mscclpp_a100_packets, nvlink_latency: nvlink, nic_latency: nic),
                        launch: mscclpp_a100_launch)
schedule of_h100 on h100 { run all_reduce(h100.npus, size: 8KiB) synthesize symmetric(link_model: "pipelined") }
schedule of_a100 on a100 { run all_reduce(a100.npus, size: 8KiB) synthesize symmetric(link_model: "pipelined") }
"""


def test_two_nodes_take_what_mscclpp_takes() -> None:
    """Its targets for 8 KiB on 16 GPUs, which are in no fit: within 25 %. Without the launch they took a fifth."""
    Path("p.coll").write_text(HELD_OUT)
    report = collc.compile("p.coll", output=Path())
    for name, time in (("of_h100", 15.10), ("of_a100", 18.42)):
        assert (report[name].time_ps or 0) / 1e6 == pytest.approx(time, rel=0.25)


@pytest.mark.parametrize("rows", [mscclpp.ROWS[:6], pytest.param(mscclpp.ROWS, marks=pytest.mark.slow)])
def test_kernels_on_two_nodes_take_what_rows_of_one_node_say(rows: list[mscclpp.Row]) -> None:
    """The table of docs/tuning.md: within 25 % for 8 KiB and 10 % for 24 and 48 MiB, none of which is in a fit."""
    lines, errors = mscclpp.table(rows)
    assert "\n".join(lines) in (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
    assert max(map(abs, errors[:2])) < 0.25
    assert max(map(abs, errors[2:6])) < 0.1


def scheduled(ranks: int, size: int, name: str) -> int:
    """Picoseconds of an All-Reduce over NVLink with 3 us to wait for in each step."""
    net = fully_connected(ranks, LinkKind(3_000_000, Fraction(450 * 10**9, ranks - 1)))
    demand = all_reduce(list(range(ranks)), size // ranks)
    context = PassContext(effort=Effort())
    given = Module("m", net, demand, LinkModel.PIPELINED)
    module = Invert().run(Synthesize(name).run(given, context), context)
    assert verify_schedule(module).ok
    return module.collective_time()


def test_one_shot_pays_up_to_smaller_sizes_on_more_gpus() -> None:
    """One step and (n - 1) S bytes against two steps and 2 (n - 1) / n S: equal for n = 2, then the later the more.

    In that order are vLLM's thresholds up to which it takes its own kernels: 64 MiB, 32 MiB, 512 and 256 KiB for 2, 4,
    6 and 8 GPUs (its table of custom All-Reduces).
    """
    crossings: list[int] = []
    for ranks in (2, 4, 6, 8):
        sizes = [ranks * (KIB << k) for k in range(4, 14)]
        pays = [scheduled(ranks, size, "one_shot") < scheduled(ranks, size, "symmetric") for size in sizes]
        assert pays == sorted(pays, reverse=True)
        crossings.append(sizes[pays.count(True) - 1] if any(pays) else 0)
    assert crossings == sorted(crossings, reverse=True)
    assert len(set(crossings)) == 4
