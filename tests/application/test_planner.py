"""The planner: answers depend on the request alone, and are right after any renaming."""

from __future__ import annotations

import doctest
import errno
import random
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collc
from collc.api.client import RemoteAnswer
from collc.application.planner.answers import Answer
from collc.application.planner.bounded_memory import bytes_of
from collc.application.planner.plan_store import PlanStore, StoredPlan, decode_plan
from collc.application.planner.planning import PlanningService, Threads
from collc.application.planner.requests import CanonicalRequest, PlanRequest, RequestClasses
from collc.application.planner.values import parameters, request_of
from collc.application.serve.schema import interface_schema
from collc.base.diagnostics import NoSchedule, SourceError, SourceFile, UsageError
from collc.command.cli import parse_arguments, run_command
from collc.synthesis.bounds import ideal_bound
from collc.synthesis.bounds.cuts import narrow_sets
from collc.synthesis.bounds.fluid import fluid_of
from collc.ten.network import Network
from collc.ten.parts import devices_and_links, without_parts
from collc.ten.standard_collectives import shapes
from collc.verification import verify_schedule

TORUS = collc.Network.torus(3, 3, bandwidth="50GiB/s", latency="0.5us")
SMALL = {"size": "72KiB", "chunks": 1}


@pytest.fixture(scope="module")
def planner() -> Iterator[collc.Planner]:
    with collc.Planner(TORUS) as planner:
        yield planner


@pytest.fixture(scope="module")
def cluster() -> Iterator[collc.Planner]:
    with collc.Planner(collc.Network.of("dgx_h100", 2)) as planner:
        yield planner


def bandwidths(network: Network) -> list[tuple[int, int, Fraction | None]]:
    rates = [network.kinds[kind].bandwidth for kind in network.kind.tolist()]
    return sorted(zip(network.source.tolist(), network.target.tolist(), rates, strict=True))


def check(planner: collc.Planner, answer: Answer, npus: list[int] | None, dead: str = "", left: float = 0) -> None:
    """The answer is a right schedule on the network without what is dead, or with the bandwidth that is left of it, for
    the members of the group.
    """
    module, whole = answer.module, planner.service.classes.network
    assert verify_schedule(module).ok
    parts = (
        [replace(each, left=Fraction(left)) for each in planner.service.classes.named.find_parts(dead)] if dead else []
    )
    devices = [] if left else devices_and_links(whole, parts)[0]
    assert bandwidths(module.network) == bandwidths(without_parts(whole, parts))
    everyone = npus or range(whole.npu_count)
    members = [npu for npu in everyone if npu not in devices]
    ranks = answer.ranks[0]
    group = module.demand.runs[0].group.tolist()
    assert sorted(group) == sorted(members)
    for npu, rank in zip(everyone, ranks, strict=True):
        assert rank is None if npu in devices else group[rank] == npu


@pytest.mark.parametrize(
    ("first", "other"), [("npu[0, 0]", "npu[2, 1]"), ("npu[0, 0] -> npu[1, 0]", "npu[1, 2] -> npu[1, 1]")]
)
def test_a_failure_is_renamed_to_another_one_of_its_class(planner: collc.Planner, first: str, other: str) -> None:
    planned = planner.plan("all_gather", **SMALL, dead=first)
    renamed = planner.plan("all_gather", **SMALL, dead=[other])
    assert (renamed.origin, renamed.key, renamed.time_ps) == ("renamed", planned.key, planned.time_ps)
    check(planner, planned, None, first)
    check(planner, renamed, None, other)


def test_slow_links_have_classes_of_their_own(planner: collc.Planner) -> None:
    first, other = "npu[0, 0] -> npu[1, 0]", "npu[1, 2] -> npu[1, 1]"
    half, same = (planner.plan("all_gather", **SMALL, slow=slow) for slow in ({first: "1/2"}, {other: "25GiB/s"}))
    quarter, dead = (
        planner.plan("all_gather", **SMALL, slow={first: 0.25}),
        planner.plan("all_gather", **SMALL, dead=first),
    )
    assert (same.key, same.origin) == (half.key, "renamed")
    assert len({each.key for each in (half, quarter, dead)}) == 3
    for answer, link, left in ((half, first, 0.5), (same, other, 0.5), (quarter, first, 0.25)):
        check(planner, answer, None, link, left)


@pytest.mark.slow
def test_a_slow_node_beside_a_dead_gpu(cluster: collc.Planner) -> None:
    answer = cluster.plan("all_gather", size="512MiB", chunks=1, dead="gpu[1, 2]", slow={"node[0]": "1/2"})
    assert answer.ranks[0][10] is None
    assert verify_schedule(answer.module).ok


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["nic[1, 5]", "node[1].nic[7]", "gpu[1, 3]", "gpu[1, 0] <-> leaf[0]", "leaf[4]"])
def test_parts_of_clusters_are_renamed(cluster: collc.Planner, dead: str) -> None:
    first = cluster.plan("all_gather", **SMALL, dead=dead)
    check(cluster, first, None, dead.replace("node[1].nic[7]", "nic[1, 7]"))
    again = cluster.plan("all_gather", **SMALL, dead=dead)
    assert again.origin in ("cache", "renamed")
    assert again.time_ps == first.time_ps


@pytest.mark.slow
@pytest.mark.parametrize("dead", ["gpu[1, 2]", "nic[0, 6]"])
def test_large_schedules_of_clusters_are_renamed(cluster: collc.Planner, dead: str) -> None:
    check(cluster, cluster.plan("all_gather", size="512MiB", chunks=2, dead=dead), None, dead)


def test_without_a_node_the_rest_is_planned_as_a_smaller_cluster(cluster: collc.Planner) -> None:
    for dead, origin in (("node[1]", "new"), ("node[0]", "renamed")):
        answer = cluster.plan("all_gather", **SMALL, dead=dead)
        assert (answer.origin, answer.plan.module.network.npu_count) == (origin, 8)
        check(cluster, answer, None, dead)


def test_only_those_that_are_left_divide_the_size(planner: collc.Planner) -> None:
    with pytest.raises(SourceError, match="whole number of bytes"):
        planner.plan("all_to_all", size="64KiB", chunks=1)
    check(planner, planner.plan("all_to_all", size="64KiB", chunks=1, dead="npu[1, 2]"), None, "npu[1, 2]")


def test_groups_of_a_kind_have_one_plan(planner: collc.Planner) -> None:
    groups = [[0, 1, 2], [6, 7, 8], [7, 1, 4]]
    answers = [planner.plan("all_reduce", npus=group, **SMALL) for group in groups]
    assert len({answer.key for answer in answers}) == 1
    assert [answer.origin for answer in answers[1:]] == ["renamed", "renamed"]
    for group, answer in zip(groups, answers, strict=True):
        check(planner, answer, group)
    assert answers[2].ranks[0] != answers[1].ranks[0]


@pytest.mark.slow
def test_roots_are_renamed(planner: collc.Planner) -> None:
    npus = [4, 8, 3, 5]
    answers = [planner.plan("broadcast", npus=npus, root=root, **SMALL) for root in (0, 2)]
    assert answers[0].key == answers[1].key
    for root, answer in zip((0, 2), answers, strict=True):
        check(planner, answer, npus)
        run = answer.module.demand.runs[0]
        assert run.standard is not None
        assert run.group[run.standard.root] == npus[root]
        assert answer.ranks[0][root] == run.standard.root
    sent = planner.plan("send_recv", npus=[7, 2], size="1MiB")
    moved = sent.module.transfers()
    assert (moved.source[0], moved.target[-1]) == (7, 2)


@pytest.mark.slow
def test_answers_depend_on_the_request_alone() -> None:
    requests = [
        ("all_gather", {"npus": [0, 1, 3, 4]}),
        ("all_gather", {"npus": [8, 5, 4, 7]}),
        ("all_gather", {"npus": [3, 4, 8]}),
        ("all_reduce", {"dead": ["npu[1, 0]", "npu[0, 2]"], "npus": [0, 4, 8]}),
    ]
    seen = []
    for seed in range(2):
        order = random.Random(seed).sample(range(4), 4)
        with collc.Planner(TORUS) as planner, ThreadPoolExecutor(4) as threads:
            ask = [threads.submit(planner.plan, requests[k][0], **requests[k][1], **SMALL) for k in order]
            answers = {k: future.result() for k, future in zip(order, ask, strict=True)}
            seen.append([(answers[k].key, answers[k].module.transfers().tobytes()) for k in range(4)])
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_files_are_those_of_the_plan_and_their_ranks_are_given(planner: collc.Planner, tmp_path: Path) -> None:
    npus = [8, 5, 7, 4]
    answer = planner.plan("all_gather", npus=npus, runtime="msccl", **SMALL)
    ((name, data),) = answer.files.items()
    (tmp_path / name).write_bytes(data)
    assert collc.verify(tmp_path / name, collective="all_gather").ok
    assert collc.run(tmp_path / name, runs=1).ok
    assert sorted(rank for rank in answer.ranks[0] if rank is not None) == [0, 1, 2, 3]


@pytest.mark.slow
def test_plans_on_disk_are_shared_and_damaged_ones_are_made_again(tmp_path: Path) -> None:
    ring = collc.Network.of("ring", 4, bandwidth="50GiB/s", latency="0.5us")
    ask = {"size": "4MiB", "chunks": 1, "runtime": "msccl"}
    with collc.Planner(ring, cache=tmp_path) as planner:
        first = planner.plan("all_gather", **ask)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.name == first.key
    whole = file.read_bytes()
    with collc.Planner(ring, cache=tmp_path) as planner:
        second = planner.plan("all_gather", **ask)
        assert (second.origin, second.files, second.facts) == ("cache", first.files, first.facts)
        assert second.module.transfers().tobytes() == first.module.transfers().tobytes()
    for damage in (whole[:-1], b"", whole[:200] + b"\0" + whole[201:]):
        assert decode_plan(first.key, damage) is None
        file.write_bytes(damage)
        with collc.Planner(ring, cache=tmp_path) as planner:
            assert planner.plan("all_gather", **ask).origin == "new"
        assert file.read_bytes() == whole
    assert decode_plan("0" * 64, whole) is None


def test_a_plan_that_cannot_be_written_is_kept_and_counted(planner: collc.Planner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    store = PlanStore(1 << 20, tmp_path / "file")
    plan = planner.plan("all_gather", npus=[0, 1], **SMALL).plan
    store.add(plan)
    assert (store.find(plan.key), store.unwritten) == (plan, 1)


def test_memory_is_bounded(planner: collc.Planner) -> None:
    plans = [planner.plan("all_gather", npus=group, **SMALL).plan for group in ([0, 1], [0, 4], [0, 1, 2])]
    size = max(bytes_of((plan.key, plan)) for plan in plans)
    store = PlanStore(2 * size, None)
    for plan in plans:
        store.add(plan)
    assert store.byte_count <= 2 * size
    assert store.find(plans[0].key) is None
    assert store.find(plans[2].key) is plans[2]
    assert bytes_of(plans[0]) > bytes_of(plans[0].facts) > 0
    few = RequestClasses(planner.service.classes.head, planner.service.classes.named, 12000)
    beside = [{"collective": "all_gather", "npus": [0, 1], **SMALL}] * 99
    large = request_of({"collective": "all_gather", **SMALL, "beside": beside})
    few.canonical(large)
    assert few.renamings.held == 0
    few.canonical(request_of({"collective": "all_gather", **SMALL}))
    assert 0 < few.renamings.held <= 6000


def test_bounds_keep_nothing_of_a_plan_that_is_made(planner: collc.Planner) -> None:
    assert planner.plan("all_reduce", npus=[2, 3, 4], **SMALL).origin == "new"
    assert [kept.cache_info().currsize for kept in (ideal_bound, fluid_of, narrow_sets)] == [0, 0, 0]


@pytest.mark.slow
def test_the_sessions_give_what_the_page_says() -> None:
    page = Path(__file__).parents[2] / "docs" / "planner.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert (outcome.failed, outcome.attempted >= 9) == (0, True)


@pytest.mark.slow
def test_a_deadline_gives_the_best_so_far_and_goes_on_behind() -> None:
    ring = collc.Network.of("ring", 4, bandwidth="50GiB/s", latency="0.5us")
    planner = collc.Planner(ring)
    first = planner.plan("all_reduce", size="4MiB", within="60s")
    assert (first.final, verify_schedule(first.module).ok) == (False, True)
    with pytest.raises(NoSchedule, match="goes on behind"):
        planner.plan("all_reduce", size="8MiB", within=1e-9)
    planner.service.wait()
    for size in ("4MiB", "8MiB"):
        answer = planner.service.look_up(request_of({"collective": "all_reduce", "size": size}))
        assert answer is not None
        assert (answer.final, answer.origin) == (True, "cache")


def test_schedules_over_switches_without_cables_are_renamed() -> None:
    lines = "".join(f"link n[{i}] <-> s[{k}] (bandwidth: 50GiB/s, latency: 1us)\n" for i in range(4) for k in range(2))
    head = f"topology t {{ npu n[4] switch s[2] (multicast: false, reduce: false) {lines} }}\n"
    service = PlanningService.of(SourceFile("p", head), "t", 1 << 28, None)
    request = {"collective": "all_reduce", "size": "4MiB", "chunks": 1}
    for dead in ("n[2] <-> s[1]", "n[1] <-> s[0]"):
        answer = service.answer(request_of({**request, "dead": dead}))
        assert not answer.module.network.unwound
        assert answer.request.renaming.devices is not None
        assert verify_schedule(answer.module).ok
    service.close()


def test_sizes_of_an_all_to_allv_are_a_matrix(planner: collc.Planner) -> None:
    answer = planner.plan("all_to_allv", npus=np.array([4, 2]), sizes=[[0, "3MiB"], [1500, 0]])
    assert verify_schedule(answer.module).ok
    run, rows = answer.module.demand.runs[0], answer.module.transfers()
    sent = {npu: int(rows.size_bytes[rows.source == npu].sum()) for npu in run.group.tolist()}
    assert sent == {4: 3 << 20, 2: 1500}


def test_groups_beside_each_other_are_free_of_congestion(planner: collc.Planner) -> None:
    beside = [{"collective": "all_gather", "npus": [1, 4], "size": "2MiB", "chunks": 1}]
    answer = planner.plan("all_gather", npus=[0, 3], size="2MiB", chunks=1, beside=beside)
    assert verify_schedule(answer.module).ok
    assert len(answer.facts.run_times_ps) == 2
    shares = answer.link_shares()
    assert shares.shape == (2, answer.module.network.link_count)
    assert 0 < shares.sum(axis=0).max() <= 1
    moved = planner.plan("all_gather", npus=[8, 5], size="2MiB", chunks=1, beside=[{**beside[0], "npus": [7, 4]}])
    assert moved.key == answer.key
    assert verify_schedule(moved.module).ok
    assert [sorted(run.group.tolist()) for run in moved.module.demand.runs] == [[5, 8], [4, 7]]


@pytest.mark.parametrize(
    ("collective", "options", "expected"),
    [
        ("all_gathr", {"size": "1MiB"}, "there is no 'all_gathr'"),
        ("all_gather", {}, "needs 'size'"),
        ("all_gather", {"size": "1 apple"}, "a size"),
        ("all_gather", {"size": True}, "a size"),
        ("all_gather", {"size": "1MiB", "chunks": "x); import"}, "a whole number"),
        ("all_reduce", {"size": "1MiB", "op": 'sum")'}, "a word"),
        ("all_gather", {"size": "1MiB", "npus": [0, 99]}, "NPU 99 does not exist"),
        ("all_gather", {"size": "1MiB", "npus": [1, 1]}, "different members"),
        ("all_gather", {"size": "1MiB", "npus": "01"}, "a list of numbers"),
        ("all_gather", {"size": "1MiB", "npus": np.array([[0, 1], [2, 3]])}, "a list of numbers"),
        ("all_to_allv", {"sizes": [1, 2]}, "a list of sizes"),
        ("all_to_allv", {"sizes": [[[[1]]]]}, "a size"),
        ("all_to_allv", {"npus": [0, 1], "sizes": [[0, -1], [0, 0]]}, "a size"),
        ("all_gather", {"size": "1MiB", "dead": ["a\nb"]}, "the name of a part"),
        ("all_gather", {"size": "1MiB", "dead": "npu[9, 9]"}, "no parts with these indices"),
        ("all_gather", {"size": "1MiB", "slow": "npu[0, 0]"}, "bandwidths by names of parts"),
        ("all_gather", {"size": "1MiB", "slow": {"a;b": "1/2"}}, "the name of a part"),
        ("all_gather", {"size": "1MiB", "slow": {"npu[0, 0]": "half"}}, "or the share that is left"),
        ("all_gather", {"size": "1MiB", "slow": {"npu[0, 0]": "1/0"}}, "or the share that is left"),
        ("all_gather", {"size": "1MiB", "slow": {"npu[0, 0]": "2/1"}}, "no part of the bandwidth of npu[0, 0]"),
        ("all_gather", {"size": "1MiB", "slow": {"npu[0, 0]": "900GB/s"}}, "900GB/s is no part of the bandwidth"),
        ("all_gather", {"size": "1MiB", "dead": "npu[0, *] <-> npu[1, 0]"}, "is one device, not 3"),
        ("all_gather", {"size": "1MiB", "dead": "npu[0, 0] <-> npu[1, 1]"}, "no link npu[0, 0] <-> npu[1, 1]"),
        ("all_gather", {"size": "1MiB", "dead": "npu[0, 0] -> npu[0, 0]"}, "has no link npu[0, 0] -> npu[0, 0]"),
        ("all_gather", {"size": "1MiB", "within": 10**400}, "within"),
        ("all_gather", {"size": "1MiB", "within": f"{10**400}s"}, "within"),
        ("all_gather", {"size": "1MiB", "within": "1e-400s"}, "within"),
        ("all_gather", {"size": "1MiB", "runtime": "exe"}, "runtime"),
        ("all_gather", {"size": "1MiB", "color": 1}, "has no 'color'"),
        ("broadcast", {"size": "1MiB", "npus": [0, 1], "root": 2}, "no rank 2"),
        ("all_gather", {"size": "1MiB", "link_model": "magic"}, "link_model"),
        ("all_gather", {"size": "1MiB", "beside": [1]}, "a list of runs"),
    ],
)
def test_wrong_requests_have_a_message(
    planner: collc.Planner, collective: str, options: dict[str, object], expected: str
) -> None:
    with pytest.raises((UsageError, SourceError)) as caught:
        planner.plan(collective, **options)
    assert expected in str(caught.value)


def test_a_plan_that_cannot_be_written_is_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("collc.application.planner.plan_store.write_file", fail)
    monkeypatch.setattr(Path, "unlink", fail)
    with collc.Planner(TORUS, cache=tmp_path) as planner:
        first = planner.plan("all_gather", npus=[0, 1], **SMALL)
        damaged = tmp_path / first.key[:2] / first.key
        damaged.parent.mkdir()
        damaged.write_bytes(b"")
        assert planner.service.plans_waiting == 0
        assert planner.plan("all_gather", npus=[0, 1], **SMALL).plan is first.plan
        assert PlanStore(0, tmp_path).find(first.key) is None


def test_work_that_cannot_begin_or_ends_badly_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with collc.Planner(TORUS) as planner:
        for owner, name in ((planner.service.workers, "submit"), (planner.service.store, "add")):
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, fail)
                with pytest.raises(MemoryError):
                    planner.plan("all_gather", npus=[0, 1], **SMALL)
            assert planner.service.plans_waiting == 0


class Held(Threads):
    """Workers that begin nothing: what they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[float | None, Future[StoredPlan]]] = []

    def submit(self, request: CanonicalRequest, seconds: float | None = None) -> Future[StoredPlan]:
        self.given.append((seconds, Future()))
        return self.given[-1][1]


def test_equal_deadlines_share_work_that_ends_with_the_last_of_them(planner: collc.Planner) -> None:
    workers = Held()
    service = PlanningService(planner.service.classes, PlanStore(1 << 20, None), workers)
    request = request_of({"collective": "all_gather", "npus": [0, 1], **SMALL})
    known = service.classes.canonical(request)
    first, second = service.start_limited(known, 8.0), service.start_limited(known, 8.0)
    assert first is second
    assert ([seconds for seconds, _ in workers.given], service.plans_waiting) == ([4.0, None], 2)
    assert service.is_making(known, 8.0)
    assert not service.is_making(known, 9.0)
    service.give_up(known, 8.0, first)
    assert not first.done()
    service.give_up(known, 8.0, second)
    assert [work.cancelled() for _, work in workers.given] == [True, False]
    assert service.plans_waiting == 1
    with pytest.raises(NoSchedule, match="there is no schedule within"):
        service.answer(request, 0.001)
    assert workers.given[-1][1].cancelled()
    service.give_up(known, 8.0, first)  # of work that is gone
    workers.close()


def test_an_answer_that_is_not_final_has_no_files_for_others(planner: collc.Planner) -> None:
    answer = planner.plan("all_gather", npus=[0, 1], runtime="msccl", **SMALL)
    facts = replace(answer, final=False).as_json()
    assert (answer.as_json()["files"], facts["files"]) == ({name: len(data) for name, data in answer.files.items()}, {})
    with pytest.raises(KeyError, match="has 0 files"):
        RemoteAnswer(facts, collc.Client()).read_file()


def test_plans_are_of_the_imports_that_were_read_at_first(tmp_path: Path) -> None:
    name, ask = tmp_path / "speed.coll", request_of({"collective": "all_gather", "npus": [0, 1], **SMALL})
    head = 'import std.topologies\nimport "speed.coll"\ntopology loop = ring(3, bandwidth: speed, latency: 1us)\n'
    times: list[int] = []
    for changed in (False, True):
        name.write_text("let speed = 50GiB/s\n")
        service = PlanningService.of(SourceFile(str(tmp_path / "net.coll"), head), "loop", 1 << 20, None)
        if changed:
            name.write_text("let speed = 1GiB/s\n")
        times.append(service.answer(ask).time_ps)
        service.close()
    assert times[0] == times[1]


def test_the_first_of_the_arguments_of_a_planner_are_checked() -> None:
    with pytest.raises(TypeError, match="must be a Network"):
        collc.Planner("dgx_h100(2)")
    with pytest.raises(ValueError, match="memory must be a size"):
        collc.Planner(TORUS, memory="lots")


def test_a_server_needs_its_extra_and_elsewhere_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "collc.application.serve.server", raising=False)
    program, token = tmp_path / "net.coll", tmp_path / "token"
    token.write_text("\n")
    for options, code in (([], "U0164"), (["--host", "10.0.0.1"], "U0165"), (["--token-file", str(token)], "U0165")):
        chosen = parse_arguments(["serve", str(program), *options])
        assert chosen is not None
        with pytest.raises(UsageError) as caught:
            run_command(chosen)
        assert caught.value.diagnostics[0].code == code


def test_the_schema_has_what_the_planner_reads_and_writes(planner: collc.Planner) -> None:
    parts: Any = interface_schema()["$defs"]
    answer = planner.plan("all_gather", npus=[0, 1], **SMALL)
    assert answer.as_json().keys() == {*parts["answer"]["required"]} == parts["answer"]["properties"].keys()
    for name in parts["request"]["properties"].keys() - {"collective", "npus", "beside", "within"}:
        assert any(name in parameters(kind) for kind in shapes()) or name in PlanRequest.__dataclass_fields__, name


def test_clients_refuse_addresses_that_are_none() -> None:
    with pytest.raises(ValueError, match="must begin with http"):
        collc.Client("ftp://host").health()
    with pytest.raises(OSError, match="No such file"):
        collc.Client("/nowhere/socket").health()
