"""Algorithms whose messages queue at links: on every network, at the times of the simulator, and right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collc.application.compile.compilation import build_schedule
from collc.application.compile.compile_report import ScheduleReport
from collc.application.compile.planning import BuildInput
from collc.application.settings import Settings
from collc.application.simulate.module_simulation import simulated_module
from collc.base.diagnostics import SourceFile
from collc.simulation.timing import AstraTiming, ExactTiming
from collc.source.elaboration.elaborate import load_program
from collc.synthesis.in_network.synthesizer import in_network
from collc.synthesis.task import Effort
from collc.ten.binary import load_module, save_module
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from collc.ten.text import format_module, parse_module
from collc.verification import verify_schedule
from tests.support import MiB, all_reduce, switched

LINK = "bandwidth: 50GiB/s, latency: 0.5us"


def _no_progress(_share: float | None, _phase: str) -> None:
    pass


def _no_text(_text: str) -> None:
    pass


def compiled(network: str, run: str, algorithm: str = "", options: str = "") -> ScheduleReport:
    text = f"""
        import std.topologies
        import std.collectives
        import std.algorithms
        {algorithm}
        topology m = {network}
        schedule s on m {{ run {run} allow congestion {options} }}
    """
    request = load_program(SourceFile("p.coll", text)).schedules[0]
    return build_schedule(BuildInput(request, Settings(keep_modules=True)))


def right(report: ScheduleReport) -> Module:
    """The module of a report in which all is right, whose time is that of the simulator, and never below the bound."""
    assert report.diagnostics == ()
    assert report.time_ps is not None
    assert report.bound_ps is not None
    assert report.time_ps >= report.bound_ps
    module = report.kept_module()
    assert module.schedule is not None
    assert simulated_module(module, ExactTiming(module.schedule.model)).time_ps == report.time_ps
    assert set(report.checks.values()) <= {"ok", "allowed"}
    return module


FAR = """
    algorithm far(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {
        for k in 0..4, j in 0..16, b in 0..16 if b % 2 ** (4 - k) == j % 2 ** (4 - k) {
            send x[b, 0] from g[j] to g[j ^ 2 ** (3 - k)] at k
        }
    }
"""


def test_recursive_doubling_on_a_mesh_takes_as_long_as_its_busiest_link() -> None:
    """Each link in the middle of a row or column carries 12 chunks; without queues it would take 6 steps."""
    mesh = "mesh2d(4, 4, bandwidth: 50GB/s, latency: 500ns)"
    report = compiled(mesh, "all_gather(m.npus, size: 16MiB) using far", FAR)
    right(report)
    assert (report.time_ps, report.bound_ps) == (257_658_240, 171_772_160)
    assert report.checks["congestion_free"] == "allowed"
    assert "congestion: messages queue at 32 links" in report.notes[-1]


def test_the_direct_algorithm_on_a_ring_takes_the_cycles_of_astra_sim() -> None:
    report = compiled(f"ring(8, {LINK})", "all_gather(m.npus, size: 8MiB) using direct", options=PIPELINED)
    assert simulated_module(right(report), AstraTiming()).time == 196_310


@pytest.mark.parametrize(("network", "cycles"), [("switched", 20_531), ("ring", 21_531), ("fully_connected", 20_031)])
def test_forwarded_messages_pay_their_bytes_once_without_congestion(network: str, cycles: int) -> None:
    """ASTRA-sim's congestion-unaware numbers; a hop after another takes 40,062 over the switch, 80,124 on the ring."""
    run = "all_gather(m.npus, size: 8MiB) using direct"
    module = right(compiled(f"{network}(8, {LINK})", run, options=PIPELINED))
    found = simulated_module(module, AstraTiming(aware=False))
    assert found.time == cycles
    assert found.sent_bytes.sum() == simulated_module(module, AstraTiming()).sent_bytes.sum()


def _planned(network: str, run: str, synthesizer: str) -> Module:
    """The module of a schedule without queues."""
    text = f"import std.topologies\nimport std.clusters\nimport std.collectives\ntopology m = {network}\n"
    text += f'schedule s on m {{ run {run} synthesize {synthesizer}(link_model: "pipelined") }}'
    request = load_program(SourceFile("p.coll", text)).schedules[0]
    report = build_schedule(BuildInput(request, Settings(keep_modules=True)))
    assert report.diagnostics == ()
    return report.kept_module()


@pytest.mark.parametrize("synthesizer", ["pccl", "symmetric"])
@pytest.mark.parametrize("run", ["all_gather", "all_to_all"])
def test_what_switches_pass_on_pays_its_bytes_once_without_congestion(synthesizer: str, run: str) -> None:
    """Each of 56 messages: int(2 * 500 + 1 MiB / 50 GiB/s) ns, also if the switch multicasts (pccl, All-Gather)."""
    module = _planned(f"switched(8, {LINK})", f"{run}(m.npus, size: 8MiB)", synthesizer)
    aware, unaware = (simulated_module(module, AstraTiming(aware)) for aware in (True, False))
    assert unaware.time == 20_531
    assert len(unaware.graph) == 56
    assert len(aware.graph) == (64 if (synthesizer, run) == ("pccl", "all_gather") else 112)
    assert unaware.sent_bytes.tolist() == aware.sent_bytes.tolist()
    assert unaware.busy.tolist() == aware.busy.tolist()


def test_a_sum_begins_at_the_switch_that_adds_without_congestion() -> None:
    """The switch needs all bytes before it sends: twice int(500 ns + 1 MiB / 50 GiB/s); the way down is a multicast."""
    net = replace(switched(4, multicast=True), reduces=np.ones(1, np.bool_))
    module = in_network(Module("m", net, all_reduce([0, 1, 2, 3], MiB), LinkModel.PIPELINED), Effort())
    found = simulated_module(module, AstraTiming(aware=False))
    assert found.time == 2 * 20_031
    assert len(found.graph) == 4 * (4 + 4)


def test_halving_doubling_without_congestion() -> None:
    """Each chunk of 128 KiB (2,441.4 ns) goes 4, 2 and 1 hops and back, whatever else is on the links."""
    run = "all_reduce(m.npus, size: 1MiB) using recursive_halving_doubling"
    module = right(compiled(f"ring(8, {LINK})", run, options=PIPELINED))
    assert simulated_module(module, AstraTiming(aware=False)).time == 2 * (4_441 + 3_441 + 2_941)


@pytest.mark.parametrize("model", LinkModel)
@pytest.mark.parametrize(
    ("network", "limits", "run"),
    [
        (f"torus2d(3, 3, {LINK})", "eject: 60GiB/s", "all_reduce(m.npus, size: 9MiB) using bidirectional_ring"),
        (f"hypercube(3, {LINK})", "eject: 55GiB/s, inject: 70GiB/s", "reduce_scatter(m.npus, size: 8MiB) using direct"),
        (f"mesh2d(2, 3, {LINK})", "eject: 60GiB/s", "all_to_all(m.npus, size: 9MiB) using direct"),
    ],
)
def test_messages_wait_behind_links_for_npus_that_receive_others(
    network: str, limits: str, run: str, model: LinkModel
) -> None:
    """The schedule says when they were received; it is right, and takes the time of its simulation."""
    options = f'synthesize fixed(link_model: "{model.value}")'
    module = right(compiled(f"limited({network}, {limits})", run, options=options))
    assert module.schedule is not None
    messages = module.schedule.transfers.messages
    assert messages is not None
    assert messages.received is not None
    assert verify_schedule(module, large=0).ok


PIPELINED = 'synthesize fixed(link_model: "pipelined")'


@pytest.mark.parametrize(
    "using", ["ring", "bidirectional_ring", "direct", "recursive_halving_doubling", "double_binary_tree"]
)
def test_textbook_algorithms_run_on_a_torus(using: str) -> None:
    """All were refused, since their reductions pass NPUs that have a contribution."""
    module = right(compiled(f"torus2d(3, 3, {LINK})", f"all_reduce(m.npus, size: 9MiB) using {using}"))
    assert verify_schedule(module, large=0).ok


@pytest.mark.sampled(2)
@pytest.mark.parametrize("network", ["switched(8, {})", "hypercube(3, {})", "line(8, {})", "ring(8, {})"])
@pytest.mark.parametrize("using", ["direct", "recursive_halving_doubling"])
def test_textbook_algorithms_run_on_all_networks(network: str, using: str) -> None:
    right(compiled(network.format(LINK), f"all_reduce(m.npus, size: 8MiB) using {using}", options=PIPELINED))


def test_schedules_with_queues_survive_both_file_forms(tmp_path: Path) -> None:
    module = right(compiled(f"line(4, {LINK})", "all_reduce(m.npus, size: 4MiB) using direct"))
    text = format_module(module)
    again = parse_module(SourceFile("s.ten", text))
    assert format_module(again) == text
    assert verify_schedule(again).checks == verify_schedule(module).checks
    save_module(module, tmp_path / "s.ten")
    assert format_module(load_module(tmp_path / "s.ten")) == text


def test_messages_of_concurrent_runs_queue_together() -> None:
    """Two runs over the same ring take as long as their messages together."""
    run = "all_gather(m.npus, size: 4MiB) using ring"
    one = compiled(f"ring(4, {LINK}, one_way: true)", run).time_ps
    two = compiled(f"ring(4, {LINK}, one_way: true)", f"{run} run {run}")
    right(two)
    assert two.time_ps == 2 * (one or 0)


SWAP = """
    algorithm swap(g: group, size: bytes, chunks: int = 1, op: string = "sum")
    implements all_reduce(g, size, chunks, op) {
        for k in 0..2, j in 0..4, b in 0..4 { reduce x[b, 0] from g[j] to g[j ^ 2 ** k] at k }
    }
"""


def test_partials_that_are_swapped_are_those_of_the_step() -> None:
    """Links in the middle of a line are late, so that without barriers between steps partials would be overtaken."""
    right(compiled(f"line(4, {LINK})", "all_reduce(m.npus, size: 4MiB) using swap", SWAP))


def test_no_queues_no_messages() -> None:
    module = right(compiled(f"ring(4, {LINK})", "all_gather(m.npus, size: 4MiB) using ring"))
    assert module.schedule is not None
    assert module.schedule.transfers.messages is None
    assert module.model is LinkModel.STORE


def test_msccl_files_have_no_forwarded_partials(tmp_path: Path) -> None:
    run = "all_reduce(m.npus, size: 4MiB) using direct"
    refused = compiled(f"line(4, {LINK})", run, options="emit msccl")
    assert [message.code for message in refused.diagnostics] == ["M0116"]
    assert "forwards a partial of chunk" in refused.diagnostics[0].message


@pytest.mark.parametrize(
    ("kind", "using"),
    [
        ("all_reduce", "ring"),
        ("all_to_all", "ring"),
        ("broadcast", "ring"),
        ("gather", "ring"),
        ("all_reduce", "bidirectional_ring"),
    ],
)
def test_rings_follow_links(kind: str, using: str) -> None:
    """A torus has a cycle of links through all NPUs, so that a ring takes as long as on a ring of as many NPUs."""
    root = ", root: 5" if kind in ("broadcast", "gather") else ""
    run = f"{kind}(m.npus, size: 6MiB{root}) using {using}"
    times = [right(compiled(f"{network}, {LINK})", run)).collective_time() for network in ("torus2d(2, 3", "ring(6")]
    assert times[0] == times[1]


def test_a_ring_on_a_path_keeps_its_order() -> None:
    """There is no cycle: the last member sends to the first over all links back."""
    right(compiled(f"line(4, {LINK})", "all_gather(m.npus, size: 4MiB) using ring"))


def test_an_own_ring_keeps_its_order() -> None:
    own = """
        algorithm ring2(g: group, size: bytes, chunks: int = 1) implements all_gather(g, size, chunks) {
            let n = len(g)
            for s in 0..n - 1, i in 0..n { send x[(i - s) % n, 0] from g[i] to g[(i + 1) % n] at s }
        }
    """
    torus = f"torus2d(3, 3, {LINK})"
    mine = compiled(torus, "all_gather(m.npus, size: 9MiB) using ring2", own).time_ps
    library = compiled(torus, "all_gather(m.npus, size: 9MiB) using ring").time_ps
    assert library == 8 * 20_031_250
    assert mine is not None
    assert mine > library


def test_npus_that_send_in_turn_all_begin_in_the_same_direction() -> None:
    """Links of 150 GB/s, and 299.8 of both: on a ring of 5 a link waits for half a message only once in 2 steps."""
    ring = (
        f"limited(ring(5, bandwidth: 150GB/s, latency: 0.5us), memory: {{}}GB/s, endpoint: {chr(34)}offload{chr(34)})"
    )
    run = "reduce_scatter(m.npus, size: 100MB) using bidirectional_ring"
    free, limited = (right(compiled(ring.format(rate), run)).collective_time() for rate in (128.6, 128.5))
    assert free < limited < 1.26 * free
