"""The elaborator against the naive evaluator of tests/reference, which executes loops one iteration at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.source.elaboration.elaborate import load_program
from collc.source.program import ScheduleRequest
from collc.ten.demand import Op
from tests.reference.evaluator import Schedule, evaluate

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\nimport std.clusters\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"


def assert_same(text: str, folder: Path) -> None:
    """Networks, demands and sends of all schedules are equal."""
    path = folder / "program.coll"
    path.write_text(HEAD + text)
    ours = load_program(path).schedules
    theirs = evaluate(HEAD + text).schedules()
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        same_network(a, b)
        same_demand(a, b)


def same_network(a: ScheduleRequest, b: Schedule) -> None:
    network, topology = a.network, b.topology
    assert network.npu_count == len(topology.npus)
    assert network.present.tolist() == [d.present for d in [*topology.npus, *topology.switches]]
    assert network.buffers.tolist() == [d.buffer for d in topology.switches]
    assert network.multicast.tolist() == [d.multicast for d in topology.switches]
    assert network.reduces.tolist() == [d.reduces for d in topology.switches]
    kinds = [network.kinds[k] for k in network.kind]
    links = zip(network.source.tolist(), network.target.tolist(), kinds, strict=True)
    found = [(s, t, k.latency, k.bandwidth) for s, t, k in links]
    assert found == [(k.source.number, k.target.number, k.latency, k.bandwidth) for k in topology.links]


def same_demand(a: ScheduleRequest, b: Schedule) -> None:
    assert len(a.demand.runs) == len(b.runs)
    for run, request, other in zip(a.demand.runs, a.runs, b.runs, strict=True):
        table = run.pattern.expand()
        assert (run.collective, run.group.tolist()) == (other.collective, other.group)
        assert len(table) == len(run.pattern) == len(other.chunks)
        assert table.size.tolist() == [c.size for c in other.chunks]
        assert [table.sets[k].tolist() for k in table.pre] == [c.pre for c in other.chunks]
        assert [table.sets[k].tolist() for k in table.post] == [c.post for c in other.chunks]
        assert [Op(k).name.lower() for k in table.op] == [c.op for c in other.chunks]
        names = [table.families[k] for k in table.family]
        indices = [tuple(row[: f.rank].tolist()) for row, f in zip(table.index, names, strict=True)]
        assert list(zip([f.name for f in names], indices, strict=True)) == [(c.name, c.indices) for c in other.chunks]
        assert (request.moves is None) == (other.moves is None)
        if request.moves is not None and other.moves is not None:
            m = request.moves
            first = int(a.demand.first_chunk[a.demand.runs.index(run)])
            columns = (m.chunk - first, m.source, m.target, m.step, m.reduce)
            found = list(zip(*(c.tolist() for c in columns), strict=True))
            assert found == [(x.chunk, x.source, x.target, x.step, x.reduce) for x in other.moves]


TOPOLOGIES = [
    f"ring(5, {LINK})",
    f"ring(2, {LINK})",
    f"ring(6, {LINK}, one_way: true)",
    f"fully_connected(4, {LINK})",
    f"switched(5, {LINK}, multicast: true)",
    f"mesh2d(4, 3, {LINK})",
    f"torus2d(3, 2, {LINK})",
    f"mesh3d(2, 3, 2, {LINK})",
    f"torus3d(2, 3, 4, {LINK})",
    f"hypercube(3, {LINK})",
    "dragonfly(5, 4, local: 400GiB/s, global: 200GiB/s, latency: 0.5us)",
    f"fat_tree(4, {LINK})",
    "leaf_spine(3, 2, 2, bandwidth: 50GB/s, uplink: 25GB/s, latency: 1us)",
    "rail_only(3, 4, 300GB/s, 25GB/s, 0.5us, 2us)",
    "rail_optimized(3, 4, 300GB/s, 25GB/s, 0.5us, 2us)",
    "dgx1()",
    "dgx_a100(2)",
    "dgx_h100(3)",
    "dgx_h100(2) with { switch leaf[2..5] (buffer: 3, multicast: true), switch leaf[4] (reduce: true), switch spine "
    "(buffer: 7), switch s (buffer: 2), link s <-> spine (bandwidth: 3GB/s, latency: 0us) }",
    f"ring(3, {LINK}) * switched(4, bandwidth: 1GB/s, latency: 2us)",
    f"ring(3, {LINK}) * fully_connected(2, {LINK}) * switched(4, bandwidth: 1GB/s, latency: 2us)",
    f"switched(2, {LINK}) * (ring(3, {LINK}) * switched(2, bandwidth: 1GB/s, latency: 2us))",
    f"mesh2d(2, 3, {LINK}) * ring(3, {LINK})",
    f"unwound(switched(5, {LINK}), degree: 2)",
    f"unwound(switched(4, {LINK}))",
    f"unwound(ring(3, {LINK}) * switched(4, {LINK}))",
    f"reversed(ring(4, {LINK}, one_way: true))",
    f"mesh2d(4, 2, {LINK}) without {{ npu 5, link 2 <-> 3 }}",
    f"mesh2d(4, 3, {LINK}) without {{ npu npu[2, 3], link npu[0, 0] -> npu[0, 1] }}",
    "dgx1() without { link gpu[0] <-> gpu[1] lanes 1, link gpu[2] -> gpu[3] lanes 2, npu gpu[4..6] }",
    "dgx_h100(3) without { switch leaf[3], link gpu[0, *] <-> leaf[4], link gpu[1, 4..6] -> nvswitch[1] }",
    "dgx_h100(2) without { switch spine, switch leaf[1..8] }",
    "dgx1() without { link gpu[0] <-> gpu[1] lanes 1, link gpu[0] -> gpu[1] lanes 1 }",
    "dgx1() with { link gpu[0] <-> gpu[1] (bandwidth: 12.5GB/s) lanes 1, link gpu[0] -> 1 (latency: 9us) lanes 1 }",
    "dgx1() with { link gpu[0..3] <-> gpu[0..3] (bandwidth: 1GB/s), link gpu[0] -> 1 (latency: 9us) }",
    "dgx1() with { link gpu[*] <-> gpu[*] (bandwidth: 1GB/s), link gpu[7] -> gpu[*] (latency: 9us) }",
    "dgx_h100(3) with { link gpu[*, 3] <-> leaf[3] (bandwidth: 25GB/s), "
    "link gpu[0, i] -> leaf[i] (latency: 1us) for i in 0..3 }",
    "dgx_h100(2) with { npu spare[2, 2], switch s (buffer: 3), link s <-> spine (bandwidth: 3GB/s, latency: 0us), "
    "link spare[1, i] <-> s (bandwidth: 1GB/s, latency: 1us) lanes 2 for i in 0..2, "
    "link spare[0, i] <-> spare[1, i] (bandwidth: 1GB/s, latency: 5us) for i in 0..2 }",
    f"ring(3, {LINK}) * switched(3, {LINK}) with {{ npu b, link b <-> 0 ({LINK}), link 0 -> 1 (latency: 2us) }}",
    f"(ring(4, {LINK}) without {{ npu 2 }}) with {{ link 1 <-> 3 ({LINK}), link 0 <-> 1 (latency: 2us) }}",
]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_topologies(topology: str, tmp_path: Path) -> None:
    assert_same(f"topology t = {topology}\nschedule s on t {{ run all_gather(t.npus, size: 110880B) }}", tmp_path)


COLLECTIVES = [
    "all_gather(g, size: 18KiB, chunks: 3)",
    'reduce_scatter(g, size: 12KiB, op: "max")',
    "all_reduce(g, size: 12KiB, chunks: 2)",
    "all_to_all(g, size: 12KiB, chunks: 2)",
    "all_to_allv(g, sizes: [[0B, 3B, 5B], [9B, 0B, 1B], [2B, 2B, 0B]], chunk: 2B)",
    "all_to_allv(g, sizes: [[3B * i + j * 1B for j in 0..3] for i in 0..3], chunk: 2B)",
    "broadcast(g, size: 12KiB, chunks: 2, root: 1)",
    'reduce(g, size: 12KiB, chunks: 2, root: 2, op: "prod")',
    "scatter(g, size: 12KiB, root: 1)",
    "gather(g, size: 12KiB, chunks: 2)",
    "send_recv(g, size: 12KiB, source: 2, target: 0)",
    "multicast(g, size: 12KiB, source: 1, targets: {0, 2})",
]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_collectives(collective: str, tmp_path: Path) -> None:
    body = f"topology t = mesh2d(3, 2, {LINK})\ngroup g = [t[4], t[0], t[3]]\nschedule s on t {{ run {collective} }}"
    assert_same(body, tmp_path)


ALGORITHMS = [
    f"{collective} using {algorithm}"
    for collective in (
        "all_gather(t.npus, size: 5040KiB, chunks: 2)",
        "reduce_scatter(t.npus, size: 5040KiB, chunks: 3)",
        "all_reduce(t.npus, size: 5040KiB, chunks: 2)",
        "all_to_all(t.npus, size: 5040KiB)",
    )
    for algorithm in ("ring", "bidirectional_ring", "direct")
] + [
    "all_reduce(t.npus, size: 5040KiB, chunks: 2) using double_binary_tree",
    "all_reduce(t.npus, size: 5040KiB) using recursive_halving_doubling",
    "broadcast(t.npus, size: 5040KiB, chunks: 4, root: 3) using double_binary_tree",
    "reduce(t.npus, size: 5040KiB, chunks: 4, root: 2) using ring",
    "all_gather(t.npus, size: 5040KiB) using hierarchical(shape: [3, 2])",
    "all_to_all(t.npus, size: 5040KiB) using hierarchical(shape: [2, 3])",
]


@pytest.mark.parametrize("run", ALGORITHMS)
def test_algorithms(run: str, tmp_path: Path) -> None:
    body = f"topology t = fully_connected(6, {LINK})\nschedule s on t {{ run {run} run all_gather(t.npus, 6B) }}"
    assert_same(body, tmp_path)


PROGRAMS = {
    "interleaved": f"""
        topology t {{
            npu a[6]
            switch s[2] (buffer: 3, reduce: true)
            npu b[2]
            for i in 0..6 {{
                let half = i // 3
                link a[i] <-> s[half] ({LINK})
                if i % 2 == 0 {{
                    link a[i] -> b[half] (bandwidth: 1GB/s * (i + 1), latency: 1ns)
                }} else if i == 3 {{
                    link b[1] -> a[3] ({LINK})
                }} else {{
                    for k in 0..i if k != 2, j in k..3 {{
                        link a[i] -> s[k % 2] ({LINK})
                        link b[j % 2] <-> s[0] (bandwidth: 2GB/s, latency: 5ns)
                    }}
                }}
                link s[half] -> b[0] ({LINK})
            }}
        }}
        collective c(g: group) {{
            for i in 0..len(g) {{
                chunk x[i]: 1B + i * 2B
                for j in i + 1..len(g) {{
                    let d = j - i
                    chunk y[i, d]: min(4B, d * 1B)
                    pre y[i, d] at g[i]
                    post y[i, d] at {{g[k] for k in i..j + 1 if k % 2 == 0 or k == j}}
                }}
                pre x[i] at {{g[k] for k in 0..i + 1}}
                pre x[i] at g[len(g) - 1]
                if i in {{1, 3}} {{ post sum(x[i]) at g }} else {{ post x[i] at {{g[0], g[i]}} | {{g[1]}} - {{g[0]}} }}
            }}
        }}
        schedule s on t {{ run c(t.a) for k in 1..3 {{ run c(t.npus) }} }}""".replace(" if k != 2, j", ", j"),
    "copies": f"""
        topology node(n: int) {{
            npu gpu[n]
            switch sw
            for i in 0..n {{ link gpu[i] <-> sw ({LINK}) }}
        }}
        topology pod {{
            use node(3) as node[2]
            use node(2) as extra
            switch spine
            for k in 0..2, i in 0..3 {{ link node[k].gpu[i] <-> spine (bandwidth: 1GB/s, latency: 3us) }}
            link extra.gpu[0] <-> spine (bandwidth: 1GB/s, latency: 3us)
        }}
        group rail[i in 0..3] = [pod.node[k].gpu[i] for k in 0..2]
        schedule s on pod {{
            for i in 0..3 {{ run all_gather(rail[i], size: 2KiB) }}
            run broadcast(pod.extra.gpu, size: 1KiB)
            run all_reduce(pod.node[1].gpu[1..3], size: 2KiB)
        }}""",
    "values": f"""
        param n: int = 5
        let sizes = [(i + 1) * 1KiB for i in 0..n]
        let total = sum(sizes)
        let odd = {{i for i in 0..n if i % 2 == 1}} | {{0}}
        topology t = fully_connected(n, {LINK})
        collective c(g: group, sizes: list) {{
            for i in 0..len(g) if i in odd or i == n - 1 {{
                chunk x[i]: max(sizes[i], 2KiB) + total / 15 - 3 * 1KiB // 2
                pre x[i] at g[i]
                post x[i] at {{g[j] for j in odd}} & {{g[j] for j in 0..i + 1}} | {{g[index(g, g[i])]}}
            }}
        }}
        schedule s on t {{ run c(t.npus, sizes) run c([t[k] for k in [4, 2, 0, 1, 3]], sizes) }}""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, tmp_path: Path) -> None:
    assert_same(PROGRAMS[name], tmp_path)
