"""Elaboration: from text to networks, demands, sends and requests."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from collc.base.diagnostics import CollcError, NoSchedule, SourceError
from collc.command.cli import main
from collc.graph.digraph import Digraph, reachable_vertices
from collc.source.elaboration.elaborate import load_program
from collc.source.elaboration.unreachable import unreachable_chunk
from collc.source.program import Program
from collc.ten.demand import Op
from collc.ten.network import LinkKind
from tests.support import GiB, MiB, all_gather, demand_of, grid, network, switched

LINK = "bandwidth: 50GiB/s, latency: 0.5us"
SAMPLES = {
    "quickstart": """
        import std.topologies
        import std.collectives
        topology mesh = mesh2d(3, 3, bandwidth: 50GiB/s, latency: 0.5us)
        schedule gather on mesh {
            run all_gather(mesh.npus, size: 9MiB)
            synthesize tacos(seed: 7, trials: 8)
            verify optimal, time <= 1.05 * bound, 2ms > time
            emit msccl("gather.xml", instances: 2, sizes: 1MiB .. 2MiB)
        }""",
}


def load(folder: Path, text: str, **definitions: str) -> Program:
    path = folder / "program.coll"
    path.write_text(text)
    return load_program(path, definitions)


def value(folder: Path, expression: str) -> int:
    """The value of an int expression, obtained as the size of an array of NPUs."""
    (schedule,) = load(
        folder,
        f"import std.collectives topology t {{ npu n[{expression}] "
        f"for i in 1..({expression}) {{ link n[i - 1] <-> n[i] ({LINK}) }} }} "
        "schedule s on t { run broadcast(t.npus, 1B) }",
    ).schedules
    return schedule.network.npu_count


def codes(folder: Path, text: str) -> list[str]:
    with pytest.raises(CollcError) as caught:
        load(folder, text)
    return [d.code for d in caught.value.diagnostics]


def test_quickstart(tmp_path: Path) -> None:
    (request,) = load(tmp_path, SAMPLES["quickstart"]).schedules
    net, expected = request.network, grid(3, 3)
    links = {(s, t) for s, t in zip(net.source.tolist(), net.target.tolist(), strict=True)}
    assert links == {(s, t) for s, t in zip(expected.source.tolist(), expected.target.tolist(), strict=True)}
    assert net.kinds == (LinkKind(500_000, Fraction(50 * GiB)),)
    assert net.device_name(5) == "npu[1, 2]"
    table = request.demand.chunks
    other = all_gather(list(range(9))).chunks
    assert table.size.tolist() == other.size.tolist() == [MiB] * 9
    assert [table.sets[k].tolist() for k in table.post] == [list(range(9))] * 9
    assert len(table.sets) == 10
    assert (request.synthesizer, request.options["trials"].value) == ("tacos", 8)
    found = [(c.name, c.operator, c.limit, c.of_bound) for c in request.checks]
    limit = Fraction(2 * 10**9)
    assert found == [
        ("optimal", "", 0, False),
        ("time", "<=", Fraction(105, 100), True),
        ("time", "<", limit, False),
    ]
    assert request.emits[0].options["sizes"].value == (MiB, 2 * MiB)


def test_standard_collectives_are_not_expanded(tmp_path: Path) -> None:
    text = f"""import std.topologies import std.collectives
        topology t = ring(10000, {LINK})
        schedule s on t {{ run all_to_all(t.npus, size: 10000B) }}"""
    (request,) = load(tmp_path, text).schedules
    assert request.demand.first_chunk.tolist() == [0, 10**8]
    standard = request.demand.runs[0].standard
    assert standard is not None
    assert (standard.kind, standard.size, standard.chunks, standard.op) == ("all_to_all", 10000, 1, Op.COPY)
    with pytest.raises(CollcError, match="10,000,000"):
        request.demand.runs[0].pattern.expand()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 // 2", 3),
        ("(0 - 7) // 2 + 9", 5),
        ("(0 - 7) % 4 + 1", 2),
        ("1 << 3", 8),
        ("6 ^ 3", 5),
        ("~(0 - 4)", 3),
        ("2 ** 70 // 2 ** 68", 4),
        ("ceil(log2(9))", 4),
        ("ceil(log2(2 ** 100 + 1)) - 96", 5),
        ("log2(8)", 3),
        ("ceil(7 / 2)", 4),
        ("10MiB // 3MiB", 3),
        ("ceil(10MiB / 3MiB)", 4),
        ("1us * 2 // 300ns", 6),
        ("ceil(1GB / (1GB/s) / 400ms)", 3),
        ("50GB/s * 1us // 10000B", 5),
        ("sum({i for i in 0..4})", 6),
        ("sum([len([j for j in 0..i]) for i in 0..4])", 6),
        ("max(1, min([5, 3]))", 3),
        ("len({1, 2} | {2, 3})", 3),
        ("[2, 4, 6][1..3][0]", 4),
        ("[[1, 2], [3, 4]][1][0]", 3),
        ("max([sum([k for k in 0..i]) for i in 0..4])", 3),
        ("[[i, 2 * i][1] for i in 0..3][2]", 4),
        ("len([0 for same in [[1, 2] == [1, 2]] if same])", 1),
        ("len([0 for i in 0..3 if [i, 1] == [1, i]])", 1),
        ("[len([5, 6, 7][i..3]) for i in 0..3][2]", 1),
        ("[[5, 6, 7][i..3][0] for i in 0..3][1]", 6),
    ],
)
def test_values(expression: str, expected: int, tmp_path: Path) -> None:
    assert value(tmp_path, expression) == expected


def test_large_numbers_do_not_overflow(tmp_path: Path) -> None:
    """i * 2^62 needs more than 64 bits inside a vectorised loop."""
    text = f"""import std.collectives
        topology t {{
            npu n[9]
            for i in 0..8 if i * 2 ** 62 // 2 ** 62 == i {{
                link n[i] <-> n[(i * 2 ** 62 + 2 ** 62) // 2 ** 62] ({LINK})
            }}
        }}
        schedule s on t {{ run all_gather(t.npus, 9B) }}"""
    (request,) = load(tmp_path, text).schedules
    assert request.network.link_count == 16


def test_iterations_that_a_condition_excludes_are_not_evaluated(tmp_path: Path) -> None:
    text = f"""import std.collectives
        topology t {{
            npu n[6]
            for i in 0..6, j in 0..6 if j != i and (i == 0 or j % i == 0) {{ link n[i] <-> n[j] ({LINK}) }}
            for i in 0..0 {{ link n[7] -> n[1 // 0] ({LINK}) }}
            for i in 0..3 {{ if i != 0 {{ link n[6 // i - 1] -> n[0] (bandwidth: 6GB/s / i, latency: 0ps) }} }}
        }}
        schedule s on t {{ run all_gather(t.npus, 6B) }}"""
    assert load(tmp_path, text).schedules[0].network.link_count == 2 * (5 + 5 + 2 + 1 + 1 + 1) + 2


def test_params_are_set_with_definitions(tmp_path: Path) -> None:
    text = """import std.topologies import std.collectives
        param n: int = 4
        param rate: rate = 50GB/s
        topology t = ring(n, rate, 1us)
        if n > 5 { group g = t.npu[0..3] } else { group g = t.npus }
        schedule s on t { run all_gather(g, size: 12MiB) }"""
    assert len(load(tmp_path, text).schedules[0].demand.runs[0].group) == 4
    given = load(tmp_path, text, n="2 * 4", rate="1GiB/s").schedules[0]
    assert (given.network.npu_count, len(given.demand.runs[0].group)) == (8, 3)
    assert given.network.kinds[0].bandwidth == GiB
    for wrong in ({"n": "4us"}, {"m": "4"}, {"n": "4 +"}):
        with pytest.raises(CollcError):
            load(tmp_path, text, **wrong)


def test_a_declaration_hides_an_imported_one(tmp_path: Path) -> None:
    text = f"""import std.topologies import std.collectives import std.algorithms
        topology ring(n: int) {{ npu gpu[n] for i in 0..n {{ link gpu[i] -> gpu[(i + 1) % n] ({LINK}) }} }}
        algorithm direct(g: group, size: bytes) implements all_gather(g, size) {{
            for i in 0..len(g) - 1 {{ send x[i, 0] from g[i] to g[i + 1] }}
        }}
        topology t = ring(5)
        schedule s on t {{
            run all_gather(t.gpu, size: 5B) using direct
            run all_to_all(t.gpu, size: 5B) using direct
        }}"""
    (request,) = load(tmp_path, text).schedules
    assert request.network.link_count == 5
    assert [len(r.moves) for r in request.runs if r.moves] == [4, 20]


def test_unwound_switch_of_a_product_keeps_its_axes(tmp_path: Path) -> None:
    text = f"""import std.topologies import std.collectives
        topology t = unwound(ring(3, {LINK}) * switched(4, bandwidth: 40GB/s, latency: 1us), degree: 2)
        schedule s on t {{ run all_gather(t.npus, size: 12B) }}"""
    (request,) = load(tmp_path, text).schedules
    net = request.network
    assert net.unwound
    assert net.switch_count == 0
    assert [(a.kind, a.size) for a in net.axes] == [("ring", 3), ("switched", 4)]
    assert np.bincount(net.link_axis).tolist() == [4 * 6, 3 * 4 * 2]
    assert net.kinds[int(net.kind[-1])] == LinkKind(2_000_000, Fraction(20 * 10**9))


def test_endpoints_are_kept(tmp_path: Path) -> None:
    text = f"""import std.collectives
        topology node {{ npu a[2] (inject: 10GB/s) npu b link a[0] <-> a[1] ({LINK}) link a[1] <-> b ({LINK}) }}
        topology t {{ use node as n[2] link n[0].b <-> n[1].b ({LINK}) }}
        schedule s on t {{ run all_gather(t.npus, size: 6B) }}"""
    net = load(tmp_path, text).schedules[0].network
    assert [net.endpoint_kinds[k].inject for k in net.endpoint] == [10**10, 10**10, None] * 2
    assert net.device_name(4) == "n[1].a[1]"


@pytest.mark.parametrize("ends", ["2 ** 80..3", "-(2 ** 80)..-(2 ** 80)", "2 ** 63..0", "i + 2 ** 80..i"])
def test_a_range_beyond_64_bits_may_be_empty(ends: str, tmp_path: Path) -> None:
    assert value(tmp_path, f"1 + len([j for i in 0..2, j in {ends}])") == 1


def test_all_errors_are_reported_once(tmp_path: Path) -> None:
    text = """import std.topologies import std.collectives
        let a = 1MiB + 1us
        let b = a * 2
        topology t = ring(b, 1GB, 1us)
        schedule s on t { run all_gathr(t.npus, size: a) run all_gather(t.npus, size: 4, chunk: 1) }"""
    assert codes(tmp_path, text) == ["E0210", "E0211", "E0203", "E0212"]


@pytest.mark.parametrize("seed", range(30))
def test_unreachable_agrees_with_brute_force(seed: int) -> None:
    chance = random.Random(seed)
    n = chance.randint(2, 6)
    links = [(a, b) for a in range(n) for b in range(n) if a != b and chance.random() < 0.35]
    net = network(n, links)
    closure = np.eye(n, dtype=bool)
    for a, b in links:
        closure[a, b] = True
    for k in range(n):
        closure |= np.outer(closure[:, k], closure[k])
    for a in range(n):
        assert reachable_vertices(Digraph.of(net), [a]).tolist() == closure[a].tolist()
        assert reachable_vertices(Digraph.of(net).reverse(), [a]).tolist() == closure[:, a].tolist()
    rows = []
    for _ in range(4):
        pre, post = (chance.sample(range(n), chance.randint(1, n)) for _ in range(2))
        rows.append((8, pre, post, chance.choice([Op.COPY, Op.SUM])))
    holds = [
        all(all(closure[a, b] for a in pre) if op else any(closure[a, b] for a in pre) for b in post)
        for _, pre, post, op in rows
    ]
    found = unreachable_chunk(net, demand_of(rows))
    assert (found is None) == all(holds)
    if found is not None:
        assert found.chunk == holds.index(False)
        outside = np.setdiff1d(np.arange(n), found.side)
        crossing = [(a, b) for a, b in links if (a in found.side) != (b in found.side)]
        assert all((a in outside) == found.forward for a, _ in crossing)
    everyone = unreachable_chunk(net, all_gather(list(range(n))))
    assert (everyone is None) == bool(closure.all())


PARTED = """import std.collectives
    topology t { npu n[3] link n[0] <-> n[1] (bandwidth: 1GB/s, latency: 1us) }
    schedule s on t { run all_gather(t.npus, size: 3MiB) }"""


def test_a_network_in_two_parts_leaves_no_schedule(tmp_path: Path) -> None:
    path = tmp_path / "program.coll"
    path.write_text(PARTED)
    with pytest.raises(NoSchedule) as caught:
        load_program(path)
    assert [d.code for d in caught.value.diagnostics] == ["E0412"]
    assert main(["check", str(path)]) == main(["compile", str(path), "-o", str(tmp_path)]) == 3


def test_an_unreachable_demand_with_other_errors_is_a_source_error(tmp_path: Path) -> None:
    path = tmp_path / "program.coll"
    path.write_text(PARTED + "let a = 1 // 0")
    with pytest.raises(SourceError) as caught:
        load_program(path)
    assert {d.code for d in caught.value.diagnostics} == {"E0217", "E0412"}
    assert main(["check", str(path)]) == 1


def test_paths_may_lead_through_devices_outside_the_group() -> None:
    assert unreachable_chunk(switched(3), all_gather([0, 2])) is None
