"""`collc lab`: schedules that run over namespaces and rate-limited links. No test says how fast."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from collc.application.lab.lab import LabSettings, run_lab
from collc.application.simulate.simulating import compiled_module
from collc.base.diagnostics import CheckFailed, Diagnostic, UsageError
from collc.command.cli import main
from collc.lab import emulated_network
from collc.lab.emulated_network import FORWARDING_COMMAND, NPU_COMMAND, EmulatedNetwork, check_machine
from collc.lab.laboratory import Experiment, raise_if_lost
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Profile
from collc.simulation.engine import simulate
from collc.simulation.tasks import Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.network import LinkKind
from tests.support import network

PROGRAM = """
import std.topologies
import std.collectives
topology mesh = mesh2d(2, 2, bandwidth: 50GiB/s, latency: 0.5us)
topology star = switched(3, bandwidth: 50GiB/s, latency: 0.5us)
schedule gather on mesh { run all_gather(mesh.npus, size: 4MiB) }
schedule sum on star { run all_reduce(star.npus, size: 3MiB) }
schedule part on star { run all_gather([star.npu[2], star.npu[0]], size: 2MiB) }
"""

ONE_WAY = """
import std.collectives
topology one_way { npu n[2]  link n[0] -> n[1] (bandwidth: 50GiB/s, latency: 0.5us) }
schedule s on one_way { run broadcast(one_way.npus, size: 1MiB) }
"""


def why_not() -> str:
    try:
        check_machine()
    except UsageError as error:
        return error.diagnostics[0].message
    return ""


needs_a_lab = pytest.mark.skipif(bool(why_not()), reason=f"NO LAB: {why_not()}")


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "p.coll"
    path.write_text(PROGRAM)
    return path


def processes_with(mark: str) -> int:
    """How many processes have this in their environment."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            count += mark.encode() in path.read_bytes()
        except OSError:
            continue
    return count


def lab_json(capsys, program: Path, schedule: str, *words: str) -> Any:
    """What the lab prints as JSON of runs of a fifth of a second."""
    assert main(["lab", str(program), "--schedule", schedule, "--seconds", "0.2", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


@needs_a_lab
def test_a_schedule_over_links_of_this_machine(program, tmp_path, capsys):
    page = tmp_path / "lab.html"
    found = lab_json(capsys, program, "gather", "--runs", "2", "--rate", "80Mb/s", "--output", str(page))
    assert [row["ok"] for row in found["algorithms"]] == [True]
    assert found["algorithms"][0]["predicted_s"] == pytest.approx(0.2, rel=1e-3)
    assert found["share_of_bandwidth"] == pytest.approx(80e6 / 8 / (8 * 50 * 2**30))
    assert len(found["links"]) == 8
    assert sum(row["planned_ps"] for row in found["links"]) == pytest.approx(1.2e12, rel=0.01)
    assert "Links over time" in page.read_text()


@pytest.mark.slow
@needs_a_lab
def test_switches_forward_and_textbook_algorithms_run_beside(program, capsys):
    found = lab_json(capsys, program, "sum", "--runs", "1", "--textbook")
    assert {row["algorithm"] for row in found["algorithms"] if row["ok"]} > {"ring"}
    assert any(row["link"].endswith("-> hub") for row in found["links"])


@pytest.mark.slow
@needs_a_lab
def test_a_group_runs_on_the_links_that_it_uses(program, capsys):
    found = lab_json(capsys, program, "part", "--runs", "1", "--textbook")
    assert {row["algorithm"]: row["ok"] for row in found["algorithms"]}["ring"]
    assert found["algorithms"][0]["ok"]
    assert {row["link"] for row in found["links"]} == {f"npu[{n}] -> hub" for n in (0, 2)} | {
        f"hub -> npu[{n}]" for n in (0, 2)
    }


@pytest.mark.slow
@needs_a_lab
@pytest.mark.parametrize("link", ["npu[0] -> hub", "hub -> npu[1]"])
def test_a_link_of_a_switch_that_is_taken_away_is_among_those_named(program, capsys, link):
    """What passes a switch does not say which of two links is gone, until something else passes one of them."""
    words = ["lab", str(program), "--schedule", "sum", "--seconds", "1", "--rate", "40Mb/s", "--at", "0.3s"]
    assert main([*words, "--fail", f"link {link}"]) == 4
    said = capsys.readouterr().err
    assert re.search(f"error\\[X0212\\]: link .*{re.escape(link)}.* carries nothing", said)


@pytest.mark.slow
@needs_a_lab
def test_a_link_that_is_taken_away_is_named(program, capsys):
    link = "npu[0, 0] -> npu[0, 1]"
    words = ["lab", str(program), "--schedule", "gather", "--seconds", "1", "--rate", "80Mb/s", "--at", "0.2s"]
    assert main([*words, "--fail", f"link {link}"]) == 4
    assert f"error[X0212]: link {link} carries nothing: what rank 0 sent to rank 1" in capsys.readouterr().err
    assert main([*words, "--fail", "link npu[0, 0] -> npu[1, 1]"]) == 2
    assert "error[X0213]: the schedule uses no link" in capsys.readouterr().err


@pytest.mark.slow
@needs_a_lab
def test_a_link_that_is_not_taken_away_is_an_error(program, capsys, monkeypatch):
    link = "npu[0, 0] -> npu[0, 1]"
    words = ["lab", str(program), "--schedule", "gather", "--seconds", "0.2", "--rate", "80Mb/s", "--fail", link]
    assert main([*words, "--at", "30s"]) == 4
    assert f"s: link {link} was to be taken away at 30 s" in capsys.readouterr().err

    def refuse(self, link):
        raise CheckFailed(Diagnostic("X0211", "the kernel says no"))

    monkeypatch.setattr(EmulatedNetwork, "take_away", refuse)
    assert main([*words, "--at", "0.01s"]) == 4
    assert "error[X0211]: the kernel says no" in capsys.readouterr().err


def test_a_rank_that_failed_is_not_a_broken_link(program):
    """Rank 0 sends to rank 1 and rank 2: what arrives at a rank that failed is not known."""
    module, _ = compiled_module(program, "gather", {})
    own = Experiment.of_seconds(lower(module, MscclOptions(profile=Profile.RUN)), module, Fraction(10**6), 0.1)
    steps = len(own.file.waits.sends)
    arrived = np.full(steps, np.inf)
    queued = arrived.copy()
    first = own.file.waits.sends.index(own.file.connections.key.tolist().index([0, 1, 0]))
    queued[first] = 0.5
    waits, lost = {"moments": [], "hung": [(0, 3, "receive", 1)]}, {"error": "rank 1 has left", "of_another": True}
    ended = {"error": "its process ended"}
    for answers, error in [
        ((waits, ended, waits, waits), "X0209.*rank 1 of the run over TCP failed: its process ended"),
        ((waits, waits, ended, waits), "X0209.*rank 2 of the run over TCP failed: its process ended"),
        ((waits, lost, waits, waits), "X0209.*rank 0 of the run over TCP failed: its threadblock 0 waits at step 3"),
        ((waits, waits, waits, waits), "X0212.*carries nothing: what rank 0 sent to rank 1 at 0.500 s did not arrive"),
    ]:
        with pytest.raises(CheckFailed) as raised:
            raise_if_lost(own, [(values, b"") for values in answers], queued, arrived)
        (found,) = raised.value.diagnostics
        assert re.match(error, f"{found.code} {found.message}")


@pytest.mark.slow
@needs_a_lab
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_the_lab_is_killed(program, number):
    words = ["lab", str(program), "--schedule", "sum", "--seconds", "30", "--rate", "8Mb/s"]
    mark = f"COLLC_MARK={uuid4()}"
    lab = subprocess.Popen(
        [sys.executable, "-m", "collc", *words],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | dict([mark.split("=")]),
        # a suite that runs in the background ignores SIGINT
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    while processes_with(mark) < 5:  # collc, three ranks and the switch
        assert lab.poll() is None
        time.sleep(0.05)
    os.kill(lab.pid, number)
    assert lab.wait(20) != 0
    deadline = time.monotonic() + 20
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_with(mark)


def test_machines_without_networks(monkeypatch, program):
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("ip", "tc") else f"/bin/{name}")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UsageError, match="needs programs that are missing: install iproute2"):
        run_lab(program, None, lambda *_: None)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(emulated_network, "NPU_COMMAND", ("sh", "-c", "echo not permitted >&2; exit 1"))
    with pytest.raises(UsageError, match="may not make network namespaces: not permitted"):
        check_machine()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UsageError, match="needs Linux, and this is darwin"):
        check_machine()


@pytest.mark.parametrize(
    ("schedule", "rate", "message"),
    [
        ("alone", 10**6, "'alone' sends nothing"),
        ("both", 10**6, "runs one collective, and 'both' has 2"),
        ("whole", 1, "the times of the lab exceed 64 bits"),
    ],
)
def test_schedules_that_the_lab_does_not_run(tmp_path, monkeypatch, schedule, rate, message):
    path = tmp_path / "p.coll"
    path.write_text("""
import std.topologies
import std.collectives
topology one { npu n }
topology r = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule alone on one { run all_reduce(one.npus, size: 1MiB) }
schedule both on r { run all_gather(r.npus, size: 1MiB)  run broadcast(r.npus, root: 0, size: 1MiB) }
schedule whole on r { run all_gather(r.npus, size: 1MiB) }
""")
    monkeypatch.setattr("collc.application.lab.lab.check_machine", lambda: None)
    with pytest.raises(UsageError, match=message) as raised:
        run_lab(path, LabSettings(schedule, rate=Fraction(rate)), lambda *_: None)
    assert raised.value.diagnostics[0].code == "X0215"


def test_routes_lead_along_the_links_of_a_path_in_both_directions(monkeypatch):
    """NPU 0 to NPU 1 over switches 2 and 3: link 0, 1, 2."""
    kind = LinkKind(0, Fraction(10**6))
    net = network(2, [(0, 2, kind), (2, 3, kind), (3, 1, kind)], switches=2)
    lines: dict[int, list[str]] = {}

    def keep(self, device, program, commands):
        lines.setdefault(device, []).extend(commands)

    monkeypatch.setattr(EmulatedNetwork, "_batch", keep)
    EmulatedNetwork(net, {0: 100, 1: 101, 2: 102, 3: 103}).build([(0, 1, 2)])
    routes = {device: [line for line in own if line.startswith("route")] for device, own in lines.items()}
    assert routes == {
        0: ["route add 10.0.0.1/32 dev l0"],
        1: ["route add 10.0.0.0/32 dev l2"],
        2: ["route add 10.0.0.0/32 dev l0", "route add 10.0.0.1/32 dev l1"],
        3: ["route add 10.0.0.0/32 dev l1", "route add 10.0.0.1/32 dev l2"],
    }
    assert any("tbf rate 8106710bit burst 5014 " in line for line in lines[2])
    assert not any("tbf" in line for line in lines[1])


@pytest.mark.parametrize(
    ("rates", "expected"), [((4, 2), 100 + 500_000), ((2, 4), 200 + 500_000), ((2, 2), 200 + 500_000)]
)
def test_switches_send_on_what_has_come(rates, expected):
    """A message of 10**6 bytes in packets of 400, in ps: the first packet on the first link, all on the slower one."""
    kinds = [LinkKind(0, Fraction(rate * 10**12)) for rate in rates]
    net = network(2, [(0, 2, kinds[0]), (2, 1, kinds[1])], switches=1)
    graph = TaskGraph(
        size=np.array([10**6]),
        route=np.zeros(1, np.int32),
        duration=np.zeros(1, np.int64),
        source=np.array([0], np.int32),
        target=np.array([1], np.int32),
        routes=Routes.of([(0, 1)]),
        edges=Edges.of([]),
    )
    assert simulate(net, graph, ExactTiming(packet=400)).time == expected
    assert simulate(net, graph, ExactTiming()).time == sum(10**6 // rate for rate in rates)


def test_all_npus_reach_one_another_by_one_address(monkeypatch):
    """A line of three NPUs: the one between forwards, and each link takes what goes its way."""
    kind = LinkKind(0, Fraction(10**6))
    net = network(3, [(0, 1, kind), (1, 0, kind), (1, 2, kind), (2, 1, kind)])
    lines: dict[int, list[str]] = {}

    def keep(self, device, program, commands):
        lines.setdefault(device, []).extend(commands)

    monkeypatch.setattr(EmulatedNetwork, "_batch", keep)
    EmulatedNetwork(net, {0: 100, 1: 101, 2: 102}).build_for_all()
    routes = {device: sorted(line for line in own if line.startswith("route")) for device, own in lines.items()}
    assert routes == {
        0: [f"route add 10.255.0.{last}/32 dev l0 src 10.255.0.0" for last in (1, 2)],
        1: ["route add 10.255.0.0/32 dev l1 src 10.255.0.1", "route add 10.255.0.2/32 dev l2 src 10.255.0.1"],
        2: [f"route add 10.255.0.{last}/32 dev l3 src 10.255.0.2" for last in (0, 1)],
    }


def test_npus_that_do_not_reach_one_another():
    net = network(2, [(0, 1, LinkKind(0, Fraction(10**6)))])
    with pytest.raises(CheckFailed, match=r"no path leads from \S*1\S* to \S*0"):
        EmulatedNetwork(net, {0: 100, 1: 101}).build_for_all()


@needs_a_lab
def test_what_forwards_takes_packets_from_any_link():
    """Also if new links are filtered by default, as on many distributions."""
    strict = 'echo 1 > /proc/sys/net/ipv4/conf/default/rp_filter && exec "$0" "$@"'
    forwarding = FORWARDING_COMMAND[len(NPU_COMMAND) :]
    look = "ip link add l0 type veth peer name l1 && cat /proc/sys/net/ipv4/conf/all/rp_filter " + " ".join(
        f"/proc/sys/net/ipv4/conf/l{end}/rp_filter" for end in range(2)
    )
    command = [*NPU_COMMAND, "sh", "-c", strict, *forwarding, "sh", "-c", look]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["0"] * 3


@pytest.mark.slow
@needs_a_lab
def test_gloo_without_a_way_back_is_a_row_with_a_reason(tmp_path, capsys, monkeypatch):
    """Its ranks fail if PyTorch is not installed."""
    path = tmp_path / "p.coll"
    path.write_text(ONE_WAY)
    monkeypatch.setattr("collc.application.lab.lab.why_no_gloo", lambda _: "")
    assert main(["lab", str(path), "--seconds", "0.1", "--runs", "1", "--rate", "80Mb/s", "--gloo", "--json"]) == 0
    own, gloo = json.loads(capsys.readouterr().out)["algorithms"]
    assert own["ok"]
    assert gloo["measured_s"] is None
    assert "no path leads from n[1] to n[0]" in gloo["reason"] or "its process ended" in gloo["reason"]


@pytest.mark.slow
@needs_a_lab
@pytest.mark.parametrize(
    ("option", "name", "missing"),
    [("--gloo", "gloo", "PyTorch is not installed"), ("--mpich", "MPICH", "mpi4py and MPICH are not installed")],
)
def test_a_library_beside_a_schedule(program, capsys, option, name, missing):
    """If it is not installed, the row says so."""
    words = ["lab", str(program), "--schedule", "gather", "--seconds", "0.2", "--runs", "1", option, "--json"]
    assert main(words) == 0
    row = json.loads(capsys.readouterr().out)["algorithms"][1]
    assert row["algorithm"] == name
    assert (row["reason"] == missing) == (row["measured_s"] is None)
