"""`part` in topologies, `failures` in schedules, and what runs become without the parts that failed."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from collc.base.diagnostics import NoSchedule, SourceError, SourceFile
from collc.source.elaboration.elaborate import load_program, load_topology
from collc.source.formatting.format import format_source
from collc.source.program import FailureSets, ScheduleRequest

CLUSTER = """
import std.collectives
import std.algorithms
topology inside {
    npu gpu[4]
    switch nvswitch
    for i in 0..4 { link gpu[i] <-> nvswitch (bandwidth: 100GB/s, latency: 1us) }
    part half[h in 0..2] = { npu gpu[{2 * h, 2 * h + 1}] }
    part lanes[i in 0..4] = { link gpu[i] <-> nvswitch } labels ["a", "b", "c", "d"]
}
topology pod {
    npu spare
    use inside as node[3] labels "host[1-3]"
    switch leaf[4]
    for n in 0..3, i in 0..4 { link node[n].gpu[i] <-> leaf[i] (bandwidth: 25GB/s, latency: 1us) }
    link spare <-> leaf[0] (bandwidth: 25GB/s, latency: 1us)
    part nic[n in 0..3, i in 0..4] = { link node[n].gpu[i] <-> leaf[i] }
    part rail[i in 0..4] = { switch leaf[i], link node[*].gpu[i] -> leaf[i] }
}
"""


def request(failures: str, run: str = "run all_gather(pod.npus, size: 13MiB)", text: str = CLUSTER) -> ScheduleRequest:
    return load_program(SourceFile("p", f"{text}schedule s on pod {{ {run} {failures} }}")).schedules[0]


def failing(failures: str, text: str = CLUSTER) -> FailureSets:
    sets = request(f"failures {failures}", text=text).failures
    assert sets is not None
    return sets


def names(failures: str) -> set[tuple[str, ...]]:
    sets = failing(failures)
    return {tuple(sets.parts[part].name for part in row) for rows in sets.members for row in rows.tolist()}


@pytest.mark.parametrize(
    ("topology", "counts"),
    [
        ("dgx_h100(4, pods: 2)", {"pod": 2, "rail": 16, "node": 4, "nic": 32}),
        ("tpu_v4_slice(4, 4, 8)", {"host": 32, "cube": 2}),
        ("tpu_v5p_slice(2, 2, 1)", {"host": 1}),
    ],
)
def test_the_parts_of_pods(topology: str, counts: dict[str, int]) -> None:
    head = f"import std.clusters\nimport std.collectives\ntopology pod = {topology}\n"
    size = {}
    for kind, count in counts.items():
        parts = failing(f"any {kind}", text=head).parts
        size[kind] = {sum(device < 128 for device in part.devices) for part in parts}
        assert len(parts) == count
        assert len({device for part in parts for device in part.devices}) == sum(len(part.devices) for part in parts)
    assert size.get("host", {4}) == {4}
    assert size.get("cube", {64}) == {64}


def test_one_node_has_no_pods() -> None:
    head = "import std.clusters\nimport std.collectives\ntopology pod = dgx_h100(1, pods: 2)\n"
    with pytest.raises(SourceError, match="E0331"):
        failing("any pod", text=head)


def test_parts_may_lie_in_several_containers() -> None:
    text = CLUSTER.replace("    part lanes", "    part trio[t in 0..2] = { npu gpu[t..t + 3] }\n    part lanes")
    sets = failing("any 2 of npus within trio", text=text)
    pairs = [tuple(sets.parts[part].name for part in row) for rows in sets.members for row in rows.tolist()]
    gpus = [[f"node[{n}].gpu[{i}]" for i in range(4)] for n in range(3)]
    assert {*pairs} == {pair for node in gpus for trio in (node[:3], node[1:]) for pair in combinations(trio, 2)}


NICS = [f"nic[{n}, {i}]" for n in range(3) for i in range(4)]


def test_the_members_are_those_that_the_statement_says() -> None:
    assert names("any nic") == names("any 1 of nics") == names("nic[*, *]") == {(nic,) for nic in NICS}
    assert names("any 2 of nics") == set(combinations(NICS, 2))
    pairs = {pair for n in range(3) for pair in combinations(NICS[4 * n : 4 * n + 4], 2)}
    assert names("any 2 of nics within node") == pairs
    assert names("node[1], leaf[{0, 2}]") == {("node[1]",), ("leaf[0]",), ("leaf[2]",)}
    assert names("nic[0, 1..3], any rail") == {("nic[0, 1]",), ("nic[0, 2]",), *((f"rail[{i}]",) for i in range(4))}
    assert names("node[2].half[*]") == {("node[2].half[0]",), ("node[2].half[1]",)}
    assert len(names("any half")) == 6
    assert len(names("any npu")) == 13
    assert len(names("any switches")) == 7
    assert len(names("any link")) == 2 * len(names("any 1 of cables")) == 2 * 25


def test_slow_parts_keep_a_share_of_their_bandwidth() -> None:
    sets = failing("any nic, any nic (bandwidth: 5GB/s), nic[0, 0] (bandwidth: 1/5), node[1] (bandwidth: 0.5)")
    slow = {part.failure: part for part in sets.parts if part.left}
    assert [*slow] == [f"{nic} (bandwidth: 1/5)" for nic in NICS] + ["node[1] (bandwidth: 1/2)"]
    whole = request("").network
    damaged = sets.request((slow["nic[1, 2] (bandwidth: 1/5)"], slow["node[1] (bandwidth: 1/2)"]))
    assert damaged.network.link_count == whole.link_count
    assert len(damaged.demand.runs[0].group) == 13
    rates = [
        (whole.kinds[a].bandwidth, damaged.network.kinds[b].bandwidth)
        for a, b in zip(whole.kind.tolist(), damaged.network.kind.tolist(), strict=True)
    ]
    changed = [(before, after / before) for before, after in rates if before and after and before != after]
    in_node, nics = [(100 * 10**9, Fraction(1, 2))] * 8, [(25 * 10**9, Fraction(1, 2))] * 6
    assert sorted(changed) == sorted([*in_node, *nics, *[(25 * 10**9, Fraction(1, 5))] * 2])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("any nic (bandwidth: 25GB/s)", "E0617"),
        ("any nic (bandwidth: 1)", "E0617"),
        ("node[0] (bandwidth: 5GB/s)", "E0617.*has links of 25GB/s and 100GB/s"),
        ("spare (bandwidth: 5GB/s)", "E0617.*spare has no links"),
        ("any nic (bandwidth: 5us)", "E0211"),
        ("any nic (latency: 5us)", "E0305"),
    ],
)
def test_what_a_slow_part_keeps_is_less_than_it_has(text: str, code: str) -> None:
    alone = CLUSTER.replace("    link spare <-> leaf[0] (bandwidth: 25GB/s, latency: 1us)\n", "")
    with pytest.raises(SourceError, match=code):
        request(f"failures {text}", "run all_gather(pod.node[0].gpu, size: 4MiB)", alone)


def test_parts_have_the_devices_and_links_that_their_bodies_say() -> None:
    parts = {part.name: part for part in failing("any 1 of (nic, rail, node, half, lanes, spare)").parts}
    first = 13  # the first switch, after 1 + 3 * 4 NPUs; leaves come after the 3 NVSwitches
    assert parts["nic[1, 2]"].links == ((1 + 4 + 2, first + 5), (first + 5, 1 + 4 + 2))
    assert parts["rail[3]"].devices == (first + 6,)
    assert parts["rail[3]"].links == tuple((1 + 4 * n + 3, first + 6) for n in range(3))
    assert parts["node[2]"].devices == (9, 10, 11, 12, first + 2)
    assert parts["node[2]"].label == "host3"
    assert parts["node[1].half[1]"].devices == (7, 8)
    assert parts["node[0].lanes[2]"].links == ((3, first), (first, 3))
    assert parts["node[0].lanes[2]"].label == "host1/c"
    assert parts["spare"].devices == (0,)


def test_parts_that_were_removed_before_do_not_fail() -> None:
    text = CLUSTER.replace("pod {", "whole {") + "topology pod = whole without { part nic[0, 0..3] }\n"
    assert {part.name for part in failing("any nic", text).parts} == set(NICS[3:])
    assert len(failing("any rail", text).parts) == 4


def test_one_part_with_several_names_fails_once() -> None:
    sets = failing("any 1 of (nics, cables)")
    assert len(sets.parts) == 25
    assert sets.parts[sets.names["nic[0, 0]"]] == sets.parts[sets.names["node[0].gpu[0] <-> leaf[0]"]]


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ("any nic2", "E0331"),
        ("nic[0, 9]", "E0331"),
        ("nic[0]", "E0331"),
        ("leaf[0].gpu", "E0331"),
        ("3", "E0101"),
        ("any 5 of nics within node", "E0614"),
        ("any 0 of nics", "E0614"),
        ("any nic within rack", "E0331"),
        ("any 12 of cables", "E0810"),
    ],
)
def test_wrong_failures_are_errors_with_a_place(failures: str, code: str) -> None:
    with pytest.raises(SourceError) as error:
        failing(failures)
    assert error.value.diagnostics[0].code == code
    assert error.value.diagnostics[0].span is not None
    assert comb(25, 12) > 200_000


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ("part x = { link gpu[0] <-> nvswitch lanes 1 }", "E0331"),
        ("part x = { part half[0] }", "E0331"),
        ("part x = { npu gpy[0] }", "E0309"),
        ("part gpu = { npu gpu[0] }", "E0205"),
        ("for i in 0..2 { part x = { npu gpu[i] } }", "E0303"),
        ("part x[i in 0..2] = { npu gpu[true] }", "E0211"),
        ("part x = { gpu[0] }", "E0101"),
    ],
)
def test_wrong_parts_are_errors(part: str, code: str) -> None:
    with pytest.raises(SourceError) as error:
        load_topology(SourceFile("p", CLUSTER.replace("    part half", f"    {part}\n    part half")), "pod")
    assert error.value.diagnostics[0].code == code


@pytest.mark.parametrize("use", ["group g = pod.nic[0, 0]", "group g = pod.nic"])
def test_a_part_is_no_device(use: str) -> None:
    with pytest.raises(SourceError, match="E0331"):
        load_program(SourceFile("p", f"{CLUSTER}{use}"))


def test_without_removes_parts() -> None:
    text = f"{CLUSTER}topology t = pod without {{ part nic[0, *], part node[1].half[0] }}"
    network = load_topology(SourceFile("p", text), "t")
    assert np.flatnonzero(~network.present).tolist() == [5, 6]
    assert network.link_count == 2 * (25 - 4 - 2 * 2)


def test_the_layout_of_parts_and_failures() -> None:
    text = 'topology t {\n    npu a[2]\n    part x[i in 0..2]={npu a[i]}labels"h[1-2]"\n}\n'
    assert "    part x[i in 0..2] = { npu a[i] } labels" in format_source(SourceFile("p", text))
    text = "schedule s on t {\n    failures any 2 of(nics,a)within node(bandwidth:1/2),b[0,*]\n}\n"
    wanted = "    failures any 2 of (nics, a) within node (bandwidth: 1 / 2), b[0, *]"
    assert wanted in format_source(SourceFile("p", text))


# Without the failed parts


def left(run: str, part: str) -> ScheduleRequest:
    sets = request(f"failures {part}", run).failures
    assert sets is not None
    return sets.request((sets.parts[0],))


def test_groups_lose_members_and_blocks_keep_their_size() -> None:
    (run,) = left("run all_gather(pod.npus, size: 13MiB, chunks: 2)", "node[0].gpu[2]").demand.runs
    assert run.group.tolist() == [0, 1, 2, *range(4, 13)]
    assert run.standard is not None
    assert run.standard.size == 12 << 20
    (run,) = left("run all_gather(pod.npus, size: 13MiB)", "nic[0, 0]").demand.runs
    assert len(run.group) == 13


def test_an_all_reduce_keeps_its_size_nearly() -> None:
    for size, chunks in ((13 << 20, 1), (13 << 20, 4), (13 * 12, 1)):
        (run,) = left(f"run all_reduce(pod.npus, size: {size}B, chunks: {chunks})", "spare").demand.runs
        assert run.standard is not None
        assert run.standard.size % (12 * chunks) == 0
        assert abs(run.standard.size - size) <= max(size // 200, 6)


def test_the_number_of_chunks_can_be_chosen_after_a_failure() -> None:
    choice = left("run all_reduce(pod.npus, size: 13MiB, chunks: auto)", "spare").choice
    assert choice is not None
    assert {1, 4, 16, 64, 256} <= set(choice.numbers)
    sizes = {run.standard.size for number in (1, 256) for run in choice.request(number).demand.runs if run.standard}
    assert len(sizes) == 1


def test_the_root_keeps_its_place() -> None:
    (run,) = left("run broadcast(pod.npus, size: 1MiB, root: 3)", "spare").demand.runs
    assert run.standard is not None
    assert run.group[run.standard.root] == 3


def test_groups_with_less_than_two_members_run_nothing() -> None:
    demand = left("for n in 0..3 { run all_reduce(pod.node[n].gpu, size: 4MiB) }", "node[1]").demand
    assert [run.group.tolist() for run in demand.runs] == [[1, 2, 3, 4], [9, 10, 11, 12]]


@pytest.mark.parametrize(
    ("run", "part", "error"),
    [
        ("run broadcast(pod.npus, size: 1MiB, root: 3)", "node[0].gpu[2]", "E0615"),
        ("run send_recv(pod.npus, size: 1MiB)", "spare", "E0615"),
        ("run all_reduce([pod.spare, pod[1]], size: 4MiB)", "spare", "E0615"),
        ("run all_gather(pod.npus, size: 13MiB)", "leaf[0]", "E0412"),
    ],
)
def test_what_has_no_meaning_after_a_failure(run: str, part: str, error: str) -> None:
    with pytest.raises((SourceError, NoSchedule), match=error):
        left(run, part)


def test_algorithms_of_the_library_run_with_the_members_that_are_left() -> None:
    plan = left("run all_gather(pod.npus, size: 13MiB) using ring", "spare")
    assert plan.runs[0].moves is not None
    assert len(plan.demand.runs[0].group) == 12


REPEATED = """
import std.collectives
topology inside { npu gpu[2] switch s for i in 0..2 { link gpu[i] <-> s (bandwidth: 100GB/s, latency: 1us) } }
topology pod {
    use inside as node0[2] labels "n[0-1]"
    use inside as node1 labels "n2"
    switch leaf[2]
    for n in 0..2, i in 0..2 { link node0[n].gpu[i] <-> leaf[i] (bandwidth: 25GB/s, latency: 1us) }
    for i in 0..2 { link node1.gpu[i] <-> leaf[1 - i] (bandwidth: 25GB/s, latency: 1us) }
    part nic[n in 0..2, i in 0..2] = { link node0[n].gpu[i] <-> leaf[[0, 1][i]] } labels "mlx5_[0-1]"
    part nic[n in 2..3, i in 0..2] = { link node1.gpu[i] <-> leaf[1 - i] } labels ["a|b", "c"]
}
"""


def repeated(text: str) -> FailureSets:
    sets = request("failures any nic", "run all_gather(pod.npus, size: 12MiB)", text).failures
    assert sets is not None
    return sets


def test_several_statements_declare_the_parts_of_one_name() -> None:
    sets = repeated(REPEATED)
    assert [(part.name, part.label) for part in sets.parts] == [
        ("nic[0, 0]", "n0/mlx5_0"),
        ("nic[0, 1]", "n0/mlx5_1"),
        ("nic[1, 0]", "n1/mlx5_0"),
        ("nic[1, 1]", "n1/mlx5_1"),
        ("nic[2, 0]", "n2/a|b"),
        ("nic[2, 1]", "n2/c"),
    ]
    assert [part.links[0] for part in sets.parts] == [(0, 9), (1, 10), (2, 9), (3, 10), (4, 10), (5, 9)]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("n in 2..3, i", "n in 1..2, i", "E0205"), ('["a|b", "c"]', '["a", "b", "c"]', "E0329")],
)
def test_wrong_repetitions(old: str, new: str, code: str) -> None:
    with pytest.raises(SourceError, match=code):
        repeated(REPEATED.replace(old, new))
