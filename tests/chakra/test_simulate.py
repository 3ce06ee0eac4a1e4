"""`collc simulate` of traces: those that ASTRA-sim ran, small ones by hand, and wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.application.simulate.simulating import SimulationSettings, simulate_file
from collc.chakra import reader
from collc.command.cli import main
from tests.chakra.support import (
    COLL,
    METADATA,
    NETWORK,
    SEND,
    compute,
    field,
    file_bytes,
    node_bytes,
    receive,
    send,
    varint,
    write,
)

ASTRA_SIM = sorted((Path(__file__).parent / "astra_sim").iterdir())


@pytest.fixture
def network(tmp_path: Path) -> str:
    (tmp_path / "network.yml").write_text(NETWORK)
    return str(tmp_path / "network.yml")


@pytest.mark.parametrize("folder", ASTRA_SIM, ids=lambda path: path.name)
def test_cycles_of_every_rank_as_in_astra_sim(folder, capsys):
    expected = json.loads((folder / "expected.json").read_text())
    arguments = ["simulate", str(folder / "algo" / "a"), "--network", str(folder / "network.yml"), "--astra", "--json"]
    assert main([*arguments, *([] if expected["aware"] else ["--model", "unaware"])]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time_ps"] == expected["cycles"] * 1000
    assert found["ranks_ps"] == [cycles * 1000 for cycles in expected["per_rank"]]
    assert found["model"] == ("aware" if expected["aware"] else "unaware")


def test_the_same_on_a_topology_of_a_program(tmp_path, capsys):
    program = tmp_path / "machine.coll"
    program.write_text("import std.topologies\ntopology loop = ring(8, bandwidth: 50GiB/s, latency: 500ns)\n")
    folder = next(path for path in ASTRA_SIM if path.name == "ag_direct_ring8_1M")
    arguments = ["simulate", str(folder / "algo" / "a"), "--on", f"{program}:loop", "--json"]
    assert main([*arguments, "--astra"]) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == 196_310_000
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == 196_312_500
    assert main([*arguments[:3], str(program), "--json"]) == 0, "it has one topology only"
    assert json.loads(capsys.readouterr().out)["time_ps"] == 196_312_500
    assert main([*arguments[:3], f"{program}:lop"]) == 1
    assert "U0133" in (text := capsys.readouterr().err)
    assert "did you mean 'loop'?" in text


def test_compute_order_and_matching_by_hand(tmp_path, network):
    """Rank 0 computes 2 us, sends twice with one tag; rank 1 reduces (1 ns) and sends on; rank 3 only computes."""
    prefix = write(
        tmp_path / "t",
        [
            [compute(5, 2), send(6, 1, 53687, after=[5]), send(7, 1, 53687, after=[5])],
            [receive(0, 0, 53687), receive(1, 0, 53687), compute(2, 0, [1]), send(3, 2, 53687, after=[2, 0])],
            [receive(9, 1, 53687)],
            [compute(0)],
        ],
    )
    found = simulate_file(prefix, SimulationSettings(network=Path(network), astra=True)).simulation
    one, both = 999, 500 + 999
    arrived = 2000 + one + both
    assert found.rank_times.tolist() == [arrived, arrived + 1 + both, arrived + 1 + both, 1]
    assert found.queued.sum() == one


def test_the_table_and_the_workload_beside(tmp_path, network, capsys):
    prefix = write(tmp_path / "t", [[send(0, 1)], [receive(0, 0)], [compute(0)], [compute(0)]])
    assert main(["simulate", str(prefix), "--network", network]) == 0
    text = capsys.readouterr().out
    assert "exact, congestion-aware" in text
    assert "npu[0] -> npu[1]" in text
    workload = (0, COLL, {"comm_type": 2, "comm_size": 1000}, [])
    raw = file_bytes([workload]).replace(b"comm_type\x38", b"comm_type\x48")
    (tmp_path / "t" / "workload.0.et").write_bytes(raw)
    assert main(["simulate", str(prefix), "--network", network, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["collective"], found["size"]) == ("all_gather", 4000)
    assert found["bus_bandwidth"] == found["algorithm_bandwidth"] * 3 / 4 == 3 * 10**15 / found["time_ps"]


GOOD = [[send(0, 1)], [receive(0, 0)], [compute(0)], [compute(0)]]

WRONG = {
    "X0503 another type": ([[(0, COLL, {}, [])], *GOOD[1:]], "algo.0.et: node 0 (n0): nodes of type COLL"),
    "X0503 unknown type": ([[(0, 99, {}, [])], *GOOD[1:]], "nodes of type 99"),
    "X0504 no bytes": ([[send(0, 1, 0)], *GOOD[1:]], "comm_size is missing, or not a positive"),
    "X0504 fewer than none": ([[send(0, 1, -5)], *GOOD[1:]], "comm_size is missing, or not a positive"),
    "X0504 to itself": ([[send(0, 0)], *GOOD[1:]], "comm_dst is 0, not another of the 4 ranks"),
    "X0504 another rank": ([GOOD[0], [receive(0, 4)], *GOOD[2:]], "algo.1.et: node 0 (n0): comm_src is 4"),
    "X0504 no rank": ([[(0, 5, {"comm_size": 5}, [])], *GOOD[1:]], "comm_dst is missing"),
    "X0504 no tag": ([[(0, 5, {"comm_size": 5, "comm_dst": 1}, [])], *GOOD[1:]], "comm_tag is missing, not a whole"),
    "X0504 tag below 0": ([[send(0, 1, tag=-1)], *GOOD[1:]], "algo.0.et: node 0 (n0): comm_tag is -1, not a whole"),
    "X0504 long": ([*GOOD[:3], [compute(0, 2**50)]], "its id or duration is out of range"),
    "X0504 empty": ([*GOOD[:3], []], "algo.3.et has no node"),
    "X0505 dependency": ([*GOOD[:3], [compute(0, 0, [7])]], "algo.3.et: node 0 depends on node 7"),
    "X0505 twice": ([*GOOD[:3], [compute(0), compute(0)]], "two nodes with this id"),
    "X0506 receive": ([[send(0, 1, tag=1)], *GOOD[1:]], "algo.0.et: node 0 (n0): no receive matches it"),
    "X0506 send": ([[compute(0)], *GOOD[1:]], "algo.1.et: node 0 (n0): no send matches it (1000 bytes from rank 0"),
    "X0506 bytes": ([[send(0, 1, 999)], *GOOD[1:]], "no receive matches it (999 bytes to rank 1 with tag 0)"),
    "X0507 cycle": (
        [[send(0, 1, after=[1]), receive(1, 1)], [receive(0, 0), send(1, 0, after=[0])], *GOOD[2:]],
        "4 nodes wait for one another",
    ),
    "X0510 ranks": (GOOD[:3], "traces of 3 ranks, but Ring(4) has 4 NPUs"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_traces(case, tmp_path, network, capsys):
    ranks, expected = WRONG[case]
    prefix = write(tmp_path / "t", ranks)
    assert main(["simulate", str(prefix), "--network", network]) in (1, 4)
    text = capsys.readouterr().err
    assert case[:5] in text
    assert expected in text


def test_traces_and_network_files_with_more_than_is_read(tmp_path, network, capsys):
    """Metadata without a version, as the converter of MSCCL files writes it; a tag as a text; another key."""
    prefix = write(tmp_path / "t", GOOD)
    for rank, nodes in enumerate(GOOD):
        metadata = field(2, field(1, b"schema") + field(29, b"1.0.2-chakra.0.0.4"))
        (tmp_path / "t" / f"algo.{rank}.et").write_bytes(file_bytes(nodes, metadata))
    Path(network).write_text(NETWORK + "scheduling: [ fifo ]\n")
    assert main(["simulate", str(prefix), "--network", network, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == [f"{network}:5: ASTRA-sim does not use the key 'scheduling'"]
    assert main(["simulate", str(prefix), "--network", network]) == 0
    assert "network.yml:5: ASTRA-sim does not use the key 'scheduling'" in capsys.readouterr().err
    assert main(["import", "astra", network]) == 0
    assert "does not use the key 'scheduling'" in capsys.readouterr().err
    text = field(10, field(1, b"comm_tag") + field(29, b"0"))
    rest = node_bytes((0, SEND, {"comm_size": 1000, "comm_dst": 1}, []))
    path = tmp_path / "t" / "algo.0.et"
    path.write_bytes(b"".join(varint(len(part)) + part for part in (METADATA, rest + text)))
    assert main(["simulate", str(prefix), "--network", network]) == 1
    assert "algo.0.et: node 0 (n0): comm_tag is no number, not a whole number" in capsys.readouterr().err


def test_damaged_files(tmp_path, network, capsys):
    """Cut off anywhere but between two messages, or something else."""
    prefix = write(tmp_path / "t", GOOD)
    path = tmp_path / "t" / "algo.0.et"
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert main(["simulate", str(prefix), "--network", network]) == 1, end
        text = capsys.readouterr().err
        assert ("X0502" if end != 1 + len(METADATA) else "X0504") in text, (end, text)
    for data in (b"\xff" * 20, file_bytes([], b""), varint(3) + b"\x0a\xff\xff", b"{}", whole[:8] + b"\x02\x0a\xff"):
        path.write_bytes(data)
        assert main(["simulate", str(prefix), "--network", network]) == 1
        assert "algo.0.et" in capsys.readouterr().err


def test_random_bytes_are_refused_and_never_a_fault(tmp_path, network, capsys):
    import random

    prefix = write(tmp_path / "t", GOOD)
    path = tmp_path / "t" / "algo.0.et"
    whole, chance = path.read_bytes(), random.Random(1)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data))
        assert main(["simulate", str(prefix), "--network", network]) in (0, 1, 4)
    assert "E0000" not in capsys.readouterr().err


def test_limits(tmp_path, network, capsys, monkeypatch):
    prefix = write(tmp_path / "t", GOOD)
    arguments = ["simulate", str(prefix), "--network", network]
    for name, value in (("MAX_BYTES", 20), ("MAX_MESSAGE", 10), ("MAX_NODES", 2), ("MAX_RANKS", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(reader, name, value)
            assert main(arguments) == 1
            assert "X0508" in capsys.readouterr().err
    write(tmp_path / "t", [*GOOD[:3], [compute(0), compute(1, 0, [0])]])
    monkeypatch.setattr(reader, "MAX_DEPENDENCIES", 0)
    assert main(arguments) == 1
    assert "X0508" in capsys.readouterr().err


def test_traces_that_are_not_there(tmp_path, network, capsys):
    assert main(["simulate", str(tmp_path / "none"), "--network", network]) == 2
    assert "U0106" in capsys.readouterr().err
    prefix = write(tmp_path / "t", GOOD)
    (tmp_path / "t" / "algo.2.et").unlink()
    assert main(["simulate", str(prefix), "--network", network]) == 1
    assert "X0501" in (text := capsys.readouterr().err)
    assert "algo.2.et is missing" in text


def test_settings_that_do_not_fit(tmp_path, network, capsys):
    prefix = str(write(tmp_path / "t", GOOD))
    for more in ([], ["--network", network, "--on", "a.coll:t"]):
        assert main(["simulate", prefix, *more]) == 2
        assert "U0130" in capsys.readouterr().err
    program = tmp_path / "p.coll"
    program.write_text("import std.topologies\ntopology t = ring(4, bandwidth: 1GB/s, latency: 1us)\n")
    assert main(["simulate", str(program), "--network", network]) == 2
    assert "U0131" in capsys.readouterr().err
    program.write_text("topology t {\n npu n[4]\n link n[0] -> n[2] (bandwidth: 1GB/s, latency: 1us)\n}\n")
    assert main(["simulate", prefix, "--on", f"{program}:t"]) == 1
    assert "X0511" in (text := capsys.readouterr().err)
    assert "has no path from n[0] to n[1]" in text


def test_the_link_model_of_exact_times(tmp_path, network, capsys):
    """Traces take either; a schedule and ASTRA-sim's times have one of their own."""
    prefix = str(write(tmp_path / "t", GOOD))
    times = {}
    for model in ("pipelined", "store"):
        assert main(["simulate", prefix, "--network", network, "--link-model", model, "--json"]) == 0
        times[model] = json.loads(capsys.readouterr().out)["time_ps"]
    assert times["pipelined"] <= times["store"]
    assert main(["simulate", prefix, "--network", network, "--astra", "--link-model", "store"]) == 2
    assert "U0148" in capsys.readouterr().err
    program = tmp_path / "p.coll"
    program.write_text(
        "import std.topologies\nimport std.collectives\ntopology t = ring(4, bandwidth: 1GB/s, latency: 1us)\n"
        "schedule s on t {\n    run all_gather(t.npus, size: 4MB)\n}\n"
    )
    assert main(["simulate", str(program), "--link-model", "store"]) == 0
    assert main(["simulate", str(program), "--link-model", "pipelined"]) == 2
    assert "U0148" in capsys.readouterr().err


def test_a_program_is_simulated_as_it_is_compiled(tmp_path, capsys):
    """Files decide how a schedule passes switches: it is the same if they are not written."""
    program = tmp_path / "p.coll"
    program.write_text(
        "import std.topologies\nimport std.collectives\n"
        "topology t = switched(5, bandwidth: 50GiB/s, latency: 0.5us)\nschedule s on t {\n"
        '    run all_gather(t.npus, size: 5MiB)\n    synthesize pccl(link_model: "pipelined")\n'
        '    emit chakra("c")\n}\n'
    )
    assert main(["compile", str(program), "-o", str(tmp_path), "--json"]) == 0
    compiled = json.loads(capsys.readouterr().out)["schedules"][0]["time_ps"]
    plain = program.read_text().replace('    emit chakra("c")\n', "")
    (tmp_path / "q.coll").write_text(plain)
    times = {}
    for name in ("p", "q"):
        assert main(["simulate", str(tmp_path / f"{name}.coll"), "--json"]) == 0
        times[name] = json.loads(capsys.readouterr().out)["time_ps"]
        assert main(["sweep", str(tmp_path / f"{name}.coll"), "--seed", "0", "--json", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"][0]["time_ps"] >= times[name]
    assert times["q"] < times["p"] <= compiled


TWO_DIMENSIONS = """
topology: [ Ring, Switch ]
npus_count: [ 2, 2 ]
bandwidth: [ 50, 25 ]
latency: [ 500, 700 ]
"""


@pytest.mark.parametrize(
    ("target", "aware", "unaware"),
    [
        (1, 20_031, 20_031),  # 500 ns + 1 MiB / 50 GiB/s
        (2, 2 * 39_762, 40_462),  # over the switch: twice 700 ns + 1 MiB / 25 GiB/s, truncated; unaware: the bytes once
        (3, 20_031 + 2 * 39_762, 20_031),  # over both; unaware: the first dimension in which the ranks differ
    ],
)
def test_networks_of_several_dimensions(target, aware, unaware, tmp_path, capsys):
    """NPUs 0 and 1 are on a ring, and 0 and 2 on a switch."""
    network = tmp_path / "network.yml"
    network.write_text(TWO_DIMENSIONS)
    nodes = [[compute(0)] for _ in range(4)]
    nodes[0], nodes[target] = [send(0, target, 2**20)], [receive(0, 0, 2**20)]
    prefix = write(tmp_path / "t", nodes)
    for model, cycles in (("aware", aware), ("unaware", unaware)):
        words = ["simulate", str(prefix), "--network", str(network), "--astra", "--model", model, "--json"]
        assert main(words) == 0, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out)["time_ps"] == cycles * 1000


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (NETWORK.replace("Ring", "Rink"), "X0509", "did you mean 'Ring'?"),
        (NETWORK.replace("latency", "latencies"), "X0509", "network.yml:4:1"),
        (NETWORK.replace("latency", "# latency"), "X0509", "has no 'latency'"),
        (NETWORK.replace("latency", "# latency"), "X0509", "network.yml:1:1"),
        (NETWORK + NETWORK, "X0509", "'topology' occurs twice"),
        (NETWORK.replace("[ 4 ]", "[ 4, 2 ]"), "X0509", "'npus_count' has 2 items, and 'topology' has 1"),
        (NETWORK.replace("[ Ring ]", "[ Ring, Ring ]"), "X0509", "'npus_count' has 1 items, and 'topology' has 2"),
        (NETWORK.replace("[ 4 ]", f"[ {'2, ' * 17} ]"), "X0508", "'npus_count' has 17 items, more than 16"),
        (NETWORK.replace("[ 4 ]", "4"), "X0509", "is a list with an item for each dimension"),
        (NETWORK.replace("[ 4 ]", "[]"), "X0509", "is a list with an item for each dimension"),
        (NETWORK.replace("[ 4 ]", "[ 1 ]"), "X0509", "network.yml:2:15"),
        (NETWORK.replace("[ 4 ]", "[ 1e9 ]"), "X0509", "whole number"),
        (NETWORK.replace("50.0", "0"), "X0509", "'bandwidth' is a number above 0"),
        (NETWORK.replace("500.0", "-1"), "X0509", "'latency' is a number of at least 0"),
        (NETWORK.replace("500.0", "nan"), "X0509", "not 'nan'"),
        (NETWORK.replace("Ring", "[Ring]"), "X0509", "there is no topology"),
        ("- a\n", "X0509", "has no keys"),
        ("", "X0509", "has no keys"),
        ("a: [", "X0509", "is not YAML"),
        ("[" * 5_000, "X0509", "network.yml"),
        (NETWORK.replace("Ring", "FullyConnected").replace("4", "9999"), "X0508", "99970002 links"),
        ("#" * (1 << 14) + NETWORK, "E0801", "more than 16 KiB"),
    ],
)
def test_wrong_network_files(text, code, expected, tmp_path, network, capsys):
    Path(network).write_text(text)
    prefix = write(tmp_path / "t", GOOD)
    assert main(["simulate", str(prefix), "--network", network]) == 1
    found = capsys.readouterr().err
    assert code in found
    assert expected in found


def test_times_beyond_64_bits(tmp_path, network, capsys):
    large = [[send(0, 1, 2**61)], [receive(0, 0, 2**61)], *GOOD[2:]]
    Path(network).write_text(NETWORK.replace("50.0", "1e-9"))
    assert main(["simulate", str(write(tmp_path / "t", large)), "--network", network]) == 1
    assert "X0508" in capsys.readouterr().err


def test_traces_as_the_public_schema_reads_them(tmp_path):
    """The fields that this reader takes are those of mlc-chakra."""
    public = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="mlc-chakra is not installed")
    node = public.Node()
    node.ParseFromString(node_bytes(send(3, 1, 77, 5, [1, 2])))
    assert (node.id, node.type, list(node.data_deps)) == (3, public.COMM_SEND_NODE, [1, 2])
    assert {a.name: a.int64_val or a.int32_val for a in node.attr} == {"comm_size": 77, "comm_dst": 1, "comm_tag": 5}
