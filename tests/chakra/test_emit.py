"""`emit chakra`: the traces of schedules, read back, simulated, and broken in every way."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collc.application.simulate.module_simulation import simulated_module
from collc.application.simulate.simulating import SimulationSettings, simulate_file
from collc.application.verify.file_verification import Expectation, verify_file, verify_traces
from collc.base.diagnostics import SourceError
from collc.base.units import serialization_time
from collc.chakra.messages import trace_tasks
from collc.chakra.reader import read_traces
from collc.chakra.schema import NodeType
from collc.command.cli import main
from collc.emit.chakra import algorithm_of_module, write_chakra
from collc.simulation.engine import simulate
from collc.simulation.tasks import DONE, Edges
from collc.simulation.timing import AstraTiming
from collc.synthesis.endpoints import retimed_for_endpoints
from collc.synthesis.pccl import pccl
from collc.synthesis.task import Effort, Task
from collc.ten.binary import read_module
from collc.ten.demand import Op
from collc.ten.endpoint import Endpoint
from collc.ten.limited import fed_links, with_endpoints
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from collc.verification import verify_schedule
from tests.chakra.public_schema import schema
from tests.chakra.support import messages_of, varint
from tests.support import (
    DEFAULT,
    LinkKind,
    MiB,
    all_gather,
    all_to_all,
    broadcast,
    demand_of,
    fully_connected,
    grid,
    network,
    ring,
    switched,
)

HEAD = """
import std.topologies
import std.collectives
import std.algorithms
"""
AS_THEY_COME = "messages are forwarded in the order of their arrival (in ASTRA-sim's model"
LINKS = "bandwidth: 50GiB/s, latency: 0.5us"
PROGRAMS = {
    "ring All-Reduce": (f"ring(8, {LINKS})", "all_reduce(t.npus, size: 1MiB) using ring synthesize fixed", 7),
    "small ring": (f"ring(4, {LINKS})", "all_reduce(t.npus, size: 1MiB) using ring synthesize fixed", 3),
    "All-Gather": (f"mesh2d(3, 3, {LINKS})", "all_gather(t.npus, size: 27MiB, chunks: 3) synthesize tacos", 0),
    "All-to-All": (f"torus2d(3, 3, {LINKS})", "all_to_all(t.npus, size: 9MiB) synthesize pccl", 0),
    "Reduce-Scatter": (f"mesh2d(2, 3, {LINKS})", "reduce_scatter(t.npus, size: 6MiB) synthesize tacos", None),
    "exchange": (f"hypercube(2, {LINKS})", "all_reduce(t.npus, size: 4MiB) synthesize exchange", None),
    "All-Reduce": (f"mesh2d(3, 3, {LINKS})", "all_reduce(t.npus, size: 9MiB, chunks: 2) synthesize tacos", None),
    "hash order": (f"mesh2d(3, 5, {LINKS})", "reduce_scatter(t.npus, size: 15MiB) synthesize tacos", None),
    "hash order, torus": (f"torus2d(4, 4, {LINKS})", "all_reduce(t.npus, size: 16MiB) synthesize tacos", None),
    "many at once": (
        f"fully_connected(4, {LINKS})",
        "all_gather(t.npus, size: 40MiB, chunks: 10) synthesize pccl",
        0,
    ),
    "switch": (f"switched(4, {LINKS})", "all_gather(t.npus, size: 4MiB) synthesize pccl", 0),
}


def compiled(folder: Path, network: str, run: str) -> Path:
    """The folder with the traces of a schedule, compiled with link model pipelined."""
    text = f'{HEAD}topology t = {network}\nschedule s on t {{ run {run} emit chakra("c/") emit ten }}\n'
    (folder / "p.coll").write_text(text)
    arguments = ["compile", str(folder / "p.coll"), "-o", str(folder), "--link-model", "pipelined", "--quiet"]
    assert main(arguments) == 0
    return folder / "c"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", PROGRAMS)
def test_traces_take_the_time_of_the_schedule(case, tmp_path):
    """And 1 ns for each reduction on the longest chain, which is at most one for each NPU."""
    network, run, reductions = PROGRAMS[case]
    folder = compiled(tmp_path, network, run)
    traced = simulate_file(folder / "s", SimulationSettings(network=folder / "network.yml", astra=True))
    schedule = simulate_file(tmp_path / "s.ten", SimulationSettings(astra=True))
    more = (traced.time_ps - schedule.time_ps) // 1000
    assert more == reductions if reductions is not None else 1 <= more <= traced.simulation.network.npu_count
    assert traced.workload == schedule.workload
    assert traced.simulation.sent_bytes.sum() == schedule.simulation.sent_bytes.sum()
    report = verify_file(folder / "s", Expectation())
    assert dict(report.checks) == {"contract": "ok", "deadlock": "ok", "result": "ok"}
    against = Expectation(program=tmp_path / "p.coll", schedule="s")
    assert verify_file(folder / "s", against).ok


def test_the_files_beside_the_traces(tmp_path):
    folder = compiled(tmp_path, *PROGRAMS["ring All-Reduce"][:2])
    assert (folder / "network.yml").read_text() == (
        "topology: [ FullyConnected ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]  # GiB/s\nlatency: [ 500.0 ]  # ns\n"
    )
    assert json.loads((folder / "system.json").read_text()) == {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "local-mem-bw": 50,
        "all-reduce-implementation-custom": ["s"],
    }
    assert main(["simulate", str(folder / "workload"), "--network", str(folder / "network.yml")]) == 1


def test_the_public_schema_reads_them(tmp_path):
    public = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="mlc-chakra is not installed")
    folder = compiled(tmp_path, *PROGRAMS["ring All-Reduce"][:2])
    tags: set[int] = set()
    for rank in range(8):
        head, *rest = messages_of(folder / f"s.{rank}.et")
        metadata = public.GlobalMetadata()
        metadata.ParseFromString(head)
        assert metadata.version == "0.0.4"
        seen: set[int] = set()
        kinds: list[int] = []
        for data in rest:
            node = public.Node()
            node.ParseFromString(data)
            assert set(node.data_deps) <= seen, "parents come before children"
            assert node.SerializeToString() == data
            seen.add(node.id)
            kinds.append(node.type)
            values = {a.name: a.int64_val if a.name == "comm_size" else a.int32_val for a in node.attr}
            if node.type == public.COMM_SEND_NODE:
                assert values["comm_size"] == 2**17
                assert values["comm_tag"] not in tags
                tags.add(values["comm_tag"])
        assert [kinds.count(kind) for kind in (public.COMM_SEND_NODE, public.COMM_RECV_NODE, public.COMP_NODE)] == [
            14,
            14,
            7,
        ]
        _, data = messages_of(folder / f"workload.{rank}.et")
        node.ParseFromString(data)
        assert node.type == public.COMM_COLL_NODE
        assert {a.name: (a.int64_val, a.WhichOneof("value")) for a in node.attr} == {
            "is_cpu_op": (0, "bool_val"),
            "comm_type": (public.ALL_REDUCE, "int64_val"),
            "comm_size": (2**20, "int64_val"),
        }


def rewritten(path: Path, change) -> None:
    """Change the nodes of a trace: `change` gets a list of them and returns another one."""
    head, *rest = messages_of(path)
    nodes = []
    for data in rest:
        node = schema().node()
        node.ParseFromString(data)
        nodes.append(node)
    parts = [head, *(node.SerializeToString() for node in change(nodes))]
    path.write_bytes(b"".join(varint(len(part)) + part for part in parts))


def attribute(node, name):
    return next(a for a in node.attr if a.name == name)


def breaks(nodes):
    """Ways to break the traces of one rank: the name, and the changed list."""
    for position, node in enumerate(nodes):
        yield f"without node {position}", lambda n, k=position: n[:k] + n[k + 1 :]
        if node.data_deps:
            yield f"no dependencies of {position}", lambda n, k=position: (n[k].ClearField("data_deps"), n)[1]
        if node.type != NodeType.COMP:
            for name, field, value in (("comm_size", "int64_val", 7), ("comm_tag", "int32_val", 99_999)):
                yield (
                    f"{name} of {position}",
                    lambda n, k=position, a=name, f=field, v=value: (setattr(attribute(n[k], a), f, v), n)[1],
                )
        else:
            yield f"type of {position}", lambda n, k=position: (setattr(n[k], "type", 2), n)[1]
    for node in [node for node in nodes if node.data_deps][:1]:
        yield "a cycle", lambda n, k=node.id, d=node.data_deps[0]: (n[d].data_deps.append(k), n)[1]


@pytest.mark.parametrize("case", ["small ring", "Reduce-Scatter", "switch"])
def test_every_change_of_a_trace_is_found(case, tmp_path):
    """A node less, a dependency less, another size or tag; of a send, the dependency on what it sends."""
    folder = compiled(tmp_path, *PROGRAMS[case][:2])
    path = folder / "s.0.et"
    whole = path.read_bytes()
    nodes: list[object] = []
    rewritten(path, lambda found: nodes.extend(found) or found)
    assert path.read_bytes() == whole
    assert verify_file(folder / "s", Expectation()).ok
    for name, change in breaks(nodes):
        rewritten(path, change)
        report = verify_file(folder / "s", Expectation())
        assert not report.ok, name
        assert report.diagnostics, name
        path.write_bytes(whole)


def test_data_that_is_wrong_on_some_rank(tmp_path, capsys):
    """Messages that are matched, and bring another chunk than the receiver takes them for; the wrong collective."""
    folder = compiled(tmp_path, *PROGRAMS["All-Gather"][:2])

    def other_chunk(nodes):
        first = next(node for node in nodes if node.type == NodeType.RECV)
        first.name = first.name.replace(", 0]", ", 9]").replace(", 1]", ", 0]").replace(", 9]", ", 1]")
        return nodes

    path = folder / "s.4.et"
    whole = path.read_bytes()
    rewritten(path, other_chunk)
    assert main(["verify", str(folder / "s")]) == 4
    assert "X0512" in capsys.readouterr().err
    path.write_bytes(whole)
    assert main(["verify", str(folder / "s"), "--collective", "all_reduce"]) == 4
    assert "X0512" in capsys.readouterr().err
    assert main(["verify", str(folder / "s"), "--collective", "all_to_all"]) == 4
    assert "the collective has no chunk" in capsys.readouterr().err
    assert main(["verify", str(folder / "s"), "--collective", "allgather", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "chakra"
    assert main(["verify", str(folder / "s"), "--collective", "broadcast", "--root", "9"]) == 2
    assert "U0112" in capsys.readouterr().err


def test_traces_of_others_are_checked_as_far_as_they_say_what_they_do(capsys):
    prefix = Path(__file__).parent / "astra_sim" / "ar_ring_ring8_1M_comp" / "algo" / "a"
    assert main(["verify", str(prefix)]) == 0
    assert "C0208" in capsys.readouterr().err
    report = verify_file(prefix, Expectation())
    assert dict(report.checks) == {"contract": "ok", "deadlock": "ok", "result": "skipped"}
    assert report.summary["messages"] == 112


def test_a_folder_that_is_there_already(tmp_path):
    """Traces of more ranks are replaced; other files stay; the same program gives the same bytes."""
    folder = compiled(tmp_path, *PROGRAMS["ring All-Reduce"][:2])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("s.8.et", "workload.77.et", "notes.txt"):
        (folder / name).write_text("x")
    compiled(tmp_path, *PROGRAMS["ring All-Reduce"][:2])
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == {**before, "notes.txt": b"x"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "p.coll", "s.ten"]


def test_a_file_where_the_folder_should_be(tmp_path, capsys):
    (tmp_path / "c").write_text("x")
    run = 'run all_gather(t.npus, size: 4MiB) emit chakra("c")'
    (tmp_path / "p.coll").write_text(f"{HEAD}topology t = ring(4, {LINKS})\nschedule s on t {{ {run} }}")
    assert main(["compile", str(tmp_path / "p.coll"), "-o", str(tmp_path), "--quiet"]) == 2
    assert "U0203" in capsys.readouterr().err
    assert (tmp_path / "c").read_text() == "x"


def planned(net, demand, seed=0) -> Module:
    model = LinkModel.PIPELINED
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32), relays=True)
    return Module("m", net, demand, model, relays=True).with_schedule(pccl(task, Effort(seed=seed)), "")


def test_networks_that_the_file_cannot_express(tmp_path):
    slow = LinkKind(2_000_000, DEFAULT.bandwidth)
    net = grid(2, 2)
    links = zip(net.source.tolist(), net.target.tolist(), [DEFAULT, slow] * 4, strict=True)
    mixed = network(4, links)
    module = planned(mixed, all_to_all([0, 1, 2, 3]))
    notes = write_chakra(module, "m", tmp_path)
    assert "its links differ in latency or bandwidth" in notes[0]
    assert not (tmp_path / "network.yml").exists()
    assert (tmp_path / "system.json").exists()
    report = verify_traces(tmp_path / "m", demand=(module.demand, module.network))
    assert report.ok
    (tmp_path / "b").mkdir()
    notes = write_chakra(planned(net, broadcast([0, 1, 2, 3])), "m", tmp_path / "b")
    assert "no workload and system file, which ASTRA-sim has for one run of all_gather" in notes[0]
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        "m.0.et",
        "m.1.et",
        "m.2.et",
        "m.3.et",
        "network.yml",
    ]


def test_messages_over_a_switch_and_ranks_with_nothing_to_do(tmp_path):
    module = planned(switched(5), broadcast([0, 1, 2]))
    write_chakra(module, "m", tmp_path)
    assert "topology: [ Switch ]" in (tmp_path / "network.yml").read_text()
    algorithm = algorithm_of_module(module)
    assert set(np.diff(algorithm.routes.offsets).tolist()) == {2}
    found = simulate_file(tmp_path / "m", SimulationSettings(network=tmp_path / "network.yml", astra=True))
    assert found.time_ps == simulated_module(module, AstraTiming()).time_ps
    assert found.simulation.rank_times.tolist()[3:] == [1, 1]


def test_a_switch_that_multicasts(tmp_path):
    net, demand = switched(3, multicast=True), broadcast([0, 1, 2])
    task = Task(net, demand, LinkModel.PIPELINED, np.arange(len(demand.chunks), dtype=np.int32))
    module = Module("m", net, demand, LinkModel.PIPELINED).with_schedule(pccl(task, Effort()), "")
    with pytest.raises(SourceError, match="a switch multicasts or reduces a chunk") as caught:
        write_chakra(module, "m", tmp_path)
    assert caught.value.diagnostics[0].code == "X0513"
    assert list(tmp_path.iterdir()) == []


@example(net="torus", latency=500_000, make=all_to_all, chunks=2, size=100_000, seed=31)  # ready at the same time
@given(
    net=st.sampled_from(["ring", "mesh", "torus", "fully connected"]),
    latency=st.sampled_from([0, 500_000, 3_000_000]),
    make=st.sampled_from([all_gather, all_to_all]),
    chunks=st.integers(1, 3),
    size=st.sampled_from([17, 4096, 100_000, MiB]),
    seed=st.integers(0, 50),
)
@settings(max_examples=12, deadline=None)
def test_order_on_links_is_that_of_the_schedule(net, latency, make, chunks, size, seed, tmp_path_factory):
    """Whatever the ties: the traces take the time of the schedule, whose order on each link is given."""
    kind = LinkKind(latency, DEFAULT.bandwidth)
    networks = {"ring": ring(5, kind), "mesh": grid(2, 3, kind=kind), "torus": grid(3, 3, kind=kind, wrap=True)}
    links = networks.get(net) or fully_connected(5, kind)
    module = planned(links, make(list(range(links.npu_count)), size, chunks), seed)
    folder = tmp_path_factory.mktemp("traces")
    write_chakra(module, "m", folder)
    assert verify_traces(folder / "m", demand=(module.demand, module.network)).ok
    found = simulate_file(folder / "m", SimulationSettings(network=folder / "network.yml", astra=True))
    assert found.time_ps == simulated_module(module, AstraTiming()).time_ps


def time_of_traces(module: Module, folder: Path) -> int:
    found = simulate_file(folder / "m", SimulationSettings(network=folder / "network.yml", astra=True))
    assert verify_traces(folder / "m", demand=(module.demand, module.network)).ok
    return found.simulation.time


@pytest.mark.parametrize(("npus", "chunks", "seed"), [(4, 2, 0), (8, 2, 3), (9, 2, 1), (6, 3, 1)])
def test_messages_wait_for_their_turn_at_switches(npus, chunks, seed, tmp_path):
    """Nodes hold messages back that would come to the switch before those that leave it first in the schedule."""
    module = planned(switched(npus), all_gather(list(range(npus)), MiB, chunks), seed)
    notes = write_chakra(module, "m", tmp_path)
    assert time_of_traces(module, tmp_path) == simulated_module(module, AstraTiming()).time
    assert not any("than the schedule" in note for note in notes)


@pytest.mark.parametrize(
    ("run", "cycles"),
    [
        ("all_reduce(t.npus, size: 9MiB) using double_binary_tree", 555_303),  # the schedule, and 3 reductions
        ("broadcast(t.npus, root: 0, size: 8MiB, chunks: 8) using double_binary_tree", 315_996),
        ("all_reduce(t.npus, size: 8MiB) using direct", 392_621),
        ("all_reduce(t.npus, size: 1MiB) using pairwise", None),
    ],
)
def test_messages_that_queue_on_a_ring_take_the_time_of_the_schedule(run, cycles, tmp_path):
    """At inner links too they go in the order of the schedule, in which each hop waits."""
    folder = compiled(tmp_path, f"ring(8, {LINKS})", f"{run} allow congestion")
    traced = simulate_file(folder / "s", SimulationSettings(network=folder / "network.yml", astra=True))
    schedule = simulate_file(tmp_path / "s.ten", SimulationSettings(astra=True))
    assert cycles in (None, traced.simulation.time)
    assert 0 <= traced.simulation.time - schedule.simulation.time <= 14
    assert _delay_notes(tmp_path) == []


def test_traces_that_take_longer_than_the_schedule_say_so(tmp_path):
    run = "all_gather(t.npus, size: 9MiB) using recursive_halving_doubling allow congestion"
    folder = compiled(tmp_path, f"ring(8, {LINKS})", run)
    traced = simulate_file(folder / "s", SimulationSettings(network=folder / "network.yml", astra=True))
    schedule = simulate_file(tmp_path / "s.ten", SimulationSettings(astra=True))
    taken, least = traced.simulation.time, schedule.simulation.time
    assert taken > least
    assert f"longer than the schedule: {AS_THEY_COME} {taken} ns, the schedule {least} ns)" in _delay_notes(tmp_path)[0]


@pytest.mark.parametrize(
    "run",
    [
        "reduce_scatter(t.npus, size: 2882880B) using direct allow congestion",
        "all_gather(t.npus, size: 2882880B) synthesize tacos(seed: 3)",
        "all_reduce(t.npus, size: 2882880B) using ring allow congestion",
    ],
)
def test_traces_on_networks_with_limits_say_the_times_that_the_simulator_gives(run, tmp_path):
    """Of both, or nothing if the traces take the time of the schedule and 1 ns for each reduction."""
    folder = compiled(tmp_path, f"limited(ring(6, {LINKS}), inject: 90GB/s, eject: 60GB/s)", run)
    traced = simulate_file(folder / "s", SimulationSettings(on=f"{tmp_path}/p.coll:t", astra=True))
    schedule = simulate_file(tmp_path / "s.ten", SimulationSettings(astra=True))
    taken, least = traced.simulation.time, schedule.simulation.time
    if 0 <= taken - least <= 5:
        assert _delay_notes(tmp_path) == []
    else:
        assert f"(in ASTRA-sim's model {taken} ns, the schedule {least} ns)" in _delay_notes(tmp_path)[0]


def _delay_notes(folder: Path) -> list[str]:
    """The remarks about the time of the traces of a program that `compiled` has made."""
    notes = write_chakra(read_module(folder / "s.ten"), "s", folder)
    return [note for note in notes if "than the schedule" in note]


@pytest.mark.slow
@pytest.mark.parametrize("npus", range(4, 11))
def test_traces_over_a_switch_take_the_time_of_the_schedule(npus, tmp_path_factory):
    """Of 112 schedules all but one, whose traces take 2.4 % longer."""
    for make, chunks, seed in product((all_gather, all_to_all), (1, 2, 3, 4), (2, 3)):
        module = planned(switched(npus), make(list(range(npus)), MiB, chunks), seed)
        folder = tmp_path_factory.mktemp("traces")
        notes = write_chakra(module, "m", folder)
        taken, least = time_of_traces(module, folder), simulated_module(module, AstraTiming()).time
        assert taken == least or ((npus, make, chunks, seed) == (10, all_gather, 3, 3) and taken < 1.03 * least)
        assert any("than the schedule" in note for note in notes) == (taken != least)


def waiting_switch() -> Module:
    """A schedule that lets a message wait in a switch whose link is idle, until a later one has gone before it.

    In units of 1 MiB over links without latency: NPU 0 sends `a` (1 unit) to 2 and then, without a gap until the end,
    what 4 sends it for 5 in 19 parts of a quarter; 1 sends `b` (1.5 units) to 2, which sends it on to 3 and has it
    at 6 only if `b`, which comes to the switch at 1.5, goes to 2 before `a`, which comes at 1.
    """
    net, quarter = switched(6, LinkKind(0, DEFAULT.bandwidth)), MiB // 4
    parts = 19
    demand = demand_of(
        [(MiB, [0], [2], Op.COPY), (6 * quarter, [1], [2, 3], Op.COPY)] + [(quarter, [4], [0, 5], Op.COPY)] * parts
    )
    link = {ends: k for k, ends in enumerate(zip(net.source.tolist(), net.target.tolist(), strict=True))}
    rows = [(0, link[0, 6], 0), (0, link[6, 2], 12)]
    rows += [(1, link[1, 6], 0), (1, link[6, 2], 6), (1, link[2, 6], 12), (1, link[6, 3], 18)]
    for k in range(parts):
        ways = ((link[4, 6], k), (link[6, 0], k + 1), (link[0, 6], k + 4), (link[6, 5], k + 5))
        rows += [(2 + k, way, start) for way, start in ways]
    unit = serialization_time(quarter, DEFAULT.bandwidth)
    chunk, on, start = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    transfers = Transfers.of(chunk, on, start.astype(np.int64) * unit)
    model = LinkModel.PIPELINED
    return Module("m", net, demand, model).with_schedule(RowSchedule(model, transfers), "")


def test_a_switch_that_waits_cannot_be_expressed(tmp_path):
    """`a` must leave NPU 0 first, and then ASTRA-sim's switch, which never waits, sends it on before `b` has come.

    Whenever `a` leaves instead, the traces take longer than the schedule.
    """
    module = waiting_switch()
    assert verify_schedule(module).ok
    notes = write_chakra(module, "m", tmp_path)
    least = simulated_module(module, AstraTiming()).time
    assert time_of_traces(module, tmp_path) > least
    assert "longer than the schedule: messages are forwarded in the order of their arrival" in notes[-1]
    network, traces = module.network, read_traces(tmp_path / "m")
    graph = trace_tasks(traces, network, AstraTiming())
    send = next(k for k, name in enumerate(traces.names) if name == "send 0:x[0] to 2")
    size = graph.size[send]
    assert size == MiB
    for begin in range(0, least, least // 40):
        held = replace(graph, duration=np.append(graph.duration, begin))
        ends = {name: np.append(getattr(graph, name), graph.source[send]) for name in ("source", "target")}
        later = Edges.all_of(np.array([len(graph)], np.int32), np.array([send], np.int32), DONE)
        held = replace(
            held, **ends, size=np.append(graph.size, 0), route=np.append(graph.route, -1).astype(np.int32),
            edges=Edges.join([graph.edges, later]), issue=None,
        )  # fmt: skip
        assert simulate(network, held, AstraTiming()).time > least


def nodes_of(path: Path) -> list:
    nodes = []
    for data in messages_of(path)[1:]:
        nodes.append(schema().node())
        nodes[-1].ParseFromString(data)
    return nodes


def test_limits_of_npus_are_not_lost_in_a_network_file(tmp_path):
    """ASTRA-sim's network file has no place for them, so that a time on it would be too short."""
    free = planned(grid(2, 2), all_gather([0, 1, 2, 3], MiB))
    assert not any("limit" in note for note in write_chakra(free, "m", tmp_path))
    (tmp_path / "limited").mkdir()
    endpoint = Endpoint(inject=free.network.kinds[0].bandwidth)
    limited = fed_links(with_endpoints(free.network, [endpoint] * 4))
    notes = write_chakra(retimed_for_endpoints(free, limited), "m", tmp_path / "limited")
    assert "its NPUs limit what they send and receive" in notes[-1]
    assert not (tmp_path / "limited" / "network.yml").exists()


def test_compute_nodes_hold_messages_back(tmp_path):
    """Nodes of whole microseconds and of 1 ns wait."""
    module = planned(switched(6), all_gather(list(range(6)), MiB, 2), 0)
    write_chakra(module, "m", tmp_path)
    nodes = [node for rank in range(6) for node in nodes_of(tmp_path / f"m.{rank}.et")]
    held = [node for node in nodes if node.name.startswith("wait until")]
    assert held
    assert all(node.type == NodeType.COMP for node in held)
    assert {node.duration_micros > 0 for node in held} == {True, False}  # whole microseconds, and nodes of 1 ns
    assert time_of_traces(module, tmp_path) == simulated_module(module, AstraTiming()).time
